import assert from 'node:assert/strict';
import { test } from 'node:test';

import { deviceName } from '../../../web/src/state/device-name.ts';

const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';
const MAC =
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15';
const ANDROID =
  'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36';
const TABLET = ANDROID.replace(' Mobile', '');
const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0';
const EDGE =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36 Edg/126.0';

test('a device is named after its model or its browser', () => {
  assert.equal(deviceName(IPHONE, 5), 'iPhone');
  assert.equal(deviceName(MAC), 'Safari on Mac');
  assert.equal(deviceName(MAC, 5), 'iPad');
  assert.equal(deviceName(ANDROID, 5), 'Android phone');
  assert.equal(deviceName(TABLET, 5), 'Android tablet');
  assert.equal(deviceName(FIREFOX), 'Firefox on Linux');
  assert.equal(deviceName(EDGE, 10), 'Edge on Windows');
  assert.equal(deviceName('something else'), 'Browser on Linux');
});
