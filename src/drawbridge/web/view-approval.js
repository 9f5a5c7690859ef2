// An open approval as a card: what is asked, and every way to answer it.

import { Sight } from './current.js';
import { diffView } from './diff-view.js';
import { ago, button, fill, h, shownPath, single, size } from './dom.js';
import { isHarmless } from './harmless.js';
import * as kept from './kept.js';
import { changesIn, inputView, isToolCall, planIn } from './view-input.js';
import { QuestionForm } from './view-question.js';
import { alwaysWords, approvesMode, canBeEdited, editedInput } from './store.js';

/** @type {Record<string, string>} */
const TITLES = {
  Edit: 'wants to edit', MultiEdit: 'wants to edit', NotebookEdit: 'wants to edit', Bash: 'wants to run a command', WebFetch: 'wants to fetch a web page', WebSearch: 'wants to search the web',
};

/** Kinds of tool calls of the Agent Client Protocol. @type {Record<string, string>} */
const KINDS = { edit: 'wants to edit', delete: 'wants to delete', move: 'wants to move', execute: 'wants to run a command', fetch: 'wants to fetch a web page' };

const COMMAND_KEY = /Mac|iP(hone|ad)/.test(globalThis.navigator?.platform ?? '') ? '⌘↵' : 'Ctrl+↵';

export class ApprovalCard {
  /**
   * @param {any} request the `permission_request`
   * @param {{root: string, agent: string, may: (type: string) => boolean, answer: (request: any, answer: any) => Promise<void>, whole: (blob: string) => Promise<any>}} world
   */
  constructor(request, world) {
    this.request = request;
    this.world = world;
    this.busy = false;
    /** What it became, told by the server. @type {any} */
    this.answered = undefined;
    this.mode = 'read';
    /** What of it a person has had in sight. */
    this.sight = new Sight();
    /** Its number, and how many there are. */
    this._place = '';
    /** @type {QuestionForm | undefined} */
    this.question = undefined;
    this.element = h('article', { class: 'card approval', tabindex: -1, 'data-approval': request.approval_id, 'aria-labelledby': `title-${request.approval_id}` });
    const before = kept.answer(request.approval_id);
    this._text = before.text;
    this._message = before.message ?? '';
    this._begun = before.begun;
    // What was opened counts as seen.
    this.element.addEventListener('click', () => this._allow());
    this._draw();
    if (this._text !== undefined) this.edit();
    else if (this._message) this.reject();
  }

  /** Whether a person has put work into an answer. */
  get isDirty() {
    return this._text !== undefined || Boolean(this._message) || this._begun !== undefined;
  }

  /** Whether this device may decide at all. */
  get canAnswer() {
    return !this.answered && this.world.may('permission_response');
  }

  get canEdit() {
    return this.canAnswer && canBeEdited(this.request);
  }

  /** Whether a letter alone accepts it: a change of files that can be undone, and nothing that runs. */
  get takesLetter() {
    return this.mode === 'read' && (Boolean(this.request.proposal) || changesIn(this.request.input).length > 0);
  }

  /** Whether all of it is drawn: nothing waits behind a button. */
  get isWhole() {
    return !this.element.querySelector('button.must');
  }

  accept(remember = false) {
    if (!this.canAnswer || this.mode === 'reject') return;
    if (this.question) this.question.submit();
    else if (this.mode === 'edit') void this._give({ allow: true, input: editedInput(this.request, this._text ?? '') });
    else if (this.isWhole) void this._give({ allow: true, remember });
  }

  edit() {
    if (!this.canEdit) return;
    this.mode = 'edit';
    this._text ??= this._proposed;
    this._draw();
    this.element.querySelector('textarea')?.focus();
  }

  reject() {
    if (!this.canAnswer) return;
    this.mode = 'reject';
    this._draw();
    this.element.querySelector('textarea')?.focus();
  }

