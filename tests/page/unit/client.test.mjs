import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from '../../../web/src/protocol/client.ts';
import * as kept from '../../../web/src/state/kept.ts';

globalThis.navigator ??= { userAgent: '' }; // older versions of Node.js do not have these globals
globalThis.CustomEvent ??= class extends Event {
  constructor(type, { detail } = {}) {
    super(type);
    this.detail = detail;
  }
};

const HELLO = {
  client_id: 'client_7',
  server: 'drawbridge',
  device: { name: 'Ada', scope: 'admin', projects: null },
  features: [],
  agents: [],
  pictures: [],
};
const project = (more = {}) => ({
  id: 'p',
  path: '/p',
  state: 'IDLE',
  agent: 'demo',
  last_seq: 0,
  last_active: '1',
  approvals: [],
  ...more,
});
const joined = (last_seq) => ({
  update_type: 'project_joined',
  data: { last_seq, run: null, queue: [], open_approvals: [] },
});
const said = (seq) => ({
  type: 'agent_message',
  project_id: 'p',
  seq,
  data: {
    direction: 'claude',
    messages: [{ type: 'assistant', message: { content: [{ type: 'text', text: `m${seq}` }] } }],
  },
});
const rest = () => new Promise((later) => setImmediate(later));

/**
 * A client whose server is the test. `answers` maps a request's type to a function that returns the answer. `isOpen`:
 * whether its sockets are already open when the client gets them.
 */
function world(answers, { isOpen = false } = {}) {
  const sockets = [];
  const asked = [];
  const client = new Client(() => {
    const socket = {
      readyState: isOpen ? 1 : 0,
      close: () => {},
      send: (text) => {
        const message = JSON.parse(text);
        asked.push(message);
        const answer = answers[message.type]?.(message);
        if (answer)
          queueMicrotask(() =>
            socket.onmessage({
              data: JSON.stringify({ request_id: message.request_id, project_id: message.project_id, ...answer }),
            }),
          );
      },
    };
    sockets.push(socket);
    if (!isOpen) queueMicrotask(() => socket.onopen());
    return socket;
  });
  const hear = (message) => sockets.at(-1).onmessage({ data: JSON.stringify(message) });
  const breaks = async () => {
    sockets.at(-1).onclose({ code: 1006 });
    client.connection.hurry();
    await rest();
    await rest();
  };
  return { client, asked, hear, breaks };
}

const server = (projects, last) => ({
  auth: () => ({ type: 'auth', data: {} }),
  hello: () => ({ type: 'hello', data: HELLO }),
  project_list: () => ({ type: 'project_list', data: { projects: projects() } }),
  project_join: () => ({ type: 'update', data: joined(last()) }),
  get_messages: () => ({ type: 'message_history', data: { messages: [] } }),
});

test('on a first visit, the shown project is joined without waiting for the list', async () => {
  const answers = server(
    () => [project({ last_seq: 3 })],
    () => 3,
  );
  let isListed = false;
  const { client, asked, hear } = world({ ...answers, project_list: () => (isListed = true) && undefined });
  client.choose('p');
  client.start('secret');
  await rest();
  assert.ok(isListed);
  const types = () => asked.map(({ type }) => type);
  assert.deepEqual(types(), ['auth', 'subscribe', 'hello', 'project_list', 'project_join']);
  const list = asked.find(({ type }) => type === 'project_list').request_id;
  hear({ type: 'project_list', request_id: list, data: { projects: [project({ last_seq: 3 })] } });
  await rest();
  assert.equal(client.conversation.joined, true);
  assert.equal(types().filter((type) => type === 'project_join').length, 1);
});

test('over a socket that is already open, the project is joined as early', async () => {
  const answers = server(
    () => [project()],
    () => 0,
  );
  const { client, asked } = world({ ...answers, project_list: () => undefined }, { isOpen: true });
  client.start('secret');
  client.choose('p');
  await rest();
  assert.deepEqual(
    asked.map(({ type }) => type),
    ['auth', 'subscribe', 'hello', 'project_list', 'project_join'],
  );
});

