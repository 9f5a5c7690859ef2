import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Connection } from '../../../web/src/protocol/connection.ts';

/** A connection whose sockets and timers the test controls. */
function world() {
  const sockets = [];
  const timers = [];
  let ids = 0;
  const connect = () => {
    const socket = { sent: [], send: (text) => socket.sent.push(JSON.parse(text)), close: () => {} };
    sockets.push(socket);
    return socket;
  };
  const connection = new Connection({
    connect,
    later: (act, ms) => {
      const timer = { act, ms };
      timers.push(timer);
      return timer;
    },
    cancel: (timer) => timers.splice(0, timers.length, ...timers.filter((one) => one !== timer)),
    newId: () => `id${++ids}`,
  });
  const hear = (message) => sockets.at(-1).onmessage({ data: JSON.stringify(message) });
  const open = () => {
    sockets.at(-1).onopen();
    hear({ type: 'auth', data: {} });
  };
  return { connection, sockets, timers, hear, open, drop: (code = 1006) => sockets.at(-1).onclose({ code }) };
}

test('the token is sent first, and nothing else before it is accepted', async () => {
  const { connection, sockets, open } = world();
  connection.start('secret', 'Ada');
  const asked = connection.ask('project_list');
  await assert.rejects(asked, { code: 'OFFLINE' });
  sockets[0].onopen();
  assert.deepEqual(sockets[0].sent, [{ type: 'auth', data: { token: 'secret', client: 'Ada' } }]);
  open();
  assert.equal(connection.state, 'open');
});

test('the first requests are sent with the token, and only once', async () => {
  const { connection, sockets, hear } = world();
  let list;
  connection.onopen = () => void (list = connection.ask('project_list'));
  connection.start('secret', 'Ada');
  sockets[0].onopen();
  const types = () => sockets[0].sent.map(({ type }) => type);
  assert.deepEqual(types(), ['auth', 'project_list']);
  hear({ type: 'auth', data: {} });
  assert.deepEqual(types(), ['auth', 'project_list']);
  hear({ type: 'project_list', request_id: sockets[0].sent[1].request_id, data: { projects: [] } });
  assert.deepEqual((await list).data, { projects: [] });
});

test('requests that were sent with a refused token fail', async () => {
  const { connection, sockets, hear, drop } = world();
  let list;
  connection.onopen = () => void (list = connection.ask('project_list'));
  connection.start('wrong', 'Ada');
  sockets[0].onopen();
  hear({ type: 'error', data: { code: 'UNAUTHORIZED', message: 'The token is wrong.' } });
  drop(4401);
  await assert.rejects(list, { code: 'OFFLINE' });
  assert.equal(connection.state, 'refused');
});

test('a code is accepted before anything else is sent', () => {
  const { connection, sockets, hear } = world();
  connection.onopen = () => void connection.ask('project_list').catch(() => {});
  connection.pair('ABCD-EFGH', 'Phone');
  sockets[0].onopen();
  assert.deepEqual(sockets[0].sent, [{ type: 'pair', data: { code: 'ABCD-EFGH', name: 'Phone' } }]);
  hear({ type: 'paired', data: { token: 'mine', client: 'Phone' } });
  assert.equal(sockets[0].sent[1].type, 'project_list');
});

test('a socket that is already open is greeted immediately', async () => {
  const sent = [];
  const socket = { readyState: 1, send: (text) => sent.push(JSON.parse(text)), close: () => {} };
  const connection = new Connection({ connect: () => socket, later: () => {}, cancel: () => {} });
  connection.start('secret', 'Ada');
  await Promise.resolve(); // the caller may first choose a project
  assert.equal(sent[0].type, 'auth');
});

test('a refused token is not sent again', () => {
  for (const code of ['UNAUTHORIZED', 'TOKEN_REVOKED', 'TOKEN_EXPIRED']) {
    const { connection, timers, hear, drop } = world();
    connection.start('wrong', 'Ada');
    hear({ type: 'error', data: { code, message: 'The token is wrong.' } });
    drop(4401);
    assert.equal(connection.state, 'refused');
    assert.equal(timers.length, 0);
  }
});

test('a token that the server could not check is sent again', () => {
  const { connection, sockets, timers, hear, open, drop } = world();
  connection.start('secret', 'Ada');
  hear({ type: 'error', data: { code: 'INTERNAL_ERROR', message: 'The server failed.' } });
  drop(4401);
  assert.equal(connection.state, 'waiting');
  timers.at(-1).act();
  open();
  assert.equal(sockets.at(-1).sent[0].data.token, 'secret');
});

test('a token that the server did not read in time is sent again', () => {
  const { connection, sockets, timers, open, drop } = world();
  connection.start('secret', 'Ada');
  drop(4401);
  assert.equal(connection.state, 'waiting');
  timers.at(-1).act();
  open();
  assert.equal(connection.state, 'open');
  assert.equal(sockets.at(-1).sent[0].data.token, 'secret');
});

