// An open approval request: what the user wrote for it, what has to happen before it can be accepted, and its
// answer. It draws itself as a card.

import { type Signal, signal } from '@preact/signals';
import { render } from 'preact';

import { compare } from '../diff/lines.ts';
import { readSettings } from '../diff/style.ts';
import type { PermissionRequest } from '../protocol/messages.ts';
import * as kept from '../state/kept.ts';
import { isHarmless } from '../text/harmless.ts';
import { canBeEdited, editedInput, endsLike } from '../state/projects.ts';
import { shownPath } from '../ui/dom.ts';
import { CardView } from './card-view.tsx';
import { type Cut, LOOK_AGAIN, Sight } from './current.ts';
import { asksQuestions, changesOneFile, editableFields, planIn } from './input.ts';
import { type EditedCell, editedCell } from './notebook.ts';
import type { Forms } from './plan.tsx';
import { isChoiceCut } from './question.tsx';
import { MORE, partOf, Questions } from './questions.ts';
import { type Reason, toggled } from './reasons.ts';
import { Collected } from './comments.ts';
import { inserted, isLong } from './inserted.ts';

/** Milliseconds from the last change to an edit until its changed lines are counted. */
const COUNTED = 200;

/** The height of a line in pixels, if the style does not state it. */
const LINE = 20;

/** A person's answer to a request. `input`: the changed input. */
export type Given = { allow: boolean; message?: string; input?: object; remember?: boolean };

export type World = {
  root: string;
  agent: string;
  may: (type: string) => boolean;
  answer: (request: PermissionRequest, answer: Given) => Promise<void>;
  whole: (blob: string) => Promise<any>;
  /** The server's id for this connection, or undefined if it is not known yet. */
  connection: () => string | undefined;
  /** Measures again what is in view. */
  look: () => void;
  /** Scrolls to what has not been in view yet. */
  readOn: (card: ApprovalCard, from?: number) => void;
};

export class ApprovalCard {
  request: PermissionRequest;
  world: World;
  busy = false;
  /** The request's answer, as the server reports it, or undefined while the request is open. */
  answered: any;
  mode: 'read' | 'edit' | 'reject' = 'read';
  /** Which parts of the card have been in view. */
  sight = new Sight();
  element: HTMLElement;
  /** The notebook cell that can be edited instead of the file, or undefined if the request has no such cell. */
  cell: EditedCell | undefined;
  /** The user's version of the file or the cell. `fields`: the user's versions of input fields. */
  text: string | undefined;
  fields: Record<string, string> | undefined;
  message: string;
  questions: Questions | undefined;
  comments: Collected;
  /** The request's position among the open ones, in words: "2 of 4", or '' if it is the only one. */
  place: Signal<string> = signal('');
  /** How many buttons in the card have to be pressed before the request can be accepted. */
  unopened: Signal<number> = signal(0);
  /** Whether the request can't be drawn, so that it can't be accepted here. */
  isUndrawable: Signal<boolean> = signal(false);
  /** Whether the whole request has been in view. */
  isSeen: Signal<boolean> = signal(false);
  /** The form in which each block of a plan is drawn. */
  readonly forms: Forms = new Map();
  /** Whether the file editor, or the plain field instead of it, has loaded. Always true if only fields are edited. */
  isEditorOpen: Signal<boolean> = signal(true);
  /** Whether the user's version differs from the agent's. */
  isChanged: Signal<boolean> = signal(false);
  /** Whether everything that differs in the user's version has been in view. */
  isEditSeen: Signal<boolean> = signal(false);
  /** Whether the editor may hide text that the proposal removes, which then has to be read in the proposal. */
  hidesRemoved: Signal<boolean> = signal(false);
  /** Why nothing in view counts as seen now, or undefined if what is in view counts. */
  cut: Signal<Cut> = signal(undefined);
  /** The number of lines of the proposal not seen yet, or undefined if 0, or while something above it is not seen. */
  unread: Signal<number | undefined> = signal(undefined);
  /** An estimate of how many lines of the card have not been in view, or undefined if the card shows a proposal. */
  rest: Signal<number | undefined> = signal(undefined);
  /** Whether files are shown whole. `showsTools`: whether the buttons for that are shown. */
  isFileWhole: Signal<boolean> = signal(false);
  showsTools: Signal<boolean> = signal(false);
  /** The numbers of added and removed lines in the user's version. */
  counts: Signal<{ added: number; removed: number } | undefined> = signal(undefined);
  musts: { add: (one: object) => void; delete: (one: object) => void };
  /** Increases with each render, because Preact would skip a component whose properties are the same. */
  _version = 0;
  /** Whether a kept draft is being restored, which must not take the focus. */
  isRestored = true;
  _isEditorSeen = false;
  /** Whether the server has received the answer. */
  _isSent = false;
  _counting: ReturnType<typeof setTimeout> | undefined;
  /** Whether the card was removed from the page. */
  _isGone = false;

