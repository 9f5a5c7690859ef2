// An agent's Markdown as elements. No HTML is ever made of it: what looks like a tag is a text; a link leads to http, https or
// mail, or it is none. Images are links, so that nobody learns that they were looked at.
//
// The time is proportional to the length of the text: no pattern tries a position more than once.

import { h } from './dom.js';
import { pieces } from './highlight.js';

const DEEPEST = 8;

/** Columns of a table, and characters of a link's address: what has more is text. */
const COLUMNS = 60;
const ADDRESS = 2000;

/** Lines of a block of code that are coloured. */
const COLOURED = 400;

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;
const QUOTE = /^ {0,3}> ?/;
const DELIMITER = /^:?-+:?$/;

/** @param {string} text @returns {DocumentFragment} */
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  for (const node of blocks(text.replace(/\r\n?/g, '\n').split('\n'), 0)) fragment.append(node);
  return fragment;
}

/** @param {string[]} lines @param {number} depth @returns {Node[]} */
function blocks(lines, depth) {
  if (depth > DEEPEST) return [h('p', { text: lines.join('\n') })];
  /** @type {Node[]} */
  const found = [];
  let n = 0;
  while (n < lines.length) {
    const line = lines[n];
    const block = fenced(lines, n) ?? listed(lines, n, depth) ?? quoted(lines, n, depth) ?? tabled(lines, n) ?? short(line, n);
    if (block) {
      found.push(block[0]);
      n = block[1];
    } else if (!line.trim()) n++;
    else {
      const from = n++;
      while (n < lines.length && lines[n].trim() && !starts(lines[n])) n++;
      found.push(h('p', {}, inline(lines.slice(from, n).join('\n'))));
    }
  }
  return found;
}

/** Three or more of `-`, `*` or `_` and nothing else. */
function isRule(/** @type {string} */ line) {
  const signs = line.replace(/[ \t]+/g, '');
  const sign = signs[0];
  if (signs.length < 3 || !'-*_'.includes(sign) || /^ {4}/.test(line)) return false;
  for (const other of signs) if (other !== sign) return false;
  return true;
}

/** @returns {[Node, number] | undefined} */
function short(/** @type {string} */ line, /** @type {number} */ n) {
  const heading = HEADING.exec(line);
  if (!heading) return isRule(line) ? [h('hr'), n + 1] : undefined;
  let words = line.slice(heading[0].length).trim();
  let end = words.length;
  while (words[end - 1] === '#') end--;
  if (end === 0 || ' \t'.includes(words[end - 1])) words = words.slice(0, end).trim();
  return [h(`h${Math.min(6, heading[1].length + 2)}`, {}, inline(words)), n + 1];
}

const starts = (/** @type {string} */ line) => FENCE.test(line) || HEADING.test(line) || ITEM.test(line) || QUOTE.test(line) || isRule(line);

