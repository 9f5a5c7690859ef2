// The files that are open in this window: text documents, notebooks, and anything else that a tab shows (diffs, custom
// editors).
'use strict';

const { isSame, locate } = require('./paths');

/** The maximum number of recently used files that are remembered. */
const MOST_RECENT = 20;

/**
 * One file that is open, in any number of ways. It is modified, current or visible if any of its appearances is.
 *
 * @typedef {Object} OpenFile
 * @property {string} path as VS Code spells it
 * @property {import('./paths').Place} place where it really is
 * @property {boolean} modified
 * @property {boolean} current whether the user is working on it
 * @property {boolean} visible
 * @property {import('vscode').TextDocument | null} text
 * @property {import('vscode').NotebookDocument | null} notebook
 * @property {import('vscode').Uri | null} other the URI in its tab, if VS Code has no text document or notebook for it,
 *   as in a custom editor
 *
 * @typedef {Omit<OpenFile, 'place'>} Appearance a file before its place is known
 */

class Documents {
  /**
   * @param {typeof import('vscode')} vscode the API
   * @param {import('./paths').PathOf} pathOf the path that a URI names on this machine
   */
  constructor(vscode, pathOf) {
    this._vscode = vscode;
    this._pathOf = pathOf;
    /**
     * Paths, most recently used first.
     *
     * @type {string[]}
     */
    this._recent = [];
    const { window } = vscode;
    const note = () => this._remember(this._inFront());
    this._listeners = [
      window.tabGroups.onDidChangeTabs(note),
      window.tabGroups.onDidChangeTabGroups(note),
      window.onDidChangeActiveTextEditor(note),
    ];
    note();
  }

  dispose() {
    for (const listener of this._listeners) listener.dispose();
  }

  /** @returns {Promise<OpenFile[]>} every open file, each once, under whatever names it is open */
  async all() {
    const files = [...this._appearances().values()];
    const places = await Promise.all(files.map(({ path }) => locate(path)));
    /** @type {OpenFile[]} */
    const found = [];
    for (const [number, file] of files.entries()) {
      const place = places[number];
      const known = found.find((one) => isSame(one.place, place));
      if (known) merge(known, file);
      else found.push({ ...file, place });
    }
    return found;
  }

  /**
   * @param {string[]} paths absolute
   * @returns {Promise<(OpenFile|null)[]>} one entry for each path, or null if the file is not open
   */
  async find(paths) {
    const [opened, asked] = await Promise.all([this.all(), Promise.all(paths.map(locate))]);
    return asked.map((place) => opened.find((file) => isSame(file.place, place)) ?? null);
  }

  /** The open files by VS Code's own paths. */
  _appearances() {
    const { tabGroups, visibleTextEditors } = this._vscode.window;
    const { textDocuments, notebookDocuments } = this._vscode.workspace;
    const files = new Map();
    /** @param {import('vscode').Uri} uri */
    const note = (uri) => {
      const path = this._pathOf(uri);
      if (path !== null && !files.has(path)) {
        const nothing = { modified: false, current: false, visible: false, text: null, notebook: null, other: null };
        files.set(path, { path, ...nothing });
      }
      return path === null ? null : files.get(path);
    };
    const tabs = tabGroups.all.flatMap((group) => group.tabs);
    for (const tab of tabs) {
      for (const uri of urisOf(tab)) {
        const file = note(uri);
        if (file) file.visible ||= tab.isActive;
      }
    }
    for (const editor of visibleTextEditors) {
      const file = note(editor.document.uri);
      if (file) file.visible = true;
    }
    // A document without a tab was closed, or only another extension reads it. Unsaved changes count anyway.
    /** @param {import('./bases').Document} document */
    const fileOf = (document) => (document.isDirty ? note(document.uri) : files.get(this._pathOf(document.uri) ?? ''));
    for (const document of textDocuments) {
      const file = fileOf(document);
      if (file) {
        file.text = document;
        file.modified ||= document.isDirty;
      }
    }
    for (const document of notebookDocuments) {
      const file = fileOf(document);
      if (file) {
        file.notebook = document;
        file.modified ||= document.isDirty;
      }
    }
    for (const tab of tabs) {
      for (const uri of urisOf(tab)) {
        const file = note(uri);
        if (file && !file.text && !file.notebook) {
          file.other = uri;
          file.modified ||= tab.isDirty;
        }
      }
    }
    for (const path of this._workedOn(files)) files.get(path).current = true;
    return files;
  }

  /**
   * The paths of the files in front or, if a terminal, a webview or the like is in front, the path of the file that was
   * used most recently.
   *
   * @param {Map<string, Appearance>} files
   */
  _workedOn(files) {
    const front = this._inFront().filter((path) => files.has(path));
    return front.length ? front : this._recent.filter((path) => files.has(path)).slice(0, 1);
  }

  /** Paths of the files that the active editor shows: none, one, or both sides of one or more diffs. */
  _inFront() {
    const { tabGroups, activeTextEditor } = this._vscode.window;
    const tab = tabGroups.activeTabGroup?.activeTab;
    const uris = tab ? urisOf(tab) : [];
    if (!uris.some((uri) => this._pathOf(uri) !== null) && activeTextEditor) uris.push(activeTextEditor.document.uri);
    return uris.map(this._pathOf).filter((path) => path !== null);
  }

  /** @param {string[]} paths */
  _remember(paths) {
    this._recent = [...new Set([...paths, ...this._recent])].slice(0, MOST_RECENT);
  }
}

/**
 * The URIs that a tab of any kind is about. This includes future kinds with the same structure.
 *
 * @param {import('vscode').Tab} tab
 */
function urisOf(tab) {
  /** @typedef {{uri?: import('vscode').Uri, original?: import('vscode').Uri, modified?: import('vscode').Uri}} Sides */
  const input = /** @type {Sides & {textDiffs?: Sides[]}} */ (tab.input ?? {});
  const differences = Array.isArray(input.textDiffs) ? input.textDiffs : [];
  const sides = [input, ...differences].flatMap((one) => [one.uri, one.original, one.modified]);
  return sides.filter((uri) => uri !== undefined).filter((uri) => typeof uri?.scheme === 'string');
}

/**
 * Merges `file` into `known`. The appearance with unsaved changes takes precedence, then the one in front.
 *
 * @param {OpenFile} known
 * @param {OpenFile} file
 */
function merge(known, file) {
  const isBetter = file.modified === known.modified ? file.current && !known.current : file.modified;
  const [first, second] = isBetter ? [file, known] : [known, file];
  Object.assign(known, {
    path: first.path,
    text: first.text ?? second.text,
    notebook: first.notebook ?? second.notebook,
    other: first.other ?? second.other,
    modified: file.modified || known.modified,
    current: file.current || known.current,
    visible: file.visible || known.visible,
  });
}

/**
 * The number of lines of a text document, counted as in a file, where a line break at the end does not begin another
 * line.
 *
 * @param {import('vscode').TextDocument} document
 */
function countLines(document) {
  const last = document.lineCount - 1;
  return document.lineAt(last).text === '' ? last : last + 1;
}

module.exports = { countLines, Documents };
