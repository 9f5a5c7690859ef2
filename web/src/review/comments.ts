// The comments on a review: stored comments, comments that the user is writing, and requests that are under way.

import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals';

import { newId } from '../protocol/blobs.ts';
import type { Client } from '../protocol/client.ts';
import type { RequestError } from '../protocol/connection.ts';
import type { Handover, Review, ReviewComment } from '../protocol/messages.ts';
import * as kept from '../state/kept.ts';
import { counted } from '../ui/dom.ts';
import {
  lineOf,
  type Lines,
  linesOf,
  type Part,
  partOf,
  quoteOf,
  type ShownFile,
  type Side,
  startOf,
  suggestedField,
  suggestedText,
} from './model.ts';

/** What the user is writing: a new comment, or a new text for a draft. */
export type Writing = {
  key: string;
  /** The key of the part at which it was begun. */
  part: string;
  path: string;
  side: Side;
  /** The number of its first line. `offset`: how many lines that is below the hunk's first line on this side. */
  line: number;
  offset: number;
  /** The text of its lines, as it was shown. */
  quote: string;
  /** The id of the draft that it changes. */
  comment_id?: string;
  text: Signal<string>;
  /** The suggested replacement for the lines, or undefined if there isn’t one. */
  suggestion: Signal<string | undefined>;
  busy: Signal<boolean>;
  note: Signal<string>;
  /** The field that gets the focus the next time the comment is drawn. */
  focus?: 'text' | 'range' | 'suggestion';
  /** If the reply to a save was lost: the ids of the earlier comments. A new comment with the same text is this one. */
  before?: ReadonlySet<string>;
};

type Stored = Pick<Writing, 'part' | 'path' | 'side' | 'line' | 'offset' | 'quote' | 'comment_id'> & {
  text: string;
  suggestion?: string;
};

/** The lines that a comment is about, from `line` to `end`. */
export type Place = { side: Side; line: number; end: number };

export class Comments {
  all: Signal<readonly ReviewComment[]> = signal([]);
  writings: Signal<readonly Writing[]> = signal([]);
  isSending: Signal<boolean> = signal(false);
  /** Why sending or withdrawing the comments failed. */
  note: Signal<string> = signal('');
  /** Comments that wait for the agent of a terminal session. */
  handover: Signal<Handover | undefined> = signal(undefined);
  isWithdrawing: Signal<boolean> = signal(false);
  /** The drafts as a prompt, if it could not be sent to the agent's terminal. */
  unsent: Signal<string> = signal('');
  /** The ids of comments for which a request is under way. */
  busy: Signal<ReadonlySet<string>> = signal(new Set());
  /** Why a request about a comment failed, by the comment's id. */
  notes: Signal<ReadonlyMap<string, string>> = signal(new Map());
  drafts: ReadonlySignal<ReviewComment[]> = computed(() => this.all.value.filter(isDraft));
  /** The comments, by the keys of the parts at which they are shown. */
  byPart: ReadonlySignal<ReadonlyMap<string, ReviewComment[]>>;
  /** The parts that answer a comment, by its id. */
  answered: ReadonlySignal<ReadonlyMap<string, Part[]>>;
  _client: Client;
  _project: string;
  _files: ReadonlySignal<ShownFile[]>;
  _load: () => Promise<void>;
  /** The version of the drafts that are shown. */
  _version = '';

  /** @param load requests the review as it is now */
  constructor(client: Client, project: string, files: ReadonlySignal<ShownFile[]>, load: () => Promise<void>) {
    this._client = client;
    this._project = project;
    this._files = files;
    this._load = load;
    this.byPart = computed(() => {
      const found = new Map<string, ReviewComment[]>();
      for (const one of this.all.value) {
        const key = partOf(one, files.value)?.key;
        if (key !== undefined) found.set(key, [...(found.get(key) ?? []), one]);
      }
      return found;
    });
    this.answered = computed(() => {
      const found = new Map<string, Part[]>();
      for (const { parts } of files.value)
        for (const part of parts)
          for (const id of part.hunk?.answers ?? []) found.set(id, [...(found.get(id) ?? []), part]);
      return found;
    });
    this.writings.value = Object.entries(this._stored()).map(([key, { text, suggestion, ...one }]) =>
      made(key, one, text, suggestion),
    );
  }

  /** Whether this device may write comments. */
  get mayWrite() {
    return this._client.may('review_comment');
  }

  get maySend() {
    return this.mayWrite && this._client.may('review_submit');
  }

