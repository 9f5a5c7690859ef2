// The structure of a review in the web UI: its parts in order, and each part as a diff and in words. Pure.

import { type Difference, markWords, type Row } from '../diff/lines.ts';
import { FIRST, LONGEST } from '../diff/rows.ts';
import type { ReviewComment, ReviewFile, ReviewHunk } from '../protocol/messages.ts';
import { endsLike } from '../state/projects.ts';

/** The maximum number of pairs of lines whose words are compared. */
const MARKED = 200;

/**
 * A unit that is decided on as a whole: a hunk, or a file that was too large for the message. `isGone`: the part has
 * left the review, and is shown because the user has written something for it or has to read what happened to it. */
export type Part = { key: string; path: string; hunk?: ReviewHunk; isGone?: boolean };

export type ShownFile = { file: ReviewFile; parts: Part[] };

/** The key of the buttons for a whole file and, if the file has no hunks, of its only part. */
export const fileKey = (path: string) => `file ${path}`;

function partsOf(file: ReviewFile): Part[] {
  if (!file.hunks.length) return [{ key: fileKey(file.path), path: file.path }];
  return file.hunks.map((hunk) => ({ key: hunk.id, path: file.path, hunk }));
}

/** The line at which a part begins in its file. Parts without lines come after all lines. */
const placeOf = ({ hunk }: Part) => (hunk?.kind === 'lines' ? hunk.new_start : Infinity);

/**
 * The files of a review, each with its parts.
 * @param gone parts that are still shown, with the files that they were in
 * @param before what was shown: a file that has not changed stays the same object
 */
export function shownFiles(
  files: readonly ReviewFile[],
  gone: readonly { part: Part; file: ReviewFile }[] = [],
  before: readonly ShownFile[] = [],
): ShownFile[] {
  const known = new Map(before.map((one) => [one.file.path, one]));
  const found: ShownFile[] = files.map((file) => ({ file, parts: partsOf(file) }));
  for (const { part, file } of gone) {
    let place = found.find((one) => one.file.path === file.path);
    if (!place) {
      place = { file: { ...file, hunks: [], added: 0, removed: 0, too_large: false }, parts: [] };
      const at = before.findIndex((one) => one.file.path === file.path);
      const next = before.slice(at + 1).find((one) => found.some((other) => other.file.path === one.file.path));
      const index = next ? found.findIndex((one) => one.file.path === next.file.path) : found.length;
      found.splice(at < 0 ? 0 : index, 0, place);
    }
    const after = place.parts.findIndex((one) => placeOf(one) > placeOf(part));
    place.parts.splice(after < 0 ? place.parts.length : after, 0, part);
  }
  return found.map((one) => {
    const last = known.get(one.file.path);
    return last && JSON.stringify(last) === JSON.stringify(one) ? last : one;
  });
}

/** The files with only the wanted parts and the parts that are shown although they have left the review. */
export const onlyParts = (files: readonly ShownFile[], isWanted: (part: Part) => boolean): ShownFile[] =>
  files
    .map(({ file, parts }) => ({ file, parts: parts.filter((part) => part.isGone || isWanted(part)) }))
    .filter(({ parts }) => parts.length);

export const partsIn = (files: readonly ShownFile[]) => files.flatMap(({ parts }) => parts);

/** The key of the part to show: `key` if it is still there, otherwise the next part that is left, or the last one. If
 * `key` is undefined, the first part, or undefined if there are no parts. */
export function follow(before: readonly string[], now: readonly string[], key: string | undefined): string | undefined {
  if (key === undefined) return now[0];
  if (now.includes(key)) return key;
  const left = new Set(now);
  return before.slice(before.indexOf(key) + 1).find((one) => left.has(one)) ?? now[now.length - 1];
}

/** The lines of a text. Only a line feed ends a line. */
export function linesOf(text: string): string[] {
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines;
}

/** The lines that a hunk covers in the current file, counted from 0; `to` is not included. */
function spanOf({ new_start: start, added }: ReviewHunk): [from: number, to: number] {
  const count = linesOf(added).length;
  const from = count ? start - 1 : start;
  return [from, from + count];
}

