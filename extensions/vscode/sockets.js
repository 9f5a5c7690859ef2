// The sockets of a window, one for each workspace folder or, without a folder, one for the home directory.
'use strict';

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const { hash } = require('./blake3');
const { listen } = require('./server');

/** The environment variable that names the directory for the sockets, instead of /tmp. */
const DIRECTORY = 'DRAWBRIDGE_SOCKET_DIR';

/**
 * @param {string} folder
 * @returns {string} the path of this window's socket for `folder`, which is a canonical name
 */
function address(folder) {
  const place = process.env[DIRECTORY] || '/tmp';
  return path.join(place, `${hash(Buffer.from(folder))}-vscode-${process.pid}.sock`);
}

/** @param {string} folder */
function canonical(folder) {
  try {
    return fs.realpathSync(folder);
  } catch {
    return folder; // the folder was removed, or is on a disk that is not mounted now
  }
}

class Sockets {
  /** @param {(socket: import('net').Socket) => void} connected */
  constructor(connected) {
    this._connected = connected;
    /** @type {Map<string, {folder: string, close: () => void}>} by address */
    this._open = new Map();
    /**
     * Why sockets that should be open are not.
     *
     * @type {string[]}
     */
    this.problems = [];
    this._last = Promise.resolve();
    this._isClosed = false;
  }

  /** @returns {{folder: string, address: string}[]} */
  get open() {
    return [...this._open].map(([name, { folder }]) => ({ folder, address: name }));
  }

  /**
   * Opens the sockets for these folders and closes all others. Calls are executed one after another.
   *
   * @param {string[]} folders
   */
  follow(folders) {
    this._isClosed = false;
    const canonicals = (folders.length ? folders : [os.homedir()]).map(canonical);
    this._last = this._last.then(() => this._follow(new Map(canonicals.map((folder) => [address(folder), folder]))));
    return this._last;
  }

  close() {
    this._isClosed = true;
    for (const socket of this._open.values()) socket.close();
    this._open.clear();
  }

  /** @param {Map<string, string>} wanted */
  async _follow(wanted) {
    this.problems = [];
    for (const [name, socket] of this._open) {
      if (!wanted.has(name)) {
        socket.close();
        this._open.delete(name);
      }
    }
    for (const [name, folder] of wanted) {
      if (this._open.has(name)) continue;
      try {
        const { close } = await listen(name, this._connected);
        if (this._isClosed) close();
        else this._open.set(name, { folder, close });
      } catch (error) {
        this.problems.push(`not listening for ${folder}: ${error instanceof Error ? error.message : error}`);
      }
    }
  }
}

module.exports = { Sockets };
