// One connection to the server that reconnects automatically. Sockets and timers are passed in, so that tests can use
// their own.

import { wellFormed } from '../text/harmless.ts';

/** Milliseconds until the first, second, … retry. Later ones use the last value. */
const PAUSES = [500, 1000, 2000, 5000, 10_000];

/** Milliseconds within which a server that can be reached answers a request. */
const PATIENCE = 10_000;

/** Milliseconds after which an attempt to connect is given up. Browsers wait for minutes, or without a limit. */
const ATTEMPT = 30_000;

/** Milliseconds after an error without a request id within which the server closes the connection, if it does. */
const NAMELESS = 1000;

/**
 * Close codes for a token that is not, or no longer, accepted, if one of the errors in `REFUSALS` was received before.
 * Without an `error`, the token was not read, because it arrived too late, over a slow network. After any other error,
 * the server could not check the token, which may be valid: the web UI deletes refused tokens.
 */
const NOT_TAKEN = [4401, 4403];

/** The codes of the errors that mean that a token is not valid. */
const REFUSALS = ['UNAUTHORIZED', 'TOKEN_REVOKED', 'TOKEN_EXPIRED'];

/** A replacer for `JSON.stringify` that replaces lone surrogates, which no server can read. */
export const whole = (_: string, value: any) => (typeof value === 'string' ? wellFormed(value) : value);

/** A request that failed: `code` as in the protocol, or OFFLINE if there was no connection or it was lost. */
export class RequestError extends Error {
  code: string;
  details: any;

  constructor(code: string, message: string, details?: any) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** `idle` (not started, or stopped), `connecting`, `open` (the token was accepted), `waiting` (until the next attempt),
`refused` (the token was not accepted, or pairing has failed; there are no more attempts). */
export type State = 'idle' | 'connecting' | 'open' | 'waiting' | 'refused';
export type Message = { type: string; project_id?: string; seq?: number; data: any; request_id?: string };
export class Connection {
  state: State;
  /** In the state `waiting`: the time of the next attempt, in milliseconds since 1970. */
  retryAt: number | undefined;
  refusal: { code: string; message: string } | undefined;
  onstate: (state: State) => void;
  onmessage: (message: Message) => void;
  onopen: any;
  _connect: any;
  _later: any;
  _cancel: any;
  _newId: any;
  _asked: Map<string, any>;
  _tries: number;
  _doubt: any;
  _isGreeting: boolean;
  _first: { type: string; data: any } | undefined;
  _socket: any;
  _timer: any;

  constructor({
    connect,
    later = (act, ms) => setTimeout(act, ms),
    cancel = (timer) => clearTimeout(timer),
    newId,
  }: {
    connect: () => any;
    later?: (act: () => void, ms: number) => any;
    cancel?: (timer: any) => void;
    newId?: () => string;
  }) {
    this.state = 'idle';
    /** In the state `refused`: the error with the reason. */
    this.refusal = undefined;
    this.onstate = () => {};
    this.onmessage = () => {};
    /**
     * Called once the token or code has been sent, before lasting requests are resent, so that it can send the requests
     * that have to come first. After a token, they do not wait for its answer, which saves a round trip: the server
     * ignores them if it refuses the token.
     */
    this.onopen = () => {};
    this._connect = connect;
    this._later = later;
    this._cancel = cancel;
    this._newId = newId ?? (() => `${Date.now().toString(36)}-${crypto.getRandomValues(new Uint32Array(3)).join('-')}`);
    this._asked = new Map();
    this._tries = 0;
    /** The timer that runs while an answer to `check` is expected, or the first answer on a new socket. */
    this._doubt = undefined;
    /** Whether requests are sent although the token has not been accepted yet. */
    this._isGreeting = false;
    /** The message that is sent first. */
    this._first = undefined;
  }

  /** @param client the name that others see, unless the token belongs to a device, which has its own name */
  start(token: string, client: string) {
    this.stop();
    this._first = { type: 'auth', data: { token, client } };
    this._begin();
  }

  /**
   * Signs in with a one-time code instead of a token. The `paired` message contains the token. The code is tried only
   * once.
   *
   * @param name the name of this device
   */
  pair(code: string, name: string) {
    this.stop();
    this._first = { type: 'pair', data: { code, name: name || undefined } };
    this._begin();
  }

  /** Closes the connection, so that open requests fail. */
  stop() {
    this._cancel(this._timer);
    this._believe();
    const socket = this._socket;
    this._socket = undefined;
    socket?.close();
    this._fail(() => true, offline);
    this._become('idle');
  }

  /** If the connection is `waiting`, makes the next attempt now. */
  hurry() {
    if (this.state !== 'waiting') return;
    this._cancel(this._timer);
    this._begin();
  }

  /**
   * Checks with a request whether the connection still works. A network may be lost without notice, above all while the
   * device sleeps, and the socket then still seems open for minutes.
   */
  check() {
    if (this.state !== 'open' || this._doubt !== undefined) return;
    this._doubt = this._later(() => this.lost(), PATIENCE);
    this._socket.send(JSON.stringify({ type: 'hello', data: {}, request_id: this._newId() }));
  }

