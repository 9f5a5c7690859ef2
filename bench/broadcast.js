// Node.js's usual WebSocket server (ws), which sends the same bytes to all its clients: the yardstick of
// bench/fanout.py. Arguments: the directory in which ws is installed, and the numbers of clients, frames, bytes per
// frame, frames per turn of the event loop, and milliseconds from one turn to the next.
const [, , directory, clients, frames, bytes, turn, pause] = process.argv;
const { WebSocketServer } = require(`${directory}/node_modules/ws`);
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
const filler = 'x'.repeat(Number(bytes));

function frame() {
  return `{"type":"agent_message","t":${process.hrtime.bigint()},"x":"${filler}`.slice(0, bytes - 2) + '"}';
}

function broadcast() {
  const data = Buffer.from(frame());
  for (const client of server.clients) client.send(data, { binary: false });
}

const later = () => new Promise((resolve) => setImmediate(resolve));
const asleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function room() {
  while ([...server.clients].some((client) => client.bufferedAmount > 65536)) await asleep(1);
}

// Sends `count` frames: `turn` of them in one turn of the event loop every `pause` milliseconds, without a pause if it
// falls behind. Returns the CPU seconds that this took.
async function measure(count) {
  const before = process.cpuUsage();
  const began = process.hrtime.bigint();
  for (let sent = 0; sent < count; ) {
    const ahead = Number(began - process.hrtime.bigint()) / 1e6 + (sent / Number(turn)) * Number(pause);
    await (ahead > 0 ? asleep(ahead) : later());
    for (let one = 0; one < Number(turn); one++, sent++) broadcast();
    await room();
  }
  const used = process.cpuUsage(before);
  return (used.user + used.system) / 1e6;
}

server.on('listening', () => console.log(JSON.stringify({ port: server.address().port })));
server.on('connection', async () => {
  if (server.clients.size < Number(clients)) return;
  await asleep(200);
  await measure(200);
  console.log(JSON.stringify({ cpu: await measure(Number(frames)) }));
  for (const client of server.clients) client.close(1001);
  server.close();
});
