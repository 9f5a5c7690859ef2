// The content of the list of changes, made from reviews as the server sends them, and the text of a file before its
// changes. Pure.
'use strict';

const path = require('node:path');

const { counted, fileWords, harmless, linesOf, NEW, title, words } = require('./review_words');

/** The maximum number of characters of a changed line in the list. */
const LONGEST_LINE = 80;

/** With more changes than this, the files in the list are collapsed at first. */
const MOST_OPEN = 30;

/**
 * git's modes of symbolic links and submodules. The path of a link or submodule leads to another file or to a
 * directory, so a document with this path would not show the lines of the hunks.
 */
const NOT_A_FILE = ['120000', '160000'];

const NEW_HERE = `New ${NEW}.`;

/**
 * @typedef {import('./review_words').Hunk} Hunk
 * @typedef {import('./review_words').ReviewedFile} ReviewedFile
 *
 * @typedef {Object} Review
 * @property {string} version
 * @property {ReviewedFile[]} files
 * @property {number} more the number of files that did not fit into the message
 * @property {string} [notice] a sentence about the directory that is shown to the user once
 * @property {string} [missing] a sentence that says that changes of the latest run may be missing, if so
 *
 * @typedef {{project: string, directory: string, review: Review}} Placed a review, its project and its directory
 *
 * @typedef {Object} Node one entry of the list
 * @property {'directory' | 'file' | 'hunk'} kind
 * @property {string} id stays the same while other changes are decided on
 * @property {string} label
 * @property {string} description
 * @property {string} tooltip
 * @property {string} icon the name of a codicon; empty for the icon of the file's type
 * @property {string} path the file or directory, absolute
 * @property {boolean} isOpen whether its children are shown at first
 * @property {boolean} isNew whether it is marked as new: a new change, or a file with one
 * @property {Placed} placed
 * @property {ReviewedFile | null} file
 * @property {Hunk | null} hunk
 * @property {Node[]} children
 *
 * @typedef {{id: string, left: [number, number] | null, right: [number, number]}} Rows the first and the last row of a
 *   hunk in the documents of its diff, from 0; `left` is null if it has none there
 */

/**
 * @param {Placed[]} reviews
 * @param {Set<Hunk>} [marked] the hunks that are marked as new
 * @returns {Node[]} the files; if several reviews have files, below the reviews' directories
 */
function tree(reviews, marked = new Set()) {
  const shown = reviews.filter(({ review }) => review.files.length).sort((a, b) => compare(a.directory, b.directory));
  const isOpen = changesIn(shown) <= MOST_OPEN;
  const files = shown.map((placed) => placed.review.files.map((file) => fileNode(placed, file, isOpen, marked)));
  if (shown.length < 2) return files.flat();
  return shown.map((placed, number) => ({
    ...{ kind: /** @type {const} */ ('directory'), id: placed.project, icon: 'folder', isOpen: true, isNew: false },
    label: harmless(path.basename(placed.directory) || placed.directory),
    description: counted(placed.review.files.length + placed.review.more, 'file'),
    tooltip: harmless(placed.directory),
    ...{ path: placed.directory, placed, file: null, hunk: null, children: files[number] },
  }));
}

/**
 * @param {string} one
 * @param {string} other
 */
function compare(one, other) {
  return one < other ? -1 : Number(one > other);
}

/**
 * @param {Placed} placed
 * @param {ReviewedFile} file
 * @param {boolean} isOpen
 * @param {Set<Hunk>} marked
 * @returns {Node}
 */
function fileNode(placed, file, isOpen, marked) {
  const whole = path.join(placed.directory, file.path);
  const id = `${placed.project}/${file.path}`;
  const folder = path.dirname(file.path);
  const isWhole = isDecidedWhole(file);
  const numbers = file.binary || file.too_large ? '' : `+${file.added} −${file.removed}`;
  const about = isWhole ? `${words(file, file.hunks[0] ?? null)} The file can be kept or undone only as a whole.` : '';
  const isNew = file.hunks.some((hunk) => marked.has(hunk));
  return {
    ...{ kind: 'file', id, icon: '', path: whole, isOpen, isNew, placed, file, hunk: null },
    label: harmless(path.basename(file.path)),
    description: [
      folder === '.' ? '' : harmless(folder),
      numbers,
      fileWords(file),
      file.too_large ? 'too large to show' : '',
    ]
      .filter(Boolean)
      .join('  '),
    tooltip: [harmless(whole), about, isWhole && isNew ? NEW_HERE : ''].filter(Boolean).join('\n'),
    children: isWhole ? [] : file.hunks.map((hunk) => hunkNode(placed, file, hunk, id, whole, marked.has(hunk))),
  };
}

/**
 * @param {Placed} placed
 * @param {ReviewedFile} file
 * @param {Hunk} hunk
 * @param {string} above
 * @param {string} whole
 * @param {boolean} isNew
 * @returns {Node}
 */
