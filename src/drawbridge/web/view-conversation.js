// One project: what was said, what is being said, what waits for an answer, and the prompt box.

import { baseName, button, fill, h, icon, money, single } from './dom.js';
import { Current } from './current.js';
import { wellFormed } from './harmless.js';
import { liveText } from './long-text.js';
import { ApprovalCard } from './view-approval.js';
import { Composer } from './view-composer.js';
import { itemView } from './view-items.js';
import { WindowList } from './window-list.js';
import { agentName, MODES, modesOf, modeWords, since, standing } from './project-words.js';

/** What can be said about a session in a terminal. */
const IN_TERMINAL = ['permission_response', 'project_delete'];

export class ConversationView {
  /**
   * @param {import('./client.js').Client} client
   * @param {string} id
   * @param {{said: (text: string, kind?: string) => void, failed: (error: any) => void, sessions: () => void, remove: () => void, fork: (project: any) => void}} world
   */
  constructor(client, id, world) {
    this.client = client;
    this.id = id;
    this.world = world;
    /** @type {Map<string, ApprovalCard>} */
    this._cards = new Map();
    this._head = h('header', { class: 'project-head' });
    this._list = h('div', { class: 'items' });
    this._dropped = h('p', { class: 'divider', hidden: true, text: 'What was said before is not kept any more' });
    this._live = h('article', { class: 'item said live', 'aria-hidden': 'true' });
    this._pending = h('div', { class: 'pending' });
    this._open = h('section', { class: 'open', 'aria-label': 'Waiting for you' });
    this._empty = h('div', { class: 'empty' }, h('p', { text: 'Nothing was said here yet.' }), h('p', { class: 'hint', text: 'Write what the agent is to do. Before it changes anything, it asks you.' }));
    this.scroller = h('div', { class: 'scroller', tabindex: 0, role: 'log', 'aria-label': 'Conversation' }, h('div', { class: 'column' }, this._empty, this._dropped, this._list, this._live, this._pending, this._open));
    this.current = new Current(this.scroller, () => [...this._cards.values()].filter((card) => card.element.isConnected));
    this._jump = button({ label: 'Latest', icon: 'down', class: 'jump', onclick: () => this._toLatest() });
    this._status = h('div', { class: 'run' });
    this._words = h('span', { class: 'state' });
    this._stop = button({ label: 'Stop', icon: 'stop', class: 'stop', onclick: single(() => this.stop()) });
    this._stay = button({ label: 'Do not go on', icon: 'cross', class: 'stop', onclick: () => this.stop() });
    this._status.append(this._words);
    /** What stands there. @type {string | undefined} */
    this._shownStatus = undefined;
    this._rights = h('div', { class: 'hint rights' });
    this.composer = new Composer(id, { send: (text, pictures) => void this._send(text, pictures), failed: world.failed });
    this.element = h('section', { class: 'conversation', 'aria-label': 'Project' }, this._head, this.scroller, h('div', { class: 'foot' }, this._jump, this._status, this._rights, this.composer.element));
    this.list = new WindowList(this.scroller, this._list, {
      render: (item) => itemView(item, this._itemWorld()),
      older: () => client.older(),
      newer: () => client.newer(),
      moved: () => this._moved(),
      keep: () => this.current.card?.element,
    });
    new ResizeObserver(() => {
      this.list.settle();
      this.current.look();
    }).observe(this._open);
    this._deskMode = h('span', { class: 'tag', title: 'The mode of the agent; it is set at the desk' });
    /** What the head was drawn for; undefined while the project is not known. @type {string | undefined} */
    this.drawn = undefined;
    this.redraw();
    this.update();
  }

  /** The project, or what this device may do, has become known or is another now: what it may not is not there. */
  redraw() {
    this._drawHead();
    this.composer.element.hidden = !this._may('execute');
    this.composer.sees = this._may('blob_put') && Boolean(this.client.hello?.pictures?.includes(this._project?.agent));
    this._rights.hidden = this._may('execute') && !this._project?.desk;
    fill(this._rights, ...this._instead());
    for (const card of this._cards.values()) card.redraw();
    this._shownStatus = undefined;
    this.tick();
  }

  /** Whether it is possible here, and allowed to this device: a session in a terminal is steered there. */
  _may(/** @type {string} */ type) {
    const desk = this._project?.desk;
    return this.client.may(type) && (!desk || IN_TERMINAL.includes(type) || (type === 'execute' && Boolean(desk.prompts)));
  }

  /** When this changes, what can be done here does too. */
  get _look() {
    const { desk, modes } = this._project ?? {};
    return `${desk?.state} ${desk?.prompts} ${modes}`;
  }

  /** What stands where the prompt box would, or above it. @returns {(Node | string)[]} */
  _instead() {
    const project = this._project;
    if (!project?.desk) return [this.client.may('permission_response') ? 'This device may answer questions and stop runs, and no more.' : 'This device may watch, and no more.'];
    const typed = this._may('execute') ? 'What you send is typed into the terminal of this session.' : 'Prompts are typed at the desk, in the terminal of this session.';
    const words = project.desk.state === 'ended' ? 'This session has ended.' : typed;
    const fork = this.client.canFork(project) && button({ label: 'Go on from here', icon: 'fork', onclick: () => this.world.fork(project) });
    return [h('span', { text: words }), ...(fork ? [fork] : [])];
  }

