// What a conversation is made of, each thing as an element.

import { diffView } from './diff-view.js';
import { button, duration, h, icon, money, shownPath, size } from './dom.js';
import { addText, longText, messageText } from './long-text.js';
import { code } from './markdown.js';
import { liftedWords } from './project-words.js';
import { changesView } from './view-changes.js';
import { changesIn, changeView, planIn } from './view-input.js';
import { settledWords } from './view-settled.js';

/** Characters of a prompt that are shown before that. */
const PROMPT = 20_000;

/** Characters of a tool's result that are shown before somebody asks for more. */
const RESULT = 4000;

/**
 * @param {any} item
 * @param {{root: string, me: string, isMine: (answer: any) => boolean, whole: (blob: string) => Promise<any>, changes?: (run: string) => Promise<any>, revert?: (run: string) => Promise<any>}} world
 * @returns {HTMLElement}
 */
export function itemView(item, world) {
  let element;
  try {
    element = views[/** @type {keyof typeof views} */ (item.kind)](item, world);
  } catch (error) {
    console.error(error);
    element = h('article', { class: 'said' }, longText('div', 'words', plainly(item), PROMPT));
  }
  element.classList.add('item');
  if (item.nested) element.classList.add('nested');
  element.dataset.seq = item.seq;
  return element;
}

/** What can't be drawn, as a text. */
function plainly(/** @type {any} */ item) {
  try {
    return String(item.text ?? item.result?.text ?? JSON.stringify(item.input ?? item.request ?? item));
  } catch {
    return 'This message can’t be shown.';
  }
}

const views = { prompt: promptView, text: textView, aside: asideView, tool: toolView, question: questionView, finished: finishedView, notice: noticeView };

function promptView(/** @type {any} */ { text, by, timestamp, truncated, attachments }, /** @type {any} */ world) {
  const who = h('p', { class: 'who' }, by === 'desk' ? 'At the desk' : by && by !== world.me ? by : 'You', h('time', { datetime: timestamp, text: clock(timestamp) }));
  return h('article', { class: 'prompt' }, who, longText('div', 'words', String(text), PROMPT), attached(attachments), more(truncated, world));
}

/** What went with a prompt, by its names. */
function attached(/** @type {any} */ names) {
  return Array.isArray(names) && names.length ? h('p', { class: 'attached' }, ...names.map((name) => h('span', { class: 'tag' }, icon('picture'), String(name)))) : null;
}

function textView(/** @type {any} */ { text, truncated }, /** @type {any} */ world) {
  return h('article', { class: 'said' }, messageText(text), more(truncated, world));
}

function asideView(/** @type {any} */ { text }) {
  return h('p', { class: 'aside', text: text.length > 600 ? `${text.slice(0, 600)}…` : text });
}

function toolView(/** @type {any} */ { name, input, result, truncated }, /** @type {any} */ world) {
  const state = !result ? h('span', { class: 'tool-state', text: 'called' }) : h('span', { class: `tool-state ${result.error ? 'no' : 'yes'}` }, icon(result.error ? 'cross' : 'check'), result.error ? 'failed' : 'done');
  const summary = h('summary', {}, icon('tool'), h('strong', { line: String(name) }), h('span', { class: 'tool-words', line: toolWords(name, input, world.root) }), state);
  const details = h('details', { class: 'tool' }, summary);
  // What nobody unfolds is never made.
  details.addEventListener('toggle', () => details.childElementCount === 1 && details.append(toolBody(name, input, result, truncated ?? result?.truncated, world)), { once: true });
  return details;
}

/** The one thing about a call that says most. */
function toolWords(/** @type {string} */ name, /** @type {any} */ input, /** @type {string} */ root) {
  const said = input?.file_path ?? input?.notebook_path ?? input?.path ?? input?.command ?? input?.pattern ?? input?.url ?? input?.description ?? input?.questions?.[0]?.question ?? '';
  return typeof said === 'string' ? shownPath(said, root).split('\n')[0].slice(0, 200) : '';
}

function toolBody(/** @type {string} */ name, /** @type {any} */ input, /** @type {any} */ result, /** @type {any} */ truncated, /** @type {any} */ world) {
  const asked =
    (name === 'Edit' || name === 'Write') && typeof (input.new_string ?? input.content) === 'string'
      ? diffView({ path: String(input.file_path), old_text: name === 'Edit' ? String(input.old_string) : '', new_text: input.new_string ?? input.content }).element
      : inputOf(name, input);
  return h('div', { class: 'tool-body' }, asked, result && resultView(result.text), more(truncated, world));
}

