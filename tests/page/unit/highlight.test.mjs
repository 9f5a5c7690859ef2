import assert from 'node:assert/strict';
import { test } from 'node:test';

import './dom.mjs';

const { highlight, isColored, languageOf } = await import('../../../web/src/text/highlight.ts');

/** The parts of each line that have a kind, as `kind:text`. */
const kinds = async (code, language) =>
  (await highlight(code, language)).map((line) =>
    line.filter(({ kind }) => kind).map(({ kind, text }) => `${kind}:${text}`),
  );

test('colors continue on the next line', async () => {
  const python = await kinds('def f():\n  """a\n  it\'s b\n  """\n  return 1', 'py');
  assert.deepEqual(python[0].slice(0, 2), ['word:def', 'name:f']);
  assert.deepEqual(python.slice(1, 4), [['string:"""a'], ["string:  it's b"], ['string:  """']]);
  assert.deepEqual(python[4], ['word:return', 'number:1']);
  const javascript = await kinds('/* a\n b */ const c = `d\ne`;', 'js');
  assert.deepEqual(
    javascript.map((line) => line[0]),
    ['comment:/* a', 'comment: b */', 'string:e`'],
  );
});

test('code that used to be colored wrongly is colored correctly', async () => {
  assert.ok((await kinds("fn f<'a>(x: &'a str) -> u8 { 1 }", 'rs'))[0].includes('number:1'));
  assert.ok((await kinds('SELECT a FROM b', 'sql'))[0].includes('word:SELECT'));
  assert.deepEqual(await kinds('-a\n+b\n c', 'diff'), [['deleted:-a'], ['inserted:+b'], []]);
  assert.ok((await kinds('a: 1 # b', 'yaml'))[0].some((one) => one.startsWith('comment')));
  assert.ok((await kinds('<p title="a">it\'s // b</p>', 'html'))[0].every((one) => !one.startsWith('comment')));
});

test('the parts of all lines add up to the text', async () => {
  const code = 'a = "b\n\n\tc\r\nd" # e\n\u202e\u{1f600}';
  for (const language of [
    'py',
    'js',
    'sh',
    'toml',
    'html',
    'md',
    'sql',
    'rust',
    'go',
    'c',
    'yaml',
    'xml',
    'css',
    'json',
    'php',
    'java',
    'ruby',
    'lua',
    'diff',
    'dockerfile',
    'unknown',
    '',
  ]) {
    const lines = await highlight(code, language);
    assert.equal(lines.map((line) => line.map(({ text }) => text).join('')).join('\n'), code, language);
  }
});

test('every grammar that is offered can be loaded', async () => {
  const named =
    'c clojure cmake csharp css dart diff dockerfile elm erlang fsharp go groovy haskell html ini java javascript json julia kotlin lua markdown nginx objectivec ocaml perl php powershell protobuf python r ruby rust sass scala shell sql swift toml typescript tsx xml yaml';
  const failed = [];
  const { error } = console;
  console.error = (...words) => failed.push(words);
  for (const language of named.split(' ')) {
    assert.ok(isColored('a', language), language);
    assert.equal((await highlight('a = "b"\nc', language)).length, 2, language);
  }
  console.error = error;
  assert.deepEqual(failed, []);
});

test('the language of a file is known from its name', () => {
  assert.equal(languageOf('a/b.py'), 'python');
  assert.equal(languageOf('Dockerfile'), 'dockerfile');
  assert.equal(languageOf('a/Makefile'), 'cmake');
  assert.equal(languageOf('a.constructor'), '');
  assert.equal(languageOf('a/constructor'), '');
  assert.equal(languageOf('notes'), '');
});

test('highlighting never blocks the event loop for a second', async () => {
  const long = 'a'.repeat(300_001);
  assert.ok(!isColored(long, 'js'));
  const texts = {
    js: '`${'.repeat(30_000),
    py: '"""'.repeat(30_000),
    html: '<a '.repeat(30_000),
    sh: '$('.repeat(40_000),
    md: '> '.repeat(500),
    json: '['.repeat(50_000),
  };
  // CPU time of this process, because other processes may run at the same time.
  const milliseconds = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  for (const [language, text] of Object.entries(texts)) {
    let longest = 0;
    let before = milliseconds();
    const timer = setInterval(() => {
      longest = Math.max(longest, milliseconds() - before);
      before = milliseconds();
    }, 1);
    await highlight(text, language);
    clearInterval(timer);
    longest = Math.max(longest, milliseconds() - before);
    assert.ok(longest < 1000, `${language}: ${Math.round(longest)} ms in one go`);
  }
});