/** Unchanged lines around a hunk. `more`: whether there are more that could be shown. */
export type Context = { before: string[]; after: string[]; more: boolean };

export const NO_CONTEXT: Context = { before: [], after: [], more: false };

/**
 * The lines around a hunk, up to the adjacent hunks. None if the hunk does not consist of lines, or if the text is not
 * the one that the hunk belongs to.
 * @param text the file as it is now
 * @param count the maximum number of lines on each side
 */
export function contextOf(text: string, { hunks }: ReviewFile, hunk: ReviewHunk, count: number): Context {
  const lines = linesOf(text);
  const [from, to] = spanOf(hunk);
  const others = hunks.filter((one) => one.kind === 'lines');
  const isIts = (one: ReviewHunk) => linesOf(one.added).every((line, n) => lines[spanOf(one)[0] + n] === line);
  if (hunk.kind !== 'lines' || to > lines.length || !others.every(isIts)) return NO_CONTEXT;
  const at = others.findIndex((one) => one.id === hunk.id);
  const first = at > 0 ? spanOf(others[at - 1])[1] : 0;
  const end = at < others.length - 1 ? spanOf(others[at + 1])[0] : lines.length;
  const start = Math.max(first, from - count);
  const stop = Math.min(end, to + count);
  return { before: lines.slice(start, from), after: lines.slice(to, stop), more: start > first || stop < end };
}

const isCrlf = (text: string) => text.includes('\r\n') && !/(?:^|[^\r])\n/.test(text);

/** A hunk as a diff, with the numbers of its lines. "\r" is shown only if the line endings are mixed or changed. */
export function differenceOf(hunk: ReviewHunk, both: boolean, { before, after }: Context = NO_CONTEXT): Difference {
  const texts = [hunk.removed, hunk.added];
  const isPlain = texts.some(Boolean) && texts.every((text) => !text || isCrlf(text));
  const plain = (line: string) => (isPlain ? line.replace(/\r$/, '') : line);
  const [old, fresh] = texts.map((text) => linesOf(text).map(plain));
  const [from] = spanOf(hunk);
  const oldFrom = hunk.removed ? hunk.old_start - 1 : hunk.old_start;
  const same = (line: string, o: number, n: number): Row => ({
    kind: 'same',
    old: { number: o + 1, text: plain(line) },
    new: { number: n + 1, text: plain(line) },
  });
  const rows = before.map((line, n) => same(line, oldFrom - before.length + n, from - before.length + n));
  for (let n = 0; n < Math.max(old.length, fresh.length); n++) {
    const row: Row = { kind: 'changed' };
    if (n < old.length) row.old = { number: oldFrom + n + 1, text: old[n] };
    if (n < fresh.length) row.new = { number: from + n + 1, text: fresh[n] };
    if (row.old && row.new && n < MARKED) markWords(row.old, row.new);
    rows.push(row);
  }
  for (const [n, line] of after.entries()) rows.push(same(line, oldFrom + old.length + n, from + fresh.length + n));
  const [oldEnds, freshEnds] = texts.map((text) => !text || text.endsWith('\n'));
  const end =
    !both || !hunk.removed || !hunk.added || oldEnds === freshEnds
      ? ''
      : freshEnds
        ? 'Newline added at end of file.'
        : 'No newline at end of file.';
  return { hunks: [{ skipped: 0, rows }], added: fresh.length, removed: old.length, both, end };
}

/** Whether part of the hunk may be hidden behind a button when it is first drawn. In two columns, more lines fit. */
export function isCut(hunk: ReviewHunk): boolean {
  let known = cut.get(hunk);
  if (known === undefined) {
    const lines = [...linesOf(hunk.removed), ...linesOf(hunk.added)];
    known = lines.length > FIRST || lines.some((line) => line.length > LONGEST);
    cut.set(hunk, known);
  }
  return known;
}

/** Caches the results of `isCut`, because thousands of hunks may be checked after each decision. */
const cut: WeakMap<ReviewHunk, boolean> = new WeakMap();

