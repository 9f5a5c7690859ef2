// The sessions in the histories of all projects, as the server lists them: `sessions` in docs/protocols/client.md.

import { signal } from '@preact/signals';

/** A session that `sessions` returns, as `SessionEntry` in the protocol. */
export type SessionEntry = {
  project_id: string;
  path: string;
  agent: string;
  session_id: string;
  title: string;
  state: 'working' | 'waiting' | 'finished' | 'failed' | 'ended';
  created_at: string;
  last_active: string;
  prompts: number;
  first_seq: number;
  last_seq: number;
  current?: boolean;
  named?: boolean;
  terminal?: boolean;
  fork_from?: string;
  last_line?: string;
  added?: number;
  removed?: number;
  approvals?: number;
};

/** How many sessions are requested at first. `MOST`: the maximum that the server accepts. */
const FEW = 200;
const MOST = 1000;

/** The minimum number of milliseconds between two requests for the list. */
const PAUSE = 1500;

/** Updates after which the list may have changed. */
const CHANGES = [
  'run_started',
  'run_finished',
  'session_changed',
  'session_reset',
  'session_renamed',
  'session_deleted',
  'project_state',
  'project_created',
  'project_deleted',
];

type Server = EventTarget & {
  may(type: string): boolean;
  connection: { ask(type: string, data?: object): Promise<{ data: any }>; state: string };
};

export class Sessions {
  /** At most `limit` sessions, latest first. Empty until they are known, or if the server does not support `sessions`. */
  list = signal<SessionEntry[]>([]);
  /** Whether `showMore` adds sessions to the list. */
  hasMore = signal(false);
  _limit = FEW;
  _client: Server;
  _wanted = false;
  _busy = false;

  constructor(client: Server) {
    this._client = client;
    client.addEventListener('change', (event) => {
      if ((event as CustomEvent).detail === 'hello') this.refresh();
    });
    client.addEventListener('message', (event) => {
      const { type, data } = (event as CustomEvent).detail;
      if (type === 'project_deleted' || (type === 'update' && CHANGES.includes(data.update_type))) this.refresh();
    });
  }

  /** Requests the list now, or after `PAUSE` if it was just requested: calls in quick succession cause two requests. */
  refresh() {
    this._wanted = true;
    if (!this._busy) void this._ask();
  }

  /** Requests all sessions, as far as they fit into a message. */
  showMore() {
    this._limit = MOST;
    this.refresh();
  }

  /** The session that the next run of a project continues, or undefined if it is not known. */
  current(project: string): SessionEntry | undefined {
    return this.list.value.find((one) => one.current && one.project_id === project);
  }

  async _ask() {
    this._busy = true;
    while (this._wanted && this._client.may('sessions') && this._client.connection.state === 'open') {
      this._wanted = false;
      const limit = this._limit;
      try {
        const { data } = await this._client.connection.ask('sessions', { limit });
        this.list.value = data.sessions;
        this.hasMore.value = Boolean(data.more) && limit < MOST;
      } catch {
        break; // the list is requested again after the next change, or on the next connection
      }
      await new Promise((later) => setTimeout(later, PAUSE));
    }
    this._busy = false;
  }
}
