// The methods that the guard calls. docs/internals/protocols/guard.md describes each.
'use strict';

const { isAbsolute } = require('node:path');

const { Bases, LARGEST_TEXT } = require('./bases');
const { countLines, Documents } = require('./documents');
const { BadParams } = require('./lines');
const { locate } = require('./paths');
const { Problems } = require('./problems');
const { refresh } = require('./refresh');
const { beforeSave, merge, save } = require('./saving');
const { Given, selected } = require('./selection');

/** The maximum length of a selection in a snapshot, in characters. `get_visual_selection` does not cut it. */
const LARGEST_SELECTION = 100_000;

/**
 * Milliseconds within which the same notice is shown only once. The guard sends it to every socket, and a window has
 * one for each of its folders.
 */
const SAME_NOTICE = 1000;

/** The state of a window, and the methods that read and change it. */
class Window {
  /**
   * @param {typeof import('vscode')} vscode the API
   * @param {import('./paths').PathOf} pathOf the path that a URI names on this machine
   */
  constructor(vscode, pathOf) {
    this._vscode = vscode;
    this._pathOf = pathOf;
    this._documents = new Documents(vscode, pathOf);
    this._bases = new Bases(vscode, pathOf);
    this._problems = new Problems(vscode);
    this._given = new Given();
    this._notices = new Map();
    this._saving = vscode.workspace.onWillSaveTextDocument((event) => {
      const path = pathOf(event.document.uri);
      if (path !== null) event.waitUntil(beforeSave(vscode, path, event.document, this._bases));
    });
  }

  dispose() {
    [this._documents, this._bases, this._problems, this._saving].forEach((part) => part.dispose());
  }

  /**
   * Whether the file has unsaved changes here, under whatever name it is open.
   *
   * @param {string} path absolute
   */
  async isModified(path) {
    const [file] = await this._documents.find([path]);
    return file?.modified ?? false;
  }

  /** @returns {import('./lines').Methods} */
  methods() {
    return {
      snapshot: (params) => this._snapshot(params),
      buffer_status: (params) => this._bufferStatus(params),
      refresh_buffer: (params) => this._refreshBuffer(params),
      send_message: (params) => this._sendMessage(params),
      get_visual_selection: () => this._visualSelection(),
      buffer_text: (params) => this._bufferText(params),
      save_buffer: async (params) => save(this._vscode, await this._file(params), this._bases),
      merge_buffer: async (params) => {
        if (!Number.isInteger(params.version)) throw new BadParams('version: not an integer');
        return merge(this._vscode, await this._file(params), params, this._bases);
      },
      diagnostics: (params) => this._diagnostics(params),
    };
  }

  /** @param {import('./lines').Params} params */
  async _snapshot(params) {
    const paths = strings(params, 'paths', []).map((path) => usable(path, 'paths'));
    const want = strings(params, 'want', []);
    const session = optional(params, 'session', 'string');
    const [files, all] = await Promise.all([this._documents.find(paths), want.length ? this._documents.all() : []]);
    if (optional(params, 'remember', 'boolean')) await this._remember(paths, files);
    const { appName } = this._vscode.env;
    return {
      editor: `${appName === 'Visual Studio Code' ? 'VS Code' : appName} ${this._vscode.version}`,
      pid: process.pid,
      files: files.map((file) => file && state(file)),
      ...(want.includes('unsaved') && { unsaved: all.filter(({ modified }) => modified).map(state) }),
      ...(want.includes('open') && { open: all.map(({ place }) => place.name), folders: await this._folders() }),
      ...(want.includes('selection') && { selection: await this._newSelection(session) }),
      ...((want.includes('selection') || want.includes('connected')) && { connected: [] }),
    };
  }

  /**
   * @param {string[]} paths
   * @param {(import('./documents').OpenFile | null)[]} files
   */
  async _remember(paths, files) {
    for (const [number, file] of files.entries()) {
      const { name } = file ? file.place : await locate(paths[number]);
      this._problems.remember(name, this._uri(file, name));
      const document = file?.notebook ?? file?.text;
      if (file && document && !document.isDirty) await this._bases.takeReplaced(file.path, document);
    }
  }

  async _folders() {
    const paths = (this._vscode.workspace.workspaceFolders ?? []).map(({ uri }) => this._pathOf(uri));
    const places = await Promise.all(paths.filter((path) => path !== null).map(locate));
    return places.map(({ name }) => name);
  }

