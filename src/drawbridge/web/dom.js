// Elements, made from names and texts. Text becomes text: there is no way from here to HTML.

import { harmless, inPieces, inShortPieces } from './harmless.js';

const SVG = 'http://www.w3.org/2000/svg';

/** Attributes that a person reads. */
const READ = new Set(['title', 'alt', 'aria-label', 'placeholder']);

/**
 * An element. `on…` are listeners, `class` is its class; `text` is a text of several lines, `line` one of a single line, `code`
 * one in which long runs of blanks are counted. True and false switch an attribute; the rest are attributes. Misleading
 * characters in a text are written out, since it may come from an agent.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Node | string | null | undefined | false | (Node | string)[])} children
 * @returns {any}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name === 'text') write(element, value);
    else if (name === 'line') write(element, String(value).replace(/[\t\n\r]/g, harmless));
    else if (name === 'code') draw(element, inShortPieces(String(value)));
    else if (name === 'value') /** @type {HTMLInputElement} */ (element).value = value;
    else element.setAttribute(name, value === true ? '' : READ.has(name) ? harmless(String(value)) : String(value));
  }
  for (const child of children.flat()) add(element, child);
  return element;
}

function add(/** @type {Element} */ element, /** @type {any} */ child) {
  if (child === null || child === undefined || child === false || child === '') return;
  if (child instanceof Node) element.append(child);
  else write(element, child);
}

/** Adds a text, with what is strange in it written out. */
function write(/** @type {Element} */ element, /** @type {unknown} */ text) {
  draw(element, inPieces(String(text)));
}

function draw(/** @type {Element} */ element, /** @type {{text: string, strange: boolean}[]} */ pieces) {
  for (const { text, strange } of pieces) {
    // An option can contain only text.
    if (!strange || element.tagName === 'OPTION') element.append(text);
    else {
      const mark = document.createElement('span');
      mark.className = 'strange';
      mark.append(text);
      element.append(mark);
    }
  }
}

/** The outlines of the icons, on a grid of 24. */
const ICONS = {
  add: 'M12 5v14M5 12h14',
  back: 'M15 5l-7 7 7 7',
  bell: 'M6 16V11a6 6 0 0112 0v5l2 2H4zM10 21h4',
  check: 'M5 12.5l4.5 4.5L19 7',
  cross: 'M6 6l12 12M18 6L6 18',
  down: 'M12 5v14M6 13l6 6 6-6',
  fork: 'M6 3v12M6 15a3 3 0 100 6 3 3 0 000-6zM18 3a3 3 0 100 6 3 3 0 000-6zM18 9c0 5-12 2-12 8',
  folder: 'M3 6h7l2 2h9v11H3z',
  help: 'M9 9a3 3 0 115 2.2c-1.2.8-2 1.3-2 2.8M12 18v.2',
  pen: 'M4 20l1-4L16 5l3 3L8 19z',
  picture: 'M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.2',
  send: 'M4 12l16-8-5 16-3-7z',
  sessions: 'M4 6h16M4 12h16M4 18h10',
  stop: 'M7 7h10v10H7z',
  tool: 'M4 17l6-5-6-5M12 19h8',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
};

/** @param {keyof typeof ICONS} name */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('class', 'icon');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

/**
 * A button; with an icon alone, `label` is what is read out. `key` is shown; `shortcut` is the same key in the notation of ARIA.
 * @param {{label: string, icon?: keyof typeof ICONS, key?: string, shortcut?: string, class?: string, bare?: boolean, disabled?: boolean, onclick?: (event: Event) => void}} what
 */
export function button({ label, icon: shape, key, shortcut = key, bare, ...rest }) {
  return h(
    'button',
    { type: 'button', title: bare ? label : undefined, 'aria-label': bare ? label : undefined, 'aria-keyshortcuts': shortcut, ...rest },
    shape ? icon(shape) : null,
    !bare && h('span', { text: label }),
    key && !bare && h('kbd', { text: key, 'aria-hidden': 'true' }),
  );
}

/** Not for the second click of a double one: it may hit what has come to where the first thing was. @param {() => void} act */
export const single = (act) => (/** @type {MouseEvent} */ event) => {
  if (event.detail < 2) act();
};

/** Replaces what is in `element`. @param {HTMLElement} element @param {...(Node | string | null | undefined | false | '')} children */
export function fill(element, ...children) {
  element.replaceChildren();
  for (const child of children.flat()) add(element, child);
  return element;
}

export const baseName = (/** @type {string} */ path) => path.replace(/\/+$/, '').split('/').pop() || path;

/** "notes.md" of a file in the project, the whole path of another one. */
export function shownPath(/** @type {string} */ path, /** @type {string | undefined} */ root) {
  return root && path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}

/** "3 min ago" */
export function ago(/** @type {string} */ time, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(time).toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
}

/** "1.4 s", "2 min 05 s" */
export function duration(/** @type {number} */ ms) {
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `${Math.floor(seconds / 60)} min ${String(Math.round(seconds) % 60).padStart(2, '0')} s`;
}

/** "$0.0012", "$1.25" */
export const money = (/** @type {number} */ usd) => `$${usd.toFixed(usd < 0.1 ? 4 : 2)}`;

/** "3.2 MB" */
export const size = (/** @type {number} */ bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
