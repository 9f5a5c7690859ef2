// Whether the screen is small: narrow, or as low as that of a phone in landscape orientation.

import { type Signal, signal } from '@preact/signals';

/** The same query as in projects.css. */
const SMALL = matchMedia('(max-width: 760px), (max-height: 500px)');

/** Whether there is only space for one thing at a time: one part of a review, one question. */
export const isSmall: Signal<boolean> = signal(SMALL.matches);

SMALL.addEventListener('change', () => (isSmall.value = SMALL.matches));
