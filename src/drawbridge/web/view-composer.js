// The prompt box: several lines, a draft that outlives the page, the project's earlier prompts by the arrow keys.

import { button, h } from './dom.js';
import * as kept from './kept.js';
import { Pictures } from './pictures.js';

export class Composer {
  /** @param {string} project @param {{send: (text: string, pictures: import('./pictures.js').Picture[]) => void, failed: (error: Error) => void}} world */
  constructor(project, { send, failed }) {
    this._project = project;
    this._send = send;
    this._earlier = kept.prompts(project);
    this._place = this._earlier.length;
    this.area = h('textarea', {
      id: 'prompt', rows: 1, placeholder: 'What should the agent do?', 'aria-label': 'Prompt', enterkeyhint: matchMedia('(pointer: coarse)').matches ? 'enter' : 'send', value: kept.draft(project),
      oninput: () => this._changed(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => this._key(event),
    });
    this.pictures = new Pictures(failed);
    this._button = button({ label: 'Send', icon: 'send', class: 'yes', bare: true, onclick: () => this.submit() });
    this.element = h('form', { class: 'composer', onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), this.submit()) },
      this.pictures.element, this.pictures.input, this.pictures.button, this.area, this._button);
    for (const type of ['paste', 'drop']) this.element.addEventListener(type, (/** @type {any} */ event) => this._given(event, event.clipboardData ?? event.dataTransfer));
    requestAnimationFrame(() => this._fit());
  }

  submit() {
    const text = this.area.value.trim();
    if (!text) return;
    kept.keepPrompt(this._project, text);
    this._earlier = kept.prompts(this._project);
    this.put('');
    this._send(text, this.pictures.take());
  }

  /** The agent can be given pictures. */
  set sees(/** @type {boolean} */ sees) {
    this.pictures.button.hidden = !sees;
    if (!sees) this.pictures.take();
  }

  /** Pictures are taken; everything else goes its usual way. @param {Event} event @param {DataTransfer | null} data */
  _given(event, data) {
    if (!this.pictures.button.hidden && this.pictures.from(data)) event.preventDefault();
  }

  /** Another text in the box. */
  put(/** @type {string} */ text) {
    this.area.value = text;
    this._place = this._earlier.length;
    this._changed();
  }

  _changed() {
    kept.keepDraft(this._project, this.area.value);
    this._fit();
  }

  _fit() {
    this.area.style.height = 'auto';
    this.area.style.height = `${Math.min(this.area.scrollHeight + 2, innerHeight * 0.4)}px`;
    this._button.disabled = !this.area.value.trim();
  }

  _key(/** @type {KeyboardEvent} */ event) {
    if (event.isComposing) return;
    const touch = matchMedia('(pointer: coarse)').matches;
    if (event.key === 'Enter' && !event.shiftKey && (!touch || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      this.submit();
    } else if (event.key === 'ArrowUp' && this.area.selectionEnd === 0 && this._place > 0) this._recall(-1, event);
    else if (event.key === 'ArrowDown' && this.area.selectionStart === this.area.value.length && this._place < this._earlier.length) this._recall(1, event);
  }

  _recall(/** @type {number} */ step, /** @type {Event} */ event) {
    event.preventDefault();
    if (this._place === this._earlier.length) this._unfinished = this.area.value;
    const place = this._place + step;
    this.put(this._earlier[place] ?? this._unfinished ?? '');
    this._place = place;
    const at = step < 0 ? 0 : this.area.value.length;
    this.area.setSelectionRange(at, at);
  }
}
