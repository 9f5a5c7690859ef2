// The connection to this user's agent server on this machine, if one is running: its private socket, one JSON object
// per line. src/drawbridge/protocols/local_ipc.py describes the messages.
'use strict';

const { randomUUID } = require('node:crypto');
const fs = require('node:fs/promises');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');

const { Lines } = require('./lines');

/** The maximum length of a line, in bytes, which is the same as in the server. */
const LONGEST_LINE = 64 * 1024 * 1024;

/** Milliseconds between two searches for a server, at first and at most. */
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 5000;

/** Milliseconds between two searches for a server that has started after the connected one. */
const LOOK = 5000;

/** Milliseconds within which a server has to welcome this editor. An older server never does. */
const WELCOME = 5000;

/** The maximum wait for an answer, in milliseconds. git may have to examine all files in a large directory. */
const ANSWER = 60_000;

/** Milliseconds that a restarted server has to welcome this editor, so that a decision can be sent again. */
const RESTART = 20_000;

const NO_SERVER = 'No agent server is running. Start one with: drawbridge serve';
const EARLIER = 'The agent server did not respond, or is too old for reviews in editors. Update and restart it.';
const NO_ANSWER = 'The agent server did not answer in time. The list shows the undecided changes.';
const LOST = 'The connection to the agent server was lost. When it is back, the list will show the undecided changes.';

/**
 * Why a request was refused or has no answer. The text is for the user. `code` and `details` are as in the client
 * protocol, but `code` is LATE, LOST or empty if the server did not answer.
 */
class Refused extends Error {
  /**
   * @param {string} text
   * @param {string} code
   * @param {any} details
   * @param {string} directory the review's directory, if the server has named it
   */
  constructor(text, code = '', details = null, directory = '') {
    super(text);
    this.code = code;
    this.directory = directory;
    /** @type {Record<string, any>} */
    this.details = typeof details === 'object' && details !== null ? details : {};
  }
}

/**
 * @returns {Promise<string[]>} the paths where a server may listen, newest first, or none if the directory is missing,
 *   belongs to another user or is open to others
 */
async function addresses() {
  const state = process.env.XDG_STATE_HOME ?? '';
  const base = state.startsWith('/') ? state : path.join(os.homedir(), '.local', 'state');
  const place = path.join(base, 'drawbridge', 'serve');
  try {
    const [names, { uid, mode }] = await Promise.all([fs.readdir(place), fs.stat(place)]);
    if (uid !== process.geteuid?.() || mode & 0o077) return [];
    const sockets = names.filter((name) => name.endsWith('.sock')).sort();
    return sockets.reverse().map((name) => path.join(place, name));
  } catch {
    return [];
  }
}

/**
 * @param {string} address
 * @returns {Promise<net.Socket | null>} null if nothing listens there
 */
function dial(address) {
  return new Promise((resolve) => {
    const socket = net.connect(address);
    socket.once('error', () => resolve(null));
    socket.once('connect', () => resolve(socket));
  });
}

/**
 * @typedef {Object} Around what the connection needs and calls
 * @property {() => {editor: string, folders: string[]}} about this editor
 * @property {(isConnected: boolean) => void} connected called with true when a server that supports reviews
 *   has welcomed this editor, and with false when that connection has ended
 * @property {(change: {project: string, by: string}) => void} changed called when a review has changed
 * @property {(text: string) => void} log
 */

class ServerLink {
  /** @param {Around} around */
  constructor(around) {
    this._around = around;
    /** @type {net.Socket | null} */
    this._socket = null;
    this._address = '';
    this._isWelcome = false;
    /** Whether the server has not introduced itself in time, so it is an older one. */
    this._isLate = false;
    this._remembers = false;
    this._isClosed = false;
    this._isLooking = false;
    this._pause = FIRST_PAUSE;
    /** @type {NodeJS.Timeout | undefined} the next search */
    this._timer = undefined;
    /** @type {Map<string, (answer: any) => void>} the functions that receive the answers, by the requests' ids */
    this._waiting = new Map();
    /** @type {Set<() => void>} called once a server has welcomed this editor, or will not */
    this._arrivals = new Set();
    /** @type {Set<() => void>} called once a server has welcomed this editor, or if this link is closed */
    this._returns = new Set();
  }

  get isConnected() {
    return this._isWelcome;
  }

  /** Why no server that supports reviews is connected. */
  get problem() {
    return this._socket ? EARLIER : NO_SERVER;
  }

  /** Whether the connected server stores what the user has seen. */
  get remembers() {
    return this._isWelcome && this._remembers;
  }

  /**
   * Searches for a server. Resolves once a server that supports reviews is connected, or if none is available. An older
   * server is recognized only after `WELCOME` milliseconds.
   */
  async arrived() {
    await this.look();
    if (!this._isWelcome && this._socket && !this._isLate)
      await new Promise((resolve) => this._arrivals.add(() => resolve(null)));
  }

  _arrive() {
    for (const arrive of this._arrivals) arrive();
    this._arrivals.clear();
  }

