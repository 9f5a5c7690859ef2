// An open approval as a card: what is asked, and every way to answer it.

import { diffView } from './diff-view.js';
import { ago, button, fill, h, icon, shownPath, single, size } from './dom.js';
import * as kept from './kept.js';
import { code } from './markdown.js';
import { QuestionForm } from './view-question.js';
import { alwaysWords, canBeEdited, editedInput } from './store.js';

const TITLES = { Edit: 'wants to change', MultiEdit: 'wants to change', Write: 'wants to write', NotebookEdit: 'wants to change', Bash: 'wants to run a command', WebFetch: 'wants to read a web page' };

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
    /** @type {QuestionForm | undefined} */
    this.question = undefined;
    this.element = h('article', { class: 'card approval', tabindex: -1, 'data-approval': request.approval_id, 'aria-labelledby': `title-${request.approval_id}` });
    const before = kept.answer(request.approval_id);
    this._text = before.text;
    this._message = before.message ?? '';
    this._begun = before.begun;
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

  accept() {
    if (!this.canAnswer) return;
    if (this.question) this.question.submit();
    else if (this.mode === 'edit') void this._give({ allow: true, input: editedInput(this.request, this._text ?? '') });
    else void this._give({ allow: true });
  }

  edit() {
    if (!this.canEdit) return;
    this.mode = 'edit';
    this._text ??= this.request.proposal.new_text.replace(/\r\n/g, '\n');
    this._draw();
    this.element.querySelector('textarea')?.focus();
  }

  reject() {
    if (!this.canAnswer) return;
    this.mode = 'reject';
    this._draw();
    this.element.querySelector('textarea')?.focus();
  }

  /** Back to reading; whether there was anything to go back from. */
  back() {
    if (this.mode === 'read') return false;
    this.mode = 'read';
    this._text = undefined;
    this._message = '';
    this._keep();
    this._draw();
    this.element.focus();
    return true;
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

  _draw() {
    const { request } = this;
    const { tool_name: tool, proposal } = request;
    const isQuestion = tool === 'AskUserQuestion' && Array.isArray(request.input?.questions);
    const what = isQuestion ? 'asks you' : (TITLES[/** @type {keyof typeof TITLES} */ (tool)] ?? `wants to use ${tool}`);
    const path = proposal?.path ?? request.input?.file_path;
    const title = h('h3', { id: `title-${request.approval_id}` }, `${this.world.agent} ${what} `, path && h('code', { text: shownPath(path, this.world.root) }));
    const head = h('header', {}, title, h('time', { datetime: request.created_at, text: ago(request.created_at) }));
    fill(this.element, head, ...(isQuestion ? this._question() : [this._body(head), this._notice(), this._answers()]));
    this.element.classList.toggle('settled', Boolean(this.answered));
  }

  _body(/** @type {HTMLElement} */ head) {
    const { proposal, input, tool_name: tool } = this.request;
    if (this.mode === 'edit') return this._editor();
    if (proposal && !this._diff) {
      this._diff = diffView(proposal);
      this._counts = h('span', { class: 'counts' }, h('span', { class: 'plus', text: `+${this._diff.added}` }), ' ', h('span', { class: 'minus', text: `−${this._diff.removed}` }));
    }
    if (this._diff) {
      head.insertBefore(/** @type {Node} */ (this._counts), head.lastChild);
      return this._diff.element;
    }
    const described = typeof input?.description === 'string' && tool === 'Bash' ? h('p', { text: input.description }) : null;
    const text = tool === 'Bash' && typeof input?.command === 'string' ? code(input.command, 'sh') : code(JSON.stringify(input, null, 2), 'json');
    return h('div', { class: 'asked' }, described, text);
  }

  _editor() {
    const area = h('textarea', {
      class: 'code', spellcheck: 'false', autocapitalize: 'off', 'aria-label': 'The text as it will be written', value: this._text,
      rows: Math.min(24, Math.max(6, (this._text ?? '').split('\n').length + 1)), disabled: this.busy,
      oninput: () => ((this._text = area.value), this._keep()),
    });
    if (this.answered) area.readOnly = true;
    return area;
  }

  _notice() {
    const { truncated } = this.request;
    if (this.answered) {
      const { by, decision, reason } = this.answered;
      const who = by ? `${by} ${decision === 'allow' ? 'accepted' : 'rejected'} this first.` : `The question was taken back (${reason}).`;
      return h('p', { class: 'notice', role: 'alert' }, `${who} What you had written was not used; it stays here until you close this.`);
    }
    if (!truncated) return null;
    const show = button({ label: `Show all (${size(truncated.bytes)})`, class: 'quiet', onclick: () => void this._whole() });
    return h('p', { class: 'notice' }, 'This is too large for one message: long texts are cut. ', show);
  }

  async _whole() {
    try {
      const record = await this.world.whole(this.request.truncated.blob_id);
      this.request = { ...this.request, ...record.message.message, truncated: undefined };
      this._diff = undefined;
      this._draw();
    } catch {
      // said by who was asked
    }
  }

  /** @returns {HTMLElement} */
  _answers() {
    if (this.answered) {
      const close = button({ label: 'Close', onclick: () => (kept.keepAnswer(this.request.approval_id, null), this.element.remove()) });
      return h('footer', {}, this.mode === 'reject' ? h('p', { class: 'mine', text: this._message }) : null, close);
    }
    if (!this.canAnswer) return h('footer', { class: 'hint', text: 'This device may watch only: somebody else has to decide.' });
    const disabled = this.busy;
    if (this.mode === 'edit') {
      return h('footer', {},
        button({ label: 'Accept with my edits', icon: 'check', class: 'yes', disabled, onclick: single(() => this.accept()) }),
        button({ label: 'Back', key: 'Esc', class: 'quiet', disabled, onclick: () => this.back() }));
    }
    if (this.mode === 'reject') return this._rejection(disabled);
    // Who may not run anything may not say either what shall never be asked about.
    const always = this.world.may('execute') && alwaysWords(this.request.suggestions);
    return h('footer', {},
      button({ label: disabled ? 'Sending…' : 'Accept', icon: 'check', key: 'a', class: 'yes', disabled, onclick: single(() => this.accept()) }),
      this.canEdit && button({ label: 'Edit', icon: 'pen', key: 'e', disabled, onclick: () => this.edit() }),
      button({ label: 'Reject', icon: 'cross', key: 'r', class: 'no', disabled, onclick: () => this.reject() }),
      always && button({ label: `Always: ${always}`, class: 'quiet always', disabled, onclick: single(() => void this._give({ allow: true, remember: true })) }));
  }

  _rejection(/** @type {boolean} */ disabled) {
    const area = h('textarea', {
      rows: 2, placeholder: 'What should it do instead? (may be left empty)', 'aria-label': 'Why you reject it', value: this._message, disabled,
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
      button({ label: 'Reject', icon: 'cross', class: 'no', disabled, onclick: reject }),
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
    this.question.foot.hidden = !this.answered && !this.canAnswer;
    if (this.question.foot.hidden) return [this.question.element, this._answers()];
    return [this.question.element, ...(this.answered ? [/** @type {Node} */ (this._notice()), this._answers()] : [])];
  }
}

/** Why nobody need answer any more; what was settled at the desk was not taken back. */
function takenBack(/** @type {string} */ reason) {
  return /^(answered elsewhere|asked in the terminal|overruled)/.test(reason) ? `${reason[0].toUpperCase()}${reason.slice(1)}` : `Taken back: ${reason}`;
}

/** How a settled approval is told in a line: the icon, the words. @param {any} answer */
export function settledWords(answer) {
  if (!answer) return { shape: icon('help'), words: 'Not answered', kind: '' };
  if (answer.reason !== undefined) return { shape: icon('back'), words: takenBack(answer.reason), kind: '' };
  const message = answer.message ? `: “${answer.message}”` : '';
  return answer.decision === 'allow' ? { shape: icon('check'), words: `Accepted by ${answer.by}`, kind: 'yes' } : { shape: icon('cross'), words: `Rejected by ${answer.by}${message}`, kind: 'no' };
}
