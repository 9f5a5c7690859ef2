'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');

const model = require('../../../extensions/vscode/review_model');

const hunk = (given = {}) => ({
  ...{ id: 'h1', kind: 'lines', old_start: 2, new_start: 2, removed: 'b\n', added: 'B\n' },
  ...given,
});
const file = (given = {}) => ({
  ...{ path: 'src/a.py', change: 'changed', old_mode: '100644', new_mode: '100644', added: 1, removed: 1 },
  ...{ hunks: [hunk()] },
  ...given,
});
const placed = (files, given = {}) => ({
  ...{ project: 'p1', directory: '/home/ada/blog', review: { version: 'v', files, more: 0, ...given } },
});
const lines = (nodes) =>
  nodes.flatMap((node) => [`${node.label} | ${node.description}`, ...lines(node.children).map((line) => `  ${line}`)]);

test('a file shows its line counts, and its changes below it', () => {
  const long = hunk({ id: 'h2', old_start: 5, new_start: 5, removed: '', added: '\n  new(\n)\n' });
  const gone = hunk({ id: 'h3', old_start: 9, new_start: 11, removed: 'x\n', added: '' });
  const [node] = model.tree([placed([file({ added: 4, removed: 2, hunks: [hunk(), long, gone] })])]);
  assert.deepEqual(lines([node]), [
    'a.py | src  +4 −2',
    '  Line 2 | +1 −1  B',
    '  Lines 5–7 | +3 −0  new(',
    '  Line 9 (removed) | +0 −1  x',
  ]);
  assert.deepEqual(
    node.children.map(({ icon }) => icon),
    ['diff-modified', 'diff-added', 'diff-removed'],
  );
  assert.equal(node.path, '/home/ada/blog/src/a.py');
  assert.equal(node.children[0].tooltip, '− b\n+ B');
});

test('files that are decided as a whole show that and have no entries below them', () => {
  const whole = (given) => hunk({ kind: 'file', removed: '', added: '', ...given });
  const nodes = model.tree([
    placed([
      file({ path: 'new', change: 'added', old_mode: null, removed: 0, hunks: [whole({ added: 'a\n' })] }),
      file({ path: 'gone', change: 'deleted', new_mode: null, added: 0, hunks: [whole({ removed: 'a\n' })] }),
      file({ path: 'image', binary: true, hunks: [whole()] }),
      file({ path: 'huge', too_large: true, hunks: [] }),
    ]),
  ]);
  assert.deepEqual(lines(nodes), [
    'new | +1 −0  new',
    'gone | +0 −1  deleted',
    'image | binary',
    'huge | too large to show',
  ]);
  for (const { tooltip } of nodes) assert.match(tooltip, /The file can be kept or undone only as a whole\.$/);
  assert.match(nodes[2].tooltip, /Its content is not shown: it is not UTF-8 text/);
});

test('each directory with a review has a line, unless the review is empty', () => {
  const other = { ...placed([file({ path: 'b.py' })], { more: 2 }), project: 'p2', directory: '/a' };
  const empty = { ...placed([]), project: 'p3', directory: '/empty' };
  const nodes = model.tree([placed([file()]), other, empty]);
  assert.deepEqual(
    lines(nodes).filter((line) => !line.startsWith('  ')),
    ['a | 3 files', 'blog | 1 file'],
  );
  assert.equal(model.changesIn([placed([file()]), other, empty]), 2);
  assert.equal(model.summary([placed([file()]), other, empty]), '4 files +2 −2');
  assert.equal(model.summary([empty]), '');
});

test('new changes and their files are marked', () => {
  const fresh = hunk({ id: 'h2' });
  const [node, other] = model.tree([placed([file({ hunks: [hunk(), fresh] }), file({ path: 'b' })])], new Set([fresh]));
  assert.deepEqual(
    [node, ...node.children, other].map(({ isNew }) => isNew),
    [true, false, true, false],
  );
  assert.match(node.children[1].tooltip, /\nNew since your last visit\.$/);
  assert.equal(model.summary([placed([file()])], 1), '1 file +1 −1 · 1 since your last visit');
});

test('the list can be limited to new changes and files that are too large to show', () => {
  const fresh = hunk({ id: 'h2', added: 'x\ny\n' });
  const all = [file({ added: 3, removed: 2, hunks: [hunk(), fresh] }), file({ path: 'b' })];
  const shown = model.only([placed([...all, file({ path: 'c', too_large: true, hunks: [] })])], new Set([fresh]));
  assert.deepEqual(lines(model.tree(shown)), ['a.py | src  +2 −1', '  Lines 2–3 | +2 −1  x', 'c | too large to show']);
  assert.equal(model.summary(shown), '2 files +3 −2');
});

test('changes that no diff shows count as seen in the list', () => {
  const image = file({ path: 'image', binary: true, hunks: [hunk({ id: 'i', kind: 'file', removed: '', added: '' })] });
  const [one, other] = model.tree([placed([file({ hunks: [hunk(), hunk({ id: 'm', kind: 'mode' })] }), image])]);
  assert.deepEqual([one, ...one.children, other].map(model.onlyListed), [[], [], ['m'], ['i']]);
});

