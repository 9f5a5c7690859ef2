import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ICONS } from '../../../web/src/ui/icons.ts';

test('each icon has its own shape, and only the list icon consists of lines', () => {
  const shapes = Object.values(ICONS);
  assert.equal(new Set(shapes).size, shapes.length);
  const areLines = Object.keys(ICONS).filter((name) => /^(M[\d. ]+h[\d.]+)+$/.test(ICONS[name]));
  assert.deepEqual(areLines, ['list']);
});
