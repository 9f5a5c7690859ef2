import assert from 'node:assert/strict';
import { test } from 'node:test';

import { changesAddress, fileAddress, fileIn } from '../../../web/src/files/address.ts';
import { differenceOf } from '../../../web/src/files/changes.ts';

test('an address names a file, its line, or its changes', () => {
  const file = { project: 'proj_1', path: 'src/a b?.py', line: undefined, changes: false };
  assert.deepEqual(fileIn(fileAddress('proj_1', 'src/a b?.py')), file);
  assert.deepEqual(fileIn(fileAddress('proj_1', 'src/a b?.py', 7)), { ...file, line: 7 });
  assert.deepEqual(fileIn(changesAddress('proj_1', 'src/a b?.py')), { ...file, changes: true });
  assert.equal(fileIn('#/p/proj_1/files/a?changed'), undefined);
});

const counts = (changes) => {
  const { added, removed, both, end } = differenceOf({ path: 'a', ...changes });
  return { added, removed, both, end };
};

test('a changed file is shown with two sides, a new or deleted one with one', () => {
  assert.deepEqual(counts({ status: 'M', old: 'a\nb\n', new: 'a\nc\n' }), {
    added: 1,
    removed: 1,
    both: true,
    end: '',
  });
  assert.deepEqual(counts({ status: '?', new: 'a\n' }), { added: 1, removed: 0, both: false, end: '' });
  assert.deepEqual(counts({ status: 'D', old: 'a\nb' }), { added: 0, removed: 2, both: false, end: '' });
});

test('a file with only a diff has its lines and numbers', () => {
  const found = differenceOf({ path: 'a', status: 'M', diff: '@@ -9,2 +9,2 @@\n same\n-old\n+new\n' });
  assert.deepEqual([found.added, found.removed, found.hunks[0].skipped], [1, 1, 8]);
  assert.equal(found.hunks[0].rows[1].new.number, 10);
});

test('an unchanged file, and a new or deleted one without a line, have no diff', () => {
  assert.equal(differenceOf({ path: 'a' }), undefined);
  assert.equal(differenceOf({ path: 'a', status: 'A', new: '' }), undefined);
  assert.equal(differenceOf({ path: 'a', status: 'D', old: '' }), undefined);
  assert.notEqual(differenceOf({ path: 'a', status: 'M', old: '', new: 'a' }), undefined);
  assert.equal(differenceOf({ path: 'a', status: 'M', old: 'a', new: 'a\n' }).end, 'Newline added at end of file.');
});
