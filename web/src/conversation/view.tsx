// The view of one session: its history, the streaming answer, open approval requests, and the message box.

import { signal } from '@preact/signals';
import { createRef, render } from 'preact';

import { ApprovalCard } from '../approvals/card.tsx';
import { Current } from '../approvals/current.ts';
import { agentName, asksFirst, EXAMPLES, modeWords } from '../projects/words.ts';
import type { Client } from '../protocol/client.ts';
import { RequestError } from '../protocol/connection.ts';
import { Foot } from '../run/foot.tsx';
import type { Conversation } from '../state/conversation.ts';
import * as kept from '../state/kept.ts';
import type { Reviews } from '../state/reviews.ts';
import * as markdown from '../text/blocks.ts';
import { Button, Text } from '../ui/elements.tsx';
import { WindowList } from '../ui/window-list.ts';
import { rowView } from './items.tsx';
import { Live } from './live.tsx';
import { Outline, type Prompts } from './outline.tsx';
import { promptsOf, type Row, rowAt, rowsOf, withDays } from './rows.ts';
import { verbOf } from './settled.ts';
import type { World } from './world.ts';
import { counted } from '../ui/dom.ts';

export { listenForStop } from '../run/foot.tsx';

// Loads the Markdown parser while the first connection is being opened, not afterwards.
void markdown.load();

/** Milliseconds for which the target of a jump is highlighted. */
const FOUND = 2_000;

/** The answer to a request that is no longer open, while its actual answer is unknown. Its record may still arrive. */
const UNKNOWN = { reason: 'answered elsewhere or withdrawn' };

type PageWorld = {
  said: (text: string, kind?: string) => void;
  failed: (error: any) => void;
  fork: (project: any) => void;
  openFile?: (path: string, line?: number) => void;
  openReview: () => void;
  reviews: Reviews;
  resume: (session: string) => void;
  /** Called when other content may be in view. */
  moved: () => void;
};

/** The elements around the list of messages and the approval requests. */
type Look = {
  isEmpty: boolean;
  isInTerminal: boolean;
  /** Whether this device can send messages here. */
  maySend: boolean;
  /** Whether the agent changes files without asking. */
  isCareless: boolean;
  /** Whether the loaded records begin where earlier ones have been deleted. */
  isCut: boolean;
  /**
   * Whether an answer is being streamed, or a run is active and does not wait for a person. `isSilent`: whether no
   * answer is being streamed at the moment.
   */
  isLive: boolean;
  isSilent: boolean;
  /**
   * The label of the button that leads to the current approval request, otherwise to the end. '' if it is not needed.
   */
  jump: string;
  /** The permission mode of a terminal session. */
  mode: string;
  modeIsCareless: boolean;
  outline?: Prompts;
};

const LOOK: Look = {
  isEmpty: true,
  isInTerminal: false,
  maySend: true,
  isCareless: false,
  isCut: false,
  isLive: false,
  isSilent: true,
  jump: '',
  mode: '',
  modeIsCareless: false,
};

export class ConversationView {
  client: Client;
  id: string;
  /** An earlier session of the project, which can only be read or resumed. */
  session: string | undefined;
  world: PageWorld;
  element = document.createElement('section');
  /** Controls of this view in the header of the web UI. */
  tools = document.createElement('div');
  scroller: HTMLElement;
  list: WindowList;
  current: Current<ApprovalCard>;
  foot: Foot;
  /** The answer that is streaming. */
  live: Live;
  _resized: ResizeObserver;
  _cards: Map<string, ApprovalCard> = new Map();
  _unfolded: Set<string> = new Set();
  /** The id of the last loaded run that has ended. */
  _lastRun = signal('');
  _look = LOOK;
  /** The `_kind` for which the cards and the foot were drawn, or undefined while the project is not known. */
  _drawn: string | undefined;
  _rowsLook: string | undefined;
  _rowsOf: Conversation | undefined;
  /** The `_rowsLook` for which kept drafts were last read. */
  _keptLook: string | undefined;
  /** Whether messages can be drawn. Until then, only the message box is shown. */
  _canDraw = markdown.isLoaded();
  _isDisposed = false;
  /** The number of a record to go to once the conversation is loaded. */
  _wanted: number | undefined;
  /** The number of the record that the view is about to go to. */
  _goal: number | undefined;
  _places = {
    scroller: createRef<HTMLDivElement>(),
    items: createRef<HTMLDivElement>(),
    spoken: createRef<HTMLDivElement>(),
    open: createRef<HTMLElement>(),
    foot: createRef<HTMLDivElement>(),
  };

