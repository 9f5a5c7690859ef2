// The base of each open file: the content on disk when its document last had the same text. VS Code itself reloads a
// file that changed on disk if its document has no unsaved changes, so the replaced text has to be recorded beforehand.
'use strict';

const fs = require('node:fs/promises');
const { dirname } = require('node:path');

const { stampOf } = require('./paths');

/** The maximum size of a file whose text is kept and compared, in bytes. */
const LARGEST_TEXT = 4 * 1024 * 1024;

/**
 * Milliseconds after which a changed document that is not modified counts as read from disk. When the user types the
 * first letter, VS Code reports the change a moment before it reports that the document is modified.
 */
const SETTLING = 100;

/** The maximum time between two checks of whether VS Code has read a file again, in milliseconds. */
const LOOK_EVERY = 100;

/** How long a replaced text is kept for a refresh to store, in milliseconds. No agent command takes longer. */
const REPLACED_FOR = 10 * 60 * 1000;

/**
 * @typedef {import('vscode').TextDocument | import('vscode').NotebookDocument} Document
 */

/**
 * @typedef {Object} Base
 * @property {string | null} stamp the stamp of the file on disk, or null if it is not known
 * @property {string | null} text the text of the file, or null if it is not known or too large
 * @property {{text: string, at: number} | null} replaced the text of the document before VS Code read the file again
 * @property {boolean} merged whether the text on disk has been merged into the document; VS Code does not know this
 * @property {NodeJS.Timeout | null} settling
 * @property {string | null} unread the stamp of the version of the file that VS Code did not read in time, if any
 * @property {import('vscode').Disposable | null} watcher watches a file outside the workspace's folders: VS Code itself
 *   watches such a file only while it is visible
 */

class Bases {
  /**
   * @param {typeof import('vscode')} vscode the API
   * @param {import('./paths').PathOf} pathOf the path that a URI names on this machine
   */
  constructor(vscode, pathOf) {
    this._vscode = vscode;
    this._pathOf = pathOf;
    /** @type {Map<string, Base>} by VS Code's path */
    this._bases = new Map();
    /** The calls that wait for a document to change: the document, and the function that ends the wait. */
    this._waiting = new Set();
    const { workspace, window } = vscode;
    /** @param {Document} document */
    const agree = (document) => this.agree(document);
    /** @param {Document} document */
    const forget = (document) => {
      const path = pathOf(document.uri);
      if (path !== null) this._forget(path);
    };
    this._listeners = [
      workspace.onDidOpenTextDocument(agree),
      workspace.onDidSaveTextDocument(agree),
      workspace.onDidCloseTextDocument(forget),
      workspace.onDidChangeTextDocument(({ document }) => this._changed(document)),
      workspace.onDidOpenNotebookDocument(agree),
      workspace.onDidSaveNotebookDocument(agree),
      workspace.onDidCloseNotebookDocument(forget),
      workspace.onDidChangeNotebookDocument(({ notebook }) => this._changed(notebook)),
      window.tabGroups.onDidChangeTabs(({ opened }) => this._opened(opened)),
    ];
    [...workspace.textDocuments, ...workspace.notebookDocuments].forEach(agree);
    this._opened(window.tabGroups.all.flatMap((group) => group.tabs));
  }

  dispose() {
    for (const listener of this._listeners) listener.dispose();
    for (const path of [...this._bases.keys()]) this._forget(path);
  }

  /**
   * @param {string} path
   * @returns {Base}
   */
  of(path) {
    let base = this._bases.get(path);
    if (!base) {
      base = { stamp: null, text: null, replaced: null, merged: false, settling: null, unread: null, watcher: null };
      this._bases.set(path, base);
    }
    return base;
  }

  /**
   * Notes that the document and the file are equal now, after the document was opened or saved. For restored unsaved
   * changes, only the file's current stamp is known, not the text that they are based on.
   *
   * @param {Document} document
   */
  async agree(document) {
    const path = this._pathOf(document.uri);
    if (path === null) return;
    const base = this.of(path);
    if (!this._vscode.workspace.getWorkspaceFolder(document.uri)) base.watcher ??= this._watch(path);
    Object.assign(base, { replaced: null, merged: false, stamp: null, text: null });
    if (!document.isDirty) base.text = await this._text(document);
    base.stamp = await stampOf(path);
  }

  /**
   * Notes that the text on disk, which had `stamp`, is now part of the document's unsaved changes.
   *
   * @param {string} path
   * @param {Document} document
   * @param {string | null} stamp
   */
  async rebase(path, document, stamp) {
    const text = await this._diskText(path, document);
    Object.assign(this.of(path), { stamp, text, replaced: null, merged: true });
  }

  /**
   * Whether the file on disk differs from the version that the document is based on. False if the file no longer
   * exists, or if the base is not known.
   *
   * @param {string} path
   * @param {Document | null | undefined} document
   */
  async isOutdated(path, document) {
    return this._differs(path, document, this.of(path).text);
  }

  /**
   * Whether a document without unsaved changes shows what is on disk. True if the file does not exist.
   *
   * @param {string} path
   * @param {Document} document
   */
  async isUpToDate(path, document) {
    const { text } = this.of(path);
    return !(await this._differs(path, document, text !== null && isText(document) ? document.getText() : text));
  }

  /**
   * Whether the file contains a different text or, if `text` is null, whether its stamp has changed. False if the file
   * does not exist.
   *
   * @param {string} path
   * @param {Document | null | undefined} document
   * @param {string | null} text
   */
  async _differs(path, document, text) {
    const { stamp } = this.of(path);
    const now = await stampOf(path);
    if (now === null) return false;
    if (text === null) return stamp !== null && stamp !== now;
    return (await this._diskText(path, document)) !== normal(text);
  }

