import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Conversation, KEPT, recordOf } from '../../../web/src/state/conversation.ts';
import { editedInput, Projects } from '../../../web/src/state/projects.ts';

const said = (seq, text = `m${seq}`) => ({
  seq,
  timestamp: 't',
  direction: 'claude',
  message: { type: 'assistant', message: { content: [{ type: 'text', text }] } },
});
const event = (seq, subtype, message) => ({
  seq,
  timestamp: 't',
  direction: 'server',
  message: { type: 'system', subtype, message },
});
const snapshot = (last_seq, more = {}) => ({ last_seq, run: null, queue: [], open_approvals: [], ...more });
const texts = (conversation) => conversation.items.map((item) => item.text);

function joined(last = 0, more = {}) {
  const conversation = new Conversation('p');
  conversation.join(snapshot(last, more), true);
  return conversation;
}

test('each record is applied once and in order', () => {
  const conversation = joined();
  for (const seq of [2, 1, 1, 3, 2]) conversation.take(said(seq));
  assert.deepEqual(texts(conversation), ['m1', 'm2', 'm3']);
  assert.equal(conversation.cursor, 3);
});

test('the interruption of a run is shown once, at its end', () => {
  const interruption = (seq) => ({
    ...said(seq),
    message: { type: 'user', message: { content: '[Request interrupted by user]' } },
  });
  const kinds = (outcome) => {
    const conversation = joined();
    for (const record of [said(1), interruption(2), event(3, 'run_finished', { run_id: 'a', outcome })])
      conversation.take(record);
    return conversation.items.map((item) => item.kind);
  };
  assert.deepEqual(kinds('interrupted'), ['text', 'finished']);
  assert.deepEqual(kinds('completed'), ['text', 'aside', 'finished'], 'as in a terminal, where the agent continues');
});

test('decisions in a review are shown', () => {
  const conversation = joined();
  const decided = (seq, more) => event(seq, 'review_decided', { files: 1, hunks: 2, left: 0, ...more });
  conversation.take(decided(1, { by: 'Ada', decision: 'undo' }));
  conversation.take(decided(2, { hunks: 0, files: 0 }));
  conversation.take(decided(3, { by: 'Ada', decision: 'undo', paths: ['a.py'], diff: '-a\n+b\n' }));
  assert.deepEqual(
    conversation.items.map(({ kind, by, text, diff }) => [kind, by, text, diff]),
    [
      ['notice', 'Ada', 'undid 2 changes in 1 file', ''],
      ['notice', 'Ada', 'undid 2 changes in a.py', '-a\n+b\n'],
    ],
  );
});

test('the outcome of an interrupted decision is shown', () => {
  const conversation = joined();
  const about = { by: 'Ada', decision: 'undo', files: 1, hunks: 2 };
  conversation.take(event(1, 'review_decided', { ...about, left: 0, interrupted: true }));
  conversation.take(event(2, 'review_interrupted', { ...about, result: 'not_done' }));
  conversation.take(event(3, 'review_interrupted', { ...about, result: 'unknown', changed: ['a.py', 'b.py'] }));
  const operation = { by: 'Ada', files: 2, hunks: 0 };
  conversation.take(event(4, 'review_interrupted', { ...operation, decision: 'revert', result: 'not_done' }));
  conversation.take(event(5, 'review_interrupted', { ...operation, decision: 'commit', result: 'unknown' }));
  assert.deepEqual(
    conversation.items.map(({ text }) => text),
    [
      'undid 2 changes in 1 file (the server was restarted in the meantime)',
      'wanted to undo 2 changes in 1 file, but the server was restarted. Nothing was changed.',
      'wanted to undo 2 changes in 1 file, but the server was restarted in the meantime, and a.py, b.py changed. Check the review.',
      'wanted to undo the changes to 2 files, but the server was restarted. Nothing was changed.',
      'wanted to commit 2 files, but the server was restarted in the meantime, and it is not known whether the commit was made. Check the branch.',
    ],
  );
});

test('a queued prompt is shown where its run begins, also for a search', () => {
  const conversation = joined();
  const prompt = (seq, run_id) => ({
    seq,
    timestamp: 't',
    direction: 'client',
    message: { type: 'execute', run_id, message: { prompt: run_id } },
  });
  const records = [prompt(1, 'a'), event(2, 'run_started', { run_id: 'a' }), prompt(3, 'b'), said(4)];
  records.push(event(5, 'run_finished', { run_id: 'a' }), event(6, 'run_started', { run_id: 'b' }), said(7));
  for (const record of records) conversation.take(record);
  assert.deepEqual(
    [1, 3, 4, 7].map((seq) => conversation.placeOf(seq)),
    [2, 6, 4, 7],
  );
  const places = conversation.items.filter(({ kind }) => kind === 'prompt').map(({ seq, text }) => [seq, text]);
  assert.deepEqual(places, [
    [2, 'a'],
    [6, 'b'],
  ]);
});

test('records that arrive before the reply to the join are not lost', () => {
  const conversation = new Conversation('p');
  conversation.take(said(6));
  conversation.join(snapshot(5), true);
  assert.equal(conversation.cursor, 6);
  conversation.prepend([said(4), said(5)]);
  assert.deepEqual(texts(conversation), ['m4', 'm5', 'm6']);
});

test('a result finds its call even if the call is loaded later', () => {
  const call = (seq) => ({
    ...said(seq),
    message: { type: 'assistant', message: { content: [{ type: 'tool_use', id: 't', name: 'Edit', input: {} }] } },
  });
  const result = (seq) => ({
    ...said(seq),
    message: { type: 'user', message: { content: [{ type: 'tool_result', tool_use_id: 't', content: 'ok' }] } },
  });
  const live = joined();
  live.take(call(1));
  live.take(result(2));
  assert.equal(live.items[0].result.text, 'ok');
  assert.equal(live.items[0].version, 1);
  const late = joined(1);
  late.take(result(2));
  late.prepend([call(1)]);
  assert.equal(late.items[0].result.text, 'ok');
});

