import assert from 'node:assert/strict';
import { test } from 'node:test';

import { markup } from './dom.mjs';

const { markdown } = await import('../../../src/drawbridge/web/markdown.js');
const { pieces } = await import('../../../src/drawbridge/web/highlight.js');

const made = (text) => markup(markdown(text));

test('the Markdown of agents is drawn', () => {
  assert.equal(made('# A *b* #'), '<h3>A <em>b</em></h3>');
  assert.equal(made('**a** __b__ ~~c~~ `d` ***e***'), '<p><strong>a</strong> <strong>b</strong> <del>c</del> <code>d</code> <strong><em>e</em></strong></p>');
  assert.equal(made('- a\n- b\n  1. c\n\n> d'), '<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul><blockquote><p>d</p></blockquote>');
  assert.equal(made('snake_case__name__ 2*3*4 \\*x\\*'), '<p>snake_case__name__ 2<em>3</em>4 *x*</p>');
  assert.equal(made('[a](https://e.com/x_(y)) https://e.com/b.'), '<p><a>a</a> <a>https://e.com/b</a>.</p>');
  assert.equal(made('`` a`b ``'), '<p><code>a`b</code></p>');
  assert.equal(made('***'), '<hr></hr>');
});

test('a table keeps escaped bars and code', () => {
  const cells = (text) => [...made(text).matchAll(/<t[hd]>(.*?)<\/t[hd]>/g)].map(([, cell]) => cell);
  assert.deepEqual(cells('| a | b |\n|:-:|-|\n| `x \\| y` | z |'), ['a', 'b', '<code>x | y</code>', 'z']);
  assert.equal(made('a | b\nc'), '<p>a | b\nc</p>');
});

test('text that is not a link stays text', () => {
  for (const text of ['[a](javascript:x)', '[a](src/app.js)', '[a](data:text/html,x)', '[a]( x y )']) assert.equal(made(text), `<p>${text}</p>`);
});

test('a table of too many columns stays text', () => {
  const table = (columns) => made(`${'a|'.repeat(columns)}\n${'-|'.repeat(columns)}`);
  assert.equal(table(60).match(/<th>/g).length, 60);
  assert.ok(!table(61).includes('<table>'));
});

test('quotes and lists end at a depth', () => {
  const depth = (text, tag) => made(text).split(`<${tag}>`).length - 1;
  assert.equal(depth(`${'> '.repeat(20)}a`, 'blockquote'), 9);
  assert.equal(depth(`${'* - '.repeat(10)}a`, 'ul'), 9);
});

/** Where a text like this took seconds: `[name, text]`, of about 100,000 characters. */
const LONG = 100_000;
const of = (piece) => piece.repeat(Math.ceil(LONG / piece.length));
const growing = () => Array.from({ length: 440 }, (_, n) => '`'.repeat(n + 1)).join(' ');
const HOSTILE = [
  ['heading, blanks', `# a${' '.repeat(LONG)}b`], ['heading, signs', `# ${'#'.repeat(LONG)}x`], ['link, blanks', `[a](${' '.repeat(LONG)}`], ['links', of('[a](')], ['brackets', of('[')], ['pictures', of('![')],
  ['fence', `\`\`\`${' '.repeat(LONG)}${'a'.repeat(1000)}\u2028`], ['table', `|\n${' '.repeat(LONG)}x`], ['bars', `${of('|')}\n${of('-|')}`], ['backticks', growing()], ['strong', of('**a ')], ['weak', of('*a ')], ['gone', of('~~a ')],
  ['underscores', of('_a ')], ['lists', of('* - ')], ['quotes', of('> ')], ['item, blanks', `- ${' '.repeat(LONG)}a\u2028`], ['rule', `-${' -'.repeat(LONG / 2)}x`], ['escapes', of('\\*')], ['stars', `a${of('*')}`], ['nested strong', of('**a') + of('b**')],
  ['nested lists', Array.from({ length: 320 }, (_, n) => `${'  '.repeat(n)}- a`).join('\n')], ['addresses', of('https://')], ['code', of('`a` ')], ['line ends', of('\n')], ['empty quotes', of('>\n')], ['closing strong', of('a** ')],
];

for (const [name, text] of HOSTILE) {
  test(`a hostile text takes no longer than its length: ${name}`, () => {
    markdown(text.slice(0, 1000));
    const began = performance.now();
    markdown(text);
    const took = performance.now() - began;
    assert.ok(took < 1500, `${Math.round(took)} ms`); // 100 kB, five times what the page renders; it took 2 to 15 s
  });
}

test('half a million escaped signs are drawn', () => {
  assert.equal(markdown('\\*'.repeat(240_000)).textContent.length, 240_000);
});

test('long strings and long lines are not coloured', () => {
  // Both limits bound the search for the end of a string that has none.
  const kinds = (line) => pieces(line, 'js').map(({ kind }) => kind);
  assert.deepEqual(kinds(`'${'.'.repeat(200)}'`), ['string']);
  assert.deepEqual(kinds(`'${'.'.repeat(201)}'`), ['']);
  assert.deepEqual(kinds(`''${'.'.repeat(998)}`), ['string', '']);
  assert.deepEqual(kinds(`''${'.'.repeat(999)}`), ['']);
});

test('a line with unterminated quotes is coloured in time', () => {
  const line = "'\\".repeat(500);
  const began = performance.now();
  for (let n = 0; n < 400; n++) pieces(line, 'js');
  assert.ok(performance.now() - began < 1500);
  assert.equal(pieces(line, 'js').map(({ text }) => text).join(''), line);
});
