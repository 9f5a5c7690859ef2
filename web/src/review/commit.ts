// A commit of what was kept in a review: what the user enters for it, and its result.

import { type Signal, signal } from '@preact/signals';

import type { Client } from '../protocol/client.ts';
import type { RequestError } from '../protocol/connection.ts';
import type { CommitOffer, Review, ReviewCommitted } from '../protocol/messages.ts';

export class Commit {
  /** What the server offers to commit. Undefined if there is nothing to commit, or commits are off. */
  offer: Signal<CommitOffer | undefined> = signal(undefined);
  message: Signal<string> = signal('');
  isNewBranch: Signal<boolean> = signal(false);
  branch: Signal<string> = signal('');
  /** The paths of kept files to leave out of the commit. */
  without: Signal<ReadonlySet<string>> = signal(new Set());
  busy: Signal<boolean> = signal(false);
  problem: Signal<string> = signal('');
  /** What git and its hooks printed when they refused the commit. */
  output: Signal<string> = signal('');
  done: Signal<ReviewCommitted | undefined> = signal(undefined);
  _client: Client;
  _project: string;
  _load: () => Promise<void>;

  /** @param load requests the review as it is now */
  constructor(client: Client, project: string, load: () => Promise<void>) {
    this._client = client;
    this._project = project;
    this._load = load;
  }

  get isAllowed() {
    return this._client.may('review_commit');
  }

  /** Called when the dialog is opened. Suggests a message, unless the user has written one. */
  open() {
    this.done.value = undefined;
    this.problem.value = this.output.value = '';
    this.message.value ||= this.offer.peek()?.message ?? '';
  }

  /**
   * Commits the chosen files, but only if what was kept is still what is shown.
   * @param kept the paths of all files that could be committed, as they are shown
   */
  async run(kept: readonly string[]) {
    if (this.busy.peek()) return;
    const left = this.without.peek();
    const files = kept.some((path) => left.has(path)) ? kept.filter((path) => !left.has(path)) : undefined;
    const branch = this.isNewBranch.peek() ? this.branch.peek().trim() : undefined;
    this.busy.value = true;
    this.problem.value = this.output.value = '';
    const { connection } = this._client;
    const isSent = connection.state === 'open';
    const shown = JSON.stringify([kept, this.offer.peek()?.lines]);
    try {
      // Somebody may have kept more. If the connection is lost, nothing is committed later, when the user has moved on.
      const now: Review = (await connection.ask('review_get', {}, { project: this._project })).data;
      if (JSON.stringify([now.kept ?? [], now.commit?.lines]) !== shown) throw new Error(CHANGED);
      const { data } = await connection.ask(
        'review_commit',
        { message: this.message.peek(), branch, files },
        { project: this._project },
      );
      await this._load(); // also updates what can be pushed
      this.done.value = data.data as ReviewCommitted;
      this.message.value = this.branch.value = '';
      this.isNewBranch.value = false;
      this.without.value = new Set();
    } catch (error) {
      const { code, message, details } = error as RequestError;
      this.problem.value = code === 'OFFLINE' && isSent ? LOST : wordsOf(message, details);
      this.output.value = typeof details?.output === 'string' ? details.output : '';
      this.busy.value = false;
      await this._load();
    } finally {
      this.busy.value = false;
    }
  }
}

const CHANGED =
  'What was kept has changed since you saw it, so it was not committed. Check the files, then commit again.';

const LOST =
  'The connection was lost before the server responded. When you’re back online, the uncommitted files will be listed here.';

/** The reason for a refusal, with the files that it is about. */
function wordsOf(message: string, details: any): string {
  const paths: unknown = details?.paths;
  return Array.isArray(paths) && paths.length ? `${message} Files: ${paths.join(', ')}.` : message;
}
