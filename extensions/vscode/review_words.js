// A review in words: its files and hunks, and why a decision was refused. Pure.
//
// The terminal client and Neovim use the same words (src/drawbridge/text/review_words.py), and a test checks that both
// files agree.
'use strict';

/**
 * As in the client protocol (docs/protocols/client.md).
 *
 * @typedef {Object} Hunk
 * @property {string} id
 * @property {'lines' | 'file' | 'mode' | 'name'} kind
 * @property {number} old_start
 * @property {number} new_start
 * @property {string} removed
 * @property {string} added
 *
 * @typedef {Object} ReviewedFile
 * @property {string} path relative to the directory of the review
 * @property {'added' | 'changed' | 'deleted'} change
 * @property {string} [old_path] the previous path, if the file was renamed
 * @property {string | null} old_mode
 * @property {string | null} new_mode
 * @property {number} added
 * @property {number} removed
 * @property {Hunk[]} hunks
 * @property {boolean} [binary]
 * @property {boolean} [too_large]
 *
 * @typedef {'keep' | 'undo'} Decision
 */

const NOTHING = 'Nothing to review';

const NEW = 'since your last visit';
const ONLY_NEW = 'Only since your last visit';
const OTHERS_HIDDEN = 'To decide on all changes at once, show the others too.';

/** @type {Record<string, string>} */
const DECIDED = { keep: 'kept', undo: 'undid', edit: 'edited' };

/** @type {Record<string, string>} */
const MODES = {
  100644: 'a regular file',
  100755: 'an executable file',
  120000: 'a symbolic link',
  160000: 'a submodule',
};

const REGULAR = ['100644', '100755'];

/**
 * "1 file", "2,000 files"
 *
 * @param {number} count
 * @param {string} what
 */
