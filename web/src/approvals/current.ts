// Tracks the approval request, or the change of a review, that the keys act on, and which of its parts have been in
// view. A key decides only if all of the card has been in view, and the card has now been in view for a moment. A
// letter also requires that the last click was not on text, because the user may type next. A click decides only once
// the button has been in its place for a moment.

import { isBeyond } from '../ui/dom.ts';
import { isTyping } from '../ui/typing.ts';

/** Milliseconds for which a card has to be in view before a key counts as an answer to it. */
const MOMENT = 500;

/** Milliseconds after a click on text during which letters are not shortcuts, even if a control is clicked next. */
const AFTER_CLICK = 1000;

/** Height in pixels of the slices in which a tall card is marked as seen. */
const SLICE = 40;

/** The parts of a card that are as wide as the card. What reaches beyond its edge is not drawn. */
const CONTENT = '.asked, .proposed, .questions';

const CONTROL = 'button, a, input, select, textarea, summary, label, dialog';

/**
 * Milliseconds for which a button that appeared or moved can't be used. A click may be meant for the previous one.
 */
const SETTLING = 500;

/**
 * The controls that must settle before they can be used. These are all controls that answer, but not the buttons for
 * reasons.
 */
const answersIn = (card: HTMLElement): HTMLElement[] => [
  ...[...card.getElementsByTagName('footer')].flatMap((footer) => [
    ...footer.querySelectorAll<HTMLElement>('button:not(.reasons button)'),
  ]),
  ...(card.getElementsByClassName('option') as HTMLCollectionOf<HTMLElement>),
];

/** How many pixels of the part already read stay in view when a card is scrolled to the next part. */
const OVERLAP = 24;

/** Pixels by which the content above may grow during a scroll, because more messages are rendered. */
const DRIFT = 20;

/** Classes of elements that can cover a card. */
const COVERS = ['toast', 'menu-list', 'chip-menu', 'suggestions', 'side', 'jump'];

/** The event that makes the editor of a file measure again which part of its text is in view. */
export const LOOK_AGAIN = 'look';

type Extent = { top: number; bottom: number };

/** Which parts of a tall card have been in view. */
export class Sight {
  _height = 0;
  _width = 0;
  _seen: boolean[] = [];

  /** Sets the card's width. At a different width the lines are elsewhere, even if the card is as tall as before. */
  laidOut(width: number) {
    if (Math.abs(width - this._width) > 2) this._seen = [];
    this._width = width;
  }

  /**
   * Pixels from the top of the card to its first unseen part at or below `from`, or the card's height if all is seen.
   */
  next(from = 0) {
    for (let n = Math.floor(from / SLICE); n * SLICE < this._height; n++) if (!this._seen[n]) return n * SLICE;
    return this._height;
  }

  /** Whether everything between two heights, in pixels from the top of the card, has been in view. */
  has(from: number, to: number) {
    for (let n = Math.max(0, Math.floor(from / SLICE)); n * SLICE < to; n++) if (!this._seen[n]) return false;
    return true;
  }

  /** Whether anything between two heights, in pixels from the top of the card, has been in view. */
  hasAny(from: number, to: number) {
    for (let n = Math.max(0, Math.floor(from / SLICE)); n * SLICE < to; n++) if (this._seen[n]) return true;
    return false;
  }

  /** How many pixels of the card's height have not been in view. */
  get unseen() {
    let count = 0;
    for (let n = 0; n * SLICE < this._height; n++) if (!this._seen[n]) count++;
    return Math.min(count * SLICE, this._height);
  }

