// The differences between two texts: lines first, then the words of lines that were changed. Pure.

/**
 * The number of edit steps above which a text counts as rewritten. Finding more would block the page for seconds. Also
 * the number of lines, in both texts together, above which texts are compared piecewise.
 */
const MOST = 2000;

/** The maximum number of changed lines whose words are compared. */
const MARKED = 200;

/** The number of unchanged lines that are shown before and after a change. */
const CONTEXT = 3;

/**
 * The elements that the shortest edit script from `a` to `b` (Myers) keeps, as pairs of indexes, or undefined if it
 * would have more than `most` steps.
 */
export function common(
  a: readonly string[],
  b: readonly string[],
  most: number = MOST,
): [number, number][] | undefined {
  let start = 0;
  let endA = a.length;
  let endB = b.length;
  while (start < endA && start < endB && a[start] === b[start]) start++;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) endA--, endB--;
  const middle = shortest(a.slice(start, endA), b.slice(start, endB), most);
  if (!middle) return undefined;
  const pairs: [number, number][] = [];
  for (let i = 0; i < start; i++) pairs.push([i, i]);
  for (const [i, j] of middle) pairs.push([i + start, j + start]);
  for (let i = endA, j = endB; i < a.length; i++, j++) pairs.push([i, j]);
  return pairs;
}

/** The maximum number of edit steps between two anchors. */
const BETWEEN = 300;

/**
 * The lines that two texts have in common. Long texts are compared piecewise, between lines that are unique in both (as
 * in patience diff). This is much faster than finding the shortest edit script, and the result is rarely longer. Texts
 * that are short, or have no such lines, are compared exactly. Undefined if the texts differ too much.
 */
function aligned(a: readonly string[], b: readonly string[]): [number, number][] | undefined {
  const anchors = a.length + b.length > MOST ? anchorsOf(a, b) : [];
  if (!anchors.length) return common(a, b);
  const pairs: [number, number][] = [];
  let [i, j] = [0, 0];
  for (const [x, y] of [...anchors, [a.length, b.length]]) {
    if (x > i && y > j)
      for (const [m, n] of common(a.slice(i, x), b.slice(j, y), BETWEEN) ?? []) pairs.push([i + m, j + n]);
    if (x < a.length) pairs.push([x, y]);
    [i, j] = [x + 1, y + 1];
  }
  return pairs;
}

/** The longest sequence of lines that are unique in both texts and in the same order. */
function anchorsOf(a: readonly string[], b: readonly string[]): [number, number][] {
  const places = new Map<string, { a: number; b: number; isOnce: boolean }>();
  a.forEach((line, n) => {
    const found = places.get(line);
    if (found) found.isOnce = false;
    else places.set(line, { a: n, b: -1, isOnce: true });
  });
  b.forEach((line, n) => {
    const found = places.get(line);
    if (!found) return;
    if (found.b >= 0) found.isOnce = false;
    found.b = n;
  });
  const all = [...places.values()].filter((one) => one.isOnce && one.b >= 0);
  // Longest increasing subsequence of the positions in b: `ends[n]` is the smallest end with n + 1 members.
  const ends: number[] = [];
  const before = new Int32Array(all.length);
  all.forEach(({ b: place }, index) => {
    let [low, high] = [0, ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (all[ends[middle]].b < place) low = middle + 1;
      else high = middle;
    }
    before[index] = low ? ends[low - 1] : -1;
    ends[low] = index;
  });
  const pairs: [number, number][] = [];
  for (let at = ends.length ? ends[ends.length - 1] : -1; at >= 0; at = before[at]) pairs.push([all[at].a, all[at].b]);
  return pairs.reverse();
}

