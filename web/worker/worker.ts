// The service worker: caches the web UI's own files, so that it opens offline, and shows notifications. It never caches
// anything that an agent wrote.

import { reviewAddress } from '../src/review/address.ts';
import { deviceName } from '../src/state/device-name.ts';

declare const self: ServiceWorkerGlobalScope;

/** The addresses of this version's files. `VERSION`: its name. The build inserts both. */
declare const FILES: string[];
declare const VERSION: string;

const CACHE = `drawbridge-${VERSION}`;

/** Paths that are never cached. */
const NEVER = ['/health', '/ca.crt'];

self.addEventListener('install', (event) => event.waitUntil(fill()));
self.addEventListener('activate', (event) => event.waitUntil(take()));

/** Caches all files of this version, or none. If that fails, the files of the previous version stay. */
async function fill(): Promise<void> {
  const cache = await caches.open(CACHE);
  // The visit that installs the worker has already fetched most of the parts.
  const cached = (file: string) => (file.startsWith('part-') ? 'force-cache' : 'no-cache');
  await cache.addAll(FILES.map((file) => new Request(file, { cache: cached(file) })));
  await self.skipWaiting();
}

async function take(): Promise<void> {
  for (const name of await caches.keys())
    if (name.startsWith('drawbridge-') && name !== CACHE) await caches.delete(name);
  await self.clients.claim();
}

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== location.origin || NEVER.includes(url.pathname)) return;
  event.respondWith(answer(request));
});

/**
 * A part comes from the cache if it is there. Any other file comes from the server if that can be reached, so that the
 * web UI has the server's version, and otherwise from the cache. These files are cached only by `fill`, so that the cached
 * index.html is never newer than the cached parts, without which it does not start.
 */
async function answer(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  // A cached part is never outdated, because its name changes with its content.
  const isPart = new URL(request.url).pathname.startsWith('/part-');
  const known = await cache.match(request, { ignoreSearch: true });
  if (isPart && known) return known;
  try {
    const fresh = await fetch(request);
    if (fresh.ok && isPart) await cache.put(request, fresh.clone());
    return fresh;
  } catch (error) {
    if (known) return known;
    throw error;
  }
}

/**
 * What the server sends. `review`: whether it is about the project's review. `token`: allows one decision on
 * `approval_id`. `whole`: whether `body` is the whole command.
 */
type Push = {
  title: string;
  body: string;
  project: string;
  review?: boolean;
  approval_id?: string;
  whole?: boolean;
  token?: string;
};

/** The data of a notification. `answer`: the request that its buttons decide on. */
type Carried = { address: string; answer?: { project: string; approval: string; token: string } };

/** The `project` of a test notification. */
const TEST = 'test';

// Browsers require a notification for each push. While the web UI is visible, it is closed immediately, unless it is a
// test, which the user sends from there.
self.addEventListener('push', (event) => {
  const { title, body, project, ...rest } = (event.data?.json() ?? {}) as Push;
  event.waitUntil(notify({ title: String(title), body: String(body), project: String(project), ...rest }));
});

async function notify({ title, body, project, review, approval_id: approval, whole, token }: Push): Promise<void> {
  const answer = whole && approval && token ? { project, approval, token } : undefined;
  // The notification of another command must never replace the one that the user is about to answer.
  const tag = answer ? answer.approval : project;
  const isTest = project === TEST;
  const address = isTest ? '' : review ? reviewAddress(project) : `#/p/${project}`;
  await show(title, body, tag, { address: `/${address}`, answer });
  if (isTest) return;
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (!windows.some(({ visibilityState }) => visibilityState === 'visible')) return;
  for (const shown of await self.registration.getNotifications({ tag })) shown.close();
}

async function show(title: string, body: string, tag: string, data: Carried): Promise<void> {
  const options = {
    body,
    tag,
    renotify: true,
    icon: 'icon-192.png',
    badge: 'icon-192.png',
    data,
    actions: data.answer
      ? [
          { action: 'allow', title: 'Accept' },
          { action: 'deny', title: 'Reject' },
        ]
      : [],
  };
  await self.registration.showNotification(title, options);
}

self.addEventListener('notificationclick', (event) => {
  const { action, notification } = event;
  const { address = '/', answer } = (notification.data ?? {}) as Partial<Carried>;
  notification.close();
  const done =
    answer && (action === 'allow' || action === 'deny')
      ? decide(answer, action).catch((error: Error) =>
          show(error.message === UNKNOWN ? UNSURE : REFUSED, error.message, answer.approval, { address }),
        )
      : open(new URL(address, location.origin).href);
  event.waitUntil(done);
});

/** Seconds to wait for the server's reply. */
const PATIENCE = 20;

/** Sends a decision with its one-time token. Rejects with the reason if it may not have been recorded. */
function decide(
  { project, approval, token }: NonNullable<Carried['answer']>,
  decision: 'allow' | 'deny',
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/ws`);
    const send = (message: object) => socket.send(JSON.stringify(message));
    let isSent = false;
    const end = (problem?: string) => {
      clearTimeout(timer);
      socket.close();
      if (problem === undefined) resolve();
      else reject(new Error(problem));
    };
    const lost = () => end(isSent ? UNKNOWN : UNREACHABLE);
    const timer = setTimeout(lost, PATIENCE * 1000);
    socket.onopen = () =>
      send({ type: 'auth', request_id: 'auth', data: { token, client: deviceName(navigator.userAgent) } });
    socket.onclose = socket.onerror = lost;
    socket.onmessage = ({ data }) => {
      const { type, request_id: to, data: told } = JSON.parse(data);
      if (type === 'error')
        end(told.code === 'UNAUTHORIZED' ? 'The buttons no longer work. Open Drawbridge to answer.' : told.message);
      else if (to === 'auth') {
        isSent = true;
        send({
          type: 'permission_response',
          project_id: project,
          request_id: 'decision',
          data: { approval_id: approval, decision },
        });
      } else if (to === 'decision') end();
    };
  });
}

const UNREACHABLE = 'The server can’t be reached. Open Drawbridge to answer.';
const REFUSED = 'Your answer was not recorded';
const UNSURE = 'Your answer may not have been recorded';
const UNKNOWN = 'The connection was lost. Open Drawbridge to see whether your answer arrived.';

async function open(address: string): Promise<void> {
  const [shown] = await self.clients.matchAll({ type: 'window' });
  if (!shown) await self.clients.openWindow(address);
  else {
    await shown.navigate(address);
    await shown.focus();
  }
}
