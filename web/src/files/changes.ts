// The changes to a file since the last commit, as a diff and in words. Pure.

import { compare, type Difference } from '../diff/lines.ts';
import { filesIn } from '../diff/patch.ts';
import type { FileChanges } from '../protocol/messages.ts';

/** Notes about the changes, by the status of the file. */
export const NOTES: Record<string, string> = {
  '': 'The content is the same as in the last commit.',
  A: 'New since the last commit.',
  '?': 'New, and not tracked by git.',
  D: 'Deleted since the last commit.',
};

/** The diff to show, or undefined if no line differs, as in an unchanged file or a new or deleted empty one. */
export function differenceOf({ status, old, new: fresh, diff }: FileChanges): Difference | undefined {
  if (!status) return undefined;
  const both = status === 'M';
  const found = typeof diff === 'string' ? patched(diff) : compare(old ?? '', fresh ?? '');
  if (!found?.hunks.length && !found?.end) return undefined;
  // For a new or deleted file, no change to the newline at the end is reported.
  return { ...found, both, end: both ? found.end : '' };
}

/** The diff for hunks without file names. The unchanged lines between them are not known and can't be shown. */
function patched(hunks: string): Difference | undefined {
  return filesIn(`diff --git a/file b/file\n${hunks}`)[0];
}
