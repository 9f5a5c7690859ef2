// Notices while the page is closed: the browser's push service brings them to the service worker.

import * as kept from './kept.js';

const worker = () => navigator.serviceWorker?.getRegistration();

/** Whether this browser could be told at all, and this server would. @param {import('./client.js').Client} client */
export const canPush = (client) => 'PushManager' in window && 'serviceWorker' in navigator && client.may('push_subscribe');

/** Begins. Throws where the browser, its push service or the server says no. @param {import('./client.js').Client} client */
export async function subscribe(client) {
  const registration = await worker();
  if (!registration) throw new Error('This browser keeps nothing of this page: it needs https with a certificate that it trusts.');
  const { key } = (await client.connection.ask('push_key')).data;
  const before = await registration.pushManager.getSubscription();
  // One that was made for another key, of a server whose data are gone, is of no use.
  if (before && keyOf(before) !== key) await before.unsubscribe();
  const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { endpoint, keys } = subscription.toJSON();
  await client.connection.ask('push_subscribe', { endpoint, p256dh: keys?.p256dh, auth: keys?.auth });
  kept.keepWants('push', true);
}

/** Ends. What the server does not hear of it finds out at the next notice. @param {import('./client.js').Client} client */
export async function unsubscribe(client) {
  kept.keepWants('push', false);
  const subscription = await (await worker())?.pushManager.getSubscription();
  if (!subscription) return;
  await subscription.unsubscribe();
  await client.connection.ask('push_unsubscribe', { endpoint: subscription.endpoint }).catch(() => {});
}

/** After the server was met again: browsers renew subscriptions, servers lose them. @param {import('./client.js').Client} client */
export async function renew(client) {
  if (kept.wants('push') && canPush(client)) await subscribe(client).catch(() => {});
}

function keyOf(/** @type {PushSubscription} */ subscription) {
  const bytes = new Uint8Array(subscription.options.applicationServerKey ?? new ArrayBuffer(0));
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}