  /** Whether the comments can be added to the active run. */
  get steers() {
    return this._client.steers(this._project);
  }

  get mayWithdraw() {
    return this._client.may('review_withdraw');
  }

  /** The state of the comments that wait for an agent, in words, or '' if none wait. */
  get waitingWords(): string {
    const { project_id, state } = this.handover.value ?? {};
    const agent = project_id === this._project ? 'the agent' : 'the agent of another session in this directory';
    const begun = `${agent[0].toUpperCase()}${agent.slice(1)}`;
    switch (state) {
      case 'waiting':
        return `Waiting. ${begun} will get the comments when it next stops, or with the next prompt in its terminal.`;
      case 'given':
        return `${begun} is receiving the comments.`;
      case 'unsure':
        return `${begun} may have received the comments. Check its terminal before you send them again.`;
      case 'ended':
        return `The session ended before ${agent} received the comments. They are drafts again.`;
      case 'refused':
        return `The comments were not sent and are drafts again: ${agent} may have more permissions than clients are allowed to use, or its directory can’t be used.`;
      default:
        return '';
    }
  }

  /** Whether the user may change a draft. */
  mayChange({ by }: ReviewComment) {
    return this.mayWrite && (by === this._client.name || this._client.hello?.device?.scope === 'admin');
  }

  isWriting(part: string) {
    return this.writings.peek().some((one) => one.part === part);
  }

  /** Shows the comments that the server sent with a review. */
  show({ comments = [], drafts = '', handover }: Review) {
    // The drafts have changed, so the prompt that was refused is not the one that would be sent now.
    if (this.unsent.peek() && drafts !== this._version) this.note.value = this.unsent.value = '';
    this._version = drafts;
    this.all.value = comments;
    this.handover.value = handover ?? undefined;
    // If the reply to a save was lost, the server may still have stored the comment.
    for (const one of this.writings.peek())
      if (one.before && comments.some((other) => !one.before?.has(other.comment_id) && isLike(one, other)))
        this.discard(one);
  }

  /** Called when somebody has written, changed or removed a comment. */
  told(id: string, comment: ReviewComment | null | undefined) {
    const others = this.all.peek().filter((one) => one.comment_id !== id);
    const at = this.all.peek().findIndex((one) => one.comment_id === id);
    const before = this.all.peek()[at];
    if ((before?.state === 'waiting') !== (comment?.state === 'waiting')) void this._load();
    if (comment) others.splice(at < 0 ? others.length : at, 0, comment);
    this.all.value = others;
  }

  // The methods for comments that the user is writing.

  /**
   * Begins a comment on a line, or continues the comment that was begun there.
   * @param name the name of the line
   * @param isRange whether to extend the comment that was begun last up to this line instead
   */
  begin(part: Part, lines: Lines, name: string, isRange = false) {
    const { hunk } = part;
    const [side, line] = lineOf(name);
    if (!hunk || !this.mayWrite) return;
    const begun = this.writings.peek().filter((one) => one.part === part.key && one.side === side && !one.comment_id);
    const last = begun[begun.length - 1];
    if (isRange && last) {
      const { line: from, end } = placeOf(last, hunk);
      this.stretch(last, part, lines, Math.min(from, line), line < from ? end : line);
      return;
    }
    const same = begun.find((one) => placeOf(one, hunk).end === line);
    const quote = quoteOf(lines[side], line, line);
    if (same) this._replace(same, { ...same, focus: 'text' });
    else if (quote !== undefined) {
      const place = { part: part.key, path: part.path, side, line, offset: line - startOf(hunk, side), quote };
      this.writings.value = [...this.writings.peek(), { ...made(newId(), place), focus: 'text' }];
    }
  }

  /** Changes the lines of a comment that is being written. */
  stretch(one: Writing, { hunk }: Part, lines: Lines, from: number, to: number) {
    const quote = quoteOf(lines[one.side], from, to);
    if (!hunk || quote === undefined) return;
    // A suggestion that the user has not changed follows the lines.
    if (one.suggestion.peek() === suggestedField(one.quote)) one.suggestion.value = suggestedField(quote);
    this._replace(one, { ...one, quote, line: from, offset: from - startOf(hunk, one.side), focus: 'range' });
  }

