import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Lexer, Tokenizer } from 'marked';

import { drawn, markup } from './dom.mjs';

const { addressOf, Blocks, fileOf } = await import('../../../web/src/text/markdown.tsx');
const { Message } = await import('../../../web/src/text/message.tsx');
const { blocksOf, GrowingBlocks, isLoaded, load } = await import('../../../web/src/text/blocks.ts');

test('without the lexer a text is one paragraph, as it was written', async () => {
  assert.equal(isLoaded(), false);
  assert.equal(markup(drawn(Blocks, { blocks: blocksOf('# One\n\n*two*') })), '<p># One\n\n*two*</p>');
  await load();
  assert.equal(isLoaded(), true);
});

const element = (text, more = {}) => drawn(Blocks, { blocks: blocksOf(text), ...more });
const made = (text, more) => markup(element(text, more));

test('the Markdown of agents is drawn', () => {
  assert.equal(made('# A *b* #'), '<h3>A <em>b</em></h3>');
  assert.equal(
    made('**a** __b__ ~~c~~ `d` ***e***'),
    '<p><strong>a</strong> <strong>b</strong> <del>c</del> <code>d</code> <em><strong>e</strong></em></p>',
  );
  assert.equal(
    made('- a\n- b\n  1. c\n\n> d'),
    '<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul><blockquote><p>d</p></blockquote>',
  );
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
  for (const text of ['[a](javascript:x)', '[a](src/app.js)', '[a](data:text/html,x)', '[a]( x y )'])
    assert.equal(made(text), `<p>${text}</p>`);
});

test('links are not nested', () => {
  const badge = '[![build](https://e.com/a.svg "t")](https://e.com/b)';
  assert.equal(made(badge), '<p><a>build</a></p>');
  assert.equal(made(badge, { whole: true }), '<p><a>build (https://e.com/a.svg “t”)</a> (https://e.com/b)</p>');
  assert.equal(made('[see `src/a.py`](https://e.com)', { openFile() {} }), '<p><a>see <code>src/a.py</code></a></p>');
});

test('a table of too many columns stays text', () => {
  const table = (columns) => made(`${'a|'.repeat(columns)}\n${'-|'.repeat(columns)}`);
  assert.equal(table(60).match(/<th>/g).length, 60);
  assert.ok(!table(61).includes('<table>'));
});

test('the depth of quotes and lists is limited', () => {
  const depth = (text, tag) => made(text).split(`<${tag}>`).length - 1;
  assert.equal(depth(`${'> '.repeat(20)}a`, 'blockquote'), 9);
  assert.equal(depth(`${'* - '.repeat(10)}a`, 'ul'), 9);
});

/** The approximate length of the texts below, in characters. Parsing them used to take a long time. */
const LONG = 100_000;
const of = (piece) => piece.repeat(Math.ceil(LONG / piece.length));
const growing = () => Array.from({ length: 440 }, (_, n) => '`'.repeat(n + 1)).join(' ');
const HOSTILE = [
  ['heading, blanks', `# a${' '.repeat(LONG)}b`],
  ['heading, signs', `# ${'#'.repeat(LONG)}x`],
  ['link, blanks', `[a](${' '.repeat(LONG)}`],
  ['links', of('[a](')],
  ['brackets', of('[')],
  ['pictures', of('![')],
  ['fence', `\`\`\`${' '.repeat(LONG)}${'a'.repeat(1000)}\u2028`],
  ['table', `|\n${' '.repeat(LONG)}x`],
  ['bars', `${of('|')}\n${of('-|')}`],
  ['backticks', growing()],
  ['strong', of('**a ')],
  ['weak', of('*a ')],
  ['gone', of('~~a ')],
  ['underscores', of('_a ')],
  ['lists', of('* - ')],
  ['quotes', of('> ')],
  ['item, blanks', `- ${' '.repeat(LONG)}a\u2028`],
  ['rule', `-${' -'.repeat(LONG / 2)}x`],
  ['escapes', of('\\*')],
  ['stars', `a${of('*')}`],
  ['nested strong', of('**a') + of('b**')],
  ['nested lists', Array.from({ length: 320 }, (_, n) => `${'  '.repeat(n)}- a`).join('\n')],
  ['addresses', of('https://')],
  ['code', of('`a` ')],
  ['line ends', of('\n')],
  ['empty quotes', of('>\n')],
  ['closing strong', of('a** ')],
  ['strong next to strong', of('**a*b')],
  ['three stars', of('***a') + of('b***')],
  ['two kinds of emphasis', of('*a_b')],
  ['underscores of both sides', of('_a _b_')],
  ['tildes', of('~~a') + of('b~~')],
  ['mail addresses', of('a@b.')],
  ['less-than signs', of('<')],
  ['references', `[a]: https://a.b\n\n${of('[a]')}`],
];

