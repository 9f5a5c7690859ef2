// Keeps the page's own files, so that it opens without the network and says so. It never keeps anything that an agent said.

const CACHE = 'drawbridge-shell';

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || url.origin !== location.origin || ['/health', '/ca.crt'].includes(url.pathname)) return;
  event.respondWith(fresh(request));
});

// The server's file where there is a server, so that page and server are of one version; else the one of the last time.
async function fresh(request) {
  const cache = await caches.open(CACHE);
  try {
    const answer = await fetch(request);
    if (answer.ok) await cache.put(request, answer.clone());
    return answer;
  } catch (error) {
    const known = await cache.match(request, { ignoreSearch: true });
    if (known) return known;
    throw error;
  }
}

// Browsers want to see a notice for each push; where the page is looked at, it goes at once.
self.addEventListener('push', (event) => {
  const { title, body, project } = event.data.json();
  event.waitUntil(tell(String(title), String(body), String(project)));
});

async function tell(title, body, project) {
  await self.registration.showNotification(title, { body, tag: project, renotify: true, icon: 'icon-192.png', badge: 'icon-192.png', data: `/#/p/${project}` });
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  if (!windows.some(({ visibilityState }) => visibilityState === 'visible')) return;
  for (const notice of await self.registration.getNotifications({ tag: project })) notice.close();
}

self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  const address = new URL(event.notification.data || '/', location.origin).href;
  event.waitUntil(
    self.clients.matchAll({ type: 'window' }).then(async ([open]) => {
      if (!open) return self.clients.openWindow(address);
      await open.navigate(address);
      return open.focus();
    }),
  );
});
