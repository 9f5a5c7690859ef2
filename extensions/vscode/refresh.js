// `refresh_buffer`: what is on disk is shown, unsaved changes are left alone, what was replaced is kept.
//
// VS Code itself reads a changed file anew where its document has no unsaved changes, and one undo takes that back. Nothing
// here makes it: its command for that ("Revert File") acts on whatever editor is in front, whatever file it is given, and drops
// unsaved changes. So this waits until it is done.
'use strict';

const fs = require('fs/promises');
const path = require('path');

const { encode, isText } = require('./bases');
const { countLines } = require('./documents');

/** Milliseconds; VS Code takes 100 (measured), more where it reads many files anew at once. */
const PATIENCE = 1500;

/**
 * @param {Object} vscode the API
 * @param {import('./documents').OpenFile[]} files
 * @param {import('./bases').Bases} bases
 * @param {?string} backups directory
 * @returns {Promise<{reloaded: {name: string, backup: ?string}[], kept: {name: string, lines?: number}[]}>}
 */
async function refresh(vscode, files, bases, backups) {
  const until = Date.now() + PATIENCE;
  const results = await Promise.all(files.map((file) => refreshOne(vscode, file, bases, backups, until)));
  const those = (what) => results.map((result) => result[what]).filter(Boolean);
  return { reloaded: those('reloaded'), kept: those('kept') };
}

async function refreshOne(vscode, file, bases, backups, until) {
  const document = file.text?.isDirty ? file.text : file.notebook ?? file.text;
  const { name } = file.place;
  if (document) await bases.bringUpToDate(file.path, document, until);
  if (document ? document.isDirty : file.modified) {
    return (await bases.isOutdated(file.path, document)) ? { kept: { name, ...lines(document) } } : {};
  }
  const replaced = document && (await bases.takeReplaced(file.path, document));
  if (typeof replaced !== 'string') return {};
  return { reloaded: { name, backup: backups && (await store(vscode, backups, name, replaced, document.encoding)) } };
}

function lines(document) {
  return document && isText(document) ? { lines: countLines(document) } : {};
}

/** Where the copy lies now; null where it can't be written, and then VS Code has replaced the text all the same. */
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
