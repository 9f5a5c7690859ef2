// Tracks the parts of a review that are drawn: which part the keys act on, and which parts are near. Scrolls parts into
// view.

import { type Signal, signal } from '@preact/signals';

import { Current, type Decidable, Sight } from '../approvals/current.ts';
import * as kept from '../state/kept.ts';
import { isFocusLost } from '../ui/focus.ts';
import { isCovered } from '../ui/shortcuts.ts';
import { isSmall } from '../ui/small.ts';
import { toasts } from '../ui/toasts.tsx';
import { isComposing, isTyping } from '../ui/typing.ts';
import { follow, type Part } from './model.ts';
import type { OpenReview } from './open-review.ts';

/** A part that is drawn. */
class Card implements Decidable {
  part: Part;
  element: HTMLElement;
  sight = new Sight();
  _review: OpenReview;

  constructor(part: Part, element: HTMLElement, review: OpenReview) {
    this.part = part;
    this.element = element;
    this._review = review;
  }

  get answered() {
    return this.part.isGone;
  }

  looked(isInView: boolean) {
    const standing = this._review.of(this.part.key);
    if (isInView && standing.unopened.peek() === 0) this._review.saw(this.part);
  }
}

class CurrentCard extends Current<Card> {
  _chosen: (card: Card) => void;

  constructor(scroller: HTMLElement, cards: () => Card[], chosen: (card: Card) => void) {
    super(scroller, cards);
    this._chosen = chosen;
  }

  override choose(card: Card | undefined) {
    const isOther = super.choose(card);
    if (isOther && card) this._chosen(card);
    return isOther;
  }
}

/** Milliseconds for which a part that was brought into view stays there while the parts around it are drawn. */
const HELD = 5000;

/** Pixels above a part that is brought into view: at least its `scroll-margin` in review.css. */
const ABOVE = 56;

type Acts = {
  keep(part: Part): void;
  undo(part: Part): void;
  edit(part: Part): void;
  comment(part: Part): void;
  leave(): void;
};

export class Board {
  review: OpenReview;
  /** The key of the current part. */
  at: Signal<string | undefined> = signal(undefined);
  /** Whether one part is shown at a time. */
  isPaged = isSmall;
  /** Whether the list of files is shown instead of a part, on a small screen. */
  showsList: Signal<boolean> = signal(false);
  /** The paths of the files whose parts are drawn: those that have been near the viewport or the target of `goTo`. */
  drawn: Signal<ReadonlySet<string>> = signal(new Set());
  _cards: Map<string, Card> = new Map();
  _near: Set<Element> = new Set();
  _current: CurrentCard | undefined;
  _scroller: HTMLElement | undefined;
  _cardsNear: IntersectionObserver | undefined;
  _filesNear: IntersectionObserver | undefined;
  _paths: WeakMap<Element, string> = new WeakMap();
  _anchor: { key: string; top: number } | undefined;
  _order: string[] = [];
  /** The part that comes into view once it is drawn. */
  _wanted: { key: string; takesFocus: boolean } | undefined;
  /** The part that stays in view until the user scrolls, clicks or presses a key, for at most `HELD` milliseconds. */
  _held: { key: string; until: number } | undefined;
  _sizes: ResizeObserver | undefined;
  _isMine = false;
  _acts: Acts;
  _ends: (() => void)[] = [];

  constructor(review: OpenReview, acts: Acts) {
    this.review = review;
    this._acts = acts;
  }

  /** Starts to observe `scroller` and to handle keys. Called once the element is in the DOM. */
  open(scroller: HTMLElement) {
    this._scroller = scroller;
    const near = (entries: IntersectionObserverEntry[]) => {
      for (const { target, isIntersecting } of entries) this._near[isIntersecting ? 'add' : 'delete'](target);
      this.look();
    };
    this._cardsNear = new IntersectionObserver(near, { root: scroller, rootMargin: '50%' });
    this._filesNear = new IntersectionObserver(
      (entries) => this._draw(entries.filter((one) => one.isIntersecting).map(({ target }) => this._paths.get(target))),
      { root: scroller, rootMargin: '100%' },
    );
    this._current = new CurrentCard(
      scroller,
      () => [...this._cards.values()].filter((one) => this._near.has(one.element) || one === this._current?.card),
      ({ part }) => (this.at.value = part.key),
    );
    const current = this._current;
    this._sizes = new ResizeObserver(() => this._hold());
    const listen = (target: EventTarget, type: string, act: (event: any) => void) => {
      target.addEventListener(type, act);
      this._ends.push(() => target.removeEventListener(type, act));
    };
    const later = () => requestAnimationFrame(() => this.look());
    listen(document, 'pointerdown', (event) => current.clicked(event));
    // All parts that are drawn: one that has just been scrolled into view may not be near yet.
    listen(document, 'click', (event) => current.pointed(event, [...this._cards.values()]));
    const letGo = () => {
      this._held = undefined;
      this._wanted = undefined; // the first part is still to be brought into view while the review is first drawn
    };
    for (const type of ['wheel', 'touchmove', 'pointerdown']) listen(scroller, type, letGo);
    for (const type of ['focusin', 'focusout']) listen(document, type, later);
    listen(document, 'keydown', (event) => this._key(event));
    this._ends.push(toasts.subscribe(later));
  }

