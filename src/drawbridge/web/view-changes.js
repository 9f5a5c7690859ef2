// What a run changed in the files of its project, and how to take it back.

import { filesIn } from './changes.js';
import { hunksView } from './diff-view.js';
import { button, fill, h } from './dom.js';

/** So many files are unfolded at once. */
const UNFOLDED = 3;

/**
 * A button that becomes the answer.
 * @param {string} run
 * @param {{changes: (run: string) => Promise<any>, revert?: (run: string) => Promise<any>}} world `revert` is missing where it is not allowed
 * @returns {HTMLElement}
 */
export function changesView(run, { changes, revert }) {
  const place = h('div', { class: 'changes' });
  const show = button({
    label: 'What it changed', class: 'quiet',
    onclick: async () => {
      show.disabled = true;
      try {
        const told = await changes(run);
        place.replaceChildren(...answer(told, revert));
      } catch (error) {
        place.replaceChildren(h('p', { class: 'hint', text: /** @type {Error} */ (error).message }));
      }
    },
  });
  place.append(show);
  return place;
}

/** @returns {HTMLElement[]} */
function answer(/** @type {any} */ { run_id: run, files, diff, truncated }, /** @type {((run: string) => Promise<any>) | undefined} */ revert) {
  if (!files.length) return [h('p', { class: 'hint', text: 'It changed no file of the project.' })];
  const told = new Map(filesIn(diff).map((file) => [file.path, file]));
  const all = files.map((/** @type {any} */ { path, change }) => fileView(path, change, told.get(path), files.length <= UNFOLDED));
  const cut = truncated && h('p', { class: 'hint', text: 'There is more than is shown: the differences are cut, the list of files is whole.' });
  return [h('ul', { class: 'files' }, ...all), cut, revert && takingBack(run, files.length, revert)].filter(Boolean);
}

const CHANGES = { added: 'new', changed: '', deleted: 'deleted' };

function fileView(/** @type {string} */ path, /** @type {keyof typeof CHANGES} */ change, /** @type {import('./changes.js').FileChange | undefined} */ file, /** @type {boolean} */ unfolded) {
  const counts = file && h('span', { class: 'counts' }, h('span', { class: 'plus', text: `+${file.added}` }), ' ', h('span', { class: 'minus', text: `−${file.removed}` }));
  const word = CHANGES[change] && h('span', { class: 'tag', text: CHANGES[change] });
  const details = h('details', {}, h('summary', {}, h('code', { line: path }), word, counts));
  const body = () => details.append(...(file?.note ? [h('p', { class: 'hint', text: file.note })] : []), ...(file?.hunks.length ? [hunksView(path, file.hunks, change === 'changed')] : []));
  details.addEventListener('toggle', body, { once: true });
  details.open = unfolded;
  return h('li', {}, details);
}

/** Asked twice: it changes files. */
function takingBack(/** @type {string} */ run, /** @type {number} */ count, /** @type {(run: string) => Promise<any>} */ revert) {
  const problem = h('p', { class: 'problem', role: 'alert' });
  const what = count === 1 ? 'this change' : `the changes of these ${count} files`;
  const begin = button({ label: 'Take it back…', icon: 'back', onclick: () => foot.replaceChildren(h('p', { text: `Take back ${what}? What was changed elsewhere in the files stays.` }), sure, no) });
  const no = button({ label: 'No', class: 'quiet', onclick: () => foot.replaceChildren(begin) });
  const sure = button({
    label: 'Take it back', class: 'no',
    onclick: async () => {
      sure.disabled = true;
      try {
        await revert(run);
        foot.replaceChildren(h('p', { class: 'hint', text: 'It was taken back.' }));
      } catch (error) {
        sure.disabled = false;
        fill(problem, /** @type {Error} */ (error).message);
        foot.replaceChildren(begin, problem);
      }
    },
  });
  const foot = h('footer', {}, begin);
  return foot;
}
