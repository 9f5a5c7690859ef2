// The questions of AskUserQuestion, each with its options and a line for words of one's own.

import { button, fill, h } from './dom.js';

/** Of one question. @typedef {{chosen: string[], own: string}} Begun */

export class QuestionForm {
  /**
   * @param {any} input the tool's; its `questions` are `{question, header, multiSelect, options: [{label, description}]}`
   * @param {{answer: (input: object) => void, skip: () => void, begun?: Begun[], keep: (begun: Begun[] | undefined) => void}} world
   *   `answer` gets the tool's input with the answers in it; `begun` is what was chosen and written before
   */
  constructor(input, { answer, skip, begun, keep }) {
    this._input = input;
    this._answer = answer;
    this._groups = input.questions.map((/** @type {any} */ question, /** @type {number} */ index) => group(question, index, begun?.[index]));
    this._hint = h('p', { class: 'hint', role: 'status' });
    this.foot = h('footer', {}, h('button', { type: 'submit', class: 'yes' }, 'Answer'), button({ label: 'Do not answer', class: 'quiet', onclick: skip }));
    const changed = () => {
      const now = this._groups.map((/** @type {any} */ one) => one.begun());
      keep(now.some(({ chosen, own }) => chosen.length || own) ? now : undefined);
    };
    this.element = h('form', { class: 'questions', oninput: changed, onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), this.submit()) },
      ...this._groups.map((/** @type {any} */ one) => one.element), this._hint, this.foot);
  }

  disable(/** @type {boolean} */ disabled) {
    for (const field of this.element.querySelectorAll('input, button')) field.disabled = disabled;
  }

  submit() {
    /** @type {Record<string, string>} */
    const answers = {};
    for (const { question, chosen } of this._groups) {
      const text = chosen();
      if (!text) {
        fill(this._hint, `Choose an answer to “${question}”, or write one.`);
        return;
      }
      answers[question] = text;
    }
    this._answer({ ...this._input, answers });
  }
}

let number = 0;

function group(/** @type {any} */ { question, header, multiSelect, options = [] }, /** @type {number} */ index, /** @type {Begun | undefined} */ before) {
  const name = `question-${number++}-${index}`;
  const type = multiSelect ? 'checkbox' : 'radio';
  const boxes = options.map((/** @type {any} */ { label }) => h('input', { type, name, value: label, checked: before?.chosen.includes(label) }));
  const own = h('input', { type: 'text', class: 'own', value: before?.own ?? '', placeholder: 'Something else', 'aria-label': `Your own answer to: ${question}` });
  const labels = options.map((/** @type {any} */ { label, description }, /** @type {number} */ n) =>
    h('label', { class: 'option' }, boxes[n], h('span', {}, h('strong', { text: label }), description && h('small', { text: description }))));
  const element = h('fieldset', {}, h('legend', {}, header && h('span', { class: 'tag', text: header }), question), ...labels, own);
  const labelled = () => boxes.filter((/** @type {any} */ box) => box.checked).map((/** @type {any} */ box) => box.value);
  const chosen = () => {
    const text = own.value.trim();
    return (multiSelect ? [...labelled(), text].filter(Boolean) : [text || labelled()[0] || '']).join(', ');
  };
  return { element, question, chosen, begun: () => ({ chosen: labelled(), own: own.value }) };
}
