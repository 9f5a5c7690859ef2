import assert from 'node:assert/strict';
import { test } from 'node:test';

import './dom.mjs';

const { Conversation } = await import('../../../web/src/state/conversation.ts');
const { rowsOf, rowAt, withDays } = await import('../../../web/src/conversation/rows.ts');
const { editedBy } = await import('../../../web/src/conversation/counts.ts');
const { learn } = await import('../../../web/src/conversation/tool-kinds.ts');
const { groupWords, nowWords, subject, textChanges, verb } = await import(
  '../../../web/src/conversation/tool-words.ts'
);

const { AGENTS } = await import('./tools.mjs');

const ROOT = '/work/blog';

learn(AGENTS);

/** The items of a conversation in which each of these messages is a record. */
function itemsOf(...messages) {
  const conversation = new Conversation('p');
  conversation.join({ last_seq: 0, run: null, queue: [], open_approvals: [] }, true);
  add(conversation, messages);
  return conversation.items;
}

function add(conversation, messages) {
  for (const { direction = 'claude', ...message } of messages)
    conversation.take({ seq: conversation.cursor + 1, timestamp: '2026-11-22T10:00:00Z', direction, message });
}

const text = (words) => ({ type: 'assistant', message: { content: [{ type: 'text', text: words }] } });
const thinking = (words) => ({ type: 'assistant', message: { content: [{ type: 'thinking', thinking: words }] } });
const call = (id, name, input, parent) => ({
  type: 'assistant',
  parent_tool_use_id: parent,
  message: { content: [{ type: 'tool_use', id, name, input }] },
});
const result = (id, content = 'ok', more = {}) => ({
  type: 'user',
  message: { content: [{ type: 'tool_result', tool_use_id: id, content, ...more }] },
});
const event = (subtype, message) => ({ direction: 'server', type: 'system', subtype, message });
const asked = (id, tool_name, input, more = {}) =>
  event('permission_request', { approval_id: id, tool_name, input, ...more });
const resolved = (id, more = {}) =>
  event('permission_resolved', { approval_id: id, by: 'a', decision: 'allow', ...more });

/** Rows in a short form: a group as a list, a call as its id and state, any other row as its kind. */
const shape = (rows) =>
  rows.map((row) =>
    row.kind === 'group'
      ? shape(row.rows)
      : row.kind === 'tool'
        ? `${row.tool.id} ${row.state}${row.children.length ? ` ${JSON.stringify(shape(row.children))}` : ''}`
        : row.item.kind,
  );

test('calls without a text between them are one group', () => {
  const items = itemsOf(
    text('a'),
    call('1', 'Read', { file_path: 'a' }),
    result('1'),
    thinking('b'),
    call('2', 'Bash', { command: 'b' }),
    result('2', 'no', { is_error: true }),
    text('c'),
    call('3', 'Grep', { pattern: 'd' }),
    result('3'),
  );
  assert.deepEqual(shape(rowsOf(items, false)), ['text', ['1 done', 'thinking', '2 failed'], 'text', '3 done']);
});

test('running, waiting, rejected, failed and stopped calls are distinguished', () => {
  const input = { command: 'x' };
  const items = itemsOf(
    call('1', 'Bash', { command: 'a' }),
    event('run_finished', { run_id: 'r', outcome: 'interrupted' }),
    text('b'),
    call('2', 'Bash', input),
    asked('q', 'Bash', input),
    text('c'),
    call('3', 'Bash', { command: 'd' }),
  );
  assert.deepEqual(shape(rowsOf(items, true)), ['1 stopped', 'finished', 'text', '2 waiting', 'text', '3 running']);
  assert.deepEqual(shape(rowsOf(items, false)).slice(3), ['2 stopped', 'text', '3 stopped']);
  const more = itemsOf(
    call('2', 'Bash', input),
    asked('q', 'Bash', input),
    resolved('q', { decision: 'deny' }),
    result('2', 'No.', { is_error: true }),
  );
  assert.deepEqual(shape(rowsOf(more, true)), ['2 rejected']);
});