  _itemWorld() {
    const { client } = this;
    const ask = (/** @type {string} */ type) => (this._may(type) ? (/** @type {string} */ run_id) => client.command(type, { run_id }).then(({ data }) => data) : undefined);
    return { root: this._project?.path ?? '', me: client.name, isMine: (/** @type {any} */ answer) => client.isMine(answer), whole: (/** @type {string} */ blob) => this._whole(blob), changes: ask('run_changes'), revert: ask('run_revert') };
  }

  get _project() {
    return this.client.projects.all.get(this.id);
  }

  /** A step by keys to an element of the conversation. */
  choose(/** @type {HTMLElement} */ element) {
    const card = [...this._cards.values()].find((one) => one.element === element);
    if (card && !card.answered) this.current.choose(card);
    this.current.arm();
    this._count();
  }

  /** What is typed goes into the prompt box, where there is one. */
  type() {
    if (!this.composer.element.hidden) this.composer.area.focus();
  }

  update() {
    const conversation = this.client.conversation;
    if (!conversation || conversation.id !== this.id) return;
    // An item that can't be drawn must not stop the others, least of all an approval.
    const parts = [
      () => this.list.update(conversation.items),
      () => this._drawLive(conversation),
      () => this._drawCards(conversation),
      () => this._drawPending(conversation),
      () => void (this._project && this.drawn !== this._look && this.redraw()),
      () => this.tick(),
      () => this._drawMode(),
      () => void (this._dropped.hidden = !conversation.beginsLate(this._project)),
      () => void (this._empty.hidden = !conversation.joined || conversation.cursor > 0 || this._pending.childElementCount > 0),
      () => this.list.settle(),
      () => this._moved(),
      () => void this.current.look(),
    ];
    for (const part of parts) {
      try {
        part();
      } catch (error) {
        console.error(error);
      }
    }
  }

  _toLatest() {
    const { card } = this.current;
    void this.client.latest().then(() => {
      if (card) this.list.reveal(card.element);
      else this.list.toEnd();
    }, this.world.failed);
  }

  /** What goes on with time. */
  tick() {
    const conversation = this.client.conversation;
    const project = this._project;
    if (!conversation || !project) return;
    const { run, queue, thinking } = conversation;
    const { kind, words } = standing(project);
    const text = [thinking && kind === 'working' ? 'Thinking' : words, since(run), queue.length ? `${queue.length} queued` : '', project.cost_usd ? money(project.cost_usd) : ''].filter(Boolean).join(' · ');
    const shown = `${kind} ${Boolean(run)} ${Boolean(project.continues_at)} ${text}`;
    if (this._shownStatus === shown) return;
    this._shownStatus = shown;
    this._words.className = `state ${kind}`;
    fill(this._words, h('i', { class: 'dot' }), h('span', { text }));
    const may = this._may('agent_interrupt');
    if (run && may) this._status.append(this._stop);
    else this._stop.remove();
    if (!run && project.continues_at && may) this._status.append(this._stay);
    else this._stay.remove();
  }

  async _send(/** @type {string} */ text, /** @type {import('./pictures.js').Picture[]} */ pictures) {
    this.list.toEnd();
    const sent = wellFormed(text);
    if (sent !== text) this.world.said('Your message contained incomplete characters, which can’t be sent. Each was replaced by �.');
    try {
      await this.client.execute(sent, pictures);
    } catch (error) {
      // A picture did not arrive: all is as it was before.
      if (!this.composer.area.value) this.composer.put(text);
      this.composer.pictures.put(pictures);
      this.world.failed(error);
    }
  }

  stop() {
    this.client.command('agent_interrupt').catch(this.world.failed);
  }

  _moved() {
    const conversation = this.client.conversation;
    // Never over the buttons of an approval.
    this._jump.hidden = !conversation || (this.list.follows && conversation.atEnd) || this.current.isOnScreen;
    const words = this.current.card ? 'Show approval' : 'Latest';
    const label = /** @type {HTMLElement} */ (this._jump.querySelector('span'));
    if (label.textContent !== words) label.textContent = words;
  }

  _drawHead() {
    const project = this._project;
    if (!project) return;
    this.drawn = this._look;
    const may = (/** @type {string} */ type) => this._may(type);
    const back = h('a', { href: '#/', class: 'back', 'aria-label': 'All projects' }, icon('back'));
    this._mode = h('select', { 'aria-label': 'What it asks about', onchange: () => this._setMode() }, ...modesOf(project, this.client.hello?.modes).map((value) => h('option', { value, text: modeWords(project, value) })));
    if (project.asks === false) /** @type {Node} */ (this._empty.lastChild).textContent = 'Write what the agent should do. It changes files without asking.';
    fill(this._head, back,
      h('div', { class: 'names' }, h('h2', { line: baseName(project.path) }), h('p', { class: 'path', line: `${project.agent}${project.desk ? ' in a terminal' : ''} · ${project.path}` })),
      h('div', { class: 'tools' }, project.desk ? this._deskMode : may('set_mode') && this._mode,
        may('session_list') && button({ label: 'Sessions', icon: 'sessions', bare: true, class: 'quiet', onclick: this.world.sessions }),
        may('project_delete') && button({ label: project.desk ? 'Take this session off the list' : 'Remove this project', icon: 'trash', bare: true, class: 'quiet', onclick: this.world.remove })));
    this._drawMode();
  }