  /** Closes a socket that still seems open. Called when the network was lost. */
  lost() {
    if (this.state === 'open' || this.state === 'connecting') this._socket?.close();
    if (this._socket) this._closed(this._socket, 0);
  }

  /**
   * Sends a request and returns the reply. If the connection is lost, a `lasting` request is sent again with the same
   * id after each reconnect until it is answered. The server executes it only once. Other requests fail with OFFLINE,
   * and lasting ones too once the connection is stopped or refused. Throws `RequestError` if the request fails.
   */
  ask(
    type: string,
    data: object = {},
    { project, id = this._newId(), lasting = false }: { project?: string; id?: string; lasting?: boolean } = {},
  ): Promise<Message> {
    const text = JSON.stringify({ type, project_id: project, data, request_id: id }, whole);
    return new Promise((resolve, reject) => {
      const isSent = this.state === 'open' || this._isGreeting;
      if (!isSent && !lasting) {
        reject(offline());
        return;
      }
      this._asked.set(id, { text, lasting, resolve, reject, socket: isSent && this._socket });
      if (isSent) this._socket.send(text);
    });
  }

  _begin() {
    this._become('connecting');
    this.refusal = undefined;
    const socket = (this._socket = this._connect());
    const greet = () => socket === this._socket && this._greet();
    socket.onopen = greet;
    socket.onmessage = (event: { data: string }) => socket === this._socket && this._heard(JSON.parse(event.data));
    socket.onclose = (event: { code: number }) => this._closed(socket, event.code);
    this._doubt = this._later(() => this.lost(), ATTEMPT);
    // It was opened while the web UI was loading. The caller may still choose a project, which is then joined at once.
    if (socket.readyState === 1) queueMicrotask(greet);
  }

  _greet() {
    this._socket.send(JSON.stringify(this._first));
    if (this._first?.type !== 'auth') return;
    this._isGreeting = true;
    this.onopen();
    this._isGreeting = false;
  }

  _heard(message: Message) {
    this._believe();
    if (message.type === 'error' && message.request_id === undefined) this.refusal = message.data;
    if (this.state === 'connecting') {
      const { _socket: socket } = this;
      const isPaired = message.type === 'paired';
      if (isPaired) this._first = { type: 'auth', data: { token: message.data.token, client: message.data.client } };
      else if (message.type !== 'auth') return;
      this._tries = 0;
      const again = [...this._asked.values()].filter((asked) => asked.socket !== socket);
      this._become('open');
      if (isPaired) this.onopen();
      for (const asked of again) {
        asked.socket = this._socket;
        this._socket?.send(asked.text);
      }
    }
    const asked = message.request_id === undefined ? undefined : this._asked.get(message.request_id);
    if (message.type !== 'error') this.onmessage(message);
    else if (message.request_id === undefined && this.state === 'open') this._refuseUnnamed(message.data);
    if (!asked) return;
    this._asked.delete(message.request_id as string);
    if (message.type === 'error')
      asked.reject(new RequestError(message.data.code, message.data.message, message.data.details));
    else asked.resolve(message);
  }

  _closed(socket: any, code: number) {
    if (socket !== this._socket) return;
    this._socket = undefined;
    this._believe();
    const pairing = this._first?.type === 'pair';
    if (pairing) this.refusal ??= { code: 'OFFLINE', message: 'Can’t reach the server. Try again.' };
    const refused = pairing || (NOT_TAKEN.includes(code) && REFUSALS.includes(this.refusal?.code ?? ''));
    this._fail((asked) => refused || !asked.lasting);
    if (refused) {
      this._become('refused');
      return;
    }
    const pause = PAUSES[Math.min(this._tries++, PAUSES.length - 1)];
    this._timer = this._later(() => this._begin(), pause);
    this.retryAt = Date.now() + pause;
    this._become('waiting');
  }

  /**
   * Lets the open requests fail instead of waiting forever. Called when the server could not read a request or its id.
   */
  _refuseUnnamed({ code, message, details }: any) {
    const [socket, ids] = [this._socket, [...this._asked.keys()]];
    this._later(() => {
      if (socket !== this._socket) return;
      for (const id of ids) {
        this._asked.get(id)?.reject(new RequestError(code, message, details));
        this._asked.delete(id);
      }
    }, NAMELESS);
  }

  /** Stops the timer of `check`. Called when the server has answered, or the connection has ended. */
  _believe() {
    this._cancel(this._doubt);
    this._doubt = undefined;
  }

  /** @param why the error for open requests that are not sent again (each of these was sent) */
  _fail(which: (asked: any) => boolean, why = unanswered) {
    for (const [id, asked] of this._asked) {
      if (!which(asked)) continue;
      this._asked.delete(id);
      asked.reject(asked.lasting ? offline() : why());
    }
  }

  _become(state: State) {
    if (this.state === state) return;
    this.state = state;
    this.onstate(state);
  }
}

const offline = () => new RequestError('OFFLINE', 'You’re disconnected. Try again once you’re back online.');

/** The error for a request that was sent. The server may have executed it. */
const unanswered = () =>
  new RequestError(
    'OFFLINE',
    'The connection was lost before the server responded. Once you’re back online, try again if needed.',
  );