  constructor(client: Client, id: string, world: PageWorld, session?: string) {
    this.client = client;
    this.id = id;
    this.session = session;
    this.world = world;
    this.element.className = 'conversation';
    this.element.setAttribute('aria-label', 'Session');
    this.tools.className = 'tools';
    this._draw();
    const { scroller, items, spoken, open, foot } = this._places;
    this.scroller = scroller.current as HTMLElement;
    this.live = new Live(spoken.current as HTMLElement, world.openFile);
    this.current = new Current(this.scroller, () =>
      [...this._cards.values()].filter((card) => card.element.isConnected),
    );
    this.foot = new Foot(client, id, { ...world, session, toEnd: () => this.list.toEnd() });
    foot.current?.append(this.foot.element);
    this.list = new WindowList(this.scroller, items.current as HTMLElement, {
      render: (row, node) => rowView(row, this._itemWorld(), node),
      gone: (node) => render(null, node),
      older: () => client.older(),
      newer: () => client.newer(),
      moved: () => this._moved(),
      keep: () => this.current.card?.element,
    });
    this._resized = new ResizeObserver(() => {
      const { scrollTop } = this.scroller;
      this.list.settle();
      this.current.look(this.scroller.scrollTop !== scrollTop);
    });
    this._resized.observe(open.current as HTMLElement);
    // Content that grows above an approval request moves its buttons.
    this._resized.observe(items.current as HTMLElement);
    this.redraw();
    this.update();
    if (!this._canDraw)
      void markdown.load().then(() => {
        this._canDraw = true;
        if (!this._isDisposed) this.update();
      });
  }

  /** Renders synchronously, because the layout is measured right afterwards. */
  _draw() {
    render(<Frame view={this} look={this._look} />, this.element);
    render(<HeadTools view={this} look={this._look} />, this.tools);
  }

  _show(more: Partial<Look>) {
    const look = { ...this._look, ...more };
    if ((Object.keys(more) as (keyof Look)[]).every((name) => this._look[name] === look[name])) return;
    this._look = look;
    this._draw();
  }

  /** Shows and hides controls. Called when the project or this device's permissions are known or have changed. */
  redraw() {
    if (this._project) this._drawn = this._kind;
    this._show({ isInTerminal: Boolean(this._project?.desk) });
    this._drawMode();
    for (const card of this._cards.values()) card.redraw();
    this.tick();
  }

  /** The message box. */
  get composer() {
    return this.foot.composer;
  }

  /** A key that changes whenever the available controls change. */
  get _kind() {
    const { desk, modes } = this._project ?? {};
    return `${desk?.state} ${desk?.prompts} ${modes}`;
  }

  _itemWorld(): World {
    const { client } = this;
    const ask = (type: string) =>
      this.foot.may(type) ? (run_id: string) => client.command(type, { run_id }).then(({ data }) => data) : undefined;
    return {
      root: this._project?.path ?? '',
      other: (act: any) => client.other(act),
      isOwn: (answer: any) => client.isOwn(answer),
      called: (answer: any) => client.called(answer).replace(/^Another/, 'another'),
      unfolded: this._unfolded,
      openFile: client.may('file_read') ? this.world.openFile : undefined,
      adopt: (text: string) => this.live.take(text),
      whole: (blob: string) => this._whole(blob),
      image: (id: string) => client.bytes(`${this.id}:${id}`).catch(() => undefined),
      changes: ask('run_changes'),
      revert: ask('run_revert'),
      review: this.session === undefined && client.may('review_get') ? (run) => this._mayReview(run) : undefined,
      openReview: this.world.openReview,
    };
  }

