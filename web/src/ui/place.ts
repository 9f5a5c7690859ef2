// Parses the addresses of the web UI. Pure.

import { type FilePlace, fileIn } from '../files/address.ts';
import { reviewIn } from '../review/address.ts';

/** The view that an address of the web UI opens. `session`: set if it is not the project's current one. */
export type Place =
  | { view: 'home' | 'new' | 'settings' }
  | { view: 'search'; query: string; project?: string }
  | ({ view: 'files' } & FilePlace)
  | { view: 'review'; project: string }
  | { view: 'project'; project: string; session?: string; seq?: number };

export function placeIn(hash: string): Place {
  const file = fileIn(hash);
  if (file) return { view: 'files', ...file };
  const reviewed = reviewIn(hash);
  if (reviewed !== undefined) return { view: 'review', project: reviewed };
  if (hash === '#/settings') return { view: 'settings' };
  if (hash.startsWith('#/search')) {
    const asked = new URLSearchParams(hash.split('?')[1]);
    return { view: 'search', query: asked.get('q') ?? '', project: asked.get('project') ?? undefined };
  }
  const found = /^#\/p\/([\w-]+)(?:\/s\/([^/?]+))?(?:\?seq=(\d+))?$/.exec(hash);
  const session = found?.[2] === undefined ? undefined : decoded(found[2]);
  if (found && session !== '')
    return { view: 'project', project: found[1], session, seq: found[3] ? Number(found[3]) : undefined };
  return { view: hash === '#/new' ? 'new' : 'home' };
}

/** Decodes a part of an address, or '' if it is not valid. */
function decoded(part: string) {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}
