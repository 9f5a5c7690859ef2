import assert from 'node:assert/strict';
import { test } from 'node:test';

import { filesIn, patchIn } from '../../../web/src/diff/patch.ts';

const DIFF = `diff --git a/src/a b.py b/src/a b.py
index 1..2 100644
--- a/src/a b.py\t
+++ b/src/a b.py\t
@@ -1,3 +1,4 @@
 one
-two words
+2 words
+more
 three
@@ -10,2 +11,1 @@ def x():
 ten
-eleven
\\ No newline at end of file
diff --git a/new.md b/new.md
new file mode 100644
index 0000000..3
--- /dev/null
+++ b/new.md
@@ -0,0 +1,2 @@
+# New
+--- no header
diff --git a/picture.png b/picture.png
Binary files a/picture.png and b/picture.png differ
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
`;

test('every file of a diff is parsed, with line numbers, paired lines and marked words', () => {
  const [code, fresh, picture, script] = filesIn(DIFF);
  assert.deepEqual([code.path, code.added, code.removed], ['src/a b.py', 2, 2]);
  assert.deepEqual(
    code.hunks.map(({ skipped }) => skipped),
    [0, 6],
  );
  const [, changed, more] = code.hunks[0].rows;
  assert.deepEqual([changed.old.number, changed.old.text, changed.old.marks], [2, 'two words', [[0, 3]]]);
  assert.deepEqual([changed.new.number, changed.new.text, changed.new.marks], [2, '2 words', [[0, 1]]]);
  assert.deepEqual([more.old, more.new.number], [undefined, 3]);
  assert.deepEqual([fresh.path, fresh.added, fresh.hunks[0].rows[1].new.text], ['new.md', 2, '--- no header']);
  assert.deepEqual([code.both, fresh.both], [true, false]);
  assert.match(picture.note, /Binary file/);
  assert.match(script.note, /File mode changed/);
});

test('a path that git quotes is read as it is', () => {
  const [before, now] = ['a', 'b'].map((side) => String.raw`"${side}/odd \"name\"\t\001\\é.py"`);
  const [file] = filesIn(`diff --git ${before} ${now}\n--- ${before}\n+++ ${now}\n@@ -1 +1 @@\n-TEN\n+ten\n`);
  assert.equal(file.path, 'odd "name"\t\x01\\é.py');
  assert.equal(file.added, 1);
});

test('a diff that was cut off is parsed as far as possible', () => {
  assert.equal(filesIn(DIFF.slice(0, 120))[0].path, 'src/a b.py');
  assert.deepEqual(filesIn(''), []);
  assert.deepEqual(filesIn('fatal: something\n'), []);
});

test('the patch of an edit has the line numbers of the file', () => {
  const lines = [' same', '-old', '+new', '\\ No newline at end of file'];
  const found = patchIn([{ oldStart: 7, newStart: 8, lines }]);
  assert.deepEqual([found.added, found.removed, found.both, found.hunks[0].skipped], [1, 1, true, 6]);
  assert.deepEqual(
    found.hunks[0].rows.map(({ kind, old, new: fresh }) => [kind, old.number, fresh.number]),
    [
      ['same', 7, 8],
      ['changed', 8, 9],
    ],
  );
  for (const other of [undefined, [], [{ oldStart: 1, newStart: 1, lines: [1] }], [{ lines: [] }]])
    assert.equal(patchIn(other), undefined);
});