  /** @param {boolean} [answered] the server has said what became of a choice: even under the person's hand */
  _drawMode(answered = false) {
    const { desk, permission_mode: mode } = this._project ?? {};
    if (desk) {
      const words = desk.asks === false ? 'Asks rarely' : (MODES[desk.permission_mode] ?? desk.permission_mode ?? '');
      if (this._deskMode.textContent !== words) fill(this._deskMode, words);
      this._deskMode.hidden = !words;
      this._deskMode.classList.toggle('careless', desk.asks === false);
      return;
    }
    if (!this._mode || (document.activeElement === this._mode && !answered)) return;
    const value = mode || 'default';
    if (![...this._mode.options].some((option) => option.value === value)) this._mode.append(h('option', { value, text: modeWords(this._project, value) }));
    this._mode.value = value;
    this._mode.classList.toggle('careless', value === 'bypassPermissions' || this._project?.asks === false);
  }

  _setMode() {
    const { value } = this._mode;
    this.client.command('set_mode', { mode: value })
      .then(() => this.world.said(`From now on: ${modeWords(this._project, value)}.`), (error) => this.world.failed(error))
      .finally(() => this._drawMode(true));
  }

  _drawLive(/** @type {any} */ { live, run, open }) {
    if (!live && !(run && !open.size)) this._live.hidden = true;
    else if (live !== this._liveText || this._live.hidden) {
      this._live.hidden = false;
      fill(this._live, live ? liveText(live) : h('p', { class: 'hint' }, h('span', { class: 'pulse' })));
    }
    this._liveText = live;
  }

  _drawCards(/** @type {import('./conversation.js').Conversation} */ conversation) {
    const before = [...this._cards.values()];
    const wasInSight = this.current.isInSight;
    let isMine = false;
    for (const [id, card] of this._cards) {
      if (conversation.open.has(id)) continue;
      if (!card.element.isConnected) this._cards.delete(id);
      else if (!card.answered) {
        const answer = conversation.answerTo(id);
        const mine = this.client.isMine(answer);
        isMine ||= mine;
        if (!mine && answer?.by) this.world.said(`${this.client.called(answer)} ${answer.decision === 'allow' ? 'accepted' : 'rejected'} this.`);
        if (card.isDirty && !mine) card.settle(answer ? { ...answer, by: answer.by && this.client.called(answer) } : { reason: 'the server restarted' });
        else {
          card.element.remove();
          this._cards.delete(id);
        }
      }
    }
    for (const [id, request] of conversation.open) {
      if (this._cards.has(id)) continue;
      const world = {
        root: this._project?.path ?? '',
        agent: agentName(this._project?.agent ?? ''),
        may: (/** @type {string} */ type) => this.client.may(type),
        answer: (/** @type {any} */ asked, /** @type {any} */ answer) => this._answer(asked, answer),
        whole: (/** @type {string} */ blob) => this._whole(blob),
      };
      const card = new ApprovalCard(request, world);
      this._cards.set(id, card);
      this._open.append(card.element);
      this.current.watch(card.element);
    }
    const isOther = this.current.refresh(before);
    this._count();
    // The next one comes into view only if the one before was read or answered: a reader who is elsewhere stays there.
    if (!isOther || !this.current.card) return;
    if (isMine || wasInSight || this.list.follows) this.list.reveal(this.current.card.element);
    if (isMine && document.activeElement === document.body) this.current.card.element.focus({ preventScroll: true });
  }

  /** "2 of 4", on each card that waits. */
  _count() {
    const open = [...this._cards.values()].filter((card) => !card.answered);
    open.forEach((card, index) => card.count(index + 1, open.length));
  }

  async _answer(/** @type {any} */ request, /** @type {any} */ answer) {
    try {
      await this.client.answer(request, answer);
    } catch (error) {
      this.world.failed(error);
      throw error;
    }
  }

  _drawPending(/** @type {import('./conversation.js').Conversation} */ conversation) {
    const waiting = this.client.unsent.filter((one) => one.project === this.id);
    fill(this._pending,
      ...conversation.queue.filter((one) => one.position > 0).map((one) => h('p', { class: 'queued' }, h('span', { class: 'tag', text: 'Queued' }), one.prompt.slice(0, 2000))),
      ...waiting.map((one) => h('p', { class: 'queued' }, h('span', { class: 'tag', text: this.client.connection.state === 'open' ? 'Sending' : 'Waits for the server' }), one.prompt.slice(0, 2000))));
  }

  async _whole(/** @type {string} */ blob) {
    try {
      return await this.client.whole(blob);
    } catch (error) {
      this.world.failed(error);
      throw error;
    }
  }
}
