// Questions of the page itself: which directory, which session, really remove it.

import { ago, baseName, button, fill, h, icon } from './dom.js';

/** A dialog that is gone when it is closed. @param {string} title @param {...Node} children @returns {HTMLDialogElement} */
export function openDialog(title, ...children) {
  const close = button({ label: 'Close', icon: 'cross', bare: true, class: 'quiet', onclick: () => dialog.close() });
  const dialog = h('dialog', { 'aria-label': title, onclose: () => dialog.remove() }, h('header', {}, h('h2', { text: title }), close), ...children);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Runs what may fail; the problem is said in the dialog. */
export async function trying(/** @type {HTMLElement} */ problem, /** @type {() => Promise<void>} */ act) {
  problem.textContent = '';
  try {
    await act();
  } catch (error) {
    fill(problem, /** @type {Error} */ (error).message);
  }
}

/** @param {import('./client.js').Client} client @param {(id: string) => void} show */
export function addProject(client, show) {
  const problem = h('p', { class: 'problem', role: 'alert' });
  const names = h('ul', { class: 'choices', 'aria-label': 'Directories' });
  const field = h('input', { id: 'path', type: 'text', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', required: true, oninput: () => void look() });
  const agent = h('select', { id: 'agent' });
  const offer = () => {
    if (!agent.childElementCount) fill(agent, ...(client.hello?.agents ?? []).map((/** @type {string} */ name) => h('option', { value: name, text: name })));
  };
  let asked = 0;
  const pick = (/** @type {string} */ path) => {
    field.value = `${path.replace(/\/$/, '')}/`;
    field.focus();
    void look();
  };
  const look = () =>
    trying(problem, async () => {
      const number = ++asked;
      const [, parent, start] = /^(.*\/)([^/]*)$/.exec(field.value) ?? ['', '', field.value];
      const { data } = await client.connection.ask('dir_list', { path: parent.replace(/(.)\/$/, '$1') }, { lasting: true }).catch((error) => {
        if (error.code !== 'INVALID_PATH') throw error;
        return client.connection.ask('dir_list', { path: '' }, { lasting: true });
      });
      if (number !== asked) return;
      const roots = data.path === '';
      const fit = data.directories.filter((/** @type {string} */ name) => roots || (name.toLowerCase().startsWith(start.toLowerCase()) && (start.startsWith('.') || !name.startsWith('.'))));
      fill(names, ...fit.slice(0, 100).map((/** @type {string} */ name) => {
        const path = roots ? name : `${data.path.replace(/\/$/, '')}/${name}`;
        return h('li', {}, h('button', { type: 'button', class: 'quiet', onclick: () => pick(path) }, icon('folder'), h('span', { line: name })));
      }));
    });
  const create = (/** @type {Event} */ event) => {
    event.preventDefault();
    void trying(problem, async () => {
      const path = field.value.trim().replace(/(.)\/+$/, '$1');
      const { data } = await client.connection.ask('project_create', { path, agent: agent.value || undefined });
      dialog.close();
      show(data.data.id);
    });
  };
  const dialog = openDialog('Add project', h('form', { onsubmit: create },
    h('label', { for: 'path', text: 'Directory on the server’s machine' }), field, names,
    h('label', { for: 'agent', text: 'Agent' }), agent, problem,
    h('footer', {}, h('button', { type: 'submit', class: 'yes' }, 'Add'))));
  // A quick hand opens it before the server has said which agents there are.
  const closed = new AbortController();
  client.addEventListener('change', offer, { signal: closed.signal });
  dialog.addEventListener('close', () => closed.abort());
  offer();
  field.focus();
  void look();
}

/** @param {import('./client.js').Client} client @param {string} project @param {(words: string) => void} said */
export function sessions(client, project, said) {
  const problem = h('p', { class: 'problem', role: 'alert' });
  const list = h('ul', { class: 'sessions' });
  const act = (/** @type {string} */ type, /** @type {object} */ data, /** @type {string} */ words) =>
    trying(problem, async () => {
      await client.connection.ask(type, data, { project });
      dialog.close();
      said(words);
    });
  const fresh = button({ label: 'New session', icon: 'add', class: 'yes', onclick: () => void act('agent_new_session', {}, 'The next prompt begins a new session.') });
  const dialog = openDialog('Sessions', h('p', { class: 'hint', text: 'The agent’s conversations in this directory, those begun in a terminal too.' }), list, problem, h('footer', {}, fresh));
  void trying(problem, async () => {
    const { data } = await client.connection.ask('session_list', { limit: 100 }, { project });
    if (!data.sessions.length) list.append(h('li', { class: 'hint', text: 'The agent remembers none.' }));
    for (const { session_id, title, last_active, message_count, current } of data.sessions) {
      const facts = [ago(last_active), message_count === undefined || message_count === null ? '' : `${message_count} messages`].filter(Boolean).join(' · ');
      list.append(h('li', {},
        h('div', {}, h('strong', { line: title || session_id }), h('small', { text: facts })),
        current ? h('span', { class: 'tag', text: 'current' }) : button({ label: 'Resume', onclick: () => void act('session_resume', { session_id }, 'The next prompt goes on with that session.') }),
        button({ label: 'Fork', class: 'quiet', onclick: () => void act('session_fork', { session_id }, 'The next prompt goes on with a copy of that session.') })));
    }
  });
}

/** A link brings another token than the one that this device has. */
export function replaceToken(/** @type {() => void} */ replace) {
  const yes = button({ label: 'Use the token of the link', onclick: () => (dialog.close(), replace()) });
  const no = button({ label: 'Keep this device’s access', class: 'yes', onclick: () => dialog.close() });
  const dialog = openDialog('Replace this device’s access?',
    h('p', { text: 'The link that you followed has an access token. This device has access already. If you did not expect this, keep what you have.' }), h('footer', {}, no, yes));
}

/** @param {import('./client.js').Client} client @param {string} id @param {() => void} gone */
export function removeProject(client, id, gone) {
  const project = client.projects.all.get(id);
  if (!project) return;
  const problem = h('p', { class: 'problem', role: 'alert' });
  const remove = () => trying(problem, async () => {
    await client.remove(id);
    dialog.close();
    gone();
  });
  const words = project.desk
    ? 'The session leaves this list, and the server’s copy of the conversation goes. In the terminal all is as it was.'
    : 'The conversation leaves this list; the server keeps it in its trash for 7 days. The directory and its files are not touched.';
  const dialog = openDialog(project.desk ? 'Take the session off the list?' : `Remove ${baseName(project.path)}?`,
    h('p', { text: words }), problem,
    h('footer', {}, button({ label: 'Remove', icon: 'trash', class: 'no', onclick: () => void remove() }), button({ label: 'Keep it', class: 'quiet', onclick: () => dialog.close() })));
}