  /**
   * Whether all of a card has been in view, at once or one part after the other, and some of it is in view now.
   * @param isDrawn whether a frame was drawn with the card in this place; only then does what is in view count as seen
   * @param head the height of the card's sticky header, under which the rest of it scrolls. `foot`: that of its footer
   * @param covers where other elements cover it
   */
  look(
    isDrawn: boolean,
    card: Extent,
    view: Extent,
    head: number,
    foot: number,
    covers: readonly Extent[] = [],
  ): boolean {
    const isFree = (from: number, to: number) => covers.every((one) => one.bottom <= from || one.top >= to);
    const height = card.bottom - card.top;
    if (Math.abs(height - this._height) > 2) this._seen = [];
    this._height = height;
    if (height <= 0) return false; // the card is not drawn
    const count = Math.ceil(height / SLICE);
    if (isDrawn && card.top >= view.top - 2 && card.bottom <= view.bottom + 2 && isFree(card.top, card.bottom)) {
      this._seen = Array(count).fill(true);
      return true;
    }
    const top = card.top < view.top ? view.top + head : view.top;
    const bottom = card.bottom > view.bottom ? view.bottom - foot : view.bottom;
    for (let n = 0; isDrawn && n < count; n++) {
      const from = card.top + n * SLICE;
      const to = Math.min(from + SLICE, card.bottom);
      if (!isFree(from, to)) continue;
      if ((from >= top - 2 || to <= card.top + head) && to <= bottom + 2 && to > view.top) this._seen[n] = true;
    }
    // The header and the footer are sticky, so they are in view unless something covers them.
    const start = Math.max(card.top, view.top);
    const end = Math.min(card.bottom, view.bottom);
    if (!isFree(start, start + head) || !isFree(end - foot, end)) return false;
    // Some of the card's content has to be in view now, not only its sticky header or footer.
    for (let n = 0; n < count; n++) if (!this._seen[n]) return false;
    return card.bottom > view.top + head + foot && card.top < view.bottom - head - foot;
  }
}

/**
 * Why nothing of a card counts as seen. Either the screen shows only part of its width, because the user has zoomed in,
 * or some of its content is wider than the card.
 */
export type Cut = 'zoomed' | 'wide' | undefined;

/** A card with a header and a footer, on which keys decide. `answered` is set once it can no longer be decided on. */
export type Decidable = {
  element: HTMLElement;
  sight: Sight;
  answered: unknown;
  looked(isInView: boolean, cut: Cut): void;
};

/**
 * The areas in which cards may be covered now. They are found once for all cards, because the whole page is searched.
 * The search is by class, for which browsers keep lists. A selector would take a long time on a page with a long diff.
 */
const covering = () =>
  COVERS.flatMap((name) => [...document.getElementsByClassName(name)])
    .filter((one) => !one.matches('.side') || one.matches('.frame.drawn > .side'))
    .filter((one) => one.checkVisibility({ visibilityProperty: true }))
    .map((one) => one.getBoundingClientRect());

/** Whether the user has zoomed in, so that the screen shows only a part of the width of a box. */
function isCut({ left, right }: DOMRect) {
  const zoom = visualViewport;
  return zoom !== null && (left < zoom.offsetLeft - 2 || right > zoom.offsetLeft + zoom.width + 2);
}

/** The part of a box's vertical range that the screen shows. Empty if the user has zoomed in to a part of its width. */
function onScreen(box: DOMRect, { top, bottom }: Extent): Extent {
  const zoom = visualViewport;
  if (!zoom) return { top, bottom };
  if (isCut(box)) return { top, bottom: top };
  return { top: Math.max(top, zoom.offsetTop), bottom: Math.min(bottom, zoom.offsetTop + zoom.height) };
}

/** The largest part of the vertical range of a box that the screen shows and that nothing covers. */
export function freePart(box: DOMRect, range: Extent): Extent {
  const free = onScreen(box, range);
  for (const cover of covering()) {
    if (cover.left >= box.right || cover.right <= box.left) continue;
    if (cover.top >= free.bottom || cover.bottom <= free.top) continue;
    if (cover.top - free.top > free.bottom - cover.bottom) free.bottom = cover.top;
    else free.top = cover.bottom;
  }
  return free;
}

export class Current<Card extends Decidable> {
  _scroller: HTMLElement;
  _cards: () => Card[];
  card: Card | undefined;
  _since: number | undefined;
  _armed: boolean;
  _clicked: number;
  _resized: ResizeObserver;
  /** Where the controls that answer were, and until when they can't be clicked. */
  _buttons = new Map<HTMLElement, { top: number; left: number; at: number; until: number }>();
  _view = { top: 0, bottom: 0, at: 0 };
  /** The request for the next frame, in which everything is measured again. */
  _frame: number | undefined;
  /** The timer that fires once that frame is drawn. */
  _drawn: ReturnType<typeof setTimeout> | undefined;

  /** @param cards returns the cards in the order of their requests */
  constructor(scroller: HTMLElement, cards: () => Card[]) {
    this._scroller = scroller;
    this._cards = cards;
    this.card = undefined;
    /** When the card came into view, as `performance.now()`, or undefined while it is not in view. */
    this._since = undefined;
    /** False after a click on text, until a control is clicked or `arm` is called. */
    this._armed = true;
    this._clicked = -AFTER_CLICK;
    scroller.addEventListener('scroll', () => this.look(), { passive: true });
    this._resized = new ResizeObserver(() => this.look());
    this._resized.observe(scroller);
    for (const type of ['resize', 'scroll']) visualViewport?.addEventListener(type, this._changed);
    document.addEventListener('visibilitychange', this._changed);
    document.addEventListener('close', this._changed, true); // this event also arrives when a dialog closes
    // Blocks clicks on a button that has just moved, including those that come from a key.
    scroller.addEventListener(
      'click',
      (event) => {
        if (!(event.target as Element).closest('.moved')) return;
        event.preventDefault();
        event.stopImmediatePropagation();
      },
      true,
    );
  }

