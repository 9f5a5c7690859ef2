// One connection to the server that comes back by itself. Sockets and timers are handed in, so that tests have their own.

import { wellFormed } from './harmless.js';

/** Milliseconds until the first, second, … try; then always the last. */
const PAUSES = [500, 1000, 2000, 5000, 10_000];

/** Milliseconds in which a server that is there says something when it is asked. */
const PATIENCE = 10_000;

/** Milliseconds after an error that names no request: a connection that is ended with it is ended by then. */
const NAMELESS = 1000;

/** The token is not taken, or no longer: the `error` before it says why. */
const NOT_TAKEN = [4401, 4403];

/** For `JSON.stringify`: without halves of surrogate pairs, which no server can read. */
export const whole = (/** @type {string} */ _, /** @type {any} */ value) => (typeof value === 'string' ? wellFormed(value) : value);

/** A request that was not done: `code` as in the protocol, or OFFLINE where the connection broke before the answer. */
export class RequestError extends Error {
  /** @param {string} code @param {string} message @param {any} [details] */
  constructor(code, message, details) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/**
 * `idle` (nothing was begun), `connecting`, `open` (the token was taken), `waiting` (until the next try), `refused` (the token
 * was not taken; nothing more is tried).
 * @typedef {'idle' | 'connecting' | 'open' | 'waiting' | 'refused'} State
 * @typedef {{type: string, project_id?: string, seq?: number, data: any, request_id?: string}} Message
 */
export class Connection {
  /**
   * @param {{connect: () => any, later?: (act: () => void, ms: number) => any, cancel?: (timer: any) => void, newId?: () => string}} world
   */
  constructor({ connect, later = (act, ms) => setTimeout(act, ms), cancel = (timer) => clearTimeout(timer), newId }) {
    /** @type {State} */
    this.state = 'idle';
    /** Where it is `refused`: the error that says why. @type {{code: string, message: string} | undefined} */
    this.refusal = undefined;
    /** @type {(state: State) => void} */
    this.onstate = () => {};
    /** @type {(message: Message) => void} */
    this.onmessage = () => {};
    /** Called when the token was taken, before lasting requests are said again: what has to come first is asked here. */
    this.onopen = () => {};
    this._connect = connect;
    this._later = later;
    this._cancel = cancel;
    this._newId = newId ?? (() => `${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(3)).join('-')}`);
    /** @type {Map<string, any>} */
    this._asked = new Map();
    this._tries = 0;
    /** Runs while a word of the server is waited for. @type {any} */
    this._doubt = undefined;
    /** What is said first. @type {{type: string, data: any} | undefined} */
    this._first = undefined;
  }

  /** @param {string} token @param {string} client the name that others see */
  start(token, client) {
    this.stop();
    this._first = { type: 'auth', data: { token, client } };
    this._begin();
  }

  /** A one-time code instead of a token; `paired` brings one. It is tried once. @param {string} code @param {string} name of this device */
  pair(code, name) {
    this.stop();
    this._first = { type: 'pair', data: { code, name: name || undefined } };
    this._begin();
  }

  /** Ends it; open requests fail. */
  stop() {
    this._cancel(this._timer);
    this._believe();
    const socket = this._socket;
    this._socket = undefined;
    socket?.close();
    this._fail(() => true);
    this._become('idle');
  }

  /** Does not wait for the next try: the network is back, or the page is looked at again. */
  hurry() {
    if (this.state !== 'waiting') return;
    this._cancel(this._timer);
    this._begin();
  }

  /** Asks for a word: a network may go without one, above all while the device sleeps, and the socket seems open for minutes. */
  check() {
    if (this.state !== 'open' || this._doubt !== undefined) return;
    this._doubt = this._later(() => this.lost(), PATIENCE);
    this._socket.send(JSON.stringify({ type: 'hello', data: {}, request_id: this._newId() }));
  }

  /** The network has gone: a socket that still seems open is not believed. */
  lost() {
    if (this.state === 'open' || this.state === 'connecting') this._socket?.close();
    if (this._socket) this._closed(this._socket, 0);
  }

