// The change of a notebook, cell by cell. Pure.

/** `kind`: what happens to the cell; the number counts from 1, in the new notebook or, of a deleted cell, in the old one. */
export type Cell = {
  number: number;
  /** "code", "markdown" or "raw". */
  type: string;
  kind: 'changed' | 'added' | 'deleted';
  old_text: string;
  new_text: string;
};

/** Characters of a notebook that are looked through. */
const MOST = 2_000_000;

/** Fields of a cell that only say what it printed when it ran last. */
const OUTPUT = ['outputs', 'execution_count'];

/**
 * The cells that change; undefined where that would not show all of it: it is not a notebook, or something else changes too.
 * `outputs`: what changed cells had printed is removed.
 */
export function cellsOf(before: string, after: string): { cells: Cell[]; outputs: boolean } | undefined {
  if (before.length + after.length > MOST) return undefined;
  let old: any;
  let fresh: any;
  try {
    [old, fresh] = [JSON.parse(before), JSON.parse(after)];
  } catch {
    return undefined;
  }
  if (!Array.isArray(old?.cells) || !Array.isArray(fresh?.cells)) return undefined;
  if (JSON.stringify({ ...old, cells: [] }) !== JSON.stringify({ ...fresh, cells: [] })) return undefined;
  const [from, to] = [old.cells, fresh.cells];
  if (![...from, ...to].every(isCell)) return undefined;
  let start = 0;
  while (start < Math.min(from.length, to.length) && same(from[start], to[start])) start++;
  let end = 0;
  while (end < Math.min(from.length, to.length) - start && same(from[from.length - 1 - end], to[to.length - 1 - end]))
    end++;
  const cells: Cell[] = [];
  let outputs = false;
  const gone = from.length - end;
  const come = to.length - end;
  for (let n = start; n < Math.max(gone, come); n++) {
    const [one, other] = [n < gone ? from[n] : undefined, n < come ? to[n] : undefined];
    if (one && other && same(one, other)) continue;
    if (other && !(one ? rest(one) === rest(other) : isPlain(other))) return undefined;
    if (other && (!one || output(one) !== output(other)) && !isEmpty(other)) return undefined;
    if (one && other && output(one) !== output(other)) outputs = true;
    cells.push({
      number: n + 1,
      type: String((other ?? one).cell_type),
      kind: !one ? 'added' : other ? 'changed' : 'deleted',
      old_text: one ? sourceOf(one) : '',
      new_text: other ? sourceOf(other) : '',
    });
  }
  return cells.length ? { cells, outputs } : undefined;
}

const isCell = (cell: any) =>
  typeof cell === 'object' && cell !== null && (typeof cell.source === 'string' || Array.isArray(cell.source));

const same = (one: any, other: any) => JSON.stringify(one) === JSON.stringify(other);

const sourceOf = ({ source }: any): string => (Array.isArray(source) ? source.join('') : source);

/** All but the text and what it printed. */
const rest = (cell: any) =>
  JSON.stringify(Object.entries(cell).filter(([name]) => name !== 'source' && !OUTPUT.includes(name)));

/** Whether there is nothing in it but its text. */
const isPlain = ({ metadata = {}, attachments }: any) => JSON.stringify(metadata) === '{}' && attachments === undefined;

/** Whether it has not run yet. */
const isEmpty = ({ outputs = [], execution_count: count = null }: any) =>
  JSON.stringify(outputs) === '[]' && count === null;

const output = (cell: any) => JSON.stringify(OUTPUT.map((name) => cell[name]));