test('a call that was rejected in the terminal, by a rule or by auto mode has not failed', () => {
  const told = (id, kind) => ({ tool_result_meta: [{ id, non_execution_kind: kind }] });
  const no = (id) => result(id, 'No.', { is_error: true });
  const items = itemsOf(
    call('1', 'Bash', { command: 'a' }),
    { ...no('1'), ...told('1', 'automode-blocked') },
    call('2', 'Bash', { command: 'b' }),
    asked('q', 'Bash', { command: 'b' }),
    event('permission_withdrawn', { approval_id: 'q', reason: 'answered elsewhere' }),
    { ...no('2'), ...told('2', 'user-rejected') },
    call('3', 'Bash', { command: 'c' }),
    { ...no('3'), ...told('another', 'user-rejected') },
    call('4', 'Bash', { command: 'd' }),
    { ...no('4'), tool_result_meta: 'odd' },
  );
  assert.deepEqual(shape(rowsOf(items, true)), ['1 rejected', '2 rejected', ['3 failed', '4 failed']]);
});

test('a call waits although the request has fields that the agent has filled in', () => {
  const input = { file_path: 'a', old_string: 'b', new_string: 'c' };
  const items = itemsOf(call('1', 'Edit', input), asked('p', 'Edit', { ...input, replace_all: false }));
  assert.deepEqual(shape(rowsOf(items, true)), ['1 waiting']);
});

test('a call waits although the request has its fields in another order', () => {
  const [one, other] = [
    { question: 'Which?', multiSelect: false, options: [{ label: 'a', description: 'b' }] },
    { options: [{ description: 'b', label: 'a' }], multiSelect: false, question: 'Which?' },
  ];
  const ask = (question) => ({ questions: [question] });
  const items = itemsOf(call('1', 'AskUserQuestion', ask(one)), asked('q', 'AskUserQuestion', ask(other)));
  assert.deepEqual(shape(rowsOf(items, true)), ['1 waiting']);
});

test('an approval has no row of its own besides its call', () => {
  const input = { file_path: 'a', old_string: 'b', new_string: 'c' };
  const items = itemsOf(
    call('1', 'Edit', input),
    call('2', 'Edit', { ...input, new_string: 'd' }),
    asked('p', 'Edit', { ...input }),
    resolved('p', { edited: true }),
    asked('q', 'Edit', { file_path: 'z' }),
    resolved('q'),
  );
  const rows = rowsOf(items, true);
  assert.deepEqual(shape(rows), ['1 running', '2 running', 'question']);
  assert.equal(rows[0].question.request.approval_id, 'p');
});

test('a call without an input is joined to the plan that it presents', () => {
  const plan = (id) => asked(id, 'ExitPlanMode', { plan: `# ${id}`, planFilePath: '/plans/a.md' }, { kind: 'plan' });
  const outside = [call('1', 'ExitPlanMode', {}), result('1', 'You are not in plan mode.', { is_error: true })];
  const ids = (messages) => rowsOf(itemsOf(...messages), true).map((row) => row.question?.request.approval_id);
  assert.deepEqual(ids([...outside, call('2', 'ExitPlanMode', {}), plan('q')]), [undefined, 'q']);
  assert.deepEqual(ids([...outside, plan('q'), call('2', 'ExitPlanMode', {})]), [undefined, 'q']);
  assert.deepEqual(shape(rowsOf(itemsOf(call('1', 'Read', {}), asked('q', 'Read', { file_path: 'a' })), true)), [
    '1 running',
    'question',
  ]);
});

