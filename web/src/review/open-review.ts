// The open review of a project: what is shown of it, what the user writes for it, and the decisions being sent.

import { batch, computed, type ReadonlySignal, type Signal, signal } from '@preact/signals';

import { isWrapped } from '../diff/style.ts';
import type { Client } from '../protocol/client.ts';
import type { RequestError } from '../protocol/connection.ts';
import type { Review, ReviewFile } from '../protocol/messages.ts';
import * as kept from '../state/kept.ts';
import { counted } from '../ui/dom.ts';
import { Commit } from './commit.ts';
import { Comments } from './comments.ts';
import {
  editedText,
  fieldOf,
  fileKey,
  goneWords,
  isCut,
  onlyOne,
  onlyParts,
  type Part,
  partsIn,
  type ShownFile,
  shownFiles,
} from './model.ts';
import { Push } from './push.ts';

/** Explains why a decision on several changes was refused, and names files that have changed if they are known. */
export function movedWords(details: Record<string, unknown> = {}): string {
  const paths = Array.isArray(details.paths) ? details.paths.map(String) : [];
  const more = (typeof details.files === 'number' ? details.files : paths.length) - 1;
  const others = more > 0 ? ` and ${counted(more, 'other file')}` : '';
  const where = paths.length ? ` in ${paths[0]}${others}` : '';
  return `The review has changed since you saw it, so your decision was not applied. Read what is new${where}, then decide again.`;
}

/** The key of the buttons for the whole review. */
export const ALL = 'all';

/** Lines of context on each side of a hunk, before "Show more lines" is pressed. */
export const CONTEXT = 3;

/** Milliseconds for which news about the review is shown. */
const NEWS = 10_000;

/** The updates after which the review, its comments, or what can be committed or pushed may have changed. */
const CHANGES = ['review_changed', 'review_commented', 'review_committed', 'review_pushed', 'run_finished'];

/** The codes of errors after which there are no undecided changes left, because the directory or the project is gone. */
const GONE = ['INVALID_PATH', 'PROJECT_NOT_FOUND'];

/** The state of a part, a file or the whole review while it is shown. */
export type Standing = {
  /** Whether its decision is being sent. */
  busy: Signal<boolean>;
  /** Why a decision failed, or why the part has left the review. */
  note: Signal<string>;
  /** The user's own lines, or undefined if the user has written none. */
  draft: Signal<string | undefined>;
  isEditing: Signal<boolean>;
  /**
   * How many of the part's buttons still have to be pressed, and images drawn, before it can be decided on. Undefined
   * if that is not known, because the part is not drawn.
   */
  unopened: Signal<number | undefined>;
  /** Lines of context on each side. */
  context: Signal<number>;
  /** Whether all of it has been in view. */
  isSeen: boolean;
};

/** A version of the review, as the server names it. Undefined while none is shown. */
export type Version = string | undefined;

type Wish = {
  hunks?: string[];
  files?: string[];
  all?: boolean;
  decision?: 'keep' | 'undo';
  text?: string;
  version?: Version;
};