  _changed = () => void this.look();

  /** Looks again whenever a card changes its size. */
  watch(element: HTMLElement) {
    this._resized.observe(element);
  }

  dispose() {
    this._resized.disconnect();
    if (this._frame !== undefined) cancelAnimationFrame(this._frame);
    clearTimeout(this._drawn);
    for (const type of ['resize', 'scroll']) visualViewport?.removeEventListener(type, this._changed);
    document.removeEventListener('visibilitychange', this._changed);
    document.removeEventListener('close', this._changed, true);
    this._buttons.clear();
  }

  /**
   * Scrolls to the first part of the card, or of what is below `from`, that has not been in view. It counts as seen
   * once a frame is drawn.
   */
  readOn(card: Card, from = 0) {
    const [{ top }, view, head] = this._places(card, []);
    this._scroller.scrollBy({ top: top + card.sight.next(from) - view.top - head - OVERLAP, behavior: 'instant' });
    this.look();
  }

  /**
   * Handles a click or a tap. After one on text, letters no longer decide on the card, because the user may type next.
   * A scroll bar is not text.
   */
  clicked({ target: clicked, offsetX }: PointerEvent) {
    const target = clicked as Element;
    if (target === this._scroller && offsetX >= this._scroller.clientWidth) return;
    const isText = !target.closest(CONTROL);
    if (isText) this._clicked = performance.now();
    this._armed = !isText;
    // Looks again only in the next frame, because `look` could disable the button that is being pressed.
    requestAnimationFrame(() => this.look());
  }

  /**
   * Makes the clicked card the current one. Called on click, not on pointerdown, because this can move what is clicked.
   * @param cards the cards among which the clicked one is
   */
  pointed(event: Event, cards = this._cards()) {
    const path = event.composedPath(); // what was clicked may have been redrawn by now
    const card = cards.find(({ element }) => path.includes(element));
    if (card && !card.answered && this.choose(card)) this.look();
  }

  /** Lets letters act on the card again, after Esc, Tab, or a step to another item. */
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

  /**
   * Updates the current card after cards were added or removed. Keeps it if it is still open, otherwise takes the next
   * open card after it, or the first. @returns whether it changed
   */
  refresh(before: Card[]): boolean {
    const open = this._cards().filter((card) => !card.answered);
    if (this.card && open.includes(this.card)) return false;
    const at = this.card ? before.indexOf(this.card) : -1;
    return this.choose(before.slice(at + 1).find((card) => open.includes(card)) ?? open[0]);
  }

  /** Whether all of the current card has been in view and still is. If it is taller than the view, a part suffices. */
  get isInView() {
    return this.card ? this._sees(this.card, covering(), false) : false;
  }

  /** Whether all of the card has been in view and still is. If it is taller than the view, a part suffices. */
  _sees(card: Card, covers: readonly DOMRect[], isDrawn: boolean) {
    if (document.hidden || document.querySelector('dialog[open]')) return false;
    const places = this._places(card, covers);
    card.sight.laidOut(card.element.clientWidth);
    const isWide = [...card.element.children].some((part) => part.matches(CONTENT) && isBeyond(part));
    const sees = card.sight.look(isDrawn && !isWide, ...places) && !isWide;
    const [{ top, bottom }, view] = places;
    card.looked(sees, isCut(card.element.getBoundingClientRect()) ? 'zoomed' : isWide ? 'wide' : undefined);
    const fits = bottom - top <= view.bottom - view.top;
    return sees && (!fits || (top >= view.top - 2 && bottom <= view.bottom + 2));
  }

  /** Whether any of the card is on the screen. */
  get isOnScreen() {
    if (!this.card) return false;
    const card = this.card.element.getBoundingClientRect();
    const view = this._scroller.getBoundingClientRect();
    return card.bottom > view.top && card.top < view.bottom;
  }

  /** Whether letters act on the card. */
  get takesLetters() {
    return this._armed && performance.now() - this._clicked >= AFTER_CLICK;
  }

