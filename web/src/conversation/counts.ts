// Counts the lines that tool calls are known to have changed. Pure.

import { compare } from '../diff/lines.ts';
import { patchIn } from '../diff/patch.ts';
import type { ToolRow } from './rows.ts';
import { kindOf } from './tool-kinds.ts';
import { fileIn, textChanges } from './tool-words.ts';

type LineCounts = { added: number; removed: number };

/** The maximum length of the texts of a call that are compared, in characters of all together. */
const LONGEST = 200_000;

/** Caches the results by call, because comparing is slow, and a call is rendered many times. */
const known = new WeakMap<object, { version: string; counts: LineCounts | undefined }>();

/**
 * How many lines a call has changed, or would change. Undefined if it is not an edit, was rejected or has failed, or if
 * the lines can't be counted.
 */
export function countsOf(row: ToolRow): LineCounts | undefined {
  const version = `${row.tool.version} ${row.question?.version ?? ''} ${row.state}`;
  const before = known.get(row.tool);
  if (before?.version === version) return before.counts;
  const counts = countOf(row);
  known.set(row.tool, { version, counts });
  return counts;
}

function countOf({ tool, question, state }: ToolRow): LineCounts | undefined {
  if (state === 'rejected' || state === 'failed') return undefined;
  const kind = kindOf(tool as any);
  if (kind !== 'edit' && kind !== 'write') return undefined;
  const patch = patchIn(tool.result?.patch);
  if (patch) return { added: patch.added, removed: patch.removed };
  const proposal = question?.request.proposal;
  const answer = question?.answer;
  const texts: readonly (readonly [string, string])[] = proposal
    ? [[proposal.old_text, answer?.edited && typeof answer.new_text === 'string' ? answer.new_text : proposal.new_text]]
    : textChanges(tool as any).map((one) => [one.old_text, one.new_text]);
  if (!texts.length || texts.flat().reduce((sum, one) => sum + one.length, 0) > LONGEST) return undefined;
  const compared = texts.map(([old, fresh]) => compare(old, fresh));
  return {
    added: compared.reduce((sum, one) => sum + one.added, 0),
    removed: compared.reduce((sum, one) => sum + one.removed, 0),
  };
}

export type Edited = LineCounts & { files: number };

/**
 * The numbers of files and lines that these calls have edited. Files whose lines can't be counted are left out;
 * undefined if no file is left. `rows` has to contain subagents' calls, too.
 */
export function editedBy(rows: readonly ToolRow[]): Edited | undefined {
  const files = new Set<string>();
  let added = 0;
  let removed = 0;
  const add = (row: ToolRow) => {
    const counts = countsOf(row);
    const path = fileIn(row.tool as any)?.path;
    if (counts && path && row.state === 'done') {
      files.add(path);
      added += counts.added;
      removed += counts.removed;
    }
  };
  rows.forEach(add);
  return files.size ? { files: files.size, added, removed } : undefined;
}
