// The changes to a notebook, cell by cell. Pure.

/**
 * `kind`: what happens to the cell. `number`: its position in the new notebook, counted from 1; for a deleted cell, in
 * the old one.
 */
export type Cell = {
  number: number;
  /** "code", "markdown" or "raw". */
  type: string;
  kind: 'changed' | 'added' | 'deleted';
  old_text: string;
  new_text: string;
};

/** A cell that can be edited before it is written. `outputs`: whether its outputs are removed. */
export type EditedCell = Cell & { outputs: boolean };

/** The maximum length of a notebook that is compared by cells, in characters of both versions together. */
const MOST = 2_000_000;

/** Matches the id of a cell, as the format of notebooks defines it. */
const ID = /^[\w-]{1,64}$/;

/** Matches the parts of a JSON text that matter here: strings, brackets, colons and numbers. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:]|-?\d[\d.eE+-]*/g;

/** Fields of a cell that only contain the output of its last run. */
const OUTPUT = ['outputs', 'execution_count'];

/**
 * The cells that change, or undefined if no cell changes, or if the cells would not show the whole change: the file is
 * too large or not a notebook, or something else changes, too. `outputs`: whether the outputs of changed cells are
 * removed.
 */
export function cellsOf(before: string, after: string): { cells: Cell[]; outputs: boolean } | undefined {
  if (before.length + after.length > MOST) return undefined;
  let old: any;
  let fresh: any;
  try {
    [old, fresh] = [JSON.parse(before), JSON.parse(after)];
    if (!isKept(before) || !isKept(after)) return undefined;
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

/**
 * The cell of a notebook whose text a request sets, if the server accepts another text for it, or undefined for any
 * other request, and if the cell would not show the whole change.
 */
export function editedCell({ kind, input, proposal, editable, truncated }: any): EditedCell | undefined {
  if (kind !== 'notebook' || !proposal || truncated) return undefined;
  if (!Array.isArray(editable) || !editable.includes('new_source')) return undefined;
  const { cells = [], outputs = false } = cellsOf(proposal.old_text, proposal.new_text) ?? {};
  const [cell] = cells;
  if (cells.length !== 1 || cell.kind === 'deleted' || cell.new_text !== input?.new_source) return undefined;
  return { ...cell, outputs };
}

export const nameOf = ({ number }: Cell) => `Cell ${number}`;

/** A file name for the text of a cell. Its extension determines the language in which the text is highlighted. */
export const pathOf = (cell: Cell) => `${nameOf(cell)}.${cell.type === 'code' ? 'py' : 'md'}`;

const isCell = (cell: any) =>
  typeof cell === 'object' &&
  cell !== null &&
  typeof cell.cell_type === 'string' &&
  (Array.isArray(cell.source) ? cell.source : [cell.source]).every((text: any) => typeof text === 'string');

/**
 * Whether `JSON.parse` has kept all of a JSON text. Of two fields with the same name it keeps only the last, and of a
 * number only as many digits as fit.
 */
function isKept(json: string): boolean {
  const names: (Set<string> | undefined)[] = []; // of the objects around the token, or undefined for a list
  let last = '';
  for (const [token] of json.matchAll(TOKEN)) {
    if (token === '{' || token === '[') names.push(token === '{' ? new Set() : undefined);
    else if (token === '}' || token === ']') names.pop();
    else if (token === ':') {
      const name = JSON.parse(last);
      if (names.at(-1)?.has(name)) return false;
      names.at(-1)?.add(name);
    } else if (token[0] !== '"' && digits(token) !== digits(String(Number(token)))) return false;
    last = token;
  }
  return true;
}

/** The digits of a number, without the zeros around them, which only determine the position of the decimal point. */
const digits = (number: string) => number.replace(/[eE].*|\D/g, '').replace(/^0+|0+$/g, '');

const same = (one: any, other: any) => JSON.stringify(one) === JSON.stringify(other);

const sourceOf = ({ source }: any): string => (Array.isArray(source) ? source.join('') : source);

/** All of a cell except its text and its output. */
const rest = (cell: any) =>
  JSON.stringify(Object.entries(cell).filter(([name]) => name !== 'source' && !OUTPUT.includes(name)));

/** Whether a cell has no metadata, and no fields that would not be shown. */
const isPlain = ({ cell_type, source, metadata = {}, outputs, execution_count, id = 'none', ...more }: any) =>
  JSON.stringify(metadata) === '{}' && typeof id === 'string' && ID.test(id) && !Object.keys(more).length;

/** Whether a cell has no outputs and has not run yet. */
const isEmpty = ({ outputs = [], execution_count: count = null }: any) =>
  JSON.stringify(outputs) === '[]' && count === null;

const output = (cell: any) => JSON.stringify(OUTPUT.map((name) => cell[name]));
