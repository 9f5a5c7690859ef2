// The input of a tool call: every field of it, since each may be the one that matters.

import { diffView } from './diff-view.js';
import { h, icon, shownPath } from './dom.js';
import { messageText, valueText } from './long-text.js';

/** Fields that change what a call may do, in words. @type {Record<string, string>} */
const FLAGS = { dangerouslyDisableSandbox: 'Runs outside the sandbox', run_in_background: 'Runs in the background' };

/** What the differences of a proposal show already. @type {Record<string, string[]>} */
const IN_DIFF = {
  Edit: ['file_path', 'old_string', 'new_string', 'replace_all'], MultiEdit: ['file_path', 'edits'], Write: ['file_path', 'content'],
  NotebookEdit: ['notebook_path', 'new_source', 'cell_id', 'cell_type', 'edit_mode'],
};

/** Of a tool call of the Agent Client Protocol: what is drawn in another way, or says nothing to a person. */
const OF_CALL = ['toolCallId', 'sessionUpdate', 'status', 'kind', 'title', 'content', 'rawInput'];

/** Fields that have a row each; more are shown together, as JSON. */
const FIELDS = 40;

const isObject = (/** @type {any} */ value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether the input is a tool call as agents of the Agent Client Protocol describe it. */
export const isToolCall = (/** @type {any} */ input) => isObject(input) && typeof input.toolCallId === 'string';

/** The changes of files in such a call. @returns {{path: string, old_text: string, new_text: string}[]} */
export function changesIn(/** @type {any} */ input) {
  if (!isToolCall(input) || !Array.isArray(input.content)) return [];
  return input.content
    .filter((/** @type {any} */ part) => part?.type === 'diff' && typeof part.path === 'string' && typeof part.newText === 'string')
    .map((/** @type {any} */ { path, oldText, newText }) => ({ path, old_text: typeof oldText === 'string' ? oldText : '', new_text: newText }));
}

/** The plan that an agent wants to carry out; undefined: this is not about one. @returns {string | undefined} */
export function planIn(/** @type {any} */ { tool_name: tool, input }) {
  if (tool !== 'ExitPlanMode') return undefined;
  return typeof input?.plan === 'string' ? input.plan : textsIn(input).join('\n\n');
}

/** @returns {string[]} */
function textsIn(/** @type {any} */ input) {
  if (!isToolCall(input) || !Array.isArray(input.content)) return [];
  return input.content.map((/** @type {any} */ part) => part?.content?.text).filter((/** @type {any} */ text) => typeof text === 'string');
}

/**
 * All that is asked. The difference of a proposal, which can be edited, is drawn by the card itself.
 * @param {any} request @param {string} root the project's directory
 * @returns {HTMLElement[]}
 */
export function inputView(request, root) {
  const { tool_name: tool, input, proposal } = request;
  const plan = planIn(request);
  const parts = [linksView(request.link_targets, root)];
  if (!isObject(input)) parts.push(valueText(asText(input)));
  else if (isToolCall(input)) parts.push(...callView(input, plan, proposal, root));
  else {
    const main = tool === 'Bash' && typeof input.command === 'string' ? 'command' : '';
    const said = main && typeof input.description === 'string' ? h('p', { class: 'described', text: input.description }) : null;
    const drawn = [...(proposal && Object.hasOwn(IN_DIFF, tool) ? IN_DIFF[tool] : []), ...(main ? [main] : []), ...(said ? ['description'] : []), ...(typeof input.plan === 'string' && plan !== undefined ? ['plan'] : [])];
    parts.push(flagsView(input), said, main && valueText(input.command), plan !== undefined && planView(plan), fieldsView(input, drawn));
  }
  return parts.filter(Boolean);
}

const planView = (/** @type {string} */ plan) => (plan ? messageText(plan, 'must') : h('p', { class: 'hint', text: 'The agent gave no plan with this request.' }));

/** @returns {any[]} */
function callView(/** @type {any} */ input, /** @type {string | undefined} */ plan, /** @type {any} */ proposal, /** @type {string} */ root) {
  const title = typeof input.title === 'string' && input.title ? valueText(input.title) : null;
  const texts = plan === undefined ? textsIn(input).map((text) => valueText(text)) : [planView(plan)];
  const changes = proposal ? [] : changesIn(input).map((change) => changeView(change, root));
  const known = (/** @type {any} */ part) => part?.type === 'diff' || typeof part?.content?.text === 'string';
  const others = Array.isArray(input.content) ? input.content.filter((/** @type {any} */ part) => !known(part)).map((/** @type {any} */ part) => valueText(asText(part))) : [];
  const raw = isObject(input.rawInput) ? [flagsView(input.rawInput), fieldsView(input.rawInput, [])] : [];
  return [title, ...texts, ...changes, ...others, ...raw, fieldsView(input, isObject(input.rawInput) ? OF_CALL : OF_CALL.filter((name) => name !== 'rawInput'))];
}

/** The change of one file of several. */
export function changeView(/** @type {{path: string, old_text: string, new_text: string}} */ change, /** @type {string} */ root) {
  const { element, added, removed } = diffView(change);
  const head = h('p', { class: 'file' }, h('code', { line: shownPath(change.path, root) }), h('span', { class: 'counts' }, h('span', { class: 'plus', text: `+${added}` }), ' ', h('span', { class: 'minus', text: `−${removed}` })));
  return h('section', { class: 'change' }, head, element);
}

/** Where a path is not the file that it names. */
function linksView(/** @type {Record<string, string> | undefined} */ targets, /** @type {string} */ root) {
  const all = Object.entries(targets ?? {});
  if (!all.length) return null;
  return h('ul', { class: 'links' }, all.map(([path, target]) =>
    h('li', {}, icon('fork'), h('span', {}, h('code', { line: shownPath(path, root) }), ' leads through a link to ', h('code', { line: target })))));
}

const isFlag = (/** @type {string} */ name, /** @type {any} */ value) => Boolean(value) && (Object.hasOwn(FLAGS, name) || /^dangerous/i.test(name));

function flagsView(/** @type {any} */ input) {
  const flags = Object.entries(input).filter(([name, value]) => isFlag(name, value));
  if (!flags.length) return null;
  return h('ul', { class: 'flags' }, flags.map(([name, value]) =>
    h('li', {}, h('strong', { text: Object.hasOwn(FLAGS, name) ? FLAGS[name] : 'Dangerous' }), ' ', h('code', { line: `${name}: ${asText(value).slice(0, 200)}` }))));
}

function fieldsView(/** @type {any} */ input, /** @type {string[]} */ drawn) {
  const all = Object.entries(input).filter(([name, value]) => !drawn.includes(name) && !(isFlag(name, value) && asText(value).length <= 200));
  if (!all.length) return null;
  const rows = (/** @type {[string, any][]} */ some) => some.flatMap(([name, value]) => [h('dt', { line: name }), h('dd', {}, valueText(asText(value)))]);
  const rest = all.length > FIELDS ? /** @type {[string, any][]} */ ([['…', Object.fromEntries(all.slice(FIELDS))]]) : [];
  return h('dl', { class: 'fields' }, rows([...all.slice(0, FIELDS), ...rest]));
}

/** A text as it is; anything else as JSON. */
const asText = (/** @type {any} */ value) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? 'null');
