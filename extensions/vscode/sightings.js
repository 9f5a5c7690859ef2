// Which changes have been in view in a diff, from their first to their last line. Pure.
'use strict';

const { rowsOf } = require('./review_model');

/** How many hunks are remembered. */
const MOST = 5000;

/**
 * @typedef {import('./review_words').ReviewedFile} ReviewedFile
 * @typedef {{ranges: [number, number][], count: number}} Shown what an editor shows of a document: the first and the
 *   last row of each visible part, from 0, and the document's number of rows
 */

class Sightings {
  constructor() {
    /**
     * @type {Map<string, Set<string>>} which ends of each hunk have been in view, by the hunk's project and id. Those
     *   that were looked at last are kept.
     */
    this._ends = new Map();
  }

  /**
   * @param {string} project
   * @param {ReviewedFile} file as it is listed
   * @param {Shown | null} left the side without the changes, or null if it is not shown, as in an inline diff
   * @param {Shown} right
   * @returns {string[]} the ids of the hunks whose first and last rows have both been in view, on each side that is
   * shown
   */
  look(project, file, left, right) {
    const places = rowsOf(file);
    return places.filter((place) => this._isWhole(`${project}/${place.id}`, place, left, right)).map(({ id }) => id);
  }

  /**
   * @param {string} key
   * @param {import('./review_model').Rows} place
   * @param {Shown | null} left
   * @param {Shown} right
   */
  _isWhole(key, place, left, right) {
    const ends = place.right.map((row, number) => ({ end: `right ${number}`, row, shown: right }));
    if (place.left && left?.ranges.length)
      ends.push(...place.left.map((row, number) => ({ end: `left ${number}`, row, shown: left })));
    const seen = this._ends.get(key) ?? new Set();
    for (const { end, row, shown } of ends) if (isVisible(row, shown)) seen.add(end);
    this._ends.delete(key); // so that it is the last one
    this._ends.set(key, seen);
    const [oldest] = this._ends.keys();
    if (this._ends.size > MOST && oldest !== undefined) this._ends.delete(oldest);
    return ends.every(({ end }) => seen.has(end));
  }
}

/**
 * A row after the last one counts as the last one, because there a diff shows the lines that were removed at the end.
 *
 * @param {number} row
 * @param {Shown} shown
 */
function isVisible(row, { ranges, count }) {
  const at = Math.max(0, Math.min(row, count - 1));
  return ranges.some(([first, last]) => first <= at && at <= last);
}

module.exports = { MOST, Sightings };
