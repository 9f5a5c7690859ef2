// The state of one project's conversation, built only from records and live messages. Pure.
//
// `items` are what the user sees, ordered by `seq`: a part of the history without gaps. `prepend` adds older items
// before them, and items that are far from the reader are dropped. `cursor` is the `seq` up to which everything was
// received.

import type { AgentOffers, AgentState, ReviewInterrupted, RunInfo } from '../protocol/messages.ts';
import { counted } from '../ui/dom.ts';

/** The maximum number of items that are kept in memory. */
export const KEPT = 3000;

/** The beginning of the summary from which an agent continues a conversation that has become too long. */
const COMPACTED = 'This session is being continued from a previous conversation';

/**
 * Like `KEPT`, for the items of one session. It is higher because the records of a session are not consecutive: a
 * dropped end can't be requested by number, so the whole conversation has to be loaded again.
 */
const KEPT_OF_SESSION = 4 * KEPT;

/** The difference between the `seq` of adjacent records that have no number from the server. */
const BETWEEN = 1e-6;

export type Record = {
  seq: number;
  timestamp: string;
  direction: string;
  message: any;
  truncated?: { blob_id: string; bytes: number };
};
export type Item = { key: string; seq: number; kind: string; version: number; [more: string]: any };
export class Conversation {
  id: string;
  session: string | undefined;
  joined: boolean;
  cursor: number;
  first: number;
  last: number;
  items: Item[];
  open: Map<string, any>;
  run: any;
  queue: RunInfo[];
  agent: AgentState;
  offers: AgentOffers;
  live: string;
  thinking: boolean;
  _early: Map<number, Record>;
  _tools: Map<string, Item>;
  _results: Map<string, any>;
  _questions: Map<string, Item>;
  _answers: Map<string, any>;
  _snapshot: number;
  _prompts: Map<string, Record>;
  _edits: Map<string, Record>;
  _begun: Map<string, number>;
  _accepted: Map<string, RunInfo>;

  /**
   * Where `session_messages` continues. Empty until the session's last records have arrived, null if there is nothing
   * before, and undefined while the whole history of the project is shown.
   */
  before: string | null | undefined;
  /** Set while older records are requested with `session_messages`. */
  loading: Promise<boolean> | undefined;
  /** The id of the session whose records are read, if the project's current session is shown. */
  reads: string | undefined;

  /**
   * @param id the project's id
   * @param session the id of an earlier session, which the project's next run does not continue, or undefined for the
   *   current session or the whole history
   */
  constructor(id: string, session?: string) {
    this.id = id;
    this.session = session;
    this.joined = false;
    this.cursor = 0;
    /** The lowest `seq` that is loaded, which is above `last` if nothing is loaded. */
    this.first = 1;
    /** The highest `seq` that is loaded, which is below `cursor` if the end was dropped. */
    this.last = 0;
    this.items = [];
    /** Open approval requests by id, as the server sends them. */
    this.open = new Map();
    this.run = null;
    this.queue = [];
    /** What the agent reports about itself. `offers`: what it offers. Empty if the server or agent reports nothing. */
    this.agent = {};
    this.offers = {};
    this.live = '';
    this.thinking = false;
    this._early = new Map();
    this._tools = new Map();
    this._results = new Map();
    this._questions = new Map();
    this._answers = new Map();
    this._snapshot = 0;
    /** The records of prompts, and of their edits in the queue, by run id. */
    this._prompts = new Map();
    this._edits = new Map();
    /** The `seq` at which a run began, or ended without having begun, by run id. Infinite if its prompt was removed. */
    this._begun = new Map();
    /** Prompts that were accepted since `join` and whose runs have not begun, by run id. Some may be in `queue`. */
    this._accepted = new Map();
  }

  /** All prompts whose runs have not begun, the next one first. */
  get waiting(): RunInfo[] {
    const queued = this.queue.filter((one) => one.position > 0);
    const ids = new Set(queued.map((one) => one.run_id));
    const { run } = this;
    const next = run && !run.started_at && run.prompt !== undefined ? [{ ...run, position: 0 }] : [];
    for (const one of next) ids.add(one.run_id);
    const others = [...this._accepted.values()].filter((one) => !ids.has(one.run_id) && one.run_id !== run?.run_id);
    return [...next, ...others, ...queued];
  }