  /**
   * Measures again. @returns whether keys may decide on the current card now
   * @param isScrolled whether the web UI, not the user, has scrolled since the last call
   */
  look(isScrolled = false) {
    this._lookWhenDrawn();
    return this._look(isScrolled);
  }

  /**
   * Measures after the next frame. A busy browser may draw nothing for a while, so what appeared and disappeared in the
   * meantime was never in view. Nor was what scrolled away before its frame was drawn, so only what is in the same
   * place before and after the frame is drawn counts.
   */
  _lookWhenDrawn() {
    this._frame ??= requestAnimationFrame(() => {
      const covers = covering();
      const drawn = new Map(this._cards().map((card) => [card, this._placeOf(card, covers)]));
      this._drawn = setTimeout(() => {
        this._frame = undefined;
        this._look(false, drawn);
      });
    });
  }

  /** @param drawn where the cards are in the frame that has just been drawn */
  _look(isScrolled: boolean, drawn?: ReadonlyMap<Card, string>) {
    this._settle(isScrolled);
    const covers = covering();
    const isDrawn = (card: Card) => drawn !== undefined && drawn.get(card) === this._placeOf(card, covers);
    const cards = this._cards();
    if (drawn && !cards.every(isDrawn)) this._lookWhenDrawn();
    for (const card of cards) if (card !== this.card) this._sees(card, covers, isDrawn(card));
    const sees = !document.hidden && this.card !== undefined && this._sees(this.card, covers, isDrawn(this.card));
    // A card whose content has just changed is not in view, but may be in view again in the next frame.
    const isRedrawn = !drawn && !document.hidden && this.card !== undefined && this.card.sight.unseen > 0;
    if (!sees && !isRedrawn) this._since = undefined;
    else if (sees && this._since === undefined) {
      this._since = performance.now();
      setTimeout(() => this.look(), MOMENT + 10);
    }
    const ready = sees && this._since !== undefined && performance.now() - this._since >= MOMENT;
    this.card?.element.classList.toggle('keyed', ready && this._armed && !isTyping());
    return ready;
  }

  /** A string that determines which parts of a card are in view. If two such strings are equal, nothing has moved. */
  _placeOf(card: Card, covers: readonly DOMRect[]) {
    return JSON.stringify([card.element.clientWidth, ...this._places(card, covers)]);
  }

  _places({ element }: Card, covers: readonly DOMRect[]): [Extent, Extent, number, number, Extent[]] {
    const height = (css: string) => {
      const part = element.querySelector<HTMLElement>(css);
      return part && getComputedStyle(part).position === 'sticky' ? part.offsetHeight : 0;
    };
    const card = element.getBoundingClientRect();
    const over = covers.filter(({ left, right }) => left < card.right && right > card.left);
    const view = onScreen(card, this._scroller.getBoundingClientRect());
    // The buttons at the end come and go, and need not be read, so they are not part of what has to be in view.
    const end = element.querySelector<HTMLElement>(':scope > footer')?.offsetHeight ?? 0;
    const foot = height(':scope > footer');
    const content = { top: card.top, bottom: card.bottom - end };
    return [content, { top: view.top, bottom: view.bottom - foot }, height(':scope > header'), 0, over];
  }

  /** Disables the ways to answer for a moment after they appear or move, unless the user's scrolling moved them. */
  _settle(isScrolled: boolean) {
    const now = performance.now();
    const { scrollTop } = this._scroller;
    const { top: start, bottom: end } = this._scroller.getBoundingClientRect();
    const isSameView = this._view.top === start && this._view.bottom === end;
    const hasScrolled = this._view.at !== scrollTop;
    this._view = { top: start, bottom: end, at: scrollTop };
    const before = this._buttons;
    this._buttons = new Map();
    for (const { element } of this._cards())
      for (const button of answersIn(element)) {
        const { top, left } = button.getBoundingClientRect();
        const at = top + scrollTop;
        const last = before.get(button);
        const isByPerson = hasScrolled && !isScrolled && isSameView && last && Math.abs(at - last.at) <= DRIFT;
        const hasMoved = !last || Math.abs(top - last.top) > 3 || Math.abs(left - last.left) > 3;
        const moves = hasMoved && !isByPerson;
        if (moves) setTimeout(() => this.look(), SETTLING + 10);
        const until = moves ? now + SETTLING : (last?.until ?? 0);
        this._buttons.set(button, { top, left, at, until });
        button.classList.toggle('moved', until > now);
      }
  }
}