  /** Begins to change a draft. */
  edit(comment: ReviewComment, part: Part | undefined) {
    const { comment_id, path, side, line, quote, text, suggestion } = comment;
    const known = this.writings.peek().find((one) => one.comment_id === comment_id);
    if (known) {
      this._replace(known, { ...known, focus: 'text' });
      return;
    }
    const offset = part?.hunk ? line - startOf(part.hunk, side) : 0;
    const place = { part: part?.key ?? '', path, side, line, offset, quote, comment_id };
    const field = typeof suggestion === 'string' ? suggestedField(suggestion) : undefined;
    this.writings.value = [...this.writings.peek(), { ...made(comment_id, place, text, field), focus: 'text' }];
  }

  typed(one: Writing, text: string) {
    one.text.value = text;
    this._keep();
  }

  suggested(one: Writing, text: string | undefined) {
    one.suggestion.value = text;
    this._keep();
  }

  discard(one: Writing) {
    this.writings.value = this.writings.peek().filter(({ key }) => key !== one.key);
    this._keep();
  }

  /** Whether something was written that the server has not stored. */
  isUnsaved(one: Writing): boolean {
    const draft = this.draftOf(one);
    const suggestion = one.suggestion.value;
    if (!draft) return one.text.value.trim() !== '' || (suggestion !== undefined && isOther(suggestion, one.quote));
    const field = typeof draft.suggestion === 'string' ? suggestedField(draft.suggestion) : undefined;
    return one.text.value.trim() !== draft.text || suggestion !== field;
  }

  /** Whether the comment has text, or a suggestion that differs from the lines. */
  isComplete({ text, suggestion, quote }: Writing): boolean {
    return text.value.trim() !== '' || (suggestion.value !== undefined && isOther(suggestion.value, quote));
  }

  /** The draft that is being changed. Undefined for a new comment, or if the draft has been sent or removed since. */
  draftOf({ comment_id: id }: Writing): ReviewComment | undefined {
    return this.all.value.find((one) => one.comment_id === id && isDraft(one));
  }

  /** Stores what was written as a draft. @returns whether it is stored */
  async save(one: Writing, hunk: Part['hunk']): Promise<boolean> {
    if (one.busy.peek() || !this.isComplete(one)) return false;
    const draft = this.draftOf(one);
    const field = one.suggestion.peek();
    const { line, end } = placeOf(one, hunk);
    const words = {
      text: one.text.peek(),
      suggestion: field === undefined ? undefined : suggestedText(one.quote, field),
    };
    const data = draft
      ? { comment_id: draft.comment_id, ...words }
      : { path: one.path, side: one.side, line, end_line: end, quote: one.quote, ...words };
    one.busy.value = true;
    one.note.value = '';
    try {
      // A new comment that is sent twice would be stored twice.
      await this._ask('review_comment', data, draft !== undefined);
      this.discard(one);
      return true;
    } catch (error) {
      const { code, message } = error as RequestError;
      one.note.value = message;
      if (code === 'HUNK_GONE')
        one.note.value =
          'These lines have changed or are no longer in the review, so your comment was not added. Copy it if you still need it.';
      if (code === 'OFFLINE' && !draft) {
        one.note.value = 'The connection was lost. Your comment is kept here: add it again once you’re back online.';
        this._replace(one, { ...one, before: new Set(this.all.peek().map((other) => other.comment_id)) });
      }
      if (code === 'HUNK_GONE' || code === 'COMMENT_GONE') void this._load();
      return false;
    } finally {
      one.busy.value = false;
    }
  }

  // The methods for comments that the server has stored.

  /** Removes a draft, but only if it is still as it was when the user was asked. */
  async remove(comment: ReviewComment) {
    const { comment_id } = comment;
    const now = this.all.peek().find((one) => one.comment_id === comment_id);
    if (now && JSON.stringify(words(now)) !== JSON.stringify(words(comment)))
      this.notes.value = new Map([...this.notes.peek(), [comment_id, REWRITTEN]]);
    else await this._change(comment_id, { comment_id, remove: true });
  }

  resolve({ comment_id }: ReviewComment, resolved: boolean) {
    return this._change(comment_id, { comment_id, resolved });
  }

  async _change(id: string, data: object) {
    if (this.busy.peek().has(id)) return;
    this.busy.value = new Set([...this.busy.peek(), id]);
    this.notes.value = new Map([...this.notes.peek()].filter(([one]) => one !== id));
    try {
      await this._ask('review_comment', data, true);
    } catch (error) {
      this.notes.value = new Map([...this.notes.peek(), [id, (error as Error).message]]);
      if ((error as RequestError).code === 'COMMENT_GONE') void this._load();
    } finally {
      this.busy.value = new Set([...this.busy.peek()].filter((one) => one !== id));
    }
  }

