// The page's side of the server: the connection, what was heard by it, and what a person can do.

import { Connection, RequestError, whole } from './connection.js';
import { Conversation, recordOf } from './conversation.js';
import { Projects } from './store.js';
import * as kept from './kept.js';
import { newId, sendUp } from './blobs.js';
import { size } from './dom.js';

/** Records of a page of history. */
const PAGE = 120;

/** Behind by more, a conversation begins anew at its end instead of hearing all of it. */
const TOO_FAR = 1000;

const MESSAGE_BYTES = 900_000;

/** A prompt that the server has not confirmed. @typedef {{id: string, project: string, prompt: string, attachments?: {blob_id: string, media_type: string, name: string}[]}} Unsent */

export class Client extends EventTarget {
  constructor(/** @type {() => any} */ connect) {
    super();
    this.projects = new Projects();
    /** @type {Conversation | undefined} */
    this.conversation = undefined;
    /** @type {any} */
    this.hello = undefined;
    this.name = this._called = kept.clientName();
    /** The owner gave this device its name: it is not for the browser to choose. */
    this.isNamed = false;
    this.connection = new Connection({ connect });
    this.connection.onstate = () => this._tell('connection');
    this.connection.onopen = () => void this._open().catch(() => {});
    this.connection.onmessage = (message) => this._heard(message);
    /** What the server has called the connections of this window. @type {Set<string>} */
    this._ids = new Set();
    /** What this person takes off the list at this moment. @type {string | undefined} */
    this._removing = undefined;
    /** Prompts that the server has not confirmed, the oldest first. @type {Unsent[]} */
    this.unsent = kept.unsent();
  }

  start(/** @type {string} */ token) {
    this.hello = undefined;
    this.name = this._called = kept.clientName();
    this.connection.start(token, this._called);
    this._again();
  }

  /** @param {string} code one that is good once @param {string} name of this device */
  pair(code, name) {
    this.hello = undefined;
    this._called = name;
    this.connection.pair(code, name);
  }

  /** Whether the server takes such a message from this device; as long as nobody knows, it is taken to. */
  may(/** @type {string} */ type) {
    return (this.hello?.features ?? kept.features())?.includes(type) ?? true;
  }

  /** Shows a project; undefined: none. */
  choose(/** @type {string | undefined} */ id) {
    if (this.conversation?.id === id) return;
    if (this.conversation) void this.connection.ask('project_leave', {}, { project: this.conversation.id }).catch(() => {});
    this.conversation = id === undefined ? undefined : new Conversation(id);
    this._tell('conversation');
    if (this.connection.state === 'open') void this._join().catch(() => {});
  }

  // What a person does.

  /** Throws where a picture could not be sent up; then nothing was asked. @param {string} prompt @param {{blob: Blob, name: string}[]} [pictures] */
  async execute(prompt, pictures = []) {
    const project = this._id;
    if (new TextEncoder().encode(JSON.stringify(prompt)).length > MESSAGE_BYTES) throw new Error(`This message is too long: ${size(prompt.length)}. Send a part of it, or name a file.`);
    const attachments = [];
    for (const { blob, name } of pictures) {
      attachments.push({ blob_id: await sendUp(this.connection, new Uint8Array(await blob.arrayBuffer())), media_type: blob.type, name: name.slice(0, 200) });
    }
    const one = { id: newId(), project, prompt, ...(attachments.length && { attachments }) };
    this.unsent.push(one);
    kept.keepUnsent(this.unsent);
    this._tell('conversation');
    await this._execute(one);
  }

  /** One answer to an open question. @param {any} request @param {{allow: boolean, message?: string, input?: object, remember?: boolean}} answer */
  async answer({ approval_id }, { allow, message, input, remember }) {
    const project = this._id; // a long one takes a while to be sent up, and the person may be elsewhere then
    const given = input && (await this._input(input));
    const data = { approval_id, decision: allow ? 'allow' : 'deny', message: message || undefined, remember: remember || undefined, ...given };
    try {
      await this.connection.ask('permission_response', data, { project, lasting: true });
    } catch (error) {
      // After a break it is said again: then the first answer may have been this very one.
      const details = error instanceof RequestError && error.code === 'APPROVAL_RESOLVED' ? error.details : undefined;
      if (!this.isMine(details) || details?.decision !== data.decision) throw error;
    }
  }