test('a project that the list does not contain is reported as gone', async () => {
  const answers = server(
    () => [],
    () => 0,
  );
  const { client } = world({ ...answers, project_join: () => ({ type: 'error', data: { code: 'NO_SUCH_PROJECT' } }) });
  const told = [];
  client.addEventListener('change', ({ detail }) => told.push(detail));
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  assert.ok(told.includes('gone'));
});

test('after a reconnect, a conversation continues at its cursor, or opens at its end if records are missing', async () => {
  let [last, first] = [0, 1];
  const { client, asked, hear, breaks } = world(
    server(
      () => [project({ last_seq: last, first_seq: first })],
      () => last,
    ),
  );
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  for (const seq of [1, 2, 3]) hear(said(seq));
  last = 3;
  await breaks();
  assert.deepEqual(asked.filter(({ type }) => type === 'project_join').at(-1).data, { after_seq: 3 });
  [last, first] = [20, 10];
  await breaks();
  assert.deepEqual(asked.filter(({ type }) => type === 'project_join').at(-1).data, {});
  hear(said(21));
  assert.deepEqual(
    client.conversation.items.map((item) => item.text),
    ['m21'],
  );
});

test('an answer that is resent after a reconnect does not fail if it was already recorded', async () => {
  const taken = {
    code: 'APPROVAL_RESOLVED',
    message: 'Ada has answered already.',
    details: { by: 'Ada', decision: 'allow', client_id: 'client_7' },
  };
  const { client } = world({
    ...server(
      () => [project()],
      () => 0,
    ),
    permission_response: () => ({ type: 'error', data: taken }),
  });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  await client.answer({ approval_id: 'a' }, { allow: true });
  await assert.rejects(client.answer({ approval_id: 'a' }, { allow: false }), { code: 'APPROVAL_RESOLVED' });
  taken.details.client_id = 'client_8';
  await assert.rejects(
    client.answer({ approval_id: 'a' }, { allow: true }),
    { code: 'APPROVAL_RESOLVED' },
    'another window of the same name',
  );
});

test('whoever did something is recognized by the client, not by the name', async () => {
  const { client } = world(
    server(
      () => [project()],
      () => 0,
    ),
  );
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  assert.equal(client.other({ by: client.name, client_id: HELLO.client_id }), undefined);
  assert.equal(client.other({ by: client.name, client_id: 'client_8' }), `Another window (${client.name})`);
  assert.equal(client.other({ by: 'Bob', client_id: 'client_8' }), 'Bob');
  assert.equal(client.other({ by: client.name }), undefined, 'a record of an older server');
  assert.equal(client.other({ by: 'Bob' }), 'Bob');
  assert.equal(client.other({}), undefined);
});

test('a paired device knows what its scope allows, and a new pairing code changes the scope', async () => {
  const device = { name: 'Ada’s phone', scope: 'approve', projects: null };
  const hello = { ...HELLO, device, features: ['permission_response'] };
  const answers = {
    ...server(
      () => [],
      () => 0,
    ),
    hello: () => ({ type: 'hello', data: hello }),
    pair: () => ({ type: 'paired', data: { token: 'drawbridge_1_x', client: 'Ada’s phone', device } }),
  };
  const { client, asked } = world(answers);
  client.pair('ABCDEFGH', 'Ada’s phone');
  await rest();
  await rest();
  assert.deepEqual(asked[0], { type: 'pair', data: { code: 'ABCDEFGH', name: 'Ada’s phone' } });
  assert.deepEqual([client.may('permission_response'), client.may('execute')], [true, false]);
  assert.ok(client.isNamed);
});

test('a long answer is sent to its project even if the user has left the project', async () => {
  let stored = () => {};
  const answers = {
    ...server(
      () => [project(), project({ id: 'q', path: '/q' })],
      () => 0,
    ),
    blob_put: () => stored(),
    permission_response: () => ({ type: 'ok', data: {} }),
  };
  const { client, asked, hear } = world(answers);
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  const answered = client.answer({ approval_id: 'a' }, { allow: true, input: { content: 'x'.repeat(1_000_000) } });
  await rest();
  client.choose('q');
  stored = () => ({ type: 'blob_stored', data: {} });
  hear({ type: 'blob_stored', request_id: asked.find(({ type }) => type === 'blob_put').request_id, data: {} });
  await answered;
  assert.equal(asked.find(({ type }) => type === 'permission_response').project_id, 'p');
});

