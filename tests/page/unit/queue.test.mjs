import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Conversation } from '../../../web/src/state/conversation.ts';

const prompt = (seq, run_id, text = run_id, more = {}) => ({
  seq,
  timestamp: 't',
  direction: 'client',
  message: { type: 'user', message: { prompt: text }, run_id, by: 'Ada', ...more },
});
const event = (seq, subtype, message) => ({
  seq,
  timestamp: 't',
  direction: 'server',
  message: { type: 'system', subtype, message },
});
const started = (seq, run_id) => event(seq, 'run_started', { run_id });
const finished = (seq, run_id, more = {}) => event(seq, 'run_finished', { run_id, outcome: 'completed', ...more });
const answered = (seq, text) => ({
  seq,
  timestamp: 't',
  direction: 'claude',
  message: { type: 'assistant', message: { content: [{ type: 'text', text }] } },
});

function joined(last_seq = 0, more = {}) {
  const conversation = new Conversation('p');
  conversation.join({ last_seq, run: null, queue: [], open_approvals: [], ...more }, true);
  return conversation;
}

const shown = (conversation) =>
  conversation.items.map((item) => {
    if (item.kind === 'finished') return `end of ${item.run_id}`;
    return item.kind === 'notice' ? `${item.by} ${item.text}` : item.text;
  });
const waiting = (conversation) => conversation.waiting.map((one) => one.run_id);

test('prompts and notices keep the client that they are from', () => {
  const conversation = joined();
  const from = { by: 'Ada', client_id: 'c1' };
  conversation.take(prompt(1, 'a', 'Hello', from));
  conversation.take(started(2, 'a'));
  conversation.take(finished(3, 'a'));
  conversation.take(event(4, 'run_reverted', { run_id: 'a', files: [], ...from }));
  conversation.take(event(5, 'review_decided', { decision: 'keep', files: 1, hunks: 1, left: 0, ...from }));
  conversation.take(prompt(6, 'b'));
  conversation.take(finished(7, 'b', { outcome: 'interrupted', removed_by: 'Ada', client_id: 'c1' }));
  const named = conversation.items.filter(({ by }) => by);
  assert.deepEqual(
    named.map(({ kind, client_id }) => [kind, client_id]),
    [
      ['prompt', 'c1'],
      ['notice', 'c1'],
      ['notice', 'c1'],
      ['notice', 'c1'],
    ],
  );
});

/** The records of two prompts. The second one was sent while the first one ran. */
const TWO = [
  prompt(1, 'a'),
  started(2, 'a'),
  prompt(3, 'b'),
  answered(4, 'to a'),
  finished(5, 'a'),
  started(6, 'b'),
  answered(7, 'to b'),
  finished(8, 'b'),
];
const IN_ORDER = ['a', 'to a', 'end of a', 'b', 'to b', 'end of b'];

test('S1-7: a queued prompt is shown where its run begins', () => {
  const conversation = joined();
  for (const record of TWO.slice(0, 5)) conversation.take(record);
  assert.deepEqual(shown(conversation), ['a', 'to a', 'end of a']);
  assert.deepEqual(waiting(conversation), ['b'], 'it waits, and is there once');
  for (const record of TWO.slice(5)) conversation.take(record);
  assert.deepEqual(shown(conversation), IN_ORDER);
  assert.deepEqual(waiting(conversation), []);
});

test('S1-7: the same order comes from the history, wherever its pages end', () => {
  for (let cut = 0; cut <= TWO.length; cut++) {
    const conversation = joined(8);
    conversation.prepend(TWO.slice(cut));
    conversation.prepend(TWO.slice(0, cut));
    assert.deepEqual(shown(conversation), IN_ORDER, `a page of ${cut} records`);
    assert.equal(new Set(conversation.items.map((item) => item.key)).size, IN_ORDER.length);
    const seqs = conversation.items.map((item) => item.seq);
    assert.deepEqual(
      seqs,
      seqs.toSorted((a, b) => a - b),
    );
  }
});

test('a client that joins sees the prompts that wait, and each of them once', () => {
  const queue = [{ run_id: 'b', position: 1, prompt: 'b' }];
  const conversation = joined(4, { run: { run_id: 'a', position: 0, prompt: 'a', started_at: 't' }, queue });
  conversation.prepend(TWO.slice(0, 4));
  assert.deepEqual(shown(conversation), ['a', 'to a']);
  assert.deepEqual(waiting(conversation), ['b']);
  conversation.told('queue_changed', { queue: [] });
  for (const record of TWO.slice(4)) conversation.take(record);
  assert.deepEqual(shown(conversation), IN_ORDER);
});

test('a prompt that was removed from the queue is a line and not a prompt', () => {
  const removed = finished(4, 'b', { outcome: 'interrupted', removed_by: 'Ben' });
  const live = joined();
  for (const record of [...TWO.slice(0, 3), removed]) live.take(record);
  const late = joined(4);
  late.prepend([removed]);
  late.prepend(TWO.slice(0, 3));
  assert.deepEqual(shown(live), ['a', 'Ben removed a queued message: “b”']);
  assert.deepEqual(shown(late), ['Ben removed a queued message', 'a'].reverse());
  assert.deepEqual(waiting(live), []);
});

test('a prompt that was edited in the queue is shown as it was sent', () => {
  const records = [
    ...TWO.slice(0, 3),
    event(4, 'prompt_edited', { run_id: 'b', prompt: 'better' }),
    finished(5, 'a'),
    started(6, 'b'),
  ];
  for (let cut = 0; cut <= records.length; cut++) {
    const conversation = joined(6);
    conversation.prepend(records.slice(cut));
    conversation.prepend(records.slice(0, cut));
    assert.deepEqual(shown(conversation), ['a', 'end of a', 'better'], `a page of ${cut} records`);
  }
});

test('a message into a run is shown immediately', () => {
  const conversation = joined();
  for (const record of [prompt(1, 'a'), started(2, 'a'), prompt(3, 'a', 'and quickly', { steer: true })])
    conversation.take(record);
  assert.deepEqual(shown(conversation), ['a', 'and quickly']);
});

test('a prompt without a run, as in histories of older servers, is shown in its place', () => {
  const conversation = joined();
  conversation.take(prompt(1, undefined, 'hello'));
  assert.deepEqual(shown(conversation), ['hello']);
});

test('a prompt whose run ended before it began is shown with its end', () => {
  const conversation = joined();
  conversation.take(prompt(1, 'a'));
  conversation.take(finished(2, 'a', { outcome: 'failed' }));
  assert.deepEqual(shown(conversation), ['a', 'end of a']);
});
