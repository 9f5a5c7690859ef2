import assert from 'node:assert/strict';
import { test } from 'node:test';

import './dom.mjs';

const listeners = new Map();

class Observer {
  observe() {}
  unobserve() {}
  disconnect() {}
}

/**
 * More frames than a part needs that is brought into view and then counts as seen. Timers with the same delay fire in
 * order, so what was to happen in these frames has happened.
 */
const FRAMES = 10;

let now = 0;
Object.assign(globalThis, { IntersectionObserver: Observer, ResizeObserver: Observer, visualViewport: null });
globalThis.requestAnimationFrame = (act) => setTimeout(act, 0);
performance.now = () => now;
Object.assign(globalThis.document, {
  addEventListener: (type, act) => listeners.set(type, act),
  removeEventListener: () => {},
  querySelector: () => null,
  querySelectorAll: () => [],
  getElementsByClassName: () => [],
  body: {},
  hidden: false,
});

const { Board } = await import('../../../web/src/review/board.ts');
const kept = await import('../../../web/src/state/kept.ts');

/** An element at a position in a view that is 500 pixels tall. */
function place(top, height) {
  const classes = new Set();
  return {
    top,
    height,
    offsetHeight: height,
    clientHeight: height,
    clientWidth: 800,
    scrollTop: 0,
    classes,
    classList: {
      add: (...all) => all.forEach((one) => classes.add(one)),
      remove: (...all) => all.forEach((one) => classes.delete(one)),
      toggle: (one, yes) => classes[yes ? 'add' : 'delete'](one),
    },
    getBoundingClientRect() {
      return { top: this.top, bottom: this.top + this.height, left: 0, right: 800 };
    },
    children: [],
    querySelector: () => null,
    querySelectorAll: () => [],
    getElementsByTagName: () => [],
    getElementsByClassName: () => [],
    addEventListener() {},
    matches: () => false,
    closest: () => null,
    getRootNode: () => undefined,
    checkVisibility: () => true,
    focus() {
      document.activeElement = this;
    },
    scrollIntoView() {},
  };
}

/** A board with parts at these positions, and the decisions that were made by keys. */
function made(places) {
  const decided = [];
  const parts = places.map((_, n) => ({ key: `p${n}`, path: 'f', hunk: { id: `p${n}` } }));
  const standing = { unopened: { peek: () => 0 }, isSeen: false };
  const saw = () => {
    standing.isSeen = true;
  };
  const review = { parts: { peek: () => parts }, of: () => standing, back: () => false, saw };
  const act = (name) => (part) => decided.push(`${name} ${part.key}`);
  const acts = { keep: act('keep'), undo: act('undo'), edit: act('edit'), leave: () => decided.push('leave') };
  const board = new Board(review, acts);
  const scroller = place(0, 500);
  board.open(scroller);
  const elements = places.map(([top, height]) => place(top, height));
  const ends = parts.map((part, n) => board.add(part, elements[n]));
  board.after(parts);
  const target = place(0, 0);
  const press = (key, more = {}) =>
    listeners.get('keydown')({ key, preventDefault() {}, composedPath: () => [target], ...more });
  const wait = async (ms) => {
    for (let frame = 0; frame < FRAMES; frame++) await new Promise((later) => setTimeout(later, 0));
    now += ms;
    board.look();
  };
  return { board, decided, elements, ends, parts, press, wait, target };
}

test('a key decides what has been in view for half a second', async () => {
  const { decided, press, wait } = made([[10, 200]]);
  await wait(100);
  press('a');
  assert.deepEqual(decided, []);
  await wait(500);
  press('a', { repeat: true });
  press('u', { ctrlKey: true });
  assert.deepEqual(decided, []);
  press('a');
  assert.deepEqual(decided, ['keep p0']);
});

test('a key does not decide a part that is partly out of view', async () => {
  const { decided, elements, press, wait } = made([[10, 200]]);
  await wait(600);
  elements[0].top = 400;
  press('u');
  assert.deepEqual(decided, []);
});

test('a part that is taller than the screen can be decided after scrolling through it', async () => {
  const { decided, elements, press, wait } = made([[0, 1200]]);
  await wait(600);
  press('a');
  assert.deepEqual(decided, []);
  for (const top of [-300, -600, -800]) {
    elements[0].top = top;
    await wait(600);
  }
  await wait(600);
  press('a');
  assert.deepEqual(decided, ['keep p0']);
});

test('keys decide nothing while the user types or keys are off', async () => {
  const { decided, press, wait, target } = made([[10, 200]]);
  await wait(600);
  target.matches = (css) => css.startsWith('textarea');
  press('a');
  target.matches = () => false;
  kept.keepSetting('keys', 'off');
  press('a');
  press('u');
  kept.keepSetting('keys', '');
  assert.deepEqual(decided, []);
  press('e');
  assert.deepEqual(decided, ['edit p0']);
});

test('the next part is the current one after a decision', async () => {
  const { board, decided, elements, ends, parts, press, wait } = made([
    [10, 100],
    [120, 100],
    [230, 100],
  ]);
  await wait(600);
  assert.equal(board.at.value, 'p0');
  press('j');
  assert.equal(board.at.value, 'p1');
  await wait(600);
  ends[1]();
  const [first] = parts.splice(1, 1);
  board.before(true);
  board.after(parts);
  assert.equal(first.key, 'p1');
  assert.equal(board.at.value, 'p2');
  press('a');
  assert.deepEqual(decided, [], 'it has just become the current one');
  await wait(100);
  await wait(600);
  press('a');
  assert.deepEqual(decided, ['keep p2']);
  assert.ok(elements[2].classes.has('current'));
});

test('Esc leaves the review', () => {
  const { decided, press } = made([[10, 200]]);
  press('Escape');
  assert.deepEqual(decided, ['leave']);
});