export class OpenReview {
  project: string;
  /** Undefined until the server has answered, and after the directory or the project is gone. */
  version: Signal<Version> = signal(undefined);
  /** All files of the review. */
  _all: Signal<ShownFile[]> = signal([]);
  /** The hunks that had been in view before this visit or, if a run has ended since, before its end. */
  _lookedAt: Signal<ReadonlySet<string>>;
  /** The number of new changes, as `isNew` defines them, or 0 if all changes are new. */
  newCount: ReadonlySignal<number> = computed(() => {
    const parts = partsIn(this._all.value);
    const count = parts.filter((part) => this.isNew(part)).length;
    return count < parts.length ? count : 0;
  });
  /** Whether the user wants to see only the new changes. */
  onlyNew: Signal<boolean> = signal(false);
  /** Whether some changes are not shown because they are not new. */
  hidesOld: ReadonlySignal<boolean> = computed(() => this.onlyNew.value && this.newCount.value > 0);
  /** The files that are shown. */
  files: ReadonlySignal<ShownFile[]> = computed(() =>
    this.hidesOld.value
      ? onlyParts(this._all.value, (part) => part.hunk === undefined || this.isNew(part))
      : this._all.value,
  );
  /** The number of files that did not fit into the message. */
  more: Signal<number> = signal(0);
  /** Why the review can't be loaded. */
  problem: Signal<string> = signal('');
  /** A sentence about the review of a directory without git, or '' if there isn’t one or it was dismissed here. */
  notice: Signal<string> = signal('');
  /** Says that changes of the latest run may be missing, and why; empty if all of them are there. */
  missing: Signal<string> = signal('');
  /** The latest news: what was done here or by others, in words. */
  news: Signal<string> = signal('');
  parts: ReadonlySignal<Part[]> = computed(() => partsIn(this.files.value));
  /** Whether the agent is working. While it is, files can't be written. */
  isWorking: Signal<boolean> = signal(false);
  comments: Comments;
  /** The paths of files with changes that were kept and are not committed. */
  kept: Signal<readonly string[]> = signal([]);
  commit: Commit;
  push: Push;
  _client: Client;
  _standings: Map<string, Standing> = new Map();
  /** The edits that have not been decided on, as they are stored. */
  _drafts: kept.ReviewDrafts;
  /** The files as the server last sent them. */
  _sent: readonly ReviewFile[] = [];
  _gone: { part: Part; file: ReviewFile }[] = [];
  /** The keys of the parts for which a decision came too late. */
  _refused: Set<string> = new Set();
  /** Who else has changed the review since it was loaded. Null for a run or a change to the files. */
  _changes: (string | null)[] = [];
  /** Which comments the hunks answer, as last sent by the server. */
  _answers = '';
  _asked = 0;
  _shown = 0;
  _loading: Promise<void> | undefined;
  /** The request after the one that is under way. */
  _next: Promise<void> | undefined;
  /** The number of the last request before a comment was reported. Replies up to it may not contain the comment. */
  _toldAt = 0;
  _isOver = false;
  _newsEnd: ReturnType<typeof setTimeout> | undefined;
  _before: (isMine: boolean) => void;
  /** The hunks that have been in view on this or an earlier visit. */
  _seen: Set<string>;

  /**
   * @param before is called before a new version of the review is shown
   * @param before.isMine whether the new version is the result of what the user did here
   */
  constructor(client: Client, project: string, before: (isMine: boolean) => void) {
    this._client = client;
    this.project = project;
    this._before = before;
    this._drafts = kept.reviewDrafts(project);
    this._seen = new Set(kept.seenHunks(project));
    this._lookedAt = signal(new Set(this._seen));
    this.comments = new Comments(client, project, this._all, () => this.load());
    this.commit = new Commit(client, project, () => this.load());
    this.push = new Push(client, project, () => this.load());
    client.addEventListener('message', this._heard);
    client.addEventListener('change', this._changed);
    document.addEventListener('visibilitychange', this._looked);
    void this.load();
  }

  dispose() {
    this._isOver = true;
    this._keepSeen();
    clearTimeout(this._newsEnd);
    this._client.removeEventListener('message', this._heard);
    this._client.removeEventListener('change', this._changed);
    document.removeEventListener('visibilitychange', this._looked);
  }

  /** Notes that all of a part has been in view. */
  saw({ key, hunk }: Part) {
    this.of(key).isSeen = true;
    if (hunk) this._seen.add(key);
  }

  /**
   * Whether the hunk is new: it had not been in view before this visit or, if a run has ended since, before that run's
   * end (`_lookedAt`). False if none had been in view.
   */
  isNew({ key, hunk, isGone }: Part): boolean {
    const looked = this._lookedAt.value;
    return looked.size > 0 && hunk !== undefined && !isGone && !looked.has(key);
  }

  /** Stores which of the review's hunks have been in view. Does nothing while no review is loaded. */
  _keepSeen() {
    const now = new Set(partsIn(this._all.peek()).map(({ key }) => key));
    if (this.version.peek() !== undefined)
      kept.keepSeenHunks(
        this.project,
        [...this._seen].filter((key) => now.has(key)),
      );
  }