  /** Whether a review is open and this is the latest run. A row that reads this is drawn again when it changes. */
  _mayReview(run: string) {
    return this._lastRun.value === run && this.world.reviews.open(this.id) !== undefined;
  }

  /** Whether the conversation is known, and can be drawn. */
  get _hasJoined() {
    return this._canDraw && this.client.conversation?.joined === true;
  }

  get _project() {
    return this.client.projects.all.get(this.id);
  }

  /** Called when a key has moved the focus to an element of the conversation. */
  choose(element: HTMLElement) {
    const card = [...this._cards.values()].find((one) => one.element === element);
    if (card && !card.answered) this.current.choose(card);
    this.current.arm();
    this._count();
  }

  /** Gives the focus to the message box, unless it is hidden, so that it receives what is typed. */
  type() {
    if (!this.composer.element.hidden) this.composer.area.focus();
  }

  update() {
    const conversation = this.client.conversation;
    if (!conversation || conversation.id !== this.id || conversation.session !== this.session) return;
    // Until the conversation is joined, the previous content stays, because missing records may just not have arrived
    // yet.
    const joined = this._hasJoined;
    const { scrollTop } = this.scroller;
    // An item that can't be drawn must not stop the others, least of all an approval request.
    const parts = [
      () => joined && this._drawRows(conversation),
      () => joined && this._drawLive(conversation),
      () => joined && this._drawCards(conversation),
      () => joined && this._drawKept(conversation),
      () => void (this._project && this._drawn !== this._kind && this.redraw()),
      () => this.tick(),
      () => this._drawMode(),
      () =>
        this._show({
          maySend: this.foot.may('execute'),
          isCareless: !asksFirst(this._project, this.client.hello?.mode_offers),
          isCut: conversation.beginsLate(this._project),
          isEmpty:
            joined &&
            conversation.items.length === 0 &&
            !(conversation.cursor > 0 && conversation.before !== null) &&
            this.client.unsent.length === 0,
        }),
      () => this.list.settle(),
      () => this._moved(),
      () => void this.current.look(this.scroller.scrollTop !== scrollTop),
      () => void (this._look.outline && this.showOutline()),
      () => {
        if (this._wanted !== undefined && joined) void this.goTo(this._wanted);
      },
    ];
    for (const part of parts) {
      try {
        part();
      } catch (error) {
        console.error(error);
      }
    }
  }

  toLatest() {
    this._wanted = this._goal = undefined;
    void this.client.latest().then(() => {
      this.update();
      const { card } = this.current;
      if (card) this.list.reveal(card.element);
      else this.list.toEnd();
    }, this.world.failed);
  }

  /** Updates what depends on the time. */
  tick() {
    this.foot.draw();
  }

  stop() {
    this.foot.stop();
  }

  /** Whether the latest records of the project are in view, or an approval request is. */
  get isLatestInView() {
    const { conversation } = this.client;
    const isShown = conversation?.id === this.id && this.session === undefined && this._hasJoined;
    return isShown && this._isThere;
  }

  get _isThere() {
    const { conversation } = this.client;
    return !conversation || (this.list.follows && conversation.atEnd) || this.current.isOnScreen;
  }

  _moved() {
    const waiting = [...this._cards.values()].filter((card) => !card.answered).length;
    const words = waiting ? counted(waiting, 'request') : 'Jump to latest';
    // The button must never cover an approval request's buttons.
    this._show({ jump: this._isThere ? '' : words });
    this.world.moved();
  }