  /** Back to reading, with what was written kept; whether there was anything to go back from. */
  back() {
    if (this.mode === 'read' || this.answered) return false;
    const unchanged = this.mode === 'edit' && this._text === this._proposed;
    this.mode = 'read';
    if (unchanged) this._text = undefined;
    this._keep();
    this._draw();
    this.element.focus({ preventScroll: true });
    return true;
  }

  /** Throws away what was written. */
  discard() {
    this._text = undefined;
    this._message = '';
    this._keep();
    this._draw();
  }

  /** Its place among those that wait. */
  count(/** @type {number} */ number, /** @type {number} */ all) {
    const place = all > 1 ? `${number} of ${all}` : '';
    if (place === this._place) return;
    this._place = place;
    this._drawPlace();
  }

  _drawPlace() {
    const tag = /** @type {HTMLElement | null} */ (this.element.querySelector('.place'));
    if (!tag) return;
    tag.textContent = this._place;
    tag.hidden = !this._place || Boolean(this.answered);
  }

  /** The agent's text, as a field has it. */
  get _proposed() {
    return this.request.proposal.new_text.replace(/\r\n/g, '\n');
  }

  /** Accepting waits for what has to be opened first. */
  _allow() {
    if (this.mode !== 'read') return;
    for (const one of this.element.querySelectorAll('button.accepts')) one.disabled = this.busy || !this.isWhole;
    const hint = /** @type {HTMLElement | null} */ (this.element.querySelector('.unopened'));
    if (hint) hint.hidden = this.isWhole;
  }

  /** Somebody answered, or the question was taken back, while a person had work in it: it stays to be read. */
  settle(/** @type {any} */ answer) {
    this.answered = answer;
    this._draw();
  }

  /** What this device may do is another thing now. */
  redraw() {
    if (this.mode === 'read') this._draw();
  }

  async _give(/** @type {any} */ answer) {
    if (this.busy || this.answered) return;
    this.busy = true;
    this._draw();
    try {
      await this.world.answer(this.request, answer);
      this._text = this._begun = undefined;
      this._message = '';
      kept.keepAnswer(this.request.approval_id, null);
    } catch {
      this.busy = false;
      this._draw();
    }
  }

  _keep() {
    kept.keepAnswer(this.request.approval_id, this.isDirty ? { text: this._text, message: this._message, begun: this._begun } : null);
  }

  /** What the agent wants, and the file where there is one. @returns {[string, string | undefined]} */
  get _title() {
    const { tool_name: tool, proposal, input } = this.request;
    if (planIn(this.request) !== undefined) return [`${this.world.agent}’s plan`, undefined];
    const path = proposal?.path ?? input?.file_path ?? input?.notebook_path;
    const files = proposal ? 0 : changesIn(input).length;
    if (files > 1) return [`${this.world.agent} wants to edit ${files} files`, undefined];
    const write = proposal && !proposal.old_text ? 'wants to create' : proposal ? 'wants to overwrite' : 'wants to write';
    const words = isToolCall(input) ? KINDS : TITLES;
    const what = tool === 'Write' ? write : Object.hasOwn(words, tool) ? words[tool] : undefined;
    return [`${this.world.agent} ${what ?? `wants to use ${String(tool)}`}`, typeof path === 'string' ? path : undefined];
  }

  _draw() {
    const { request } = this;
    const isQuestion = request.tool_name === 'AskUserQuestion' && Array.isArray(request.input?.questions);
    const [words, path] = isQuestion ? [`${this.world.agent} has a question`, undefined] : this._title;
    const title = h('h3', { id: `title-${request.approval_id}` }, h('span', { line: words }), ' ', path !== undefined && h('code', { line: shownPath(path, this.world.root) }));
    const { asked_by: asker, reason, blocked_path: blocked } = request;
    const facts = [asker && `Asked by ${asker.agent_type ?? 'a subagent'}`, reason, blocked && `Path: ${blocked}`].filter(Boolean);
    const why = facts.length > 0 && h('p', { class: 'notice why', text: facts.join(' · ') });
    const head = h('header', {}, title, h('span', { class: 'tag place', hidden: true }), h('time', { datetime: request.created_at, text: ago(request.created_at) }));
    fill(this.element, head, why || null, ...(isQuestion ? this._question() : [...this._body(head), this._notice(), this._answers()]));
    this.element.classList.toggle('settled', Boolean(this.answered));
    this._drawPlace();
    this._allow();
  }

