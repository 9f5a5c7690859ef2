// Attracts the user's attention: with the number in the title and on the icon and, if the user wants, with
// notifications and a sound.

import { baseName, counted } from '../ui/dom.ts';
import { harmless } from '../text/harmless.ts';
import { addressOf } from '../projects/rows.ts';
import { reviewAddress } from '../review/address.ts';
import { deviceName } from '../state/device-name.ts';
import * as kept from '../state/kept.ts';
import type { Numbers, Reviews } from '../state/reviews.ts';

/** The same words as in the server's notifications. Whoever interrupts a run knows that it has ended. */
const OUTCOMES = { completed: 'Run finished', failed: 'Run failed', timeout: 'Run timed out' };

/**
 * The maximum number of milliseconds that the notification of a run's end waits for the review's counts, as on the
 * server.
 */
const REVIEW_MS = 3000;

type Notice = { title: string; body: string; address: string };

/**
 * The notification about a run's end, or undefined if nobody has to be notified.
 *
 * @param name the project's name
 * @param review the review's counts, or undefined if there is nothing to review
 */
export function endNotice(outcome: string, id: string, name: string, review?: Numbers): Notice | undefined {
  const ended = OUTCOMES[outcome as keyof typeof OUTCOMES];
  if (!ended) return undefined;
  if (!review) return { title: name, body: ended, address: addressOf(id) };
  const toReview = `${counted(review.files, 'file')} to review`;
  const isWell = outcome === 'completed';
  const lines = review.added || review.removed ? `+${review.added} −${review.removed}` : '';
  return {
    title: isWell ? `${name}: ${toReview}` : name,
    body: [ended, !isWell && toReview, lines].filter(Boolean).join(' · '),
    address: reviewAddress(id),
  };
}

export function watch(client: import('../protocol/client.ts').Client, reviews: Reviews) {
  const waiting = new Map<string, () => void>();
  const notifyAtEnd = (id: string, name: string, outcome: string) => {
    waiting.get(id)?.(); // sends the notification for the previous run
    const send = () => {
      clearTimeout(timer);
      waiting.delete(id);
      const notice = endNotice(outcome, id, name, reviews.open(id));
      if (notice && document.hidden) tell(notice, id);
    };
    const timer = setTimeout(send, REVIEW_MS);
    waiting.set(id, send);
  };
  client.addEventListener('message', (event) => {
    const { type, project_id: id, data } = (event as CustomEvent).detail;
    const isUpdate = (kind: string) => type === 'update' && data.update_type === kind;
    // The checkpoint after the run has found changes. A change with a `by` is a person's decision instead.
    if (isUpdate('review_changed') && !data.data.by) waiting.get(id)?.();
    const project = client.projects.all.get(id);
    if (!project || !document.hidden) return;
    const name = harmless(baseName(project.path));
    if (type === 'permission_request') {
      const body = harmless(data.summary || `Use ${data.tool_name}`).slice(0, 100);
      tell({ title: `${name} needs you`, body, address: addressOf(id) }, id);
    } else if (isUpdate('run_finished')) notifyAtEnd(id, name, data.data.outcome);
  });
}

/** The title that was set last. Undefined at first, because the icon may show the number of an earlier visit. */
let shown: string | undefined;

/**
 * Sets the title of the page and the number on the app's icon.
 * @param waiting the number of approval requests that wait
 * @param name the name of the project that is shown
 */
export function title(waiting: number, name?: string) {
  const words = `${waiting ? `(${waiting}) ` : ''}${name ? `${harmless(name)} · ` : ''}Drawbridge`;
  if (shown === words) return;
  document.title = shown = words;
  const badge = waiting ? navigator.setAppBadge?.(waiting) : navigator.clearAppBadge?.();
  badge?.catch(() => {});
}

/** Turns notifications on or off. Throws if the browser does not allow them. */
export async function wantNotices(on: boolean) {
  if (on) {
    if (!('Notification' in window))
      throw new Error(!isSecureContext ? NEEDS_HTTPS : isApple() ? ON_HOME_SCREEN : UNSUPPORTED);
    const answer = await Notification.requestPermission();
    if (answer !== 'granted')
      throw new Error(!isSecureContext ? NEEDS_HTTPS : answer === 'denied' ? BLOCKED : NOT_ALLOWED);
  }
  kept.keepWants('notices', on);
}

const ON_HOME_SCREEN =
  'Notifications work here only if Drawbridge is on the home screen. Add it, then open it from there.';
const UNSUPPORTED = 'This browser doesn’t support notifications.';
const NEEDS_HTTPS = 'Browsers allow notifications only over HTTPS. Open Drawbridge at an https address.';
const BLOCKED = 'Notifications are blocked for this site in your browser settings.';
const NOT_ALLOWED =
  'Notifications stay off, because you haven’t allowed them. Try again, and allow them when the browser asks.';

const isApple = () => ['iPhone', 'iPad'].includes(deviceName(navigator.userAgent, navigator.maxTouchPoints));

function tell({ title, body, address }: Notice, id: string) {
  if (kept.wants('sound')) chime();
  // If notifications are sent by push, this one is, too.
  if (
    kept.wants('push') ||
    !kept.wants('notices') ||
    !('Notification' in window) ||
    Notification.permission !== 'granted'
  )
    return;
  const options = { body, tag: id, icon: 'icon-192.png', data: { address: `/${address}` } };
  // On phones, only the service worker can show notifications.
  void navigator.serviceWorker
    ?.getRegistration()
    .then((worker) => void (worker ? worker.showNotification(title, options) : new Notification(title, options)));
}

function chime() {
  const audio = new AudioContext();
  const volume = new GainNode(audio, { gain: 0.08 });
  volume.connect(audio.destination);
  [660, 880].forEach((frequency, index) => {
    const tone = new OscillatorNode(audio, { frequency });
    tone.connect(volume);
    tone.start(audio.currentTime + index * 0.15);
    tone.stop(audio.currentTime + index * 0.15 + 0.13);
    if (index) tone.onended = () => void audio.close();
  });
}
