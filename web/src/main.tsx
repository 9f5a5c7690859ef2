// The entry point of the web UI: connects to the server, and shows the view that the address opens.

import './ui/gate.ts';

import { signal } from '@preact/signals';
import { render } from 'preact';

import type { ConversationView } from './conversation/view.tsx';
import { learn } from './conversation/tool-kinds.ts';
import * as push from './notifications/push.ts';
import { title, watch } from './notifications/notices.ts';
import { resume } from './projects/acts.tsx';
import { addressOf } from './projects/rows.ts';
import { Client } from './protocol/client.ts';
import { takeSocket } from './protocol/socket.ts';
import { codeIn, Connect, type Invitation } from './settings/connect.tsx';
import { fileAddress, inProject } from './files/address.ts';
import { reviewAddress } from './review/address.ts';
import { applyTheme } from './settings/theme.ts';
import { live } from './state/live.ts';
import * as kept from './state/kept.ts';
import { Reviews } from './state/reviews.ts';
import { Sessions } from './state/sessions.ts';
import { baseName } from './ui/dom.ts';
import { nextWaiting } from './ui/next.ts';
import { closeAll, Confirm, overlay, Overlays } from './ui/overlays.tsx';
import { Shell } from './ui/shell.tsx';
import { listen } from './ui/shortcuts.ts';
import { failed, notLoaded, said } from './ui/toasts.tsx';
import { type Place, placeIn } from './ui/place.ts';
import { type World, WorldContext } from './ui/world.ts';

const client = new Client(takeSocket);
const app = document.getElementById('app') as HTMLElement;

/** The module that renders sessions. It loads while the web UI connects, but the frame is shown first. */
const drawing = { part: undefined as typeof import('./conversation/view.tsx') | undefined };

/** The view of the session that is shown. */
const view = signal<ConversationView | undefined>(undefined);

let last: ConversationView | undefined;
view.subscribe((now) => {
  if (last !== now) last?.dispose();
  last = now;
});

/** Why the server has refused the token or code. Empty if the token is not valid, undefined if nothing was refused. */
const refused = signal<string | undefined>(undefined);

/** The code with which this device is being paired, and the server's fingerprint if a link contained it. */
const invited = signal<Invitation | undefined>(undefined);

/** Whether the sign-in form is shown. */
const isOutside = signal(false);

/** A token that the server has not accepted yet. Once accepted, it becomes this device's token. */
let trying = kept.triedToken();

/** The code of a sign-in link, until it is known whether this device's own token is still valid, and what it allows. */
let offered: string | undefined;

/** The content of a pairing link, until it is known whether this device's own token is still valid. */
let held: Invitation | undefined;

/** Whether the token was typed. If so, the form stays until the server has accepted it. */
let isTyped = false;

const world: World = {
  client,
  live: live(client),
  sessions: new Sessions(client),
  reviews: new Reviews(client),
  place: signal<Place>({ view: 'home' }),
  filter: signal(''),
  drawer: signal(false),
  folded: signal(kept.folded()),
  go,
  showSettings: () => go('#/settings'),
  forget,
  showKeys: () => void import('./ui/views.ts').then(({ showKeys }) => showKeys(), notLoaded),
  showPalette: () => void import('./ui/views.ts').then(({ showPalette }) => showPalette(world), notLoaded),
  stop: () => view.value?.stop(),
};

function go(address: string) {
  if (location.hash === address) {
    route();
    requestAnimationFrame(focusBox);
  } else location.hash = address;
}

/**
 * Uses a token, a sign-in code or a pairing code in the address, and removes it from there. Returns whether it updated
 * the view.
 */
