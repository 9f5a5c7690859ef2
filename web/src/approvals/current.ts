// Tracks which approval, or which change of a review, the keys act on. A key decides only if all of the card has been in
// view for a moment, and the person has not just clicked into a text to type.

import { isTyping } from '../ui/typing.ts';

/** Milliseconds for which a card has to be in sight before a key is taken for an answer to it. */
const MOMENT = 500;

/** Milliseconds after a click in which letters are not shortcuts. */
const AFTER_CLICK = 1000;

/** Height in pixels of the slices in which a tall card is marked as seen. */
const SLICE = 40;

const CONTROL = 'button, a, input, select, textarea, summary, label, dialog';

/** Milliseconds for which a button that has moved can't be clicked: the click may have been meant for what was there before. */
const SETTLING = 400;

/** Pixels by which the content above may grow during a scroll, because more messages are rendered. */
const DRIFT = 20;

/** Elements that can cover a card. */
const COVERS = '.toast, [role=menu], .suggestions, .frame.drawn > .side';

type Extent = { top: number; bottom: number };

/** Which parts of a tall card have been in view. */
export class Sight {
  _height: number;
  _seen: boolean[];

  constructor() {
    this._height = 0;
    this._seen = [];
  }

  /**
   * Whether all of it is in sight, or was, one part after the other, with its end in sight now.
   * @param foot heights of what stays in sight of it and covers the rest
   * @param covers what else is over it
   */
  look(card: Extent, view: Extent, head: number, foot: number, covers: readonly Extent[] = []) {
    const isFree = (from: number, to: number) => covers.every((one) => one.bottom <= from || one.top >= to);
    const height = card.bottom - card.top;
    if (Math.abs(height - this._height) > 2) this._seen = [];
    this._height = height;
    if (card.top >= view.top - 2 && card.bottom <= view.bottom + 2 && isFree(card.top, card.bottom)) return true;
    const top = card.top < view.top ? view.top + head : view.top;
    const bottom = card.bottom > view.bottom ? view.bottom - foot : view.bottom;
    const count = Math.ceil(height / SLICE);
    for (let n = 0; n < count; n++) {
      const from = card.top + n * SLICE;
      const to = Math.min(from + SLICE, card.bottom);
      if (!isFree(from, to)) continue;
      if ((from >= top - 2 || to <= card.top + head) && to <= bottom + 2 && to > view.top) this._seen[n] = true;
    }
    // The header and the footer are sticky: they are in view unless something covers them.
    const start = Math.max(card.top, view.top);
    const end = Math.min(card.bottom, view.bottom);
    if (!isFree(start, start + head) || !isFree(end - foot, end)) return false;
    // The end of the card has to be in view too, not only its sticky footer.
    for (let n = 0; n < count; n++) if (!this._seen[n]) return false;
    return card.bottom > view.top + head + foot && card.top < view.bottom - head - foot;
  }
}

/** What keys decide about: a card with a header and a footer. `answered`: it can't be decided any more. */
export type Decidable = {
  element: HTMLElement;
  sight: Sight;
  answered: unknown;
  looked(isInSight: boolean): void;
};

/** What covers other things now. Found once for all cards: the whole page is searched. */
const covering = () =>
  [...document.querySelectorAll(COVERS)]
    .filter((one) => one.checkVisibility({ visibilityProperty: true }))
    .map((one) => one.getBoundingClientRect());

export class Current<Card extends Decidable> {
  _scroller: HTMLElement;
  _cards: () => Card[];
  card: Card | undefined;
  _since: number | undefined;
  _armed: boolean;
  _clicked: number;
  _resized: ResizeObserver;
  /** Where the buttons that accept were, and until when they can't be clicked. */
  _buttons = new Map<HTMLElement, { top: number; left: number; at: number; until: number }>();
  _view = { top: 0, bottom: 0 };

  /** @param cards in the order in which they were asked */
  constructor(scroller: HTMLElement, cards: () => Card[]) {
    this._scroller = scroller;
    this._cards = cards;
    this.card = undefined;
    /** Since when the card has been in sight. */
    this._since = undefined;
    /** Nobody has clicked into a text since. */
    this._armed = true;
    this._clicked = -AFTER_CLICK;
    scroller.addEventListener('scroll', () => this.look(), { passive: true });
    this._resized = new ResizeObserver(() => this.look());
    this._resized.observe(scroller);
  }

  /** Looks again whenever a card changes its size. */
  watch(element: HTMLElement) {
    this._resized.observe(element);
  }

  dispose() {
    this._resized.disconnect();
    this._buttons.clear();
  }