function hunkNode(placed, file, hunk, above, whole, isNew) {
  const [added, removed] = [linesOf(hunk.added), linesOf(hunk.removed)];
  const lines = [...added.map((line) => line.replace(/\r$/, '')), ...removed].map((line) => line.trim());
  const first = lines.find((line) => line !== '') ?? '';
  const isLines = hunk.kind === 'lines';
  return {
    ...{ kind: 'hunk', id: `${above}/${hunk.id}`, path: whole, isOpen: false, isNew, placed, file, hunk },
    children: [],
    label: title(hunk),
    description: isLines
      ? `+${added.length} −${removed.length}  ${harmless(first.slice(0, LONGEST_LINE))}`.trimEnd()
      : words(file, hunk),
    tooltip: [isLines ? preview(removed, added) : words(file, hunk), isNew ? NEW_HERE : ''].filter(Boolean).join('\n'),
    icon: !isLines ? 'gear' : !hunk.removed ? 'diff-added' : !hunk.added ? 'diff-removed' : 'diff-modified',
  };
}

/**
 * The lines as a diff shows them, at most 20, each cut after 200 characters.
 *
 * @param {string[]} removed
 * @param {string[]} added
 */
function preview(removed, added) {
  const lines = [...removed.map((line) => `− ${line}`), ...added.map((line) => `+ ${line}`)];
  const shown = lines.slice(0, 20).map((line) => harmless(line.slice(0, 200)));
  return [...shown, lines.length > 20 ? '…' : ''].filter(Boolean).join('\n');
}

/**
 * Whether the file has no parts that can be decided on one by one.
 *
 * @param {ReviewedFile} file
 */
function isDecidedWhole(file) {
  return file.hunks.length === 0 || (file.hunks.length === 1 && file.hunks[0].kind === 'file');
}

/**
 * The number of changes: hunks, and files without hunks.
 *
 * @param {Placed[]} reviews
 */
function changesIn(reviews) {
  const files = reviews.flatMap(({ review }) => review.files);
  return files.reduce((sum, file) => sum + (file.hunks.length || 1), 0);
}

/**
 * The reviews with only these hunks, and with the files that are too large to show. It is not known which of their
 * changes are new.
 *
 * @param {Placed[]} reviews
 * @param {Set<Hunk>} hunks
 * @returns {Placed[]}
 */
function only(reviews, hunks) {
  return reviews.map((placed) => {
    const files = placed.review.files.flatMap((file) => {
      const shown = file.hunks.filter((hunk) => hunks.has(hunk));
      if (shown.length === file.hunks.length) return [file];
      const [added, removed] = [shown.map((hunk) => hunk.added), shown.map((hunk) => hunk.removed)].map(
        (texts) => texts.flatMap(linesOf).length,
      );
      return shown.length ? [{ ...file, added, removed, hunks: shown }] : [];
    });
    return { ...placed, review: { ...placed.review, files } };
  });
}

/**
 * "3 files +12 −4 · 2 since your last visit", or '' if there is nothing to decide.
 *
 * @param {Placed[]} reviews
 * @param {number} [marked] the number of changes that are marked as new
 */
function summary(reviews, marked = 0) {
  const files = reviews.flatMap(({ review }) => review.files);
  const more = reviews.reduce((sum, { review }) => sum + review.more, 0);
  const [added, removed] = [files, files].map((all, side) =>
    all.reduce((sum, file) => sum + (side ? file.removed : file.added), 0),
  );
  const end = marked ? ` · ${marked} ${NEW}` : '';
  return files.length ? `${counted(files.length + more, 'file')} +${added} −${removed}${end}` : '';
}

/**
 * A line for each review from which changes may be missing.
 *
 * @param {Placed[]} reviews
 */
function missing(reviews) {
  const incomplete = reviews.filter(({ review }) => review.missing);
  return incomplete.map(({ directory, review }) => harmless(`${path.basename(directory)}: ${review.missing}`));
}

/**
 * The words in which the user is asked whether to keep all changes.
 *
 * @param {Placed[]} reviews
 */
function keepAllQuestion(reviews) {
  const files = reviews.flatMap(({ review }) => review.files).length;
  const more = reviews.reduce((sum, { review }) => sum + review.more, 0);
  const question = `Keep ${counted(changesIn(reviews), 'change')} in ${counted(files, 'file')}?`;
  const unseen = `${counted(more, 'more file')} not shown in the list ${more === 1 ? 'is' : 'are'} kept too.`;
  return { question, detail: ['The files stay as they are.', more ? unseen : ''].filter(Boolean).join(' ') };
}

/**
 * A text that is the same for reviews that produce the same list.
 *
 * @param {Placed[]} reviews
 * @param {Set<Hunk>} marked
 */
function fingerprint(reviews, marked) {
  const found = reviews.map(({ project, directory, review: { version, more, files } }) => {
    const hunks = files.map((file) => file.hunks.map((hunk) => [hunk.id, marked.has(hunk)]));
    return JSON.stringify([project, directory, version, more, hunks]);
  });
  return found.sort().join('\n');
}

/**
 * The paths of all files and the ids of all hunks in the reviews, each after the id of its project.
 *
 * @param {Placed[]} reviews
 */
function keysOf(reviews) {
  return new Set(
    reviews.flatMap(({ project, review }) =>
      review.files.flatMap((file) => [file.path, ...file.hunks.map(({ id }) => id)].map((id) => `${project}/${id}`)),
    ),
  );
}

