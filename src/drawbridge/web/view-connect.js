// The first view of a browser that has no token yet, or one that was not taken.

import { h } from './dom.js';

/** @param {{refused: string | undefined, connect: (token: string) => void}} world `refused`: why the last one was not taken */
export function connectView({ refused, connect }) {
  const field = h('input', { id: 'token', type: 'password', autocomplete: 'current-password', spellcheck: 'false', autocapitalize: 'off', required: true, 'aria-describedby': 'token-help' });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const token = field.value.trim();
    if (token) connect(token);
  };
  return h('main', { class: 'connect' },
    h('img', { src: 'icon.svg', alt: '', width: 72, height: 72 }),
    h('h1', { text: 'Drawbridge' }),
    h('p', { class: 'lead', text: 'Coding agents propose changes. You decide who crosses.' }),
    h('form', { onsubmit: submit },
      h('label', { for: 'token', text: 'Token' }), field,
      refused !== undefined && h('p', { class: 'problem', role: 'alert', text: refused || 'The server did not take this token. Nothing was changed; look up the right one.' }),
      h('button', { type: 'submit', class: 'yes' }, 'Connect'),
      h('p', { id: 'token-help', class: 'hint' }, 'It lies on the server’s machine, in the file that ', h('code', { text: 'drawbridge serve' }), ' shows when it starts. It is kept in this browser only.')));
}
