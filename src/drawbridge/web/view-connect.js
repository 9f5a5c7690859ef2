// The first view of a browser that is not let in yet: it has a one-time code, or the token.

import { h } from './dom.js';
import * as kept from './kept.js';

/** What `drawbridge pair` shows: eight letters and digits, in whatever way somebody types them. */
const CODE = /^[A-Z2-9]{8}$/;

/** The code in what was typed; undefined where it is none. */
export function codeIn(/** @type {string} */ text) {
  const code = text.toUpperCase().replace(/[\s-]/g, '');
  return CODE.test(code) ? code : undefined;
}

/**
 * @param {{refused?: string, code?: string, fingerprint?: string, busy: boolean, connect: (token: string) => void, pair: (code: string, name: string) => void}} world
 * `refused`: why what was given last was not taken; `code`, `fingerprint`: what a link brought
 */
export function connectView({ refused, code, fingerprint, busy, connect, pair }) {
  const field = h('input', {
    id: 'token', type: 'text', value: code ? `${code.slice(0, 4)}-${code.slice(4)}` : '', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'characters', required: true,
    'aria-describedby': 'token-help', disabled: busy, oninput: () => look(),
  });
  const name = h('input', { id: 'device', type: 'text', maxlength: 60, value: kept.clientName(), autocomplete: 'off', disabled: busy });
  const naming = h('div', { class: 'naming' }, h('label', { for: 'device', text: 'This device, as others see it' }), name);
  const submit = h('button', { type: 'submit', class: 'yes', disabled: busy });
  const look = () => {
    const isCode = codeIn(field.value) !== undefined;
    // A token is not for the eyes of who stands by; a code is, and is typed by hand.
    field.type = isCode || field.value.length < 12 ? 'text' : 'password';
    naming.hidden = !isCode;
    submit.textContent = busy ? 'Connecting…' : isCode ? 'Pair this device' : 'Connect';
  };
  const go = (/** @type {Event} */ event) => {
    event.preventDefault();
    const given = codeIn(field.value);
    if (given !== undefined) pair(given, name.value.trim());
    else if (field.value.trim()) connect(field.value.trim());
  };
  look();
  return h('main', { class: 'connect' },
    h('img', { src: 'icon.svg', alt: '', width: 72, height: 72 }),
    h('h1', { text: 'Drawbridge' }),
    h('p', { class: 'lead', text: 'Coding agents propose changes. You decide who crosses.' }),
    h('form', { onsubmit: go },
      h('label', { for: 'token', text: 'Code or token' }), field, naming,
      refused !== undefined && h('p', { class: 'problem', role: 'alert', text: refused || 'That token isn’t valid. Check it and try again.' }),
      submit,
      h('p', { id: 'token-help', class: 'hint' }, h('code', { text: 'drawbridge pair' }), ' on the server’s machine shows a code for one more device. The owner’s token lies in the file that ', h('code', { text: 'drawbridge serve' }), ' names. This browser alone keeps it.'),
      location.protocol === 'https:' && h('p', { class: 'hint' }, 'So that this device warns no more, and can be told things while the page is closed, ', h('a', { href: 'ca.crt', text: 'let it trust this server' }), ' once.'),
      fingerprint && h('p', { class: 'hint' }, 'The server’s certificate, as the code has it; where the browser warns of it, compare: ', h('code', { class: 'fingerprint', text: fingerprint }))));
}