  /** Applies an update that is not in the history. */
  told(what: string, data: any) {
    if (what === 'queue_changed') this.queue = data.queue;
    else if (what === 'agent_state') this.agent = data;
    else if (what === 'agent_offers') this.offers = data;
  }

  get atEnd() {
    return this.last >= this.cursor;
  }

  /** Where a record is shown. A prompt that has waited is shown where its run began. */
  placeOf(seq: number): number {
    return this.items.find((item) => item.record === seq)?.seq ?? seq;
  }

  /** Whether the oldest record that the server has is loaded, and there were others before it. */
  beginsLate(project: any) {
    const kept = project?.first_seq ?? 1;
    return kept > 1 && this.first <= kept;
  }

  /** How an approval request was resolved, or why it was withdrawn. Undefined if that was not received. */
  answerTo(id: string) {
    return this._answers.get(id);
  }

  /** The item of an approval request, if it is loaded: its `request`, and its `answer` once it has one. */
  questionOf(id: string) {
    return this._questions.get(id);
  }

  /** Applies the snapshot of `project_joined`. */
  join(snapshot: any, isFresh: boolean) {
    if (isFresh) {
      this.cursor = this.last = snapshot.last_seq;
      this.first = snapshot.last_seq + 1;
      this.items = [];
    }
    this.joined = true;
    this._snapshot = snapshot.last_seq;
    this.run = snapshot.run;
    this.queue = snapshot.queue;
    this.agent = snapshot.agent_state ?? {};
    this.offers = snapshot.agent_offers ?? {};
    this._accepted.clear();
    this.open = new Map(snapshot.open_approvals.map((one: any) => [one.approval_id, one]));
    this.live = '';
    this._drain();
  }

  /** Adds a live record. A record that was already received changes nothing. An early one waits for those before it. */
  take(record: Record) {
    if (record.seq <= this.cursor) return;
    this._early.set(record.seq, record);
    if (this.joined) this._drain();
  }

  /** Adds partial text, which is being streamed and is not in the history yet. */
  hear(line: any) {
    if (line.type !== 'stream_event' || line.parent_tool_use_id) return;
    const { type, content_block: block, delta } = line.event;
    if (type === 'content_block_start') {
      this.live = block?.type === 'text' ? (block.text ?? '') : '';
      this.thinking = block?.type === 'thinking';
    } else if (type === 'content_block_delta' && delta?.type === 'text_delta') this.live += delta.text;
  }

  /**
   * Adds the records of a session before the loaded ones. Records that only the agent stored have the `seq` 0, so they
   * get their own `seq` between the numbers of their neighbors.
   */
  prependSession(records: Record[], before: string | null) {
    this.before = before;
    let next = this.first;
    const placed = records
      .reverse()
      .map((record) => {
        next = record.seq > 0 ? record.seq : next - BETWEEN;
        return record.seq > 0 ? record : { ...record, seq: next };
      })
      .reverse();
    this.prepend(placed, KEPT_OF_SESSION);
  }

  /** Adds older records, in order, the last of them right before `first`. */
  prepend(records: Record[], most = KEPT) {
    const older = records.filter((record) => record.seq < this.first);
    if (!older.length) return;
    const behind = this.items;
    this.items = [];
    for (const record of older) this._begins(record);
    for (const record of older) this._show(record, behind);
    this.items = [...this.items, ...behind];
    this.first = older[0].seq;
    if (this.items.length > most) {
      // Only whole records are dropped, so that the items of a record stay together.
      const cut = this.items[most].seq;
      this._forget(this.items.splice(this.items.findIndex((item) => item.seq === cut)));
      this.last = cut - 1;
    }
  }

  /** Adds the records after `last`, if the end was dropped. */
  append(records: Record[]) {
    for (const record of records) this._begins(record);
    for (const record of records) {
      if (record.seq !== this.last + 1) continue;
      this._show(record);
      this.last = record.seq;
    }
    this._shorten();
  }