test('a replay does not reopen a request that was resolved before the snapshot', () => {
  const conversation = joined();
  conversation.join(snapshot(2), false);
  conversation.take(event(1, 'permission_request', { approval_id: 'a' }));
  conversation.take(event(2, 'permission_resolved', { approval_id: 'a', by: 'Bob', decision: 'deny' }));
  assert.equal(conversation.open.size, 0);
  assert.equal(conversation.items[0].answer.by, 'Bob');
  conversation.take(event(3, 'permission_request', { approval_id: 'b' }));
  assert.deepEqual([...conversation.open.keys()], ['b']);
});

test('records far from the view are unloaded, and are loaded again without a gap', () => {
  const conversation = joined(10_000);
  conversation.prepend(Array.from({ length: KEPT }, (_, n) => said(10_000 - KEPT + 1 + n)));
  conversation.prepend(Array.from({ length: 100 }, (_, n) => said(10_000 - KEPT - 99 + n)));
  assert.equal(conversation.items.length, KEPT);
  assert.ok(!conversation.atEnd);
  conversation.take(said(10_001));
  assert.equal(conversation.items.at(-1).seq, conversation.last);
  conversation.append(Array.from({ length: 101 }, (_, n) => said(conversation.last + 1 + n)));
  const seqs = conversation.items.map((item) => item.seq);
  assert.deepEqual(
    seqs,
    Array.from({ length: seqs.length }, (_, n) => seqs[0] + n),
  );
  assert.equal(conversation.first, seqs[0]);
  assert.ok(conversation.atEnd);
});

test('partial text is removed when the complete message arrives', () => {
  const conversation = joined();
  conversation.hear({ type: 'stream_event', event: { type: 'content_block_start', content_block: { type: 'text' } } });
  conversation.hear({
    type: 'stream_event',
    event: { type: 'content_block_delta', delta: { type: 'text_delta', text: 'Hel' } },
  });
  assert.equal(conversation.live, 'Hel');
  conversation.take(said(1, 'Hello'));
  assert.equal(conversation.live, '');
});

test('records of a live message and of the history look the same', () => {
  const live = recordOf({
    type: 'update',
    seq: 4,
    data: { update_type: 'run_finished', data: { run_id: 'r', outcome: 'completed' } },
  });
  assert.deepEqual(live.message, {
    type: 'system',
    subtype: 'run_finished',
    message: { run_id: 'r', outcome: 'completed' },
  });
  assert.equal(recordOf({ type: 'agent_message', data: { messages: [{}] } }), undefined);
});

test('projects that wait come first, and are counted', () => {
  const projects = new Projects();
  const one = (id, last_active, approvals = []) => ({ id, last_active, approvals, last_seq: 0 });
  projects.take({ type: 'project_list', data: { projects: [one('a', '1'), one('b', '2')] } });
  projects.take({ type: 'permission_request', project_id: 'a', data: { approval_id: 'x', tool_name: 'Edit' } });
  projects.take({ type: 'permission_request', project_id: 'a', data: { approval_id: 'x', tool_name: 'Edit' } });
  assert.deepEqual(
    projects.sorted().map(({ id }) => id),
    ['a', 'b'],
  );
  assert.equal(projects.waiting, 1);
  projects.take({
    type: 'update',
    project_id: 'a',
    data: { update_type: 'permission_withdrawn', data: { approval_id: 'x' } },
  });
  assert.equal(projects.waiting, 0);
});

test('an edited proposal is sent as the whole file, with its line endings', () => {
  const proposal = { path: '/f', old_text: 'a\r\nb\r\n', new_text: 'a\r\nc\r\n' };
  const edited = (editable, input) => editedInput({ editable, input, proposal }, 'a\nd\n');
  const edit = { file_path: '/f', old_string: 'b', new_string: 'c' };
  const whole = { old_string: 'a\nb\n', new_string: 'a\nd\n' };
  assert.deepEqual(edited(['old_string', 'new_string'], edit), { file_path: '/f', ...whole });
  assert.deepEqual(edited(['edits'], { file_path: '/f', edits: [] }), { file_path: '/f', edits: [whole] });
  assert.deepEqual(edited(['content'], { file_path: '/f', content: 'x' }), {
    file_path: '/f',
    content: 'a\r\nd\r\n',
  });
  assert.equal(edited(['new_source'], {}), undefined);
  assert.equal(edited(undefined, {}), undefined);
});

test('records that only the agent has stored stay between their neighbors', () => {
  const conversation = new Conversation('p');
  conversation.join({ last_seq: 9, run: null, queue: [], open_approvals: [] }, true);
  const text = (seq, words) => ({
    seq,
    timestamp: 't',
    direction: 'claude',
    message: { type: 'assistant', message: { content: words } },
  });
  conversation.prependSession([text(0, 'c'), text(4, 'd'), text(0, 'e'), text(0, 'f'), text(8, 'g')], '1.');
  conversation.prependSession([text(0, 'a'), text(0, 'b')], null);
  assert.equal(conversation.items.map((item) => item.text).join(''), 'abcdefg');
  const seqs = conversation.items.map((item) => item.seq);
  assert.deepEqual(
    [...seqs].sort((a, b) => a - b),
    seqs,
  );
  assert.equal(new Set(seqs).size, 7);
  assert.equal(conversation.before, null);
});
