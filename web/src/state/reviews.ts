// The numbers of undecided and uncommitted changes in each project's review, as the links to the reviews show them.

import { type Signal, signal } from '@preact/signals';

import type { ProjectInfo, Review, ReviewChanged } from '../protocol/messages.ts';

/** If `files` is 0, nothing is open. `more`: not all files were sent, so all numbers but `files` are minimums. */
export type Numbers = { files: number; hunks: number; added: number; removed: number; more?: boolean };

type Server = EventTarget & {
  may(type: string): boolean;
  connection: { ask(type: string, data: object, how: { project: string }): Promise<unknown>; state: string };
};

/** The numbers of a review as `review_get` and `review_decide` return it. */
export function numbersOf({ files = [], more = 0 }: Review): Numbers {
  const sum = (count: (file: (typeof files)[number]) => number) => files.reduce((all, file) => all + count(file), 0);
  return {
    files: files.length + more,
    hunks: sum((file) => Math.max(1, file.hunks.length)),
    added: sum((file) => file.added),
    removed: sum((file) => file.removed),
    more: more > 0,
  };
}

export class Reviews {
  /** The numbers that the server has reported, by project id. */
  all: Signal<ReadonlyMap<string, Numbers>> = signal(new Map());
  /** By project id: how many files have changes that were kept and can be committed. */
  _kept: Signal<ReadonlyMap<string, number>> = signal(new Map());
  _client: Server;
  /** The ids of the projects whose numbers were requested or reported on this connection, which `look` skips. */
  _asked: Signal<ReadonlySet<string>> = signal(new Set());

  constructor(client: Server) {
    this._client = client;
    client.addEventListener('change', (event) => {
      if ((event as CustomEvent).detail === 'hello') this._asked.value = new Set();
    });
    client.addEventListener('message', (event) => {
      const { type, project_id: id, data } = (event as CustomEvent).detail;
      if (type === 'project_list') this._take(data.projects);
      if (id === undefined) return;
      if (type === 'review') {
        const { commit, kept = [] }: Review = data;
        this._kept.value = new Map(this._kept.value).set(id, commit ? kept.length : 0);
        this._set(id, numbersOf(data));
      }
      if (type !== 'update') return;
      if (data.update_type === 'project_state') this._take([data.data]);
      if (data.update_type === 'review_changed') {
        const { files, hunks, added, removed }: ReviewChanged = data.data;
        this._set(id, { files, hunks, added, removed });
      }
      // These updates do not contain what can be committed.
      if (['review_changed', 'review_committed'].includes(data.update_type) && client.may('review_commit'))
        this._asked.value = new Set([...this._asked.value].filter((one) => one !== id));
    });
  }

  /** The numbers of a project's open review, or undefined if there isn’t one. */
  open(project: string): Numbers | undefined {
    const found = this.all.value.get(project);
    return found?.files ? found : undefined;
  }

  /** How many files of a project have changes that were kept and can be committed. */
  kept(project: string): number {
    return (this._client.may('review_commit') && this._kept.value.get(project)) || 0;
  }

  /** Whether the numbers are known or requested, so that `look` requests nothing. */
  isKnown(project: string): boolean {
    return this._asked.value.has(project);
  }

  /**
   * Requests the numbers of a project, but only once for each connection, because changes are reported. For a device
   * that may commit, it requests them again after a change.
   */
  look(project: string) {
    const { connection } = this._client;
    if (connection.state !== 'open' || this.isKnown(project) || !this._client.may('review_get')) return;
    this._ask(project);
    // Without git, or in a directory that is gone, there is no review.
    connection.ask('review_get', {}, { project }).catch(() => {});
  }

  _ask(project: string) {
    this._asked.value = new Set(this._asked.value).add(project);
  }

  /** Applies the numbers that the server stored. The files may have changed since the server counted them. */
  _take(projects: readonly Pick<ProjectInfo, 'id' | 'review'>[]) {
    const all = new Map(this.all.value);
    for (const { id, review } of projects) if (review) all.set(id, review);
    this.all.value = all;
  }

  _set(project: string, numbers: Numbers) {
    this._ask(project);
    this.all.value = new Map(this.all.value).set(project, numbers);
  }
}
