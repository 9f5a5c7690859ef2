// How much there is to decide in each project's review: what the "Review" buttons show.

import { type Signal, signal } from '@preact/signals';

import type { ProjectInfo, Review, ReviewChanged } from '../protocol/messages.ts';

/** If `files` is 0, nothing is open. `more`: whether the server has sent only a part, so the numbers are minimums. */
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
  /** The numbers by project id, as far as the server has reported them. */
  all: Signal<ReadonlyMap<string, Numbers>> = signal(new Map());
  _client: Server;
  /** The ids of the projects whose numbers were requested on this connection. */
  _asked: Set<string> = new Set();

  constructor(client: Server) {
    this._client = client;
    client.addEventListener('change', (event) => {
      if ((event as CustomEvent).detail === 'hello') this._asked.clear();
    });
    client.addEventListener('message', (event) => {
      const { type, project_id: id, data } = (event as CustomEvent).detail;
      if (type === 'project_list') this._take(data.projects);
      if (id === undefined) return;
      if (type === 'review') this._set(id, numbersOf(data));
      else if (type === 'update' && data.update_type === 'review_changed') {
        const { files, hunks, added, removed }: ReviewChanged = data.data;
        this._set(id, { files, hunks, added, removed });
      } else if (type === 'update' && data.update_type === 'project_state') this._take([data.data]);
    });
  }

  /** The numbers of a project's open review; undefined if there isn’t one. */
  open(project: string): Numbers | undefined {
    const found = this.all.value.get(project);
    return found?.files ? found : undefined;
  }

  /** Requests a project's numbers, but only once for each connection, because changes are reported. */
  look(project: string) {
    const { connection } = this._client;
    if (connection.state !== 'open' || this._asked.has(project) || !this._client.may('review_get')) return;
    this._asked.add(project);
    // Without git, or in a directory that is gone, there is no review.
    connection.ask('review_get', {}, { project }).catch(() => {});
  }

  /** Applies the numbers that the server has stored: of the files as it last saw them. */
  _take(projects: readonly Pick<ProjectInfo, 'id' | 'review'>[]) {
    const all = new Map(this.all.value);
    for (const { id, review } of projects) if (review) all.set(id, review);
    this.all.value = all;
  }

  _set(project: string, numbers: Numbers) {
    this._asked.add(project);
    this.all.value = new Map(this.all.value).set(project, numbers);
  }
}
