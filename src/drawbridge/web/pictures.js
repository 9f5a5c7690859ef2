// Pictures that go with a prompt: pasted, dropped or chosen; what is too large for an agent is made smaller here.

import { button, h } from './dom.js';

const TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

const MOST = 10;

/** Bytes, and pixels of the longer side: more is of no use to a model. */
const LARGEST = 4_000_000;
const LONGEST = 2000;

/** @typedef {{blob: Blob, name: string, url: string}} Picture */

export class Pictures {
  /** @param {(error: Error) => void} failed */
  constructor(failed) {
    this._failed = failed;
    /** @type {Picture[]} */
    this._all = [];
    this.element = h('ul', { class: 'pictures', 'aria-label': 'Pictures that go with the prompt', hidden: true });
    this.input = h('input', { type: 'file', accept: TYPES.join(','), multiple: true, hidden: true, onchange: () => (void this.add([...this.input.files]), (this.input.value = '')) });
    this.button = button({ label: 'Add a picture', icon: 'picture', bare: true, class: 'quiet', onclick: () => this.input.click() });
  }

  /** Those of a paste or a drop; whether there were any. */
  from(/** @type {DataTransfer | null} */ data) {
    const files = [...(data?.files ?? [])].filter((file) => TYPES.includes(file.type));
    if (files.length) void this.add(files);
    return files.length > 0;
  }

  async add(/** @type {Iterable<File>} */ files) {
    for (const file of files) {
      if (this._all.length >= MOST) return this._failed(new Error(`A prompt takes ${MOST} pictures; the others were left out.`));
      try {
        const blob = await fitting(file);
        this._all.push({ blob, name: file.name || 'picture', url: URL.createObjectURL(blob) });
      } catch {
        this._failed(new Error(`${file.name || 'This'} is no picture that can be read here. It was left out.`));
      }
      this._draw();
    }
    return undefined;
  }

  /** All of them; none is left here. */
  take() {
    return this.put([]);
  }

  /** These instead of what was here. @param {Picture[]} pictures */
  put(pictures) {
    const before = this._all;
    this._all = pictures;
    this._draw();
    return before;
  }

  _draw() {
    this.element.hidden = this._all.length === 0;
    this.element.replaceChildren(...this._all.map((one) =>
      h('li', {}, h('img', { src: one.url, alt: one.name }), button({ label: `Leave out ${one.name}`, icon: 'cross', bare: true, onclick: () => this._drop(one) }))));
  }

  _drop(/** @type {Picture} */ one) {
    URL.revokeObjectURL(one.url);
    this.put(this._all.filter((other) => other !== one));
  }
}

/** The file itself where an agent takes it, else a smaller one. Throws for what is no picture. @returns {Promise<Blob>} */
async function fitting(/** @type {File} */ file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST / Math.max(bitmap.width, bitmap.height));
  if (scale === 1 && file.size <= LARGEST) return file;
  const canvas = h('canvas', { width: Math.round(bitmap.width * scale), height: Math.round(bitmap.height * scale) });
  canvas.getContext('2d').drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const made = (/** @type {string} */ type) => new Promise((done) => canvas.toBlob(done, type, 0.9));
  const same = file.type === 'image/png' ? await made('image/png') : undefined;
  return same && same.size <= LARGEST ? same : await made('image/jpeg');
}
