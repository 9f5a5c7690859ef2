import assert from 'node:assert/strict';
import { test } from 'node:test';

import { filesIn } from '../../../src/drawbridge/web/changes.js';

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

test('every file of a diff, with its lines numbered and paired, and its words marked', () => {
  const [code, fresh, picture, script] = filesIn(DIFF);
  assert.deepEqual([code.path, code.added, code.removed], ['src/a b.py', 2, 2]);
  assert.deepEqual(code.hunks.map(({ skipped }) => skipped), [0, 6]);
  const [, changed, more] = code.hunks[0].rows;
  assert.deepEqual([changed.old.number, changed.old.text, changed.old.marks], [2, 'two words', [[0, 3]]]);
  assert.deepEqual([changed.new.number, changed.new.text, changed.new.marks], [2, '2 words', [[0, 1]]]);
  assert.deepEqual([more.old, more.new.number], [undefined, 3]);
  assert.deepEqual([fresh.path, fresh.added, fresh.hunks[0].rows[1].new.text], ['new.md', 2, '--- no header']);
  assert.match(picture.note, /no lines of text/);
  assert.match(script.note, /may run/);
});

test('a diff that was cut in the middle shows what there is of it; no diff shows nothing', () => {
  assert.equal(filesIn(DIFF.slice(0, 120))[0].path, 'src/a b.py');
  assert.deepEqual(filesIn(''), []);
  assert.deepEqual(filesIn('fatal: something\n'), []);
});