  /** The notice is remembered for the directory, because terminal sessions in a directory share its review. */
  get _directory(): string {
    return this._client.projects.all.get(this.project)?.path ?? this.project;
  }

  dismissNotice() {
    kept.keepDismissedNotice(this._directory);
    this.notice.value = '';
  }

  /** Whether this device may decide. */
  get mayDecide() {
    return this._client.may('review_decide');
  }

  of(key: string): Standing {
    let found = this._standings.get(key);
    if (!found) {
      const { text } = this._drafts[key] ?? {};
      found = {
        busy: signal(false),
        note: signal(''),
        draft: signal(text),
        isEditing: signal(false),
        unopened: signal(undefined),
        context: signal(CONTEXT),
        isSeen: false,
      };
      this._standings.set(key, found);
    }
    return found;
  }

  /**
   * Whether anything in a part is hidden behind a button. Before the part is drawn, this is inferred from its lines, or
   * assumed if lines are not wrapped.
   */
  isClosed({ key, hunk }: Part): boolean {
    const count = this.of(key).unopened.value;
    return count === undefined ? !isWrapped.value || (hunk !== undefined && isCut(hunk)) : count > 0;
  }

  hasDraft({ key, hunk }: Part): boolean {
    const { draft } = this.of(key);
    return draft.value !== undefined && (!hunk || draft.value !== fieldOf(hunk));
  }

  // The methods for the user's edits.

  edit(part: Part) {
    const { draft, isEditing } = this.of(part.key);
    if (!part.hunk || part.isGone) return;
    draft.value ??= fieldOf(part.hunk);
    isEditing.value = true;
  }

  typed(part: Part, text: string) {
    this.of(part.key).draft.value = text;
    this._keep(part);
  }

  /** Ends editing, and keeps what was written. @returns whether the part was being edited */
  back(part: Part): boolean {
    const { isEditing, draft } = this.of(part.key);
    if (!isEditing.value || part.isGone) return false;
    if (!this.hasDraft(part)) draft.value = undefined;
    isEditing.value = false;
    this._keep(part);
    return true;
  }

  discard(part: Part) {
    const { isEditing, draft } = this.of(part.key);
    draft.value = undefined;
    isEditing.value = false;
    this._keep(part);
  }

  /** Removes a part that has left the review, with everything that the user wrote for it. */
  close(part: Part) {
    this.discard(part);
    for (const one of this.comments.writings.peek()) if (one.part === part.key) this.comments.discard(one);
    this._remove(part.key);
    this._standings.delete(part.key);
  }

  /** Stops showing a part that has left the review. */
  _remove(key: string) {
    const left = this._gone.filter(({ part }) => part.key !== key);
    if (left.length === this._gone.length) return;
    this._gone = left;
    this._before(true);
    this._all.value = shownFiles(this._sent, this._gone, this._all.value);
  }

  // The methods for decisions. `version`: the version in which the user has seen the changes. The server refuses a decision
  // on several changes if it has another version by now.

  decide(part: Part, decision: 'keep' | 'undo', version: Version) {
    const wish = part.hunk ? { hunks: [part.hunk.id] } : { files: [part.path], version };
    return this._decide(part.key, { ...wish, decision });
  }

  decideFile(path: string, decision: 'keep' | 'undo', version: Version) {
    return this._decide(fileKey(path), { files: [path], decision, version });
  }

  decideAll(decision: 'keep' | 'undo', version: Version) {
    return this._decide(ALL, { all: true, decision, version });
  }

  acceptEdit(part: Part) {
    const text = this.of(part.key).draft.value;
    if (!part.hunk || text === undefined) return;
    return this._decide(part.key, { hunks: [part.hunk.id], text: editedText(part.hunk, text) });
  }

