// The web UI's client for the server: the connection, what it received, and what the user can do.

import { Connection, RequestError, whole } from './connection.ts';
import { Conversation, recordOf } from '../state/conversation.ts';
import { Projects } from '../state/projects.ts';
import * as kept from '../state/kept.ts';
import { newId, sendUp } from './blobs.ts';
import { textSize } from '../ui/dom.ts';

/** The number of records in a page of history. */
const PAGE = 120;

/**
 * The number of records with which a conversation is opened. These are more than fit on a screen, but few enough for a
 * slow network. A full page follows, because it may contain what the view shows about the run.
 */
const FIRST_PAGE = 30;

/**
 * How many of the last records are searched for a fork. Mode or model changes may follow it before its first run.
 */
const AFTER_A_FORK = 20;

/** If more records than this were missed, a conversation is loaded again from its end instead of catching up. */
const TOO_FAR = 1000;

const MESSAGE_BYTES = 900_000;

/** The maximum number of pages that are fetched to reach a record of the current session, or to find out what has
 * happened to a prompt. */
const FAR_BACK = 20;

/** The snapshot for an earlier session, in which nothing changes. `last_seq` is larger than any record's number. */
const EARLIER = { last_seq: 1e9, run: null, queue: [], open_approvals: [] };

/** A prompt that the server has not confirmed. */
export type Unsent = {
  id: string;
  project: string;
  prompt: string;
  attachments?: { blob_id: string; media_type: string; name: string }[];
  /** The agent, if it is not the project's. */
  agent?: string;
  options?: import('./messages.ts').Options;
  /** Whether the prompt is sent into the active run. */
  steer?: boolean;
};

/** A prompt of this browser that another window or device has removed from the queue. */
export type Removed = { run: string; by: string } & kept.Sent;

/** The additional data that can be sent with a prompt. */
type Extra = Pick<Unsent, 'agent' | 'options' | 'steer'>;

export class Client extends EventTarget {
  projects: Projects;
  conversation: Conversation | undefined;
  hello: any;
  name: any;
  _called: any;
  isNamed: boolean;
  token: string;
  connection: Connection;
  _ids: Set<string>;
  _own: Set<string>;
  _removing: string | undefined;
  unsent: Unsent[];
  removed: Removed[];
  _sent: Map<string, kept.Sent>;
  _search: object | undefined;

  constructor(connect: () => any) {
    super();
    this.projects = new Projects();
    this.conversation = undefined;
    this.hello = undefined;
    this.name = this._called = kept.clientName();
    /** Whether the token belongs to a device. If so, the server uses the device's name, whatever this browser sends. */
    this.isNamed = false;
    /** The token with which this window signs in, or '' if it has not started, was stopped or is being paired. */
    this.token = '';
    this.connection = new Connection({ connect });
    this.connection.onstate = () => this._tell('connection');
    this.connection.onopen = () => void this._open().catch(() => {});
    this.connection.onmessage = (message) => this._heard(message);
    /** The ids that the server gave to the connections of this window. */
    this._ids = new Set();
    /** The ids of this browser’s earlier connections. */
    this._own = new Set(kept.connections());
    /** The id of the project that this window is removing. */
    this._removing = undefined;
    /** Prompts that the server has not confirmed, oldest first. */
    this.unsent = kept.unsent();
    /** The prompts that another window or device has removed from the queue, until the user dismisses the notice. */
    this.removed = [];
    /** This browser’s prompts that wait for their runs, and those that were removed, by run id. */
    this._sent = new Map(Object.entries(kept.sent()));
    /** The latest search for a record that is not loaded. */
    this._search = undefined;
  }

  start(token: string) {
    this.token = token;
    this.hello = undefined;
    this.name = this._called = kept.clientName();
    this.connection.start(token, this._called);
    this._again();
  }

  /** Pairs this device. @param code a one-time code @param name the name of this device */
  pair(code: string, name: string) {
    this.token = '';
    this.hello = undefined;
    this._called = name;
    this.connection.pair(code, name);
  }

  /** Closes the connection until this window signs in again. */
  stop() {
    this.token = '';
    this.connection.stop();
  }

  /**
   * Whether the server accepts messages of this type from this device. Until it has answered, its last known answer
   * counts, or true if there isn’t one.
   */
  may(type: string) {
    return (this.hello?.features ?? kept.features())?.includes(type) ?? true;
  }