  /** Shows the mode of a terminal session. The mode of any other session is shown below its conversation. */
  _drawMode() {
    const { desk } = this._project ?? {};
    if (!desk) return;
    const isCareless = desk.asks === false;
    const mode = isCareless ? 'Asks rarely' : modeWords({}, desk.permission_mode ?? '', this.client.hello?.mode_offers);
    this._show({ mode, modeIsCareless: isCareless });
  }

  _rows({ items, run }: Conversation): Row[] {
    const desk = this._project?.desk;
    return withDays(rowsOf(items, Boolean(run) || desk?.state === 'working' || desk?.state === 'waiting'));
  }

  /** Updates the rows. Does nothing if none has changed, which is usual while an answer streams. */
  _drawRows(conversation: Conversation) {
    const { items, run } = conversation;
    const versions = items.reduce((sum, item) => sum + item.version, 0);
    const look = [items.length, items[0]?.key, items[items.length - 1]?.key, versions, Boolean(run), this._kind].join();
    if (this._rowsLook === look && this._rowsOf === conversation) return;
    this._rowsLook = look;
    this._rowsOf = conversation;
    this._lastRun.value = items.findLast((item) => item.kind === 'finished')?.run_id ?? '';
    this.list.update(this._rows(conversation));
  }

  _drawLive({ live, run, open }: Conversation) {
    this._show({ isLive: Boolean(live) || (Boolean(run) && !open.size), isSilent: !live });
    if (live) this.live.update(live);
    else if (this.live.text) this.live.clear();
  }

  /** Goes to the record with this number, or to the last one before it that is shown. */
  async goTo(seq: number) {
    this._wanted = undefined;
    this._goal = seq;
    if (!this._hasJoined) {
      this._wanted = seq;
      return;
    }
    const before = this.client.conversation;
    let isOffline = false;
    try {
      if (!(await this.client.around(seq)) && before === this.client.conversation) return;
    } catch (error) {
      if (!(error instanceof RequestError) || error.code !== 'OFFLINE') {
        this.world.failed(error);
        return;
      }
      isOffline = true;
    }
    if (this._goal !== seq) return;
    const { conversation } = this.client;
    if (!conversation || conversation.id !== this.id) return;
    if (isOffline || conversation !== before) {
      this._wanted = seq; // once the connection is back, or the conversation has been loaded again
      return;
    }
    this._goal = undefined;
    const rows = this._rows(conversation);
    const place = conversation.placeOf(seq);
    const row = rowAt(rows, place);
    this.list.follows = false;
    this.list.update(rows);
    const node = row && this.list.goTo(row.key);
    if (!node || row.seq > place) return; // neither the record nor an earlier one is shown
    node.tabIndex = -1;
    // A jump may have waited for the connection, and the user may be writing by now.
    const { activeElement: active } = document;
    if (!(active instanceof HTMLTextAreaElement && active.value)) node.focus({ preventScroll: true });
    node.classList.add('found');
    setTimeout(() => node.classList.remove('found'), FOUND);
  }

  /** Shows the list of prompts, from which the user can jump to one. */
  showOutline() {
    const { client, id: project } = this;
    const { conversation } = client;
    if (!conversation) return;
    const { first, last } = conversation;
    const loaded = promptsOf(conversation.items).map(({ seq, record, text, timestamp }) => ({
      seq,
      record,
      text: String(text),
      time: timestamp,
    }));
    const isWholeHistory = conversation.before === undefined;
    const session = isWholeHistory ? undefined : (conversation.session ?? conversation.reads);
    const find = (before?: string) => {
      const data = { query: '', kinds: ['prompt'], session_id: session, before, limit: 200 };
      return client.connection.ask('search', data, { project, lasting: true }).then(({ data }) => data);
    };
    // A session that has not begun has no id, and no prompts.
    const canFind = client.may('search') && (isWholeHistory || session !== undefined);
    const hasOlder = isWholeHistory
      ? !canFind && first > (this._project?.first_seq ?? 1)
      : conversation.before !== null;
    this._show({
      outline: {
        loaded,
        first,
        last,
        session,
        find: canFind ? find : undefined,
        older: hasOlder ? () => client.older() : undefined,
      },
    });
  }

