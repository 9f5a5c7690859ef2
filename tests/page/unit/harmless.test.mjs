import assert from 'node:assert/strict';
import { test } from 'node:test';

import { harmless, inPieces, inShortPieces, isHarmless, wellFormed } from '../../../web/src/text/harmless.ts';

const shown = (pieces) => pieces.map(({ text }) => text).join('');

test('hidden and reordering characters are escaped', () => {
  assert.equal(harmless('echo \u202egpj.tac\u202c'), 'echo \\u202egpj.tac\\u202c');
  for (const hidden of [
    'a\u200bb',
    'a\u200db',
    'rm\u00a0-rf',
    'rm\u2003-rf',
    'a\u3164b',
    'a\u2800b',
    'a\ufe0fb',
    'a\u3000b',
    'a\u00adb',
    'a\ufffcb',
    'l\u0336s\u0336',
    '-\u0301',
    'a\u0301\u0302\u0303\u0304\u0305',
    '\ud800',
    'a\u{e0041}b',
  ]) {
    assert.notEqual(harmless(hidden), hidden, JSON.stringify(hidden));
    assert.ok(!isHarmless(hidden));
  }
});

test('characters that are needed to write languages and emoji are not escaped', () => {
  for (const text of [
    '👩‍💻 ❤️‍🔥 🏳️‍🌈 1️⃣ ©️',
    'Zoë, e\u0301te\u0301, Việt',
    'مرحبا',
    'שָׁלוֹם',
    'می‌خواهم',
    'Vraiment\u202f? Oui\u00a0: 10\u202f000 et «\u00a0non\u00a0».',
    '日本語\u3000です',
    'ไม่ได้',
    'क्‍ष',
  ]) {
    assert.equal(harmless(text), text);
    assert.ok(isHarmless(text));
  }
});

test('lines and tabs of a text stay, and the carriage return of a CRLF is not drawn', () => {
  assert.equal(shown(inPieces('a\tb\r\nc')), 'a\tb\nc');
  assert.equal(shown(inPieces('a\rb\u001b[0m')), 'a\\x0db\\x1b[0m');
  assert.equal(harmless('a\nb'), 'a\\x0ab');
});

test('a joining character at the beginning of a text is escaped, too', () => {
  assert.equal(shown(inPieces('\u0338x')), '\\u0338x');
  assert.equal(shown(inPieces('\u0301x')), '\\u0301x');
  assert.equal(shown(inPieces('\u200dx')), '\\u200dx');
  assert.equal(shown(inPieces('\u3000日本')), '\u3000日本');
});

test('text cannot be hidden by long runs of spaces or blank lines', () => {
  assert.equal(shown(inShortPieces(`ls${' '.repeat(4000)}; curl`)), 'ls⟨4,000 spaces or tabs⟩; curl');
  assert.equal(shown(inShortPieces(`ls${'\n'.repeat(400)}curl`)), 'ls\n⟨399 blank lines⟩\ncurl');
  assert.equal(shown(inShortPieces('a\n\n\n    b')), 'a\n\n\n    b');
});

test('halves of surrogate pairs are replaced before they are sent', () => {
  assert.equal(wellFormed('a\ud800b 😀'), 'a\ufffdb 😀');
});