  /** Replaces the loaded records with records from another part of the history, in order. */
  place(records: Record[]) {
    if (!records.length) return;
    this.items = [];
    this._tools.clear();
    this._results.clear();
    this._questions.clear();
    for (const record of records) this._show(record);
    this.first = records[0].seq;
    this.last = records[records.length - 1].seq;
  }

  _drain() {
    for (const seq of this._early.keys()) if (seq <= this.cursor) this._early.delete(seq);
    for (let record; (record = this._early.get(this.cursor + 1)); ) {
      this._early.delete(record.seq);
      const shown = this.atEnd;
      this.cursor = record.seq;
      this._begins(record);
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
    this._forget(
      this.items.splice(
        0,
        this.items.findIndex((item) => item.seq === first),
      ),
    );
    this.first = first;
  }

  _forget(items: Item[]) {
    for (const item of items) {
      if (item.kind === 'tool') this._tools.delete(item.id);
      if (item.kind === 'question') this._questions.delete(item.request.approval_id);
    }
  }

  /** Updates the state with a record. The snapshot already reflects all records from before it. */
  _follow(record: Record) {
    const { seq, direction, message } = record;
    if (direction === 'claude' && !message.parent_tool_use_id && ['assistant', 'result'].includes(message.type)) {
      this.live = '';
      this.thinking = false;
    }
    if (seq <= this._snapshot) return;
    if (direction === 'client' && this._waits(record))
      this._accepted.set(message.run_id, { run_id: message.run_id, position: 0, prompt: promptOf(message) });
    if (direction !== 'server') return;
    const { subtype, message: data } = message;
    if (subtype === 'permission_request') this.open.set(data.approval_id, data);
    else if (subtype === 'permission_resolved' || subtype === 'permission_withdrawn') {
      this.open.delete(data.approval_id);
      this._answers.set(data.approval_id, data);
    } else if (subtype === 'run_started') {
      this.run = { run_id: data.run_id, started_at: new Date().toISOString() };
      this._left(data.run_id);
    } else if (subtype === 'run_finished') {
      if (!this.run || this.run.run_id === data.run_id) this.run = null;
      this._left(data.run_id);
      this.live = '';
    }
  }

  /** Notes that a run is no longer waiting. */
  _left(run: string) {
    this.queue = this.queue.filter((one) => one.run_id !== run);
    this._accepted.delete(run);
  }

  /**
   * Remembers where a run began, because its prompt is shown there. A prompt that was removed before its run is not
   * shown.
   */
  _begins(record: Record) {
    const { seq, direction, message } = record;
    const data = message?.message;
    if (direction !== 'server' || typeof data?.run_id !== 'string') return;
    if (message.subtype === 'prompt_edited') this._edits.set(data.run_id, record);
    if (message.subtype === 'run_started') this._begun.set(data.run_id, seq);
    else if (message.subtype === 'run_finished' && !this._begun.has(data.run_id))
      this._begun.set(data.run_id, data.removed_by ? Number.POSITIVE_INFINITY : seq);
  }

  /** Whether a prompt is shown only when its run begins. */
  _waits({ seq, message }: Record) {
    const run = message?.run_id;
    if (typeof run !== 'string' || message.steer || this._begun.has(run)) return false;
    return seq > this._snapshot || this.waiting.some((one) => one.run_id === run);
  }

  /** Shows a prompt where its run begins, after the answers to earlier prompts.
   * @param behind the items after those that are being added */
  _showPrompt(record: Record, behind: Item[]) {
    const run = record.message?.run_id;
    if (typeof run === 'string' && !record.message.steer) this._prompts.set(run, record);
    if (this._waits(record)) return;
    const begun = record.message?.steer ? undefined : this._begun.get(run);
    if (begun === undefined || begun <= record.seq) this._addPrompt(record, record.seq);
    else if (begun >= this.first && begun <= this.last && !behind.some((item) => item.run === run)) {
      const items = this.items;
      this.items = [];
      this._addPrompt(record, begun);
      const at = behind.findIndex((item) => item.seq > begun);
      behind.splice(at < 0 ? behind.length : at, 0, ...this.items);
      this.items = items;
    }
  }

  _addPrompt(record: Record, seq: number) {
    const { message } = record;
    const edit = this._edits.get(message?.run_id);
    this._add({ ...record, truncated: edit ? edit.truncated : record.truncated, seq }, 'prompt', {
      text: edit ? promptOf(edit.message) : promptOf(message),
      by: message?.by,
      client_id: message?.client_id,
      attachments: message?.attachments,
      files: message?.files,
      images: message?.images,
      steer: Boolean(message?.steer),
      run: message?.run_id,
      record: record.seq,
      key: `${seq}.prompt`,
    });
  }

  /** Shows the prompt of a run that begins with this record, if the prompt was recorded earlier. */
  _showPromptOf(run: string, seq: number) {
    const prompt = this._prompts.get(run);
    if (prompt && prompt.seq < seq && this._begun.get(run) === seq) this._addPrompt(prompt, seq);
  }

  /**
   * Drops the last item if the end of the run repeats it, as with the agent's error, or the note that it was stopped.
   */
  _dropRepeated({ error, outcome }: { error?: unknown; outcome?: unknown }) {
    const last = this.items[this.items.length - 1];
    const plain = (text: string) => text.trim().replace(/[.!]+$/, '');
    const said = last?.kind === 'text' ? plain(last.text) : '';
    // The server's error may have a cause before the agent's own words, and advice after them.
    const isInside = (text: string) => [`: ${said}.`, `: ${said}!`].some((part) => `${text}.`.includes(part));
    const isError = typeof error === 'string' && said !== '' && (said === plain(error) || isInside(error));
    const isStop = outcome === 'interrupted' && last?.kind === 'aside' && !last.nested && isInterruption(last.text);
    if (isError || isStop) this.items.pop();
  }

  _add(record: Record, kind: string, more: object) {
    const { seq, timestamp, truncated } = record;
    const item = { key: `${seq}.${this.items.length}`, seq, timestamp, truncated, kind, version: 0, ...more };
    this.items.push(item);
    return item;
  }

  /** Adds what the user sees of a record. */
  _show(record: Record, behind: Item[] = []) {
    const { direction, message } = record;
    if (direction === 'client') this._showPrompt(record, behind);
    else if (direction === 'server') this._showEvent(record);
    else if (message?.type === 'assistant' || message?.type === 'user') this._showBlocks(record);
    else if (message?.type === 'system') this._showReport(record);
    else if (message?.type !== 'result' && message?.preview) this._add(record, 'text', { text: message.preview });
  }

  _showBlocks(record: Record) {
    const { message } = record;
    const content = message.message?.content;
    const blocks =
      typeof content === 'string' ? [{ type: 'text', text: content }] : Array.isArray(content) ? content : [];
    const parent = message.parent_tool_use_id || undefined;
    const more = { nested: Boolean(parent), parent };
    const first = String(blocks[0]?.text ?? '');
    if (message.type === 'user' && (message.isCompactSummary || first.startsWith(COMPACTED))) {
      this._add(record, 'summary', { text: blocks.map((block) => block?.text ?? '').join('\n\n'), ...more });
      return;
    }
    for (const block of blocks) {
      if (block?.type === 'text' && block.text)
        this._add(record, message.type === 'user' ? 'aside' : 'text', { text: block.text, ...more });
      else if (block?.type === 'thinking' && block.thinking)
        this._add(record, 'thinking', { text: String(block.thinking), ...more });
      else if (block?.type === 'image' && imageOf(block))
        this._add(record, 'images', { images: [imageOf(block)], ...more });
      else if (block?.type === 'tool_use') {
        const { id, name, input = {} } = block;
        const known = this._tools.get(id);
        if (known && !known.result) {
          // The agent has completed its call, for example with an input that was not known when the call began.
          Object.assign(known, { name, input });
          known.version++;
          continue;
        }
        const result = this._results.get(id);
        this._results.delete(id);
        this._tools.set(id, this._add(record, 'tool', { id, name, input, result, ...more }));
      } else if (block?.type === 'tool_result') {
        const images = Array.isArray(block.content) ? block.content.map(imageOf).filter(Boolean) : [];
        const result = {
          seq: record.seq,
          text: resultText(block.content),
          images,
          error: Boolean(block.is_error),
          truncated: record.truncated,
          patch: message.tool_use_result?.structuredPatch,
          denied: isDenied(message, block.tool_use_id),
          answers: message.tool_use_result?.answers,
        };
        const tool = this._tools.get(block.tool_use_id);
        if (tool) {
          tool.result = result;
          tool.version++;
        } else this._results.set(block.tool_use_id, result);
      }
    }
  }

  /** Shows what the agent reports about itself, if it belongs in the history: tasks, and compactions. */
  _showReport(record: Record) {
    const { message } = record;
    const { subtype, tool_use_id: id, compact_metadata: compacted } = message;
    if (subtype === 'compact_boundary') {
      const [before, after] = [compacted?.pre_tokens, compacted?.post_tokens].map(thousands);
      const sizes = before && after ? ` (${before} to ${after} tokens)` : before ? ` (from ${before} tokens)` : '';
      this._add(record, 'notice', { text: `Conversation compacted${sizes}` });
      return;
    }
    const status =
      subtype === 'task_started'
        ? 'running'
        : subtype === 'task_notification'
          ? (message.status ?? 'completed')
          : undefined;
    if (!status) return;
    const tool = this._tools.get(id);
    const text = String((status === 'running' ? message.description : message.summary) ?? '');
    if (tool) {
      // A subagent that the agent waits for is also a task, but only a background task gets its own line.
      tool.task = { ...tool.task, status, text };
      tool.version++;
    } else if (status !== 'running' && text) this._add(record, 'notice', { text });
  }

  _showEvent(record: Record) {
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
    } else if (subtype === 'run_started') {
      this._showPromptOf(data.run_id, record.seq);
    } else if (subtype === 'run_finished' && data.removed_by) {
      const prompt = this._edits.get(data.run_id) ?? this._prompts.get(data.run_id);
      const words = prompt && promptOf(prompt.message).trim().split('\n')[0].slice(0, 80);
      this._add(record, 'notice', {
        by: data.removed_by,
        client_id: data.client_id,
        text: `removed a queued message${words ? `: “${words}”` : ''}`,
      });
    } else if (subtype === 'run_finished') {
      this._showPromptOf(data.run_id, record.seq);
      this._dropRepeated(data);
      this._add(record, 'finished', data);
    } else if (subtype === 'run_reverted') {
      const count = data.files?.length ?? 0;
      const files = counted(count, 'file');
      this._add(record, 'notice', { ...clientOf(data), text: `undid the changes to ${files}` });
    } else if (subtype === 'review_decided' && data.by) {
      const words = `${REVIEWED[data.decision] ?? 'decided on'} ${aboutWords(data)}`;
      const end = data.interrupted ? ' (the server was restarted in the meantime)' : '';
      const { files, paths = [], diff = '', diff_truncated: isCut = false } = data;
      this._add(record, 'notice', { ...clientOf(data), text: words + end, files, paths, diff, isCut });
    } else if (subtype === 'review_interrupted') {
      this._add(record, 'notice', { ...clientOf(data), text: interruptedWords(data) });
    } else if (subtype === 'session_reset') this._add(record, 'notice', { text: 'New session', begins: true });
    else if (subtype === 'session_changed' && data.fork_from)
      this._add(record, 'notice', {
        text: data.title ? `Forked from “${data.title}”` : 'Forked from an earlier session',
        begins: true,
      });
  }
}