  /** @param request the `permission_request` */
  constructor(request: PermissionRequest, world: World) {
    readSettings();
    this.request = request;
    this.cell = editedCell(request);
    this.world = world;
    this.element = document.createElement('article');
    this.element.className = 'card approval';
    this.element.tabIndex = -1;
    this.element.dataset.approval = request.approval_id;
    this.element.setAttribute('aria-labelledby', `title-${request.approval_id}`);
    const before = kept.answer(request.approval_id);
    this.text = before.text;
    this.fields = before.fields;
    this.message = before.message ?? '';
    this.comments = new Collected(
      before.comments ?? [],
      (path) => shownPath(path, world.root),
      () => this._keep(),
    );
    if (asksQuestions(request)) this.questions = new Questions(request.input, before.begun, () => this._keep());
    const musts = new Set<object>();
    const change = (act: (one: object) => void) => (one: object) => {
      act(one);
      this.unopened.value = musts.size;
      this.sight = new Sight(); // the opened part has not been in view, even if the card is as tall as before
    };
    this.musts = { add: change((one) => musts.add(one)), delete: change((one) => musts.delete(one)) };
    if (this.text !== undefined || this.fields) this.edit();
    else if (this.message) this.reject();
    else this._draw();
    this.isRestored = false;
  }

  /** Whether the user has put work into an answer. */
  get isDirty() {
    const { text, fields, message, questions, comments } = this;
    if (this._isSent) return false;
    return (
      text !== undefined || Boolean(fields) || Boolean(message) || Boolean(questions?.begun) || comments.count.value > 0
    );
  }

  /** Whether the request is open and this device may decide on it. */
  get canAnswer() {
    return !this.answered && this.world.may('permission_response');
  }

  get canEdit() {
    return this.canAnswer && (this._hasEditor || this.editable.length > 0);
  }

  /** Whether the file or a cell of it is edited in the editor, and not the fields of the input. */
  get _hasEditor() {
    return this.cell !== undefined || canBeEdited(this.request);
  }

  /** The fields of the input that can be edited here. */
  get editable() {
    return this.world.may('execute') && !this._hasEditor ? editableFields(this.request) : [];
  }

  /** The names of the fields that are being edited, or none if the file is edited instead. */
  get edits(): string[] {
    if (this.text === undefined) return Object.keys(this.fields ?? {});
    return this.cell ? ['new_source'] : [];
  }

  /**
   * Whether a single letter can accept the request. A change to one file can be undone, but a command can't.
   */
  get takesLetter() {
    return this.mode === 'read' && changesOneFile(this.request);
  }

  /** Whether the whole request is drawn, with nothing hidden behind a button. */
  get isWhole() {
    return this.unopened.value === 0 && !this.element.querySelector('button.must');
  }

  /**
   * The step that has to precede a key, click or tap that accepts the request, or undefined if nothing has to. The user
   * can skip reading the rest of a proposal, but only with the button for that.
   */
  get lack(): 'to open' | 'to load' | 'to read' | undefined {
    if (!this.isWhole) return 'to open';
    if (this.mode === 'edit' && !this.isEditorOpen.value) return 'to load';
    return this.isSeen.value || (this.mode === 'edit' && this.isEditSeen.value) ? undefined : 'to read';
  }

  /**
   * Called after measuring what is in view.
   * @param isInView whether everything drawn in the card is in view, or was, one part after the other
   * @param cut why nothing in view counts as seen, or undefined if what is in view counts
   */
  looked(isInView: boolean, cut: Cut) {
    this.cut.value = cut;
    if (this.questions) return this._lookedAtQuestions(this.questions);
    if (this.isSeen.peek() || this.answered || !this.isWhole) return;
    if (this.mode === 'edit') this._lookedAtEdit(isInView);
    else {
      const proposed = this.element.querySelector<HTMLElement>('.proposed:not([hidden])');
      const before = this.unread.peek();
      this.unread.value = proposed ? this._unreadIn(proposed) : undefined;
      this.rest.value = proposed ? undefined : this._linesLeft();
      // A button has appeared. Measuring again disables it for a moment.
      if (before === undefined && this.unread.peek() !== undefined) requestAnimationFrame(() => this.world.look());
      if (isInView) this._isRead(this.isSeen);
    }
  }

