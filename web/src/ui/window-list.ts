// A long list that keeps only the items near the reader in the DOM. The visible items stay in place while items are
// added and removed around them.

/** The maximum number of items in the DOM. */
const MOST = 90;

/** How many items are added at once when the reader scrolls further. */
const STEP = 30;

/** Pixels from either end at which more items are added. */
const NEAR = 900;

/** Pixels between an element that is scrolled into view and the edge. */
const MARGIN = 8;

/** Pixels from the end within which the reader counts as being at the end. */
const AT_END = 60;

export class WindowList {
  _scroller: HTMLElement;
  _list: HTMLElement;
  _world: {
    render: (item: any, node?: HTMLElement) => HTMLElement;
    older: () => Promise<boolean>;
    newer: () => Promise<boolean>;
    moved: () => void;
    keep: () => HTMLElement | undefined;
    gone: (node: HTMLElement) => void;
  };
  _items: any[];
  _from: number;
  _to: number;
  _shown: Map<string, { node: HTMLElement; version: unknown }>;
  _anchor: { node: HTMLElement; top: number } | undefined;
  _asking: boolean;
  follows: boolean;
  _at: number;
  _held: HTMLElement | undefined;
  _passed: HTMLElement | undefined;
  _first: any;
  _resized: ResizeObserver;

  /**
   * @param scroller the element that scrolls; it contains `list`
   * @param world
   *   `render`: renders an item into `node`, the element that it was rendered into before, or a new one, and returns it
   *   `gone`: called when an element has left the DOM
   *   `keep`: returns the element that must stay in view while the reader follows the end
   */
  constructor(
    scroller: HTMLElement,
    list: HTMLElement,
    world: {
      render: (item: any, node?: HTMLElement) => HTMLElement;
      older: () => Promise<boolean>;
      newer: () => Promise<boolean>;
      moved: () => void;
      keep: () => HTMLElement | undefined;
      gone: (node: HTMLElement) => void;
    },
  ) {
    this._scroller = scroller;
    this._list = list;
    this._world = world;
    this._items = [];
    this._from = 0;
    this._to = 0;
    this._shown = new Map();
    this._asking = false;
    /** Whether the list stays at its end, because the reader wants to see what is new. */
    this.follows = true;
    this._at = 0;
    /** The element that was scrolled into view, until the reader scrolls. */
    this._held = undefined;
    /** What `keep` returned when the reader scrolled to the end: if taller than the view, it is not revealed again. */
    this._passed = undefined;
    scroller.addEventListener('scroll', () => this._scrolled(), { passive: true });
    this._resized = new ResizeObserver(() => this.settle());
    this._resized.observe(list);
  }

  /** Removes all items from the DOM. */
  dispose() {
    this._resized.disconnect();
    this._items = [];
    this._place(0, 0);
  }

  /** Replaces the items. Items that were already shown are recognized by their keys. */
  update(items: any[]) {
    const first = this._first;
    const length = this._to - this._from;
    this._items = items;
    if (this.follows) {
      this._place(Math.max(0, items.length - MOST), items.length);
      this.settle();
      this._fill();
      return;
    }
    const at = first === undefined ? -1 : items.findIndex((item) => item.key === first);
    const from = at < 0 ? Math.max(0, Math.min(this._from, items.length - MOST)) : at;
    this._keeping(() =>
      this._place(from, Math.min(items.length, from + Math.max(length, Math.min(MOST, items.length)))),
    );
    this._fill();
  }

  /** Scrolls to the end and stays there. */
  toEnd() {
    this.follows = true;
    this.update(this._items);
    this._world.moved();
  }

  /** Scrolls to an item, however far away it is. Returns its element, or undefined if the list does not contain it. */
  goTo(key: string): HTMLElement | undefined {
    const at = this._items.findIndex((item) => item.key === key);
    if (at < 0) return undefined;
    this.follows = false;
    this._held = undefined;
    const from = Math.max(0, Math.min(at - STEP, this._items.length - MOST));
    this._place(from, Math.min(this._items.length, from + MOST));
    const node = this._shown.get(key)?.node;
    if (node) {
      this._scroller.scrollTop +=
        node.getBoundingClientRect().top - this._scroller.getBoundingClientRect().top - MARGIN;
      this._at = this._scroller.scrollTop;
      this._hold();
    }
    this._fill();
    this._world.moved();
    return node;
  }

