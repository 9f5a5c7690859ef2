'use strict';
const assert = require('node:assert/strict');
const test = require('node:test');

const { ReviewVisits } = require('../../../extensions/vscode/review_visits');

const placed = (directory, ...ids) => ({
  ...{ project: directory, directory },
  review: { version: 'v', more: 0, files: [{ path: 'a', hunks: ids.map((id) => ({ id })) }] },
});
const news = (visits, ...reviews) => [...visits.news(reviews)].map(({ id }) => id);

test('on the first visit, nothing is marked', () => {
  const visits = new ReviewVisits();
  visits.begin('/a');
  visits.saw('/a', ['1']);
  assert.deepEqual(news(visits, placed('/a', '1', '2')), []);
  assert.equal(visits.hasNew([placed('/a', '1', '2')]), true);
});

test('a change that was not seen before this visit is new until the next one', () => {
  const visits = new ReviewVisits();
  visits.saw('/a', ['1']);
  visits.begin('/a');
  visits.saw('/a', ['2']);
  assert.deepEqual(news(visits, placed('/a', '1', '2', '3')), ['2', '3']);
  visits.begin('/a');
  assert.deepEqual(news(visits, placed('/a', '1', '2', '3')), ['3']);
  assert.equal(visits.hasNew([placed('/a', '1', '2')]), false);
});

test('a change that was seen in one directory is new in another one', () => {
  const visits = new ReviewVisits();
  visits.saw('/a', ['1']);
  visits.begin('/a');
  const [one, other] = [placed('/a', '1'), placed('/b', '1')];
  assert.deepEqual([...visits.news([one, other])], other.review.files[0].hunks);
});

test('seen changes are remembered, and those that the review still contains are returned', () => {
  const visits = new ReviewVisits();
  assert.equal(visits.saw('/a', ['1', '2']), true);
  assert.equal(visits.saw('/a', ['2']), false);
  assert.deepEqual(visits.seenIn(placed('/a', '2', '3')), ['2']);
});