  closeOutline() {
    this._show({ outline: undefined });
  }

  _drawCards(conversation: Conversation) {
    const before = [...this._cards.values()];
    const wasInView = this.current.isInView;
    let isMine = false;
    for (const [id, card] of this._cards) {
      const request = conversation.open.get(id);
      if (request && card.answered) card.revive(request);
      if (request) continue;
      const answer = conversation.answerTo(id);
      const settled = answer ? { ...answer, by: answer.by && this.client.called(answer) } : UNKNOWN;
      if (!card.element.parentNode) this._cards.delete(id);
      else if (card.answered === UNKNOWN) {
        if (answer) card.settle(settled);
      } else if (!card.answered) {
        const mine = this._wasSentHere(id, answer);
        isMine ||= mine;
        if (!mine && answer?.by)
          this.world.said(`${this.client.called(answer)} ${verbOf(answer, card.request)} the request.`);
        if (card.isDirty && !mine) card.settle(settled);
        else {
          card.remove();
          this._cards.delete(id);
        }
      }
    }
    for (const [id, request] of conversation.open) if (!this._cards.has(id)) this._addCard(request);
    const isOther = this.current.refresh(before);
    this._count();
    // After the last answer, the focus moves to the message box, but not on a touch screen, where its keyboard would
    // open.
    if (
      isMine &&
      !this.current.card &&
      document.activeElement === document.body &&
      matchMedia('(hover: hover)').matches
    )
      this.type();
    // Scrolls to the next card only if the user has answered or seen the previous one, or is at the end of the list.
    if (!isOther || !this.current.card) return;
    if (isMine || wasInView || this.list.follows) this.list.reveal(this.current.card.element);
    if (isMine && document.activeElement === document.body) this.current.card.element.focus({ preventScroll: true });
  }

  /** Shows kept drafts for requests that were answered elsewhere, possibly while another session was shown here. */
  _drawKept(conversation: Conversation) {
    // Answers arrive as records, so the stored drafts are read again only after the rows have changed.
    if (this._keptLook === this._rowsLook) return;
    this._keptLook = this._rowsLook;
    for (const id of kept.answers()) {
      const question = conversation.questionOf(id);
      const answer = question?.answer;
      if (!answer || this._cards.has(id)) continue;
      if (this._wasSentHere(id, answer)) kept.keepAnswer(id, null);
      else {
        // In the history, the time is in the record.
        const card = this._addCard({ created_at: question.timestamp, ...question.request });
        card.settle({ ...answer, by: answer.by && this.client.called(answer) });
      }
    }
  }

  /** Whether the answer came from this window, or from the connection that sent the kept draft before a reload. */
  _wasSentHere(id: string, answer: any) {
    const { sent } = kept.answer(id);
    return this.client.isMine(answer) || (sent !== undefined && sent === answer?.client_id);
  }

  /** Puts an example into the message box. The user may change the text before sending it. */
  propose(text: string) {
    this.foot.composer.put(text);
    this.foot.composer.area.focus();
  }

  _addCard(request: any) {
    const card = new ApprovalCard(request, {
      root: this._project?.path ?? '',
      agent: agentName(this._project?.agent ?? '', this.client.hello),
      may: (type: string) => this.client.may(type),
      answer: (asked: any, answer: any) => this._answer(asked, answer),
      whole: (blob: string) => this._whole(blob),
      connection: () => this.client.hello?.client_id,
      look: () => void (this._isDisposed || this.current.look()),
      readOn: (one, from) => this.list.scrolls(() => this.current.readOn(one, from)),
    });
    this._cards.set(request.approval_id, card);
    this._places.open.current?.append(card.element);
    this.current.watch(card.element);
    return card;
  }

