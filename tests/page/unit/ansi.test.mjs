import assert from 'node:assert/strict';
import { test } from 'node:test';

const { ansi, withoutAnsi } = await import('../../../web/src/text/ansi.ts');

const ESC = '\x1b';
const styles = (text) => ansi(text).map(({ text: part, style }) => `${style}|${part}`);

test('colors and weights become classes', () => {
  assert.deepEqual(styles(`a${ESC}[32mb${ESC}[1mc${ESC}[0md`), ['|a', 'ansi-green|b', 'ansi-green ansi-bold|c', '|d']);
  assert.deepEqual(styles(`${ESC}[91ma${ESC}[39mb`), ['ansi-red|a', '|b']);
  assert.deepEqual(styles(`${ESC}[38;5;196ma${ESC}[38;2;0;0;255mb${ESC}[mc`), ['ansi-red|a', 'ansi-blue|b', '|c']);
  assert.deepEqual(styles(`${ESC}[41ma${ESC}[7mb`), ['ansi-on-red|a', 'ansi-red ansi-on-ink|b']);
});

test('colors never hide text', () => {
  assert.deepEqual(styles(`${ESC}[30;40ma${ESC}[37;47mb${ESC}[8mc`), ['|abc']);
});

test('other escape sequences are removed', () => {
  const text = `a${ESC}[2Kb${ESC}[10;20Hc${ESC}]0;title\x07d${ESC}]8;;https://x${ESC}\\e${ESC}(Bf${ESC}[?25lg${ESC}Mh`;
  assert.equal(withoutAnsi(text), 'abcdefgh');
});

test('lines that overwrite each other are all shown', () => {
  assert.equal(withoutAnsi('10 %\r50 %\r100 %\r\ndone\r\n'), '10 %\n50 %\n100 %\ndone\n');
});

test('many unterminated escape sequences are parsed quickly', () => {
  for (const piece of [ESC, `${ESC}[`, `${ESC}]`, `${ESC}[1;`, `${ESC}[38;5;`, `${ESC}]a`, `${ESC}[m`]) {
    const text = piece.repeat(Math.ceil(100_000 / piece.length));
    const began = performance.now();
    ansi(text);
    const took = performance.now() - began;
    assert.ok(took < 1500, `${JSON.stringify(piece)}: ${Math.round(took)} ms`);
  }
});