test('an approval can come before the record of its call', () => {
  const edit = { file_path: 'a', old_string: 'b', new_string: 'c' };
  const items = itemsOf(asked('p', 'Edit', edit), resolved('p'), call('1', 'Edit', edit), result('1'));
  const rows = rowsOf(items, false);
  assert.deepEqual(shape(rows), ['1 done']);
  assert.equal(rows[0].question.request.approval_id, 'p');
});

test('an approval of the Agent Client Protocol is joined to the call with its id', () => {
  const asks = (id, call) =>
    event('permission_request', { approval_id: id, tool_name: 'execute', form: 'acp', input: { toolCallId: call } });
  const items = itemsOf(
    call('1', 'Bash', { command: 'a' }),
    asks('p', '1'),
    resolved('p'),
    result('1'),
    asks('q', '2'), // Gemini CLI reports the call only once it is over
    resolved('q', { decision: 'deny' }),
    call('2', 'Bash', { command: 'a' }),
    result('2', 'no', { is_error: true }),
    asks('r', '3'),
  );
  const rows = rowsOf(items, true);
  assert.deepEqual(shape(rows), ['1 done', '2 rejected', 'question']);
  assert.deepEqual(
    rows.slice(0, 2).map((row) => row.question.request.approval_id),
    ['p', 'q'],
  );
});

test('a second record with the id of a call completes it', () => {
  const items = itemsOf(call('1', 'Terminal', {}), call('1', 'Bash', { command: 'ls' }), result('1'));
  assert.deepEqual(shape(rowsOf(items, false)), ['1 done']);
  assert.deepEqual([items[0].name, items[0].input], ['Bash', { command: 'ls' }]);
  const again = itemsOf(call('1', 'Bash', {}), result('1'), call('1', 'Bash', {}));
  assert.equal(again.length, 2, 'an agent that counts its calls from the start again');
});

test('an approval is not joined to a call of a later run', () => {
  const rm = { command: 'rm a' };
  const items = itemsOf(
    asked('p', 'Bash', rm),
    resolved('p', { decision: 'deny' }),
    event('run_finished', { run_id: 'r', outcome: 'completed', duration_ms: 1 }),
    call('1', 'Bash', rm),
    result('1'),
  );
  assert.deepEqual(shape(rowsOf(items, false)), ['question', 'finished', '1 done']);
});

test('the end of a run counts the edits of its calls', () => {
  const edit = (id, file_path, new_string) => call(id, 'Edit', { file_path, old_string: 'b', new_string });
  const end = event('run_finished', { run_id: 'r', outcome: 'completed', duration_ms: 1 });
  const calls = [
    edit('1', 'a', 'c\nd'),
    result('1'),
    edit('2', 'a', 'e'),
    result('2'),
    edit('3', 'b', 'f'),
    result('3'),
  ];
  const failed = [edit('4', 'z', 'c'), result('4', 'no', { is_error: true })];
  const prompt = { direction: 'client', type: 'user', run_id: 'r', message: { prompt: 'Go' } };
  const begin = event('run_started', { run_id: 'r' });
  const whole = rowsOf(itemsOf(prompt, begin, ...calls, ...failed, end), false).at(-1);
  assert.deepEqual(editedBy(whole.calls), { files: 2, added: 4, removed: 3 });
  const part = rowsOf(itemsOf(...calls, end), false).at(-1);
  assert.equal(part.calls, undefined);
});

test('texts of a call are found by what its tool does', () => {
  learn([{ tools: { replace_text: 'edit', save_file: 'write', look: 'read' } }]);
  const edit = { old_string: 'a', new_string: 'b' };
  const changes = (name, input) => textChanges({ name, input }).map(({ old_text, new_text }) => [old_text, new_text]);
  assert.deepEqual(changes('replace_text', edit), [['a', 'b']]);
  assert.deepEqual(changes('replace_text', { edits: [edit, { new_string: 'c' }] }), [
    ['a', 'b'],
    ['', 'c'],
  ]);
  assert.deepEqual(changes('save_file', { content: 'new' }), [['', 'new']]);
  for (const given of [{ edits: [edit, 7] }, { edits: [] }, { new_source: 'x' }, 'text'])
    assert.deepEqual(changes('replace_text', given), []);
  for (const name of ['look', 'Edit']) assert.deepEqual(changes(name, edit), [], 'a tool that does not edit');
  learn(AGENTS);
});

