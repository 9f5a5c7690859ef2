// What is known of one project's conversation: made from records and live messages, by nothing else. Pure.
//
// `items` are what a person sees, ordered by `seq`. It holds a part of the history without gaps; the older part is put
// before it by `prepend`, and what is far from the reader is let go. `cursor` is the place up to which everything was heard.

/** Items kept in memory, at most. */
export const KEPT = 3000;

/**
 * @typedef {{seq: number, timestamp: string, direction: string, message: any, truncated?: {blob_id: string, bytes: number}}} Record
 * @typedef {{key: string, seq: number, kind: string, version: number, [more: string]: any}} Item
 */
export class Conversation {
  /** @param {string} id the project's */
  constructor(id) {
    this.id = id;
    this.joined = false;
    this.cursor = 0;
    /** The lowest `seq` that is here; 1: there is nothing before it. */
    this.first = 1;
    /** The highest `seq` that `items` has; below `cursor` where the end was let go. */
    this.last = 0;
    /** @type {Item[]} */
    this.items = [];
    /** Open approvals by id, as the server says them. @type {Map<string, any>} */
    this.open = new Map();
    /** @type {any} */
    this.run = null;
    /** @type {any[]} */
    this.queue = [];
    this.live = '';
    this.thinking = false;
    /** @type {Map<number, Record>} */
    this._early = new Map();
    /** @type {Map<string, Item>} */
    this._tools = new Map();
    /** @type {Map<string, any>} */
    this._results = new Map();
    /** @type {Map<string, Item>} */
    this._questions = new Map();
    /** @type {Map<string, any>} */
    this._answers = new Map();
    this._snapshot = 0;
  }

  get atEnd() {
    return this.last >= this.cursor;
  }

  /** Whether the oldest record that the server has is here, and there were others before it. @param {any} project */
  beginsLate(project) {
    const kept = project?.first_seq ?? 1;
    return kept > 1 && this.first <= kept;
  }

  /** How an approval was settled, as far as that was heard. @param {string} id */
  answerTo(id) {
    return this._answers.get(id);
  }

  /** The snapshot of `project_joined`. */
  join(/** @type {any} */ snapshot, /** @type {boolean} */ anew) {
    if (anew) {
      this.cursor = this.last = snapshot.last_seq;
      this.first = snapshot.last_seq + 1;
      this.items = [];
    }
    this.joined = true;
    this._snapshot = snapshot.last_seq;
    this.run = snapshot.run;
    this.queue = snapshot.queue;
    this.open = new Map(snapshot.open_approvals.map((/** @type {any} */ one) => [one.approval_id, one]));
    this.live = '';
    this._drain();
  }

  /** A live record. One that came already changes nothing; one that came early waits for those before it. */
  take(/** @type {Record} */ record) {
    if (record.seq <= this.cursor) return;
    this._early.set(record.seq, record);
    if (this.joined) this._drain();
  }

  /** Partial text: what is being said and not yet kept. */
  hear(/** @type {any} */ line) {
    if (line.type !== 'stream_event' || line.parent_tool_use_id) return;
    const { type, content_block: block, delta } = line.event;
    if (type === 'content_block_start') {
      this.live = block?.type === 'text' ? (block.text ?? '') : '';
      this.thinking = block?.type === 'thinking';
    } else if (type === 'content_block_delta' && delta?.type === 'text_delta') this.live += delta.text;
  }

  /** Older records, in their order, the last of them right before `first`. */
  prepend(/** @type {Record[]} */ records) {
    const older = records.filter((record) => record.seq < this.first);
    if (!older.length) return;
    const behind = this.items;
    this.items = [];
    for (const record of older) this._show(record);
    this.items = [...this.items, ...behind];
    this.first = older[0].seq;
    if (this.items.length > KEPT) {
      // Whole records only: what one of them shows comes and goes together.
      const cut = this.items[KEPT].seq;
      this._forget(this.items.splice(this.items.findIndex((item) => item.seq === cut)));
      this.last = cut - 1;
    }
  }

  /** Records behind `last`, where the end was let go. */
  append(/** @type {Record[]} */ records) {
    for (const record of records) {
      if (record.seq !== this.last + 1) continue;
      this._show(record);
      this.last = record.seq;
    }
    this._shorten();
  }

  _drain() {
    for (const seq of this._early.keys()) if (seq <= this.cursor) this._early.delete(seq);
    for (let record; (record = this._early.get(this.cursor + 1)); ) {
      this._early.delete(record.seq);
      const shown = this.atEnd;
      this.cursor = record.seq;
      this._follow(record);
      if (shown) {
        this._show(record);
        this.last = record.seq;
      }
    }
    this._shorten();
  }

  _shorten() {
    if (this.items.length <= KEPT) return;
    const first = this.items[this.items.length - (KEPT * 3) / 4].seq;
    this._forget(this.items.splice(0, this.items.findIndex((item) => item.seq === first)));
    this.first = first;
  }

  _forget(/** @type {Item[]} */ items) {
    for (const item of items) {
      if (item.kind === 'tool') this._tools.delete(item.id);
      if (item.kind === 'question') this._questions.delete(item.request.approval_id);
    }
  }