const MEGABYTE = 1_000_000;
const megabyte = (text) => text.repeat(Math.ceil(MEGABYTE / text.length)).slice(0, MEGABYTE);

/** The CPU time that `act` takes in this process, in milliseconds. */
function cost(act) {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** A fixed amount of work. `cost(pace)` measures the current speed of the machine: about 34 ms on an idle machine. */
function pace() {
  let sum = 0;
  for (let n = 0; n < 3e7; n++) sum += n % 7;
  return sum;
}

const fixed = cost(pace);

for (const [name, text] of HOSTILE) {
  test(`a message of a megabyte takes 100 ms at most: ${name}`, () => {
    // As one block, and as blocks that are just short enough to be parsed.
    for (const long of [megabyte(text), megabyte(`${text.slice(0, 19_900)}\n\n`)]) {
      const tries = [cost(() => drawn(Message, { text: long })) / fixed];
      while (tries.at(-1) > 3 && tries.length < 5) tries.push(cost(() => drawn(Message, { text: long })) / cost(pace));
      assert.ok(tries.at(-1) <= 3, `${tries.map((one) => one.toFixed(1))} times the fixed work`);
    }
  });
}

test('the search for the end of emphasis is bounded', () => {
  const search = Tokenizer.prototype.emStrong;
  let searched = 0;
  Tokenizer.prototype.emStrong = function (text, ...rest) {
    if (text[0] === '_') searched += text.length;
    return search.call(this, text, ...rest);
  };
  blocksOf(of('_a _b_').slice(0, 19_900));
  Tokenizer.prototype.emStrong = search;
  assert.ok(searched <= 1_000_000, `${searched} characters`); // without a limit: 60 million for each of nine depths
});

test('a text with very many markers between two asterisks is not emphasized', () => {
  const marked = (count) => made(`**${'a_b '.repeat(count)}c**`);
  assert.match(marked(50), /<strong>/);
  assert.doesNotMatch(marked(100), /<strong>/);
  assert.match(made(`**see \`${'a_'.repeat(100)}\` c**`), /<strong>/); // those in code don't count
});

test('a long text between two asterisks is not emphasized', () => {
  assert.match(made(`*${'a '.repeat(200)}a*`), /<em>/);
  assert.doesNotMatch(made(`*${'a '.repeat(300)}a*`), /<em>/);
  const words = `${'word '.repeat(100)}`;
  assert.equal(made(`${words}ada@e.com ${words}`).match(/<a>/g).length, 1);
  assert.equal(made(`${words} https://e.com/${'x'.repeat(400)}`).match(/<a>.*<\/a>/)[0].length, 400 + 14 + 7);
});

test('a long text without Markdown is drawn a part at a time', () => {
  const text = 'a\u202e'.repeat(30_000); // every second character becomes an element
  assert.ok(drawn(Message, { text }).textContent.length < 8_000 * 4);
});

test('HTML is plain text', () => {
  assert.equal(made('<b onclick="x">a</b> *c*'), '<p><b onclick="x">a</b> <em>c</em></p>'); // `markup` does not escape
  assert.equal(element('<script>a</script>').childNodes[0].childNodes.length, 1);
  assert.equal(made('<details>\n\n**a**\n\n</details>'), '<p><details></p><p><strong>a</strong></p><p></details></p>');
  assert.equal(made('a<br>b'), '<p>a\nb</p>');
});

test('links leave the web UI only with a harmless protocol', () => {
  assert.equal(addressOf('https://a.b/c?d=e&f'), 'https://a.b/c?d=e&f');
  assert.equal(addressOf('mailto:a@b.c'), 'mailto:a@b.c');
  for (const href of [
    'javascript:x',
    'JaVaScRiPt:x',
    'data:text/html,x',
    'file:///etc/passwd',
    '//a.b',
    'a/b',
    'vbscript:x',
    '',
  ])
    assert.equal(addressOf(href), undefined);
  assert.equal(made('[a](java&#115;cript:x)'), '<p>[a](java&#115;cript:x)</p>');
});

test('relative links are files of the project where they can be opened', () => {
  assert.deepEqual(fileOf('src/app.js#L3'), { path: 'src/app.js', line: 3 });
  assert.deepEqual(fileOf('./src/a%20b.js:12'), { path: 'src/a b.js', line: 12 });
  assert.deepEqual(fileOf('src/app.js:12:5'), { path: 'src/app.js', line: 12 });
  assert.deepEqual(fileOf('src/app.js#L3-L9'), { path: 'src/app.js', line: 3 });
  assert.deepEqual(fileOf('README.md'), { path: 'README.md', line: undefined });
  for (const href of ['javascript:x', '//a.b/c', '#a', '?a', '', 'a:b/c']) assert.equal(fileOf(href), undefined, href);
  const openFile = () => {};
  assert.equal(made('[a](src/app.js#L3)', { openFile }), '<p><button>a</button></p>');
  assert.equal(made('`src/bridge.py:11` `os.path` `a/b.py` `1/2`', { openFile }).split('<button>').length, 3);
  assert.equal(made('`src/bridge.py:11`'), '<p><code>src/bridge.py:11</code></p>');
});

test('tables have alignment, and lists have tasks', () => {
  const table = element('| a | b |\n|:-:|--:|\n| c | d |');
  const classes = (node) => [node.attributes?.class, ...node.childNodes.map(classes)].flat().filter(Boolean);
  assert.deepEqual(classes(table), ['table', 'middle', 'right', 'middle', 'right']);
  assert.equal(made('Results:\n| a |\n|---|\n| b |').match(/<table>/g).length, 1);
  assert.equal(made('- [x] a\n- [ ] b'), '<ul><li><input></input>a</li><li><input></input>b</li></ul>');
});

test('Markdown is read as agents mean it', () => {
  assert.equal(made('*a **b** c*'), '<p><em>a <strong>b</strong> c</em></p>');
  assert.equal(made('in the year\n1986. It was'), '<p>in the year\n1986. It was</p>');
  assert.equal(made('a &lt; b &rarr; &#8594; &unknown;'), '<p>a < b → → &unknown;</p>');
  assert.equal(made('````\n```js\n````').match(/```js/g).length, 1);
  assert.equal(made('see https://a/x_(y)).'), '<p>see <a>https://a/x_(y)</a>).</p>');
});

test('a growing text is drawn like the complete one', () => {
  const text = [
    '# A',
    'a *b*',
    'c',
    '',
    '- d',
    '- e',
    '  1. f',
    '',
    '  g',
    '',
    '| h | i |',
    '|---|---|',
    '| j | k |',
    '',
    '```js',
    'l',
    '',
    'm',
    '```',
    '> n',
    '> o',
    '',
    'p',
    '===',
    '',
    '    q',
    '',
    '    r',
    's\r\nt\r\n\r\nu',
    '***',
    '- [ ] v',
    '[w](x)',
  ].join('\n');
  const growing = new GrowingBlocks();
  for (let end = 1; end <= text.length; end++) growing.update(text.slice(0, end));
  assert.equal(markup(drawn(Blocks, { blocks: growing.blocks })), made(text));
  assert.ok(growing.finished >= 8);
});

test('finished blocks of a text that grows stay the same objects', () => {
  const growing = new GrowingBlocks();
  growing.update('a\n\nb\n\n- c\n');
  const before = growing.blocks.slice(0, growing.finished);
  growing.update('a\n\nb\n\n- c\n- d\n\ne');
  assert.equal(before.length, 4);
  before.forEach((block, index) => assert.equal(growing.blocks[index], block));
});

test('a long text that grows is read in a time proportional to its length', () => {
  const read = Lexer.prototype.blockTokens;
  let count = 0;
  Lexer.prototype.blockTokens = function (text, ...rest) {
    count += text.length;
    return read.call(this, text, ...rest);
  };
  const growing = new GrowingBlocks();
  const text = `${'word '.repeat(40)}\n\n`.repeat(250);
  for (let end = 0; end <= text.length; end += 100) growing.update(text.slice(0, end));
  Lexer.prototype.blockTokens = read;
  assert.ok(count < text.length * 6, `${count} of ${text.length}`); // 250 times, if all of it were parsed each time
});
