// Which changes of the window's reviews are new to the user. Pure.
//
// The other clients have the same rules, each for one review (src/drawbridge/text/review_visits.py). A visit begins
// when the user opens the list, and when a run ends. A change is new if the user had not seen it before the current
// visit.
'use strict';

/**
 * @typedef {import('./review_model').Placed} Placed
 * @typedef {import('./review_words').Hunk} Hunk
 * @typedef {{seen: Set<string>, before: Set<string>}} Visit the ids of the hunks that the user has seen, and of those
 *   that the user had seen before the current visit
 */

class ReviewVisits {
  constructor() {
    /** @type {Map<string, Visit>} by directory, because sessions in a directory share a review */
    this._visits = new Map();
    this._onlyNew = false;
  }

  /** Whether the user wants to see only what is new. */
  get onlyNew() {
    return this._onlyNew;
  }

  /** @param {boolean} onlyNew */
  showOnlyNew(onlyNew) {
    this._onlyNew = onlyNew;
  }

  /**
   * Begins a visit. From now on, only changes that the user has not seen yet are new.
   *
   * @param {string} directory
   */
  begin(directory) {
    const { seen } = this._of(directory);
    this._visits.set(directory, { seen, before: new Set(seen) });
  }

  /**
   * @param {string} directory
   * @param {Iterable<string>} hunks
   * @returns {boolean} whether the user has seen any of them for the first time
   */
  saw(directory, hunks) {
    const { seen } = this._of(directory);
    const count = seen.size;
    for (const id of hunks) seen.add(id);
    return seen.size > count;
  }

  /**
   * The ids of the review's hunks that the user has seen.
   *
   * @param {Placed} placed
   */
  seenIn(placed) {
    const { seen } = this._of(placed.directory);
    return hunksOf(placed)
      .map(({ id }) => id)
      .filter((id) => seen.has(id));
  }

  /**
   * The hunks that are new. Empty if all hunks of all reviews are new, because then there is nothing to distinguish.
   *
   * @param {Placed[]} reviews
   * @returns {Set<Hunk>}
   */
  news(reviews) {
    const found = this._unseen(reviews);
    return new Set(found.length < reviews.flatMap(hunksOf).length ? found : []);
  }

  /**
   * Whether any hunk is new, even if all of them are.
   *
   * @param {Placed[]} reviews
   */
  hasNew(reviews) {
    return this._unseen(reviews).length > 0;
  }

  /** @param {Placed[]} reviews */
  _unseen(reviews) {
    return reviews.flatMap((placed) => {
      const { before } = this._of(placed.directory);
      return hunksOf(placed).filter(({ id }) => !before.has(id));
    });
  }

  /**
   * @param {string} directory
   * @returns {Visit}
   */
  _of(directory) {
    const found = this._visits.get(directory) ?? { seen: new Set(), before: new Set() };
    this._visits.set(directory, found);
    return found;
  }
}

/** @param {Placed} placed */
function hunksOf({ review }) {
  return review.files.flatMap(({ hunks }) => hunks);
}

module.exports = { hunksOf, ReviewVisits };
