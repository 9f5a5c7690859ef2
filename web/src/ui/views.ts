// Everything that is opened from the first view, except a session, in one file. With a file for each, the code that
// they share with the first view would be a dozen more small files, each a round trip on a slow network.

export { default as Files } from '../files/page.tsx';
export { showSessions } from '../projects/agent-sessions.tsx';
export { default as ReviewView } from '../review/page.tsx';
export { default as Search } from '../search/page.tsx';
export { default as Settings } from '../settings/page.tsx';
export { showKeys } from './keys.tsx';
export { showPalette } from './palette.tsx';