  /** The parts of the question form that are drawn now, by name. */
  get _parts() {
    const all = this.element.querySelectorAll<HTMLElement>('[data-part]');
    return new Map([...all].map((part) => [part.dataset.part ?? '', part]));
  }

  /** Like `looked`, but for questions, where what has to be read depends on the answers. */
  _lookedAtQuestions(questions: Questions) {
    if (this.answered) return;
    const { top } = this.element.getBoundingClientRect();
    const parts = this._parts;
    for (const [name, part] of parts) {
      const isFolded = part.matches('details:not([open])') || part.querySelector('button.must');
      if (questions.read.has(name) || isFolded || this.cut.peek()) continue;
      const place = part.getBoundingClientRect();
      if (place.height && this.sight.has(place.top - top, place.bottom - top)) questions.read.add(name);
    }
    const shown = questions.all.map((_, index) => index).filter((index) => parts.has(partOf(index, 'text')));
    questions.isUnread.value = questions.unread(shown) !== undefined;
  }

  /**
   * Scrolls to what has to be read before all questions, or those with these indexes, are answered. Returns false if
   * nothing has to be read.
   */
  _leadsOn(questions: Questions, indexes?: number[]) {
    const name = questions.unread(indexes);
    if (name === undefined) return false;
    if (name !== MORE) questions.at.value = Number.parseInt(name, 10);
    const part = this._parts.get(name);
    if (part instanceof HTMLDetailsElement) part.open = true;
    const { top } = this.element.getBoundingClientRect();
    if (part) this.world.readOn(this, part.getBoundingClientRect().top - top);
    return true;
  }

  /** Scrolls to what has to be read before the next question is shown. Returns false if nothing has to be read. */
  leadsOn() {
    const { questions } = this;
    return questions !== undefined && this._leadsOn(questions, [questions.at.value]);
  }

  /** Called when another question has replaced the one that was shown. */
  stepped() {
    this.sight = new Sight();
  }

  /** Like `looked`, but for the user's version. What the agent asked for may still be unread. */
  _lookedAtEdit(isInView: boolean) {
    if (this.isEditSeen.peek() || this.hidesRemoved.peek()) return;
    const host = this.element.querySelector('.editor-host');
    if (!host) {
      if (isInView) this._isRead(this.isEditSeen);
      return;
    }
    host.dispatchEvent(new Event(LOOK_AGAIN));
    // The file editor scrolls its own content and reports when all changes in it have been in view.
    const above = host.getBoundingClientRect().top - this.element.getBoundingClientRect().top;
    if (this._isEditorSeen && this.sight.has(0, above)) this.isEditSeen.value = true;
  }

  /** Called with whether the file editor has shown all lines that differ, when this changes. */
  editorSeen(isSeen: boolean) {
    this._isEditorSeen = isSeen;
    if (isSeen) this.world.look();
    else this._isEditUnseen();
  }

  /**
   * Called before the user's version changes. A long text that is inserted, as by an undo, has to be read, and so has a
   * text that a field writes out because of hidden characters.
   */
  _changes(before = '', now: string) {
    if (!this.isEditSeen.peek()) return;
    const added = inserted(before, now);
    const isHiding = !isHarmless(added) || (isHarmless(before) && !isHarmless(now));
    if (!isLong(added) && !isHiding) return;
    // The file editor reports which of its text has been in view.
    if (!this.element.querySelector('.editor-host')) this.sight = new Sight();
    this._isEditUnseen();
  }

  _isEditUnseen() {
    this.isEditSeen.value = false;
    this._draw();
  }

  /** Sets `what`, because everything has been in view, and draws the card again. */
  _isRead(what: Signal<boolean>) {
    what.value = true;
    const { activeElement } = document;
    const isReading = activeElement?.matches('.reads') && this.element.contains(activeElement);
    this._draw();
    // Without the button, the focus is on the card, because another press of the same key must not answer.
    if (isReading) this.element.focus({ preventScroll: true });
  }

  /**
   * How many lines of the card have not been in view. This is an estimate, because a heading is taller than other
   * lines.
   */
  _linesLeft() {
    const asked = this.element.querySelector('.asked');
    const height = asked ? Number.parseFloat(getComputedStyle(asked).lineHeight) : Number.NaN;
    return Math.ceil(this.sight.unseen / (height || LINE));
  }

