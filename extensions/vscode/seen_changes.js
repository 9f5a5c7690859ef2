// Records which changes the user has seen, that is, which have been in view in a diff of the list.
'use strict';

const { Sightings } = require('./sightings');

/** Milliseconds for which the editors must not change. What only scrolls past in that time has not been seen. */
const DELAY = 200;

/** @typedef {import('./review_words').ReviewedFile} ReviewedFile */

class SeenChanges {
  /**
   * @param {typeof import('vscode')} vscode the API
   * @param {(original: import('vscode').Uri) => {project: string, file: ReviewedFile} | null} find the file, as it is
   *   listed, whose diff has this document on the left, or null if it is not a diff of the list
   * @param {(project: string, hunks: string[]) => void} saw
   */
  constructor(vscode, find, saw) {
    this._vscode = vscode;
    this._find = find;
    this._saw = saw;
    this._sightings = new Sightings();
    /** @type {NodeJS.Timeout | undefined} */
    this._timer = undefined;
    const { window } = vscode;
    this._parts = [
      window.onDidChangeTextEditorVisibleRanges(() => this.soon()),
      window.onDidChangeVisibleTextEditors(() => this.soon()),
      window.tabGroups.onDidChangeTabs(() => this.soon()),
      window.onDidChangeWindowState(() => this.soon()),
    ];
  }

  dispose() {
    clearTimeout(this._timer);
    for (const part of this._parts) part.dispose();
  }

  /** Checks the diffs once they have not changed for a moment. */
  soon() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._look(), DELAY);
  }

  _look() {
    const { TabInputTextDiff, window } = this._vscode;
    if (!window.state.focused) return;
    for (const { activeTab } of window.tabGroups.all) {
      const input = activeTab?.input;
      if (!(input instanceof TabInputTextDiff)) continue;
      const found = this._find(input.original);
      const right = this._shown(input.modified);
      if (!found || !right) continue;
      const hunks = this._sightings.look(found.project, found.file, this._shown(input.original), right);
      if (hunks.length) this._saw(found.project, hunks);
    }
  }

  /**
   * @param {import('vscode').Uri} uri
   * @returns {import('./sightings').Shown | null} null if the document is not visible, or if its lines differ from
   *   those on disk
   */
  _shown(uri) {
    const { visibleTextEditors } = this._vscode.window;
    const editor = visibleTextEditors.find(({ document }) => String(document.uri) === String(uri));
    if (!editor || editor.document.isDirty) return null;
    /** @type {[number, number][]} */
    const ranges = editor.visibleRanges.map(({ start, end }) => [start.line, end.line]);
    return { ranges, count: editor.document.lineCount };
  }
}

module.exports = { SeenChanges };