test('the size of a message that is too long is in bytes', async () => {
  const { client } = world({});
  await assert.rejects(client.execute('é'.repeat(600_000)), /too long: 1\.2 MB\./);
});

test('a project does not count as removed before the list of projects has arrived', async () => {
  const { client, asked, hear } = world({
    ...server(
      () => [project()],
      () => 0,
    ),
    project_list: () => undefined,
  });
  const told = [];
  client.addEventListener('change', ({ detail }) => told.push(detail));
  client.start('secret');
  await rest();
  client.choose('p');
  await rest();
  assert.ok(!told.includes('gone'));
  hear({
    type: 'project_list',
    request_id: asked.find(({ type }) => type === 'project_list').request_id,
    data: { projects: [project()] },
  });
  await rest();
  assert.ok(client.conversation.joined);
});

test('a prompt that is refused after the user left goes back to its project’s box', async () => {
  const refusal = { code: 'RATE_LIMITED', message: 'Too many prompts.' };
  const { client, hear, asked } = world({
    ...server(
      () => [project(), project({ id: 'q', path: '/q' })],
      () => 0,
    ),
  });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  const sent = client.execute('Write a poem');
  await rest();
  client.choose('q');
  hear({ type: 'error', request_id: asked.find(({ type }) => type === 'execute').request_id, data: refusal });
  await sent;
  assert.equal(kept.draft('p'), 'Write a poem');
});

test('an unconfirmed prompt of one window is kept when another window sends one', async () => {
  const windows = [0, 1].map(() =>
    world({
      ...server(
        () => [project()],
        () => 0,
      ),
    }),
  );
  for (const { client } of windows) {
    client.choose('p');
    client.start('secret');
  }
  await rest();
  await rest();
  const [one, other] = windows;
  void one.client.execute('first');
  const sent = other.client.execute('second');
  await rest();
  other.hear({ request_id: other.asked.find(({ type }) => type === 'execute').request_id, type: 'accepted', data: {} });
  await sent;
  assert.deepEqual(
    kept.unsent().map(({ prompt }) => prompt),
    ['first'],
  );
  kept.dropUnsent(kept.unsent()[0].id);
});

test('the user who removes a project gets no notice about it', async () => {
  const { client, hear } = world({
    ...server(
      () => [project()],
      () => 0,
    ),
    project_delete: () => ({ type: 'project_deleted', data: { project_id: 'p', success: true } }),
  });
  const told = [];
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  client.addEventListener('change', ({ detail }) => told.push(detail));
  const removed = client.remove('p');
  hear({
    type: 'update',
    project_id: 'p',
    data: { update_type: 'project_deleted', data: { project_id: 'p', path: '/p' } },
  });
  await removed;
  assert.ok(!told.includes('gone'));
});

test('a conversation whose session was not known when the connection was lost is loaded again', async () => {
  const answers = server(
    () => [project({ last_seq: 20, session_id: '' })],
    () => 20,
  );
  const hello = () => ({ type: 'hello', data: { ...HELLO, features: ['sessions', 'session_messages'] } });
  const { client, asked, breaks } = world({ ...answers, hello });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  assert.equal(asked.at(-1).type, 'sessions', 'it waits for an answer that never comes');
  await breaks();
  const joins = asked.filter(({ type }) => type === 'project_join');
  assert.deepEqual(
    joins.map(({ data }) => data),
    [{}, {}],
  );
});

test('sending a prompt returns whether the server has accepted it', async () => {
  const answers = server(
    () => [project()],
    () => 0,
  );
  const refuse = () => ({ type: 'error', data: { code: 'RESOURCE_LIMIT', message: 'The queue is full.' } });
  const { client } = world({ ...answers, execute: ({ data }) => (data.prompt === 'no' ? refuse() : { data: {} }) });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  assert.equal(await client.execute('no'), false);
  assert.equal(await client.execute('yes'), true);
});