test('a paired device keeps its token when the server closes the connection', () => {
  const { connection, sockets, timers, hear, open, drop } = world();
  connection.pair('ABCD-EFGH', 'Phone');
  sockets[0].onopen();
  hear({ type: 'paired', data: { token: 'mine', client: 'Phone' } });
  drop(1013);
  timers.at(-1).act();
  open();
  assert.equal(sockets.at(-1).sent[0].data.token, 'mine');
});

test('the pauses between attempts grow, and are reset once the client is connected', () => {
  const { connection, timers, open, drop } = world();
  connection.start('secret', 'Ada');
  for (let n = 0; n < 7; n++) {
    drop();
    timers.at(-1).act();
  }
  assert.deepEqual(
    timers.map(({ ms }) => ms),
    [500, 1000, 2000, 5000, 10_000, 10_000, 10_000, 30_000],
  );
  open();
  drop();
  assert.equal(timers.at(-1).ms, 500);
});

test('after a reconnect, lasting requests are resent with their ids, and others fail', async () => {
  const { connection, sockets, timers, open, drop, hear } = world();
  connection.onopen = () => void connection.ask('project_list').catch(() => {});
  connection.start('secret', 'Ada');
  open();
  const lasting = connection.ask('execute', { prompt: 'x' }, { project: 'p', id: 'once', lasting: true });
  const passing = connection.ask('session_list');
  drop();
  await assert.rejects(passing, { code: 'OFFLINE' });
  timers.at(-1).act();
  open();
  assert.deepEqual(sockets[1].sent.map(({ type, request_id: id }) => [type, id]).slice(1), [
    ['project_list', 'id3'],
    ['execute', 'once'],
  ]);
  hear({ type: 'accepted', data: { run_id: 'r' }, request_id: 'once' });
  assert.equal((await lasting).data.run_id, 'r');
});

test('a stopped connection does not report that it was lost', async () => {
  const { connection, open, drop } = world();
  connection.start('secret', 'Ada');
  open();
  const stopped = connection.ask('session_list');
  connection.stop();
  await assert.rejects(stopped, { code: 'OFFLINE', message: /^You’re disconnected/ });
  connection.start('secret', 'Ada');
  open();
  const lost = connection.ask('session_list');
  drop();
  await assert.rejects(lost, { code: 'OFFLINE', message: /^The connection was lost/ });
});

test('the client reconnects to a server that does not answer', () => {
  const { connection, sockets, timers, open, hear } = world();
  connection.check();
  assert.equal(timers.length, 0, 'there is no connection to check');
  connection.start('secret', 'Ada');
  open();
  connection.check();
  connection.check();
  assert.deepEqual(
    sockets[0].sent.slice(1).map(({ type }) => type),
    ['hello'],
    'asked once',
  );
  hear({ type: 'update', data: {} });
  connection.check();
  assert.equal(timers.length, 1, 'any message ends a check, and the next check has its own timer');
  timers.at(-1).act();
  assert.equal(connection.state, 'waiting');
  timers.at(-1).act();
  open();
  assert.equal(connection.state, 'open');
});

test('an attempt to connect that is not answered is given up', () => {
  const { connection, timers, open } = world();
  connection.start('secret', 'Ada');
  assert.equal(timers.length, 1);
  timers[0].act();
  assert.equal(connection.state, 'waiting');
  timers.at(-1).act();
  open();
  assert.equal(connection.state, 'open');
});

test('messages on an old socket are ignored', () => {
  const { connection, sockets, timers, open, drop } = world();
  const heard = [];
  connection.onmessage = (message) => heard.push(message);
  connection.start('secret', 'Ada');
  open();
  drop();
  timers.at(-1).act();
  sockets[0].onmessage({ data: '{"type": "late", "data": {}}' });
  sockets[0].onclose({ code: 1006 });
  assert.deepEqual(
    heard.map(({ type }) => type),
    ['auth'],
  );
  assert.equal(connection.state, 'connecting');
});

test('an error rejects the request that it answers', async () => {
  const { connection, open, hear } = world();
  connection.start('secret', 'Ada');
  open();
  const asked = connection.ask('project_create', { path: '/' });
  hear({ type: 'error', data: { code: 'INVALID_PATH', message: 'No.' }, request_id: 'id1' });
  await assert.rejects(asked, { code: 'INVALID_PATH', message: 'No.' });
});

test('a request that the server can’t read is rejected immediately', async () => {
  const { connection, sockets, timers, hear, open } = world();
  connection.start('secret', 'Ada');
  open();
  const asked = connection.ask('execute', { prompt: 'x' }, { lasting: true });
  hear({ type: 'error', data: { code: 'INVALID_JSON', message: 'This is not JSON.' } });
  timers.at(-1).act();
  await assert.rejects(asked, { code: 'INVALID_JSON' });
  const later = connection.ask('execute', { prompt: 'a\ud800b\\ud800' }, { lasting: true });
  assert.equal(sockets[0].sent.at(-1).data.prompt, 'a\ufffdb\\ud800');
  hear({ type: 'ok', request_id: sockets[0].sent.at(-1).request_id, data: {} });
  await later;
});
