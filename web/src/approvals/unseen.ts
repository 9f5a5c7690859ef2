// The parts of a text in an editor that have not been in view yet.

/** A range of positions in the text. An empty range is a position at which something was removed. */
type Part = readonly [from: number, to: number];

/** An edit, as CodeMirror's `ChangeSet`: maps positions before it to positions after it, and has the ranges it changed. */
type Changes = {
  mapPos: (position: number, side: number) => number;
  iterChangedRanges: (act: (fromA: number, toA: number, fromB: number, toB: number) => void) => void;
};

export class Unseen {
  _parts: readonly Part[];

  constructor(parts: readonly Part[]) {
    this._parts = parts;
  }

  get isEmpty() {
    return this._parts.length === 0;
  }

  /** Notes that the text between two positions is in view. An adjacent line break counts as well. */
  see(from: number, to: number) {
    this._parts = this._parts.flatMap(([start, end]): Part[] => {
      if (start > to + 1 || end < from - 1) return [[start, end]];
      const before: Part = [start, Math.min(end, from - 1)];
      const after: Part = [Math.max(start, to + 1), end];
      return [before, after].filter((part) => part[0] < part[1]);
    });
  }

  /**
   * Updates the parts after an edit. Removes what the user has deleted or replaced, and adds what was inserted, because
   * an undo or a paste can insert text that has not been in view.
   */
  change(changes: Changes) {
    this._parts = this._parts.flatMap(([start, end]): Part[] => {
      if (start === end) return [[changes.mapPos(start, 1), changes.mapPos(start, 1)]];
      const part: Part = [changes.mapPos(start, 1), changes.mapPos(end, -1)];
      return part[0] < part[1] ? [part] : [];
    });
    const added: Part[] = [];
    changes.iterChangedRanges((_fromA, _toA, from, to) => from < to && added.push([from, to]));
    this._parts = [...this._parts, ...added];
  }
}
