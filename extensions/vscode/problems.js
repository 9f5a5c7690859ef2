// Errors and warnings that an edit introduced, that is, which the file has now and did not have before.
'use strict';

const MOST = 20;
const MOST_REMEMBERED = 200;

/** VS Code batches reports of diagnostics. This is the maximum time by which that delays a report, in milliseconds. */
const REPORT_DELAY = 50;

/**
 * `line` is 1-based.
 *
 * @typedef {{line: number, severity: string, message: string, source: string | null, code: string | null}} Problem
 */

/**
 * @param {Problem[]} before
 * @param {Problem[]} now
 * @returns {Problem[]} those in `now` that are new, errors first; one that has only moved to another line is not new
 */
function fresh(before, now) {
  const rest = [...before];
  /** @param {(one: Problem, other: Problem) => boolean} isLike */
  const isOld = (isLike) => (/** @type {Problem} */ problem) => {
    const at = rest.findIndex((other) => isLike(problem, other));
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  };
  /** @type {(keyof Problem)[]} */
  const keys = ['severity', 'message', 'source', 'code'];
  /** @type {(one: Problem, other: Problem) => boolean} */
  const isSame = (one, other) => keys.every((key) => one[key] === other[key]);
  return now
    .filter(isOld((one, other) => one.line === other.line && isSame(one, other)))
    .filter(isOld(isSame))
    .sort((one, other) => one.severity.localeCompare(other.severity) || one.line - other.line);
}

class Problems {
  /** @param {typeof import('vscode')} vscode the API */
  constructor(vscode) {
    this._vscode = vscode;
    /** The problems of files before an edit, by canonical name. */
    this._remembered = new Map();
    /** When each document last changed, and when its diagnostics were last reported, by the document's URI. */
    this._changed = new Map();
    this._reported = new Map();
    /** The languages that diagnostics have been reported for. */
    this._served = new Set();
    const { languages, workspace } = vscode;
    /** @param {{uri: import('vscode').Uri}} document */
    const forget = ({ uri }) => [this._changed, this._reported].forEach((times) => times.delete(String(uri)));
    this._listeners = [
      languages.onDidChangeDiagnostics(({ uris }) => uris.forEach((uri) => this._note(uri))),
      workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (contentChanges.length) this._changed.set(String(document.uri), performance.now());
      }),
      workspace.onDidCloseTextDocument(forget),
    ];
    languages.getDiagnostics().forEach(([uri]) => this._note(uri));
  }

  dispose() {
    for (const listener of this._listeners) listener.dispose();
  }

  /**
   * @param {string} name canonical
   * @param {import('vscode').Uri} uri
   */
  remember(name, uri) {
    this._remembered.delete(name);
    this._remembered.set(name, this._of(uri));
    if (this._remembered.size > MOST_REMEMBERED) this._remembered.delete(this._remembered.keys().next().value);
  }

  /**
   * @param {string} name canonical
   * @param {import('vscode').Uri} uri
   * @param {import('vscode').TextDocument | null} document
   * @returns {{new: Problem[], pending: boolean}} `new`: at most `MOST`. Empty if nothing was remembered. `pending`:
   *   whether more can follow: diagnostics are reported for the document's language, but none since its last change
   */
  since(name, uri, document) {
    const before = this._remembered.get(name);
    if (!before) return { new: [], pending: false };
    const isServed = document !== null && this._served.has(document.languageId);
    const key = String(uri);
    const pending = isServed && (this._changed.get(key) ?? -1) > (this._reported.get(key) ?? -1);
    return { new: fresh(before, this._of(uri)).slice(0, MOST), pending };
  }

  /** @param {import('vscode').Uri} uri */
  _note(uri) {
    const document = this._vscode.workspace.textDocuments.find((one) => String(one.uri) === String(uri));
    if (!document) return;
    this._reported.set(String(uri), performance.now() - REPORT_DELAY);
    this._served.add(document.languageId);
  }

  /** @param {import('vscode').Uri} uri */
  _of(uri) {
    const { DiagnosticSeverity, languages } = this._vscode;
    const names = new Map([
      [DiagnosticSeverity.Error, 'error'],
      [DiagnosticSeverity.Warning, 'warning'],
    ]);
    return languages
      .getDiagnostics(uri)
      .filter(({ severity }) => names.has(severity))
      .map(({ range, severity, message, source, code }) => ({
        line: range.start.line + 1,
        severity: names.get(severity) ?? '',
        message: plain(message),
        source: source ?? null,
        code: code === undefined || code === null ? null : plain(code),
      }));
  }
}

/**
 * The text of a message or code. A code can be an object and, in newer versions of VS Code, a message can be one too.
 *
 * @param {string | number | {value: string | number}} part
 */
function plain(part) {
  return String(typeof part === 'object' ? part.value : part);
}

module.exports = { fresh, Problems };
