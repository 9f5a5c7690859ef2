// How a project stands, in a word; the same in the list and above the prompt box. Pure.

import { duration } from './dom.js';

/** @typedef {{kind: 'waiting' | 'working' | 'failed' | 'idle' | 'ended', words: string}} Standing */

/** @param {any} project @returns {Standing} */
export function standing({ approvals, state, desk, continues_at: until, problem }) {
  const waiting = approvals.length;
  if (waiting) return { kind: 'waiting', words: waiting === 1 ? 'Waits for you' : `${waiting} questions wait for you` };
  if (desk?.in_terminal) return { kind: 'waiting', words: 'Waits in its terminal' };
  if (desk?.continued_in) return { kind: 'ended', words: 'Continued in the background' };
  if (desk?.background_tasks && desk.state === 'working') return { kind: 'working', words: 'Works in the background' };
  if (desk) return DESK[/** @type {keyof typeof DESK} */ (desk.state)] ?? { kind: 'idle', words: desk.state };
  if (state === 'EXECUTING') return { kind: 'working', words: 'Working' };
  if (problem) return { kind: 'failed', words: problem };
  if (until) return { kind: 'idle', words: `Goes on at ${clock(until)}` };
  return state === 'ERROR' ? { kind: 'failed', words: 'Last run failed' } : { kind: 'idle', words: 'Ready' };
}

/** @type {Record<string, Standing>} */
const DESK = {
  working: { kind: 'working', words: 'Working at the desk' },
  waiting: { kind: 'waiting', words: 'Waits at the desk' },
  finished: { kind: 'idle', words: 'Ready at the desk' },
  ended: { kind: 'ended', words: 'Ended' },
};

/** What modes mean to a person; those that an agent has beside them keep its own word. @type {Record<string, string>} */
/** A mode in words: agents that can't ask do not, whatever it is called. */
export const modeWords = (/** @type {any} */ project, /** @type {string} */ mode) => (project?.asks === false ? `${mode}: never asks` : (MODES[mode] ?? mode));

export const MODES = { default: 'Ask before changes', acceptEdits: 'Accept edits', plan: 'Plan only', bypassPermissions: 'Never ask', auto: 'Auto' };

/**
 * The modes to choose from: those that the agent has of its own, else Claude Code's as far as the server accepts them.
 * @param {any} project @param {string[]} [accepted] as in the server's hello; older servers don't say
 * @returns {string[]}
 */
export const modesOf = (project, accepted) => project?.modes ?? Object.keys(MODES).filter((mode) => !accepted || accepted.includes(mode));

/** "14:05", with the day where it is another one. */
export function clock(/** @type {string} */ time, now = new Date()) {
  const when = new Date(time);
  const hours = when.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
  return when.toDateString() === now.toDateString() ? hours : `${when.toLocaleDateString(undefined, { weekday: 'short' })} ${hours}`;
}

/** What is known about a limit of the agent's account. @param {string} until */
export function liftedWords(until, now = new Date()) {
  return Date.parse(until) > now.getTime() ? `The limit is lifted at ${clock(until, now)}.` : 'The limit is lifted by now.';
}

/** "Claude" of what the server calls claude. */
export function agentName(/** @type {string} */ agent) {
  const own = /** @type {Record<string, string>} */ ({ claude: 'Claude', gemini: 'Gemini', codex: 'Codex' })[agent];
  return own ?? `The ${agent} agent`;
}

/** How long a run goes on already. */
export const since = (/** @type {any} */ run) => (run?.started_at ? duration(Math.max(0, Date.now() - Date.parse(run.started_at))) : '');