  /** Whether a message can be added to the active run of a project. False if the project is not the shown one. */
  steers(project: string): boolean {
    const { conversation } = this;
    if (conversation?.id !== project || !conversation.run || this.projects.all.get(project)?.desk) return false;
    return Boolean(conversation.offers.steer);
  }

  /** Shows a project, or none if `id` is undefined. `session`: one of its earlier sessions. */
  choose(id: string | undefined, session?: string) {
    if (this.conversation?.id === id && this.conversation?.session === session) return;
    if (this.conversation && this.conversation.id !== id)
      void this.connection.ask('project_leave', {}, { project: this.conversation.id }).catch(() => {});
    this.conversation = id === undefined ? undefined : new Conversation(id, session);
    this._tell('conversation');
    if (this.connection.state === 'open') void this._join().catch(() => {});
  }

  // The actions of the user.

  /**
   * Sends a prompt. Returns whether the server has accepted it, or may still do so once the connection is back. Throws,
   * without sending the prompt, if it is too long or a file could not be uploaded.
   */
  async execute(prompt: string, files: { blob: Blob; name: string }[] = [], extra: Extra = {}) {
    const project = this._id;
    if (new TextEncoder().encode(JSON.stringify(prompt)).length > MESSAGE_BYTES) {
      // In a terminal session, an attached text file becomes part of the message.
      const otherwise = this.projects.all.get(project)?.desk ? '' : ', or attach it as a file';
      throw new Error(`This message is too long: ${textSize(prompt)}. Send part of it${otherwise}.`);
    }
    const attachments = [];
    for (const { blob, name } of files) {
      attachments.push({
        blob_id: await sendUp(this.connection, new Uint8Array(await blob.arrayBuffer())),
        media_type: blob.type || 'application/octet-stream',
        name,
      });
    }
    const one = { id: newId(), project, prompt, ...(attachments.length && { attachments }), ...extra };
    this.unsent.push(one);
    kept.keepUnsent(one);
    this._tell('conversation');
    return await this._execute(one);
  }

  /** Answers an open approval request. */
  async answer(
    { approval_id }: any,
    { allow, message, input, remember }: { allow: boolean; message?: string; input?: object; remember?: boolean },
  ) {
    const project = this._id; // during the upload of a long answer, the user may open another project
    const given = input && (await this._input(input));
    const data = {
      approval_id,
      decision: allow ? 'allow' : 'deny',
      message: message || undefined,
      remember: remember || undefined,
      ...given,
    };
    try {
      await this.connection.ask('permission_response', data, { project, lasting: true });
    } catch (error) {
      // After a lost connection the answer is sent again, so the request may have been resolved by this very answer.
      const details = error instanceof RequestError && error.code === 'APPROVAL_RESOLVED' ? error.details : undefined;
      if (!this.isMine(details) || details?.decision !== data.decision) throw error;
    }
  }

  /** Whether an approval request was answered from this window. Another window may have the same name. */
  isMine(answer: any) {
    return Boolean(answer?.client_id && this._ids.has(answer.client_id) && answer.by === this.name);
  }

  /** Whether an approval request was answered from this browser, possibly before the page was reloaded. */
  isOwn(answer: any) {
    return this.isMine(answer) || (answer?.by === this.name && this._own.has(answer.client_id));
  }

  /**
   * The name to show for the client that did something, or undefined if it was this browser. Older records have no
   * `client_id`, so only their names can be compared.
   */
  other(act: any): string | undefined {
    if (!act.by || this.isOwn(act) || (!act.client_id && act.by === this.name)) return undefined;
    return act.client_id ? this.called(act) : act.by;
  }

  /** Who gave an answer that is not from this window. */
  called({ by }: any) {
    return by === this.name ? `Another window (${by})` : by;
  }

  /** Sends a request about the project that is shown, and returns the reply. */
  command(type: string, data?: object) {
    return this.connection.ask(type, data, { project: this._id });
  }

  /** Removes a project or a terminal session. */
  async remove(id: string) {
    this._removing = id;
    try {
      await this.connection.ask('project_delete', {}, { project: id });
    } finally {
      this._removing = undefined;
    }
  }

  /** The project in the directory of a terminal session, or undefined if there isn’t one. */
  _besides({ path }: any) {
    return [...this.projects.all.values()].find((one) => !one.desk && one.path === path);
  }

