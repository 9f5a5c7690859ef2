// A Unix socket that only this user can use, and the answers to the lines on it.
'use strict';

const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');

const { Lines, LineTooLong, respond } = require('./lines');
const { codeOf } = require('./paths');

/** The maximum length of a socket's path, in bytes: 107 on Linux, 103 on macOS. */
const LONGEST_NAME = process.platform === 'linux' ? 107 : 103;

const MOST_CONNECTIONS = 100;

/**
 * Listens on `address`. The socket is created in a private directory, and moved to `address` once it listens and has
 * mode 0600, so that no other user can ever connect, and any client that finds the socket gets an answer.
 *
 * @param {string} address
 * @param {(socket: net.Socket) => void} connected
 * @returns {Promise<{close: () => void}>} `close` immediately ends all connections and removes the socket
 * @throws {Error} with a text for the user
 */
async function listen(address, connected) {
  const place = path.dirname(address);
  if (Buffer.byteLength(address) > LONGEST_NAME) {
    throw new Error(
      `the path of the socket, ${address}, is longer than ${LONGEST_NAME} bytes. Set DRAWBRIDGE_SOCKET_DIR to a ` +
        'directory with a shorter path, then restart VS Code',
    );
  }
  if (!fs.statSync(place, { throwIfNoEntry: false })?.isDirectory()) {
    throw new Error(
      `${place} is not a directory. Set DRAWBRIDGE_SOCKET_DIR to an existing directory, then restart VS Code`,
    );
  }
  await makeWay(address);
  const connections = new Set();
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    connections.add(socket);
    socket.on('close', () => connections.delete(socket));
    connected(socket);
  });
  server.maxConnections = MOST_CONNECTIONS;
  const directory = fs.mkdtempSync(path.join(place, '.drawbridge-'));
  try {
    server.listen(path.join(directory, 's'));
    await once(server, 'listening');
    fs.chmodSync(path.join(directory, 's'), 0o600);
    fs.renameSync(path.join(directory, 's'), address);
  } catch (error) {
    server.close();
    throw error;
  } finally {
    fs.rmSync(directory, { recursive: true, force: true });
  }
  server.on('error', () => {}); // an accept failed, perhaps for lack of file descriptors, but the next one may succeed
  const made = fs.lstatSync(address).ino;
  return {
    close() {
      if (fs.lstatSync(address, { throwIfNoEntry: false })?.ino === made) fs.rmSync(address, { force: true });
      server.close();
      for (const socket of connections) socket.destroy();
    },
  };
}

/**
 * Removes a dead socket of this user. If anything else exists at `address`, leaves it alone and throws an error.
 *
 * @param {string} address
 */
async function makeWay(address) {
  const found = fs.lstatSync(address, { throwIfNoEntry: false });
  if (!found) return;
  if (found.uid !== process.geteuid?.()) throw new Error(`${address} belongs to another user and was not changed`);
  if (!found.isSocket()) throw new Error(`${address} is not a socket and was not changed`);
  if (await isLive(address)) throw new Error(`another process is already listening on ${address}`);
  fs.rmSync(address, { force: true });
}

/**
 * Whether a process may be listening. Only a refused connection shows that none is. Other errors may mean a full queue.
 *
 * @param {string} address
 */
function isLive(address) {
  return new Promise((resolve) => {
    const socket = net.connect(address, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', (error) => resolve(codeOf(error) !== 'ECONNREFUSED'));
  });
}

/**
 * Answers the lines of one connection, one after another, until it ends. Never throws.
 *
 * @param {net.Socket} socket
 * @param {import('./lines').Methods} methods
 * @param {(reply: import('./lines').Answered) => void} answered is called with each answer
 * @returns {Promise<string>} why this side has ended it, or '' if the other side did, or after any other error
 */
async function serve(socket, methods, answered) {
  const closed = new AbortController();
  socket.on('close', () => closed.abort());
  const lines = new Lines();
  try {
    for await (const bytes of socket) {
      for (const line of lines.feed(bytes)) {
        if (line.toString('latin1').trim() === '') continue;
        const reply = await respond(line, methods);
        answered(reply);
        if (!socket.write(JSON.stringify(reply.answer) + '\n')) await once(socket, 'drain', { signal: closed.signal });
      }
    }
    socket.end();
    return '';
  } catch (error) {
    socket.destroy();
    return error instanceof LineTooLong ? error.message : '';
  }
}

module.exports = { listen, serve };
