// Notifications while the web UI is closed: the browser's push service delivers them to the service worker.

import * as kept from '../state/kept.ts';

const NO_WORKER = 'Notifications while Drawbridge is closed need HTTPS with a certificate that this browser trusts.';
const NOT_SUBSCRIBED = 'This browser isn’t subscribed. Turn “Even when Drawbridge is closed” off and on again.';

const worker = () => navigator.serviceWorker?.getRegistration();

/** Whether this browser supports push notifications, and the server lets this device subscribe to them. */
export const canPush = (client: import('../protocol/client.ts').Client) =>
  'PushManager' in window && 'serviceWorker' in navigator && client.may('push_subscribe');

/** Whether this browser's notifications can have buttons. */
export const canAct = () => 'Notification' in window && 'actions' in Notification.prototype;

/** Subscribes, or changes the subscription. Throws if the browser, its push service or the server refuses. */
export async function subscribe(client: import('../protocol/client.ts').Client, actions = kept.wants('actions')) {
  const registration = await worker();
  if (!registration) throw new Error(NO_WORKER);
  const { key } = (await client.connection.ask('push_key')).data;
  const before = await registration.pushManager.getSubscription();
  // A subscription for another key, for example from before the server's data was lost, is useless.
  if (before && keyOf(before) !== key) await before.unsubscribe();
  const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  const { endpoint, keys } = subscription.toJSON();
  await client.connection.ask('push_subscribe', { endpoint, p256dh: keys?.p256dh, auth: keys?.auth, actions });
  kept.keepWants('push', true);
  kept.keepWants('actions', actions);
}

/** Unsubscribes. If the server can't be reached now, it removes the subscription when its next push message fails. */
export async function unsubscribe(client: import('../protocol/client.ts').Client) {
  kept.keepWants('push', false);
  const subscription = await (await worker())?.pushManager.getSubscription();
  if (!subscription) return;
  await subscription.unsubscribe();
  await client.connection.ask('push_unsubscribe', { endpoint: subscription.endpoint }).catch(() => {});
}

/** Sends a notification to this browser only. Returns whether its push service accepted it, and if not, why. */
export async function test(
  client: import('../protocol/client.ts').Client,
): Promise<{ accepted: boolean; problem?: string }> {
  const subscription = await (await worker())?.pushManager.getSubscription();
  if (!subscription) throw new Error(NOT_SUBSCRIBED);
  return (await client.connection.ask('push_test', { endpoint: subscription.endpoint })).data;
}

/**
 * Subscribes again after a reconnect, if the user wants push messages, because browsers can replace subscriptions, and
 * servers can lose them.
 */
export async function renew(client: import('../protocol/client.ts').Client) {
  if (kept.wants('push') && canPush(client)) await subscribe(client).catch(() => {});
}

function keyOf(subscription: PushSubscription) {
  const bytes = new Uint8Array(subscription.options.applicationServerKey ?? new ArrayBuffer(0));
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, '-')
    .replace(/\//g, '_')
    .replace(/=+$/, '');
}
