// Getting noticed: the number in the title and on the icon, and where a person wants it, notifications and a sound.

import { baseName } from './dom.js';
import { harmless } from './harmless.js';
import * as kept from './kept.js';

/** As the server's own notices have it. Who interrupts a run knows that it is over. */
const OUTCOMES = { completed: 'finished', failed: 'failed', timeout: 'took too long and was ended' };

/** @param {import('./client.js').Client} client */
export function watch(client) {
  client.addEventListener('message', (event) => {
    const { type, project_id: id, data } = /** @type {CustomEvent} */ (event).detail;
    const project = client.projects.all.get(id);
    if (!project || !document.hidden) return;
    const name = harmless(baseName(project.path));
    if (type === 'permission_request') tell(`${name} waits for you`, `A question about ${harmless(String(data.tool_name)).slice(0, 100)}`, id);
    else if (type === 'update' && data.update_type === 'run_finished') {
      const ended = OUTCOMES[/** @type {keyof typeof OUTCOMES} */ (data.data.outcome)];
      if (ended) tell(name, `The run ${ended}`, id);
    }
  });
}

/** @param {number} waiting @param {string} [name] the project that is looked at */
export function title(waiting, name) {
  document.title = `${waiting ? `(${waiting}) ` : ''}${name ? `${harmless(name)} · ` : ''}Drawbridge`;
  const badge = waiting ? navigator.setAppBadge?.(waiting) : navigator.clearAppBadge?.();
  badge?.catch(() => {});
}

/** Switches notifications. Throws where the browser says no. */
export async function wantNotices(/** @type {boolean} */ on) {
  const allowed = on && 'Notification' in window && (await Notification.requestPermission()) === 'granted';
  if (on && !allowed) throw new Error('This browser does not allow it: its settings for this page say so.');
  kept.keepWants('notices', allowed);
}

function tell(/** @type {string} */ words, /** @type {string} */ body, /** @type {string} */ id) {
  if (kept.wants('sound')) chime();
  // Where notices come by push, this one does as well.
  if (kept.wants('push') || !kept.wants('notices') || !('Notification' in window) || Notification.permission !== 'granted') return;
  const options = { body, tag: id, icon: 'icon-192.png', data: `/#/p/${id}` };
  // Phones have notifications by the service worker only.
  void navigator.serviceWorker?.getRegistration().then((worker) => void (worker ? worker.showNotification(words, options) : new Notification(words, options)));
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
