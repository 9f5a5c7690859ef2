// The message box: several lines, files, a draft that survives a reload, earlier messages with the arrow keys, and
// completion of the agent's commands and of files.

import { signal } from '@preact/signals';
import { type ComponentChildren, createRef, render } from 'preact';

import type { Offer } from '../protocol/messages.ts';
import * as kept from '../state/kept.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { isComposing, isTouch } from '../ui/typing.ts';
import { type Choice, commandsFor, completed, type Token, tokenAt } from './complete.ts';
import { type Accepts, type Attached, attach, MOST, notAFile } from './files.ts';
import { counted } from '../ui/dom.ts';

/** The maximum height of the text field, as a fraction of the window's height. */
const HEIGHT = 0.4;

/** Attached files whose message has not been sent, by project, for as long as the page is open. */
const waiting = new Map<string, Attached[]>();

type World = {
  send: (text: string, files: Attached[], steer: boolean) => void;
  failed: (error: Error) => void;
  commands: () => Offer[];
  /** Returns the project's files that match `query`, best first. Left out if files can't be completed. */
  findFiles?: (query: string) => Promise<Choice[]>;
};

/**
 * The properties that depend on the session: the placeholder, the files that are accepted, whether a message waits for
 * the end of the active run, whether it can steer that run, and the chips.
 */
type Around = { placeholder: string; accepts: Accepts; queues: boolean; steers: boolean; chips: ComponentChildren };

/** The current box of each project. Files and texts that arrive after a box was replaced go to the new one. */
const boxes = new Map<string, Composer>();

export class Composer {
  element = document.createElement('div');
  files: Attached[];
  private isOver = false;
  private text = createRef<HTMLTextAreaElement>();
  private chooser = createRef<HTMLInputElement>();
  private earlier: string[];
  private place: number;
  private unfinished = '';
  // Until the project is known, every file is accepted. The server refuses what the agent can't take.
  private around: Around = {
    placeholder: 'Message…',
    accepts: { images: true, files: true },
    queues: false,
    steers: false,
    chips: null,
  };
  private found = signal<Choice[]>([]);
  private at = 0;
  private token: Token | undefined;
  /** The list of the agent’s commands that was searched last. */
  private known: Offer[] | undefined;
  private asked = 0;
  private adding: Promise<void> = Promise.resolve();

  constructor(
    private project: string,
    private world: World,
  ) {
    this.element.className = 'composer-place';
    boxes.set(project, this);
    this.earlier = kept.prompts(project);
    this.place = this.earlier.length;
    this.files = waiting.get(project) ?? [];
    this.draw();
    this.area.value = kept.draft(project);
    for (const type of ['paste', 'drop']) this.element.addEventListener(type, (event) => this.given(event as any));
    this.element.addEventListener('dragover', (event) => event.preventDefault());
    requestAnimationFrame(() => this.fit());
  }

  get area() {
    return this.text.current as HTMLTextAreaElement;
  }

  /** Changes what is drawn around the text. */
  show(around: Around) {
    this.around = around;
    this.draw();
    // The agent’s commands may arrive after the user has begun to type one.
    const isNew = this.world.commands() !== this.known;
    if (isNew && this.token?.kind === 'command' && !this.found.value.length) this.complete();
  }

  submit(steer = false) {
    const text = this.area.value.trim();
    if (!text && !this.files.length) return;
    if (text) kept.keepPrompt(this.project, text);
    this.earlier = kept.prompts(this.project);
    this.put('');
    this.world.send(text, this.putFiles([]), steer);
  }

  /** Replaces the text. */
  put(text: string) {
    this.area.value = text;
    this.place = this.earlier.length;
    this.changed();
  }

  /** Replaces the attached files. Returns the previous ones. */
  putFiles(files: Attached[]) {
    const before = this.files;
    this.files = files;
    if (files.length) waiting.set(this.project, files);
    else waiting.delete(this.project);
    this.draw();
    return before;
  }

  /** Restores what could not be sent, in this box or in the one that has replaced it. */
  restore(text: string, files: Attached[]) {
    const box = this.shown;
    const now = box.isOver ? kept.draft(this.project) : box.area.value;
    const all = [text, now].filter(Boolean).join('\n\n');
    if (box.isOver) kept.keepDraft(this.project, all);
    else if (text) box.put(all);
    const others = (waiting.get(this.project) ?? []).filter((one) => !files.includes(one));
    box.putFiles([...files, ...others].slice(0, MOST));
  }