  dispose() {
    this._isClosed = true;
    clearTimeout(this._timer);
    this._socket?.destroy();
    this._return();
  }

  _return() {
    for (const back of this._returns) back();
    this._returns.clear();
  }

  /** Looks for the newest server that is listening, and connects to it. */
  async look() {
    if (this._isLooking || this._isClosed) return;
    this._isLooking = true;
    clearTimeout(this._timer);
    try {
      await this._look();
    } finally {
      this._isLooking = false;
    }
    if (this._isClosed) return;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.look(), this._socket ? LOOK : this._pause);
    this._pause = Math.min(2 * this._pause, LONGEST_PAUSE);
  }

  async _look() {
    for (const address of await addresses()) {
      if (this._socket && address === this._address) return;
      const socket = await dial(address);
      if (!socket) continue;
      if (this._isClosed) return void socket.destroy();
      const earlier = this._socket;
      if (earlier) this._ended(earlier);
      earlier?.destroy();
      void this._serve(socket, address);
      return;
    }
  }

  /** Describes this window to the server. Called again when the window's folders have changed. */
  introduce() {
    this._send({ type: 'bridge', ...this._around.about(), reviews: true, offers: false });
  }

  /**
   * The answer to one request.
   *
   * @param {Record<string, any>} message
   * @param {string} [id]
   * @returns {Promise<any>}
   * @throws {Refused}
   */
  async request(message, id = randomUUID()) {
    if (!this._isWelcome) throw new Refused(this.problem);
    const answer = await new Promise((resolve) => {
      const late = setTimeout(() => resolve({ code: 'LATE', text: NO_ANSWER }), ANSWER);
      this._waiting.set(id, (found) => {
        clearTimeout(late);
        resolve(found);
      });
      this._send({ ...message, id });
    });
    this._waiting.delete(id);
    if (answer.code) throw new Refused(answer.text, answer.code, answer.details, answer.directory);
    return answer;
  }

  /**
   * The answer to a decision. If the server is restarted before it answers, the decision is sent again with the same
   * id. The server carries it out once, and its answer shows the result.
   *
   * @param {Record<string, any>} message
   * @returns {Promise<any>}
   * @throws {Refused}
   */
  async decide(message) {
    const id = randomUUID();
    try {
      return await this.request(message, id);
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'LOST') throw error;
    }
    await this.returned();
    if (!this._isWelcome) throw new Refused(LOST, 'LOST');
    return await this.request(message, id);
  }

  /** Unless a server is connected, waits until one has welcomed this editor again, at most `RESTART` milliseconds. */
  async returned() {
    if (this._isWelcome || this._isClosed) return;
    await new Promise((resolve) => {
      const late = setTimeout(() => resolve(null), RESTART);
      this._returns.add(() => {
        clearTimeout(late);
        resolve(null);
      });
    });
  }

  /**
   * @param {net.Socket} socket
   * @param {string} address
   */
  async _serve(socket, address) {
    this._socket = socket;
    this._address = address;
    this._isLate = false;
    const lines = new Lines(LONGEST_LINE);
    const welcome = setTimeout(() => {
      if (socket === this._socket) this._isLate = true;
      this._arrive();
      this._around.log(EARLIER);
    }, WELCOME);
    this.introduce();
    try {
      for await (const bytes of socket) {
        for (const line of lines.feed(bytes)) {
          const message = JSON.parse(line.toString('utf8'));
          if (message.type === 'welcome') clearTimeout(welcome);
          if (socket === this._socket) this._received(message);
        }
      }
    } catch (error) {
      if (socket === this._socket && !this._isClosed)
        this._around.log(`the connection to the agent server has ended: ${error}`);
    }
    clearTimeout(welcome);
    socket.destroy();
    this._ended(socket);
  }

  /** @param {net.Socket} socket */
  _ended(socket) {
    if (socket !== this._socket) return; // another connection has replaced it
    this._socket = null;
    const wasWelcome = this._isWelcome;
    if (wasWelcome) this._pause = FIRST_PAUSE;
    this._isWelcome = false;
    this._arrive();
    for (const answer of this._waiting.values()) answer({ code: 'LOST', text: LOST });
    if (this._isClosed) return;
    if (wasWelcome) this._around.connected(false);
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this.look(), this._pause);
  }

  /** @param {any} message Newer servers may send other messages, which are ignored. */
  _received(message) {
    switch (message.type) {
      case 'welcome':
        this._isWelcome = true;
        this._remembers = message.remembers === true;
        this._around.connected(true);
        this._return();
        return this._arrive();
      case 'review':
      case 'reviews':
      case 'review_remembered':
        return this._waiting.get(message.id)?.(message);
      case 'review_changed':
        return this._around.changed(message);
      default:
    }
  }

  /** @param {object} message */
  _send(message) {
    if (this._socket && !this._socket.destroyed) this._socket.write(JSON.stringify(message) + '\n');
  }
}

module.exports = { addresses, NO_SERVER, Refused, ServerLink };