test('the end of a run is drawn again once all of the run is loaded', () => {
  const conversation = new Conversation('p');
  conversation.join({ last_seq: 3, run: null, queue: [], open_approvals: [] }, true);
  const record = (seq, { direction = 'claude', ...message }) => ({ seq, timestamp: '', direction, message });
  const prompt = { direction: 'client', type: 'user', run_id: 'r', message: { prompt: 'Go' } };
  conversation.prepend([record(3, event('run_finished', { run_id: 'r', outcome: 'completed', duration_ms: 1 }))]);
  const part = rowsOf(conversation.items, false).at(-1);
  conversation.prepend([record(1, prompt), record(2, event('run_started', { run_id: 'r' }))]);
  const whole = rowsOf(conversation.items, false).at(-1);
  assert.deepEqual([part.calls, whole.calls], [undefined, []]);
  assert.equal(whole.key, part.key);
  assert.notEqual(whole.version, part.version);
});

test('calls of subagents are under their parent call', () => {
  const items = itemsOf(
    call('1', 'Task', { description: 'Look' }),
    call('2', 'Read', { file_path: 'a' }, '1'),
    result('2'),
    call('3', 'Read', { file_path: 'b' }, '1'),
    result('3'),
    text('b'),
    call('4', 'Bash', { command: 'c' }, 'unknown'),
  );
  assert.deepEqual(shape(rowsOf(items, true)), ['1 running [["2 done","3 done"]]', 'text', '4 running']);
});

test('a background task belongs to its call', () => {
  const items = itemsOf(
    call('1', 'Bash', { command: 'a', run_in_background: true }),
    { type: 'system', subtype: 'task_started', task_id: 't', tool_use_id: '1', description: 'd' },
    result('1', 'Command running in background'),
  );
  assert.deepEqual(shape(rowsOf(items, true)), ['1 running']);
  items[0].task.status = 'failed';
  assert.deepEqual(shape(rowsOf(items, true)), ['1 failed']);
});

test('a group keeps its key while calls are added on both sides', () => {
  const conversation = new Conversation('p');
  conversation.join({ last_seq: 2, run: null, queue: [], open_approvals: [] }, true);
  add(conversation, [call('3', 'Read', { file_path: 'a' }), call('4', 'Read', { file_path: 'b' })]);
  const [{ key }] = rowsOf(conversation.items, true);
  conversation.prepend([
    { seq: 2, timestamp: '', direction: 'claude', message: call('2', 'Read', { file_path: 'c' }) },
  ]);
  add(conversation, [call('5', 'Read', { file_path: 'd' })]);
  const rows = rowsOf(conversation.items, true);
  assert.deepEqual(shape(rows), [['2 running', '3 running', '4 running', '5 running']]);
  assert.equal(rows[0].key, key);
});

test('the parts of a split group have different keys', () => {
  const input = { command: 'b' };
  const conversation = new Conversation('p');
  conversation.join({ last_seq: 0, run: null, queue: [], open_approvals: [] }, true);
  const reads = (from) => [0, 1].map((n) => call(`${from + n}`, 'Read', { file_path: `${from + n}` }));
  add(conversation, [...reads(1), call('3', 'Bash', input), ...reads(4)]);
  assert.equal(rowsOf(conversation.items, true).length, 1);
  add(conversation, [asked('q', 'Bash', input), resolved('q', { decision: 'deny' })]);
  const keys = rowsOf(conversation.items, true).map((row) => row.key);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 3);
});

