'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const test = require('node:test');

const { addresses, NO_SERVER, Refused, ServerLink } = require('../../../extensions/vscode/server_link');

const state = fs.mkdtempSync(path.join(os.tmpdir(), 'link-'));
const place = path.join(state, 'drawbridge', 'serve');
process.env.XDG_STATE_HOME = state;
fs.mkdirSync(place, { recursive: true, mode: 0o700 });
test.after(() => fs.rmSync(state, { recursive: true }));

/** Starts an agent server that answers a request with what `answer` returns for it, or not at all if that is null. */
async function server(name, answer = () => null, welcomes = true) {
  const address = path.join(place, name);
  const received = [];
  const sockets = new Set();
  const listener = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    const send = (message) => message && socket.write(JSON.stringify(message) + '\n');
    readline.createInterface({ input: socket }).on('line', (line) => {
      const message = JSON.parse(line);
      received.push(message);
      if (message.type !== 'bridge') send(answer(message));
      else if (welcomes) send({ type: 'welcome' });
    });
  });
  listener.listen(address);
  await once(listener, 'listening');
  return {
    received,
    send: (message) => sockets.forEach((socket) => socket.write(JSON.stringify(message) + '\n')),
    async end() {
      for (const socket of sockets) socket.destroy();
      listener.close();
      await once(listener, 'close');
    },
  };
}

/** Creates a link. `reports` contains the reports that the test has not read yet; `report()` waits for the next one. */
function linked() {
  const waiting = [];
  const reports = [];
  const note = (report) => (waiting.length ? waiting.shift()(report) : reports.push(report));
  const link = new ServerLink({
    about: () => ({ editor: 'VS Code', folders: ['/home/ada/blog'] }),
    connected: (isConnected) => note(isConnected),
    changed: (change) => note(change),
    log: () => {},
  });
  const report = () => (reports.length ? reports.shift() : new Promise((resolve) => waiting.push(resolve)));
  return { link, report, reports };
}

test('without a server, a request fails, and nothing is reported before it', async () => {
  const { link, reports } = linked();
  await link.arrived();
  assert.deepEqual(reports, []);
  await assert.rejects(link.request({ type: 'review_list' }), { message: NO_SERVER });
  link.dispose();
});

test('a link registers only for reviews, and receives answers and changes', async () => {
  const other = await server('1-1.sock', ({ id }) => ({ type: 'reviews', id, projects: ['p'] }));
  const { link, report } = linked();
  await link.arrived();
  assert.equal(await report(), true);
  assert.deepEqual(other.received, [
    { type: 'bridge', editor: 'VS Code', folders: ['/home/ada/blog'], reviews: true, offers: false },
  ]);
  assert.deepEqual((await link.request({ type: 'review_list' })).projects, ['p']);
  other.send({ type: 'of a later version' });
  other.send({ type: 'review_changed', project: 'p', by: 'phone' });
  assert.equal((await report()).by, 'phone');
  link.dispose();
  await other.end();
});

test('a refusal has the text and the code from the server', async () => {
  const refusal = { type: 'review', code: 'HUNK_GONE', text: 'It is gone.', details: { by: 'phone' } };
  const other = await server('1-1.sock', ({ id }) => ({ ...refusal, id }));
  const { link } = linked();
  await link.arrived();
  const error = await link.request({ type: 'review_decide' }).catch((found) => found);
  assert.ok(error instanceof Refused);
  assert.deepEqual([error.message, error.code, error.details.by], ['It is gone.', 'HUNK_GONE', 'phone']);
  link.dispose();
  await other.end();
});

test('when the server ends, pending requests fail, and the next server is found', async () => {
  const first = await server('1-1.sock');
  const { link, report } = linked();
  await link.arrived();
  assert.equal(await report(), true);
  const asked = link.request({ type: 'review_list' });
  await first.end();
  await assert.rejects(asked, /connection to the agent server was lost/);
  assert.equal(await report(), false);
  const second = await server('2-2.sock');
  assert.equal(await report(), true);
  link.dispose();
  await second.end();
});

test('a decision is sent again with the same id after a restart of the server', async () => {
  const killed = await server('1-1.sock');
  const { link, report } = linked();
  await link.arrived();
  assert.equal(await report(), true);
  const decided = link.decide({ type: 'review_decide', project: 'p', decision: 'undo', hunk: 'h' });
  while (killed.received.length < 2) await new Promise((resolve) => setImmediate(resolve));
  await killed.end();
  const restarted = await server('2-2.sock', ({ id }) => ({ type: 'review', id, project: 'p' }));
  assert.equal((await decided).project, 'p');
  assert.deepEqual(restarted.received[1], killed.received[1]);
  link.dispose();
  await restarted.end();
});

test('a decision that is refused is not sent again', async () => {
  const refusal = { type: 'review', code: 'HUNK_GONE', text: 'It is gone.' };
  const other = await server('1-1.sock', ({ id }) => ({ ...refusal, id }));
  const { link } = linked();
  await link.arrived();
  await assert.rejects(link.decide({ type: 'review_decide', hunk: 'h' }), { code: 'HUNK_GONE' });
  assert.equal(other.received.length, 2);
  link.dispose();
  await other.end();
});

test('a link moves to a newer server', async () => {
  const first = await server('1-1.sock');
  const { link, report } = linked();
  await link.arrived();
  assert.equal(await report(), true);
  const second = await server('2-2.sock');
  await link.look();
  assert.deepEqual([await report(), await report()], [false, true]);
  assert.equal(second.received.length, 1);
  link.dispose();
  await Promise.all([first.end(), second.end()]);
});

test('a server that ends without a welcome does not block callers', async () => {
  const earlier = await server('1-1.sock', () => null, false);
  const { link, reports } = linked();
  const arrived = link.arrived();
  while (!earlier.received.length) await new Promise((resolve) => setImmediate(resolve));
  await earlier.end();
  await arrived;
  assert.equal(link.isConnected, false);
  assert.deepEqual(reports, [], 'it was never connected');
  link.dispose();
});

test('a directory that other users can open is ignored', async () => {
  const other = await server('1-1.sock');
  assert.deepEqual(await addresses(), [path.join(place, '1-1.sock')]);
  fs.chmodSync(place, 0o755);
  assert.deepEqual(await addresses(), []);
  fs.chmodSync(place, 0o700);
  await other.end();
});
