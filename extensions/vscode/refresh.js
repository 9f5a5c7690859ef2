// `refresh_buffer`: waits for a reload from disk, leaves unsaved changes alone, and stores a copy of the replaced text.
//
// VS Code itself reloads a changed file if its document has no unsaved changes, and one undo reverts that. An extension
// can't trigger a reload, because the command for it ("Revert File") acts on the active editor, whatever file it is
// given, and discards unsaved changes. This module therefore only waits until VS Code has reloaded the file.
'use strict';

const fs = require('node:fs/promises');
const path = require('node:path');

const { encode, isText } = require('./bases');
const { countLines } = require('./documents');

/** Milliseconds to wait for a reload. VS Code takes 100 (measured), and more if it reloads many files at once. */
const PATIENCE = 1500;

/**
 * @param {typeof import('vscode')} vscode the API
 * @param {import('./documents').OpenFile[]} files
 * @param {InstanceType<typeof import('./bases').Bases>} bases
 * @param {string | null} backups the directory for copies, or null if none are wanted
 * @returns {Promise<{reloaded: {name: string, backup: string | null}[], kept: {name: string, lines?: number}[]}>}
 */
async function refresh(vscode, files, bases, backups) {
  const until = Date.now() + PATIENCE;
  const results = await Promise.all(files.map((file) => refreshOne(vscode, file, bases, backups, until)));
  return {
    reloaded: results.map(({ reloaded }) => reloaded).filter((one) => one !== undefined),
    kept: results.map(({ kept }) => kept).filter((one) => one !== undefined),
  };
}

/**
 * @param {typeof import('vscode')} vscode
 * @param {import('./documents').OpenFile} file
 * @param {InstanceType<typeof import('./bases').Bases>} bases
 * @param {string | null} backups
 * @param {number} until milliseconds since 1970
 * @returns {Promise<{reloaded?: {name: string, backup: string | null}, kept?: {name: string, lines?: number}}>}
 */
async function refreshOne(vscode, file, bases, backups, until) {
  const document = file.text?.isDirty ? file.text : (file.notebook ?? file.text);
  const { name } = file.place;
  if (document) await bases.bringUpToDate(file.path, document, until);
  if (document ? document.isDirty : file.modified) {
    return (await bases.isOutdated(file.path, document)) ? { kept: { name, ...lines(document) } } : {};
  }
  const replaced = document && (await bases.takeReplaced(file.path, document));
  if (typeof replaced !== 'string') return {};
  const encoding = isText(document) ? document.encoding : undefined;
  return { reloaded: { name, backup: backups && (await store(vscode, backups, name, replaced, encoding)) } };
}

/** @param {import('./bases').Document | null} document */
function lines(document) {
  return document && isText(document) ? { lines: countLines(document) } : {};
}

/**
 * Stores a copy of the replaced text and returns the path of the copy, or null if the copy can't be written (by then,
 * VS Code has already replaced the text).
 *
 * @param {typeof import('vscode')} vscode
 * @param {string} backups
 * @param {string} name
 * @param {string} text
 * @param {string | undefined} encoding
 */
async function store(vscode, backups, name, text, encoding) {
  const target = path.join(backups, `${Date.now()}.${process.pid}`, name);
  try {
    await fs.mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    await fs.writeFile(target, await encode(vscode, text, encoding), { mode: 0o600, flag: 'wx' });
    return target;
  } catch {
    return null;
  }
}

module.exports = { refresh };