test('if two records are requested, the one that was requested last is shown', async () => {
  const { client, asked, hear } = world({
    ...server(
      () => [project({ last_seq: 1000 })],
      () => 1000,
    ),
    get_messages: ({ data }) =>
      data.after_seq === undefined ? { type: 'message_history', data: { messages: [said(1000)] } } : undefined,
  });
  client.start('token');
  client.choose('p');
  for (let turn = 0; turn < 20; turn++) await rest();
  const [first, second] = [client.around(100), client.around(500)];
  const page = (request) =>
    hear({
      type: 'message_history',
      request_id: request.request_id,
      data: { messages: [said(request.data.after_seq + 60)] },
    });
  const requests = asked.filter(({ type, data }) => type === 'get_messages' && data.after_seq !== undefined);
  for (const request of requests.reverse()) page(request);
  assert.deepEqual(await Promise.all([first, second]), [false, true]);
  assert.equal(client.conversation.first, 500);
});

test('a record that comes after the loaded ones can be requested, too', async () => {
  const { client } = world({
    ...server(
      () => [project({ last_seq: 1000 })],
      () => 1000,
    ),
    get_messages: ({ data }) => {
      const seq = data.after_seq === undefined ? 1000 : data.after_seq + 60;
      return { type: 'message_history', data: { messages: [said(seq)] } };
    },
  });
  client.start('token');
  client.choose('p');
  for (let turn = 0; turn < 20; turn++) await rest();
  for (const seq of [100, 500]) {
    assert.equal(await client.around(seq), true);
    assert.equal(client.conversation.first, seq);
  }
});

const FAR = server(
  () => [project({ last_seq: 1000 })],
  () => 1000,
);
const page = (...seqs) => ({ type: 'message_history', data: { messages: seqs.map((seq) => said(seq)) } });

test('a record is found even if the records before it fill a whole message', async () => {
  const { client, asked } = world({
    ...FAR,
    get_messages: ({ data }) => page(data.after_seq === undefined ? 1000 : data.after_seq + 1),
  });
  client.start('token');
  client.choose('p');
  for (let turn = 0; turn < 20; turn++) await rest();
  assert.equal(await client.around(500), true);
  assert.deepEqual([client.conversation.first, client.conversation.last], [500, 500]);
  const asks = asked.filter(({ type, data }) => type === 'get_messages' && data.after_seq !== undefined);
  assert.equal(asks.length, 2);
});

test('older records that arrive after a jump are dropped', async () => {
  let holds = false;
  const { client, asked, hear } = world({
    ...FAR,
    get_messages: ({ data }) => {
      if (data.after_seq !== undefined) return page(500, 501);
      return holds ? undefined : page(1000);
    },
  });
  client.start('token');
  client.choose('p');
  for (let turn = 0; turn < 20; turn++) await rest();
  holds = true;
  const older = client.older();
  assert.equal(await client.around(500), true);
  const { request_id } = asked.findLast(({ data }) => data?.before_seq !== undefined);
  hear({ ...page(200, 201), request_id });
  assert.equal(await older, false);
  assert.deepEqual([client.conversation.first, client.conversation.last], [500, 501]);
});

test('going to the end cancels a jump to a record', async () => {
  let jump;
  const { client, hear } = world({
    ...FAR,
    get_messages: (request) => {
      if (request.data.after_seq === undefined) return page(1000);
      jump = request;
      return undefined;
    },
  });
  client.start('token');
  client.choose('p');
  for (let turn = 0; turn < 20; turn++) await rest();
  const jumped = client.around(500);
  await client.latest();
  hear({ ...page(500), request_id: jump.request_id });
  assert.equal(await jumped, false);
  assert.notEqual(client.conversation.first, 500);
});

/** A client and its project, which has a session `s` of 200 records. @param answers by type, replacing the server's */
const withSession = (answers = {}) =>
  world({
    ...server(
      () => [project({ last_seq: 200, session_id: 's' })],
      () => 200,
    ),
    hello: () => ({ type: 'hello', data: { ...HELLO, features: ['sessions', 'session_messages'] } }),
    ...answers,
  });
