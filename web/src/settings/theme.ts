// The theme that the user chose, otherwise the system's.

import { signal } from '@preact/signals';

import * as kept from '../state/kept.ts';

export type Theme = '' | 'light' | 'dark';

/** The themes and their names. '' is the system's theme. */
export const THEMES: [Theme, string][] = [
  ['', 'System'],
  ['light', 'Light'],
  ['dark', 'Dark'],
];

export const theme = signal(kept.setting('theme') as Theme);

export function setTheme(chosen: Theme) {
  kept.keepSetting('theme', chosen);
  theme.value = chosen;
  applyTheme();
}

export function applyTheme() {
  if (theme.value === 'light' || theme.value === 'dark') document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
}
