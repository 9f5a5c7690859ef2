// `save_buffer` and `merge_buffer`, and how a merged document is saved without VS Code asking about the newer file.
'use strict';

const fs = require('node:fs/promises');

const { encode } = require('./bases');
const { countLines } = require('./documents');
const { checked, replacements } = require('./edits');
const { codeOf, stampOf } = require('./paths');

/**
 * Saves the file without a prompt, and never over a newer file.
 *
 * @param {typeof import('vscode')} vscode the API
 * @param {import('./documents').OpenFile | null} file
 * @param {InstanceType<typeof import('./bases').Bases>} bases
 * @returns {Promise<{saved: boolean, reason?: string}>} `reason`: why it was not saved
 */
async function save(vscode, file, bases) {
  if (!file) return notSaved('the file is not open in this window');
  if (!file.modified) return { saved: true };
  const document = [file.text, file.notebook].find((one) => one?.isDirty);
  if (await bases.isOutdated(file.path, document))
    return notSaved('the file has changed on disk since it was opened or saved');
  if (!(await isWritable(file.path))) return notSaved('the file is not writable');
  const saved = document ? await document.save() : file.other && (await vscode.workspace.save?.(file.other));
  return saved ? { saved: true } : notSaved('the editor gave no reason');
}

/** @param {string} reason */
function notSaved(reason) {
  return { saved: false, reason };
}

/** @param {string} reason */
function notMerged(reason) {
  return { merged: false, reason };
}

/** @param {string} path */
async function isWritable(path) {
  try {
    await fs.access(path, fs.constants.W_OK);
    return true;
  } catch (error) {
    return codeOf(error) === 'ENOENT'; // VS Code creates a missing file
  }
}

/**
 * Applies all edits as one undo step, or none of them.
 *
 * @param {typeof import('vscode')} vscode the API
 * @param {import('./documents').OpenFile | null} file
 * @param {import('./lines').Params} params
 * @param {InstanceType<typeof import('./bases').Bases>} bases
 * @returns {Promise<{merged: boolean, reason?: string}>} `reason`: why nothing was merged
 */
async function merge(vscode, file, { version, edits }, bases) {
  const document = file?.text;
  if (!document) return notMerged('the file is not open as text in the editor');
  if (document.version !== version) return notMerged('the unsaved text has changed in the meantime');
  const wanted = checked(edits, countLines(document));
  if (!document.isDirty) return notMerged('the file no longer has unsaved changes');
  const { encoding } = document;
  if (!['utf8', 'utf8bom', undefined].includes(encoding)) return notMerged(`the file is in ${encoding}, not in UTF-8`);
  if (wanted.some(({ lines }) => lines.some(isUndecodable))) return notMerged('the text to insert is not UTF-8');
  const stamp = await stampOf(file.path);
  const isDone = wanted.length === 0 || (await apply(vscode, document, wanted, version));
  if (!isDone) return notMerged('the unsaved text has changed in the meantime');
  await bases.rebase(file.path, document, stamp);
  return { merged: true };
}

/**
 * Applies the edits. Returns whether that was possible. VS Code refuses if the document has changed by then.
 *
 * @param {typeof import('vscode')} vscode
 * @param {import('vscode').TextDocument} document
 * @param {import('./edits').Edit[]} edits
 * @param {number} version
 */
async function apply(vscode, document, edits, version) {
  if (document.version !== version) return false;
  const eol = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
  const change = new vscode.WorkspaceEdit();
  for (const { from, to, text } of replacements(
    edits,
    document.lineCount,
    (line) => document.lineAt(line).text.length,
    eol,
  )) {
    change.replace(document.uri, new vscode.Range(...from, ...to), text);
  }
  return vscode.workspace.applyEdit(change);
}

/**
 * Whether the line contains bytes that are not UTF-8, which are received as lone surrogates.
 *
 * @param {string} line
 */
function isUndecodable(line) {
  return /\p{Surrogate}/u.test(line);
}

/**
 * Called before each save. VS Code refuses to save over a file that is newer than what it read, unless the file
 * already contains exactly the bytes to save. The text of a merged document already includes what is on disk, so this
 * writes the document's bytes to the file first, if nobody has written the file since the merge.
 *
 * @param {typeof import('vscode')} vscode the API
 * @param {string} path
 * @param {import('vscode').TextDocument} document as it is about to be saved, after formatting
 * @param {InstanceType<typeof import('./bases').Bases>} bases
 */
async function beforeSave(vscode, path, document, bases) {
  const { merged, stamp } = bases.of(path);
  if (!merged || stamp === null || (await stampOf(path)) !== stamp) return;
  await fs.writeFile(path, await encode(vscode, document.getText(), document.encoding));
}

module.exports = { beforeSave, merge, save };