function takeSecrets() {
  const asked = new URLSearchParams(location.hash.replace(/^#\/?/, ''));
  const given = asked.get('token');
  if (given) {
    // Removed from the address bar and the history before anybody can read it over the user's shoulder.
    const project = asked.get('project');
    history.replaceState(null, '', `${location.pathname}${project ? addressOf(project) : '#/'}`);
    if (!kept.token()) {
      tryToken(given);
      return true;
    }
    // Any website can link here with a token, so this device's own token is replaced only if the user agrees.
    if (given !== kept.token())
      replaceAccess('contains an access token', 'Use the link’s token', () => tryToken(given));
  }
  const local = codeIn(asked.get('sign-in') ?? '');
  if (local) {
    history.replaceState(null, '', `${location.pathname}#/`);
    // The server has printed the link for a browser on its own machine, so the user does not need to compare or confirm
    // anything.
    if (!kept.token()) {
      pair(local, kept.clientName());
      return true;
    }
    offered = local;
    if (client.hello) takeOffered();
  }
  const code = codeIn(asked.get('pair') ?? '');
  if (code) {
    const bytes = asked
      .get('fp')
      ?.toUpperCase()
      .match(/[0-9A-F]{2}/g);
    history.replaceState(null, '', `${location.pathname}#/`);
    const link = { code, fingerprint: bytes?.join(':') };
    if (!kept.token() || isOutside.value) {
      invite(link);
      return true;
    }
    held = link;
    if (client.hello) takeHeld();
  }
  return false;
}

/** Shows the view that the address opens. */
function route() {
  if (takeSecrets()) return;
  const token = trying ?? kept.token();
  isOutside.value = !token || isTyped || refused.value !== undefined || invited.value !== undefined;
  if (isOutside.value) {
    view.value = undefined;
    return;
  }
  if (client.connection.state === 'idle') {
    view.value = undefined;
    client.start(token);
  }
  const place = placeIn(location.hash);
  world.place.value = place;
  world.drawer.value = false;
  const id = place.view === 'project' ? place.project : undefined;
  const session = place.view === 'project' ? place.session : undefined;
  // A review also needs the conversation, to know whether comments can be added to its current run.
  client.choose(place.view === 'review' ? place.project : id, session);
  if (view.value?.id !== id || view.value?.session !== session) {
    view.value = id === undefined ? undefined : viewOf(id, session);
    requestAnimationFrame(focusBox);
    if (id !== undefined && !view.value) void load();
  }
  if (place.view === 'project' && place.seq !== undefined) void view.value?.goTo(place.seq);
  draw();
}

/** Focuses the message box on a computer, unless the session waits for an answer. A phone would open its keyboard. */
function focusBox() {
  const place = world.place.value;
  if (place.view !== 'project' || !matchMedia('(hover: hover) and (pointer: fine)').matches) return;
  const at = document.activeElement;
  const isFree = !at || at === document.body || at.closest('.side, .project-head, .palette, .start, .welcome') !== null;
  const waits = client.projects.all.get(place.project)?.approvals.length;
  if (isFree && !waits && !document.querySelector('dialog[open]'))
    document.querySelector<HTMLElement>('#prompt')?.focus({ preventScroll: true });
}

function viewOf(id: string, session: string | undefined) {
  const resumes = (one: string) => void resume(world, id, one).catch(failed);
  const openFile = (path: string, line?: number) =>
    go(fileAddress(id, inProject(client.projects.all.get(id)?.path ?? '', path), line));
  const openReview = () => go(reviewAddress(id));
  return (
    drawing.part &&
    new drawing.part.ConversationView(
      client,
      id,
      { said, failed, fork, openFile, openReview, reviews: world.reviews, resume: resumes, moved: markRead },
      session,
    )
  );
}

let loading: Promise<void> | undefined;

function load() {
  loading ??= import('./conversation/view.tsx').then(
    (part) => {
      drawing.part = part;
      part.listenForStop(() => view.value?.foot);
      route();
    },
    () => {
      loading = undefined;
      notLoaded();
    },
  );
  return loading;
}

const fork = (project: any) =>
  client.fork(project).then((id) => {
    go(addressOf(id));
    said('Forked. Your next message continues in the copy.');
  }, failed);

function tries(token: string | undefined) {
  trying = token;
  kept.keepTriedToken(token);
}

function tryToken(token: string, typed = false) {
  refused.value = invited.value = undefined;
  tries(token);
  isTyped = typed;
  view.value = undefined;
  client.start(token);
  route();
}

function pair(code: string, name: string) {
  invited.value = { ...invited.value, code };
  refused.value = undefined;
  kept.keepClientName(name);
  client.pair(code, name);
  route();
}

/** Asks whether a link may replace this device's access. @param what what the link does or contains */
function replaceAccess(what: string, yes: string, act: () => void) {
  overlay((close) => (
    <Confirm
      title="Replace this device’s access?"
      text={`This link ${what}, but this device is already signed in. If you didn’t expect this, keep the current access.`}
      yes={yes}
      no="Keep this device’s access"
      act={act}
      close={close}
    />
  ));
}

/**
 * Asks whether to use a sign-in link's code, if it allows more. Called once the server has accepted this device's
 * token.
 */
function takeOffered() {
  const code = offered;
  offered = undefined;
  if (code === undefined || client.hello.device.scope === 'admin') return;
  replaceAccess('gives full access', 'Use the link', () => pair(code, kept.clientName()));
}

/**
 * Asks whether to use a pairing link's code, which may be meant for another device. Called once the server has accepted
 * this device's token.
 */
function takeHeld() {
  const link = held;
  held = undefined;
  if (link !== undefined) replaceAccess('contains a pairing code', 'Use the code', () => invite(link));
}

/** Shows the sign-in form with the code of a pairing link. */
function invite(link: Invitation) {
  held = undefined;
  invited.value = link;
  refused.value = undefined;
  client.stop();
  route();
}

/**
 * Signs in or out as another window of this browser has done. Returns false if there was nothing to do, or if this
 * window uses another token or code that was entered in it.
 */
function follow(): boolean {
  const token = kept.token();
  if (token === client.token || trying !== undefined || invited.value) return false;
  refused.value = token ? undefined : (refused.value ?? SIGNED_OUT);
  if (!token) closeAll();
  client.stop();
  route(); // connects with the token, if there is one
  draw();
  return true;
}

const SIGNED_OUT = 'This browser was signed out in another window. Enter a code or a token.';

async function forget() {
  await push.unsubscribe(client).catch(() => {});
  kept.keepToken('');
  tries(undefined);
  client.stop();
  location.hash = '';
  location.reload();
}

function Page() {
  void world.live.connection.value;
  if (!isOutside.value)
    return (
      <WorldContext.Provider value={world}>
        <Shell shown={view.value} />
      </WorldContext.Provider>
    );
  return (
    <>
      <Connect
        refused={refused.value}
        invited={invited.value}
        busy={client.connection.state === 'connecting'}
        connect={(token) => tryToken(token, true)}
        pair={pair}
      />
      <Overlays />
    </>
  );
}

function shownProject() {
  const id = view.value?.id;
  return id === undefined ? undefined : client.projects.all.get(id);
}

let isDrawing = false;

/** Updates the view, at most once per frame. */
function draw() {
  entitle();
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => {
    isDrawing = false;
    document.documentElement.dataset.connection = client.connection.state;
    view.value?.update();
    markRead();
  });
}

/** Notes that the session that is shown has been read, if its latest records are in view. */
function markRead() {
  const project = shownProject();
  if (project && !document.hidden && view.value?.isLatestInView) kept.keepSeen(project.id, project.last_seq);
}

/**
 * Updates the title, without waiting for a frame, because a background page gets none, but needs the number in its
 * title.
 */
function entitle() {
  if (!client.projects.known && !isOutside.value) return;
  const project = shownProject();
  title(isOutside.value ? 0 : client.projects.waiting, project && baseName(project.path));
}

client.addEventListener('change', (event) => {
  const what = (event as CustomEvent).detail;
  if (what === 'connection' && client.connection.state === 'open' && trying !== undefined) {
    kept.keepToken(trying);
    tries(undefined);
    if (isTyped) {
      isTyped = false;
      route();
    }
  } else if (what === 'connection' && client.connection.state === 'refused') {
    const why = client.connection.refusal;
    if (offered !== undefined && trying === undefined) {
      const code = offered;
      offered = undefined;
      pair(code, kept.clientName());
      return;
    }
    if (held !== undefined && trying === undefined) {
      invite(held);
      return;
    }
    // The stored token is a newer one, which was not refused.
    if (kept.token() !== '' && follow()) return;
    const mayReturn = trying !== undefined && kept.token() !== '';
    const isStored = !invited.value && trying === undefined;
    const invalid = isStored
      ? 'The server no longer accepts the token that this browser had stored. Enter a code or a token.'
      : '';
    refused.value = mayReturn ? undefined : why && why.code !== 'UNAUTHORIZED' ? why.message : invalid;
    if (mayReturn) {
      const wrong = isTyped ? 'The token isn’t valid.' : 'The token in the link isn’t valid.';
      const reason = why && why.code !== 'UNAUTHORIZED' ? why.message : wrong;
      said(`${reason} This device stays signed in.`, 'problem');
      client.start(kept.token());
      view.value = undefined;
    } else if (isStored) kept.keepToken('');
    tries(undefined);
    isTyped = false;
    route();
  } else if (what === 'paired') {
    invited.value = undefined;
    route();
  } else if (what === 'hello') {
    learn(client.hello.agent_words);
    takeOffered();
    takeHeld();
    view.value?.redraw();
    void push.renew(client);
  } else if (what === 'gone') {
    said('This project or session was removed, or this device can’t see it.', 'problem');
    go('#/');
  }
  draw();
});
client.addEventListener('message', (event) => {
  const { type, project_id, data } = (event as CustomEvent).detail;
  if (type === 'update' && data.update_type === 'disk_warning')
    said(client.projects.named(data.data.message, project_id), 'problem');
});
client.addEventListener('refused', (event) => {
  const { prompt, project, error } = (event as CustomEvent).detail;
  if (view.value?.id === project && !view.value?.composer.area.value) view.value?.composer.put(prompt);
  failed(error);
});

/** Checks whether the server can be reached, because a socket does not notice that the device was asleep. */
function look() {
  client.connection.hurry();
  client.connection.check();
  world.live.connection.value++;
}

addEventListener('hashchange', route);
kept.onToken(follow);
addEventListener('online', look);
addEventListener('offline', () => {
  client.connection.lost();
  world.live.connection.value++;
});
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) {
    follow(); // a window that was frozen has missed the events of the others
    look();
  }
  draw();
});
setInterval(() => view.value?.tick(), 1000);
// Keeps times such as "3 min ago" current.
setInterval(() => world.live.projects.value++, 30_000);
setInterval(look, 30_000);
applyTheme();
watch(client, world.reviews);
listen({
  view: () => view.value,
  help: world.showKeys,
  // The sign-in form must not lead to what was loaded before.
  palette: () => isOutside.value || world.showPalette(),
  next: () => {
    const address = isOutside.value ? undefined : nextWaiting(world);
    return address === undefined ? undefined : () => go(address);
  },
});
route();
document.documentElement.dataset.started = 'yes';
app.replaceChildren();
render(<Page />, app);

/** Installs the service worker. */
function install() {
  // The only script address that is not in a tag. The content security policy requires a Trusted Types policy for it.
  const policy = (window as any).trustedTypes?.createPolicy('drawbridge', { createScriptURL: () => 'sw.js' });
  void navigator.serviceWorker.register(policy ? policy.createScriptURL('') : 'sw.js').catch(() => {});
}

// The service worker fetches files, too, so it is installed after what a session needs has been loaded.
const needed = isOutside.value ? [] : [load(), import('./text/lexer.ts').catch(() => {})];
if ('serviceWorker' in navigator) void Promise.all(needed).then(install);
