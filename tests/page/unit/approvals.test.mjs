// The modules behind the cards of approval requests, without a browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  asksQuestions,
  editableFields,
  FLAG,
  flagsIn,
  inDiff,
  risksIn,
  shownFlags,
  titleOf,
} from '../../../web/src/approvals/input.ts';
import { settledWords, verbOf } from '../../../web/src/conversation/settled.ts';
import { cellsOf, editedCell } from '../../../web/src/approvals/notebook.ts';
import { Questions } from '../../../web/src/approvals/questions.ts';
import { reasonsFor, toggled } from '../../../web/src/approvals/reasons.ts';
import { Collected } from '../../../web/src/approvals/comments.ts';
import { inserted } from '../../../web/src/approvals/inserted.ts';
import { Unseen } from '../../../web/src/approvals/unseen.ts';

const cell = (source, more = {}) => ({ cell_type: 'code', id: 'a', metadata: {}, outputs: [], source, ...more });
const book = (cells, more = {}) => JSON.stringify({ cells, metadata: {}, nbformat: 4, ...more });

test('the cells that change are found', () => {
  const found = cellsOf(book([cell('a'), cell('b')]), book([cell('a'), cell(['b\n', 'c'])]));
  assert.deepEqual(found, {
    cells: [{ number: 2, type: 'code', kind: 'changed', old_text: 'b', new_text: 'b\nc' }],
    outputs: false,
  });
});

test('added and deleted cells are found', () => {
  const [added] = cellsOf(book([cell('a')]), book([cell('a'), cell('b', { id: 'b' })])).cells;
  assert.deepEqual([added.kind, added.number, added.new_text], ['added', 2, 'b']);
  const [deleted] = cellsOf(book([cell('a'), cell('b', { id: 'b' })]), book([cell('a')])).cells;
  assert.deepEqual([deleted.kind, deleted.number, deleted.old_text], ['deleted', 2, 'b']);
});

test('removed outputs are reported', () => {
  const before = book([cell('a', { outputs: [{ text: 'x' }], execution_count: 1 })]);
  assert.equal(cellsOf(before, book([cell('b', { execution_count: null })])).outputs, true);
});

test('a notebook whose cells do not show all of the change is not shown by cells', () => {
  const before = book([cell('a')]);
  assert.equal(cellsOf(before, book([cell('b')], { nbformat: 5 })), undefined);
  assert.equal(cellsOf(before, book([cell('b', { metadata: { run: 'always' } })])), undefined);
  assert.equal(cellsOf(before, book([cell('b', { outputs: [{ text: 'false' }] })])), undefined);
  assert.equal(cellsOf(before, book([cell('a'), cell('b', { metadata: { x: 1 } })])), undefined);
  assert.equal(cellsOf('', before), undefined);
  assert.equal(cellsOf(before, '{"cells": [1]}'), undefined);
  assert.equal(cellsOf(before, 'null'), undefined);
  for (const more of [{ evil: 'x' }, { id: 'not an id' }, { id: ['evil'] }, { metadata: null, cell_type: { evil: 1 } }])
    assert.equal(cellsOf(before, book([cell('a'), cell('b', more)])), undefined, JSON.stringify(more));
  for (const source of [['b', { evil: 1 }], [['b']], { evil: 1 }, 1])
    assert.equal(cellsOf(before, book([cell(source)])), undefined, JSON.stringify(source));
});

test('a notebook with text that parsing drops is not shown by cells', () => {
  const before = book([cell('a')]);
  const after = book([cell('b')], { more: { size: 1 } });
  const old = book([cell('a')], { more: { size: 1 } });
  assert.notEqual(cellsOf(old, after), undefined);
  const changes = {
    'a field of a cell twice': ['"source":', '"source":["evil"],"source":'],
    'the same name in other letters': ['"source":', '"sourc\\u0065":["evil"],"source":'],
    'the cells twice': ['{"cells":', '{"cells":[{"evil":1}],"cells":'],
    'a field of the notebook twice': ['"nbformat":', '"nbformat":"evil","nbformat":'],
    'a field inside twice': ['"size":', '"size":"evil","size":'],
    'a name that every object has': ['"size":1', '"size":1,"__proto__":"evil","__proto__":1'],
    'a number that is too large': ['"size":1', '"size":1e999'],
    'a number with too many digits': ['"size":1', '"size":1.00000000000000000666'],
    'a number that is too small': ['"size":1', '"size":1e-999'],
  };
  for (const [name, [part, other]] of Object.entries(changes)) {
    assert.ok(after.includes(part), name);
    assert.equal(cellsOf(old, after.replace(part, other)), undefined, name);
    assert.equal(cellsOf(old.replace(part, other), after), undefined, name);
  }
  assert.notEqual(cellsOf(before, book([cell('"source": \\ {"a": 1, "a": 1e999}')])), undefined);
  for (const size of ['1.0', '1e-05', '0.30000000000000004', '1E+22', '-0.0', '5e-324', '1000000'])
    assert.notEqual(cellsOf(...[old, after].map((one) => one.replace('"size":1', `"size":${size}`))), undefined, size);
});