/**
 * The text of a file without the changes in its review. `text`: the file's current text.
 *
 * @param {string} text
 * @param {ReviewedFile} file
 * @returns {string | null} null if `text` no longer contains the lines that the review describes
 */
function before(text, file) {
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const hunks = file.hunks.filter(({ kind }) => kind === 'lines').sort((one, other) => one.new_start - other.new_start);
  const found = [];
  let at = 0;
  for (const { added, removed, new_start: first } of hunks) {
    const start = added ? first - 1 : first;
    const end = start + linesOf(added).length;
    if (start < at || end > lines.length || lines.slice(start, end).join('') !== added) return null;
    found.push(...lines.slice(at, start), removed);
    at = end;
  }
  return [...found, ...lines.slice(at)].join('');
}

/**
 * Whether a document contains the lines that the review describes, at the same rows. `text`: the document's text. VS
 * Code shows a file without its byte order mark, with the same line ending everywhere, and in its own encoding. If a
 * line of the review is not UTF-8, only the ASCII characters are compared.
 *
 * @param {string} text
 * @param {ReviewedFile} file with all its hunks
 */
function isShownIn(text, file) {
  const isAscii = file.hunks.some(({ added }) => added.includes('\ufffd'));
  const plain = (/** @type {string} */ lines) => {
    const ended = lines.replaceAll('\r\n', '\n');
    return isAscii ? ended.replaceAll(/[^\0-\x7f]/g, '') : ended.replaceAll('\ufeff', '');
  };
  const hunks = file.hunks.map((hunk) => ({ ...hunk, added: plain(hunk.added) }));
  return before(plain(text), { ...file, hunks }) !== null;
}

/**
 * Which sides a diff of the file has: "text" is its text in the review, "file" the file itself, and "before" the file
 * without its changes. Null if there is no diff.
 *
 * @param {ReviewedFile} file
 * @returns {{left: 'text' | 'before', right: 'text' | 'file'} | null}
 */
function sides(file) {
  if (file.binary || !file.hunks.some(({ kind }) => kind === 'lines' || kind === 'file')) return null;
  const isLink = [file.old_mode, file.new_mode].some((mode) => NOT_A_FILE.includes(mode ?? ''));
  if (file.change === 'deleted' || isLink) return { left: 'text', right: 'text' };
  const isWhole = file.hunks.some(({ kind }) => kind === 'file');
  return { left: isWhole ? 'text' : 'before', right: 'file' };
}

/**
 * The rows of a file's hunks in the documents of its diff. Empty if there is no diff.
 *
 * @param {ReviewedFile} file
 * @returns {Rows[]}
 */
function rowsOf(file) {
  const found = sides(file);
  if (!found) return [];
  const isLines = found.left === 'before';
  const hunks = file.hunks.filter(({ kind }) => kind === (isLines ? 'lines' : kind));
  const sorted = [...hunks].sort((one, other) => (isLines ? one.new_start - other.new_start : 0));
  const rows = [];
  let [left, right, shift] = [0, 0, 0];
  for (const hunk of sorted) {
    const [removed, added] = [linesOf(hunk.removed).length, linesOf(hunk.added).length];
    if (isLines) [right, left] = [rowOf(hunk), rowOf(hunk) + shift];
    rows.push({
      id: hunk.id,
      left: removed ? /** @type {[number, number]} */ ([left, left + removed - 1]) : null,
      right: /** @type {[number, number]} */ ([right, right + Math.max(1, added) - 1]),
    });
    [left, right, shift] = [left + removed, right + added, shift + removed - added];
  }
  return rows;
}

/**
 * The ids of the changes of an entry that can only be seen in the list, because no diff shows them.
 *
 * @param {Node} node
 */
function onlyListed({ file, hunk }) {
  if (!file || (!hunk && !isDecidedWhole(file))) return [];
  const inDiff = new Set(rowsOf(file).map(({ id }) => id));
  return (hunk ? [hunk] : file.hunks).map(({ id }) => id).filter((id) => !inDiff.has(id));
}

/**
 * The line of a changed file where a hunk begins, from 0.
 *
 * @param {Hunk} hunk
 */
function rowOf(hunk) {
  return Math.max(0, hunk.new_start - (hunk.kind === 'lines' && !hunk.added ? 0 : 1));
}

/**
 * The hunk of lines at a line of the file, or null. A hunk that only removes lines is at the line that follows them.
 * `row` is 0-based.
 *
 * @param {ReviewedFile} file
 * @param {number} row
 */
function hunkAt(file, row) {
  return (
    file.hunks.find((hunk) => {
      const first = rowOf(hunk);
      return hunk.kind === 'lines' && row >= first && row < first + Math.max(1, linesOf(hunk.added).length);
    }) ?? null
  );
}

module.exports = {
  before,
  changesIn,
  fingerprint,
  hunkAt,
  isDecidedWhole,
  isShownIn,
  keepAllQuestion,
  keysOf,
  missing,
  only,
  onlyListed,
  rowOf,
  rowsOf,
  sides,
  summary,
  tree,
};
