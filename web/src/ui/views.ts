// Everything that is opened from the first view, except a session, in one file. With a file for each, what they share with
// the first view would be a dozen small files more, and on a slow network each of those takes a round trip.

export { default as Files } from '../files/page.tsx';
export { showSessions } from '../projects/agent-sessions.tsx';
export { default as ReviewView } from '../review/page.tsx';
export { default as Search } from '../search/page.tsx';
export { default as Settings } from '../settings/page.tsx';
export { showKeys } from './keys.tsx';
export { showPalette } from './palette.tsx';
