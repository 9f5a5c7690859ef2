// The browser's storage may be full, and the data of removed projects and old drafts of answers is deleted.
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';

import * as kept from '../../../web/src/state/kept.ts';

const stored = new Map();
let isFull = false;

globalThis.localStorage = {
  getItem: (name) => stored.get(name) ?? null,
  setItem: (name, value) => {
    if (isFull) throw new Error('QuotaExceededError');
    stored.set(name, value);
  },
  removeItem: (name) => void stored.delete(name),
  key: (at) => [...stored.keys()][at] ?? null,
  get length() {
    return stored.size;
  },
};

beforeEach(() => {
  isFull = false;
  kept.prune([]);
  stored.clear();
});

test('a value that does not fit into storage is still returned', () => {
  kept.keepDraft('p', 'first');
  isFull = true;
  kept.keepDraft('p', 'second');
  assert.equal(kept.draft('p'), 'second');
  isFull = false;
  kept.keepDraft('p', 'third');
  assert.equal(kept.draft('p'), 'third');
  assert.equal(stored.get('drawbridge.draft.p'), 'third');
});

test('earlier messages are bounded in number and in size', () => {
  for (let number = 0; number < 60; number++) kept.keepPrompt('p', `message ${number}`);
  assert.equal(kept.prompts('p').length, 50);
  for (const letter of 'abcd') kept.keepPrompt('p', letter.repeat(40_000));
  assert.deepEqual(
    kept.prompts('p').map((one) => one[0]),
    ['c', 'd'],
  );
  kept.keepPrompt('p', 'e'.repeat(200_000));
  assert.deepEqual(
    kept.prompts('p').map((one) => one[0]),
    ['c', 'd'],
  );
});

test('the data of a removed project is deleted', () => {
  for (const project of ['here', 'gone']) {
    kept.keepDraft(project, 'draft');
    kept.keepPrompt(project, 'prompt');
    kept.keepSeen(project, 7);
  }
  kept.prune([{ id: 'here', approvals: [] }]);
  assert.deepEqual([...stored.keys()].sort(), ['drawbridge.draft.here', 'drawbridge.prompts.here', 'drawbridge.seen']);
  assert.equal(kept.seen('here'), 7);
  assert.equal(kept.seen('gone'), 0);
});

test('a draft is kept for a week after its approval has closed', () => {
  for (const approval of ['open', 'answered', 'old']) kept.keepAnswer(approval, { message: 'Not yet' });
  const { at, ...old } = JSON.parse(stored.get('drawbridge.answer.old'));
  stored.set('drawbridge.answer.old', JSON.stringify({ ...old, at: at - 8 * 24 * 3_600_000 }));
  kept.prune([{ id: 'p', approvals: [{ approval_id: 'open' }] }]);
  assert.deepEqual(kept.answers().sort(), ['answered', 'open']);
  kept.keepAnswer('open', null);
  assert.deepEqual(kept.answers(), ['answered']);
});