  /** A click or a tap: a person who clicks into a text may type next. A scroll bar is not a text. */
  clicked({ target: clicked, offsetX }: PointerEvent) {
    const target = clicked as Element;
    if (target === this._scroller && offsetX >= this._scroller.clientWidth) return;
    const isText = !target.closest(CONTROL);
    if (isText) this._clicked = performance.now();
    this._armed = !isText;
    // In the next frame: `look` could disable the button that is being pressed.
    requestAnimationFrame(() => this.look());
  }

  /** Makes the clicked card the current one. On click rather than pointerdown, because it can move what is under the pointer. */
  pointed(event: Event) {
    const path = event.composedPath(); // what was clicked may have been redrawn by now
    const card = this._cards().find(({ element }) => path.includes(element));
    if (card && !card.answered && this.choose(card)) this.look();
  }

  /** Gives the keys back to the card, after Esc, Tab, or a step to another message. */
  arm() {
    this._armed = true;
    this._clicked = -AFTER_CLICK;
    this.look();
  }

  /** Makes a card the current one. @returns whether it was not already */
  choose(card: Card | undefined) {
    if (this.card === card) return false;
    this.card?.element.classList.remove('current', 'keyed');
    this.card = card;
    this._since = undefined;
    card?.element.classList.add('current');
    return true;
  }

  /** After cards were added or removed: keeps the current card, or else takes the next one after it, or the first. @returns whether it changed */
  refresh(before: Card[]): boolean {
    const open = this._cards().filter((card) => !card.answered);
    if (this.card && open.includes(this.card)) return false;
    const at = this.card ? before.indexOf(this.card) : -1;
    return this.choose(before.slice(at + 1).find((card) => open.includes(card)) ?? open[0]);
  }

  /** Whether the whole card is in sight, or was read through. */
  get isInSight() {
    return this.card ? this._sees(this.card, covering()) : false;
  }

  _sees(card: Card, covers: readonly DOMRect[]) {
    const sees = card.sight.look(...this._places(card, covers));
    if (!document.hidden) card.looked(sees);
    return sees;
  }

  /** Whether any of the card is on the screen. */
  get isOnScreen() {
    if (!this.card) return false;
    const card = this.card.element.getBoundingClientRect();
    const view = this._scroller.getBoundingClientRect();
    return card.bottom > view.top && card.top < view.bottom;
  }

  /** Whether letters go to the card. */
  get takesLetters() {
    return this._armed && performance.now() - this._clicked >= AFTER_CLICK;
  }

  /**
   * Measures again. @returns whether keys may decide about the current card now
   * @param isScrolled the page scrolled since the last call, not the person
   */
  look(isScrolled = false) {
    this._settle(isScrolled);
    const covers = covering();
    for (const card of this._cards()) if (card !== this.card) this._sees(card, covers);
    const sees = !document.hidden && this.card !== undefined && this._sees(this.card, covers);
    if (!sees) this._since = undefined;
    else if (this._since === undefined) {
      this._since = performance.now();
      setTimeout(() => this.look(), MOMENT + 10);
    }
    const ready = this._since !== undefined && performance.now() - this._since >= MOMENT;
    this.card?.element.classList.toggle('keyed', ready && this._armed && !isTyping());
    return ready;
  }

  _places({ element }: Card, covers: readonly DOMRect[]): [DOMRect, DOMRect, number, number, Extent[]] {
    const height = (css: string) => (element.querySelector(css) as HTMLElement | null)?.offsetHeight ?? 0;
    const card = element.getBoundingClientRect();
    const over = covers.filter(({ left, right }) => left < card.right && right > card.left);
    return [card, this._scroller.getBoundingClientRect(), height(':scope > header'), height(':scope > footer'), over];
  }

  /** Disables accept buttons for a moment after they appear or move, unless the person has scrolled. */
  _settle(isScrolled: boolean) {
    const now = performance.now();
    const { scrollTop } = this._scroller;
    const { top: start, bottom: end } = this._scroller.getBoundingClientRect();
    const isSameView = this._view.top === start && this._view.bottom === end;
    this._view = { top: start, bottom: end };
    const before = this._buttons;
    this._buttons = new Map();
    for (const { element } of this._cards())
      for (const button of element.querySelectorAll<HTMLElement>('footer .accepts')) {
        const { top, left } = button.getBoundingClientRect();
        const at = top + scrollTop;
        const last = before.get(button);
        const isByPerson = !isScrolled && isSameView && last && Math.abs(at - last.at) <= DRIFT;
        const hasMoved = !last || Math.abs(top - last.top) > 3 || Math.abs(left - last.left) > 3;
        const moves = hasMoved && !isByPerson;
        if (moves) setTimeout(() => this.look(), SETTLING + 10);
        const until = moves ? now + SETTLING : (last?.until ?? 0);
        this._buttons.set(button, { top, left, at, until });
        button.classList.toggle('moved', until > now);
      }
  }
}