  /**
   * Waits for VS Code to read the file again, until `until` at the latest (milliseconds since 1970). If VS Code did not
   * read a version of the file in time, later calls do not wait for that version.
   *
   * @param {string} path
   * @param {Document} document
   * @param {number} until
   */
  async bringUpToDate(path, document, until) {
    const base = this.of(path);
    while (!document.isDirty && !(await this.isUpToDate(path, document))) {
      const stamp = await stampOf(path);
      if (Date.now() >= until) base.unread = stamp;
      if (base.unread === stamp) return;
      await this._change(document, Math.min(until - Date.now(), LOOK_EVERY)); // it may have changed since the check
      await this._settle(path, document);
    }
  }

  /**
   * The text that VS Code has replaced since the last call. Null if it has replaced none, or if it did so more than
   * `REPLACED_FOR` ago. A text is returned only once.
   *
   * @param {string} path
   * @param {Document} document
   */
  async takeReplaced(path, document) {
    await this._settle(path, document);
    const base = this.of(path);
    const { replaced } = base;
    base.replaced = null;
    return replaced && Date.now() - replaced.at < REPLACED_FOR ? replaced.text : null;
  }

  /**
   * Waits for the document to change or `milliseconds` to pass.
   *
   * @param {Document} document
   * @param {number} milliseconds
   */
  async _change(document, milliseconds) {
    /** @type {() => void} */
    let resolve = () => {};
    const changed = new Promise((done) => (resolve = () => done(undefined)));
    const waiting = { document, resolve };
    this._waiting.add(waiting);
    const timer = setTimeout(resolve, milliseconds);
    await changed;
    clearTimeout(timer);
    this._waiting.delete(waiting);
  }

  /** @param {string} path */
  _watch(path) {
    const { RelativePattern, Uri, workspace } = this._vscode;
    return workspace.createFileSystemWatcher(new RelativePattern(Uri.file(dirname(path)), '*'));
  }

  /** @param {string} path */
  _forget(path) {
    const base = this._bases.get(path);
    clearTimeout(base?.settling ?? undefined);
    base?.watcher?.dispose();
    this._bases.delete(path);
  }

  /** @param {readonly import('vscode').Tab[]} tabs */
  _opened(tabs) {
    for (const tab of tabs) {
      const input = /** @type {{uri?: import('vscode').Uri, viewType?: string} | undefined} */ (tab.input);
      const path = input?.uri && input.viewType && this._pathOf(input.uri);
      if (path && !this._bases.has(path)) stampOf(path).then((stamp) => Object.assign(this.of(path), { stamp }));
    }
  }

  /** @param {Document} document */
  _changed(document) {
    const path = this._pathOf(document.uri);
    if (path === null) return;
    const base = this.of(path);
    clearTimeout(base.settling ?? undefined);
    base.settling = document.isDirty ? null : setTimeout(() => this._settle(path, document), SETTLING);
    for (const { document: other, resolve } of this._waiting) if (other === document) resolve();
  }

  /**
   * Records what VS Code has read from disk, if a change to the document has not been recorded yet and the document has
   * no unsaved changes.
   *
   * @param {string} path
   * @param {Document} document
   */
  async _settle(path, document) {
    const base = this.of(path);
    if (base.settling === null) return;
    clearTimeout(base.settling);
    base.settling = null;
    const stamp = await stampOf(path);
    if (document.isDirty || stamp === null) return;
    const text = await this._text(document);
    if (text !== null && text === base.text) return;
    const isRecent = base.replaced && Date.now() - base.replaced.at < REPLACED_FOR;
    if (base.text !== null && !isRecent) base.replaced = { text: base.text, at: Date.now() };
    Object.assign(base, { stamp, text, merged: false });
  }

  /**
   * The text of a document without unsaved changes or, for a notebook, the text of its file. Null if it is too large or
   * can't be read.
   *
   * @param {Document} document
   */
  async _text(document) {
    const path = this._pathOf(document.uri);
    const text = isText(document) ? document.getText() : path && (await this._diskText(path, document));
    return text !== null && Buffer.byteLength(text) <= LARGEST_TEXT ? text : null;
  }

  /**
   * The file's text with "\n" as line endings, without a byte-order mark. Null if it can't be read or is too large.
   *
   * @param {string} path
   * @param {Document | null | undefined} document
   */
  async _diskText(path, document) {
    try {
      if ((await fs.stat(path)).size > LARGEST_TEXT) return null;
      return normal(
        await decode(this._vscode, await fs.readFile(path), isText(document) ? document.encoding : undefined),
      );
    } catch {
      return null;
    }
  }
}

/**
 * @param {Document | null | undefined} document
 * @returns {document is import('vscode').TextDocument}
 */
function isText(document) {
  return document != null && 'getText' in document;
}

/** @param {string} text */
function normal(text) {
  return text.replace(/\r\n?/g, '\n');
}

/**
 * The text of these bytes. UTF-8 is assumed for notebooks, and in VS Code before 1.100, which neither reports a
 * document's encoding nor decodes.
 *
 * @param {typeof import('vscode')} vscode
 * @param {Uint8Array} bytes
 * @param {string | undefined} encoding
 */
async function decode(vscode, bytes, encoding) {
  if (encoding && vscode.workspace.decode) return vscode.workspace.decode(bytes, { encoding });
  return new TextDecoder().decode(bytes);
}

/**
 * @param {typeof import('vscode')} vscode
 * @param {string} text
 * @param {string | undefined} encoding
 * @returns {Promise<Uint8Array>} what VS Code would write
 */
async function encode(vscode, text, encoding) {
  if (encoding && vscode.workspace.encode) return vscode.workspace.encode(text, { encoding });
  return Buffer.from(text);
}

module.exports = { Bases, encode, isText, LARGEST_TEXT };
