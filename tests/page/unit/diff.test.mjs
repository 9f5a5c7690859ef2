import assert from 'node:assert/strict';
import { test } from 'node:test';

import { common, compare, difference, hasGaps } from '../../../web/src/diff/lines.ts';
import { blocksOf, linesIn, STEP } from '../../../web/src/diff/rows.ts';

/** The texts of the lines that a diff shows on one side. */
function shown({ hunks }, side) {
  return hunks
    .flatMap(({ rows }) => rows)
    .filter((row) => row[side])
    .map((row) => row[side].text);
}

test('the longest common subsequence is found', () => {
  const pairs = common([...'abcabba'], [...'cbabac']);
  assert.equal(pairs.length, 4);
  for (const [i, j] of pairs) assert.equal('abcabba'[i], 'cbabac'[j]);
});

test('pairs of common lines are in ascending order on both sides', () => {
  let state = 7;
  const random = (below) => (state = (state * 1103515245 + 12345) % 2147483648) % below;
  for (let round = 0; round < 300; round++) {
    const a = Array.from({ length: random(12) }, () => 'abc'[random(3)]);
    const b = Array.from({ length: random(12) }, () => 'abc'[random(3)]);
    const pairs = common(a, b);
    pairs.forEach(([i, j], n) => {
      assert.equal(a[i], b[j]);
      if (n) assert.ok(i > pairs[n - 1][0] && j > pairs[n - 1][1]);
    });
    assert.equal(pairs.length, longest(a, b), `${a.join('')} ${b.join('')}`);
  }
});

function longest(a, b) {
  const row = new Array(b.length + 1).fill(0);
  for (const x of a) {
    let diagonal = 0;
    b.forEach((y, j) => {
      const above = row[j + 1];
      row[j + 1] = x === y ? diagonal + 1 : Math.max(above, row[j]);
      diagonal = above;
    });
  }
  return row[b.length];
}

test('a changed word is marked, but not the rest of its line', () => {
  const [{ rows }] = difference('one two three\n', 'one 2 three\n').hunks;
  assert.deepEqual(rows[0].old.marks, [[4, 7]]);
  assert.deepEqual(rows[0].new.marks, [[4, 5]]);
});

test('lines far from a change are counted, not shown', () => {
  const lines = Array.from({ length: 100 }, (_, n) => `line ${n}`);
  const found = difference(`${lines.join('\n')}\n`, `${lines.with(50, 'other').join('\n')}\n`);
  assert.equal(found.hunks.length, 1);
  assert.equal(found.hunks[0].skipped, 47);
  assert.equal(found.hunks[0].rows.length, 7);
  assert.deepEqual([found.added, found.removed], [1, 1]);
});

test('a single unchanged line is shown, not counted', () => {
  const lines = Array.from({ length: 18 }, (_, n) => `line ${n}`);
  const found = compare(`${lines.join('\n')}\n`, `${lines.with(4, 'x').with(12, 'y').with(13, 'z').join('\n')}\n`);
  assert.equal(found.hunks.length, 1);
  assert.deepEqual(shown(found, 'old'), lines);
  assert.equal(hasGaps(found), false);
});

test('blocks and gaps reproduce both texts', () => {
  const lines = Array.from({ length: 1000 }, (_, n) => `line ${n}`);
  const changed = lines.flatMap((line, n) => (n % 100 ? [line] : n % 200 ? [] : [`${line} is new`, 'one more']));
  const found = compare(`${lines.join('\n')}\n`, `${changed.join('\n')}\n`);
  for (const split of [true, false]) {
    const blocks = blocksOf(found, split);
    const rows = blocks.flatMap(({ rows, gap }) => (gap ? linesIn(gap, changed, 0, gap.count) : rows));
    for (const [side, texts] of [
      ['old', lines],
      ['new', changed],
    ]) {
      const shown = rows.flatMap((row) => row[side] ?? []);
      assert.deepEqual(
        shown.map(({ text }) => text),
        texts,
      );
      assert.deepEqual(
        shown.map(({ number }) => number),
        texts.map((_, n) => n + 1),
      );
    }
    assert.ok(blocks.every(({ from, to, rows }) => to - from === rows.length && rows.length <= STEP));
  }
});

test('in one column, removed lines come before the added ones', () => {
  const rows = blocksOf(compare('a\nb\n', 'c\nd\ne\n'), false).flatMap((block) => block.rows);
  assert.deepEqual(
    rows.map(({ kind, old, new: fresh }) => `${kind} ${(old ?? fresh).text}`),
    ['removed a', 'removed b', 'added c', 'added d', 'added e'],
  );
});

test('a new file, an emptied file, and an added or removed final newline', () => {
  assert.deepEqual([difference('', 'a\nb\n').added, difference('', 'a\nb\n').removed], [2, 0]);
  assert.deepEqual(shown(difference('a\nb\n', ''), 'old'), ['a', 'b']);
  assert.equal(difference('a\n', 'a').end, 'No newline at end of file.');
  assert.equal(difference('a', 'a\n').end, 'Newline added at end of file.');
  assert.equal(difference('a', '').end, '', 'an empty file has no last line');
  assert.equal(difference('', 'a').end, '');
  assert.deepEqual(difference('same\n', 'same\n').hunks, []);
});

test('many changes in a long text are found separately', () => {
  let state = 7;
  const random = (below) => (state = (state * 1103515245 + 12345) % 2147483648) % below;
  const old = Array.from({ length: 8000 }, (_, n) => (random(10) ? `line ${n}` : 'end'));
  const fresh = old.flatMap((line) => [[line], [line], [line], [line], [], [`${line}!`], [line, 'more']][random(7)]);
  // A part that was moved is removed in one place and added in the other.
  fresh.splice(500, 0, ...fresh.splice(3000, 50));
  const found = compare(`${old.join('\n')}\n`, `${fresh.join('\n')}\n`);
  assert.equal(found.rough, false);
  assert.ok(found.removed < 3200 && found.added < 3200, `+${found.added} −${found.removed}`);
  const rows = blocksOf(found, true).flatMap(({ rows, gap }) => (gap ? linesIn(gap, fresh, 0, gap.count) : rows));
  const texts = (side) => rows.flatMap((row) => row[side]?.text ?? []);
  assert.deepEqual(texts('old'), old);
  assert.deepEqual(texts('new'), fresh);
  assert.ok(rows.every((row) => row.kind === 'changed' || row.old.text === row.new.text));
});

test('texts that have nothing in common are only compared roughly', () => {
  const a = Array.from({ length: 20_000 }, (_, n) => `a${n}`).join('\n');
  const b = Array.from({ length: 20_000 }, (_, n) => `b${n}`).join('\n');
  const found = difference(a, b);
  assert.ok(found.rough, 'an exact comparison would take minutes');
  assert.deepEqual([found.added, found.removed], [20_000, 20_000]);
});