function shortest(a: readonly string[], b: readonly string[], most: number): [number, number][] | undefined {
  const offset = Math.min(most, a.length + b.length) + 1;
  const reach = new Int32Array(2 * offset + 1);
  const steps: Int32Array[] = [];
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

function walkBack(steps: Int32Array[], x: number, y: number) {
  const pairs: [number, number][] = [];
  for (let d = steps.length - 1; d >= 0; d--) {
    const at = (k: number) => steps[d][k + d + 1];
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

/** The lines of a text. `endless`: whether the last line has no newline. */
function linesOf(text: string) {
  const lines = text.split('\n');
  const endless = lines[lines.length - 1] !== '';
  if (!endless) lines.pop();
  return { lines, endless: endless && text !== '' };
}

/** A line of one side. Lines are numbered from 1. `marks`: the start and the end of each part that differs. */
export type Side = { number: number; text: string; marks?: [number, number][] };

/** The lines on both sides of a row. A side that is missing is undefined. */
export type Row = { kind: 'same' | 'changed'; old?: Side; new?: Side };

/** Rows around a change. `skipped`: the number of unchanged rows before them that are left out. */
export type Hunk = { skipped: number; rows: Row[] };

/** The differences between two texts of a file, or the changes that a patch makes to it. */
export type Difference = {
  hunks: Hunk[];
  added: number;
  removed: number;
  /** Whether there are two sides: a new file has one. */
  both: boolean;
  /** The number of unchanged rows after the last hunk. */
  left?: number;
  /**
   * Whether too much differs for a line-by-line comparison, so that the whole old text is removed and the whole new
   * text added.
   */
  rough?: boolean;
  /** How the newline at the end of the file changed, in words. */
  end?: string;
  /** The whole texts, if they are known. */
  old?: string;
  fresh?: string;
};

const isCrlf = (text: string) => text.includes('\r\n') && !/(?:^|[^\r])\n/.test(text);

/** The diff of two texts. "\r" is shown only if the line endings are mixed or changed. */
export function compare(before: string, after: string): Difference {
  const isPlain = (before === '' || isCrlf(before)) && isCrlf(after);
  const [old, fresh] = isPlain ? [before, after].map((text) => text.replace(/\r\n/g, '\n')) : [before, after];
  return { ...difference(old, fresh), both: before !== '', old, fresh };
}

/** Whether there are unchanged lines that are not in the hunks. */
export const hasGaps = ({ left = 0, hunks }: Difference) => left > 0 || hunks.some(({ skipped }) => skipped > 0);

export function difference(before: string, after: string) {
  const old = linesOf(before);
  const fresh = linesOf(after);
  const found = aligned(old.lines, fresh.lines);
  const rows = rowsOf(old.lines, fresh.lines, found ?? []);
  const end =
    old.endless === fresh.endless || !old.lines.length || !fresh.lines.length
      ? ''
      : fresh.endless
        ? 'No newline at end of file.'
        : 'Newline added at end of file.';
  const removed = old.lines.length - (found?.length ?? 0);
  const added = fresh.lines.length - (found?.length ?? 0);
  return { ...cut(rows), added, removed, rough: !found, end };
}

function rowsOf(old: string[], fresh: string[], pairs: [number, number][]) {
  const rows: Row[] = [];
  let i = 0;
  let j = 0;
  let marked = 0;
  for (const [x, y] of [...pairs, [old.length, fresh.length]]) {
    const gone = x - i;
    const come = y - j;
    for (let n = 0; n < Math.max(gone, come); n++) {
      const row: Row = { kind: 'changed' };
      if (n < gone) row.old = { number: i + n + 1, text: old[i + n] };
      if (n < come) row.new = { number: j + n + 1, text: fresh[j + n] };
      if (row.old && row.new && marked++ < MARKED) markWords(row.old, row.new);
      rows.push(row);
    }
    if (x < old.length && y < fresh.length)
      rows.push({ kind: 'same', old: { number: x + 1, text: old[x] }, new: { number: y + 1, text: fresh[y] } });
    i = x + 1;
    j = y + 1;
  }
  return rows;
}

/** Marks the words in which two lines differ, unless the lines are long or have hardly anything in common. */
export function markWords(old: Side, fresh: Side) {
  if (old.text.length + fresh.text.length > 2000) return;
  const a = old.text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const b = fresh.text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const pairs = common(a, b, 200) ?? [];
  const same = pairs.reduce((sum, [i]) => sum + a[i].trim().length, 0);
  if (same * 3 < Math.max(old.text.trim().length, fresh.text.trim().length)) return;
  old.marks = marksOf(a, new Set(pairs.map(([i]) => i)));
  fresh.marks = marksOf(b, new Set(pairs.map(([, j]) => j)));
}

/** @returns the start and the end of each part that differs */
function marksOf(words: readonly string[], same: Set<number>): [number, number][] {
  const marks: [number, number][] = [];
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

/** A part without leading and trailing blanks, unless it consists of blanks. */
function trimmed([from, to]: [number, number], line: string): [number, number] {
  const text = line.slice(from, to);
  if (!text.trim()) return [from, to];
  return [from + text.length - text.trimStart().length, to - text.length + text.trimEnd().length];
}

/** Rows that are near a change, in hunks. `left`: how many rows follow the last hunk. */
function cut(rows: Row[]) {
  const hunks: Hunk[] = [];
  let near = -1;
  let skipped = 0;
  let next = 0; // the first changed row that is not before `n`
  for (let n = 0; n < rows.length; n++) {
    for (next = Math.max(next, n); next < rows.length && rows[next].kind !== 'changed'; ) next++;
    const isNear = (next < rows.length && next <= n + CONTEXT) || n <= near;
    if (!isNear) {
      skipped++;
      continue;
    }
    // A gap of one row is shown, because "1 unchanged line" would need the same space.
    const single = skipped === 1 ? [rows[n - 1]] : [];
    if (skipped > 1 || !hunks.length) hunks.push({ skipped: single.length ? 0 : skipped, rows: [] });
    skipped = 0;
    hunks[hunks.length - 1].rows.push(...single, rows[n]);
    if (rows[n].kind === 'changed') near = n + CONTEXT;
  }
  if (skipped === 1 && hunks.length) hunks[hunks.length - 1].rows.push(rows[rows.length - 1]);
  return { hunks, left: skipped === 1 && hunks.length ? 0 : skipped };
}
