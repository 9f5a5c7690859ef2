// The rows of a diff for rendering, in blocks that are added frame by frame. Pure.

import type { Hunk, Row, Side } from './lines.ts';

/** The maximum number of rows in one block. */
export const STEP = 200;

/** The number of rows that are shown before the user asks for more. */
export const FIRST = 400;

/** The number of characters of a line that are shown before the user asks for more. */
export const LONGEST = 2000;

/** A row of a table. In two columns, a `changed` row is shown as removed on the left and as added on the right. */
export type Line = { kind: 'same' | 'added' | 'removed' | 'changed'; old?: Side; new?: Side };

/** A run of `count` unchanged lines. `old` and `new` are the numbers of the first line on each side. */
export type GapOf = { count: number; old: number; new: number };

/** Rows from `from` up to, but not including, `to`. A gap does not count as a row. */
export type Block = { from: number; to: number; rows: Line[]; gap?: GapOf };

/** @param split whether the diff is in two columns */
export function blocksOf({ hunks, left = 0 }: { hunks: Hunk[]; left?: number }, split: boolean): Block[] {
  const blocks: Block[] = [];
  let at = 0;
  let [old, fresh] = [1, 1];
  const skip = (count: number) => {
    if (count) blocks.push({ from: at, to: at, rows: [], gap: { count, old, new: fresh } });
    old += count;
    fresh += count;
  };
  for (const { skipped, rows } of hunks) {
    skip(skipped);
    const lines = split ? rows : unified(rows);
    for (let n = 0; n < lines.length; n += STEP) {
      const some = lines.slice(n, n + STEP);
      blocks.push({ from: at, to: at + some.length, rows: some });
      at += some.length;
    }
    for (const row of rows) {
      if (row.old) old = row.old.number + 1;
      if (row.new) fresh = row.new.number + 1;
    }
  }
  if (hunks.length) skip(left);
  return blocks;
}

/** The rows in one column: the old lines of a change first, then the new ones. */
function unified(rows: Row[]): Line[] {
  const lines: Line[] = [];
  let added: Line[] = [];
  for (const row of rows) {
    if (row.kind === 'same') {
      for (const one of added) lines.push(one);
      added = [];
      lines.push(row);
      continue;
    }
    if (row.old) lines.push({ kind: 'removed', old: row.old });
    if (row.new) added.push({ kind: 'added', new: row.new });
  }
  return lines.concat(added);
}

/** Lines of a gap, in the text that is the same on both sides. */
export function linesIn(gap: GapOf, texts: string[], from: number, to: number): Line[] {
  const lines: Line[] = [];
  for (let n = from; n < to; n++) {
    const text = texts[gap.new - 1 + n];
    lines.push({ kind: 'same', old: { number: gap.old + n, text }, new: { number: gap.new + n, text } });
  }
  return lines;
}