  /** Whether the server reports that conversations of an agent can be forked. */
  forks(agent?: string) {
    return agent === undefined || (this.hello?.forks?.includes(agent) ?? true);
  }

  /** Whether a copy of a terminal session can be continued here. */
  canFork(project: any) {
    const beside = this._besides(project);
    return (
      Boolean(project.session_id) &&
      this.forks(project.agent) &&
      this.may('session_fork') &&
      (beside ? beside.agent === project.agent : this.may('project_create'))
    );
  }

  /** Forks a terminal session. Returns the id of the project that continues the copy. */
  async fork(project: any): Promise<string> {
    const { path, agent, session_id } = project;
    const id =
      this._besides(project)?.id ?? (await this.connection.ask('project_create', { path, agent })).data.data.id;
    await this.connection.ask('session_fork', { session_id }, { project: id });
    return id;
  }

  /** Loads older messages. Returns whether there were any. */
  async older() {
    const conversation = this.conversation;
    if (conversation?.before !== undefined) return this._olderOfSession(conversation);
    if (!conversation?.joined || conversation.first <= (this.projects.all.get(conversation.id)?.first_seq ?? 1))
      return false;
    const { first } = conversation;
    const { data } = await this.command('get_messages', { before_seq: first, limit: PAGE });
    if (conversation.first !== first || conversation.before !== undefined) return false; // the user has jumped
    conversation.prepend(data.messages);
    this._tell('conversation');
    return data.messages.length > 0;
  }

  /** Loads the messages after the loaded ones, if those do not reach the end. Returns whether any were added. While
   * only one session is shown, its end is loaded instead. */
  async newer() {
    const conversation = this.conversation;
    if (!conversation || conversation.atEnd) return false;
    if (conversation.before !== undefined) {
      await this.latest();
      return false;
    }
    const { data } = await this.command('get_messages', { after_seq: conversation.last, limit: PAGE });
    conversation.append(data.messages);
    this._tell('conversation');
    return data.messages.length > 0;
  }

  /** Loads the records around a record. Returns false if the user has opened or jumped to something else in the
   * meantime, or if the conversation was loaded again from its end instead. */
  async around(seq: number): Promise<boolean> {
    const conversation = this.conversation;
    const search = (this._search = {});
    const isWanted = () => this.conversation === conversation && this._search === search;
    const isHere = ({ first, last, atEnd }: Conversation) => first <= seq && (seq <= last || atEnd);
    if (!conversation?.joined || isHere(conversation)) return true;
    if (conversation.before !== undefined && conversation.last < seq) {
      await this._reload(); // the end was dropped when older records were loaded
      return false;
    }
    // An earlier session's records can only be reached page by page.
    const most = conversation.session === undefined ? FAR_BACK : Infinity;
    for (let page = 0; page < most && conversation.before && conversation.first > seq && isWanted(); page++)
      await this._olderOfSession(conversation);
    if (!isWanted() || isHere(conversation) || conversation.session !== undefined) return isWanted();
    // The record is not in this session, or far back, so it is shown in the whole history of the project.
    const { before } = conversation;
    conversation.before = undefined;
    try {
      for (const after_seq of [Math.max(0, seq - PAGE / 2), seq - 1]) {
        const { data } = await this.command('get_messages', { after_seq, limit: PAGE });
        if (!isWanted()) return false;
        conversation.place(data.messages);
        if (conversation.last >= seq) break; // otherwise, large records before this one have filled the message
      }
    } catch (error) {
      if (this.conversation === conversation) {
        conversation.before = before;
        if (before === '') void this._reload().catch(() => {}); // the session's last records were dropped for the jump
      }
      throw error;
    }
    this._tell('conversation');
    return true;
  }

  /** Loads the end of the conversation, if it is not loaded. */
  async latest() {
    this._search = {}; // cancels a jump that is under way
    if (!this.conversation || this.conversation.atEnd) return;
    await this._reload();
  }

  /** Fetches the whole record of a message that was received only as a preview. */
  async whole(blob: string) {
    return JSON.parse(await new Blob([await this.bytes(blob)]).text());
  }