function counted(count, what) {
  return `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
}

/**
 * The lines of a text. Only a line feed ends a line.
 *
 * @param {string} text
 */
function linesOf(text) {
  const found = text.split('\n');
  if (found[found.length - 1] === '') found.pop();
  return found;
}

/**
 * The title of a hunk, with its lines or, for a hunk of another kind, what it changes.
 *
 * @param {Hunk} hunk
 */
function title(hunk) {
  if (hunk.kind === 'mode') return 'File mode';
  if (hunk.kind === 'name') return 'File name';
  if (hunk.kind === 'file') return 'Whole file';
  const [text, first] = hunk.added ? [hunk.added, hunk.new_start] : [hunk.removed, hunk.old_start];
  const count = linesOf(text).length;
  const lines = count === 1 ? `Line ${first}` : `Lines ${first}–${first + count - 1}`;
  return hunk.added ? lines : `${lines} (removed)`;
}

/**
 * The label beside a file's path: "new", "renamed", "deleted", "binary", or two of these. Empty for any other change.
 *
 * @param {ReviewedFile} file
 */
function fileWords(file) {
  const change = file.old_path ? 'renamed' : { added: 'new', changed: '', deleted: 'deleted' }[file.change];
  return [change, file.binary ? 'binary' : ''].filter(Boolean).join(' · ');
}

/**
 * What the lines of a hunk do not show, in words, or '' if there is nothing to add.
 *
 * @param {ReviewedFile} file
 * @param {Hunk | null} hunk
 */
function words(file, hunk) {
  const { old_mode: old, new_mode: now } = file;
  if (hunk === null) return 'The changes to this file are too large to show here.';
  if (hunk.kind === 'mode') {
    if (old === '100644' && now === '100755') return 'The file was made executable.';
    if (old === '100755' && now === '100644') return 'The file is no longer executable.';
    return `The file was ${mode(old)} and is now ${mode(now)}.`;
  }
  if (hunk.kind === 'name') return `The file was renamed from ${harmless(file.old_path ?? '')}.`;
  if (hunk.kind !== 'file') return '';
  return [wholeFile(file), content(file, hunk)].filter(Boolean).join(' ');
}

/**
 * The content of a file with one hunk for the whole file, or '' if its lines are shown.
 *
 * @param {ReviewedFile} file
 * @param {Hunk} hunk
 */
function content({ binary, change, old_mode: old, new_mode: now }, hunk) {
  if (binary) {
    const isRegular = [old, now].every((one) => !one || REGULAR.includes(one));
    return `Its content is not shown${isRegular ? ': it is not UTF-8 text, or it is too large to compare' : ''}.`;
  }
  if (hunk.removed || hunk.added) return '';
  return change === 'deleted' ? 'It was empty.' : 'It is empty.';
}

/** @param {ReviewedFile} file */
function wholeFile({ change, old_mode: old, new_mode: now }) {
  if (change === 'added') return `This is a new ${now === '100644' ? 'file' : mode(now).replace(/^an? /, '')}.`;
  if (change === 'deleted') {
    return old === '100644' ? 'This file was deleted.' : `This file was deleted; it was ${mode(old)}.`;
  }
  if (old === now) return 'The content of this file was changed.';
  if ([old, now].every((one) => one && REGULAR.includes(one))) {
    return `The content of this file was changed, and the file is ${now === '100755' ? 'now' : 'no longer'} executable.`;
  }
  return `The file was ${mode(old)} and is now ${mode(now)}.`;
}

/** @param {string | null} name */
function mode(name) {
  return MODES[name ?? ''] ?? `a file with the mode ${name}`;
}

/**
 * Why a hunk no longer needs a decision.
 *
 * @param {string} [by]
 * @param {string} [decision]
 * @param {string} [path] of the file that has changed
 * @param {number} [line] at which it has changed
 */
function goneWords(by, decision, path, line) {
  if (!by && path) return `${path} changed${line ? ` at line ${line}` : ''} since you looked.`;
  if (!by) return 'This change no longer needs a decision: someone has decided on it, or the file has changed.';
  return decision ? `${by} already ${DECIDED[decision] ?? 'decided on'} this change.` : `${by} decided on this change.`;
}

/**
 * Why a decision was refused.
 *
 * @param {string} code of the client protocol
 * @param {Record<string, any>} details
 * @param {string} message the server's own
 * @param {boolean} isHunk
 */
function refusedWords(code, details, message, isHunk) {
  if (code === 'REVIEW_CLASH') {
    const paths = Array.isArray(details.paths) && details.paths.length ? details.paths.join(', ') : 'the files';
    return `This conflicts with the current state of ${paths}. Nothing was changed.`;
  }
  if (code !== 'HUNK_GONE') return message;
  if (!isHunk && !details.gone) {
    const where = someFiles(details);
    return `The review has changed since you saw it, so your decision was not applied. Read what is new${where}, then decide again.`;
  }
  return goneWords(details.by, details.decision, details.path, details.line);
}

/**
 * The first of the files that have changed in a review, with a space before it, or an empty text if none is known.
 *
 * @param {Record<string, any>} details
 */
function someFiles({ paths, files }) {
  if (!Array.isArray(paths) || !paths.length) return '';
  const more = (files || paths.length) - 1;
  return ` in ${paths[0]}${more ? ` and ${counted(more, 'other file')}` : ''}`;
}

/**
 * How many changes of a review are shown if the others are hidden.
 *
 * @param {number} some
 * @param {number} all
 */
function onlyNewWords(some, all) {
  return `${some} of ${counted(all, 'change')} · ${ONLY_NEW.toLowerCase()}`;
}

/**
 * Why all changes are shown to a user who wants to see only what is new.
 *
 * @param {boolean} hasNew whether any change is new
 */
function allWords(hasNew) {
  return hasNew ? 'All changes are new.' : `Nothing is new ${NEW}.`;
}

/**
 * Text from outside in which control and format characters (except zero-width joiners and non-joiners), lone
 * surrogates, and line and paragraph separators are written as escape sequences.
 *
 * @param {string} text
 */
function harmless(text) {
  return text.replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    const number = character.codePointAt(0) ?? 0;
    if (number < 0x100) return `\\x${number.toString(16).padStart(2, '0')}`;
    const digits = number.toString(16);
    return number < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
  });
}

module.exports = {
  allWords,
  counted,
  fileWords,
  goneWords,
  harmless,
  linesOf,
  NEW,
  NOTHING,
  onlyNewWords,
  OTHERS_HIDDEN,
  refusedWords,
  title,
  words,
};
