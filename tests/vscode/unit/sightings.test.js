'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');

const { MOST, Sightings } = require('../../../extensions/vscode/sightings');

const lines = (count, word) => `${word}\n`.repeat(count);
const hunk = (given) => ({
  id: 'h',
  kind: 'lines',
  old_start: 11,
  new_start: 11,
  removed: 'b\n',
  added: 'B\n',
  ...given,
});
const file = (...hunks) => ({ path: 'a', change: 'changed', old_mode: '100644', new_mode: '100644', hunks });
const shown = (first, last, count = 100) => ({ ranges: [[first, last]], count });

test('a change is seen when its first and its last line have been in view', () => {
  const sightings = new Sightings();
  const long = file(hunk({ added: lines(30, 'B') }));
  assert.deepEqual(sightings.look('p', long, shown(0, 20), shown(0, 20)), []);
  assert.deepEqual(sightings.look('p', long, shown(20, 45), shown(20, 45)), ['h']);
});

test('the change that was looked at least recently is forgotten', () => {
  const sightings = new Sightings();
  const long = file(hunk({ added: lines(30, 'B') }));
  const looks = (project, first, last) => sightings.look(project, long, null, shown(first, last));
  looks('p', 0, 20);
  looks('q', 0, 20);
  for (let other = 0; other < MOST - 1; other++) looks(`other ${other}`, 0, 0);
  assert.deepEqual(looks('q', 20, 45), ['h']);
  assert.deepEqual(looks('p', 20, 45), [], 'its first line is no longer remembered');
});

test('on the left, the removed lines have to be in view as well', () => {
  const sightings = new Sightings();
  const long = file(hunk({ removed: lines(30, 'b') }));
  assert.deepEqual(sightings.look('p', long, shown(0, 20), shown(0, 20)), []);
  assert.deepEqual(sightings.look('p', long, shown(20, 45), shown(11, 20)), ['h']);
  assert.deepEqual(new Sightings().look('p', long, null, shown(0, 20)), ['h'], 'an inline diff has no left side');
});

test('the rows on the left follow from the other changes that are listed', () => {
  const before = hunk({ id: 'g', new_start: 1, old_start: 1, removed: '', added: lines(50, 'A') });
  const both = file(before, hunk({ new_start: 61 }));
  assert.deepEqual(new Sightings().look('p', both, shown(10, 10), shown(60, 60)), ['h']);
});

test('lines that were removed at the end are in view with the last line', () => {
  const end = file(hunk({ new_start: 100, removed: 'b\n', added: '' }));
  assert.deepEqual(new Sightings().look('p', end, null, shown(90, 99)), ['h']);
});

test('changes without lines are never in view', () => {
  assert.deepEqual(new Sightings().look('p', file(hunk({ kind: 'mode' })), null, shown(0, 99)), []);
});