  /** The number of lines in `proposed` not seen yet, or undefined if 0, or if something above it is not seen. */
  _unreadIn(proposed: HTMLElement) {
    const { top } = this.element.getBoundingClientRect();
    if (!this.sight.has(0, proposed.getBoundingClientRect().top - top)) return undefined;
    let count = 0;
    for (const table of proposed.querySelectorAll('table')) {
      // Measuring a row that is far out of view would make the browser lay it out. Measuring its block does not.
      const block = (table.closest('.far') ?? table).getBoundingClientRect();
      if (this.sight.has(block.top - top, block.bottom - top)) continue;
      const isUnseen = !this.sight.hasAny(block.top - top, block.bottom - top);
      for (const row of table.rows) {
        if (row.classList.contains('commented')) continue;
        const place = isUnseen ? undefined : row.getBoundingClientRect();
        if (!place || !this.sight.has(place.top - top, place.bottom - top)) count++;
      }
    }
    return count || undefined;
  }

  readOn() {
    this.world.readOn(this);
  }

  get isPlan() {
    return planIn(this.request) !== undefined;
  }

  /** @param unread whether the user has chosen not to read the rest of the proposal */
  accept(remember = false, unread = false) {
    if (!this.canAnswer || this.mode === 'reject') return;
    const isSkipped = unread && this.mode === 'read' && this.lack === 'to read' && this.unread.value !== undefined;
    if (this.questions) this.submit();
    else if (this.lack && !isSkipped) return;
    else if (this.mode === 'edit' && this.isEdited) void this._give({ allow: true, input: this._edited() });
    else void this._give({ allow: true, remember });
  }

  /** Handles the accept key in an editor. Accepts, or scrolls to the buttons if something must be opened or read. */
  acceptByKey() {
    if (!this.lack) this.accept();
    else this.element.querySelector('footer')?.scrollIntoView({ block: 'nearest' });
  }

  /** Sends the answers to the agent's questions. */
  submit() {
    if (!this.questions || isChoiceCut(this.element, this.questions)) return;
    // Folded parts in the previews of options that are not chosen need not be opened.
    if ([...this.element.querySelectorAll('button.must')].some((one) => !one.closest('.preview'))) {
      this.questions.problem.value = 'Show the whole request before you answer.';
      return;
    }
    if (this._leadsOn(this.questions)) return;
    const input = this.questions.submit();
    if (input && this.canAnswer) void this._give({ allow: true, input });
  }

  /** Handles a number key. Returns whether it chose an option. */
  pick(number: number) {
    return this.canAnswer && !this.busy && Boolean(this.questions?.pick(number));
  }

  edit() {
    if (!this.canEdit) return;
    if (this.mode !== 'edit') this.isEditorOpen.value = !this._hasEditor;
    this.mode = 'edit';
    this.isEditSeen.value = this.hidesRemoved.value = this._isEditorSeen = false;
    this.sight = new Sight(); // the fields that are edited move below the others
    const { editable, request } = this;
    if (!editable.length) this.text ??= this.proposed;
    else this.fields = Object.fromEntries(editable.map((name) => [name, this.fields?.[name] ?? request.input[name]]));
    this.isChanged.value = this.isEdited;
    this._count();
    this._draw();
  }

  reject() {
    if (!this.canAnswer || this.questions) return;
    this.mode = 'reject';
    this._draw();
    this.element.querySelector<HTMLElement>('.rejecting textarea')?.focus();
  }

  /** Goes back to reading, and keeps what was written. Returns false if the mode did not change. */
  back() {
    if (this.mode === 'read' || this.answered) return false;
    if (this.mode === 'edit' && !this.isEdited) this.text = this.fields = undefined;
    this.mode = 'read';
    this.sight = new Sight();
    this._keep();
    this._draw();
    this.element.focus({ preventScroll: true });
    return true;
  }

  /** Discards what was written. */
  discard() {
    this.text = this.fields = undefined;
    this.message = '';
    this.comments.clear();
    this._keep();
    this._draw(true);
  }

  /** Sets the position of this request, counted from 1, among the `all` open ones. */
  count(number: number, all: number) {
    this.place.value = all > 1 ? `${number} of ${all}` : '';
  }

  /** The change that the user can edit. Throws if the request has none. */
  get _change(): { old_text: string; new_text: string } {
    const change = this.cell ?? this.request.proposal;
    if (!change) throw new Error('The request changes no file.');
    return change;
  }

  /** The agent's text, with "\n" as line endings, as in a text field. */
  get proposed(): string {
    return this._change.new_text.replace(/\r\n/g, '\n');
  }

  get original(): string {
    return this._change.old_text.replace(/\r\n/g, '\n');
  }

