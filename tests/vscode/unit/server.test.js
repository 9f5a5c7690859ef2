'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');
const test = require('node:test');

const { LONGEST_LINE } = require('../../../extensions/vscode/lines');
const { listen, serve } = require('../../../extensions/vscode/server');

const place = fs.mkdtempSync(path.join(os.tmpdir(), 'server-'));
const address = path.join(place, 'a.sock');
test.after(() => fs.rmSync(place, { recursive: true }));

const METHODS = { echo: (params) => params, large: () => ({ text: 'x'.repeat(3_000_000) }) };

async function withServer(body) {
  const ended = [];
  const server = await listen(address, async (socket) => ended.push(await serve(socket, METHODS, () => {})));
  try {
    await body(ended);
  } finally {
    server.close();
  }
  assert.deepEqual(fs.readdirSync(place), [], 'it leaves nothing behind');
}

async function connected() {
  const socket = net.connect({ path: address, allowHalfOpen: true });
  socket.on('error', () => {});
  await once(socket, 'connect');
  return socket;
}

async function answers(socket) {
  const found = [];
  for await (const line of readline.createInterface({ input: socket })) found.push(JSON.parse(line));
  return found;
}

test('the socket is private, and no other file is created', () =>
  withServer(() => {
    assert.equal(fs.lstatSync(address).mode & 0o777, 0o600);
    assert.deepEqual(fs.readdirSync(place), ['a.sock']);
  }));

test('the socket is private from the start, whatever the umask', async () => {
  const seen = new Set();
  const record = () => {
    const found = fs.lstatSync(address, { throwIfNoEntry: false });
    if (found) seen.add(found.mode & 0o777);
    return Boolean(found);
  };
  const watcher = fs.watch(place);
  const noticed = new Promise((resolve) => watcher.on('change', () => record() && resolve()));
  const before = process.umask(0);
  try {
    await withServer(() => noticed);
  } finally {
    process.umask(before);
    watcher.close();
  }
  assert.deepEqual([...seen], [0o600]);
});

test('several requests in one chunk are answered in order, even after the client has closed its side', () =>
  withServer(async () => {
    const socket = await connected();
    socket.end(
      [1, 2, 3].map((id) => `{"id": ${id}, "method": "echo", "params": {"n": ${id}}}\n`).join('') + '\n \nnonsense\n',
    );
    assert.deepEqual(await answers(socket), [
      ...[1, 2, 3].map((n) => ({ id: n, result: { n } })),
      { id: null, error: { code: -32700, message: 'the line is not JSON' } },
    ]);
  }));

test('a slow reader receives all of a large answer', () =>
  withServer(async () => {
    const socket = await connected();
    socket.end('{"id": 1, "method": "large"}\n{"id": 2, "method": "large"}\n');
    await once(socket, 'readable'); // by now, the other side waits: the socket's buffers are full
    assert.deepEqual(
      (await answers(socket)).map(({ result }) => result.text.length),
      [3_000_000, 3_000_000],
    );
  }));

test('a line that is too long ends only its own connection', () =>
  withServer(async (ended) => {
    const [patient, socket] = [await connected(), await connected()];
    socket.write(Buffer.alloc(LONGEST_LINE + 1, ' '));
    assert.deepEqual(await answers(socket), []);
    assert.match(ended[0], /longer than 8388608 bytes/);
    patient.end('{"id": 1, "method": "echo"}\n');
    assert.deepEqual(await answers(patient), [{ id: 1, result: {} }]);
  }));

test('a client that disconnects in the middle of a request does no harm', () =>
  withServer(async () => {
    for (let count = 0; count < 20; count++) {
      const socket = await connected();
      socket.write('{"id": 1, "method": "large"}\n{"id"');
      socket.destroy();
    }
    const socket = await connected();
    socket.end('{"id": 1, "method": "echo"}\n');
    assert.deepEqual(await answers(socket), [{ id: 1, result: {} }]);
  }));

test('closing ends the connections too', async () => {
  let socket;
  await withServer(async () => {
    socket = await connected();
  });
  socket.resume();
  await once(socket, 'end');
  socket.destroy();
});

test('a socket on which no process listens is replaced', async () => {
  const code = `require('net').createServer().listen(${JSON.stringify(address)}, () => process.kill(process.pid, 'SIGKILL'))`;
  const killed = require('node:child_process').spawn(process.execPath, ['-e', code]);
  await once(killed, 'exit');
  assert.ok(fs.lstatSync(address).isSocket());
  await withServer(async () => (await connected()).destroy());
});

test('a socket on which a process listens is left alone', () =>
  withServer(async () => {
    await assert.rejects(
      listen(address, () => {}),
      /another process is already listening on/,
    );
    (await connected()).destroy();
    assert.deepEqual(fs.readdirSync(place), ['a.sock']);
  }));

test('a file that is not a socket is left alone', async () => {
  fs.writeFileSync(address, 'mine');
  await assert.rejects(
    listen(address, () => {}),
    /is not a socket and was not changed/,
  );
  assert.equal(fs.readFileSync(address, 'utf8'), 'mine');
  fs.rmSync(address);
});

test("another user's socket is left alone", { skip: process.getuid() !== 0 && 'requires root' }, async () => {
  const code = `require('net').createServer().listen(${JSON.stringify(address)}, () => process.kill(process.pid, 'SIGKILL'))`;
  await once(require('node:child_process').spawn(process.execPath, ['-e', code]), 'exit');
  fs.lchownSync(address, 12345, 12345);
  await assert.rejects(
    listen(address, () => {}),
    /belongs to another user and was not changed/,
  );
  assert.equal(fs.lstatSync(address).uid, 12345);
  fs.rmSync(address);
});

test('a missing directory and a path that is too long are reported', async () => {
  await assert.rejects(
    listen(path.join(place, 'none', 'a.sock'), () => {}),
    /none is not a directory/,
  );
  await assert.rejects(
    listen(path.join(place, 'x'.repeat(120)), () => {}),
    /longer than 10[37] bytes\. Set DRAWBRIDGE_SOCKET_DIR/,
  );
  assert.deepEqual(fs.readdirSync(place), []);
});

test('closing does not remove a socket that has replaced it', async () => {
  const server = await listen(address, () => {});
  fs.rmSync(address);
  await withServer(async () => {
    server.close();
    (await connected()).destroy();
  });
});
