'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');

const { BadParams, Lines, LineTooLong, respond } = require('../../../extensions/vscode/lines');

const METHODS = {
  echo: (params) => params,
  later: async () => null,
  picky: () => {
    throw new BadParams('file_path: not an absolute path');
  },
  broken: () => {
    throw new TypeError('oh no');
  },
};

const feed = (lines, text) => [...lines.feed(Buffer.from(text))].map(String);
const send = async (text) => (await respond(Buffer.from(text), METHODS)).answer;

test('a line is returned once it is complete, however it is split', () => {
  const lines = new Lines();
  assert.deepEqual(feed(lines, '{"a'), []);
  assert.deepEqual(feed(lines, '":1}\n\n{"b'), ['{"a":1}', '']);
  assert.deepEqual(feed(lines, '":2}\n'), ['{"b":2}']);
});

test('a character that is split between chunks is restored', () => {
  const lines = new Lines();
  const bytes = Buffer.from('"ä"\n');
  assert.deepEqual([...lines.feed(bytes.subarray(0, 2)), ...lines.feed(bytes.subarray(2))].map(String), ['"ä"']);
});

test('a line that is too long fails early, and the lines before it are returned', () => {
  const lines = new Lines(5);
  const found = [];
  assert.throws(() => {
    for (const line of lines.feed(Buffer.from('12345\n123456'))) found.push(String(line));
  }, LineTooLong);
  assert.deepEqual(found, ['12345']);
});

test('the answer has the id of its request', async () => {
  assert.deepEqual(await send('{"id": 7, "method": "echo", "params": {"a": 1}}'), { id: 7, result: { a: 1 } });
  assert.deepEqual(await send('{"id": "x", "method": "later"}'), { id: 'x', result: null });
});

for (const text of ['nonsense', '{"id": 1', '', '[]', '1', 'null', '"text"']) {
  test(`${JSON.stringify(text)} is not a valid request`, async () => {
    const { id, error } = await send(text);
    assert.deepEqual([id, error.code], [null, -32700]);
  });
}

test('bytes that are not UTF-8 are not a valid request', async () => {
  const { answer } = await respond(Buffer.from([0x22, 0xff, 0x22]), METHODS);
  assert.equal(answer.error.code, -32700);
});

for (const method of ['"none"', 'null', '7', '"toString"', '"__proto__"', '{}']) {
  test(`${method} is not a method`, async () => {
    const { id, error } = await send(`{"id": 3, "method": ${method}}`);
    assert.deepEqual([id, error.code], [3, -32601]);
  });
}

for (const params of ['[]', '"x"', '1', 'null']) {
  test(`${params} are not valid parameters`, async () => {
    const { id, error } = await send(`{"id": 3, "method": "echo", "params": ${params}}`);
    assert.deepEqual([id, error.code], [3, -32602]);
  });
}

test('invalid parameters and internal errors have different codes', async () => {
  const answers = [await send('{"id": 1, "method": "picky"}'), await send('{"id": 2, "method": "broken"}')];
  assert.deepEqual(answers, [
    { id: 1, error: { code: -32602, message: 'file_path: not an absolute path' } },
    { id: 2, error: { code: -32603, message: 'oh no' } },
  ]);
});