  /** Whether the user's version differs from the agent's. */
  get isEdited() {
    if (this.text !== undefined) return this.text !== this.proposed;
    const { input } = this.request;
    return Object.entries(this.fields ?? {}).some(([name, text]) => input[name] !== text);
  }

  _edited() {
    const { input } = this.request;
    if (this.text === undefined) return { ...input, ...this.fields };
    if (this.cell) return { ...input, new_source: endsLike(input.new_source, this.text) };
    return editedInput(this.request, this.text);
  }

  /** Shows that the request was answered elsewhere or withdrawn. The card stays, so that the draft can be copied. */
  settle(answer: any) {
    this.answered = answer;
    this._draw();
  }

  /** Makes a request that was shown as resolved answerable again, because on the server, it is still open. */
  revive(request: PermissionRequest) {
    this.request = request;
    this.answered = undefined;
    this.busy = this._isSent = false;
    this._isNew();
    this._draw();
  }

  /** Called when this device's permissions have changed. */
  redraw() {
    if (this.mode === 'read') this._draw();
  }

  /** Adds a common reason to the message, or removes it. */
  giveReason(reason: Reason) {
    this.typedReason(toggled(this.message, reason));
  }

  /** Removes the card from the page. The draft is kept. */
  remove() {
    if (this._counting !== undefined) this._keep();
    clearTimeout(this._counting);
    this._isGone = true;
    this.element.remove();
    render(null, this.element);
  }

  close() {
    this.text = this.fields = undefined;
    this.remove();
    kept.keepAnswer(this.request.approval_id, null);
  }

  typed(text: string) {
    this._changes(this.text, text);
    this.text = text;
    this.isChanged.value = this.isEdited;
    clearTimeout(this._counting);
    this._counting = setTimeout(() => {
      this._counting = undefined;
      this._count();
      this._keep();
    }, COUNTED);
    if (text.length < 200_000) this._keep();
  }

  typedField(name: string, text: string) {
    this._changes(this.fields?.[name], text);
    this.fields = { ...this.fields, [name]: text };
    this.isChanged.value = this.isEdited;
    this._keep();
    this._draw();
  }

  typedReason(text: string) {
    this.message = text;
    this._keep();
    this._draw();
  }

  async give(answer: Given) {
    await this._give(answer);
  }

  async whole() {
    const { truncated } = this.request;
    if (!truncated) return;
    try {
      const record = await this.world.whole(truncated.blob_id);
      this.request = { ...this.request, ...record.message.message, truncated: undefined };
      if (asksQuestions(this.request) && !this.questions)
        this.questions = new Questions(this.request.input, kept.answer(this.request.approval_id).begun, () =>
          this._keep(),
        );
      this._isNew();
      this._draw();
    } catch {
      // the error was already shown
    }
  }

  /** Called when part of the request is drawn in another form, which has not been in view. */
  redrawn() {
    this._isUnseen();
    this._draw();
  }

  /** Must be called when the request was replaced. */
  _isNew() {
    this.cell = editedCell(this.request);
    this.forms.clear();
    this._isUnseen();
  }

  /** Must be called when the card shows something else, which has not been in view. */
  _isUnseen() {
    this.sight = new Sight();
    this.isSeen.value = this.isEditSeen.value = false;
    this.unread.value = undefined;
  }

  async _give(answer: Given) {
    if (this.busy || this.answered) return;
    this.busy = true;
    this._keep();
    this._draw();
    try {
      await this.world.answer(this.request, answer);
      this._isSent = true;
      kept.keepAnswer(this.request.approval_id, null);
    } catch {
      this.busy = false;
      this._keep();
      this._draw();
    }
  }

  _count() {
    if (this.text === undefined) return;
    const { added, removed } = compare(this.original, this.text);
    this.counts.value = { added, removed };
  }

  _keep() {
    const { text, fields, message, questions, comments } = this;
    // If the page is reloaded before the reply arrives, the connection's id shows whose answer it was.
    const sent = this.busy ? this.world.connection() : undefined;
    const draft = { text, fields, message, begun: questions?.begun, comments: comments.all, sent };
    kept.keepAnswer(this.request.approval_id, this.isDirty ? draft : null);
  }

  /** @param isFresh whether to close everything that was unfolded */
  _draw(isFresh = false) {
    if (this._isGone) return;
    if (isFresh) render(null, this.element);
    render(<CardView card={this} version={++this._version} />, this.element);
    this.element.classList.toggle('settled', Boolean(this.answered));
    // Measures the new buttons.
    requestAnimationFrame(() => this.world.look());
  }
}
