// The keys there are, and what this browser may be told and is called.

import { openDialog, trying } from './dialogs.js';
import { button, h } from './dom.js';
import * as kept from './kept.js';
import { wantNotices } from './notices.js';
import * as push from './push.js';

const KEYS = [
  ['a', 'Accept the current change (with a ring) when all of it is in view'], ['Ctrl+Enter', 'Accept the current approval of any kind (⌘+Enter on a Mac)'], ['e', 'Edit, then accept'], ['r', 'Reject with a reason'], ['j  k', 'Next, previous message or approval'],
  ['/', 'Focus the prompt box'], ['Enter', 'Send; Shift+Enter begins a new line'], ['↑  ↓', 'Earlier prompts, in the prompt box'], ['Esc', 'Back; what you have written is kept'], ['?', 'This help'],
];

/** @type {Record<string, string>} */
const SCOPES = { view: 'watch', approve: 'answer questions and stop runs', run: 'run agents', admin: 'do everything' };

/** @param {import('./client.js').Client} client @param {{forget: () => void}} world */
export function help(client, { forget }) {
  openDialog('Help and settings',
    h('dl', { class: 'keys' }, ...KEYS.flatMap(([keys, what]) => [h('dt', {}, ...keys.split('  ').map((key) => h('kbd', { text: key }))), h('dd', { text: what })])),
    ...notices(client), ...device(client),
    h('footer', {}, button({ label: 'Forget this server’s token', class: 'quiet', onclick: forget })));
}

/** @param {import('./client.js').Client} client */
function notices(client) {
  const problem = h('p', { class: 'problem', role: 'alert' });
  /** A switch; where it can't be switched, it goes back and says why. */
  const choice = (/** @type {string} */ text, /** @type {boolean} */ on, /** @type {(on: boolean) => unknown} */ change) => {
    const box = h('input', { type: 'checkbox', onchange: async () => {
      const wanted = box.checked;
      box.disabled = true;
      await trying(problem, async () => {
        box.checked = false;
        await change(wanted);
        box.checked = wanted;
      });
      box.disabled = false;
    } });
    box.checked = on;
    return h('label', { class: 'switch' }, box, text);
  };
  const closed = (/** @type {boolean} */ on) => (on ? wantNotices(true).then(() => push.subscribe(client)) : push.unsubscribe(client));
  return [
    h('h3', { text: 'When an agent waits for you or is done' }),
    choice('Notify me', kept.wants('notices'), wantNotices),
    push.canPush(client) && choice('Also while this page is closed', kept.wants('push'), closed),
    push.canPush(client) && h('p', { class: 'hint', text: 'That goes by your browser’s push service, sealed; it says the project’s name and the tool, no more.' }),
    choice('With a sound', kept.wants('sound'), (on) => kept.keepWants('sound', on)),
    problem,
  ].filter(Boolean);
}

/** @param {import('./client.js').Client} client */
function device(client) {
  const title = h('h3', { text: 'This device' });
  if (client.isNamed) {
    return [title, h('p', { text: `Others see it as “${client.name}”. It may ${SCOPES[client.hello?.device.scope] ?? 'do what its owner said'}.` })];
  }
  const name = h('input', { id: 'name', type: 'text', maxlength: 60, value: client.name, onchange: () => kept.keepClientName(name.value.trim()) });
  return [title, h('label', { for: 'name', text: 'Its name, as others see it (from the next connection on)' }), name];
}