  /** @param {string | undefined} session */
  async _newSelection(session) {
    const selection = await this._visualSelection();
    if (!selection || (session !== undefined && !this._given.isNew(session, selection))) return null;
    const { content } = selection;
    const cut = content.length > LARGEST_SELECTION && { content: content.slice(0, LARGEST_SELECTION), truncated: true };
    return { ...selection, ...cut, language: this._vscode.window.activeTextEditor?.document.languageId ?? '' };
  }

  async _visualSelection() {
    const selection = selected(this._vscode.window.activeTextEditor, this._pathOf);
    return selection && { ...selection, file_path: (await locate(selection.file_path)).name };
  }

  /** @param {import('./lines').Params} params */
  async _bufferStatus(params) {
    const file = await this._file(params);
    return { is_current: file?.current ?? false, has_unsaved_changes: file?.modified ?? false };
  }

  /** @param {import('./lines').Params} params */
  async _refreshBuffer(params) {
    const backups = optional(params, 'backups', 'string') ?? null;
    if (backups !== null) usable(backups, 'backups');
    const files =
      'file_path' in params ? [await this._file(params)].filter((file) => file !== null) : await this._documents.all();
    return { success: true, ...(await refresh(this._vscode, files, this._bases, backups)) };
  }

  /** @param {import('./lines').Params} params */
  async _sendMessage(params) {
    const { message } = params;
    if (typeof message !== 'string' || message.trim() === '')
      throw new BadParams('message: must be a non-empty string');
    if ('file_path' in params && !(await this._file(params))) return { success: true };
    const now = performance.now();
    if (now - (this._notices.get(message) ?? -SAME_NOTICE) >= SAME_NOTICE) {
      this._notices = new Map([[message, now]]);
      // The call is not awaited, because the notice stays open until the user or VS Code closes it. A file's name must
      // not become a link.
      this._vscode.window.showWarningMessage(`Drawbridge: ${message.replaceAll('](', '] (')}`);
    }
    return { success: true };
  }

  /** @param {import('./lines').Params} params */
  async _bufferText(params) {
    const document = (await this._file(params))?.text;
    if (!document) return { text: null };
    const text = document.getText();
    if (Buffer.byteLength(text) > LARGEST_TEXT) return { text: null };
    return { text: document.encoding === 'utf8bom' ? `\ufeff${text}` : text, version: document.version };
  }

  /** @param {import('./lines').Params} params */
  async _diagnostics(params) {
    const file = await this._file(params);
    const { name } = file ? file.place : await locate(params.file_path);
    return this._problems.since(name, this._uri(file, name), file?.text ?? null);
  }

  /**
   * @param {import('./documents').OpenFile | null} file
   * @param {string} name
   */
  _uri(file, name) {
    return file?.text?.uri ?? this._vscode.Uri.file(name);
  }

  /**
   * @param {import('./lines').Params} params
   * @returns {Promise<import('./documents').OpenFile | null>} the file that `file_path` names, if it is open
   */
  async _file(params) {
    const [file] = await this._documents.find([usable(params.file_path, 'file_path')]);
    return file;
  }
}

/**
 * A file's state as `snapshot` returns it.
 *
 * @param {import('./documents').OpenFile} file
 */
function state({ place, modified, current, visible, text }) {
  return { name: place.name, modified, current, visible, ...(text && { lines: countLines(text) }) };
}

/**
 * @param {any} path
 * @param {string} name
 */
function usable(path, name) {
  if (typeof path !== 'string' || !isAbsolute(path)) throw new BadParams(`${name}: not an absolute path`);
  if (path.includes('\0')) throw new BadParams(`${name}: contains a NUL byte`);
  return path;
}

/**
 * @param {import('./lines').Params} params
 * @param {string} name
 * @param {string[]} otherwise
 */
function strings(params, name, otherwise) {
  const found = params[name] ?? otherwise;
  const isRight = Array.isArray(found) && found.every((one) => typeof one === 'string');
  if (!isRight) throw new BadParams(`${name}: must be a list of strings`);
  return found;
}

/**
 * @param {import('./lines').Params} params
 * @param {string} name
 * @param {string} type
 */
function optional(params, name, type) {
  const found = params[name] ?? undefined;
  if (found !== undefined && typeof found !== type) throw new BadParams(`${name}: not a ${type}`);
  return found;
}

module.exports = { Window };
