// A difference as a table: two columns where there is room for them, one where there is not.

import { difference } from './diff.js';
import { button, fill, h } from './dom.js';
import { languageOf, pieces } from './highlight.js';

/** Rows that are drawn before somebody asks for all of them. */
const FIRST = 400;

const wide = matchMedia('(min-width: 1080px)');

/**
 * @param {{path: string, old_text: string, new_text: string}} proposal
 * @returns {{element: HTMLElement, added: number, removed: number}}
 */
export function diffView({ path, old_text: before, new_text: after }) {
  const found = difference(before, after);
  const above = found.rough ? 'Hardly a line is the same: the old text is above, the new one below.' : '';
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
  let most = FIRST;
  const draw = () => {
    const split = wide.matches && both;
    const lines = split ? hunks.flatMap(splitRows) : hunks.flatMap(unifiedRows);
    const body = h('tbody', {}, ...lines.slice(0, most).map((line) => (split ? splitRow(line, language) : unifiedRow(line, language))));
    const left = lines.length - most;
    fill(
      element,
      above && h('p', { class: 'hint', text: above }),
      h('table', { class: split ? 'split' : 'unified' }, columns(split), body),
      left > 0 && button({ label: `Show ${left} more lines`, class: 'quiet', onclick: () => ((most = Infinity), draw()) }),
      below && h('p', { class: 'hint', text: below }),
    );
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
      lines.push(...fresh.splice(0), row);
      continue;
    }
    if (row.old) lines.push({ kind: 'removed', old: row.old });
    if (row.new) fresh.push({ kind: 'added', new: row.new });
  }
  return [...lines, ...fresh];
}

function skippedRow(/** @type {number} */ count, /** @type {number} */ span) {
  return h('tr', { class: 'skipped' }, h('td', { colspan: span, text: `${count} line${count === 1 ? '' : 's'} unchanged` }));
}

function splitRow(/** @type {any} */ row, /** @type {string} */ language) {
  if (row.skipped) return skippedRow(row.skipped, 4);
  const changed = row.kind === 'changed';
  return h('tr', {}, ...cells(row.old, changed && 'removed', language), ...cells(row.new, changed && 'added', language));
}

function unifiedRow(/** @type {any} */ row, /** @type {string} */ language) {
  if (row.skipped) return skippedRow(row.skipped, 2);
  return h('tr', {}, ...cells(row.new ?? row.old, row.kind === 'same' ? '' : row.kind, language));
}

const SIGNS = { added: '+', removed: '−' };

/** The number and the text of one side. @returns {Node[]} */
function cells(/** @type {any} */ side, /** @type {'added' | 'removed' | '' | false} */ kind, /** @type {string} */ language) {
  if (!side) return [h('td', { class: 'number none' }), h('td', { class: 'none' })];
  const code = h('code', {}, ...coloured(side.text, language, side.marks ?? []));
  const sign = kind ? h('span', { class: 'sign', text: SIGNS[kind] }) : null;
  return [h('td', { class: `number ${kind || ''}`, 'data-number': side.number }), h('td', { class: `line ${kind || ''}` }, sign, code)];
}

/** A line in colours, the marked parts of it in `mark`. */
function coloured(/** @type {string} */ text, /** @type {string} */ language, /** @type {[number, number][]} */ marks) {
  const found = [];
  let at = 0;
  for (const piece of pieces(text, language)) {
    for (const [part, marked] of parts(piece.text, at, marks)) {
      const content = piece.kind ? h('span', { class: `code-${piece.kind}`, text: part }) : part;
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