test('the id of a line is unique, and stays the same while its change exists', () => {
  const two = placed([file({ hunks: [hunk(), hunk({ id: 'h2' })] }), file({ path: 'b.py' })]);
  const ids = (reviews) => model.tree(reviews).flatMap((node) => [node.id, ...node.children.map(({ id }) => id)]);
  assert.equal(new Set(ids([two])).size, 5);
  assert.ok(ids([placed([file()])]).every((id) => ids([two]).includes(id)));
});

test('a long list is collapsed at first', () => {
  const hunks = Array.from({ length: 31 }, (_, number) => hunk({ id: String(number) }));
  assert.equal(model.tree([placed([file({ hunks })])])[0].isOpen, false);
  assert.equal(model.tree([placed([file()])])[0].isOpen, true);
});

test('characters that hide or reorder text are written out', () => {
  const [node] = model.tree([placed([file({ path: 'a\u202egnp.js', hunks: [hunk({ added: '\u001b[31mred\n' })] })])]);
  assert.equal(node.label, 'a\\u202egnp.js');
  assert.equal(node.children[0].description, '+1 −1  \\x1b[31mred');
});

test('the left side is the file without the changes', () => {
  const hunks = [
    hunk({ id: '2', old_start: 4, new_start: 4, removed: 'd\n', added: 'D1\nD2\n' }),
    hunk({ id: '1', old_start: 0, new_start: 1, removed: '', added: 'A\n' }),
    hunk({ id: '3', old_start: 5, new_start: 6, removed: 'e\nf', added: '' }),
  ];
  assert.equal(model.before('A\nb\nc\nD1\nD2\ne2\n', file({ hunks })), 'b\nc\nd\ne2\ne\nf');
  assert.equal(model.before('a\nB', file({ hunks: [hunk({ removed: 'b\n', added: 'B' })] })), 'a\nb\n');
  assert.equal(model.before('a\r\nB\r\n', file({ hunks: [hunk({ removed: 'b\r\n', added: 'B\r\n' })] })), 'a\r\nb\r\n');
  assert.equal(model.before('', file({ hunks: [hunk({ new_start: 0, removed: 'b\n', added: '' })] })), 'b\n');
  assert.equal(model.before('a\nx\n', file()), null, 'another program has changed the line');
  assert.equal(model.before('a\n', file()), null);
});

test('the documents that a diff compares depend on the change', () => {
  const whole = [hunk({ kind: 'file' })];
  assert.deepEqual(model.sides(file()), { left: 'before', right: 'file' });
  assert.deepEqual(model.sides(file({ change: 'added', hunks: whole })), { left: 'text', right: 'file' });
  assert.deepEqual(model.sides(file({ change: 'deleted', hunks: whole })), { left: 'text', right: 'text' });
  assert.deepEqual(model.sides(file({ old_mode: '120000', new_mode: '120000' })), { left: 'text', right: 'text' });
  assert.equal(model.sides(file({ binary: true, hunks: whole })), null);
  assert.equal(model.sides(file({ too_large: true, hunks: [] })), null);
  assert.equal(model.sides(file({ hunks: [hunk({ kind: 'mode' })] })), null);
});

test('the change at the cursor is found', () => {
  const gone = hunk({ id: 'h2', new_start: 5, removed: 'x\n', added: '' });
  const given = file({ hunks: [hunk({ added: 'B\nC\n' }), gone] });
  assert.deepEqual(
    [0, 1, 2, 3, 5].map((row) => model.hunkAt(given, row)?.id ?? null),
    [null, 'h1', 'h1', null, 'h2'],
  );
  assert.equal(model.rowOf(gone), 5);
  assert.equal(model.rowOf(hunk()), 1);
});

test('a document in which lines have moved is recognized', () => {
  const given = file({ hunks: [hunk({ added: 'B\nC\n' }), hunk({ id: 'h2', new_start: 5, added: 'E\n' })] });
  assert.equal(model.isShownIn('a\nB\nC\nd\nE\n', given), true);
  assert.equal(model.isShownIn('new\na\nB\nC\nd\nE\n', given), false);
  assert.equal(model.isShownIn('a\nB\nC\nnew\nd\nE\n', given), false, 'only the second change has moved');
});

test('a document has no byte order mark and only one kind of line ending', () => {
  const given = file({ hunks: [hunk({ new_start: 1, added: '\ufeffA\r\nB\n' })] });
  assert.equal(model.isShownIn('A\r\nB\r\nc\r\n', given), true);
  assert.equal(model.isShownIn('A\nB\nc', given), true);
});

test('a document whose encoding is not UTF-8 is compared without its other characters', () => {
  const given = file({ hunks: [hunk({ new_start: 1, added: 'caf\ufffd\nB\n' })] });
  assert.equal(model.isShownIn('caf\u00e9\nB\n\u00fc\n', given), true);
  assert.equal(model.isShownIn('new\ncaf\u00e9\nB\n', given), false);
});

test('the question before keeping everything counts all changes', () => {
  const { question, detail } = model.keepAllQuestion([placed([file(), file({ path: 'b' })], { more: 1 })]);
  assert.equal(question, 'Keep 2 changes in 2 files?');
  assert.equal(detail, 'The files stay as they are. 1 more file not shown in the list is kept too.');
});

test('a review from which changes may be missing is named', () => {
  const late = placed([file()], { missing: 'Changes may be missing: git was\u001b late.' });
  assert.deepEqual(model.missing([placed([file()]), late]), ['blog: Changes may be missing: git was\\x1b late.']);
});