  /** Releases everything that was rendered. Drafts are kept. */
  dispose() {
    this._isDisposed = true;
    this._resized.disconnect();
    this.current.dispose();
    this.list.dispose();
    for (const card of this._cards.values()) card.remove();
    this._cards.clear();
    this.live.clear();
    this.foot.dispose();
    render(null, this.element);
    render(null, this.tools);
  }

  /** Shows "2 of 4" on each card that waits. */
  _count() {
    const open = [...this._cards.values()].filter((card) => !card.answered);
    open.forEach((card, index) => card.count(index + 1, open.length));
  }

  async _answer(request: any, answer: any) {
    try {
      await this.client.answer(request, answer);
    } catch (error) {
      this.world.failed(error);
      throw error;
    }
  }

  async _whole(blob: string) {
    try {
      return await this.client.whole(blob);
    } catch (error) {
      this.world.failed(error);
      throw error;
    }
  }
}

/** Enter unfolds or folds the focused item. */
function unfold(event: KeyboardEvent) {
  const target = event.target as HTMLElement;
  if (event.key !== 'Enter' || event.ctrlKey || event.metaKey || !target.classList.contains('item')) return;
  event.preventDefault();
  target.querySelector('summary')?.click();
}

/** The static frame. The view fills the list, the streaming answer, the approval requests and the foot itself. */
function Frame({ view, look }: { view: ConversationView; look: Look }) {
  const { scroller, items, spoken, open, foot } = view._places;
  const { outline } = look;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll only what has the focus */}
      <div ref={scroller} class="scroller" tabIndex={0} role="log" aria-label="Conversation" onKeyDown={unfold}>
        <div class="column">
          <div class="empty" hidden={!look.isEmpty}>
            <p>No messages yet</p>
            <p class="hint">
              {look.isInTerminal
                ? 'What happens in the terminal is shown here.'
                : !look.maySend
                  ? 'Messages to the agent, and what it does, are shown here.'
                  : look.isCareless
                    ? 'Tell the agent what to do. It changes files without asking.'
                    : 'Tell the agent what to do. It asks before changing files.'}
            </p>
            {look.maySend && !look.isInTerminal && (
              <p class="examples">
                {EXAMPLES.map((text) => (
                  <button key={text} type="button" class="quiet" onClick={() => view.propose(text)}>
                    {text}
                  </button>
                ))}
              </p>
            )}
          </div>
          <p class="divider" hidden={!look.isCut}>
            Earlier history has been deleted
          </p>
          <div ref={items} class="items" />
          <article class="item said live" aria-hidden="true" hidden={!look.isLive}>
            <div ref={spoken} />
            <p class="hint" hidden={!look.isSilent}>
              <span class="pulse" />
            </p>
          </article>
          <section ref={open} class="open" aria-label="Waiting for you" />
        </div>
      </div>
      {outline && (
        <Outline
          prompts={outline}
          close={() => view.closeOutline()}
          goTo={(seq) => {
            view.closeOutline();
            void view.goTo(seq);
          }}
        />
      )}
      <div ref={foot} class="foot">
        <Button
          label={look.jump || 'Jump to latest'}
          icon="down"
          class="jump"
          hidden={!look.jump}
          onClick={() => view.toLatest()}
        />
      </div>
    </>
  );
}

function HeadTools({ view, look }: { view: ConversationView; look: Look }) {
  return (
    <>
      <Button label="Messages" icon="list" bare class="quiet outline-button" onClick={() => view.showOutline()} />
      {look.mode && (
        <span
          class={`tag ${look.modeIsCareless ? 'careless' : ''}`}
          title="Permission mode (change it in the terminal)"
        >
          <Text line>{look.mode}</Text>
        </span>
      )}
    </>
  );
}