const MODES: Record<string, string> = {
  '100644': 'a regular file',
  '100755': 'an executable file',
  '120000': 'a symbolic link',
  '160000': 'a submodule',
};

const REGULAR = ['100644', '100755'];

const modeOf = (mode: string | null) => (mode && MODES[mode]) || `a file with the mode ${mode}`;

/** Describes the changes that the lines of a part do not show; '' if there is nothing to add. */
export function wordsOf(file: ReviewFile, hunk?: ReviewHunk): string {
  const { old_mode: old, new_mode: fresh } = file;
  if (!hunk) return 'The changes to this file are too large to show here.';
  if (hunk.kind === 'mode') {
    if (old === '100644' && fresh === '100755') return 'The file was made executable.';
    if (old === '100755' && fresh === '100644') return 'The file is no longer executable.';
    return `The file was ${modeOf(old)} and is now ${modeOf(fresh)}.`;
  }
  if (hunk.kind === 'name') return `The file was renamed from ${file.old_path}.`;
  if (hunk.kind !== 'file') return '';
  const lines = linesOf(hunk.removed).length + linesOf(hunk.added).length;
  const isUnshown = file.binary && !file.old_image && !file.new_image;
  const isRegular = [old, fresh].every((mode) => !mode || REGULAR.includes(mode));
  const reason = isRegular ? ': it is not UTF-8 text, or it is too large to compare' : '';
  const unshown = isUnshown ? `Its content is not shown${reason}.` : '';
  const empty = file.change === 'deleted' ? 'It was empty.' : 'It is empty.';
  const what =
    file.change === 'added'
      ? `This is a new ${fresh === '100644' ? 'file' : modeOf(fresh).replace(/^an? /, '')}.`
      : file.change === 'deleted'
        ? `This file was deleted${old === '100644' ? '' : `; it was ${modeOf(old)}`}.`
        : old === fresh
          ? 'The content of this file was changed.'
          : isRegular
            ? `The content of this file was changed, and the file is ${fresh === '100755' ? 'now' : 'no longer'} executable.`
            : `The file was ${modeOf(old)} and is now ${modeOf(fresh)}.`;
  return [what, unshown || (lines || file.binary ? '' : empty)].filter(Boolean).join(' ');
}

/** Whether the user can replace a hunk's new lines. */
export const canEdit = (file: ReviewFile, hunk: ReviewHunk | undefined) =>
  hunk?.kind === 'lines' || (hunk?.kind === 'file' && file.change === 'added' && !file.binary);

/** The new lines of a hunk as the content of a text field, without the line feed at their end. */
export const fieldOf = ({ added }: ReviewHunk) => added.replace(/\r\n/g, '\n').replace(/\n$/, '');

/** The new lines to send for a hunk that was edited in a text field with the content `field`. */
export function editedText({ removed, added }: ReviewHunk, field: string): string {
  const isEnded = (added || removed).endsWith('\n');
  return endsLike(added || removed, field && isEnded ? `${field}\n` : field);
}

/** Whether a hunk has no lines, because it is about the file's mode or name. */
const isAside = ({ kind }: ReviewHunk) => kind === 'mode' || kind === 'name';

/** The title of a hunk, with the numbers of its lines, or what it changes instead of lines, such as the file mode. */
export function titleOf({ kind, new_start: start, added, old_start: before, removed }: ReviewHunk): string {
  if (kind === 'mode') return 'File mode';
  if (kind === 'name') return 'File name';
  if (kind === 'file') return 'Whole file';
  const [first, count] = added ? [start, linesOf(added).length] : [before, linesOf(removed).length];
  const lines = count === 1 ? `Line ${first}` : `Lines ${first}–${first + count - 1}`;
  return added ? lines : `${lines} (removed)`;
}

const DECIDED: Record<string, string> = { keep: 'kept', undo: 'undid', edit: 'edited' };

/** What is known about a hunk that is gone: who decided on it and how, or where its file has changed. */
type Gone = { by?: string | null; decision?: string | null; path?: string | null; line?: number | null };

