// The examples of the CommonMark specification. Examples that are drawn differently on purpose are listed with the
// reason.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';

import { drawn } from './dom.mjs';

const { Blocks } = await import('../../../web/src/text/markdown.tsx');
const { blocksOf, load } = await import('../../../web/src/text/blocks.ts');

await load();

const SPEC = new URL('../../web/node_modules/commonmark-spec/spec.txt', import.meta.url);

/** Sections of the specification about HTML, which is plain text here. */
const HTML = new Set(['HTML blocks', 'Raw HTML']);

/** Examples in other sections whose Markdown contains a tag. */
const TAGS = [21, 31, 201, 308, 309, 344, 475, 476, 477, 491, 494, 524, 536, 642, 643];

/**
 * Links that are plain text, because their protocol is not known to be harmless, or because their address is empty or
 * leads to the web UI itself; and links without words, which show their address.
 */
const ADDRESSES = [200, 484, 485, 486, 487, 501, 567, 581, 596, 598, 599, 601];

/** Character references that agents do not use are not decoded. */
const REFERENCES = [25];

/** In GitHub's Markdown, which agents write, an address is a link even without brackets. */
const GFM = [602, 608, 611, 612];

function examples() {
  const found = [];
  let section = '';
  const text = fs.readFileSync(SPEC, 'utf8').replaceAll('→', '\t');
  const pattern = /^#{1,6} (.*)$|^`{32} example\n([\s\S]*?)^\.\n([\s\S]*?)^`{32}$/gm;
  for (const [, heading, markdown, html] of text.matchAll(pattern)) {
    if (heading !== undefined) section = heading;
    else found.push({ number: found.length + 1, section, markdown, html });
  }
  return found;
}

const BLOCKS = /\s*(<\/?(?:p|h\d|ul|ol|li|blockquote|pre|hr)>)\s*/g;

const IMAGES = /<img [^>]*?alt="([^"]*)"[^>]*>/g;

/**
 * The HTML of an example, adapted to what the web UI draws: heading levels begin at 3, an image is a link with its
 * text, and whitespace, paragraph tags and attributes are left out.
 */
function expected(html) {
  return tidy(
    html
      .replace(/<a [^>]*>.*?<\/a>/gs, (link) => link.replace(IMAGES, '$1'))
      .replace(IMAGES, '<a>$1</a>')
      .replace(/<(\/?)h([1-6])>/g, (_, end, level) => `<${end}h${Math.max(3, Number(level))}>`)
      .replace(/<br \/>/g, '\n')
      .replace(/<hr \/>/g, '<hr></hr>')
      .replace(/<(\w+)(?: [^>]*)?>/g, '<$1>')
      .replace(/&(lt|gt|quot|amp);/g, (_, name) => ({ lt: '‹', gt: '›', quot: '"', amp: '&' })[name]),
  );
}

function actual(node) {
  if (node.data !== undefined) return node.data.replace(/\\xa0/g, ' ').replace(/</g, '‹').replace(/>/g, '›');
  const inside = node.childNodes.map(actual).join('');
  if (node.attributes.class === 'code-head') return '';
  if (
    node.localName === 'div' ||
    node.localName === 'section' ||
    node.localName === 'span' ||
    node.localName === 'input'
  )
    return inside;
  const tag = node.localName === 'button' ? 'a' : node.localName;
  return `<${tag}>${inside}</${tag}>`;
}

const tidy = (markup) =>
  markup
    .replace(/<\/?p>/g, ' ')
    .replace(/\s+/g, ' ')
    .replace(BLOCKS, '$1')
    .replace(/\s*(<\/?code>)\s*/g, '$1')
    .trim();

const differs = ({ markdown, html }) => {
  const element = drawn(Blocks, { blocks: blocksOf(markdown), openFile: () => {} });
  return tidy(element.childNodes.map(actual).join('')) !== expected(html);
};

test('the examples of CommonMark are drawn, except the listed ones', () => {
  const all = examples();
  assert.equal(all.length, 652);
  const failed = all.filter((one) => !HTML.has(one.section) && differs(one)).map(({ number }) => number);
  assert.deepEqual(
    failed,
    [...TAGS, ...ADDRESSES, ...REFERENCES, ...GFM].sort((a, b) => a - b),
  );
});