  /** Whether an approval was answered from this window. Another one may have the same name. @param {any} answer */
  isMine(answer) {
    return Boolean(answer?.client_id && this._ids.has(answer.client_id) && answer.by === this.name);
  }

  /** Who gave an answer that is not from this window. @param {any} answer */
  called({ by }) {
    return by === this.name ? `Another window (${by})` : by;
  }

  /** A command about the project that is shown. @param {string} type @param {object} [data] */
  command(type, data) {
    return this.connection.ask(type, data, { project: this._id });
  }

  /** Takes a project off the list, or a session. */
  async remove(/** @type {string} */ id) {
    this._removing = id;
    try {
      await this.connection.ask('project_delete', {}, { project: id });
    } finally {
      this._removing = undefined;
    }
  }

  /** A project of the same directory, where there is one. @param {any} project */
  _besides({ path }) {
    return [...this.projects.all.values()].find((one) => !one.desk && one.path === path);
  }

  /** Whether a session of the desk can go on as a copy here. @param {any} project */
  canFork(project) {
    return Boolean(project.session_id) && this.may('session_fork') && (this.may('project_create') || Boolean(this._besides(project)));
  }

  /** The project in which it does. @param {any} project @returns {Promise<string>} */
  async fork(project) {
    const { path, agent, session_id } = project;
    const id = this._besides(project)?.id ?? (await this.connection.ask('project_create', { path, agent })).data.data.id;
    await this.connection.ask('session_fork', { session_id }, { project: id });
    return id;
  }

  /** Older messages; whether there were any. */
  async older() {
    const conversation = this.conversation;
    if (!conversation?.joined || conversation.first <= (this.projects.all.get(conversation.id)?.first_seq ?? 1)) return false;
    const { data } = await this.command('get_messages', { before_seq: conversation.first, limit: PAGE });
    conversation.prepend(data.messages);
    this._tell('conversation');
    return data.messages.length > 0;
  }

  /** Messages behind those that are here, where the end was let go. */
  async newer() {
    const conversation = this.conversation;
    if (!conversation || conversation.atEnd) return false;
    const { data } = await this.command('get_messages', { after_seq: conversation.last, limit: PAGE });
    conversation.append(data.messages);
    this._tell('conversation');
    return data.messages.length > 0;
  }

  /** The end of the conversation, wherever one was before. */
  async latest() {
    if (!this.conversation || this.conversation.atEnd) return;
    this.conversation = new Conversation(this.conversation.id);
    await this._join();
  }

  /** The whole record of a message of which a preview came. */
  async whole(/** @type {string} */ blob) {
    const parts = [];
    for (let offset = 0, last = false; !last; ) {
      const { data } = await this.connection.ask('blob_get', { blob_id: blob, offset });
      const bytes = Uint8Array.from(atob(data.data), (letter) => letter.charCodeAt(0));
      parts.push(bytes);
      offset += bytes.length;
      last = data.last || !bytes.length;
    }
    return JSON.parse(await new Blob(parts).text());
  }

  // Inside.

  get _id() {
    return this.conversation?.id ?? '';
  }

  async _open() {
    const { connection } = this;
    void connection.ask('subscribe', { topics: ['projects', 'approvals'] }).catch(() => {});
    const hello = connection.ask('hello', { client: this._called });
    const list = connection.ask('project_list');
    this._greeted((await hello).data);
    kept.beginSeen((await list).data.projects);
    this._tell('projects');
    await this._join();
  }