/** Explains why a hunk is gone, based on the details of `HUNK_GONE` or the name of whoever changed the review. */
export function goneWords({ by, decision, path, line }: Gone = {}): string {
  if (!by && path) return `${path} changed${line ? ` at line ${line}` : ''} since you looked.`;
  if (!by) return 'This change no longer needs a decision: someone has decided on it, or the file has changed.';
  return decision ? `${by} already ${DECIDED[decision] ?? 'decided on'} this change.` : `${by} decided on this change.`;
}

/**
 * The name of the person who made all changes to the review. Undefined if the review has not changed, or if several
 * people, a run or an unknown person made the changes.
 */
export function onlyOne(names: readonly (string | null | undefined)[]): string | undefined {
  const [first] = names;
  return first && names.every((name) => name === first) ? first : undefined;
}

// Lines that can be commented on, and where comments are shown.

export type Side = ReviewComment['side'];

/** The lines of a part that are shown, by their numbers, without line feeds. A "\r" before one is part of the line. */
export type Lines = Record<Side, ReadonlyMap<number, string>>;

export const NO_LINES: Lines = { new: new Map(), old: new Map() };

/** The number of a hunk's first line on a side or, if it has no lines there, the number of the line after it. */
export const startOf = (hunk: ReviewHunk, side: Side) =>
  side === 'new' ? hunk.new_start + (hunk.added ? 0 : 1) : hunk.old_start + (hunk.removed ? 0 : 1);

/** The lines of a hunk and the lines around it. A line that is on both sides is listed on the new side. */
export function linesOn(hunk: ReviewHunk, { before, after }: Context): Lines {
  if (isAside(hunk)) return NO_LINES;
  const from = startOf(hunk, 'new') - before.length;
  const fresh = [...before, ...linesOf(hunk.added), ...after];
  const oldFrom = startOf(hunk, 'old');
  return {
    new: new Map(fresh.map((line, n) => [from + n, line])),
    old: new Map(linesOf(hunk.removed).map((line, n) => [oldFrom + n, line])),
  };
}

/** The name of a line, as in `Diff`. */
export const lineName = (side: Side, line: number) => (side === 'new' ? String(line) : `−${line}`);

export const lineOf = (name: string): [side: Side, line: number] =>
  name.startsWith('−') ? ['old', Number(name.slice(1))] : ['new', Number(name)];

/** The text of the lines `from` to `to`, or undefined if not all of them are shown. */
export function quoteOf(lines: ReadonlyMap<number, string>, from: number, to: number): string | undefined {
  let text = '';
  for (let n = from; n <= to; n++) {
    const line = lines.get(n);
    if (line === undefined) return undefined;
    text += `${line}\n`;
  }
  return text || undefined;
}

/** "line 5", "lines 5–7 (removed)" */
export function linesWords({ side, line, end_line: end }: Pick<ReviewComment, 'side' | 'line' | 'end_line'>): string {
  const lines = line === end ? `line ${line}` : `lines ${line}–${end}`;
  return side === 'old' ? `${lines} (removed)` : lines;
}

/**
 * The part at which a comment is shown, which is the nearest to its lines in its file. Undefined if the file has no
 * parts.
 */
export function partOf(
  { path, side, line, end_line: end }: ReviewComment,
  files: readonly ShownFile[],
): Part | undefined {
  const parts = files.find(({ file }) => file.path === path)?.parts ?? [];
  const distance = ({ hunk }: Part) => {
    if (!hunk || isAside(hunk)) return 1e9;
    const start = startOf(hunk, side);
    const last = start + Math.max(1, linesOf(side === 'new' ? hunk.added : hunk.removed).length) - 1;
    return Math.max(0, start - end, line - last);
  };
  return parts.reduce<Part | undefined>(
    (best, one) => (best && distance(best) <= distance(one) ? best : one),
    undefined,
  );
}

/** The lines in `quote` as the content of the field for a suggestion. */
export const suggestedField = (quote: string) => quote.replace(/\r\n/g, '\n').replace(/\n$/, '');

/** The suggestion to send for the content of its field, in whole lines. An empty field removes the lines. */
export const suggestedText = (quote: string, field: string) => (field ? endsLike(quote, `${field}\n`) : '');
