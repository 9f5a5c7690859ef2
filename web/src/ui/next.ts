// The next approval request that waits, in any project. Pure.

import { addressOf } from '../projects/rows.ts';
import type { World } from './world.ts';

/**
 * The address of the next session with an open approval request, after the shown one, or undefined if there isn’t one.
 */
export function nextWaiting({ client, place }: Pick<World, 'client' | 'place'>): string | undefined {
  const waiting = client.projects.sorted().filter((project) => project.approvals.length > 0);
  const shown = place.value.view === 'project' ? place.value.project : undefined;
  const at = waiting.findIndex((project) => project.id === shown);
  const next = waiting[(at + 1) % waiting.length];
  return next && (next.id !== shown || (place.value.view === 'project' && place.value.session !== undefined))
    ? addressOf(next.id)
    : undefined;
}