  /**
   * Sends all drafts, but only if they are still the ones that are shown.
   * @param steer whether to add them to the active run
   * @returns what was done, or '' if it failed, if there is nothing to send, or while an earlier call is under way
   */
  async send(steer = false): Promise<string> {
    if (this.isSending.peek() || !this.drafts.peek().length) return '';
    this.isSending.value = true;
    this.note.value = this.unsent.value = '';
    const shown = JSON.stringify(this.drafts.peek().map(words));
    try {
      await this._load();
      const drafts = this.drafts.peek();
      if (shown !== JSON.stringify(drafts.map(words))) throw new Error(CHANGED);
      const data = await this._ask('review_submit', { drafts: this._version, ...(steer && { steer }) }, true);
      await this._load();
      if (steer) return `Added ${counted(drafts.length, 'comment')} to the current run.`;
      if (data.waiting)
        return `Waiting: ${counted(drafts.length, 'comment')}. The agent will get the comments when it next stops, or with the next prompt in its terminal.`;
      const sent = `Sent ${counted(drafts.length, 'comment')}.`;
      return data.position > 0 ? `${sent} The agent will get them when it finishes its current work.` : sent;
    } catch (error) {
      const { code, message, details } = error as RequestError;
      this.note.value = message;
      this.unsent.value = details?.prompt ?? '';
      if (code === 'COMMENT_GONE') await this._load();
      return '';
    } finally {
      this.isSending.value = false;
    }
  }

  /** Turns the comments that wait for an agent back into drafts. */
  async withdraw() {
    if (this.isWithdrawing.peek()) return;
    this.isWithdrawing.value = true;
    this.note.value = '';
    try {
      await this._ask('review_withdraw', {}, true);
    } catch (error) {
      this.note.value = (error as Error).message;
    } finally {
      await this._load();
      this.isWithdrawing.value = false;
    }
  }

  async _ask(type: string, data: object, lasting: boolean) {
    return (await this._client.connection.ask(type, data, { project: this._project, lasting })).data;
  }

  _replace(one: Writing, other: Writing) {
    this.writings.value = this.writings.peek().map((writing) => (writing.key === one.key ? other : writing));
    this._keep();
  }

  get _storage() {
    return `${this._project}.comments`;
  }

  _stored = (): Record<string, Stored> => kept.reviewDrafts(this._storage) as Record<string, Stored>;

  /** Stores what is being written, so that it survives a reload. */
  _keep() {
    const stored = this.writings.peek().filter((one) => this.isUnsaved(one) || one.comment_id);
    kept.keepReviewDrafts(
      this._storage,
      Object.fromEntries(
        stored.map(({ key, part, path, side, line, offset, quote, comment_id, text, suggestion }) => [
          key,
          { part, path, side, line, offset, quote, comment_id, text: text.peek(), suggestion: suggestion.peek() },
        ]),
      ),
    );
  }
}

const CHANGED = 'The comments have changed since you saw them, so they were not sent. Read them, then send them again.';

const REWRITTEN = 'The comment has changed since you saw it, so it was not removed. Read it, then remove it again.';

export const isDraft = ({ state = 'draft' }: ReviewComment) => state === 'draft';

const words = ({ comment_id, text, suggestion }: ReviewComment) => [comment_id, text, suggestion];

/** Whether a suggestion differs from the lines. */
const isOther = (field: string, quote: string) => field !== suggestedField(quote);

/** Whether a stored comment is the one that was written. */
const isLike = (one: Writing, { path, side, quote, text }: ReviewComment) =>
  path === one.path &&
  side === one.side &&
  suggestedField(quote) === suggestedField(one.quote) &&
  text === one.text.peek().trim();

function made(key: string, place: Omit<Stored, 'text' | 'suggestion'>, text = '', suggestion?: string): Writing {
  return { key, ...place, text: signal(text), suggestion: signal(suggestion), busy: signal(false), note: signal('') };
}

/** The lines of a comment that is being written. @param hunk the hunk as it is now */
export function placeOf({ side, line: known, offset, quote }: Writing, hunk: Part['hunk']): Place {
  const line = hunk ? startOf(hunk, side) + offset : known;
  return { side, line, end: line + linesOf(quote).length - 1 };
}

/** Whether these lines are shown and still have the text `quote`. A line feed at the end of the file does not count. */
export const isShown = (lines: Lines, { side, line, end }: Place, quote: string) =>
  quoteOf(lines[side], line, end)?.replace(/\n$/, '') === quote.replace(/\n$/, '');
