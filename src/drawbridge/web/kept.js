// What the browser keeps: the token, drafts, what was read. A browser that keeps nothing works as well, for as long as it is open.

/** @type {Map<string, string>} */
const memory = new Map();

function get(/** @type {string} */ name) {
  try {
    return localStorage.getItem(`drawbridge.${name}`) ?? memory.get(name) ?? null;
  } catch {
    return memory.get(name) ?? null;
  }
}

function set(/** @type {string} */ name, /** @type {string} */ value) {
  try {
    if (value) localStorage.setItem(`drawbridge.${name}`, value);
    else localStorage.removeItem(`drawbridge.${name}`);
    memory.delete(name);
  } catch {
    memory.set(name, value);
  }
}

function json(/** @type {string} */ name, /** @type {any} */ otherwise) {
  try {
    return JSON.parse(get(name) ?? '') ?? otherwise;
  } catch {
    return otherwise;
  }
}

export const token = () => get('token') ?? '';
export function keepToken(/** @type {string} */ value) {
  if (value !== token()) set('features', '');
  set('token', value);
}

/** What the server takes from this device, as it said last. @returns {string[] | undefined} */
export const features = () => json('features', undefined);
export const keepFeatures = (/** @type {string[]} */ all) => set('features', JSON.stringify(all));

export const draft = (/** @type {string} */ project) => get(`draft.${project}`) ?? '';
export const keepDraft = (/** @type {string} */ project, /** @type {string} */ text) => set(`draft.${project}`, text);

/** Edits and words of an answer that is not given yet. */
export const answer = (/** @type {string} */ approval) => json(`answer.${approval}`, {});
export const keepAnswer = (/** @type {string} */ approval, /** @type {object | null} */ value) => set(`answer.${approval}`, value ? JSON.stringify(value) : '');

/** @returns {string[]} a project's prompts, the latest last */
export const prompts = (/** @type {string} */ project) => json(`prompts.${project}`, []);
export function keepPrompt(/** @type {string} */ project, /** @type {string} */ prompt) {
  set(`prompts.${project}`, JSON.stringify([...prompts(project).filter((one) => one !== prompt), prompt].slice(-50)));
}

/** @returns {import('./client.js').Unsent[]} */
export const unsent = () => json('unsent', []);
export const keepUnsent = (/** @type {any[]} */ all) => set('unsent', all.length ? JSON.stringify(all) : '');

/** What there is when a browser comes for the first time is not new to it. @param {{id: string, last_seq: number}[]} projects */
export function beginSeen(projects) {
  if (get('seen') === null) set('seen', JSON.stringify(Object.fromEntries(projects.map(({ id, last_seq: seq }) => [id, seq]))));
}

/** The `seq` up to which a project was read. @returns {number} */
export const seen = (/** @type {string} */ project) => json('seen', {})[project] ?? 0;
export function keepSeen(/** @type {string} */ project, /** @type {number} */ seq) {
  if (seen(project) !== seq) set('seen', JSON.stringify({ ...json('seen', {}), [project]: seq }));
}

export const wants = (/** @type {'sound' | 'notices' | 'push'} */ what) => get(what) === 'yes';
export const keepWants = (/** @type {'sound' | 'notices' | 'push'} */ what, /** @type {boolean} */ yes) => set(what, yes ? 'yes' : '');

/** What others see where this browser decided something. */
export function clientName() {
  const known = get('name');
  if (known) return known;
  const agent = navigator.userAgent;
  const browser = /Firefox/.test(agent) ? 'Firefox' : /Edg\//.test(agent) ? 'Edge' : /Chrome/.test(agent) ? 'Chrome' : /Safari/.test(agent) ? 'Safari' : 'a browser';
  const system = /iPhone|iPad/.test(agent) ? 'iPhone' : /Android/.test(agent) ? 'Android' : /Mac/.test(agent) ? 'Mac' : /Windows/.test(agent) ? 'Windows' : 'Linux';
  return `${browser} on ${system}`;
}
export const keepClientName = (/** @type {string} */ name) => set('name', name);
