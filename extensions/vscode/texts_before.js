// The read-only documents of a diff: a file without its changes or, if that can't be computed from the file on disk, a
// text from the review. Such a text is shown for a deleted file, a link, or a file that is decided on as a whole.
'use strict';

const fs = require('node:fs/promises');

const { before } = require('./review_model');

const SCHEME = 'drawbridge-review';

/**
 * @typedef {'before' | 'removed' | 'added'} Side `removed`, `added`: the old or new texts of the file's hunks, joined
 * @typedef {(project: string, name: string) => Found | undefined} Find
 *
 * @typedef {{path: string, version: string, file?: import('./review_words').ReviewedFile}} Found
 */

class TextsBefore {
  /**
   * @param {typeof import('vscode')} vscode the API
   * @param {Find} find returns a file of a review, without `file` if there is no longer anything to decide in it;
   *   undefined if the project's review is not known
   * @param {() => void} outdated is called, once for each version of a review, if a file on disk does not contain the
   *   text that the review describes
   */
  constructor(vscode, find, outdated) {
    this._vscode = vscode;
    this._find = find;
    this._outdated = outdated;
    /** @type {Map<string, string>} the last text of each open document */
    this._last = new Map();
    /** @type {string} the version of the review that was last reported as outdated: each version is reported once */
    this._reported = '';
    /** @type {import('vscode').EventEmitter<import('vscode').Uri>} */
    this._changed = new vscode.EventEmitter();
    const { workspace } = vscode;
    this._parts = [
      this._changed,
      workspace.registerTextDocumentContentProvider(SCHEME, {
        onDidChange: this._changed.event,
        provideTextDocumentContent: (uri) => this._provide(uri),
      }),
      workspace.onDidCloseTextDocument(({ uri }) => this._last.delete(String(uri))),
    ];
  }

  dispose() {
    for (const part of this._parts) part.dispose();
  }

  /**
   * @param {string} project
   * @param {string} name the file's path in the review
   * @param {Side} side
   * @param {string} path VS Code derives the document's language from it
   */
  uri(project, name, side, path) {
    return this._vscode.Uri.from({ scheme: SCHEME, path, query: JSON.stringify([project, name, side]) });
  }

  /**
   * The project and the file's path in the review, if `uri` is a document of a diff, otherwise null.
   *
   * @param {import('vscode').Uri} uri
   * @returns {[string, string] | null}
   */
  about(uri) {
    if (uri.scheme !== SCHEME) return null;
    const [project, name] = JSON.parse(uri.query);
    return [project, name];
  }

  /** Updates open documents after a review has changed. */
  changed() {
    for (const { uri } of this._vscode.workspace.textDocuments) if (uri.scheme === SCHEME) this._changed.fire(uri);
  }

  /** @param {import('vscode').Uri} uri */
  async _provide(uri) {
    const text = await this._text(uri);
    if (text !== null) this._last.set(String(uri), text);
    const last = this._last.get(String(uri));
    if (last === undefined)
      throw new Error('The file or its review has changed since the list was created. Select the change again.');
    return last;
  }

  /**
   * @param {import('vscode').Uri} uri
   * @returns {Promise<string | null>} null if it is not known now: what was shown stays
   */
  async _text(uri) {
    const [project, name, side] = JSON.parse(uri.query);
    const found = this._find(project, name);
    if (!found) return null;
    if (side !== 'before')
      return found.file ? shown(found.file.hunks.map((hunk) => textOf(hunk, side)).join('')) : null;
    try {
      const text = await fs.readFile(found.path, 'utf8');
      const whole = found.file ? before(text, found.file) : text;
      if (whole !== null) return shown(whole);
    } catch {
      return null; // the file was removed or can't be read
    }
    if (this._reported !== found.version) this._outdated();
    this._reported = found.version;
    return null;
  }
}

/**
 * @param {import('./review_words').Hunk} hunk
 * @param {string} side
 */
function textOf(hunk, side) {
  return side === 'added' ? hunk.added : hunk.removed;
}

/**
 * The text as VS Code shows a file's text, without the byte order mark.
 *
 * @param {string} text
 */
function shown(text) {
  return text.replace(/^\ufeff/, '');
}

module.exports = { TextsBefore };