const recorded = (seq) => ({ seq, timestamp: '', direction: 'claude', message: said(seq).data.messages[0] });
const pageOf = (session_id, seqs, before) => ({
  type: 'session_messages',
  data: { session_id, messages: seqs.map(recorded), before },
});
const pagesAsked = (asked) => asked.filter(({ type }) => type === 'session_messages');

test('a known session is requested while the project is joined, with a small first page', async () => {
  const { client, asked, hear } = withSession({
    project_join: () => undefined,
    session_messages: ({ data }) => (data.before ? undefined : pageOf('s', [199, 200], '0.199')),
  });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  assert.deepEqual(
    pagesAsked(asked).map(({ data }) => data),
    [{ session_id: 's', limit: 30 }],
  );
  assert.deepEqual(client.conversation.items, [], 'it is not known yet where the history ends');
  const { request_id } = asked.find(({ type }) => type === 'project_join');
  hear({ type: 'update', request_id, project_id: 'p', data: joined(200) });
  await rest();
  assert.deepEqual(
    client.conversation.items.map((item) => item.text),
    ['m199', 'm200'],
  );
  void client.older();
  assert.deepEqual(
    pagesAsked(asked).map(({ data }) => data),
    [
      { session_id: 's', limit: 30 },
      { session_id: 's', before: '0.199', limit: 120 },
    ],
    'and a whole page follows, once',
  );
});

test('an empty page with nothing before it adds no older records', async () => {
  const { client, asked, hear } = withSession({
    session_messages: ({ data }) => (data.before ? undefined : pageOf('s', [199, 200], '0.199')),
  });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  const older = client.older();
  const { request_id } = asked.find(({ type, data }) => type === 'session_messages' && data.before);
  hear({ ...pageOf('s', []), request_id });
  assert.equal(await older, false);
});

test('a list that requests older records while the first ones are loading does not load them twice', async () => {
  const { client, asked } = withSession({ session_messages: () => undefined });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  assert.ok(client.conversation.joined);
  assert.equal(await client.older(), false);
  assert.equal(pagesAsked(asked).length, 1);
});

test('if the session changes while a project is joined, the new session is shown', async () => {
  const { client, asked, hear } = withSession({
    project_join: () => undefined,
    session_messages: ({ data }) => pageOf(data.session_id, data.session_id === 's' ? [199] : [200]),
  });
  client.choose('p');
  client.start('secret');
  await rest();
  await rest();
  const changed = project({ last_seq: 200, session_id: 'another' });
  hear({ type: 'update', project_id: 'p', data: { update_type: 'project_state', data: changed } });
  const { request_id } = asked.find(({ type }) => type === 'project_join');
  hear({ type: 'update', request_id, project_id: 'p', data: joined(200) });
  await rest();
  assert.deepEqual(
    client.conversation.items.map((item) => item.text),
    ['m200'],
  );
});

test('an earlier session is requested again if the connection was lost before its records arrived', async () => {
  let page;
  const { client, asked, breaks } = withSession({ session_messages: () => page });
  client.choose('p', 'earlier');
  client.start('secret');
  await rest();
  await rest();
  assert.equal(pagesAsked(asked).length, 1);
  page = pageOf('earlier', [7]);
  await breaks();
  assert.deepEqual(
    client.conversation.items.map((item) => item.text),
    ['m7'],
  );
});

const REMOVED = { run_id: 'run_2', outcome: 'interrupted', removed_by: 'Bob', client_id: 'client_8' };
const event = (seq, subtype, message) => ({
  seq,
  direction: 'server',
  message: { type: 'system', subtype, message },
});

/** Sends a prompt to `p`. The server accepts it, as `run_2` with the record number 7, when `accepts` is called. */
async function queues(more = {}) {
  const one = world({
    ...server(
      () => [project({ last_seq: 6 }), project({ id: 'q', path: '/q' })],
      () => 6,
    ),
    ...more,
  });
  one.client.choose('p');
  one.client.start('secret');
  await rest();
  await rest();
  const sent = one.client.execute('a fine idea');
  await rest();
  const { request_id } = one.asked.find(({ type }) => type === 'execute');
  const accepts = async () => {
    one.hear({ type: 'accepted', request_id, project_id: 'p', seq: 7, data: { run_id: 'run_2', position: 1 } });
    await sent;
  };
  return { ...one, accepts };
}

