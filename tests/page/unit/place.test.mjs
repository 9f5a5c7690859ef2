import assert from 'node:assert/strict';
import { test } from 'node:test';

import { placeIn } from '../../../web/src/ui/place.ts';

test('an address names a view', () => {
  assert.deepEqual(placeIn(''), { view: 'home' });
  assert.deepEqual(placeIn('#/new'), { view: 'new' });
  assert.deepEqual(placeIn('#/settings'), { view: 'settings' });
  assert.deepEqual(placeIn('#/search?q=toll%20house'), { view: 'search', query: 'toll house', project: undefined });
  assert.deepEqual(placeIn('#/p/proj_1/s/a%20b?seq=7'), { view: 'project', project: 'proj_1', session: 'a b', seq: 7 });
});

test('an unknown address shows the home view', () => {
  for (const hash of ['#/p/', '#/p/../x', '#/nothing', '#token=x', '#/p/a/s/%'])
    assert.deepEqual(placeIn(hash), { view: 'home' });
});
