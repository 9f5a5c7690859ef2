// A difference as a table: two columns where there is room for them, one where there is not.

import { difference } from './diff.js';
import { button, fill, h } from './dom.js';
import { addText } from './long-text.js';
import { languageOf, pieces } from './highlight.js';

/** Rows that are drawn before somebody asks for all of them, and those that are drawn in one go then. */
const FIRST = 400;

/** Characters of a line that are drawn before that. */
const LONGEST = 2000;

const wide = matchMedia('(min-width: 1080px)');

const isCrlf = (/** @type {string} */ text) => text.includes('\r\n') && !/(?:^|[^\r])\n/.test(text);

/**
 * @param {{path: string, old_text: string, new_text: string}} proposal
 * @returns {{element: HTMLElement, added: number, removed: number}}
 */
export function diffView({ path, old_text: before, new_text: after }) {
  // Line ends are drawn where they are not those of the whole file.
  const plain = (before === '' || isCrlf(before)) && isCrlf(after);
  const found = plain ? difference(before.replace(/\r\n/g, '\n'), after.replace(/\r\n/g, '\n')) : difference(before, after);
  const above = found.rough ? 'File rewritten: the old text is above, the new one below.' : '';
  const below = found.end || (found.hunks.length ? '' : 'No line is different.');
  return { element: hunksView(path, found.hunks, before !== '', above, below), added: found.added, removed: found.removed };
}

/**
 * @param {string} path
 * @param {import('./diff.js').Hunk[]} hunks
 * @param {boolean} both there are two sides to show
 * @param {string} [above] a word before it
 * @param {string} [below] a word behind it
 * @returns {HTMLElement}
 */
export function hunksView(path, hunks, both, above, below) {
  const language = languageOf(path);
  const element = h('div', { class: 'diff', role: 'region', 'aria-label': `Changes of ${path}`, tabindex: 0 });
  let whole = false;
  const draw = () => {
    const split = wide.matches && both;
    const lines = split ? hunks.flatMap(splitRows) : hunks.flatMap(unifiedRows);
    const table = (/** @type {any[]} */ some) =>
      h('table', { class: split ? 'split' : 'unified' }, columns(split), h('tbody', {}, some.map((line) => (split ? splitRow(line, language, whole) : unifiedRow(line, language, whole)))));
    const place = h('div', {}, table(lines.slice(0, FIRST)));
    const more = (/** @type {number} */ from) => {
      place.append(table(lines.slice(from, from + FIRST)));
      if (from + FIRST < lines.length) requestAnimationFrame(() => more(from + FIRST));
    };
    const left = lines.length - FIRST;
    const isCut = left > 0 || lines.some((line) => [line.old, line.new].some((side) => side && side.text.length > LONGEST));
    const words = left > 0 ? `Show ${left.toLocaleString('en')} more lines` : 'Show the whole lines';
    fill(
      element,
      above && h('p', { class: 'hint', text: above }),
      place,
      isCut && !whole && button({ label: words, class: 'must', onclick: () => ((whole = true), draw()) }),
      below && h('p', { class: 'hint', text: below }),
    );
    if (whole && left > 0) requestAnimationFrame(() => more(FIRST));
  };
  draw();
  const redraw = () => (element.isConnected ? draw() : wide.removeEventListener('change', redraw));
  wide.addEventListener('change', redraw);
  return element;
}

function columns(/** @type {boolean} */ split) {
  const names = split ? ['number', 'text', 'number', 'text'] : ['number', 'text'];
  return h('colgroup', {}, ...names.map((name) => h('col', { class: `column-${name}` })));
}

/** @param {import('./diff.js').Hunk} hunk @returns {any[]} */
const splitRows = ({ skipped, rows }) => [...(skipped ? [{ skipped }] : []), ...rows];

/** Old lines of a change first, then the new ones. @param {import('./diff.js').Hunk} hunk @returns {any[]} */
function unifiedRows({ skipped, rows }) {
  const lines = skipped ? [{ skipped }] : /** @type {any[]} */ ([]);
  let fresh = [];
  for (const row of rows) {
    if (row.kind === 'same') {
      for (const one of fresh) lines.push(one);
      fresh = [];
      lines.push(row);
      continue;
    }
    if (row.old) lines.push({ kind: 'removed', old: row.old });
    if (row.new) fresh.push({ kind: 'added', new: row.new });
  }
  return lines.concat(fresh);
}

function skippedRow(/** @type {number} */ count, /** @type {number} */ span) {
  return h('tr', { class: 'skipped' }, h('td', { colspan: span, text: `${count} line${count === 1 ? '' : 's'} unchanged` }));
}

function splitRow(/** @type {any} */ row, /** @type {string} */ language, /** @type {boolean} */ whole) {
  if (row.skipped) return skippedRow(row.skipped, 4);
  const changed = row.kind === 'changed';
  return h('tr', {}, ...cells(row.old, changed && 'removed', language, whole), ...cells(row.new, changed && 'added', language, whole));
}

function unifiedRow(/** @type {any} */ row, /** @type {string} */ language, /** @type {boolean} */ whole) {
  if (row.skipped) return skippedRow(row.skipped, 2);
  return h('tr', {}, ...cells(row.new ?? row.old, row.kind === 'same' ? '' : row.kind, language, whole));
}

const SIGNS = { added: '+', removed: '−' };

/** The number and the text of one side; a long line is cut unless it is to be `whole`. @returns {Node[]} */
function cells(/** @type {any} */ side, /** @type {'added' | 'removed' | '' | false} */ kind, /** @type {string} */ language, /** @type {boolean} */ whole) {
  if (!side) return [h('td', { class: 'number none' }), h('td', { class: 'none' })];
  const isLong = side.text.length > LONGEST;
  const code = h('code', {}, isLong && !whole ? `${side.text.slice(0, LONGEST)}…` : isLong ? null : coloured(side.text, language, side.marks ?? []));
  if (isLong && whole) addText(code, side.text, 'code');
  const sign = kind ? h('span', { class: 'sign', text: SIGNS[kind] }) : null;
  return [h('td', { class: `number ${kind || ''}`, 'data-number': side.number }), h('td', { class: `line ${kind || ''}` }, sign, code)];
}

/** A line in colours, the marked parts of it in `mark`. */
function coloured(/** @type {string} */ text, /** @type {string} */ language, /** @type {[number, number][]} */ marks) {
  const found = [];
  let at = 0;
  for (const piece of pieces(text, language)) {
    for (const [part, marked] of parts(piece.text, at, marks)) {
      const content = h('span', { class: piece.kind ? `code-${piece.kind}` : undefined, code: part });
      found.push(marked ? h('mark', {}, content) : content);
    }
    at += piece.text.length;
  }
  return found;
}

/** @returns {[string, boolean][]} */
function parts(/** @type {string} */ text, /** @type {number} */ start, /** @type {[number, number][]} */ marks) {
  /** @type {[string, boolean][]} */
  const found = [];
  let at = start;
  const end = start + text.length;
  for (const [from, to] of marks) {
    if (to <= at || from >= end) continue;
    if (from > at) found.push([text.slice(at - start, from - start), false]);
    found.push([text.slice(Math.max(from, at) - start, Math.min(to, end) - start), true]);
    at = Math.min(to, end);
  }
  if (at < end) found.push([text.slice(at - start), false]);
  return found;
}