test('the text of a cell can be edited only if the server accepts that and the cell shows the whole change', () => {
  const proposal = { path: '/a.ipynb', old_text: book([cell('a')]), new_text: book([cell('b')]) };
  const request = { kind: 'notebook', input: { new_source: 'b' }, proposal, editable: ['new_source'] };
  assert.equal(editedCell(request).new_text, 'b');
  assert.equal(editedCell({ ...request, editable: [] }), undefined);
  assert.equal(editedCell({ ...request, editable: undefined }), undefined);
  assert.equal(editedCell({ ...request, truncated: { blob_id: 'b', bytes: 1 } }), undefined);
  assert.equal(editedCell({ ...request, proposal: undefined }), undefined);
  assert.equal(editedCell({ ...request, kind: 'overwrite' }), undefined);
  assert.equal(editedCell({ ...request, input: { new_source: 'c' } }), undefined);
  for (const cells of [[], [cell('b'), cell('c', { id: 'c' })], [cell('b', { metadata: { x: 1 } })]])
    assert.equal(editedCell({ ...request, proposal: { ...proposal, new_text: book(cells) } }), undefined);
});

test('comments are in the order of the lines', () => {
  const comments = new Collected(
    [],
    (path) => path.replace('/p/', ''),
    () => {},
  );
  comments.set('/p/b.py', '3', 'third', 'c');
  comments.set('/p/a.py', '10', 'tenth ', 'j');
  comments.set('/p/a.py', '−9', 'ninth', 'i');
  comments.set('/p/a.py', '2', '  ', 'b');
  assert.equal(comments.count.value, 3);
  assert.equal(
    comments.message('And test it.'),
    'a.py:9 (removed line)\n> i\nninth\n\na.py:10\n> j\ntenth\n\nb.py:3\n> c\nthird\n\nAnd test it.',
  );
});

const asked = () => ({
  questions: [
    { question: 'One?', options: [{ label: 'A' }, { label: 'B' }] },
    { question: 'Many?', multiSelect: true, options: [{ label: 'C' }, { label: 'D' }] },
  ],
});

test('all questions have to be answered', () => {
  const questions = new Questions(asked(), undefined, () => {});
  questions.pick(2);
  assert.equal(questions.submit(), undefined);
  assert.match(questions.problem.value, /Many\?/);
  assert.equal(questions.at.value, 1);
  assert.equal(questions.pick(3), false);
  questions.pick(2);
  questions.pick(1);
  questions.all[1].write('and E');
  assert.deepEqual(questions.submit().answers, { 'One?': 'B', 'Many?': 'C, D, and E' });
});

test('an option replaces a typed answer, and a typed answer replaces an option', () => {
  const [question] = new Questions(asked(), undefined, () => {}).all;
  question.write('mine');
  question.pick('A');
  assert.equal(question.answer, 'A');
  question.write('mine again');
  assert.equal(question.answer, 'mine again');
});

test('a draft is restored without options that no longer exist', () => {
  const begun = [{ chosen: ['A', 'gone'], own: '' }];
  const questions = new Questions(asked(), begun, () => {});
  assert.deepEqual(questions.all[0].chosen.value, ['A']);
});

test('a cut request is not shown as questions', () => {
  const request = { kind: 'question', input: { questions: [{ question: 'Which?' }] } };
  assert.equal(asksQuestions(request), true);
  assert.equal(asksQuestions({ ...request, truncated: { blob_id: 'b', bytes: 5_000_000 } }), false);
});

test('only text fields of the input can be edited', () => {
  const request = { kind: 'command', input: { command: 'ls', n: 1 }, editable: ['command', 'n', 'toString'] };
  assert.deepEqual(editableFields(request), ['command']);
  assert.deepEqual(editableFields({ ...request, truncated: { bytes: 1 } }), []);
  assert.deepEqual(editableFields({ ...request, editable: undefined }), []);
});

test('the diff shows only the fields that the server names', () => {
  const request = { input: { file_path: '/a', mode: 'x' }, proposal: {}, shown_fields: ['file_path'] };
  assert.deepEqual(inDiff(request), ['file_path']);
  assert.deepEqual(inDiff({ ...request, proposal: undefined }), []);
  assert.deepEqual(inDiff({ ...request, shown_fields: undefined }), []);
});

test('a risk without a position marks nothing', () => {
  const risks = [
    { code: 'sudo', text: 's', field: 'command', start: 0, end: 4 },
    { code: 'delete', text: 'd', field: 'command' },
    { code: 'delete', text: 'd', field: 'url', start: 1, end: 2 },
  ];
  assert.deepEqual(risksIn({ risks }, 'command'), [risks[0]]);
});