  async _decide(key: string, wish: Wish) {
    const { busy, note, draft, isEditing } = this.of(key);
    if (busy.value || !this.mayDecide) return;
    busy.value = true;
    note.value = '';
    this._refused.delete(key);
    const number = ++this._asked;
    try {
      const { data } = await this._client.connection.ask('review_decide', wish, {
        project: this.project,
        lasting: true,
      });
      busy.value = false;
      draft.value = undefined;
      isEditing.value = false;
      this._forget(wish.hunks ?? []);
      this._remove(key);
      if (number > this._shown) this._show(number, data as Review, true);
      else await this.load();
    } catch (error) {
      const { code } = error as RequestError;
      note.value = this._wordsOf(error as RequestError, wish);
      if (code === 'HUNK_GONE') this._refused.add(key);
      if (['HUNK_GONE', 'REVIEW_CLASH', ...GONE].includes(code)) await this.load();
    } finally {
      busy.value = false;
    }
  }

  /** Why a decision was refused. */
  _wordsOf({ code, details, message }: RequestError, { hunks }: Wish): string {
    if (code === 'REVIEW_CLASH') {
      const paths = Array.isArray(details?.paths) ? details.paths.join(', ') : 'the files';
      return `This conflicts with the current state of ${paths}. Nothing was changed.`;
    }
    if (code !== 'HUNK_GONE') return message;
    if (!hunks && !details?.gone) return movedWords(details);
    return goneWords(details && { ...details, by: details.by && this._client.called(details) });
  }

  // The methods for messages from the server.

  /** Requests the review as it is now. Calls while a request is under way share the next request. */
  load(): Promise<void> {
    if (this._loading) return (this._next ??= this._loading.then(() => this._load()));
    return (this._loading = this._load());
  }

  async _load() {
    const number = ++this._asked;
    try {
      if (this._isOver) return;
      const { data } = await this._client.connection.ask('review_get', {}, { project: this.project, lasting: true });
      if (this._isOver) return;
      this.problem.value = '';
      if (number > this._shown) this._show(number, data as Review, false);
    } catch (error) {
      const { code, message } = error as RequestError;
      this.problem.value = message;
      if (GONE.includes(code) && number > this._shown) this._close(number);
    } finally {
      this._loading = this._next;
      this._next = undefined;
    }
  }

  _show(number: number, review: Review, isMine: boolean) {
    this._shown = number;
    const changes = this._changes.splice(0);
    const isFirst = this.version.peek() === undefined;
    const files = review.files ?? [];
    const answers = files.flatMap(({ hunks }) => hunks.map((one) => one.answers?.join(' '))).join();
    if (number > this._toldAt) this.comments.show(review);
    this.missing.value = review.missing ?? '';
    this.kept.value = review.kept ?? [];
    this.notice.value = kept.dismissedNotices().includes(this._directory) ? '' : (review.notice ?? '');
    this.commit.offer.value = review.commit ?? undefined;
    this.push.offer.value = review.push ?? undefined;
    if (!isFirst && review.version === this.version.peek() && answers === this._answers) return;
    this._answers = answers;
    this._sent = files;
    const before = this._all.peek();
    const now = new Set(partsIn(shownFiles(files)).map(({ key }) => key));
    const who = onlyOne(changes);
    let lost = 0;
    this._gone = this._gone.filter(({ part }) => !now.has(part.key));
    for (const { file, parts } of before)
      for (const part of parts) {
        if (part.isGone || now.has(part.key)) continue;
        if (!isMine) lost++;
        const { note, draft, isEditing, busy } = this.of(part.key);
        if (!this._refused.has(part.key)) note.value = '';
        // If a decision on the part is being sent, the server's reply will explain what has become of the part.
        const isWriting = this.comments.isWriting(part.key);
        if (!this.hasDraft(part) && !isWriting && !note.value && !busy.value) {
          this._standings.delete(part.key);
          continue;
        }
        if (!busy.value) note.value ||= isMine ? 'You decided on this change.' : goneWords({ by: who });
        isEditing.value = draft.value !== undefined;
        this._gone.push({ part: { ...part, isGone: true }, file });
      }
    if (isFirst) this._restore(now);
    this._before(isMine);
    batch(() => {
      this._all.value = shownFiles(files, this._gone, before);
      this.more.value = review.more ?? 0;
      this.version.value = review.version;
      if (lost) this.tell(who ? `${who} decided on ${counted(lost, 'change')}.` : 'The review has changed.');
    });
  }

