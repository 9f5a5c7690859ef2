// Texts of any length, drawn a part at a time: no text of an agent keeps the page busy.

import { inShortPieces } from './harmless.js';
import { button, h, size } from './dom.js';
import { markdown } from './markdown.js';

/** Characters that are drawn in one go; more are drawn a frame each. */
const STEP = 8_000;

/** Characters of a message that are drawn as Markdown. */
const MARKDOWN = 20_000;

/** What a person is shown of a value before opening it: so many characters and lines. */
const SHOWN = 3000;
const LINES = 50;

/** Where to cut a text to at most `most` characters: at the end of a line if possible, never inside a character. */
function cutAt(/** @type {string} */ text, /** @type {number} */ most) {
  if (text.length <= most) return text.length;
  const line = text.lastIndexOf('\n', most - 1) + 1;
  if (line > most / 2) return line;
  return /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most;
}

/** Adds all of `text` to `element`, a part in each frame. @param {HTMLElement} element @param {string} text @param {'text' | 'code'} how */
export function addText(element, text, how = 'text') {
  const first = cutAt(text, STEP);
  element.append(h('span', { class: 'part', [how]: text.slice(0, first) }));
  if (first < text.length) requestAnimationFrame(() => addText(element, text.slice(first), how));
}

/** The beginning of a text and a button for the rest. @param {string} tag @param {string} style @param {string} text @param {number} most */
export function longText(tag, style, text, most) {
  const cut = cutAt(text, most);
  const element = h(tag, { class: style, tabindex: tag === 'pre' ? 0 : undefined, text: text.slice(0, cut) });
  if (cut === text.length) return element;
  const show = button({ label: `Show all (${size(text.length)})`, class: 'quiet', onclick: () => (element.replaceChildren(), addText(element, text), show.remove()) });
  return h('div', {}, element, show);
}

/**
 * A message as Markdown; what is too long for that, and what can't be drawn, as plain text.
 * @param {string} text @param {string} [must] the class of the button that shows the rest
 * @returns {HTMLElement}
 */
export function messageText(text, must = '') {
  const cut = cutAt(text, MARKDOWN);
  const element = h('div', { class: 'markdown' });
  try {
    element.append(markdown(text.slice(0, cut)));
  } catch (error) {
    console.error(error);
    return longText('div', 'words', text, MARKDOWN);
  }
  if (cut < text.length) {
    const rest = h('div', { class: 'words' });
    const show = button({ label: `Show all (${size(text.length)}), the rest as plain text`, class: `quiet ${must}`, onclick: () => (show.remove(), addText(rest, text.slice(cut))) });
    element.append(show, rest);
  }
  return element;
}

/** What is being said: its end, where it has become long. */
export function liveText(/** @type {string} */ text) {
  return text.length <= MARKDOWN ? messageText(text) : h('div', { class: 'words', text: `…${text.slice(-4000)}` });
}

/**
 * A value of a tool's input, as it is: wrapped, and whole unless it is long. Then a button shows the rest, which has to be
 * pressed before anybody can accept.
 * @param {string} text
 */
export function valueText(text) {
  const whole = inShortPieces(text.slice(0, STEP)).map((piece) => piece.text).join('');
  const lines = whole.split('\n', LINES + 1);
  const element = h('pre', { class: 'value', tabindex: 0 });
  if (text.length <= STEP && whole.length <= SHOWN && lines.length <= LINES) {
    element.append(h('code', { code: text }));
    return element;
  }
  // As many characters of the text as are shown.
  const upTo = placeOfLine(text.slice(0, SHOWN), LINES - 10);
  const code = h('code', { code: text.slice(0, upTo) });
  element.append(code);
  const label = `Show all (${text.split('\n').length.toLocaleString('en')} lines, ${size(text.length)})`;
  const show = button({ label, class: 'must', onclick: () => (show.remove(), code.replaceChildren(), addText(code, text, 'code')) });
  return h('div', { class: 'cut' }, element, show);
}

function placeOfLine(/** @type {string} */ text, /** @type {number} */ lines) {
  let at = 0;
  for (let n = 0; n < lines; n++) {
    const end = text.indexOf('\n', at);
    if (end < 0) return cutAt(`${text} `, text.length);
    at = end + 1;
  }
  return at;
}
