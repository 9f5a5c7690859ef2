// What differs between two texts: lines first, then the words of lines that were changed. Pure.

/** Differences above which two texts are told apart as a whole: more would keep the page busy for seconds. */
const MOST = 2000;

/** Changed lines whose words are compared. */
const MARKED = 200;

/** Lines around a change that are shown with it. */
const CONTEXT = 3;

/**
 * The shortest way from `a` to `b` (Myers): what stands in both, as pairs of places; undefined where it would take more than
 * `most` steps.
 * @param {readonly string[]} a @param {readonly string[]} b @param {number} most
 * @returns {[number, number][] | undefined}
 */
export function common(a, b, most = MOST) {
  let start = 0;
  let endA = a.length;
  let endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) endA--, endB--;
  const middle = shortest(a.slice(start, endA), b.slice(start, endB), most);
  if (!middle) return undefined;
  /** @type {[number, number][]} */
  const pairs = [];
  for (let i = 0; i < start; i++) pairs.push([i, i]);
  for (const [i, j] of middle) pairs.push([i + start, j + start]);
  for (let i = endA, j = endB; i < a.length; i++, j++) pairs.push([i, j]);
  return pairs;
}

/** @param {readonly string[]} a @param {readonly string[]} b @param {number} most @returns {[number, number][] | undefined} */
function shortest(a, b, most) {
  const offset = Math.min(most, a.length + b.length) + 1;
  const reach = new Int32Array(2 * offset + 1);
  /** @type {Int32Array[]} */
  const steps = [];
  for (let d = 0; d < offset; d++) {
    steps.push(reach.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && reach[offset + k - 1] < reach[offset + k + 1]);
      let x = down ? reach[offset + k + 1] : reach[offset + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      reach[offset + k] = x;
      if (x >= a.length && x - k >= b.length) return walkBack(steps, a.length, b.length);
    }
  }
  return undefined;
}

/** @param {Int32Array[]} steps @param {number} x @param {number} y */
function walkBack(steps, x, y) {
  /** @type {[number, number][]} */
  const pairs = [];
  for (let d = steps.length - 1; d >= 0; d--) {
    const at = (/** @type {number} */ k) => steps[d][k + d + 1];
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const before = down ? k + 1 : k - 1;
    const startX = d === 0 ? 0 : at(before);
    const startY = startX - before;
    const [cornerX, cornerY] = d === 0 ? [0, 0] : down ? [startX, startY + 1] : [startX + 1, startY];
    while (x > cornerX && y > cornerY) pairs.push([--x, --y]);
    [x, y] = [startX, startY];
  }
  return pairs.reverse();
}

/** The lines of a text; a last line that does not end is marked as such by `endless`. */
function linesOf(/** @type {string} */ text) {
  const lines = text.split('\n');
  const endless = lines[lines.length - 1] !== '';
  if (!endless) lines.pop();
  return { lines, endless: endless && text !== '' };
}

/**
 * A row has the line on either side; a side that is missing is undefined. Lines count from 1.
 * @typedef {{number: number, text: string, marks?: [number, number][]}} Side
 * @typedef {{kind: 'same' | 'changed', old?: Side, new?: Side}} Row
 * @typedef {{skipped: number, rows: Row[]}} Hunk
 *
 * The hunks of a difference with their context, how many lines were added and removed, and whether the end of the last line
 * changed. `rough`: too different to be told line by line.
 * @param {string} before @param {string} after
 * @returns {{hunks: Hunk[], added: number, removed: number, rough: boolean, end: string, left: number}}
 */
export function difference(before, after) {
  const old = linesOf(before);
  const fresh = linesOf(after);
  const found = common(old.lines, fresh.lines);
  const rows = rowsOf(old.lines, fresh.lines, found ?? []);
  const end = old.endless === fresh.endless || !old.lines.length ? '' : fresh.endless ? 'The last line loses its end.' : 'The last line gets an end.';
  const removed = old.lines.length - (found?.length ?? 0);
  const added = fresh.lines.length - (found?.length ?? 0);
  return { ...cut(rows), added, removed, rough: !found, end };
}

/** @param {string[]} old @param {string[]} fresh @param {[number, number][]} pairs */
function rowsOf(old, fresh, pairs) {
  /** @type {Row[]} */
  const rows = [];
  let i = 0;
  let j = 0;
  let marked = 0;
  for (const [x, y] of [...pairs, [old.length, fresh.length]]) {
    const gone = x - i;
    const come = y - j;
    for (let n = 0; n < Math.max(gone, come); n++) {
      /** @type {Row} */
      const row = { kind: 'changed' };
      if (n < gone) row.old = { number: i + n + 1, text: old[i + n] };
      if (n < come) row.new = { number: j + n + 1, text: fresh[j + n] };
      if (row.old && row.new && marked++ < MARKED) markWords(row.old, row.new);
      rows.push(row);
    }
    if (x < old.length && y < fresh.length) rows.push({ kind: 'same', old: { number: x + 1, text: old[x] }, new: { number: y + 1, text: fresh[y] } });
    i = x + 1;
    j = y + 1;
  }
  return rows;
}

/** Marks the words in which two lines differ, unless hardly anything is the same. */
export function markWords(/** @type {Side} */ old, /** @type {Side} */ fresh) {
  if (old.text.length + fresh.text.length > 2000) return;
  const a = old.text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const b = fresh.text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const pairs = common(a, b, 200) ?? [];
  const same = pairs.reduce((sum, [i]) => sum + a[i].trim().length, 0);
  if (same * 3 < Math.max(old.text.trim().length, fresh.text.trim().length)) return;
  old.marks = marksOf(a, new Set(pairs.map(([i]) => i)));
  fresh.marks = marksOf(b, new Set(pairs.map(([, j]) => j)));
}

/** @param {readonly string[]} words @param {Set<number>} same @returns {[number, number][]} from, to */
function marksOf(words, same) {
  /** @type {[number, number][]} */
  const marks = [];
  let at = 0;
  words.forEach((word, index) => {
    const last = marks[marks.length - 1];
    if (!same.has(index)) {
      if (last && last[1] === at) last[1] = at + word.length;
      else marks.push([at, at + word.length]);
    }
    at += word.length;
  });
  return marks.map((mark) => trimmed(mark, words.join('')));
}

/** Without blanks at its ends, unless there is nothing else in it. @param {[number, number]} mark @param {string} line @returns {[number, number]} */
function trimmed([from, to], line) {
  const text = line.slice(from, to);
  if (!text.trim()) return [from, to];
  return [from + text.length - text.trimStart().length, to - text.length + text.trimEnd().length];
}

/** Rows that are near a change, in hunks; `left`: how many rows are behind the last one. */
function cut(/** @type {Row[]} */ rows) {
  /** @type {Hunk[]} */
  const hunks = [];
  let near = -1;
  let skipped = 0;
  let next = 0; // the first changed row that is not before `n`
  for (let n = 0; n < rows.length; n++) {
    for (next = Math.max(next, n); next < rows.length && rows[next].kind !== 'changed'; ) next++;
    if ((next < rows.length && next <= n + CONTEXT) || n <= near) {
      if (skipped || !hunks.length) hunks.push({ skipped, rows: [] });
      skipped = 0;
      hunks[hunks.length - 1].rows.push(rows[n]);
      if (rows[n].kind === 'changed') near = n + CONTEXT;
    } else skipped++;
  }
  return { hunks, left: skipped };
}