  /** @param {any} hello */
  _greeted(hello) {
    this.hello = hello;
    this._ids.add(hello.client_id);
    const { name } = hello.device;
    // The owner's own token has no name in front.
    this.isNamed = kept.token().startsWith('drawbridge_');
    this.name = name;
    kept.keepFeatures(hello.features);
    this._tell('hello');
  }

  /** Comes back to where it was, or begins at the end. */
  async _join() {
    let conversation = this.conversation;
    if (!conversation) return;
    const project = this.projects.all.get(conversation.id);
    if (!project) {
      if (this.projects.known) this._tell('gone'); // else it is joined when the list has come
      return;
    }
    const dropped = (project.first_seq ?? 1) > conversation.cursor + 1;
    const anew = !conversation.joined || project.last_seq - conversation.cursor > TOO_FAR || project.last_seq < conversation.cursor || dropped;
    if (anew && conversation.joined) conversation = this.conversation = new Conversation(conversation.id);
    const { data } = await this.command('project_join', anew ? {} : { after_seq: conversation.cursor });
    if (this.conversation !== conversation) return;
    conversation.join(data.data, anew);
    this._tell('conversation');
    if (anew && conversation.first > 1) await this.older();
  }

  /** @param {any} message */
  _heard(message) {
    const { type, project_id: id, seq, data } = message;
    if (type === 'paired') {
      kept.keepToken(data.token);
      this._again();
      this._tell('paired');
    }
    const changed = this.projects.take(message);
    this.projects.heard(id, seq);
    const conversation = this.conversation;
    if (conversation && id === conversation.id) {
      const record = recordOf(message);
      if (record) conversation.take(record);
      else if (type === 'agent_message') conversation.hear(data.messages[0]);
      this._follow(message, conversation);
      this._tell('conversation');
    }
    if (changed || seq) this._tell('projects');
    this.dispatchEvent(new CustomEvent('message', { detail: message }));
  }

  /** @param {any} message @param {Conversation} conversation */
  _follow({ type, seq, data, request_id }, conversation) {
    if (type === 'accepted') {
      const sent = this.unsent.find((one) => one.id === request_id);
      if (!sent) return;
      if (data.position > 0) conversation.queue = [...conversation.queue, { run_id: data.run_id, position: data.position, prompt: sent.prompt }];
      if (seq === undefined) return;
      const message = { type: 'user', message: { prompt: sent.prompt }, by: this.name, attachments: sent.attachments?.map(({ name }) => name) };
      conversation.take({ seq, timestamp: new Date().toISOString(), direction: 'client', message });
    } else if (type === 'update' && data.update_type === 'project_deleted' && this._removing !== conversation.id) this._tell('gone');
  }

  /** What was not confirmed before. */
  _again() {
    for (const one of this.unsent) void this._execute(one);
  }

  /** @param {Unsent} one */
  async _execute(one) {
    const data = { prompt: one.prompt, options: { partial_messages: true }, attachments: one.attachments };
    try {
      await this.connection.ask('execute', data, { project: one.project, id: one.id, lasting: true });
    } catch (error) {
      if (error instanceof RequestError && error.code === 'OFFLINE') return;
      if (this.conversation?.id !== one.project && !kept.draft(one.project)) kept.keepDraft(one.project, one.prompt);
      this.dispatchEvent(new CustomEvent('refused', { detail: { prompt: one.prompt, project: one.project, error } }));
    }
    this.unsent = this.unsent.filter((other) => other !== one);
    kept.keepUnsent(this.unsent);
    this._tell('conversation');
  }

  /** `updated_input`, in pieces before it where it is too large for a message. */
  async _input(/** @type {object} */ input) {
    const bytes = new TextEncoder().encode(JSON.stringify(input, whole));
    if (bytes.length < MESSAGE_BYTES) return { updated_input: input };
    return { updated_input_blob: await sendUp(this.connection, bytes) };
  }

  _tell(/** @type {string} */ what) {
    this.dispatchEvent(new CustomEvent('change', { detail: what }));
  }
}