  /** @returns {HTMLElement[]} */
  _body(/** @type {HTMLElement} */ head) {
    const { proposal } = this.request;
    if (this.mode === 'edit') return this._editor();
    this._asked ??= this._drawn();
    if (proposal && this._diff) {
      const { added, removed } = this._diff;
      head.insertBefore(h('span', { class: 'counts' }, h('span', { class: 'plus', text: `+${added}` }), ' ', h('span', { class: 'minus', text: `−${removed}` })), head.lastChild);
    }
    return this._asked;
  }

  /** All that is asked; as JSON where it can't be drawn better. @returns {HTMLElement[]} */
  _drawn() {
    const { proposal } = this.request;
    try {
      this._diff = proposal ? diffView(proposal) : undefined;
      const parts = inputView(this.request, this.world.root);
      return [...(parts.length ? [h('div', { class: 'asked' }, parts)] : []), ...(this._diff ? [this._diff.element] : [])];
    } catch (error) {
      console.error(error);
      // This button never goes away, so nobody can accept what can't be shown.
      return [h('div', { class: 'asked' }, h('p', { class: 'problem', text: 'This request can’t be shown here. Reject it, or answer it on another device.' }), h('button', { class: 'must', hidden: true, disabled: true }))];
    }
  }

  /** @returns {HTMLElement[]} */
  _editor() {
    const area = h('textarea', {
      class: 'code', spellcheck: 'false', autocapitalize: 'off', 'aria-label': 'Edit the file before accepting', value: this._text,
      rows: Math.min(24, Math.max(6, (this._text ?? '').split('\n').length + 1)), disabled: this.busy,
      oninput: () => ((this._text = area.value), this._keep()),
    });
    if (this.answered) area.readOnly = true;
    if (isHarmless(this._text ?? '')) return [area];
    return [area, h('p', { class: 'notice', text: 'This text has hidden or misleading characters, which this field can’t show. The proposal shows them.' })];
  }

  _notice() {
    const { truncated } = this.request;
    if (this.answered) {
      const { by, decision, reason } = this.answered;
      const who = by ? `${by} ${decision === 'allow' ? 'accepted' : 'rejected'} this first.` : `This request was withdrawn (${reason}).`;
      return h('p', { class: 'notice', role: 'alert' }, `${who} Your edit wasn’t applied. It’s kept here until you close this.`);
    }
    if (truncated) {
      const show = button({ label: `Show all (${size(truncated.bytes)})`, class: 'must', onclick: () => void this._whole() });
      return h('p', { class: 'notice' }, 'Too large for one message: long texts are cut. ', show);
    }
    if (this.mode !== 'read' || (this._text === undefined && !this._message)) return null;
    const words = this._text === undefined ? 'Your reason is kept as a draft.' : 'Your edit is kept as a draft. Accept applies the proposal without it.';
    return h('p', { class: 'notice draft' }, `${words} `,
      button({ label: 'Continue', class: 'quiet', onclick: () => (this._text === undefined ? this.reject() : this.edit()) }),
      button({ label: 'Discard', class: 'quiet', onclick: () => this.discard() }));
  }

  async _whole() {
    try {
      const record = await this.world.whole(this.request.truncated.blob_id);
      this.request = { ...this.request, ...record.message.message, truncated: undefined };
      this._diff = this._asked = undefined;
      this._draw();
    } catch {
      // said by who was asked
    }
  }

