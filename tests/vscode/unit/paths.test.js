'use strict';
const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');

const { isSame, locate, pathOf, stampOf } = require('../../../extensions/vscode/paths');

const place = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'paths-')));
const at = (...names) => path.join(place, ...names);
test.after(() => fs.rmSync(place, { recursive: true }));
fs.mkdirSync(at('real'));
fs.writeFileSync(at('real', 'a'), 'a');
fs.writeFileSync(at('real', 'b'), 'b');
fs.symlinkSync('real', at('link'));
fs.symlinkSync('a', at('real', 'other'));
fs.linkSync(at('real', 'a'), at('hard'));
fs.symlinkSync('loop', at('loop'));
fs.symlinkSync('link/new', at('dangling'));
fs.symlinkSync(at('dangling'), at('twice'));
fs.symlinkSync('link/../real/new', at('through'));

const same = async (one, other) => isSame(await locate(one), await locate(other));

test('links, dots and hard links lead to the same file', async () => {
  for (const other of [at('link', 'a'), at('link', 'other'), at('hard'), at('real') + '/../link/./a']) {
    assert.ok(await same(at('real', 'a'), other), other);
  }
  assert.equal(await same(at('real', 'a'), at('real', 'b')), false);
});

test('a missing file is located by its nearest existing parent', async () => {
  assert.ok(await same(at('link', 'new', 'file'), at('real', 'new', 'file')));
  assert.equal((await locate(at('link', 'new', 'file'))).name, at('real', 'new', 'file'));
  assert.equal(await same(at('link', 'new', 'file'), at('real', 'new', 'other')), false);
});

test('a link to a missing file is the same as that file', async () => {
  for (const name of ['dangling', 'twice', 'through']) assert.ok(await same(at(name), at('real', 'new')), name);
  assert.equal(await same(at('dangling'), at('real', 'other-new')), false);
});

test('circular links, and paths below a file, keep their names', async () => {
  assert.equal((await locate(at('loop'))).name, at('loop'));
  assert.equal((await locate(at('link', 'a', 'below'))).name, at('real', 'a', 'below'));
});

test('a stamp changes with the file, and a missing file has none', async () => {
  const before = await stampOf(at('real', 'b'));
  assert.equal(await stampOf(at('link', 'b')), before);
  fs.writeFileSync(at('real', 'b'), 'longer');
  assert.notEqual(await stampOf(at('real', 'b')), before);
  assert.equal(await stampOf(at('none')), null);
});

test('only files on this machine have a path', () => {
  const uri = (scheme) => ({ scheme, fsPath: '/fs/path', path: '/path' });
  assert.equal(pathOf(uri('file'), false), '/fs/path');
  assert.equal(pathOf(uri('vscode-remote'), true), '/path');
  for (const other of ['vscode-remote', 'untitled', 'git', 'output', 'vscode-notebook-cell']) {
    assert.equal(pathOf(uri(other), false), null);
  }
});