/** The input of a call, in colours where it is short. */
function inputOf(/** @type {string} */ name, /** @type {any} */ input) {
  const isCommand = name === 'Bash' && typeof input.command === 'string';
  const text = isCommand && Object.keys(input).every((field) => field === 'command' || field === 'description') ? input.command : JSON.stringify(input, null, 2);
  return text.length <= RESULT ? code(text, isCommand && text === input.command ? 'sh' : 'json') : longText('pre', 'result', text, RESULT);
}

const resultView = (/** @type {string} */ text) => longText('pre', 'result', text || 'No output', RESULT);

function questionView(/** @type {any} */ { request, answer }, /** @type {any} */ world) {
  if (!answer) return h('p', { class: 'waiting-mark', hidden: true });
  const { shape, words, kind } = settledWords(answer, request, world.isMine(answer));
  const path = request.proposal?.path ?? request.input?.file_path;
  const line = [shape, h('span', { text: words }), path ? h('code', { line: shownPath(String(path), world.root) }) : h('span', { class: 'tool-words', line: String(request.tool_name) })];
  const plan = planIn(request);
  const changes = request.proposal ? [] : changesIn(request.input);
  if (!request.proposal && plan === undefined && !changes.length && !answer.edited) return h('p', { class: `settled-line ${kind}` }, line);
  const details = h('details', { class: `settled-line ${kind}` }, h('summary', {}, line));
  const body = () => details.append(...acceptedView(request, answer), ...(plan === undefined ? [] : [messageText(plan)]), ...changes.map((change) => changeView(change, world.root)));
  details.addEventListener('toggle', body, { once: true });
  return details;
}

/** What became of a proposal: a person's version of it first. @returns {HTMLElement[]} */
function acceptedView(/** @type {any} */ { proposal, tool_name: tool }, /** @type {any} */ { edited, new_text: text, updated_input: input }) {
  const parts = [];
  if (edited && tool !== 'AskUserQuestion') {
    const shown = proposal && typeof text === 'string' ? diffView({ ...proposal, new_text: text }).element : input ? longText('pre', 'result', JSON.stringify(input, null, 2), RESULT) : h('p', { class: 'hint', text: 'Too large to show.' });
    parts.push(h('p', { class: 'hint', text: 'As it was accepted:' }), shown);
  }
  if (proposal) parts.push(h('p', { class: 'hint', text: 'As it was proposed:' }), diffView(proposal).element);
  return parts;
}

const OUTCOMES = { completed: 'Finished', failed: 'Failed', killed: 'Ended by force', timeout: 'Took too long and was ended', interrupted: 'Interrupted' };

function finishedView(/** @type {any} */ { run_id: run, outcome, duration_ms: ms, cost_usd: cost, error, retry_at: until }, /** @type {any} */ world) {
  const words = [OUTCOMES[/** @type {keyof typeof OUTCOMES} */ (outcome)] ?? outcome, typeof ms === 'number' ? duration(ms) : '', cost ? money(cost) : ''].filter(Boolean);
  return h('div', { class: `finished ${outcome}` }, h('p', { text: words.join(' · ') }), error && h('p', { class: 'problem', text: until ? `${error} ${liftedWords(until)}` : error }), world.changes && changesView(run, world));
}

function noticeView(/** @type {any} */ { text }) {
  return h('p', { class: 'divider', text });
}

/** Of what is too large for a message a preview came: a button that brings all of it. */
function more(/** @type {any} */ truncated, /** @type {any} */ world) {
  if (!truncated) return null;
  const place = h('div', { class: 'more' });
  const show = button({
    label: `Cut here: show all (${size(truncated.bytes)})`, class: 'quiet',
    onclick: async () => {
      show.disabled = true;
      const record = await world.whole(truncated.blob_id).catch(() => undefined);
      show.disabled = false;
      if (!record) return;
      const all = h('pre', { class: 'result whole', tabindex: 0 });
      addText(all, wholeText(record.message));
      place.replaceChildren(all);
    },
  });
  place.append(show);
  return place;
}

/** All that a record says, as a text. */
function wholeText(/** @type {any} */ message) {
  const content = message?.message?.content ?? message?.message?.prompt;
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return JSON.stringify(message, null, 2);
  return content.map((block) => block.text ?? (typeof block.content === 'string' ? block.content : JSON.stringify(block.input ?? block.content ?? block, null, 2))).join('\n\n');
}

const clock = (/** @type {string} */ time) => new Date(time).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' });
