import assert from 'node:assert/strict';
import { test } from 'node:test';

import { drawn } from './dom.mjs';

process.env.TZ = 'America/New_York';

const { dayWords, sums } = await import('../../../web/src/settings/usage.tsx');
const { QrCode } = await import('../../../web/src/settings/devices.tsx');

const ROWS = [
  { day: '2026-11-25', project_id: 'b', path: '/work/shop', runs: 1, cost_usd: 1.5 },
  { day: '2026-11-25', project_id: 'a', path: '/work/blog', runs: 2, input_tokens: 1000, output_tokens: 10 },
  { day: '2026-11-24', project_id: 'a', path: '/work/blog', runs: 3, cost_usd: 0.25, output_tokens: 5 },
];

test('usage is added up by day and by project', () => {
  assert.deepEqual(
    sums(ROWS, ({ day }) => [day, day.slice(-2)]),
    [
      { key: '2026-11-25', label: '25', runs: 3, cost: 1.5, tokens: 1010 },
      { key: '2026-11-24', label: '24', runs: 3, cost: 0.25, tokens: 5 },
    ],
  );
  assert.deepEqual(
    sums(ROWS, ({ project_id, path }) => [project_id, path]),
    [
      { key: 'b', label: '/work/shop', runs: 1, cost: 1.5, tokens: 0 },
      { key: 'a', label: '/work/blog', runs: 5, cost: 0.25, tokens: 1015 },
    ],
  );
});

test('days are not shifted in time zones west of Greenwich', () => {
  assert.match(dayWords('2026-11-25'), /25/);
});

test('a QR code has a dark square for each 1, inside a light border', () => {
  const code = drawn(QrCode, { rows: ['110', '001', '000'] }).firstChild;
  const [light, dark] = code.childNodes;
  assert.equal(code.attributes.viewBox, '0 0 11 11');
  assert.deepEqual([light.attributes.class, light.attributes.width, light.attributes.height], ['light', 11, 11]);
  assert.deepEqual([dark.attributes.class, dark.attributes.d], ['dark', 'M4 4h1v1h-1zM5 4h1v1h-1zM6 5h1v1h-1z']);
});