test('a field that is a risk as a whole is a flag, with the server’s words', () => {
  const flag = { code: 'background', text: 'Runs in the background', field: 'run_in_background' };
  const nested = { ...flag, field: 'rawInput.run_in_background' };
  const request = { risks: [{ code: 'sudo', text: 's', field: 'command' }, flag, nested, { ...flag, field: 'gone' }] };
  const input = { command: ['sudo'], run_in_background: true, dangerously: 'x' };
  assert.deepEqual(flagsIn(request, input), [{ name: 'run_in_background', risk: flag }]);
  assert.deepEqual(flagsIn(request, input, 'rawInput.'), [{ name: 'run_in_background', risk: nested }]);
  assert.deepEqual(shownFlags(request, input), ['run_in_background']);
  assert.deepEqual(shownFlags(request, { run_in_background: 'x'.repeat(FLAG + 1) }), []);
});

test('a request with questions is recognized by its kind', () => {
  const answer = { decision: 'allow', by: 'Ada', updated_input: { answers: { 'Which?': ['Oak', 'Ash'] } } };
  const request = { kind: 'question', tool_name: 'Ask', input: {} };
  assert.equal(settledWords(answer, request).words, 'Answered by Ada: Oak, Ash');
  assert.equal(settledWords({ decision: 'deny', by: 'Ada' }, request).words, 'Skipped by Ada');
  assert.equal(verbOf(answer, request), 'answered');
  assert.equal(verbOf(answer, { ...request, kind: 'tool', tool_name: 'AskUserQuestion' }), 'accepted');
});

test('the server’s title is used unless it shortens a name', () => {
  const request = { tool_name: 'Edit', input: {}, title: { text: 'Claude wants to edit', path: 'a.py' } };
  assert.deepEqual(titleOf(request, 'Claude'), ['Claude wants to edit', 'a.py']);
  const long = 'x'.repeat(300);
  assert.deepEqual(titleOf({ ...request, tool_name: long }, 'Claude'), [`Claude wants to use ${long}`, 'a.py']);
  assert.deepEqual(titleOf({ ...request, title: undefined }, 'Claude'), ['Claude wants to use Edit', undefined]);
});

test('a common reason is added to the message, and removed when it is chosen again', () => {
  const [wrong, , tests] = reasonsFor(false, true);
  const both = toggled(toggled('Sorry. ', wrong), tests);
  assert.equal(both, 'Sorry. This is the wrong file. Add tests for this change.');
  assert.equal(toggled(both, wrong), 'Sorry. Add tests for this change.');
  assert.equal(toggled('', wrong), 'This is the wrong file.');
  assert.equal(toggled(wrong.text, wrong), '');
});

/** A replacement that maps positions as CodeMirror does. */
const replaced = (from, to, length) => ({
  mapPos: (at, side) => {
    if (at < from || (at === from && side < 0)) return at;
    if (at > to || (at === to && side > 0)) return at + length - (to - from);
    return side < 0 ? from : from + length;
  },
  iterChangedRanges: (act) => act(from, to, from, from + length),
});

test('all of a text has to have been in view, in any order', () => {
  const unseen = new Unseen([[0, 100]]);
  unseen.see(60, 100);
  unseen.see(0, 30);
  assert.equal(unseen.isEmpty, false);
  unseen.see(31, 59);
  assert.equal(unseen.isEmpty, true);
});

test('the position of removed text has to have been in view', () => {
  const unseen = new Unseen([[50, 50]]);
  unseen.see(0, 40);
  assert.equal(unseen.isEmpty, false);
  unseen.see(45, 60);
  assert.equal(unseen.isEmpty, true);
});

test('unseen text moves with edits, and replaced text need not be seen', () => {
  const unseen = new Unseen([
    [10, 20],
    [50, 60],
  ]);
  unseen.change(replaced(0, 0, 100));
  unseen.see(0, 105);
  assert.equal(unseen.isEmpty, false);
  unseen.see(105, 125);
  unseen.change(replaced(140, 170, 0));
  assert.equal(unseen.isEmpty, true);
});

test('inserted text has to be seen, even if all of the previous text was seen', () => {
  const unseen = new Unseen([[0, 10]]);
  unseen.change(replaced(0, 10, 0));
  assert.equal(unseen.isEmpty, true);
  unseen.change(replaced(0, 0, 10)); // an undo
  unseen.see(0, 5);
  assert.equal(unseen.isEmpty, false);
  unseen.see(6, 10);
  assert.equal(unseen.isEmpty, true);
});

test('the text that an edit has inserted is found', () => {
  assert.equal(inserted('one\nthree\n', 'one\n2\nthree\n'), '2\n');
  assert.equal(inserted('aaa', 'aaaa'), 'a');
  assert.equal(inserted('', 'all'), 'all');
  assert.equal(inserted('one two', 'one'), '');
  assert.equal(inserted('a b c', 'x b y'), 'x b y');
});