  /** Stops showing the review. What the user wrote is kept, and is shown again once the review can be read. */
  _close(number: number) {
    this._shown = number;
    this._sent = [];
    this._gone = [];
    this._standings.clear();
    this._before(false);
    batch(() => {
      this._all.value = [];
      this.more.value = 0;
      this.missing.value = '';
      this.version.value = undefined;
      this.kept.value = [];
      this.commit.offer.value = undefined;
      this.push.offer.value = undefined;
    });
  }

  /** Shows what was done, or what others have done. */
  tell(news: string) {
    this.news.value = news;
    clearTimeout(this._newsEnd);
    this._newsEnd = setTimeout(() => (this.news.value = ''), NEWS);
  }

  /** Shows what was written on an earlier visit for hunks that no longer need a decision. */
  _restore(now: ReadonlySet<string>) {
    const written = this.comments.writings
      .peek()
      .flatMap(({ part, path }) => (part ? [[part, { path }] as const] : []));
    for (const [key, { path }] of new Map([...written, ...Object.entries(this._drafts)])) {
      if (now.has(key)) continue;
      const file: ReviewFile = {
        path,
        change: 'changed',
        old_mode: null,
        new_mode: null,
        added: 0,
        removed: 0,
        hunks: [],
      };
      const { note, isEditing, draft } = this.of(key);
      note.value = goneWords();
      isEditing.value = draft.value !== undefined;
      this._gone.push({ part: { key, path, isGone: true }, file });
    }
  }

  /** Stores what was written, so that it survives a reload. */
  _keep(part: Part) {
    const { [part.key]: _, ...others } = this._drafts;
    const text = this.of(part.key).draft.value;
    const isIts = text !== undefined && this.hasDraft(part);
    this._drafts = isIts ? { ...others, [part.key]: { path: part.path, text } } : others;
    kept.keepReviewDrafts(this.project, this._drafts);
  }

  _forget(hunks: readonly string[]) {
    for (const id of hunks) delete this._drafts[id];
    kept.keepReviewDrafts(this.project, this._drafts);
  }

  _heard = (event: Event) => {
    const { type, project_id: id, data } = (event as CustomEvent).detail;
    if (id !== this.project) return;
    // Comments were sent with this prompt.
    if (type === 'agent_message' && data.messages.some((one: { review?: unknown }) => one.review)) void this.load();
    if (type !== 'update') return;
    // Somebody may have sent the drafts.
    const isSent = data.update_type === 'project_state' && this.comments.drafts.peek().length > 0;
    if (!isSent && !CHANGES.includes(data.update_type)) return;
    const { by, client_id, comment_id, comment, files, branch, remote } = data.data;
    const isOther = !this._client.isMine({ by, client_id });
    const who = by && this._client.called({ by });
    if (data.update_type === 'review_changed' && isOther) this._changes.push(who || null);
    if (data.update_type === 'run_finished') this._lookedAt.value = new Set(this._seen);
    if (data.update_type === 'review_commented') {
      this.comments.told(comment_id, comment);
      this._toldAt = this._asked;
    }
    if (data.update_type === 'review_committed' && isOther)
      this.tell(`${who} committed ${counted(files.length, 'file')} on ${branch}.`);
    if (data.update_type === 'review_pushed' && isOther) this.tell(`${who} pushed ${branch} to ${remote}.`);
    void this.load();
  };

  _changed = (event: Event) => {
    // Changes that were made while the connection was lost were not reported.
    if ((event as CustomEvent).detail === 'hello') void this.load();
  };

  _looked = () => {
    if (document.hidden) this._keepSeen();
    // The files may have been changed in another window.
    if (!document.hidden && this.version.value !== undefined) void this.load();
  };
}
