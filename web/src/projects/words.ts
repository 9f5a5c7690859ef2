// The state of a project in a few words, the same everywhere in the web UI. Pure.

import type { Hello, ModeOffer } from '../protocol/messages.ts';
import { counted, duration } from '../ui/dom.ts';

export type Standing = { kind: 'waiting' | 'working' | 'failed' | 'undecided' | 'idle' | 'ended'; words: string };

export function standing({
  approvals,
  state,
  desk,
  continues_at: until,
  scheduled_until: scheduled,
  problem,
}: any): Standing {
  const waiting = approvals.length;
  if (waiting) return { kind: 'waiting', words: waiting === 1 ? 'Needs you' : `${waiting} requests need you` };
  if (desk?.in_terminal) return { kind: 'waiting', words: 'Waiting in terminal' };
  if (desk?.continued_in) return { kind: 'ended', words: 'Continued in the background' };
  if (desk?.background_tasks && desk.state === 'working')
    return { kind: 'working', words: 'Working in the background' };
  if (desk) return DESK[desk.state as keyof typeof DESK] ?? { kind: 'idle', words: desk.state };
  if (state === 'EXECUTING') return { kind: 'working', words: 'Working' };
  if (problem) return { kind: 'failed', words: problem };
  if (until) return { kind: 'idle', words: `Resumes at ${clock(until)}` };
  if (scheduled) return { kind: 'idle', words: `Scheduled until ${clock(scheduled)}` };
  return state === 'ERROR' ? { kind: 'failed', words: 'Last run failed' } : { kind: 'idle', words: 'Ready' };
}

/**
 * The state of a project in a list. An idle project, or a terminal session that has ended, can have changes to review.
 */
export function listed(project: any): Standing {
  const found = standing(project);
  const files = project.review?.files ?? 0;
  const isAtRest = found.kind === 'idle' || found === DESK.ended;
  if (!isAtRest || !files || project.continues_at) return found;
  const scheduled = project.scheduled_until && ` · scheduled until ${clock(project.scheduled_until)}`;
  return { kind: 'undecided', words: `${counted(files, 'file')} to review${scheduled || ''}` };
}

const DESK: Record<string, Standing> = {
  working: { kind: 'working', words: 'Working in terminal' },
  waiting: { kind: 'waiting', words: 'Waiting in terminal' },
  finished: { kind: 'idle', words: 'Idle in terminal' },
  ended: { kind: 'ended', words: 'Ended' },
};

/** A line of Markdown without its markup. */
export const plainLine = (text: string) =>
  text
    .replace(/^\s*(#{1,6}\s+|[-*+]\s+(\[[ x]\]\s+)?|>\s*|\[\^\w+\]:\s*)/, '')
    .replace(/\*\*|`/g, '')
    .replace(/\[([^\][]+)\]\([^)\s]*\)/g, '$1');

/** The description of a mode by the server or, if the server does not know it, by the agent; otherwise undefined. */
export const modeOffer = (project: any, mode: string, offers: ModeOffer[] = []): ModeOffer | undefined =>
  [...offers, ...(project?.own_modes ?? [])].find((one) => one.name === mode);

/** Whether the agent asks before it changes files, or true if that is not known. */
export const asksFirst = (project: any, offers?: ModeOffer[]): boolean =>
  project?.asks !== false && modeOffer(project, project?.permission_mode, offers)?.asks !== false;

/** A mode in words. An agent that can't ask never asks, whatever its mode is called. */
export const modeWords = (project: any, mode: string, offers?: ModeOffer[]): string =>
  project?.asks === false ? `${mode} · doesn’t ask` : (modeOffer(project, mode, offers)?.title ?? mode);

/**
 * The modes to choose from: the agent's own modes, otherwise the protocol's modes that `set_mode` accepts.
 * @param hello the server's reply to `hello`
 */
export const modesOf = (project: any, hello?: Pick<Hello, 'modes' | 'mode_offers'>): string[] =>
  project?.modes ?? (hello?.mode_offers ?? []).map((one) => one.name).filter((name) => hello?.modes.includes(name));

const WEEK = 7 * 86_400_000;

/** "14:05" for today, "14:05 on Wed" for another day, or with the date if that day is a week or more ahead. */
export function clock(time: string, now = new Date()) {
  const when = new Date(time);
  const hours = when.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
  if (when.toDateString() === now.toDateString()) return hours;
  const isNear = new Date(when.getTime() - WEEK).setHours(0, 0, 0, 0) < new Date(now).setHours(0, 0, 0, 0);
  const day = when.toLocaleDateString(undefined, isNear ? { weekday: 'short' } : { day: 'numeric', month: 'short' });
  return `${hours} on ${day}`;
}

/** A sentence about when a limit on the agent's account resets. */
export function liftedWords(until: string, now = new Date()) {
  return Date.parse(until) > now.getTime() ? `The limit resets at ${clock(until, now)}.` : 'The limit has reset.';
}

/** An agent's display name: "Claude" for "claude". It is a guess until the server's hello has arrived. */
export function agentName(agent: string, hello?: Pick<Hello, 'agent_words'>) {
  if (!hello) return agent.charAt(0).toUpperCase() + agent.slice(1);
  return hello.agent_words.find(({ name }) => name === agent)?.label ?? `The ${agent} agent`;
}

/** Examples of a first message. */
export const EXAMPLES = ['Explain how this project is built', 'Find and fix a bug', 'Add tests for untested code'];

/** How long a run has taken so far, or '' if it has not started. */
export const since = (run: any) =>
  run?.started_at ? duration(Math.max(0, Date.now() - Date.parse(run.started_at))) : '';
