// What a run changed, as git tells it: a unified diff, read back into hunks. Pure.

import { markWords } from './diff.js';

/**
 * @typedef {{path: string, hunks: import('./diff.js').Hunk[], added: number, removed: number, note: string}} FileChange
 *
 * The files of a diff in their order. A last one that was cut off has what there is of it.
 * @param {string} text
 * @returns {FileChange[]}
 */
export function filesIn(text) {
  /** @type {FileChange[]} */
  const files = [];
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  for (let n = 0; n < lines.length; ) {
    const line = lines[n++];
    const file = files[files.length - 1];
    if (line.startsWith('diff --git ')) files.push({ path: pathIn(line), hunks: [], added: 0, removed: 0, note: '' });
    else if (!file) continue;
    else if (line.startsWith('+++ b/')) file.path = line.slice(6).replace(/\t$/, '');
    else if (line.startsWith('Binary files ')) file.note = 'These are no lines of text.';
    else if (/^(old|new) mode /.test(line)) file.note = 'Who may run or read it has changed.';
    else if (line.startsWith('@@ ')) n = hunkFrom(line, lines, n, file);
  }
  return files;
}

/** `diff --git a/x b/x`: both halves are the same path, since renames are not looked for. */
function pathIn(/** @type {string} */ line) {
  const rest = line.slice('diff --git '.length);
  return rest.slice(0, (rest.length - 1) / 2).replace(/^"?a\//, '').replace(/"$/, '');
}

/** Reads a hunk that begins at line `n`; where it ends. @param {FileChange} file */
function hunkFrom(/** @type {string} */ head, /** @type {string[]} */ lines, /** @type {number} */ n, file) {
  const [, from, , to] = /^@@ -(\d+)(,\d+)? \+(\d+)/.exec(head) ?? ['', '1', '', '1'];
  let [old, fresh] = [Number(from), Number(to)];
  const last = file.hunks[file.hunks.length - 1]?.rows;
  const before = last ? Math.max(...last.map((row) => row.old?.number ?? 0)) : 0;
  /** @type {import('./diff.js').Row[]} */
  const rows = [];
  /** @type {import('./diff.js').Row[]} */
  let open = [];
  for (; n < lines.length && /^[ +\-\\]/.test(lines[n]); n++) {
    const text = lines[n].slice(1);
    if (lines[n][0] === ' ') {
      open = [];
      rows.push({ kind: 'same', old: { number: old++, text }, new: { number: fresh++, text } });
    } else if (lines[n][0] === '-') {
      /** @type {import('./diff.js').Row} */
      const row = { kind: 'changed', old: { number: old++, text } };
      open.push(row);
      rows.push(row);
      file.removed++;
    } else if (lines[n][0] === '+') {
      // Beside the first line that went and has no successor yet.
      const row = open.shift();
      const side = { number: fresh++, text };
      if (row?.old) {
        row.new = side;
        markWords(row.old, side);
      } else rows.push({ kind: 'changed', new: side });
      file.added++;
    }
  }
  file.hunks.push({ skipped: Math.max(0, Number(from) - before - 1), rows });
  return n;
}
