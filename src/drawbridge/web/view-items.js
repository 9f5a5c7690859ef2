// What a conversation is made of, each thing as an element.

import { diffView } from './diff-view.js';
import { button, duration, h, icon, money, shownPath, size } from './dom.js';
import { code, markdown } from './markdown.js';
import { liftedWords } from './project-words.js';
import { settledWords } from './view-approval.js';
import { changesView } from './view-changes.js';

/** Characters of a tool's result that are shown before somebody asks for more. */
const RESULT = 4000;

/**
 * @param {any} item
 * @param {{root: string, me: string, whole: (blob: string) => Promise<any>, changes?: (run: string) => Promise<any>, revert?: (run: string) => Promise<any>}} world
 * @returns {HTMLElement}
 */
export function itemView(item, world) {
  const element = views[/** @type {keyof typeof views} */ (item.kind)](item, world);
  element.classList.add('item');
  if (item.nested) element.classList.add('nested');
  element.dataset.seq = item.seq;
  return element;
}

const views = { prompt: promptView, text: textView, aside: asideView, tool: toolView, question: questionView, finished: finishedView, notice: noticeView };

function promptView(/** @type {any} */ { text, by, timestamp, truncated, attachments }, /** @type {any} */ world) {
  const who = h('p', { class: 'who' }, by === 'desk' ? 'At the desk' : by && by !== world.me ? by : 'You', h('time', { datetime: timestamp, text: clock(timestamp) }));
  return h('article', { class: 'prompt' }, who, h('div', { class: 'words', text }), attached(attachments), more(truncated, world));
}

/** What went with a prompt, by its names. */
function attached(/** @type {any} */ names) {
  return Array.isArray(names) && names.length ? h('p', { class: 'attached' }, ...names.map((name) => h('span', { class: 'tag' }, icon('picture'), String(name)))) : null;
}

function textView(/** @type {any} */ { text, truncated }, /** @type {any} */ world) {
  const body = h('div', { class: 'markdown' }, markdown(text));
  return h('article', { class: 'said' }, body, more(truncated, world));
}

function asideView(/** @type {any} */ { text }) {
  return h('p', { class: 'aside', text: text.length > 600 ? `${text.slice(0, 600)}…` : text });
}

function toolView(/** @type {any} */ { name, input, result, truncated }, /** @type {any} */ world) {
  const state = !result ? h('span', { class: 'tool-state', text: 'called' }) : h('span', { class: `tool-state ${result.error ? 'no' : 'yes'}` }, icon(result.error ? 'cross' : 'check'), result.error ? 'failed' : 'done');
  const summary = h('summary', {}, icon('tool'), h('strong', { text: name }), h('span', { class: 'tool-words', text: toolWords(name, input, world.root) }), state);
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
      : code(name === 'Bash' && typeof input.command === 'string' ? input.command : JSON.stringify(input, null, 2), name === 'Bash' ? 'sh' : 'json');
  return h('div', { class: 'tool-body' }, asked, result && resultView(result.text), more(truncated, world));
}

function resultView(/** @type {string} */ text) {
  const element = h('pre', { class: 'result', tabindex: 0, text: text.slice(0, RESULT) || '(nothing)' });
  if (text.length <= RESULT) return element;
  const show = button({ label: `Show all (${size(text.length)})`, class: 'quiet', onclick: () => ((element.textContent = text), show.remove()) });
  return h('div', {}, element, show);
}

function questionView(/** @type {any} */ { request, answer }, /** @type {any} */ world) {
  if (!answer) return h('p', { class: 'waiting-mark', hidden: true });
  const { shape, words, kind } = settledWords(answer);
  const path = request.proposal?.path ?? request.input?.file_path;
  const line = [shape, h('span', { text: words }), path ? h('code', { text: shownPath(path, world.root) }) : h('span', { class: 'tool-words', text: request.tool_name })];
  if (!request.proposal) return h('p', { class: `settled-line ${kind}` }, ...line);
  const details = h('details', { class: `settled-line ${kind}` }, h('summary', {}, ...line));
  details.addEventListener('toggle', () => details.append(h('p', { class: 'hint', text: 'As it was proposed:' }), diffView(request.proposal).element), { once: true });
  return details;
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
      if (record) place.replaceChildren(h('pre', { class: 'result whole', tabindex: 0, text: wholeText(record.message) }));
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
