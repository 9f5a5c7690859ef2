// The page: which view is shown, and what is said about the connection.

import { Client } from './client.js';
import { help } from './dialog-help.js';
import { addProject, removeProject, replaceToken, sessions } from './dialogs.js';
import { baseName, button, fill, h } from './dom.js';
import * as kept from './kept.js';
import { title, watch } from './notices.js';
import * as push from './push.js';
import { listen } from './shortcuts.js';
import { codeIn, connectView } from './view-connect.js';
import { ConversationView } from './view-conversation.js';
import { ProjectList } from './view-projects.js';

const socketUrl = () => `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws`;

const client = new Client(() => new WebSocket(socketUrl()));
const app = /** @type {HTMLElement} */ (document.getElementById('app'));
const toasts = /** @type {HTMLElement} */ (document.getElementById('toasts'));

/** @type {ConversationView | undefined} */
let view;
/** Why the server does not take the token; undefined: nothing is said against it. @type {string | undefined} */
let refused;

/** A token that the server has not taken yet: it is kept once it has. @type {string | undefined} */
let trying;

/** What a link to pair this device brought. @type {{code: string, fingerprint?: string} | undefined} */
let invited;

const list = new ProjectList(client, { add: () => addProject(client, (id) => go(`#/p/${id}`)) });
const line = h('p', { class: 'connection', role: 'status' });
const bar = h('header', { class: 'bar' },
  h('a', { href: '#/', class: 'brand' }, h('img', { src: 'icon.svg', alt: '', width: 24, height: 24 }), h('h1', { text: 'Drawbridge' })),
  line, button({ label: 'Help and settings', icon: 'help', bare: true, class: 'quiet', onclick: () => showHelp() }));
const place = h('main', {});
const frame = h('div', { class: 'frame' }, list.element, place);
const nothing = h('div', { class: 'empty' }, h('p', { text: 'Select a project, or add one to get started.' }));

function go(/** @type {string} */ hash) {
  if (location.hash === hash) route();
  else location.hash = hash;
}

/** Shows what the address says. */
function route() {
  const asked = new URLSearchParams(location.hash.replace(/^#\/?/, ''));
  const given = asked.get('token');
  if (given) {
    // Out of the address bar and the history, before anybody looks over the shoulder.
    const project = asked.get('project');
    history.replaceState(null, '', `${location.pathname}#/${project ? `p/${project}` : ''}`);
    if (!kept.token()) {
      tryToken(given);
      return;
    }
    // Any page can link here with a token: a token that works is replaced only after the person agrees.
    if (given !== kept.token()) replaceToken(() => tryToken(given));
  }
  const code = codeIn(asked.get('pair') ?? '');
  if (code) {
    invited = { code, fingerprint: asked.get('fp')?.toUpperCase().match(/[0-9A-F]{2}/g)?.join(':') };
    refused = undefined;
    client.connection.stop();
    history.replaceState(null, '', `${location.pathname}#/`);
  }
  const token = trying ?? kept.token();
  if (!token || refused !== undefined || invited) {
    view = undefined;
    fill(app, connectView({ refused, ...invited, busy: client.connection.state === 'connecting', connect: tryToken, pair }));
    app.querySelector('input')?.focus();
    return;
  }
  if (client.connection.state === 'idle') {
    view = undefined;
    client.start(token);
  }
  if (!app.contains(frame)) fill(app, bar, frame);
  const id = /^#\/p\/([\w-]+)$/.exec(location.hash)?.[1];
  client.choose(id);
  if (view?.id !== id) {
    view = id === undefined ? undefined : new ConversationView(client, id, { said, failed, sessions: () => sessions(client, id, said), remove: () => removeProject(client, id, home), fork });
    fill(place, view ? view.element : nothing);
  }
  frame.classList.toggle('inside', Boolean(view));
  draw();
}

const home = () => go('#/');

/** A session of the desk goes on here, as a copy. */
const fork = (/** @type {any} */ project) =>
  client.fork(project).then((id) => {
    go(`#/p/${id}`);
    said('The next prompt goes on with a copy of that session.');
  }, failed);

function tryToken(/** @type {string} */ token) {
  refused = invited = undefined;
  trying = token;
  view = undefined;
  client.start(token);
  route();
}

function pair(/** @type {string} */ code, /** @type {string} */ name) {
  invited = { ...invited, code };
  refused = undefined;
  kept.keepClientName(name);
  client.pair(code, name);
  route();
}

const WORDS = { idle: '', connecting: 'Connecting…', open: '', waiting: 'No connection to the server. Trying again…', refused: '' };

let drawing = false;
let listChanged = true;

/** Once a frame, however much was heard; the list only where it may be another one (partial text changes nothing in it). */
function draw(wholly = true) {
  listChanged ||= wholly;
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const { state } = client.connection;
    const words = navigator.onLine || state === 'open' ? WORDS[state] : 'This device is offline. What you write is kept.';
    if (line.textContent !== words) line.textContent = words;
    document.documentElement.dataset.connection = state;
    const id = view?.id;
    const project = id === undefined ? undefined : client.projects.all.get(id);
    if (id !== undefined && project && !document.hidden) kept.keepSeen(id, project.last_seq);
    view?.update();
    if (listChanged) list.update(id);
    listChanged = false;
    title(client.projects.waiting, project && baseName(project.path));
  });
}