  /**
   * The answer to a request. A `lasting` one is said again after a break, under the same id, until it is answered; the
   * server does nothing twice. Others fail with OFFLINE.
   * @param {string} type
   * @param {object} [data]
   * @param {{project?: string, id?: string, lasting?: boolean}} [options]
   * @returns {Promise<Message>}
   */
  ask(type, data = {}, { project, id = this._newId(), lasting = false } = {}) {
    const text = JSON.stringify({ type, project_id: project, data, request_id: id }, whole);
    return new Promise((resolve, reject) => {
      if (this.state !== 'open' && !lasting) {
        reject(offline());
        return;
      }
      this._asked.set(id, { text, lasting, resolve, reject });
      if (this.state === 'open') this._socket.send(text);
    });
  }

  _begin() {
    this._become('connecting');
    this.refusal = undefined;
    const socket = (this._socket = this._connect());
    socket.onopen = () => socket.send(JSON.stringify(this._first));
    socket.onmessage = (/** @type {{data: string}} */ event) => socket === this._socket && this._heard(JSON.parse(event.data));
    socket.onclose = (/** @type {{code: number}} */ event) => this._closed(socket, event.code);
  }

  /** @param {Message} message */
  _heard(message) {
    this._believe();
    if (message.type === 'error' && message.request_id === undefined) this.refusal = message.data;
    if (this.state === 'connecting') {
      if (message.type === 'paired') this._first = { type: 'auth', data: { token: message.data.token, client: message.data.client } };
      else if (message.type !== 'auth') return;
      this._tries = 0;
      const again = [...this._asked.values()];
      this._become('open');
      this.onopen();
      for (const { text } of again) this._socket?.send(text);
    }
    const asked = message.request_id === undefined ? undefined : this._asked.get(message.request_id);
    if (message.type !== 'error') this.onmessage(message);
    else if (message.request_id === undefined && this.state === 'open') this._refuseUnnamed(message.data);
    if (!asked) return;
    this._asked.delete(/** @type {string} */ (message.request_id));
    if (message.type === 'error') asked.reject(new RequestError(message.data.code, message.data.message, message.data.details));
    else asked.resolve(message);
  }

  /** @param {any} socket @param {number} code */
  _closed(socket, code) {
    if (socket !== this._socket) return;
    this._socket = undefined;
    this._believe();
    const pairing = this._first?.type === 'pair';
    if (pairing) this.refusal ??= { code: 'OFFLINE', message: 'The server could not be reached. Nothing was done; try again.' };
    const refused = pairing || NOT_TAKEN.includes(code);
    this._fail((asked) => refused || !asked.lasting);
    if (refused) {
      this._become('refused');
      return;
    }
    const pause = PAUSES[Math.min(this._tries++, PAUSES.length - 1)];
    this._timer = this._later(() => this._begin(), pause);
    this._become('waiting');
  }

  /** The server could not read a request or its id: the open requests fail then, instead of waiting for ever. */
  _refuseUnnamed(/** @type {any} */ { code, message, details }) {
    const [socket, ids] = [this._socket, [...this._asked.keys()]];
    this._later(() => {
      if (socket !== this._socket) return;
      for (const id of ids) {
        this._asked.get(id)?.reject(new RequestError(code, message, details));
        this._asked.delete(id);
      }
    }, NAMELESS);
  }

  /** Nobody waits for a word any more. */
  _believe() {
    this._cancel(this._doubt);
    this._doubt = undefined;
  }

  /** @param {(asked: any) => boolean} which */
  _fail(which) {
    for (const [id, asked] of this._asked) {
      if (!which(asked)) continue;
      this._asked.delete(id);
      asked.reject(offline());
    }
  }

  /** @param {State} state */
  _become(state) {
    if (this.state === state) return;
    this.state = state;
    this.onstate(state);
  }
}

const offline = () => new RequestError('OFFLINE', 'There is no connection to the server. Nothing was done; try again when it is back.');