  /** What a record changes in the state of things. What happened before the snapshot is in the snapshot. */
  _follow(/** @type {Record} */ { seq, direction, message }) {
    if (direction === 'claude' && !message.parent_tool_use_id && ['assistant', 'result'].includes(message.type)) {
      this.live = '';
      this.thinking = false;
    }
    if (direction !== 'server' || seq <= this._snapshot) return;
    const { subtype, message: data } = message;
    if (subtype === 'permission_request') this.open.set(data.approval_id, data);
    else if (subtype === 'permission_resolved' || subtype === 'permission_withdrawn') {
      this.open.delete(data.approval_id);
      this._answers.set(data.approval_id, data);
    } else if (subtype === 'run_started') {
      this.run = { run_id: data.run_id, started_at: new Date().toISOString() };
      this.queue = this.queue.filter((one) => one.run_id !== data.run_id);
    } else if (subtype === 'run_finished') {
      if (!this.run || this.run.run_id === data.run_id) this.run = null;
      this.queue = this.queue.filter((one) => one.run_id !== data.run_id);
      this.live = '';
    }
  }

  _add(/** @type {Record} */ record, /** @type {string} */ kind, /** @type {object} */ more) {
    const { seq, timestamp, truncated } = record;
    const item = { key: `${seq}.${this.items.length}`, seq, timestamp, truncated, kind, version: 0, ...more };
    this.items.push(item);
    return item;
  }

  /** What a person sees of a record. */
  _show(/** @type {Record} */ record) {
    const { direction, message } = record;
    if (direction === 'client') this._add(record, 'prompt', { text: message?.message?.prompt ?? '', by: message?.by, attachments: message?.attachments });
    else if (direction === 'server') this._showEvent(record);
    else if (message?.type === 'assistant' || message?.type === 'user') this._showBlocks(record);
    else if (message?.type !== 'system' && message?.type !== 'result' && message?.preview) this._add(record, 'text', { text: message.preview });
  }

  _showBlocks(/** @type {Record} */ record) {
    const { message } = record;
    const content = message.message?.content;
    const blocks = typeof content === 'string' ? [{ type: 'text', text: content }] : Array.isArray(content) ? content : [];
    for (const block of blocks) {
      const nested = Boolean(message.parent_tool_use_id);
      if (block?.type === 'text' && block.text) this._add(record, message.type === 'user' ? 'aside' : 'text', { text: block.text, nested });
      else if (block?.type === 'tool_use') {
        const result = this._results.get(block.id);
        this._results.delete(block.id);
        this._tools.set(block.id, this._add(record, 'tool', { id: block.id, name: block.name, input: block.input ?? {}, result, nested }));
      } else if (block?.type === 'tool_result') {
        const result = { text: resultText(block.content), error: Boolean(block.is_error), truncated: record.truncated };
        const tool = this._tools.get(block.tool_use_id);
        if (tool) {
          tool.result = result;
          tool.version++;
        } else this._results.set(block.tool_use_id, result);
      }
    }
  }

  _showEvent(/** @type {Record} */ record) {
    const { subtype, message: data } = record.message ?? {};
    if (subtype === 'permission_request') {
      const answer = this._answers.get(data.approval_id);
      this._questions.set(data.approval_id, this._add(record, 'question', { request: data, answer }));
    } else if (subtype === 'permission_resolved' || subtype === 'permission_withdrawn') {
      this._answers.set(data.approval_id, data);
      const question = this._questions.get(data.approval_id);
      if (question) {
        question.answer = data;
        question.version++;
      }
    } else if (subtype === 'run_finished') {
      this._add(record, 'finished', data);
    } else if (subtype === 'run_reverted') {
      const count = data.files?.length ?? 0;
      this._add(record, 'notice', { text: `${data.by} took back what a run had changed in ${count} file${count === 1 ? '' : 's'}` });
    } else if (subtype === 'session_reset') this._add(record, 'notice', { text: 'A new session begins here' });
    else if (subtype === 'session_changed' && data.fork_from) this._add(record, 'notice', { text: 'Continues a copy of an earlier session. Its messages are not shown here' });
  }
}

/** The text in a tool's result, whichever shape it has. */
export function resultText(/** @type {any} */ content) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (part?.type === 'text' ? part.text : `[${part?.type ?? 'something'}]`)).join('\n');
}

/** A message of the server as a record of the history; undefined where it is none. */
export function recordOf(/** @type {any} */ { type, seq, data }) {
  if (seq === undefined) return undefined;
  const timestamp = data.timestamp ?? data.created_at ?? new Date().toISOString();
  if (type === 'agent_message') return { seq, timestamp, direction: data.direction, message: data.messages[0], truncated: data.truncated };
  if (type === 'permission_request') return event(seq, timestamp, type, data);
  if (type === 'update') return event(seq, timestamp, data.update_type, data.data);
  return undefined;
}

const event = (/** @type {number} */ seq, /** @type {string} */ timestamp, /** @type {string} */ subtype, /** @type {any} */ message) => ({
  seq,
  timestamp,
  direction: 'server',
  message: { type: 'system', subtype, message },
  truncated: message.truncated,
});
