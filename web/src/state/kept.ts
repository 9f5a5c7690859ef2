// The data that the browser stores: the token, drafts, settings, and what was read. Without storage, these are kept in
// memory.

import { deviceName } from './device-name.ts';

const memory: Map<string, string> = new Map();

/** The maximum number of a project's messages that the arrow keys recall. `PROMPTS_SIZE`: of their characters. */
const PROMPTS = 50;
const PROMPTS_SIZE = 100_000;

/** The maximum number of connection ids that are kept. A phone reconnects each time it is unlocked. */
const CONNECTIONS = 500;

/** The maximum number of hunks of a review whose ids are kept because they have been in view. */
const SEEN_HUNKS = 5_000;

/** The maximum number of directories that are remembered because their notice was dismissed. */
const NOTICES = 200;

/** How long, in milliseconds since its last change, a draft is kept if its approval request is no longer open. */
const ANSWER_KEPT = 7 * 24 * 3_600_000;

function get(name: string) {
  try {
    // A value in memory is newer, because it did not fit into the browser's storage.
    return memory.get(name) ?? localStorage.getItem(`drawbridge.${name}`);
  } catch {
    return memory.get(name) ?? null;
  }
}

function set(name: string, value: string) {
  try {
    if (value) localStorage.setItem(`drawbridge.${name}`, value);
    else localStorage.removeItem(`drawbridge.${name}`);
    memory.delete(name);
  } catch {
    memory.set(name, value);
  }
}

/** The stored names that begin with `start`, without that beginning. */
function named(start: string): string[] {
  const all = [...memory.keys()];
  try {
    for (let n = 0; n < localStorage.length; n++) all.push((localStorage.key(n) ?? '').slice('drawbridge.'.length));
  } catch {
    // Without storage, only the names in memory are known.
  }
  return [...new Set(all)].filter((name) => name.startsWith(start)).map((name) => name.slice(start.length));
}

function json(name: string, otherwise: any) {
  try {
    return JSON.parse(get(name) ?? '') ?? otherwise;
  } catch {
    return otherwise;
  }
}

export const token = () => get('token') ?? '';
export function keepToken(value: string) {
  if (value !== token()) set('features', '');
  set('token', value);
}

/** Calls `act` when another window of this browser has replaced or deleted the token. */
export function onToken(act: () => void) {
  // Without a key, everything was deleted.
  addEventListener('storage', ({ key }) => {
    if (key === 'drawbridge.token' || key === null) act();
  });
}

/**
 * A token that the server has neither accepted nor refused yet. It is stored for as long as the tab is open, so that a
 * reload tries it again.
 */
export function triedToken(): string | undefined {
  try {
    return sessionStorage.getItem('drawbridge.token') ?? undefined;
  } catch {
    return undefined;
  }
}

export function keepTriedToken(value: string | undefined) {
  try {
    if (value) sessionStorage.setItem('drawbridge.token', value);
    else sessionStorage.removeItem('drawbridge.token');
  } catch {
    // A reload loses the token, so the user has to open the link, or type the token, again.
  }
}

/** The message types that the server accepts from this device, as it reported last, or undefined if it has not yet. */
export const features = (): string[] | undefined => json('features', undefined);
export const keepFeatures = (all: string[]) => set('features', JSON.stringify(all));

export const draft = (project: string) => get(`draft.${project}`) ?? '';
export const keepDraft = (project: string, text: string) => set(`draft.${project}`, text);

/** The draft of an answer: edits and texts. `sent`: the id of the connection that sent it, while there is no reply. */
export const answer = (approval: string) => json(`answer.${approval}`, {});
export const keepAnswer = (approval: string, value: object | null) => {
  const last = answer(approval);
  if (!value && !Object.keys(last).length) return;
  set(`answer.${approval}`, value ? JSON.stringify({ ...value, at: Date.now() }) : '');
};

/** The edits in a review that have not been decided on, by the ids of their hunks. */
export type ReviewDrafts = Record<string, { path: string; text: string }>;

/** @param project the project's id, followed by ".comments" for what is being written in comments */
export const reviewDrafts = (project: string): ReviewDrafts => json(`review.${project}`, {});
export const keepReviewDrafts = (project: string, drafts: ReviewDrafts) =>
  set(`review.${project}`, Object.keys(drafts).length ? JSON.stringify(drafts) : '');

/** The ids of the hunks of a review that have been in view here, latest last. */
export const seenHunks = (project: string): string[] => json(`review.${project}.seen`, []);
export const keepSeenHunks = (project: string, ids: string[]) =>
  set(`review.${project}.seen`, ids.length ? JSON.stringify(ids.slice(-SEEN_HUNKS)) : '');

/** The directories, by their paths, whose notice about their review was dismissed here, latest last. */
export const dismissedNotices = (): string[] => json('review-notices', []);
export const keepDismissedNotice = (directory: string) =>
  set('review-notices', JSON.stringify([...dismissedNotices(), directory].slice(-NOTICES)));

/** The ids that the server gave to the connections of this browser, latest last. */
export const connections = (): string[] => json('connections', []);
export const keepConnection = (id: string) =>
  set('connections', JSON.stringify([...connections(), id].slice(-CONNECTIONS)));

