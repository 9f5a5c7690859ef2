// Parses unified diffs from git, and the patches that Claude Code reports for its edits. Pure.

import { type Difference, markWords, type Row } from './lines.ts';

/** The note about a file whose content git does not compare. */
export const BINARY = 'Binary file.';

/** Git's report about one file. `note`: a change without lines, such as a new file mode. */
export type GitChange = Difference & { path: string; note: string };

/** The files of a git diff, or none if the text is not a diff. */
export function filesIn(text: string): GitChange[] {
  const files: GitChange[] = [];
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  for (let n = 0; n < lines.length; ) {
    const line = lines[n++];
    const file = files[files.length - 1];
    if (line.startsWith('diff --git '))
      files.push({ path: pathIn(line), hunks: [], added: 0, removed: 0, both: true, note: '' });
    else if (!file) continue;
    else if (line.startsWith('+++ b/')) file.path = line.slice(6).replace(/\t$/, '');
    else if (line.startsWith('Binary files ')) file.note = BINARY;
    else if (/^(new|deleted) file mode /.test(line)) file.both = false;
    else if (/^(old|new) mode /.test(line)) file.note = 'File mode changed.';
    else if (line.startsWith('@@ ')) {
      const [, old, fresh] = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line) ?? ['', '1', '1'];
      const start = n;
      while (n < lines.length && /^[ +\-\\]/.test(lines[n])) n++;
      addHunk(file, Number(old), Number(fresh), lines.slice(start, n));
    }
  }
  return files;
}

/**
 * `diff --git a/x b/x`: both halves are the same path, because the server's diffs do not detect renames. git quotes both
 * if the path contains quotes, backslashes or control characters.
 */
function pathIn(line: string) {
  const rest = line.slice('diff --git '.length);
  const half = rest.slice(0, (rest.length - 1) / 2);
  return (half.startsWith('"') ? half.slice(1).replace(/"$/, '').replace(ESCAPE, unescaped) : half).replace(/^a\//, '');
}

const ESCAPE = /\\([0-7]{3}|.)/g;
const ESCAPED: Record<string, string> = { a: '\x07', b: '\b', t: '\t', n: '\n', v: '\v', f: '\f', r: '\r' };

const unescaped = (_: string, escaped: string) =>
  escaped.length === 3 ? String.fromCharCode(parseInt(escaped, 8)) : (ESCAPED[escaped] ?? escaped);

/** The patch that Claude Code reports with an edit, with the file's line numbers, or undefined if it is not a patch. */
export function patchIn(patch: any): Difference | undefined {
  if (!Array.isArray(patch) || !patch.length) return undefined;
  const found: Difference = { hunks: [], added: 0, removed: 0, both: true };
  for (const { oldStart, newStart, lines } of patch) {
    if (!Number.isInteger(oldStart) || !Number.isInteger(newStart) || !Array.isArray(lines)) return undefined;
    if (!lines.every((line) => typeof line === 'string')) return undefined;
    addHunk(found, oldStart, newStart, lines);
  }
  return found;
}

/** Adds a hunk. `from` and `to` are the numbers of its first lines. Each of `lines` begins with its sign. */
function addHunk(change: Difference, from: number, to: number, lines: string[]) {
  const last = change.hunks[change.hunks.length - 1]?.rows.findLast((row) => row.old);
  const skipped = Math.max(0, from - (last?.old?.number ?? 0) - 1);
  const rows: Row[] = [];
  let open: Row[] = []; // removed lines that are not paired with an added one yet
  for (const line of lines) {
    const text = line.slice(1);
    if (line[0] === '-') {
      const row: Row = { kind: 'changed', old: { number: from++, text } };
      open.push(row);
      rows.push(row);
      change.removed++;
    } else if (line[0] === '+') {
      const row = open.shift();
      const side = { number: to++, text };
      if (row?.old) {
        row.new = side;
        markWords(row.old, side);
      } else rows.push({ kind: 'changed', new: side });
      change.added++;
    } else if (line[0] !== '\\') {
      open = [];
      rows.push({ kind: 'same', old: { number: from++, text }, new: { number: to++, text } });
    }
  }
  change.hunks.push({ skipped, rows });
}