/** @returns {[Node, number] | undefined} */
function fenced(/** @type {string[]} */ lines, /** @type {number} */ n) {
  const match = FENCE.exec(lines[n]);
  if (!match) return undefined;
  const language = /^\s*([\w+#.-]*)/.exec(lines[n].slice(match[0].length))?.[1] ?? '';
  let end = n + 1;
  while (end < lines.length && !lines[end].trim().startsWith(match[1])) end++;
  return [code(lines.slice(n + 1, end).join('\n'), language.toLowerCase()), end + 1];
}

/** A block of code, in the colours of its language. */
export function code(/** @type {string} */ text, /** @type {string} */ language) {
  const element = h('code');
  const lines = text.split('\n');
  lines.slice(0, COLOURED).forEach((line, index) => {
    if (index) element.append('\n');
    for (const piece of pieces(line, language)) element.append(h('span', { class: piece.kind ? `code-${piece.kind}` : undefined, text: piece.text }));
  });
  if (lines.length > COLOURED) element.append(h('span', { text: `\n${lines.slice(COLOURED).join('\n')}` }));
  return h('pre', { tabindex: 0 }, element);
}

/** @returns {[Node, number] | undefined} */
function listed(/** @type {string[]} */ lines, /** @type {number} */ n, /** @type {number} */ depth) {
  const first = isRule(lines[n]) ? null : ITEM.exec(lines[n]);
  if (!first) return undefined;
  const ordered = /\d/.test(first[2]);
  const list = h(ordered ? 'ol' : 'ul', ordered && parseInt(first[2], 10) !== 1 ? { start: parseInt(first[2], 10) } : {});
  while (n < lines.length) {
    const match = ITEM.exec(lines[n]);
    if (!match || /\d/.test(match[2]) !== ordered || match[1].length > first[1].length + 1) break;
    const indent = match[1].length + match[2].length + 1;
    const inner = [lines[n].slice(match[0].length)];
    for (n++; n < lines.length; n++) {
      const deep = lines[n].length - lines[n].trimStart().length;
      if (lines[n].trim() && deep < Math.min(indent, match[1].length + 2)) break;
      if (!lines[n].trim() && !/^\s{2,}\S/.test(lines[n + 1] ?? '')) break;
      inner.push(lines[n].slice(Math.min(deep, indent)));
    }
    const content = blocks(inner, depth + 1);
    const only = content.length && content[0].nodeName === 'P' ? [...content[0].childNodes, ...content.slice(1)] : content;
    list.append(h('li', {}, only));
    while (n < lines.length && !lines[n].trim() && ITEM.test(lines[n + 1] ?? '')) n++;
  }
  return [list, n];
}

/** @returns {[Node, number] | undefined} */
function quoted(/** @type {string[]} */ lines, /** @type {number} */ n, /** @type {number} */ depth) {
  const inner = [];
  for (let match; n < lines.length && (match = QUOTE.exec(lines[n])); n++) inner.push(lines[n].slice(match[0].length));
  return inner.length ? [h('blockquote', {}, blocks(inner, depth + 1)), n] : undefined;
}

/** The cells of a row; a bar behind a backslash is one of the text. */
function cellsOf(/** @type {string} */ line) {
  const text = line.trim();
  const cells = [''];
  for (let n = text[0] === '|' ? 1 : 0; n < text.length; n++) {
    if (text[n] === '\\' && text[n + 1] === '|') cells[cells.length - 1] += text[++n];
    else if (text[n] !== '|') cells[cells.length - 1] += text[n];
    else if (n < text.length - 1) cells.push('');
  }
  return cells.map((cell) => cell.trim());
}

/** @returns {[Node, number] | undefined} */
function tabled(/** @type {string[]} */ lines, /** @type {number} */ n) {
  const below = lines[n + 1] ?? '';
  if (!lines[n].includes('|') || !below.includes('-')) return undefined;
  const delimiters = cellsOf(below);
  const heads = cellsOf(lines[n]);
  if (delimiters.length !== heads.length || heads.length > COLUMNS || !delimiters.every((cell) => DELIMITER.test(cell))) return undefined;
  const aligned = delimiters.map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'middle' : 'right') : undefined));
  const row = (/** @type {string[]} */ cells, /** @type {string} */ tag) =>
    h('tr', {}, heads.map((_, index) => h(tag, { class: aligned[index] }, inline(cells[index] ?? ''))));
  const body = h('tbody');
  let end = n + 2;
  for (; end < lines.length && lines[end].includes('|'); end++) body.append(row(cellsOf(lines[end]), 'td'));
  return [h('div', { class: 'table', tabindex: 0 }, h('table', {}, h('thead', {}, row(heads, 'th')), body)), end];
}