/** The ids of the approval requests that have a draft. */
export const answers = () => named('answer.').filter((approval) => get(`answer.${approval}`));

/** @returns the prompts that were sent to a project from this browser and that the arrow keys recall, latest last */
export const prompts = (project: string): string[] => json(`prompts.${project}`, []);
export function keepPrompt(project: string, prompt: string) {
  if (prompt.length > PROMPTS_SIZE) return;
  let size = 0;
  const all = [...prompts(project).filter((one) => one !== prompt), prompt].slice(-PROMPTS);
  const from = all.findLastIndex((one) => (size += one.length) > PROMPTS_SIZE);
  set(`prompts.${project}`, JSON.stringify(all.slice(from + 1)));
}

/** Removes what belongs to projects that no longer exist, and drafts of answers that are older than `ANSWER_KEPT`,
 * unless their approval requests are open. */
export function prune(projects: readonly { id: string; approvals?: { approval_id: string }[] }[]) {
  const ids = new Set(projects.map(({ id }) => id));
  const open = new Set(projects.flatMap(({ approvals = [] }) => approvals.map((one) => one.approval_id)));
  for (const kind of ['draft.', 'prompts.', 'review.'])
    for (const id of named(kind)) if (!ids.has(id.split('.')[0])) set(`${kind}${id}`, '');
  for (const id of named('answer.'))
    if (!open.has(id) && !(answer(id).at > Date.now() - ANSWER_KEPT)) set(`answer.${id}`, '');
  for (const [run, { project }] of Object.entries(sent())) if (!ids.has(project)) keepSent(run, undefined);
  const last = json('seen', {});
  const still = Object.fromEntries(Object.entries(last).filter(([id]) => ids.has(id)));
  if (Object.keys(still).length < Object.keys(last).length) set('seen', JSON.stringify(still));
}

type Unsent = import('../protocol/client.ts').Unsent;
/** The prompts that the server has not confirmed. */
export const unsent = (): Unsent[] => json('unsent', []);
/** Adds a prompt. Another window of this browser may have others in the list. */
export const keepUnsent = (one: Unsent) => setUnsent([...unsent(), one]);
export const dropUnsent = (id: string) => setUnsent(unsent().filter((one) => one.id !== id));
const setUnsent = (all: Unsent[]) => set('unsent', all.length ? JSON.stringify(all) : '');

/**
 * A prompt of this browser that waits for its run. `seq`: the number of its record, if the server has reported it;
 * `files`: how many files were attached, if any.
 */
export type Sent = { project: string; prompt: string; seq?: number; files?: number };

/** This browser's prompts that wait for their runs, by run id. */
export const sent = (): Record<string, Sent> => json('sent', {});
export function keepSent(run: string, one: Sent | undefined) {
  const { [run]: last, ...others } = sent();
  if (!one && !last) return;
  const all = one ? { ...others, [run]: one } : others;
  set('sent', Object.keys(all).length ? JSON.stringify(all) : '');
}

/** Marks everything as read when a browser connects for the first time. */
export function beginSeen(projects: { id: string; last_seq: number }[]) {
  if (get('seen') === null)
    set('seen', JSON.stringify(Object.fromEntries(projects.map(({ id, last_seq: seq }) => [id, seq]))));
}

/** The `seq` up to which a project was read. */
export const seen = (project: string): number => json('seen', {})[project] ?? 0;
export function keepSeen(project: string, seq: number) {
  if (seen(project) !== seq) set('seen', JSON.stringify({ ...json('seen', {}), [project]: seq }));
}

/**
 * What the user has set: 'off' for `keys` and `wrap`, 'split' or 'unified' for `diff`, 'light' or 'dark' for `theme`.
 * '' if nothing was set.
 */
export const setting = (name: 'keys' | 'theme' | 'diff' | 'wrap') => get(`setting.${name}`) ?? '';
export const keepSetting = (name: 'keys' | 'theme' | 'diff' | 'wrap', value: string) => set(`setting.${name}`, value);

/** `actions`: whether the user can accept or reject a command in a notification that shows the whole command. */
type Want = 'sound' | 'notices' | 'push' | 'actions';

export const wants = (what: Want) => get(what) === 'yes';
export const keepWants = (what: Want, yes: boolean) => set(what, yes ? 'yes' : '');

/** The name that this browser sends to the server. Others see it when the browser decides something, unless the token
 * belongs to a device: a device has its own name. */
export const clientName = () => get('name') ?? deviceName(navigator.userAgent, navigator.maxTouchPoints);
/** Whether a name for this browser is stored: the user has entered one, or the browser was paired. */
export const isNamed = () => get('name') !== null;
export const keepClientName = (name: string) => set('name', name);

/** Whether the list of sessions is hidden on a large screen. */
export const folded = () => get('folded') === 'yes';
export const keepFolded = (yes: boolean) => set('folded', yes ? 'yes' : '');

/** The agent of the session that was started last, or '' if there isn’t one. */
export const lastAgent = () => get('agent') ?? '';
export const keepAgent = (name: string) => set('agent', name);