const aboutWords = ({ hunks, files, paths }: { hunks: number; files: number; paths?: string[] }) =>
  `${counted(hunks, 'change')} in ${files === 1 && paths?.length ? paths[0] : counted(files, 'file')}`;

/**
 * The outcome of a decision, a revert or a commit that was interrupted, and was not carried out or may not have been.
 * The text follows the name of the person who decided.
 */
function interruptedWords(data: ReviewInterrupted): string {
  const files = counted(data.files, 'file');
  const what: { [decision: string]: string } = { revert: `undo the changes to ${files}`, commit: `commit ${files}` };
  const words = `wanted to ${what[data.decision] ?? `${data.decision} ${aboutWords(data)}`}, but the server was restarted`;
  if (data.result === 'not_done') return `${words}. Nothing was changed.`;
  if (data.decision === 'commit')
    return `${words} in the meantime, and it is not known whether the commit was made. Check the branch.`;
  if (!data.changed?.length) return `${words} in the meantime, and it is not known what was changed. Check the files.`;
  return `${words} in the meantime, and ${data.changed.join(', ')} changed. Check the review.`;
}

const REVIEWED: { [decision: string]: string } = { keep: 'kept', undo: 'undid', edit: 'edited' };

/** Whether this is what Claude Code writes when somebody has stopped it. */
export const isInterruption = (text: unknown) => /^\s*\[Request interrupted by user/.test(String(text));

/** Whether Claude Code reports that a call was not allowed to run: by a person, a rule, a hook or auto mode. */
function isDenied({ tool_result_meta: told }: any, id: string) {
  return Array.isArray(told) && told.some((one) => one?.id === id && typeof one.non_execution_kind === 'string');
}

/** The text in the record of a prompt, or of an edit to it. */
function promptOf(message: any): string {
  const text = message?.message?.prompt;
  return typeof text === 'string' ? text : '';
}

/** The text in a tool's result, whatever its shape. Images are left out. */
export function resultText(content: any) {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .filter((part) => !imageOf(part))
    .map((part) => (part?.type === 'text' ? part.text : `[${part?.type ?? 'unknown content'}]`))
    .join('\n');
}

const clientOf = ({ by, client_id }: any) => ({ by, client_id });

/** A file that was sent with a prompt and that the agent opens by its path, as the prompt's record names it. */
export type SentFile = { id: string; bytes: number; name?: string };

/** An image that was sent with a prompt, as the prompt's record names it. */
export type SentImage = { id: string; media_type: string; bytes: number; name?: string };

/** An image in a message: its type and its bytes in base64. */
export type Image = { type: string; data: string };

/** The media types of images that every browser can draw and that, unlike SVG, can't contain scripts. */
export const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

function imageOf(part: any): Image | undefined {
  const source = part?.type === 'image' ? (part.source ?? part) : undefined;
  const type = source?.media_type ?? source?.mimeType;
  return typeof source?.data === 'string' && IMAGES.includes(type) ? { type, data: source.data } : undefined;
}

/** The images in a message of the agent, also those in the results of tools. */
export function imagesIn(message: any): Image[] {
  const content = message?.message?.content;
  if (!Array.isArray(content)) return [];
  return content
    .flatMap((block) => (block?.type === 'tool_result' && Array.isArray(block.content) ? block.content : [block]))
    .map(imageOf)
    .filter((image) => image !== undefined);
}

const thousands = (tokens: any) =>
  typeof tokens === 'number' ? (tokens < 1000 ? `${tokens}` : `${Math.round(tokens / 1000)}k`) : '';

/** A message from the server as a record of the history, or undefined if it is not one. */
export function recordOf({ type, seq, data }: any) {
  if (seq === undefined) return undefined;
  const timestamp = data.timestamp ?? data.created_at ?? new Date().toISOString();
  if (type === 'agent_message')
    return { seq, timestamp, direction: data.direction, message: data.messages[0], truncated: data.truncated };
  if (type === 'permission_request') return event(seq, timestamp, type, data);
  if (type === 'update') return event(seq, timestamp, data.update_type, data.data);
  return undefined;
}

const event = (seq: number, timestamp: string, subtype: string, message: any) => ({
  seq,
  timestamp,
  direction: 'server',
  message: { type: 'system', subtype, message },
  truncated: message.truncated,
});