/** Opens another window, with a history of 300 records. @param records the records after the prompt's record */
async function returns(records, queue = []) {
  const one = world({
    ...server(
      () => [project({ last_seq: 300 })],
      () => 300,
    ),
    project_join: () => {
      const snapshot = joined(300);
      snapshot.data.queue = queue;
      return { type: 'update', data: snapshot };
    },
    get_messages: ({ data }) => {
      const messages = records.filter(({ seq }) => seq > (data.after_seq ?? 300)).slice(0, data.limit);
      return { type: 'message_history', data: { messages } };
    },
  });
  one.client.choose('p');
  one.client.start('secret');
  for (let turn = 0; turn < 20; turn++) await rest();
  return one;
}
const told = ({ removed }) => removed.map(({ by, prompt, project }) => ({ by, prompt, project }));

test('a terminal session is continued here only if its agent can fork a conversation', async () => {
  const hello = {
    ...HELLO,
    features: ['session_fork', 'project_create'],
    agents: ['codex', 'gemini'],
    forks: ['codex'],
  };
  const { client } = world({
    ...server(
      () => [],
      () => 0,
    ),
    hello: () => ({ type: 'hello', data: hello }),
  });
  client.start('secret');
  await rest();
  await rest();
  const of = (agent) => project({ id: `desk_${agent}`, agent, session_id: 's', desk: { state: 'finished' } });
  assert.deepEqual(
    ['codex', 'gemini'].map((agent) => client.canFork(of(agent))),
    [true, false],
  );
});

test('the removal of a prompt while the web UI was closed is shown until it is dismissed', async () => {
  const { accepts } = await queues();
  await accepts();
  const records = [...Array(200).keys()].map((number) => event(8 + number, 'prompt_edited', { run_id: 'run_1' }));
  records.push(event(208, 'run_finished', REMOVED));
  for (let window = 0; window < 2; window++) {
    const { client } = await returns(records);
    assert.deepEqual(told(client), [{ by: 'Bob', prompt: 'a fine idea', project: 'p' }]);
    if (window === 1) client.dismiss(client.removed[0]);
  }
  const { client, asked } = await returns(records);
  assert.deepEqual(client.removed, []);
  assert.ok(!asked.some(({ data }) => data?.after_seq === 7));
});

test('a prompt that waits, has run, or is no longer in the history is not reported as removed', async () => {
  const { accepts } = await queues();
  await accepts();
  const { client } = await returns([], [{ run_id: 'run_2', position: 1, prompt: 'a fine idea' }]);
  assert.deepEqual(client.removed, []);
  assert.deepEqual(Object.keys(kept.sent()), ['run_2']);
  const ran = [event(8, 'run_started', { run_id: 'run_2' }), event(9, 'run_finished', { run_id: 'run_2' })];
  for (const records of [ran, []]) {
    kept.keepSent('run_2', { project: 'p', prompt: 'a fine idea', seq: 7 });
    const later = await returns(records);
    assert.deepEqual(later.client.removed, []);
    assert.deepEqual(kept.sent(), {});
  }
});

test('a prompt that is accepted while another project is shown is remembered, too', async () => {
  const { client, accepts } = await queues();
  client.choose('q');
  await accepts();
  assert.deepEqual(kept.sent(), { run_2: { project: 'p', prompt: 'a fine idea', seq: 7 } });
  kept.prune([{ id: 'q' }]);
  assert.deepEqual(kept.sent(), {}, 'until its project is removed');
});

test('a prompt that its author has removed is not reported', async () => {
  const { client, accepts, hear } = await queues();
  await accepts();
  const data = { update_type: 'run_finished', data: { ...REMOVED, client_id: 'client_7' } };
  hear({ type: 'update', project_id: 'p', seq: 8, data });
  assert.deepEqual(client.removed, []);
  assert.deepEqual(kept.sent(), {});
});
