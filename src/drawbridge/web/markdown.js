// An agent's Markdown as elements. No HTML is ever made of it: what looks like a tag is a text; a link leads to http, https or
// mail, or it is none. Images are links, so that nobody learns that they were looked at.

import { h } from './dom.js';
import { pieces } from './highlight.js';

const DEEPEST = 8;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*).*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const TABLE = /^\s*\|?\s*:?-{2,}:?\s*(\|\s*:?-{2,}:?\s*)*\|?\s*$/;

/** @param {string} text @returns {DocumentFragment} */
export function markdown(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(...blocks(text.replace(/\r\n?/g, '\n').split('\n'), 0));
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
      while (n < lines.length && lines[n].trim() && !starts(lines, n)) n++;
      found.push(h('p', {}, ...inline(lines.slice(from, n).join('\n'))));
    }
  }
  return found;
}

/** @returns {[Node, number] | undefined} */
function short(/** @type {string} */ line, /** @type {number} */ n) {
  const heading = HEADING.exec(line);
  if (heading) return [h(`h${Math.min(6, heading[1].length + 2)}`, {}, ...inline(heading[2])), n + 1];
  return RULE.test(line) ? [h('hr'), n + 1] : undefined;
}

const starts = (/** @type {string[]} */ lines, /** @type {number} */ n) => [FENCE, HEADING, RULE, ITEM, QUOTE].some((pattern) => pattern.test(lines[n]));

/** @returns {[Node, number] | undefined} */
function fenced(/** @type {string[]} */ lines, /** @type {number} */ n) {
  const match = FENCE.exec(lines[n]);
  if (!match) return undefined;
  let end = n + 1;
  while (end < lines.length && !lines[end].trim().startsWith(match[1])) end++;
  return [code(lines.slice(n + 1, end).join('\n'), match[2].toLowerCase()), end + 1];
}

/** A block of code, in the colours of its language. */
export function code(/** @type {string} */ text, /** @type {string} */ language) {
  const element = h('code');
  text.split('\n').forEach((line, index) => {
    if (index) element.append('\n');
    for (const piece of pieces(line, language)) element.append(piece.kind ? h('span', { class: `code-${piece.kind}`, text: piece.text }) : piece.text);
  });
  return h('pre', { tabindex: 0 }, element);
}

/** @returns {[Node, number] | undefined} */
function listed(/** @type {string[]} */ lines, /** @type {number} */ n, /** @type {number} */ depth) {
  const first = RULE.test(lines[n]) ? null : ITEM.exec(lines[n]);
  if (!first) return undefined;
  const ordered = /\d/.test(first[2]);
  const list = h(ordered ? 'ol' : 'ul', ordered && parseInt(first[2], 10) !== 1 ? { start: parseInt(first[2], 10) } : {});
  while (n < lines.length) {
    const match = ITEM.exec(lines[n]);
    if (!match || /\d/.test(match[2]) !== ordered || match[1].length > first[1].length + 1) break;
    const indent = match[1].length + match[2].length + 1;
    const inner = [match[3]];
    for (n++; n < lines.length; n++) {
      const deep = lines[n].length - lines[n].trimStart().length;
      if (lines[n].trim() && deep < Math.min(indent, match[1].length + 2)) break;
      if (!lines[n].trim() && !/^\s{2,}\S/.test(lines[n + 1] ?? '')) break;
      inner.push(lines[n].slice(Math.min(deep, indent)));
    }
    const content = blocks(inner, depth + 1);
    const only = content.length && content[0].nodeName === 'P' ? [...content[0].childNodes, ...content.slice(1)] : content;
    list.append(h('li', {}, ...only));
    while (n < lines.length && !lines[n].trim() && ITEM.test(lines[n + 1] ?? '')) n++;
  }
  return [list, n];
}

/** @returns {[Node, number] | undefined} */
function quoted(/** @type {string[]} */ lines, /** @type {number} */ n, /** @type {number} */ depth) {
  const inner = [];
  for (let match; n < lines.length && (match = QUOTE.exec(lines[n])); n++) inner.push(match[1]);
  return inner.length ? [h('blockquote', {}, ...blocks(inner, depth + 1)), n] : undefined;
}

/** @returns {[Node, number] | undefined} */
function tabled(/** @type {string[]} */ lines, /** @type {number} */ n) {
  if (!lines[n].includes('|') || !TABLE.test(lines[n + 1] ?? '')) return undefined;
  const row = (/** @type {string} */ line, /** @type {string} */ tag) =>
    h('tr', {}, ...line.trim().replace(/^\||\|$/g, '').split('|').map((cell) => h(tag, {}, ...inline(cell.trim()))));
  const body = h('tbody');
  let end = n + 2;
  for (; end < lines.length && lines[end].includes('|'); end++) body.append(row(lines[end], 'td'));
  return [h('div', { class: 'table', tabindex: 0 }, h('table', {}, h('thead', {}, row(lines[n], 'th')), body)), end];
}

const INLINE = /(`+)([^`]|[^`][\s\S]*?[^`])\1(?!`)|!?\[([^\[\]]*)\]\(\s*<?([^\s()<>]*)>?(?:\s+"[^"]*")?\s*\)|(\*\*|__)(?=\S)([\s\S]*?\S)\5|([*])(?=\S)([^*]*?[^\s*])\7|\b_(?=\S)([^_]*?[^\s_])_\b|~~(?=\S)([\s\S]*?\S)~~|(https?:\/\/[^\s<>"'`)\]]*[^\s<>"'`)\].,;:!?])|\\([!-/:-@[-`{-~])/;

/** @param {string} text @param {number} [depth] @returns {(Node | string)[]} */
function inline(text, depth = 0) {
  /** @type {(Node | string)[]} */
  const found = [];
  let rest = text;
  for (let match; depth < DEEPEST && (match = INLINE.exec(rest)); rest = rest.slice(match.index + match[0].length)) {
    if (match.index) found.push(rest.slice(0, match.index));
    const [whole, , fixed, label, target, , strong, , weak, weak_, gone, address, escaped] = match;
    if (fixed !== undefined) found.push(h('code', { text: fixed.trim() || fixed }));
    else if (target !== undefined) found.push(link(target, label ? inline(label, depth + 1) : [target], whole));
    else if (strong !== undefined) found.push(h('strong', {}, ...inline(strong, depth + 1)));
    else if ((weak ?? weak_) !== undefined) found.push(h('em', {}, ...inline(weak ?? weak_, depth + 1)));
    else if (gone !== undefined) found.push(h('del', {}, ...inline(gone, depth + 1)));
    else if (address !== undefined) found.push(link(address, [address], address));
    else found.push(escaped);
  }
  if (rest) found.push(rest);
  return found;
}

/** @param {string} target @param {(Node | string)[]} children @param {string} whole what was written, for what is no link */
function link(target, children, whole) {
  let url;
  try {
    url = new URL(target);
  } catch {
    return whole;
  }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) return whole;
  return h('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer' }, ...children);
}
