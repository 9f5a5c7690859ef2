// Small helpers for views: names, times, sizes.

/** Ignores the second click of a double click, because it may hit something that has just moved there. */
export const single = (act: () => void) => (event: Event) => {
  if ((event as MouseEvent).detail < 2) act();
};

export const baseName = (path: string) => path.replace(/\/+$/, '').split('/').pop() || path;

/** "notes.md" for a file in the project, the whole path for any other file. */
export function shownPath(path: string, root: string | undefined) {
  return root && path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path;
}

/** "3 min ago" */
export function ago(time: string, now = Date.now()) {
  const seconds = Math.max(0, (now - Date.parse(time)) / 1000);
  if (seconds < 60) return 'just now';
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return new Date(time).toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
}

/** "1.4 s", "2 min 05 s" */
export function duration(ms: number) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return ms < 9_950 ? `${(ms / 1000).toFixed(1)} s` : `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}

/** "1 line", "2,000 lines" */
export const counted = (number: number, one: string) =>
  `${number.toLocaleString('en')} ${one}${number === 1 ? '' : 's'}`;

/** "$0.0012", "$1.25" */
export const money = (usd: number) => `$${usd.toFixed(usd < 0.01 ? 4 : 2)}`;

/** "3.2 MB" */
export const size = (bytes: number) =>
  bytes < 1e6 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;

/** The size of a text in UTF-8. */
export const textSize = (text: string) => size(new TextEncoder().encode(text).length);

/** Whether something in an element reaches beyond its right edge. A pixel is allowed for rounding. */
export const isBeyond = ({ scrollWidth, clientWidth }: Element) => scrollWidth > clientWidth + 1;
