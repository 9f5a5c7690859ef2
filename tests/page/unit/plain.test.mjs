import assert from 'node:assert/strict';
import { test } from 'node:test';

const { cutAt } = await import('../../../web/src/text/plain.tsx');

test('a long text is cut after a line, or else after a word', () => {
  const cut = (text, most) => text.slice(0, cutAt(text, most));
  assert.equal(cut('one two\nthree four', 30), 'one two\nthree four');
  assert.equal(cut('one two\nthree four', 12), 'one two\n');
  assert.equal(cut('one two three four', 10), 'one two ');
  assert.equal(cut('a bcdefghijklmnop', 10), 'a bcdefghi', 'not far too early');
  assert.equal(cut('abcdefghi😀', 10), 'abcdefghi', 'not inside a character');
});
