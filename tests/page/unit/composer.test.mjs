import assert from 'node:assert/strict';
import { test } from 'node:test';

import { commandsFor, completed, tokenAt } from '../../../web/src/composer/complete.ts';

const at = (text) => {
  const caret = text.indexOf('|');
  const token = tokenAt(text.replace('|', ''), caret);
  return token && `${token.kind} ${token.query}`;
};

test('a slash at the beginning starts a command, and an at sign before a word names a file', () => {
  assert.equal(at('/com|'), 'command com');
  assert.equal(at('/|'), 'command ');
  assert.equal(at('see /com|'), undefined);
  assert.equal(at('/compact now|'), undefined);
  assert.equal(at('look at @src/ma|'), 'file src/ma');
  assert.equal(at('@|'), 'file ');
  assert.equal(at('(@no|)'), 'file no');
  assert.equal(at('mail me@example|'), undefined);
  assert.equal(at('@notes.md |'), undefined);
  assert.equal(at('|@notes.md'), undefined);
  assert.equal(at('/review @no|'), 'file no');
});

test('a megabyte without a space does not keep the processor busy', () => {
  const began = process.cpuUsage();
  const text = '@'.repeat(1_000_000);
  tokenAt(text, text.length);
  tokenAt(`/${'a'.repeat(1_000_000)}`, 1_000_001);
  assert.ok(process.cpuUsage(began).user < 2_000_000); // µs; a search that is not linear needs minutes
});

const COMMANDS = [
  { name: 'clear' },
  { name: 'compact', text: 'Keep a summary' },
  { name: 'my:compact', hint: '[words]' },
];

test('commands that begin with the query come first', () => {
  assert.deepEqual(
    commandsFor('COMP', COMMANDS).map(({ label }) => label),
    ['/compact', '/my:compact [words]'],
  );
  assert.equal(commandsFor('', COMMANDS).length, 3);
  assert.deepEqual(commandsFor('nothing', COMMANDS), []);
  const many = Array.from({ length: 1000 }, (_, index) => ({ name: `c${index}` }));
  assert.equal(commandsFor('c', many).length, 50);
});

test('a choice replaces the token, and the caret is after it', () => {
  const put = (text, value, kind) => {
    const caret = text.indexOf('|');
    const plain = text.replace('|', '');
    const done = completed(plain, tokenAt(plain, caret), { value, label: value, kind });
    return `${done.text.slice(0, done.caret)}|${done.text.slice(done.caret)}`;
  };
  assert.equal(put('/co|', '/compact', 'command'), '/compact |');
  assert.equal(put('see @no| please', 'notes.md', 'file'), 'see @notes.md |please');
  assert.equal(put('see @no|', 'my notes.md', 'file'), 'see @"my notes.md" |');
  assert.equal(put('see @s|', 'src/', 'directory'), 'see @src/|');
});