/** A few words that go by themselves. */
function said(/** @type {string} */ text, kind = '') {
  const toast = h('p', { class: `toast ${kind}`, text });
  toasts.append(toast);
  setTimeout(() => toast.remove(), 6000);
}

/** What somebody has to do something about: it stays until it was read. */
function warn(/** @type {string} */ text) {
  const toast = h('p', { class: 'toast problem', text }, button({ label: 'Close', icon: 'cross', bare: true, class: 'quiet', onclick: () => toast.remove() }));
  toasts.append(toast);
}

const failed = (/** @type {any} */ error) => said(error?.message ?? String(error), 'problem');

function showHelp() {
  help(client, { forget: async () => {
    await push.unsubscribe(client).catch(() => {});
    kept.keepToken('');
    client.connection.stop();
    location.hash = '';
    location.reload();
  } });
}

client.addEventListener('change', (event) => {
  const what = /** @type {CustomEvent} */ (event).detail;
  if (what === 'connection' && client.connection.state === 'open' && trying !== undefined) {
    kept.keepToken(trying);
    trying = undefined;
  } else if (what === 'connection' && client.connection.state === 'refused') {
    const why = client.connection.refusal;
    const mayReturn = trying !== undefined && kept.token() !== '';
    refused = mayReturn ? undefined : why && why.code !== 'UNAUTHORIZED' ? why.message : '';
    if (mayReturn) {
      warn('The token of the link isn’t valid. This device keeps the one it has.');
      client.start(kept.token());
      view = undefined;
    } else if (!invited && trying === undefined) kept.keepToken('');
    trying = undefined;
    route();
  } else if (what === 'paired') {
    invited = undefined;
    route();
  } else if (what === 'hello') {
    view?.redraw();
    void push.renew(client);
  } else if (what === 'gone') {
    said('This project is not there any more: somebody removed it.', 'problem');
    home();
  }
  draw(what !== 'conversation');
});
client.addEventListener('message', (event) => {
  const { type, project_id, data } = /** @type {CustomEvent} */ (event).detail;
  if (type === 'update' && data.update_type === 'disk_warning') warn(client.projects.named(data.data.message, project_id));
});
client.addEventListener('refused', (event) => {
  const { prompt, project, error } = /** @type {CustomEvent} */ (event).detail;
  if (view?.id === project && !view?.composer.area.value) view?.composer.put(prompt);
  failed(error);
});

/** Whether the server is there, also after a sleep of which nobody said a word. */
function look() {
  client.connection.hurry();
  client.connection.check();
}

addEventListener('hashchange', route);
addEventListener('online', look);
addEventListener('offline', () => client.connection.lost());
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) look();
  draw();
});
setInterval(() => view?.tick(), 1000);
setInterval(draw, 30_000);
setInterval(look, 30_000);
watch(client);
listen({ view: () => view, help: showHelp });
route();

if ('serviceWorker' in navigator) {
  // The one address of a script that is not in a tag: the page's policy wants it vouched for.
  const policy = /** @type {any} */ (window).trustedTypes?.createPolicy('drawbridge', { createScriptURL: () => 'sw.js' });
  void navigator.serviceWorker.register(policy ? policy.createScriptURL('') : 'sw.js').catch(() => {});
}