  dispose() {
    for (const end of this._ends.splice(0)) end();
    this._cardsNear?.disconnect();
    this._filesNear?.disconnect();
    this._sizes?.disconnect();
    this._current?.dispose();
    this._cards.clear();
  }

  look() {
    this._current?.look();
  }

  /** Adds a part that has been drawn. @returns a function that removes it */
  add(part: Part, element: HTMLElement) {
    const card = new Card(part, element, this.review);
    this._cards.set(part.key, card);
    this._cardsNear?.observe(element);
    this._sizes?.observe(element);
    this._current?.watch(element);
    // It counts as near until the observer has reported.
    this._near.add(element);
    if (part.key === this.at.peek()) this._current?.choose(card);
    return () => {
      this._cardsNear?.unobserve(element);
      this._sizes?.unobserve(element);
      this._near.delete(element);
      if (this._cards.get(part.key) === card) this._cards.delete(part.key);
      if (this._current?.card === card) this._current.choose(undefined);
    };
  }

  /** Adds a file, whose parts are drawn once it is near. @returns a function that removes it */
  addFile(path: string, element: HTMLElement) {
    this._paths.set(element, path);
    this._filesNear?.observe(element);
    this._sizes?.observe(element);
    return () => {
      this._filesNear?.unobserve(element);
      this._sizes?.unobserve(element);
    };
  }

  /** Called before a new version of the review is drawn. Remembers what is in view, so that it stays where it is. */
  before(isMine: boolean) {
    this._isMine ||= isMine;
    const top = this._scroller?.getBoundingClientRect().top ?? 0;
    const inView = this._order.find((key) => {
      const card = this._cards.get(key);
      return card && card.element.getBoundingClientRect().bottom > top + 1;
    });
    const key =
      this._order.includes(this.at.peek() ?? '') && this._isOnScreen(this.at.peek()) ? this.at.peek() : inView;
    const card = key === undefined ? undefined : this._cards.get(key);
    this._anchor = card && { key: card.part.key, top: card.element.getBoundingClientRect().top };
  }

  /** Called when a new version of the review has been drawn. */
  after(parts: readonly Part[]) {
    const before = this._order;
    const now = parts.map(({ key }) => key);
    const isMine = this._isMine;
    const anchor = this._anchor;
    this._order = now;
    this._isMine = false;
    this._anchor = undefined;
    const card = anchor && this._cards.get(anchor.key);
    if (card && this._scroller)
      this._scroller.scrollTop += Math.round(card.element.getBoundingClientRect().top - anchor.top);
    const at = this.at.peek();
    const next = follow(before, now, at);
    if (next === undefined) this.at.value = undefined;
    // Scrolls only after the user's own decision or on the first load, so that the view of a user who is reading
    // another part does not move.
    else if (next !== at) this.goTo(next, { scrolls: isMine || before.length === 0, takesFocus: isFocusLost() });
    else if (isMine && isFocusLost()) this.focus(next);
    this.look();
  }

  /**
   * Makes a part the current one and, with `scrolls`, shows it instead of the list of files and scrolls to it. Does
   * nothing if the part is not shown.
   */
  goTo(key: string, { scrolls = true, takesFocus = true } = {}) {
    const part = this.review.parts.peek().find((one) => one.key === key);
    if (!part) return;
    this.at.value = key;
    if (scrolls) this.showsList.value = false;
    this._draw([part.path]);
    this._wanted = scrolls ? { key, takesFocus } : undefined;
    const card = this._cards.get(key);
    if (card) this._current?.choose(card);
    if (card && !scrolls && takesFocus) this.focus(key);
    // If the part has to be drawn first, it is in the DOM in the next frame.
    if (scrolls) requestAnimationFrame(() => requestAnimationFrame(() => this._reveal()));
  }

  /** Gives the focus to a part that is drawn. */
  focus(key: string) {
    this._cards.get(key)?.element.focus({ preventScroll: true });
  }