  /** Removes the box. Its text and its files are kept for the next box of the project. */
  dispose() {
    this.isOver = true;
    if (boxes.get(this.project) === this) boxes.delete(this.project);
    render(null, this.element);
  }

  /** This box, or the one that has replaced it. */
  private get shown(): Composer {
    return boxes.get(this.project) ?? this;
  }

  private draw() {
    if (this.isOver) return;
    const { placeholder, queues, steers, chips } = this.around;
    const isEmpty = !this.text.current?.value.trim() && !this.files.length;
    render(
      <form class="composer" onSubmit={(event) => (event.preventDefault(), this.submit())}>
        <Suggestions box={this} />
        {this.files.length > 0 && (
          <ul class="pictures" aria-label="Attached files">
            {this.files.map((one) => (
              <li key={one.url ?? one.name}>
                {one.url ? (
                  <img src={one.url} alt={one.name} />
                ) : (
                  <span class="file">
                    <Icon name="file" />
                    <Text line>{one.name}</Text>
                  </span>
                )}
                <Button class="disc" label={`Remove ${one.name}`} icon="cross" bare onClick={() => this.drop(one)} />
              </li>
            ))}
          </ul>
        )}
        <textarea
          ref={this.text}
          id="prompt"
          rows={1}
          placeholder={placeholder}
          aria-label="Message"
          aria-autocomplete="list"
          enterkeyhint={isTouch() ? 'enter' : 'send'}
          onInput={() => this.changed()}
          onKeyDown={(event) => this.key(event)}
          onClick={() => this.complete()}
          onBlur={() => setTimeout(() => document.activeElement !== this.area && this.forget(), 150)}
        />
        <div class="below">
          <input
            ref={this.chooser}
            type="file"
            multiple
            hidden
            aria-label="Files to attach"
            onChange={(event) => {
              const input = event.currentTarget;
              this.add([...(input.files ?? [])]);
              input.value = '';
            }}
          />
          <Button
            label="Attach files"
            icon="attach"
            bare
            class="quiet attach"
            onClick={() => this.chooser.current?.click()}
          />
          <div class="chips">{chips}</div>
          {steers && (
            <Button
              label="Add to the current run"
              ariaShortcut="Control+Enter"
              icon="steer"
              bare
              class="quiet steer"
              disabled={isEmpty}
              onClick={() => this.submit(true)}
            />
          )}
          <Button
            label={queues ? 'Queue' : 'Send'}
            icon="send"
            bare
            class="yes"
            disabled={isEmpty}
            onClick={() => this.submit()}
          />
        </div>
      </form>,
      this.element,
    );
  }

  private changed() {
    kept.keepDraft(this.project, this.area.value);
    this.draw();
    this.fit();
    this.complete();
  }

  private fit() {
    if (this.isOver) return;
    this.area.style.height = 'auto';
    this.area.style.height = `${Math.min(this.area.scrollHeight + 2, innerHeight * HEIGHT)}px`;
  }

  // The methods for attached files.