  /** Corrects the scroll position after anything has changed its height. */
  settle() {
    if (!this.follows) {
      if (this._held?.isConnected) this.reveal(this._held);
      else if (this._anchor?.node.isConnected) {
        // Something above the reader has grown, for example because colors or an image were added.
        const by = this._anchor.node.getBoundingClientRect().top - this._anchor.top;
        if (by) this._at = this._scroller.scrollTop += by;
      }
      return;
    }
    this._scroller.scrollTop = this._scroller.scrollHeight;
    const kept = this._world.keep();
    const isPassed = kept === this._passed && kept && kept.offsetHeight > this._scroller.clientHeight;
    if (kept && !isPassed) this.reveal(kept);
  }

  /** Runs `scroll`, which scrolls for the reader, and treats the result as if the reader had scrolled. */
  scrolls(scroll: () => void) {
    scroll();
    this._scrolled();
  }

  /** Scrolls an element into view, or its top if it is taller than the view. Afterwards, the list follows its end only
   * if the end is in view. */
  reveal(element: HTMLElement) {
    const view = this._scroller.getBoundingClientRect();
    const { top, bottom } = element.getBoundingClientRect();
    if (!view.height || (top >= view.top && bottom <= view.bottom)) return;
    const by =
      top < view.top || bottom - top > view.height - MARGIN ? top - view.top - MARGIN : bottom - view.bottom + MARGIN;
    this.follows = false;
    this._held = element;
    this._scroller.scrollTop += by;
    this._at = this._scroller.scrollTop;
    this._world.moved();
  }

  _scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this._scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < AT_END && this._to === this._items.length;
    if (Math.abs(scrollTop - this._at) > 2) {
      this._held = undefined;
      this._passed = atEnd ? this._world.keep() : undefined;
    }
    // A reader leaves the end only by scrolling up, because content that grows below does not move the view.
    if (atEnd) this.follows = true;
    else if (scrollTop < this._at - 2) this.follows = false;
    this._at = scrollTop;
    this._fill();
    if (!this.follows) this._hold();
    this._world.moved();
  }

  /** Adds the items that are near the view, or requests more. */
  _fill() {
    const { scrollTop, clientHeight, scrollHeight } = this._scroller;
    if (clientHeight === 0) return;
    if (scrollTop < NEAR && this._from > 0) {
      const from = Math.max(0, this._from - STEP);
      this._keeping(() => this._place(from, Math.min(this._to, from + MOST)));
    } else if (scrollHeight - scrollTop - clientHeight < NEAR && this._to < this._items.length) {
      const to = Math.min(this._items.length, this._to + STEP);
      this._keeping(() => this._place(Math.max(this._from, to - MOST), to));
    } else if (scrollTop < NEAR && this._from === 0) this._ask(this._world.older);
    else if (scrollHeight - scrollTop - clientHeight < NEAR) this._ask(this._world.newer);
  }

  _ask(more: () => Promise<boolean>) {
    if (this._asking) return;
    this._asking = true;
    more().then(
      (came) => {
        this._asking = false;
        if (came) this._fill();
      },
      () => (this._asking = false),
    );
  }

  /** Remembers the first element in view, and its position. */
  _hold() {
    const top = this._scroller.getBoundingClientRect().top;
    for (const node of this._list.children) {
      const place = node.getBoundingClientRect();
      if (place.bottom <= top) continue;
      this._anchor = { node: node as HTMLElement, top: place.top };
      return;
    }
    this._anchor = undefined;
  }

  /** Runs `change`, which changes the items in the DOM, and keeps the first item in view in its place. */
  _keeping(change: () => void) {
    const top = this._scroller.getBoundingClientRect().top;
    const anchor = [...this._shown.values()]
      .map(({ node }) => node)
      .filter((node) => node.getBoundingClientRect().bottom > top)
      .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)[0];
    const before = anchor?.getBoundingClientRect().top ?? 0;
    change();
    if (anchor?.isConnected && !this.follows) this._scroller.scrollTop += anchor.getBoundingClientRect().top - before;
    this._at = this._scroller.scrollTop;
    this._hold();
  }

  _place(from: number, to: number) {
    this._from = from;
    this._to = to;
    const wanted = this._items.slice(from, to);
    this._first = wanted[0]?.key;
    const keys = new Set(wanted.map((item) => item.key));
    for (const [key, { node }] of this._shown) {
      if (keys.has(key)) continue;
      node.remove();
      this._shown.delete(key);
      this._world.gone(node);
    }
    let next: ChildNode | null = this._list.firstChild;
    for (const item of wanted) {
      let shown = this._shown.get(item.key);
      if (!shown || shown.version !== item.version) {
        shown = { node: this._world.render(item, shown?.node), version: item.version };
        this._shown.set(item.key, shown);
      }
      if (shown.node === next) next = next.nextSibling;
      else this._list.insertBefore(shown.node, next);
    }
  }
}
