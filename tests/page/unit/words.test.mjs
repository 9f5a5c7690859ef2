import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Conversation } from '../../../web/src/state/conversation.ts';
import {
  agentName,
  clock,
  liftedWords,
  listed,
  modesOf,
  modeWords,
  standing,
} from '../../../web/src/projects/words.ts';
import { canBeEdited, Projects } from '../../../web/src/state/projects.ts';

const NOW = new Date('2026-03-04T10:00:00Z');
const LATER = '2026-03-04T12:30:00Z';

test('an agent has the name that the server sends', () => {
  const hello = { agent_words: [{ name: 'claude', label: 'Claude' }] };
  assert.equal(agentName('claude', hello), 'Claude');
  assert.equal(agentName('goose', hello), 'The goose agent');
  assert.equal(agentName('claude'), 'Claude'); // before the server's names have arrived
});

test('a project’s state is described by its most important part', () => {
  const said = (more) => standing({ approvals: [], state: 'IDLE', ...more }).words;
  assert.equal(said({ approvals: [{}], state: 'EXECUTING' }), 'Needs you');
  assert.equal(said({ approvals: [{}, {}], desk: { state: 'waiting' } }), '2 requests need you');
  assert.equal(said({ state: 'EXECUTING', continues_at: LATER }), 'Working');
  assert.equal(said({ state: 'ERROR', continues_at: LATER }), `Resumes at ${clock(LATER)}`);
  assert.equal(said({ state: 'ERROR' }), 'Last run failed');
  assert.equal(said({ desk: { state: 'finished' } }), 'Idle in terminal');
  assert.equal(said({ state: 'ERROR', problem: 'It is outside of --allow.' }), 'It is outside of --allow.');
  assert.equal(said({ state: 'EXECUTING', problem: 'It is outside of --allow.' }), 'Working');
  assert.equal(said({ desk: { state: 'waiting', in_terminal: true } }), 'Waiting in terminal');
  assert.equal(said({ desk: { state: 'ended', continued_in: 'desk_x' } }), 'Continued in the background');
  assert.equal(said({ desk: { state: 'working', background_tasks: 1 } }), 'Working in the background');
  assert.equal(said({ scheduled_until: LATER }), `Scheduled until ${clock(LATER)}`);
  assert.equal(said({ state: 'EXECUTING', scheduled_until: LATER }), 'Working');
  assert.equal(
    listed({ approvals: [], state: 'IDLE', scheduled_until: LATER, review: { files: 2 } }).words,
    `2 files to review · scheduled until ${clock(LATER)}`,
  );
  assert.equal(said({}), 'Ready');
});

test('a mode shows that its agent does not ask', () => {
  assert.equal(modeWords({ asks: false }, 'default'), 'default · doesn’t ask');
  const offers = [
    { name: 'default', title: 'Ask first' },
    { name: 'plan', title: 'Plan' },
  ];
  assert.equal(modeWords({}, 'default', offers), 'Ask first');
  assert.equal(modeWords({ modes: ['workspace-write'] }, 'workspace-write'), 'workspace-write');
  const own_modes = [{ name: 'review', title: 'Review only', text: 'Reads.' }];
  assert.equal(modeWords({ own_modes }, 'review'), 'Review only');
  assert.equal(modeWords({ own_modes }, 'plan', offers), 'Plan');
});

test('a limit shows when it resets', () => {
  assert.equal(liftedWords(LATER, NOW), `The limit resets at ${clock(LATER, NOW)}.`);
  assert.match(clock('2026-03-06T12:30:00Z', NOW), /^\d.* on [^\d]+$/, 'another day has its name');
  assert.match(clock('2026-03-11T12:30:00Z', NOW), /11/, 'the same weekday of the next week has its date');
  assert.equal(liftedWords('2026-03-04T09:00:00Z', NOW), 'The limit has reset.');
});

test('only complete requests that accept another text can be edited', () => {
  const request = {
    tool_name: 'Another',
    editable: ['content'],
    input: { file_path: '/f' },
    proposal: { path: '/f', old_text: '', new_text: 'x' },
  };
  assert.ok(canBeEdited(request));
  assert.ok(canBeEdited({ ...request, changeable: true }));
  assert.ok(!canBeEdited({ ...request, changeable: false }));
  assert.ok(!canBeEdited({ ...request, truncated: { blob_id: 'b', bytes: 2_000_000 } }));
  assert.ok(!canBeEdited({ ...request, proposal: undefined }));
  assert.ok(!canBeEdited({ ...request, editable: ['new_source'] }));
});

test('a conversation whose first records were deleted is marked as incomplete', () => {
  const conversation = new Conversation('p');
  conversation.join({ last_seq: 35, run: null, queue: [], open_approvals: [] }, true);
  assert.ok(!conversation.beginsLate({ first_seq: 26 }), 'earlier records can still be loaded');
  const record = (seq) => ({
    seq,
    timestamp: 't',
    direction: 'claude',
    message: { type: 'assistant', message: { content: 'x' } },
  });
  conversation.prepend(Array.from({ length: 10 }, (_, n) => record(26 + n)));
  assert.ok(conversation.beginsLate({ first_seq: 26 }));
  assert.ok(!conversation.beginsLate({}));
  assert.ok(!conversation.beginsLate(undefined));
});

test('a new state replaces all of the previous one', () => {
  const projects = new Projects();
  const state = (more) =>
    projects.take({
      type: 'update',
      project_id: 'p',
      data: { update_type: 'project_state', data: { id: 'p', approvals: [], last_seq: 1, ...more } },
    });
  state({ continues_at: LATER, queued: 2 });
  assert.equal(projects.all.get('p').continues_at, LATER);
  state({});
  assert.deepEqual(projects.all.get('p'), { id: 'p', approvals: [], last_seq: 1 });
  projects.take({ type: 'project_list', data: { projects: [{ id: 'p', approvals: [], last_seq: 2 }] } });
  assert.equal(projects.all.get('p').last_seq, 2);
});

test('a warning about a project contains its name and not its id', () => {
  const projects = new Projects();
  projects.take({
    type: 'project_list',
    data: { projects: [{ id: 'proj_1', path: '/home/ada/blog', approvals: [] }] },
  });
  assert.equal(projects.named('The history of proj_1 uses 8 MB', 'proj_1'), 'The history of blog uses 8 MB');
  assert.equal(projects.named('All uses 8 MB', undefined), 'All uses 8 MB');
  assert.equal(projects.named('The history of proj_2 uses 8 MB', 'proj_2'), 'The history of proj_2 uses 8 MB');
});

test('only modes that the server accepts are offered', () => {
  const hello = { modes: ['plan', 'default'], mode_offers: [{ name: 'default' }, { name: 'auto' }, { name: 'plan' }] };
  assert.deepEqual(modesOf({}, hello), ['default', 'plan']);
  assert.deepEqual(modesOf({ modes: ['read-only'] }, hello), ['read-only'], 'the server has chosen these already');
  assert.deepEqual(modesOf({}), [], 'an older server does not describe its modes');
});