  /** Fetches all bytes of a blob. */
  async bytes(blob: string): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array<ArrayBuffer>[] = [];
    for (let offset = 0, last = false; !last; ) {
      const { data } = await this.connection.ask('blob_get', { blob_id: blob, offset });
      const bytes = Uint8Array.from(atob(data.data), (letter) => letter.charCodeAt(0));
      parts.push(bytes);
      offset += bytes.length;
      last = data.last || !bytes.length;
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  // The methods below are internal.

  /** Loads the conversation again, from its end. */
  async _reload() {
    const { conversation } = this;
    if (!conversation) return;
    this.conversation = new Conversation(conversation.id, conversation.session);
    this._tell('conversation');
    await this._join();
  }

  /** The `session_messages` id of the session that a project's next run continues, or undefined if there isn’t one. */
  async _currentSession({ id, session_id }: any): Promise<string | undefined> {
    if (session_id) return session_id;
    const { data } = await this.connection.ask('sessions', { limit: 20 }, { project: id });
    const current = data.sessions.find((one: any) => one.current);
    if (current) return current.session_id;
    // Before its first run, a fork has only the messages of the session that it was copied from.
    const latest = await this.connection.ask('get_messages', { limit: AFTER_A_FORK }, { project: id });
    const changes = latest.data.messages.filter(({ message }: any) =>
      ['session_changed', 'session_reset'].includes(message?.subtype),
    );
    return changes.at(-1)?.message.message.fork_from;
  }

  /** Requests the last records of a session. */
  _lastOfSession(session: string): Promise<any> {
    return this.command('session_messages', { session_id: session, limit: FIRST_PAGE });
  }

  /** Shows a conversation's last records. Older ones are requested only once these have arrived. */
  async _begin(conversation: Conversation, last: Promise<any>) {
    conversation.before = '';
    const { data } = await last;
    // `before` is undefined if another part of the history was requested in the meantime.
    if (this.conversation !== conversation || conversation.before === undefined) return;
    conversation.prependSession(data.messages, data.before ?? null);
    this._tell('conversation');
    void this._olderOfSession(conversation).catch(() => {});
  }

  /**
   * Loads older messages of the session. Overlapping calls share one request. Returns false if there are none, or if
   * other records were loaded in the meantime.
   */
  async _olderOfSession(conversation: Conversation): Promise<boolean> {
    if (!conversation.before) return false;
    conversation.loading ??= this._pageOfSession(conversation).finally(() => (conversation.loading = undefined));
    return conversation.loading;
  }

  async _pageOfSession(conversation: Conversation) {
    const session = conversation.session ?? conversation.reads;
    // A page may be empty although there are others before it.
    let count = 0;
    while (count === 0 && conversation.before !== null) {
      const { before } = conversation;
      const { data } = await this.command('session_messages', { session_id: session, before, limit: PAGE });
      if (this.conversation !== conversation || conversation.before === undefined) return false;
      count = data.messages.length;
      conversation.prependSession(data.messages, data.before ?? null);
    }
    this._tell('conversation');
    return count > 0;
  }

  get _id() {
    return this.conversation?.id ?? '';
  }

  async _open() {
    const { connection } = this;
    void connection.ask('subscribe', { topics: ['projects', 'approvals'] }).catch(() => {});
    const hello = connection.ask('hello', { client: this._called });
    const list = connection.ask('project_list');
    // On a first visit, the project is joined without waiting for the list, which saves a round trip.
    const { conversation } = this;
    const isFirst = !this.projects.known && conversation && conversation.session === undefined && !conversation.joined;
    const joining = isFirst ? this.command('project_join') : undefined;
    // Nothing awaits these if the token is refused, or if the list does not contain the project.
    for (const one of [list, joining]) one?.catch(() => {});
    this._greeted((await hello).data);
    const { projects } = (await list).data;
    kept.beginSeen(projects);
    kept.prune(projects);
    this._tell('projects');
    await this._join(this.conversation === conversation ? joining : undefined);
  }

  _greeted(hello: any) {
    this.hello = hello;
    this._ids.add(hello.client_id);
    kept.keepConnection(hello.client_id);
    const { name } = hello.device;
    // A device's token has this prefix, but the owner's token does not.
    this.isNamed = this.token.startsWith('drawbridge_');
    this.name = name;
    kept.keepFeatures(hello.features);
    this._tell('hello');
  }

  /**
   * Joins the conversation that is shown, at its cursor or, if it has none, at its end. `requested`: the reply, if the
   * request was already sent.
   */
  async _join(requested?: Promise<any>) {
    let conversation = this.conversation;
    if (!conversation) return;
    const project = this.projects.all.get(conversation.id);
    if (!project) {
      if (this.projects.known) this._tell('gone'); // if the list has not arrived yet, the project is joined once it has
      return;
    }
    if (conversation.session !== undefined) {
      if (conversation.joined) return;
      conversation.join(EARLIER, true);
      try {
        await this._begin(conversation, this._lastOfSession(conversation.session));
      } catch (error) {
        conversation.joined = false; // the conversation is joined again once the connection is back
        throw error;
      }
      return;
    }
    const dropped = (project.first_seq ?? 1) > conversation.cursor + 1;
    const isFresh =
      !conversation.joined ||
      project.last_seq - conversation.cursor > TOO_FAR ||
      project.last_seq < conversation.cursor ||
      dropped;
    if (isFresh && conversation.joined) conversation = this.conversation = new Conversation(conversation.id);
    const readsSessions = this.may('session_messages') && this.may('sessions');
    const joining = requested ?? this.command('project_join', isFresh ? {} : { after_seq: conversation.cursor });
    // If the session is known, its records are requested in parallel, which saves a round trip.
    const known: string | undefined = isFresh && readsSessions && project.last_seq > 0 ? project.session_id : undefined;
    const last = known ? this._lastOfSession(known) : undefined;
    last?.catch(() => {}); // if joining fails, nothing awaits this promise, so its error is ignored
    const { data } = await joining;
    if (this.conversation !== conversation) return;
    conversation.join(data.data, isFresh);
    this._tell('conversation');
    void this._lookBack(conversation, data.data).catch(() => {});
    if (!isFresh) return;
    if (readsSessions) {
      try {
        // Until the session is known, no older records are requested, because they could belong to another session.
        conversation.before = conversation.first > 1 ? '' : null;
        if (conversation.before === null) return;
        const session = await this._currentSession(this.projects.all.get(conversation.id) ?? project);
        if (this.conversation !== conversation || conversation.before === undefined) return;
        conversation.reads = session;
        if (session === undefined) {
          conversation.before = null; // without a session, no older records exist
          this._tell('conversation');
          return;
        }
        await this._begin(conversation, last && session === known ? last : this._lastOfSession(session));
        return;
      } catch (error) {
        if (!(error instanceof RequestError) || error.code === 'OFFLINE') {
          conversation.joined = false; // the conversation is joined from scratch once the connection is back
          throw error;
        }
        conversation.before = undefined; // shows the whole history of the project instead
      }
    }
    if (conversation.first > 1) await this.older();
  }

  /** Shows the new session after the project's session has changed. */
  _sessionChanged({ update_type: what, data }: any, conversation: Conversation) {
    if (conversation.session !== undefined || conversation.before === undefined) return;
    // During a run, this only reports the id of the new session, whose records are already loaded.
    if (what === 'session_changed' && (conversation.run || data.session_id === conversation.reads)) {
      conversation.reads = data.session_id || conversation.reads;
      return;
    }
    // The project's new state arrives later.
    const project = this.projects.all.get(conversation.id);
    if (project) project.session_id = what === 'session_reset' ? data.new_session_id : data.session_id;
    void this._reload().catch(() => {});
  }

  _heard(message: any) {
    const { type, project_id: id, seq, data } = message;
    if (type === 'paired') {
      this.token = data.token;
      kept.keepToken(data.token);
      this._again();
      this._tell('paired');
    }
    const changed = this.projects.take(message);
    this.projects.heard(id, seq);
    if (type === 'accepted') this._accepted(message);
    const conversation = this.conversation;
    if (conversation && id === conversation.id && conversation.session === undefined) {
      const record = recordOf(message);
      if (record) conversation.take(record);
      else if (type === 'agent_message') conversation.hear(data.messages[0]);
      this._follow(message, conversation);
      this._tell('conversation');
    }
    if (changed || seq) this._tell('projects');
    this.dispatchEvent(new CustomEvent('message', { detail: message }));
  }

  _follow({ type, seq, data, request_id }: any, conversation: Conversation) {
    if (type === 'accepted') {
      const sent = this.unsent.find((one) => one.id === request_id);
      if (!sent) return;
      // Servers that support queue_changed have sent it by now, or send it immediately after this.
      if (data.position > 0 && !conversation.queue.some((one) => one.run_id === data.run_id))
        conversation.queue = [
          ...conversation.queue,
          { run_id: data.run_id, position: data.position, prompt: sent.prompt },
        ];
      if (seq === undefined) return;
      const message = {
        type: 'user',
        message: { prompt: sent.prompt },
        run_id: data.run_id,
        steer: sent.steer,
        by: this.name,
        attachments: sent.attachments?.map(({ name }) => name),
        images: data.images,
        files: data.files,
      };
      conversation.take({ seq, timestamp: new Date().toISOString(), direction: 'client', message });
    } else if (type === 'update') {
      conversation.told(data.update_type, data.data);
      this._leaves(data.update_type, data.data);
      if (['session_changed', 'session_reset'].includes(data.update_type)) this._sessionChanged(data, conversation);
    }
    if (type === 'update' && data.update_type === 'project_deleted' && this._removing !== conversation.id)
      this._tell('gone');
  }

  /** Remembers a prompt until its run begins, even if another project is opened or the page is reloaded. */
  _accepted({ data, seq, request_id: id }: any) {
    const one = this.unsent.find((one) => one.id === id);
    if (!one) return;
    const files = one.attachments?.length ? { files: one.attachments.length } : {};
    this._keep(data.run_id, { project: one.project, prompt: one.prompt, seq, ...files });
  }

  _keep(run: string, one: kept.Sent | undefined) {
    if (one) this._sent.set(run, one);
    else this._sent.delete(run);
    kept.keepSent(run, one);
  }

  /** Notes that a prompt has left the queue, because its run has begun or it was removed. */
  _leaves(what: string, { run_id: run, removed_by: by, client_id: id }: any) {
    const sent = what === 'run_started' || what === 'run_finished' ? this._sent.get(run) : undefined;
    if (!sent) return;
    if (!by || this._ids.has(id)) this._keep(run, undefined);
    else if (!this.removed.some((one) => one.run === run)) this.removed = [...this.removed, { run, by, ...sent }];
  }

  /** Dismisses the notice that a prompt was removed. */
  dismiss({ run }: Removed) {
    this.removed = this.removed.filter((one) => one.run !== run);
    this._keep(run, undefined);
    this._tell('conversation');
  }

  /** Finds out what has happened to this browser’s prompts that are no longer in the queue of a project. */
  async _lookBack({ id }: Conversation, { last_seq, run: active, queue }: any) {
    const waiting = new Set([active, ...queue].map((one) => one?.run_id));
    for (const [run, { project, seq = 0 }] of [...this._sent]) {
      if (project !== id || seq > last_seq || waiting.has(run)) continue;
      const isKnown = () => !this._sent.has(run) || this.removed.some((one) => one.run === run);
      for (let after = seq, page = 0; after > 0 && page < FAR_BACK && !isKnown(); page++) {
        const { data } = await this.connection.ask('get_messages', { after_seq: after, limit: PAGE }, { project });
        for (const { direction, message } of data.messages)
          if (direction === 'server' && message.message) this._leaves(message.subtype, message.message);
        after = data.messages.at(-1)?.seq ?? 0;
      }
      if (!isKnown()) this._keep(run, undefined);
      this._tell('conversation');
    }
  }

  /** Resends the prompts that were not confirmed. */
  _again() {
    for (const one of this.unsent) void this._execute(one);
  }

  async _execute(one: Unsent): Promise<boolean> {
    const { prompt, attachments, agent, steer } = one;
    let accepted = true;
    const data = steer
      ? { prompt, attachments, steer }
      : { prompt, attachments, agent, options: { ...one.options, partial_messages: true } };
    try {
      await this.connection.ask('execute', data, { project: one.project, id: one.id, lasting: true });
    } catch (error) {
      if (error instanceof RequestError && error.code === 'OFFLINE') return true;
      accepted = false;
      if (this.conversation?.id !== one.project && !kept.draft(one.project)) kept.keepDraft(one.project, prompt);
      this.dispatchEvent(new CustomEvent('refused', { detail: { prompt, project: one.project, error } }));
    }
    this.unsent = this.unsent.filter((other) => other !== one);
    kept.dropUnsent(one.id);
    this._tell('conversation');
    return accepted;
  }

  /** Returns the field of the request with the changed input. If that is too large for a message, it is uploaded. */
  async _input(input: object) {
    const bytes = new TextEncoder().encode(JSON.stringify(input, whole));
    if (bytes.length < MESSAGE_BYTES) return { updated_input: input };
    return { updated_input_blob: await sendUp(this.connection, bytes) };
  }

  _tell(what: string) {
    this.dispatchEvent(new CustomEvent('change', { detail: what }));
  }
}