  /** @returns {HTMLElement} */
  _answers() {
    if (this.answered) {
      const close = button({ label: 'Close', onclick: () => (kept.keepAnswer(this.request.approval_id, null), this.element.remove()) });
      const shown = this.mode !== 'edit' && this._text !== undefined ? h('pre', { class: 'mine', text: this._text }) : null;
      return h('footer', {}, this._message ? h('p', { class: 'mine', text: this._message }) : null, shown, close);
    }
    if (!this.canAnswer) return h('footer', { class: 'hint', text: 'View only. Approve from another device.' });
    const disabled = this.busy;
    if (this.mode === 'edit') {
      return h('footer', {},
        button({ label: 'Accept edited version', icon: 'check', class: 'yes', disabled, onclick: single(() => this.accept()) }),
        button({ label: 'Back', key: 'Esc', class: 'quiet', disabled, onclick: () => this.back() }));
    }
    if (this.mode === 'reject') return this._rejection(disabled);
    // Who may not run anything may not say either what shall never be asked about.
    const mayRemember = this.world.may('execute');
    const plan = planIn(this.request) !== undefined;
    const always = mayRemember && !plan && alwaysWords(this.request.suggestions);
    const key = this.takesLetter ? 'a' : COMMAND_KEY;
    const shortcut = this.takesLetter ? 'a' : 'Control+Enter Meta+Enter';
    return h('footer', {},
      h('p', { class: 'hint unopened', text: 'Show all of it before you accept.', hidden: true }),
      button({ label: disabled ? 'Sending…' : plan ? 'Approve' : 'Accept', icon: 'check', key, shortcut, class: 'yes accepts', disabled, onclick: single(() => this.accept()) }),
      plan && mayRemember && approvesMode(this.request.suggestions, 'acceptEdits') && button({ label: 'Approve and accept edits', class: 'accepts', disabled, onclick: single(() => this.accept(true)) }),
      this.canEdit && button({ label: 'Edit', icon: 'pen', key: 'e', disabled, onclick: () => this.edit() }),
      button({ label: plan ? 'Keep planning…' : 'Reject', icon: 'cross', key: 'r', class: 'no', disabled, onclick: () => this.reject() }),
      always && button({ label: `Always: ${always}`, class: 'quiet always accepts', disabled, onclick: single(() => this.accept(true)) }));
  }

  _rejection(/** @type {boolean} */ disabled) {
    const plan = planIn(this.request) !== undefined;
    const area = h('textarea', {
      rows: 2, placeholder: plan ? 'What should change in the plan? (optional)' : `Tell ${this.world.agent} what to do instead (optional)`, 'aria-label': 'Reason', value: this._message, disabled,
      oninput: () => ((this._message = area.value), this._keep()),
      onkeydown: (/** @type {KeyboardEvent} */ event) => {
        if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
          event.preventDefault();
          reject();
        }
      },
    });
    const reject = () => void this._give({ allow: false, message: area.value.trim() });
    return h('footer', { class: 'rejecting' }, area,
      button({ label: plan ? 'Keep planning' : 'Reject', icon: 'cross', class: 'no', disabled, onclick: reject }),
      button({ label: 'Back', key: 'Esc', class: 'quiet', disabled, onclick: () => this.back() }));
  }

  /** @returns {Node[]} */
  _question() {
    this.question ??= new QuestionForm(this.request.input, {
      answer: (input) => void this._give({ allow: true, input }),
      skip: () => void this._give({ allow: false, message: '' }),
      begun: this._begun,
      keep: (begun) => ((this._begun = begun), this._keep()),
    });
    this.question.disable(this.busy || !this.canAnswer);
    this.question.foot.hidden = !this.canAnswer;
    if (this.answered) return [this.question.element, /** @type {Node} */ (this._notice()), this._answers()];
    return [this.question.element, ...(this.canAnswer ? [] : [this._answers()])];
  }
}
