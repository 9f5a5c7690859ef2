// Comments on lines of a change and on parts of a plan, until they are sent as the reason for a rejection. Pure, except
// for a signal.

import { type Signal, signal } from '@preact/signals';

/**
 * `line`: the line's number, with a leading "−" if the line was removed, or the number of a part of the plan. `quote`:
 * the text that is commented on.
 */
type CommentOn = { path: string; line: string; text: string; quote: string };

export class Collected {
  count: Signal<number>;
  _all: Map<string, CommentOn>;
  _shown: (path: string) => string;
  _changed: () => void;

  /**
   * @param before the comments that were kept
   * @param shown returns a file's path as it is written in the message
   */
  constructor(before: CommentOn[], shown: (path: string) => string, changed: () => void) {
    this._all = new Map(before.map((one) => [`${one.path}\n${one.line}`, one]));
    this._shown = shown;
    this._changed = changed;
    this.count = signal(this._all.size);
  }

  get = (path: string, line: string) => this._all.get(`${path}\n${line}`)?.text;

  set = (path: string, line: string, text: string, quote: string) => {
    const key = `${path}\n${line}`;
    if (text.trim()) this._all.set(key, { path, line, text, quote });
    else this._all.delete(key);
    this.count.value = this._all.size;
    this._changed();
  };

  get all(): CommentOn[] {
    return [...this._all.values()];
  }

  clear() {
    this._all.clear();
    this.count.value = 0;
  }

  /** The message for the agent, with the comments in the order of their files and lines, then `reason`. */
  message(reason: string): string {
    const number = ({ line }: CommentOn) => Math.abs(Number(line.replace('−', '-')));
    const sorted = this.all.sort((a, b) => a.path.localeCompare(b.path) || number(a) - number(b));
    const parts = sorted.map(({ path, line, text, quote }) => {
      const removed = line.startsWith('−');
      const place = path ? `${this._shown(path)}:${line.replace('−', '')}${removed ? ' (removed line)' : ''}` : 'Plan';
      return `${place}\n> ${quote}\n${text.trim()}`;
    });
    return [...parts, reason].filter(Boolean).join('\n\n');
  }
}
