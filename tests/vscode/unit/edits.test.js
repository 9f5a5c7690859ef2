'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');

const { checked, replacements } = require('../../../extensions/vscode/edits');
const { BadParams } = require('../../../extensions/vscode/lines');

/** Applies the edits as VS Code does. Each replaces a range of the original text, and no two ranges may overlap. */
function edited(text, edits, eol = '\n') {
  const lines = text.split(eol);
  const offset = ([line, character]) =>
    lines.slice(0, line).reduce((sum, one) => sum + one.length + eol.length, character);
  const found = replacements(edits, lines.length, (line) => lines[line].length, eol);
  let at = 0;
  let result = '';
  for (const { from, to, text: fresh } of found) {
    assert.ok(offset(from) >= at, 'ranges overlap');
    result += text.slice(at, offset(from)) + fresh;
    at = offset(to);
  }
  return result + text.slice(at);
}

/** Returns the text that the edits should produce, computed on a list of lines. */
function expected(text, edits, eol = '\n') {
  const ends = text === '' || text.endsWith(eol);
  const lines = text === '' ? [] : text.split(eol).slice(0, ends ? -1 : undefined);
  for (const { start, end, lines: fresh } of [...edits].reverse()) lines.splice(start, end - start, ...fresh);
  return lines.join(eol) + (ends && lines.length ? eol : '');
}

const EDITS = {
  'a line in the middle': [{ start: 1, end: 2, lines: ['B'] }],
  'an insertion at the beginning': [{ start: 0, end: 0, lines: ['x', 'y'] }],
  'an insertion at the end': [{ start: 3, end: 3, lines: ['x', 'y'] }],
  'the first line goes': [{ start: 0, end: 1, lines: [] }],
  'the last line goes': [{ start: 2, end: 3, lines: [] }],
  'the last line changes': [{ start: 2, end: 3, lines: ['C', 'D'] }],
  'all goes': [{ start: 0, end: 3, lines: [] }],
  'all changes': [{ start: 0, end: 3, lines: ['x'] }],
  'both ends': [
    { start: 0, end: 1, lines: ['A'] },
    { start: 2, end: 3, lines: ['C'] },
  ],
  'edits that touch': [
    { start: 0, end: 1, lines: ['A'] },
    { start: 1, end: 3, lines: ['B', 'C', 'D'] },
  ],
  'an insertion that touches': [
    { start: 1, end: 2, lines: [] },
    { start: 2, end: 2, lines: ['x'] },
  ],
  nothing: [],
};

for (const [name, edits] of Object.entries(EDITS)) {
  for (const text of ['a\nb\nc\n', 'a\nb\nc', '\n\n\n', 'a\n\nc']) {
    test(`${name} of ${JSON.stringify(text)}`, () => assert.equal(edited(text, edits), expected(text, edits)));
  }
  test(`${name}, with CRLF`, () =>
    assert.equal(edited('a\r\nb\r\nc', edits, '\r\n'), expected('a\r\nb\r\nc', edits, '\r\n')));
}

test('lines inserted into an empty text have line endings', () => {
  assert.equal(edited('', [{ start: 0, end: 0, lines: ['a', 'b'] }]), 'a\nb\n');
});

for (const [name, edits] of Object.entries({
  'no list': { start: 0 },
  backwards: [{ start: 2, end: 1, lines: [] }],
  'beyond the end': [{ start: 0, end: 4, lines: [] }],
  'out of order': [
    { start: 2, end: 3, lines: [] },
    { start: 0, end: 1, lines: [] },
  ],
  overlapping: [
    { start: 0, end: 2, lines: [] },
    { start: 1, end: 3, lines: [] },
  ],
  'half a line': [{ start: 0.5, end: 1, lines: [] }],
  'no numbers': [{ start: '0', end: '1', lines: [] }],
  'no lines': [{ start: 0, end: 1 }],
  'a line of two lines': [{ start: 0, end: 1, lines: ['a\nb'] }],
  'nothing at all': [null],
})) {
  test(`refused edits: ${name}`, () => assert.throws(() => checked(edits, 3), BadParams));
}
