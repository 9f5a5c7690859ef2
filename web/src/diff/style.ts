// The layout of diffs: the same settings for all of them, kept by the browser.

import { computed, signal } from '@preact/signals';

import * as kept from '../state/kept.ts';

const roomy = matchMedia('(min-width: 1080px)');

/** Whether there is room for two columns. */
export const isRoomy = signal(roomy.matches);
roomy.addEventListener('change', () => (isRoomy.value = roomy.matches));

/** Whether the user wants two columns if there is room for them. `isWrapped`: whether lines are wrapped. */
export const isSplit = signal(false);
export const isWrapped = signal(false);

/** Reads the settings again: another window may have changed them. */
export function readSettings() {
  isSplit.value = kept.setting('diff') !== 'unified';
  isWrapped.value = kept.setting('wrap') !== 'off';
}
readSettings();

export const inColumns = computed(() => isRoomy.value && isSplit.value);

export function setSplit(yes: boolean) {
  isSplit.value = yes;
  kept.keepSetting('diff', yes ? 'split' : 'unified');
}

export function setWrapped(yes: boolean) {
  isWrapped.value = yes;
  kept.keepSetting('wrap', yes ? '' : 'off');
}
