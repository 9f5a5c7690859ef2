// The list of projects: which wait, which work, which have something new.

import { ago, baseName, button, fill, h, icon, money } from './dom.js';
import * as kept from './kept.js';
import { standing } from './project-words.js';

export class ProjectList {
  /** @param {import('./client.js').Client} client @param {{add: () => void}} world */
  constructor(client, { add }) {
    this.client = client;
    this._list = h('ul', { class: 'projects' });
    /** @type {string | undefined} */
    this._shown = undefined;
    this._empty = h('div', { class: 'empty' }, icon('folder'), h('p', { text: 'No project yet.' }), h('p', { class: 'hint', text: 'A project is a directory on the server’s machine in which an agent works.' }));
    this._add = button({ label: 'Add project', icon: 'add', class: 'add', onclick: add });
    const head = h('header', {}, h('h2', { text: 'Projects' }), this._add);
    this.element = h('nav', { class: 'side', 'aria-label': 'Projects' }, head, this._empty, this._list);
  }

  update(/** @type {string | undefined} */ current) {
    const { projects } = this.client;
    this._add.hidden = !this.client.may('project_create');
    const rows = projects.sorted().map((project) => row(project, project.id === current));
    const shown = rows.map((one) => one.outerHTML).join('');
    this._empty.hidden = !projects.known || rows.length > 0;
    if (shown === this._shown) return;
    this._shown = shown;
    const focused = document.activeElement?.getAttribute('href');
    fill(this._list, ...rows);
    if (focused) /** @type {HTMLElement | undefined} */ ([...this._list.querySelectorAll('a')].find((link) => link.getAttribute('href') === focused))?.focus();
  }
}

/** More than that is many. */
const MANY = 99;

function row(/** @type {any} */ project, /** @type {boolean} */ current) {
  const { kind, words } = standing(project);
  const unread = current ? 0 : Math.max(0, project.last_seq - kept.seen(project.id));
  const facts = [project.cost_usd ? money(project.cost_usd) : project.agent, ago(project.last_active)].filter(Boolean).join(' · ');
  const silent = project.desk?.asks === false && project.desk.state !== 'ended';
  return h('li', {}, h('a', { href: `#/p/${project.id}`, class: `project ${kind}`, 'aria-current': current ? 'page' : undefined },
    h('span', { class: 'name' }, project.desk && h('span', { class: 'at-desk', title: 'In a terminal' }, icon('tool')), h('strong', { line: baseName(project.path) }),
      unread > 0 && h('span', { class: 'unread', title: 'New since you looked', text: unread > MANY ? `${MANY}+` : unread }, h('span', { class: 'unseen', text: ' new' }))),
    h('span', { class: `state ${kind}` }, h('i', { class: 'dot' }), h('span', { text: silent && kind !== 'waiting' ? `${words}; asks rarely` : words })),
    h('span', { class: 'facts', text: facts })));
}
