// The user's selection.
'use strict';

const { createHash } = require('node:crypto');

/** The maximum number of agent sessions that are remembered. */
const MOST_SESSIONS = 100;

/**
 * The lines are 1-based, and `end_line` is inclusive.
 *
 * @typedef {{file_path: string, start_line: number, end_line: number, content: string}} Selection
 */

/**
 * @param {import('vscode').TextEditor | undefined} editor the active one
 * @param {import('./paths').PathOf} pathOf
 * @returns {Selection | null} null if nothing is selected, or if the editor does not show a file on this machine;
 *   `file_path` is as VS Code spells it
 */
function selected(editor, pathOf) {
  if (!editor || editor.selection.isEmpty) return null;
  const path = pathOf(editor.document.uri);
  if (path === null) return null;
  const { start, end } = editor.selection;
  const last = end.character === 0 ? end.line - 1 : end.line; // selected whole lines end at the start of the next line
  const content = editor.document.getText(editor.selection);
  return { file_path: path, start_line: start.line + 1, end_line: Math.max(last, start.line) + 1, content };
}

/** The selection that was last given to each session, so that none is given twice in a row. */
class Given {
  constructor() {
    this._last = new Map();
  }

  /**
   * @param {string} session
   * @param {Selection} selection
   * @returns {boolean} whether it differs from the last selection that was given to that session
   */
  isNew(session, selection) {
    const digest = createHash('sha256').update(JSON.stringify(selection)).digest('hex');
    if (this._last.get(session) === digest) return false;
    this._last.delete(session);
    this._last.set(session, digest);
    if (this._last.size > MOST_SESSIONS) this._last.delete(this._last.keys().next().value);
    return true;
  }
}

module.exports = { Given, selected };