/** What may begin something in a text. */
const SIGN = /\\[!-/:-@[-`{-~]|`+|!?\[|\*{1,3}|_{1,3}|~~|https?:\/\//g;
const ADDRESS_END = /[\s<>"'`)\]]/g;
const WORD = /[\p{L}\p{N}_]/u;

/**
 * The places of `sign` in `text` at which something that began with it may end: after a character that is not a blank.
 * @param {string} text
 */
function endings(text) {
  /** @type {Map<string, number[]>} */
  const known = new Map();
  return (/** @type {string} */ sign, /** @type {number} */ after) => {
    let all = known.get(sign);
    if (!all) {
      known.set(sign, (all = []));
      for (let at = text.indexOf(sign); at >= 0; at = text.indexOf(sign, at + 1)) if (at && text[at - 1].trim()) all.push(at);
    }
    let [low, high] = [0, all.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[middle] < after) low = middle + 1;
      else high = middle;
    }
    return all[low] ?? -1;
  };
}

/** Where the next run of so many backticks begins, behind a place. @param {string} text */
function backticks(text) {
  /** @type {Map<number, number[]>} */
  const runs = new Map();
  for (const { 0: run, index } of text.matchAll(/`+/g)) {
    const same = runs.get(run.length);
    if (same) same.push(index);
    else runs.set(run.length, [index]);
  }
  for (const all of runs.values()) all.reverse();
  return (/** @type {number} */ length, /** @type {number} */ after) => {
    const left = runs.get(length) ?? [];
    while (left.length && left[left.length - 1] < after) left.pop(); // asked in the order of the text
    return left[left.length - 1] ?? -1;
  };
}

/** @param {string} text @param {number} [depth] @returns {(Node | string)[]} */
function inline(text, depth = 0) {
  /** @type {(Node | string)[]} */
  const found = [];
  let plain = '';
  const add = (/** @type {Node} */ node) => {
    if (plain) found.push(plain);
    plain = '';
    found.push(node);
  };
  const ending = endings(text);
  const closing = backticks(text);
  const next = new RegExp(SIGN);
  let at = 0;
  for (let match; depth < DEEPEST && (match = next.exec(text)); next.lastIndex = at) {
    const [sign] = match;
    plain += text.slice(at, match.index);
    at = match.index;
    const made = began(text, at, sign, depth, ending, closing);
    if (!made) {
      plain += sign;
      at += sign.length;
    } else {
      if (typeof made.node === 'string') plain += made.node;
      else if (made.node) add(made.node);
      at = made.end;
    }
  }
  plain += text.slice(at);
  if (plain) found.push(plain);
  return found;
}

/**
 * What begins with `sign` at `at`, and where it ends; undefined: it is only a sign.
 * @param {string} text @param {number} at @param {string} sign @param {number} depth
 * @param {(sign: string, after: number) => number} ending @param {(length: number, after: number) => number} closing
 * @returns {{node: Node | string, end: number} | undefined}
 */
function began(text, at, sign, depth, ending, closing) {
  const behind = at + sign.length;
  if (sign[0] === '\\') return { node: sign[1], end: behind };
  if (sign[0] === '`') {
    const end = closing(sign.length, behind);
    if (end < 0) return undefined;
    const fixed = text.slice(behind, end);
    return { node: h('code', { text: fixed.trim() || fixed }), end: end + sign.length };
  }
  if (sign.endsWith('[')) return linked(text, at, behind, depth);
  if (sign.startsWith('http')) return address(text, at);
  return emphasis(text, at, sign, depth, ending);
}

const ELEMENTS = /** @type {Record<string, string[]>} */ ({ '*': ['em'], _: ['em'], '**': ['strong'], __: ['strong'], '***': ['strong', 'em'], ___: ['strong', 'em'], '~~': ['del'] });

/** @returns {{node: Node, end: number} | undefined} */
function emphasis(/** @type {string} */ text, /** @type {number} */ at, /** @type {string} */ sign, /** @type {number} */ depth, /** @type {(sign: string, after: number) => number} */ ending) {
  const behind = at + sign.length;
  if (!(text[behind] ?? '').trim()) return undefined;
  if (sign[0] === '_' && WORD.test(text[at - 1] ?? '')) return undefined;
  const end = ending(sign, behind + 1);
  if (end < 0 || (sign[0] === '_' && WORD.test(text[end + sign.length] ?? ''))) return undefined;
  const node = ELEMENTS[sign].reduceRight((/** @type {any} */ inside, tag) => h(tag, {}, inside), inline(text.slice(behind, end), depth + 1));
  return { node, end: end + sign.length };
}

const BRACKET = /[[\]]/g;

/** A link or a picture: `[words](address "title")`. @returns {{node: Node | string, end: number} | undefined} */
function linked(/** @type {string} */ text, /** @type {number} */ at, /** @type {number} */ behind, /** @type {number} */ depth) {
  BRACKET.lastIndex = behind;
  const end = BRACKET.exec(text)?.index ?? -1;
  if (end < 0 || text[end] !== ']' || text[end + 1] !== '(') return undefined;
  const target = /^\(\s{0,10}<?([^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)?)>?(?:\s{1,10}(?:"[^"]*"|'[^']*'))?\s{0,10}\)/.exec(text.slice(end + 1, end + ADDRESS));
  if (!target) return undefined;
  const whole = text.slice(at, end + 1 + target[0].length);
  const label = text.slice(behind, end);
  return { node: link(target[1], label ? inline(label, depth + 1) : [target[1]], whole), end: at + whole.length };
}

/** An address in the text, without what only ends the sentence. @returns {{node: Node | string, end: number} | undefined} */
function address(/** @type {string} */ text, /** @type {number} */ at) {
  ADDRESS_END.lastIndex = at;
  let end = Math.min(ADDRESS_END.exec(text)?.index ?? text.length, at + ADDRESS);
  while ('.,;:!?'.includes(text[end - 1])) end--;
  const whole = text.slice(at, end);
  return { node: link(whole, [whole], whole), end };
}

/** @param {string} target @param {(Node | string)[]} children @param {string} whole what was written, for what is not a link */
function link(target, children, whole) {
  let url;
  try {
    url = new URL(target);
  } catch {
    return whole;
  }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) return whole;
  return h('a', { href: url.href, title: url.href, target: '_blank', rel: 'noopener noreferrer' }, children);
}
