// What of a text in an editor has not been in sight yet.

/** From where to where in the text; an empty one is a place at which something was removed. */
type Part = readonly [from: number, to: number];

/** How positions change when somebody types: as CodeMirror's `ChangeSet` does it. */
type Changes = { mapPos: (position: number, side: number) => number };

export class Unseen {
  _parts: readonly Part[];

  constructor(parts: readonly Part[]) {
    this._parts = parts;
  }

  get isEmpty() {
    return this._parts.length === 0;
  }

  /** What is between two positions is in sight. The end of a line is not looked for. */
  see(from: number, to: number) {
    this._parts = this._parts.flatMap(([start, end]): Part[] => {
      if (start > to + 1 || end < from - 1) return [[start, end]];
      const before: Part = [start, Math.min(end, from - 1)];
      const after: Part = [Math.max(start, to + 1), end];
      return [before, after].filter((part) => part[0] < part[1]);
    });
  }

  /** The text has changed. What a person has deleted or replaced is no longer part of it. */
  change(changes: Changes) {
    this._parts = this._parts.flatMap(([start, end]): Part[] => {
      if (start === end) return [[changes.mapPos(start, 1), changes.mapPos(start, 1)]];
      const part: Part = [changes.mapPos(start, 1), changes.mapPos(end, -1)];
      return part[0] < part[1] ? [part] : [];
    });
  }
}
