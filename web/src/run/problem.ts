// Why a run failed, and what the user can do about it. Pure.

import { clock } from '../projects/words.ts';

export type Help = 'retry' | 'new' | 'compact' | 'login' | 'install';
export type Problem = { title: string; hint?: string; help: Help[] };

/**
 * The problem of a run, or undefined if it did not fail or time out.
 * @param agent the display name, such as "Claude"
 * @param canCompact whether the agent can compact its conversation on request
 * @param isKnown whether the server has this agent, installed or not
 */
export function problemOf(
  { outcome, code, retry_at: until }: { outcome: string; code?: string; retry_at?: string | null },
  agent: string,
  now = new Date(),
  canCompact = true,
  isKnown = true,
): Problem | undefined {
  if (outcome === 'timeout') return { title: 'The run timed out', help: ['retry'] };
  if (outcome !== 'failed') return undefined;
  if (code === 'AGENT_RATE_LIMITED') {
    const later = until && Date.parse(until) > now.getTime();
    return {
      title: `${agent} has reached its usage limit`,
      hint: until ? (later ? `It resets at ${clock(until, now)}.` : 'It has since reset.') : undefined,
      help: ['retry'],
    };
  }
  if (code === 'AGENT_NOT_FOUND' && !isKnown)
    return {
      title: `The server no longer has ${agent.replace(/^The /, 'the ')}`,
      hint: 'Choose another agent, or restart the server with this one. Then retry.',
      help: ['retry'],
    };
  if (code === 'AGENT_NOT_FOUND')
    return { title: `${agent} isn’t installed on the server`, help: ['install', 'retry'] };
  if (code === 'AGENT_TOO_OLD')
    return { title: `${agent} is too old`, hint: 'Update it on the server, then retry.', help: ['retry'] };
  if (code === 'BUDGET_EXCEEDED')
    return { title: 'The budget is used up', hint: 'The server’s owner can raise it.', help: [] };
  if (code === 'MEMORY_LIMIT')
    return { title: `${agent} used too much memory and was stopped`, help: ['retry', 'new'] };
  if (code === 'CONTEXT_TOO_LONG')
    return {
      title: 'The conversation no longer fits in the context window',
      hint: canCompact ? 'Compact it into a summary, or start a new session.' : 'Start a new session.',
      help: canCompact ? ['compact', 'new'] : ['new'],
    };
  if (code === 'AGENT_NOT_LOGGED_IN') return { title: `${agent} isn’t logged in`, help: ['login', 'retry'] };
  if (code === 'MODEL_UNAVAILABLE')
    return {
      title: 'The model is not available',
      hint: 'Its service is overloaded or has failed. Wait a moment, then retry.',
      help: ['retry'],
    };
  if (code === 'AGENT_EXITED') return { title: `${agent}’s process ended unexpectedly`, help: ['retry', 'new'] };
  return { title: 'The run failed', help: ['retry', 'new'] };
}
