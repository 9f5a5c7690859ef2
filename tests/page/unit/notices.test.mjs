// The notification about a run's end, with the numbers of the review.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, test } from 'node:test';

import './dom.mjs';

const { endNotice, title, watch } = await import('../../../web/src/notifications/notices.ts');
const { Reviews } = await import('../../../web/src/state/reviews.ts');

const NUMBERS = { files: 7, hunks: 9, added: 120, removed: 34 };

test('a number on the icon from an earlier visit is replaced', () => {
  const numbers = [];
  const set = async (number = 0) => void numbers.push(number);
  const own = Object.getOwnPropertyDescriptor(globalThis, 'navigator');
  Object.defineProperty(globalThis, 'navigator', {
    value: { setAppBadge: set, clearAppBadge: set },
    configurable: true,
  });
  globalThis.document.title = 'Drawbridge';
  for (const waiting of [0, 0, 2, 2, 0]) title(waiting);
  title(0, 'blog');
  Object.defineProperty(globalThis, 'navigator', own);
  assert.deepEqual(numbers, [0, 2, 0, 0]);
  assert.equal(globalThis.document.title, 'blog · Drawbridge');
});

test('the notification about a run with changes has their number and leads to the review', () => {
  assert.deepEqual(endNotice('completed', 'p', 'blog', NUMBERS), {
    title: 'blog: 7 files to review',
    body: 'Run finished · +120 −34',
    address: '#/p/p/review',
  });
  assert.deepEqual(endNotice('failed', 'p', 'blog', { ...NUMBERS, files: 1 }), {
    title: 'blog',
    body: 'Run failed · 1 file to review · +120 −34',
    address: '#/p/p/review',
  });
  assert.equal(endNotice('completed', 'p', 'blog', { ...NUMBERS, added: 0, removed: 0 }).body, 'Run finished');
});

test('a run that leaves nothing to review leads to its project', () => {
  assert.deepEqual(endNotice('completed', 'p', 'blog'), { title: 'blog', body: 'Run finished', address: '#/p/p' });
  assert.equal(endNotice('interrupted', 'p', 'blog', NUMBERS), undefined);
});

const before = {};
let shown;

beforeEach(() => {
  mock.timers.enable({ apis: ['setTimeout'] });
  shown = [];
  const showNotification = (title, { body, data }) => shown.push([title, body, data.address]);
  const serviceWorker = { getRegistration: async () => ({ showNotification }) };
  define('navigator', { serviceWorker });
  define('Notification', { permission: 'granted' });
  define('window', globalThis);
  define('localStorage', { getItem: (key) => (key === 'drawbridge.notices' ? 'yes' : null), setItem() {} });
  document.hidden = true;
});

afterEach(() => {
  mock.timers.reset();
  for (const [name, was] of Object.entries(before))
    if (was) Object.defineProperty(globalThis, name, was);
    else delete globalThis[name];
});

function define(name, value) {
  before[name] = Object.getOwnPropertyDescriptor(globalThis, name);
  Object.defineProperty(globalThis, name, { configurable: true, writable: true, value });
}

/** Resolves after all pending promises have been settled. */
const settled = () => new Promise((later) => setImmediate(later));

function watched() {
  const client = new EventTarget();
  client.may = () => true;
  client.projects = { all: new Map([['p', { path: '/work/blog' }]]) };
  watch(client, new Reviews(client));
  const update = (update_type, data) => {
    const detail = { type: 'update', project_id: 'p', data: { update_type, data } };
    client.dispatchEvent(new CustomEvent('message', { detail }));
  };
  return {
    ends: (outcome) => update('run_finished', { outcome }),
    review: (files, by) => update('review_changed', { state: files ? 'open' : 'decided', ...NUMBERS, files, by }),
  };
}

test('one notification is sent, once the review is known', async () => {
  const { ends, review } = watched();
  ends('completed');
  await settled();
  assert.deepEqual(shown, []);
  review(7);
  review(8);
  mock.timers.tick(60_000);
  await settled();
  assert.deepEqual(shown, [['blog: 7 files to review', 'Run finished · +120 −34', '/#/p/p/review']]);
});

test('the notification waits for the review for at most 3 seconds', async () => {
  const { ends, review } = watched();
  ends('completed');
  mock.timers.tick(3000);
  review(7);
  await settled();
  assert.deepEqual(shown, [['blog', 'Run finished', '/#/p/p']]);
});

test('a review that is decided during the wait is not in the notification', async () => {
  const { ends, review } = watched();
  review(7);
  ends('failed');
  review(0, 'Ada');
  await settled();
  assert.deepEqual(shown, []);
  mock.timers.tick(3000);
  await settled();
  assert.deepEqual(shown, [['blog', 'Run failed', '/#/p/p']]);
});

test('a user who has returned to the web UI is not notified', async () => {
  const { ends, review } = watched();
  ends('completed');
  document.hidden = false;
  review(7);
  await settled();
  assert.deepEqual(shown, []);
});