  /**
   * Gives the focus to a line's comment button, or to the part if the line has none. `name`: the line, as in `Diff`.
   */
  focusLine(key: string, name: string) {
    const element = this._cards.get(key)?.element;
    (element?.querySelector<HTMLElement>(`.comment[data-line="${name}"]`) ?? element)?.focus({ preventScroll: true });
  }

  /** Brings the field of an edit into view once it is drawn. */
  showField(key: string) {
    requestAnimationFrame(() => {
      this._held = undefined;
      this._cards.get(key)?.element.querySelector('textarea')?.scrollIntoView({ block: 'nearest' });
    });
  }

  step(by: 1 | -1) {
    const keys = this.review.parts.peek().map(({ key }) => key);
    const at = this.at.peek();
    const here = at !== undefined && (this.isPaged.peek() || this._isOnScreen(at)) ? keys.indexOf(at) : -1;
    const inView = keys.findIndex((key) => this._isOnScreen(key));
    const next = keys[here >= 0 ? here + by : Math.max(0, inView)];
    if (next !== undefined) this.goTo(next);
    this._current?.arm();
  }

  _reveal() {
    const { _wanted: wanted, _scroller: scroller } = this;
    const card = wanted && this._cards.get(wanted.key);
    if (!wanted || !card || !scroller) return;
    this._wanted = undefined;
    this._current?.choose(card);
    if (this.isPaged.peek()) scroller.scrollTop = 0;
    else {
      this._held = { key: wanted.key, until: performance.now() + HELD };
      this._bring(card, scroller);
    }
    if (wanted.takesFocus) card.element.focus({ preventScroll: true });
    this._current?.arm();
  }

  _bring({ element }: Card, scroller: HTMLElement) {
    const isHigher = element.offsetHeight + ABOVE > scroller.clientHeight;
    element.scrollIntoView({ block: isHigher ? 'start' : 'nearest' });
  }

  /** Keeps a part in view after lines around it, or a file above it, were drawn. */
  _hold() {
    const { _held: held, _scroller: scroller } = this;
    const card = held && this._cards.get(held.key);
    if (card && scroller && performance.now() < held.until && !this.isPaged.peek()) this._bring(card, scroller);
  }

  _isOnScreen(key: string | undefined) {
    const element = key === undefined ? undefined : this._cards.get(key)?.element;
    if (!element || !this._scroller) return false;
    const { top, bottom } = element.getBoundingClientRect();
    const view = this._scroller.getBoundingClientRect();
    return bottom > view.top && top < view.bottom;
  }

  _draw(paths: readonly (string | undefined)[]) {
    const found = paths.filter((path) => path !== undefined && !this.drawn.peek().has(path)) as string[];
    if (found.length) this.drawn.value = new Set([...this.drawn.peek(), ...found]);
  }

  _key(event: KeyboardEvent) {
    if (isComposing(event) || document.querySelector('dialog[open]') || isCovered()) return;
    const current = this._current;
    const part = current?.card?.part;
    const target = event.composedPath()[0] as HTMLElement;
    if (!current) return;
    this._held = undefined;
    if (event.key === 'Escape') {
      const took = !current.takesLetters;
      current.arm();
      this._escape(target, took);
      return;
    }
    if (event.key === 'Tab') current.arm();
    if (isTyping(target) || event.ctrlKey || event.metaKey || event.altKey || kept.setting('keys') === 'off') return;
    if (event.key === 'j' || event.key === 'k') {
      event.preventDefault();
      this.step(event.key === 'j' ? 1 : -1);
      return;
    }
    const acts: Record<string, (part: Part) => void> = {
      a: this._acts.keep,
      u: this._acts.undo,
      e: this._acts.edit,
      c: this._acts.comment,
    };
    const act = Object.hasOwn(acts, event.key) ? acts[event.key] : undefined;
    if (!act || !part?.hunk) return;
    event.preventDefault();
    // A key that is held down would decide on the next part, too.
    if (!event.repeat && current.takesLetters && current.look()) act(part);
  }

  /** @param took whether this press of Escape made letters shortcuts again; such a press does not leave the review */
  _escape(target: HTMLElement, took: boolean) {
    const key = target.closest<HTMLElement>('[data-part]')?.dataset.part ?? this.at.peek();
    const card = key === undefined ? undefined : this._cards.get(key);
    if (card && this.review.back(card.part)) {
      this.focus(card.part.key);
      return;
    }
    if (this.showsList.peek()) {
      this.showsList.value = false;
      return;
    }
    if (!took && !isTyping(target)) this._acts.leave();
  }
}
