// Which of several approvals the keys act on. Keys decide only what a person can have read: all of the card has been in view
// for a moment, and the person has not just clicked into a text to type.

/** Milliseconds for which a card has to be in sight before a key is taken for an answer to it. */
const MOMENT = 500;

/** Milliseconds behind a click in which a letter is not taken for an answer. */
const AFTER_CLICK = 1000;

/** Pixels of a card that count as seen together. */
const SLICE = 40;

const CONTROL = 'button, a, input, select, textarea, summary, label, dialog';

/** What of a tall card has been in sight. */
export class Sight {
  constructor() {
    this._height = 0;
    /** @type {boolean[]} */
    this._seen = [];
  }

  /**
   * Whether all of it is in sight, or was, one part after the other, with its end in sight now.
   * @param {{top: number, bottom: number}} card @param {{top: number, bottom: number}} view
   * @param {number} head @param {number} foot heights of what stays in sight of it and covers the rest
   */
  look(card, view, head, foot) {
    const height = card.bottom - card.top;
    if (Math.abs(height - this._height) > 2) this._seen = [];
    this._height = height;
    if (card.top >= view.top - 2 && card.bottom <= view.bottom + 2) return true;
    const top = card.top < view.top ? view.top + head : view.top;
    const bottom = card.bottom > view.bottom ? view.bottom - foot : view.bottom;
    const count = Math.ceil(height / SLICE);
    for (let n = 0; n < count; n++) {
      const from = card.top + n * SLICE;
      const to = Math.min(from + SLICE, card.bottom);
      if ((from >= top - 2 || to <= card.top + head) && to <= bottom + 2 && to > view.top) this._seen[n] = true;
    }
    // The buttons are always in view; the last part of the card has to be in view as well.
    for (let n = 0; n < count; n++) if (!this._seen[n]) return false;
    return card.bottom > view.top + head + foot && card.top < view.bottom - head - foot;
  }
}

export class Current {
  /**
   * @param {HTMLElement} scroller
   * @param {() => import('./view-approval.js').ApprovalCard[]} cards in the order in which they were asked
   */
  constructor(scroller, cards) {
    this._scroller = scroller;
    this._cards = cards;
    /** @type {import('./view-approval.js').ApprovalCard | undefined} */
    this.card = undefined;
    /** Since when the card has been in sight. @type {number | undefined} */
    this._since = undefined;
    /** Nobody has clicked into a text since. */
    this._armed = true;
    this._clicked = -AFTER_CLICK;
    const look = () => this.look();
    scroller.addEventListener('scroll', look, { passive: true });
    const resized = new ResizeObserver(look);
    resized.observe(scroller);
    /** @param {HTMLElement} element */
    this.watch = (element) => resized.observe(element);
  }

  /** A click or a tap: a person who clicks into a text may type next. A scroll bar is not a text. */
  clicked(/** @type {PointerEvent} */ { target: clicked, offsetX }) {
    const target = /** @type {Element} */ (clicked);
    if (target === this._scroller && offsetX >= this._scroller.clientWidth) return;
    const isText = !target.closest(CONTROL);
    if (isText) this._clicked = performance.now();
    this._armed = !isText;
    this.look();
  }

  /** The card of a click becomes the current one: not before it is over, since that may move what is under the pointer. */
  pointed(/** @type {Event} */ event) {
    const path = event.composedPath(); // what was clicked may have been redrawn by now
    const card = this._cards().find(({ element }) => path.includes(element));
    if (card && !card.answered && this.choose(card)) this.look();
  }

  /** Keys are for the card again: Esc, Tab, or a step to another message. */
  arm() {
    this._armed = true;
    this._clicked = -AFTER_CLICK;
    this.look();
  }

  /** Another card; whether it is another one. @param {import('./view-approval.js').ApprovalCard | undefined} card */
  choose(card) {
    if (this.card === card) return false;
    this.card?.element.classList.remove('current', 'keyed');
    this.card = card;
    this._since = undefined;
    card?.element.classList.add('current');
    return true;
  }

  /** After cards have come or gone: the same one, else the next behind it, else the first. @returns {boolean} whether it is another one */
  refresh(/** @type {import('./view-approval.js').ApprovalCard[]} */ before) {
    const open = this._cards().filter((card) => !card.answered);
    if (this.card && open.includes(this.card)) return false;
    const at = this.card ? before.indexOf(this.card) : -1;
    return this.choose(before.slice(at + 1).find((card) => open.includes(card)) ?? open[0]);
  }

  /** Whether the whole card is in sight, or was read through. */
  get isInSight() {
    return Boolean(this.card && this.card.sight.look(...this._places(this.card)));
  }

  /** Whether any of the card is on the screen. */
  get isOnScreen() {
    if (!this.card) return false;
    const [card, view] = this._places(this.card);
    return card.bottom > view.top && card.top < view.bottom;
  }

  /** Whether letters go to the card. */
  get takesLetters() {
    return this._armed && performance.now() - this._clicked >= AFTER_CLICK;
  }

  /** Looks again where everything is; whether the keys may decide about the card now. */
  look() {
    for (const card of this._cards()) if (card !== this.card) card.sight.look(...this._places(card));
    const sees = !document.hidden && this.isInSight;
    if (!sees) this._since = undefined;
    else if (this._since === undefined) {
      this._since = performance.now();
      setTimeout(() => this.look(), MOMENT + 10);
    }
    const ready = this._since !== undefined && performance.now() - this._since >= MOMENT;
    this.card?.element.classList.toggle('keyed', ready && this._armed && !isTyping());
    return ready;
  }

  /** @returns {[DOMRect, DOMRect, number, number]} */
  _places({ element }) {
    const height = (/** @type {string} */ css) => /** @type {HTMLElement | null} */ (element.querySelector(css))?.offsetHeight ?? 0;
    return [element.getBoundingClientRect(), this._scroller.getBoundingClientRect(), height(':scope > header'), height(':scope > footer')];
  }
}

/** Whether what is typed goes into a field. */
export const isTyping = (/** @type {Element | null} */ target = document.activeElement) =>
  Boolean(target?.matches('textarea, select, input:not([type=checkbox]):not([type=radio])'));
