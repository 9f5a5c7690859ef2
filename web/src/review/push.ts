// A push of the current branch: the pull request that the user wants with it, and the result of both.

import { type Signal, signal } from '@preact/signals';

import type { Client } from '../protocol/client.ts';
import type { RequestError } from '../protocol/connection.ts';
import type { PushOffer, ReviewPushed } from '../protocol/messages.ts';

export class Push {
  /** What the server offers to push. Undefined if there is no branch or remote, or pushes are off. */
  offer: Signal<PushOffer | undefined> = signal(undefined);
  isPullRequest: Signal<boolean> = signal(false);
  title: Signal<string> = signal('');
  body: Signal<string> = signal('');
  busy: Signal<boolean> = signal(false);
  problem: Signal<string> = signal('');
  /** What git, its hooks and the remote printed when they refused the push. */
  output: Signal<string> = signal('');
  done: Signal<ReviewPushed | undefined> = signal(undefined);
  _client: Client;
  _project: string;
  _load: () => Promise<void>;
  /** The title and the body that were suggested last. They are replaced only if the user has not changed them. */
  _proposed = ['', ''];

  /** @param load requests the review as it is now */
  constructor(client: Client, project: string, load: () => Promise<void>) {
    this._client = client;
    this._project = project;
    this._load = load;
  }

  get isAllowed() {
    return this._client.may('review_push');
  }

  /** Whether there are commits that the remote does not have, or a pull request is still missing. */
  get isWaiting() {
    const offer = this.offer.value;
    return !!offer && !offer.problem && (offer.ahead !== 0 || !!this.done.value?.problem);
  }

  /** Called when the form is opened. Suggests a title and a body, unless the user has written others. */
  open() {
    this.done.value = undefined;
    this.problem.value = this.output.value = '';
    const { title = '', body = '' } = this.offer.peek() ?? {};
    const [oldTitle, oldBody] = this._proposed;
    if (this.title.peek() === oldTitle && this.body.peek() === oldBody) {
      this.title.value = title;
      this.body.value = body;
      this._proposed = [title, body];
    }
  }

  async run() {
    const offer = this.offer.peek();
    if (this.busy.peek() || !offer) return;
    const isWanted = this.isPullRequest.peek() && !!offer.pull_request;
    const request = isWanted ? { title: this.title.peek().trim(), body: this.body.peek().trim() } : undefined;
    this.busy.value = true;
    this.problem.value = this.output.value = '';
    this.done.value = undefined;
    const { connection } = this._client;
    const isSent = connection.state === 'open';
    try {
      const { data } = await connection.ask(
        'review_push',
        { version: offer.version, pull_request: request },
        { project: this._project },
      );
      this.done.value = data.data as ReviewPushed;
    } catch (error) {
      const { code, message, details } = error as RequestError;
      this.problem.value = code === 'OFFLINE' && isSent ? LOST : message;
      this.output.value = typeof details?.output === 'string' ? details.output : '';
    } finally {
      this.busy.value = false;
    }
    await this._load();
  }
}

const LOST =
  'The connection was lost before the server responded. When you’re back online, this dialog will show whether the commits were pushed.';