  /** Attaches files that are pasted or dropped. The browser handles everything else. */
  private given(event: ClipboardEvent & DragEvent) {
    const data = event.clipboardData ?? event.dataTransfer;
    const files = [...(data?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    // The entries are available only during the event.
    const folders = [...(data?.items ?? [])]
      .map((item) => item.webkitGetAsEntry?.())
      .filter((entry) => entry?.isDirectory)
      .map((entry) => entry?.name);
    for (const name of folders) this.world.failed(notAFile(String(name), this.around.accepts.files));
    this.add(files.filter(({ name }) => !folders.includes(name)));
  }

  private add(files: File[]) {
    this.adding = this.adding.then(async () => {
      for (const file of files) {
        if (this.shown.files.length >= MOST) {
          this.world.failed(new Error(`You can attach up to ${MOST} files.`));
          return;
        }
        try {
          const one = await attach(file, this.around.accepts);
          this.shown.putFiles([...this.shown.files, one]);
        } catch (error) {
          this.world.failed(error as Error);
        }
      }
    });
  }

  private drop(one: Attached) {
    if (one.url) URL.revokeObjectURL(one.url);
    this.putFiles(this.files.filter((other) => other !== one));
    this.area.focus();
  }

  // The methods that handle keys.

  private key(event: KeyboardEvent) {
    if (isComposing(event) || (this.found.value.length && this.keyOfList(event))) return;
    const { area } = this;
    const mod = event.ctrlKey || event.metaKey;
    if (event.key === 'Enter' && !event.shiftKey && (!isTouch() || mod)) {
      event.preventDefault();
      this.submit(mod && this.around.steers && !isTouch());
    } else if (event.key === 'ArrowUp' && area.selectionEnd === 0 && this.place > 0) this.recall(-1, event);
    else if (event.key === 'ArrowDown' && area.selectionStart === area.value.length && this.place < this.earlier.length)
      this.recall(1, event);
  }

  private recall(step: number, event: Event) {
    event.preventDefault();
    if (this.place === this.earlier.length) this.unfinished = this.area.value;
    const place = this.place + step;
    this.put(this.earlier[place] ?? this.unfinished);
    this.place = place;
    this.forget();
    const at = step < 0 ? 0 : this.area.value.length;
    this.area.setSelectionRange(at, at);
  }

  // The methods for completion.

  get suggestions() {
    return this.found.value;
  }

  get chosen() {
    return this.at;
  }

  /** Looks for completions of the word at the caret. A result that arrives after the next search began is dropped. */
  private complete() {
    const { selectionStart, selectionEnd, value } = this.area;
    const token = selectionStart === selectionEnd ? tokenAt(value, selectionStart) : undefined;
    const asked = ++this.asked;
    this.token = token;
    this.known = this.world.commands();
    if (token?.kind === 'command') this.offer(commandsFor(token.query, this.known));
    else if (token && this.world.findFiles)
      this.world.findFiles(token.query).then(
        (found) => asked === this.asked && this.offer(found),
        () => asked === this.asked && this.offer([]),
      );
    else this.offer([]);
  }

  private offer(found: Choice[]) {
    this.at = 0;
    this.found.value = found;
    this.mark();
  }

  /** Closes the list of suggestions, and drops results that have not arrived yet. */
  private forget() {
    this.asked++;
    if (this.found.value.length) this.offer([]);
  }

  private mark() {
    const { area } = this;
    if (!this.found.value.length) {
      area.removeAttribute('aria-activedescendant');
      area.removeAttribute('aria-controls');
      return;
    }
    area.setAttribute('aria-controls', 'suggestions');
    area.setAttribute('aria-activedescendant', `suggestion-${this.at}`);
  }

  /** Handles a key for the list of suggestions. Returns whether the key was for the list. */
  private keyOfList(event: KeyboardEvent) {
    const count = this.found.value.length;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      this.at = (this.at + (event.key === 'ArrowDown' ? 1 : count - 1)) % count;
      this.found.value = [...this.found.value];
      this.mark();
      requestAnimationFrame(() =>
        document.getElementById(`suggestion-${this.at}`)?.scrollIntoView({ block: 'nearest' }),
      );
    } else if (event.key === 'Escape') {
      this.forget();
      event.stopPropagation();
    } else if ((event.key === 'Enter' || event.key === 'Tab') && !event.shiftKey && !event.ctrlKey && !event.metaKey) {
      const choice = this.found.value[this.at];
      // A command that was typed completely is sent, not completed.
      if (event.key === 'Enter' && choice.kind === 'command' && this.area.value === choice.value) return false;
      this.take(choice);
    } else return false;
    event.preventDefault();
    return true;
  }

  take(choice: Choice) {
    if (!this.token) return;
    const { text, caret } = completed(this.area.value, this.token, choice);
    this.area.value = text;
    this.area.focus();
    this.area.setSelectionRange(caret, caret);
    this.changed();
  }
}

/** The list of suggestions above the box. The focus stays in the text. */
function Suggestions({ box }: { box: Composer }) {
  const found = box.suggestions;
  return (
    <>
      <p class="visually-hidden" role="status">
        {found.length > 0 && counted(found.length, 'suggestion')}
      </p>
      {found.length > 0 && (
        <div id="suggestions" class="suggestions" role="listbox" aria-label="Suggestions">
          {found.map((one, index) => (
            <div
              key={one.value}
              id={`suggestion-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === box.chosen}
              onMouseDown={(event) => event.preventDefault()}
              onPointerUp={() => box.take(one)}
            >
              <span class="suggestion-label">
                {one.kind !== 'command' && <Icon name={one.kind === 'directory' ? 'folder' : 'file'} />}
                <Text line>{one.label}</Text>
              </span>
              {one.text && (
                <small>
                  <Text line>{one.text}</Text>
                </small>
              )}
            </div>
          ))}
        </div>
      )}
    </>
  );
}
