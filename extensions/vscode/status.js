// Shows the user whether this window is protected, as an unobtrusive item in the status bar and, on request, with
// details in an output channel.
'use strict';

class Status {
  /** @param {typeof import('vscode')} vscode the API */
  constructor(vscode) {
    this._vscode = vscode;
    /** @type {{folder: string, address: string}[]} */
    this._sockets = [];
    /** @type {string[]} */
    this._problems = [];
    this._count = 0;
    this._last = null;
    this._output = vscode.window.createOutputChannel('Drawbridge');
    this._item = vscode.window.createStatusBarItem('drawbridge.status', vscode.StatusBarAlignment.Right);
    this._item.name = 'Drawbridge';
    this._item.command = 'drawbridge.showStatus';
    this._item.show();
  }

  dispose() {
    this._output.dispose();
    this._item.dispose();
  }

  /**
   * @param {{folder: string, address: string}[]} sockets that are open
   * @param {string[]} problems why others are not
   */
  listens(sockets, problems) {
    this._sockets = sockets;
    this._problems = problems;
    for (const problem of problems) this.log(problem);
    this._item.text = problems.length ? '$(warning) Drawbridge' : '$(shield)';
    this._item.backgroundColor = problems.length
      ? new this._vscode.ThemeColor('statusBarItem.warningBackground')
      : undefined;
    this._item.tooltip = this._headline();
  }

  /** @param {import('./lines').Answered} said */
  answered({ answer, method }) {
    this._count += 1;
    this._last = { method, at: new Date(), error: answer.error };
    if (answer.error) this.log(`${method || 'a call'} failed: ${answer.error.message} (${answer.error.code})`);
  }

  /** @param {string} text */
  log(text) {
    this._output.appendLine(`${clock(new Date())} ${text}`);
  }

  show() {
    const count = this._count === 1 ? '1 call' : `${this._count} calls`;
    const last = this._last && `, the last one (${this._last.method || 'unknown'}) at ${clock(this._last.at)}`;
    this._output.appendLine(`${clock(new Date())} ${this._headline()}`);
    for (const { folder, address } of this._sockets)
      this._output.appendLine(`  listening for ${folder}\n    on ${address}`);
    for (const problem of this._problems) this._output.appendLine(`  ${problem}`);
    this._output.appendLine(`  answered ${count}${last ?? ''}`);
    this._output.show(true);
  }

  _headline() {
    if (this._problems.length) return 'Drawbridge: agents may overwrite unsaved work in this window';
    return 'Drawbridge: the guard can protect unsaved work in this window';
  }
}

/**
 * "14:03:09"
 *
 * @param {Date} date
 */
function clock(date) {
  return date.toTimeString().slice(0, 8);
}

module.exports = { Status };
