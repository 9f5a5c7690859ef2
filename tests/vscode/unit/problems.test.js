'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');

const { fresh } = require('../../../extensions/vscode/problems');

const problem = (line, message, severity = 'error') => ({ line, severity, message, source: 'lint', code: null });

test('a problem that was reported before is not new', () => {
  assert.deepEqual(fresh([problem(1, 'a'), problem(2, 'b')], [problem(1, 'a'), problem(2, 'b')]), []);
});

test('a problem that has only moved to another line is not new', () => {
  assert.deepEqual(fresh([problem(1, 'a')], [problem(5, 'a')]), []);
});

test('of two equal problems, the one on the other line is new', () => {
  assert.deepEqual(fresh([problem(5, 'a')], [problem(1, 'a'), problem(5, 'a')]), [problem(1, 'a')]);
});

test('an error that was a warning is new', () => {
  assert.deepEqual(fresh([problem(1, 'a', 'warning')], [problem(1, 'a')]), [problem(1, 'a')]);
});

test('problems are sorted by severity, then by line', () => {
  const now = [problem(1, 'w', 'warning'), problem(9, 'late'), problem(3, 'early')];
  assert.deepEqual(
    fresh([], now).map(({ message }) => message),
    ['early', 'late', 'w'],
  );
});