test('each day has a divider, unless all rows are from today', () => {
  const at = (seq, timestamp) => ({
    kind: 'item',
    key: `${seq}`,
    seq,
    version: '',
    item: { kind: 'prompt', timestamp },
  });
  const now = new Date('2026-11-22T12:00:00Z');
  const words = (rows) => withDays(rows, now).map(({ item }) => item.text ?? item.kind);
  assert.deepEqual(words([at(1, '2026-11-22T10:00:00Z')]), ['prompt']);
  const days = words([at(1, '2026-11-20T10:00:00Z'), at(2, '2026-11-20T11:00:00Z'), at(3, '2026-11-22T10:00:00Z')]);
  assert.equal(days.length, 5);
  assert.match(days[0], /20/);
  assert.equal(days[3], 'Today');
});

test('the row of a record without its own row is the previous one', () => {
  const rows = [{ seq: 2 }, { seq: 5 }];
  assert.deepEqual(
    [1, 2, 4, 5, 9].map((seq) => rowAt(rows, seq).seq),
    [2, 2, 2, 5, 5],
  );
});

const PATCH = `*** Begin Patch
*** Update File: a.md
@@
-1
+*** Delete File: no.md
*** Add File: ${ROOT}/docs/b.md
+1
*** Delete File: c.md
*** End Patch`;

test('calls are described by a verb and an object', () => {
  const words = (name, input, state = 'done') =>
    `${verb({ name, input }, state)} ${subject({ name, input }, ROOT).words}`.trim();
  assert.equal(words('Read', { file_path: `${ROOT}/a.md`, offset: 5, limit: 10 }), 'Read a.md:5–14');
  assert.equal(words('Grep', { pattern: 'x.*', path: `${ROOT}/src` }), 'Searched for x.* in src');
  assert.equal(words('Bash', { command: 'npm test\nls' }, 'running'), 'Running npm test');
  assert.equal(words('Edit', { file_path: `${ROOT}/a.md` }, 'waiting'), 'Edit a.md');
  assert.equal(words('mcp__github__get_issue', { title: 'x' }), 'Used get_issue (github): x');
  assert.equal(words('Unknown', null), 'Used Unknown');
  assert.equal(words('x', { toolCallId: '1', kind: 'execute', title: 'make' }), 'Used x: 1');
  assert.equal(words('constructor', {}), 'Used constructor');
  assert.equal(words('apply_patch', { patch: PATCH }, 'waiting'), `Edit a.md, docs/b.md, c.md`);
  assert.equal(words('apply_patch', { patch: 'odd' }), 'Edited files');
  assert.equal(words('other', { patch: PATCH }), 'Used other: *** Begin Patch');
});

test('a group is described in one line', () => {
  const tool = (name, input, state = 'done') => ({ name, input, state });
  const reads = ['a', 'b', 'a'].map((file_path) => tool('Read', { file_path }));
  assert.equal(
    groupWords([...reads, tool('Bash', { command: 'a' }), tool('Grep', {}), tool('Grep', {}), tool('TodoWrite', {})]),
    'Read 2 files, ran 1 command, searched 2 times, updated the to-do list',
  );
  assert.equal(groupWords([tool('Read', {}, 'running')]), '');
  assert.equal(groupWords([tool('Skill', {}), tool('mcp__db__query', {}), tool('TaskOutput', {})]), 'Used 3 tools');
  assert.equal(groupWords([tool('apply_patch', { patch: PATCH }), tool('apply_patch', {})]), 'Edited 4 files');
  assert.equal(nowWords(tool('apply_patch', { patch: PATCH }), ROOT), 'Editing a.md, docs/b.md, c.md');
  assert.equal(nowWords(tool('Read', { file_path: `${ROOT}/a/b.md` }), ROOT), 'Reading b.md');
  assert.equal(nowWords(tool('Bash', { command: 'rm -rf dist' }), ROOT, 'waiting'), 'Run rm -rf dist');
});
