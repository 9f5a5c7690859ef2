// A code editor that compares a file with the original: CodeMirror, loaded when the user begins to edit.

import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, indentOnInput, indentUnit } from '@codemirror/language';
import { getChunks, MergeView, unifiedMergeView } from '@codemirror/merge';
import { EditorState, type Extension } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  type ViewUpdate,
} from '@codemirror/view';

import { COLORS, colorsFor, HIDDEN, LOOK } from '../text/codemirror.ts';
import { isHarmless } from '../text/harmless.ts';
import { Unseen } from './unseen.ts';

/** The styles of the comparison. */
const COMPARED = EditorView.theme({
  '.cm-changedLine': { backgroundColor: 'var(--yes-wash) !important' },
  '.cm-changedText': { background: 'var(--yes-mark) !important', borderRadius: '2px' },
  '.cm-deletedChunk': { backgroundColor: 'var(--no-wash) !important', paddingRight: '0' },
  '.cm-deletedLine': { whiteSpace: 'pre-wrap' },
  '.cm-deletedText, .cm-deletedChunk .cm-deletedText': {
    background: 'var(--no-mark) !important',
    textDecoration: 'none',
    borderRadius: '2px',
  },
  '&.cm-merge-a .cm-changedLine': { backgroundColor: 'var(--no-wash) !important' },
  '&.cm-merge-a .cm-changedText': { background: 'var(--no-mark) !important' },
  '&.cm-merge-a .cm-changedLineGutter': { background: 'var(--no) !important' },
  '.cm-changedLineGutter': { background: 'var(--yes) !important' },
  '.cm-deletedLineGutter': { background: 'var(--no) !important' },
  '.cm-deletedChunk .cm-chunkButtons, .cm-chunkButtons': { position: 'absolute', insetInlineEnd: '6px' },
  '.cm-chunkButtons button': {
    font: '500 var(--small) var(--text)',
    color: 'var(--no)',
    backgroundColor: 'var(--sheet)',
    border: '1px solid var(--line)',
    borderRadius: '8px',
    padding: '0 0.7rem',
    minHeight: '24px',
    margin: '0',
    cursor: 'pointer',
  },
  // A finger needs more room than a line has.
  '@media (pointer: coarse), (max-width: 760px)': {
    '.cm-deletedChunk .cm-chunkButtons, .cm-chunkButtons': {
      position: 'static',
      display: 'block',
      textAlign: 'right',
      padding: '2px 6px',
    },
  },
  '@media (pointer: coarse)': { '.cm-chunkButtons button': { minHeight: '44px' } },
  '.cm-collapsedLines': {
    color: 'var(--soft)',
    background: 'var(--sunken) !important',
    fontFamily: 'var(--text)',
    padding: '4px 12px',
    cursor: 'pointer',
  },
  '.cm-collapsedLines::before, .cm-collapsedLines::after': { content: '""', margin: '0' },
});

const WORDS = EditorState.phrases.of({ '$ unchanged lines': '$ unchanged lines: Show' });

/** Options of both comparisons. They favor speed over exactness, because a comparison runs on every key press. */
const COMPARISON = {
  collapseUnchanged: { margin: 3, minSize: 6 },
  diffConfig: { scanLimit: 500, timeout: 50 },
};

// Only the types are imported. The functions themselves are passed in, so that their modules are in one bundle only.
type FreePart = typeof import('./current.ts').freePart;
type IsLong = typeof import('./inserted.ts').isLong;

export type Editor = {
  focus: () => void;
  /** Measures again which part of the text is in view. */
  look: () => void;
  /** The position of the caret in the text. */
  caret: () => number;
  destroy: () => void;
};

/**
 * Opens an editor in `root`, which has to be empty.
 * @param original the file's current text; '' for a new file
 * @param isSmall whether the file is small enough to be highlighted and compared during typing
 * @param split whether the original is shown beside the text
 * @param caret the position of the caret; if undefined, the first change
 * @param accept is called when the key that accepts is pressed
 * @param changed is called with the text after each edit, with "\n" as line endings
 * @param hides is called with whether the editor can hide removed text; if it can, `seen` is never called
 * @param isSeen whether all of the change has been in view already
 * @param seen is called with whether all of the change has been in view, whenever this changes
 * @param freePart returns the largest part of the vertical range of a box that the screen shows and that nothing covers
 * @param isLong returns whether some of a text can be out of view while the text beside it is in view
 */
export function openEditor({
  root,
  path,
  original,
  text,
  label,
  isReadOnly,
  isSmall,
  split,
  caret,
  changed,
  hides,
  isSeen,
  seen,
  freePart,
  isLong,
  accept,
}: {
  root: ShadowRoot;
  path: string;
  original: string;
  text: string;
  label: string;
  isReadOnly: boolean;
  isSmall: boolean;
  split: boolean;
  caret?: number;
  changed: (text: string) => void;
  hides: (isRemovedHidden: boolean) => void;
  isSeen: boolean;
  seen: (isSeen: boolean) => void;
  freePart: FreePart;
  isLong: IsLong;
  accept: () => void;
}): Editor {
  const place = document.createElement('div');
  place.className = 'editor';
  place.style.maxHeight = 'inherit';
  root.append(place);
  const common: Extension[] = [
    LOOK,
    COMPARED,
    WORDS,
    lineNumbers(),
    HIDDEN,
    COLORS,
    isSmall ? colorsFor(path) : [],
    EditorView.lineWrapping,
    EditorState.lineSeparator.of('\n'),
  ];
  let watch: Watch | undefined;
  const extensions: Extension[] = [
    common,
    history(),
    drawSelection(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    bracketMatching(),
    indentOnInput(),
    indentUnit.of(indentOf(original || text)),
    EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false', autocapitalize: 'off' }),
    EditorState.readOnly.of(isReadOnly),
    keymap.of([
      ...['Ctrl-Enter', 'Meta-Enter'].map((key) => ({ key, run: () => (accept(), true) })),
      ...defaultKeymap.filter(({ key }) => key !== 'Escape'),
      ...historyKeymap,
      indentWithTab,
    ]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) changed(update.state.doc.toString());
      watch?.update(update);
    }),
  ];
  const compares = isSmall && original !== '';
  const opened =
    compares && split
      ? beside({ root, place, original, text, isReadOnly, common, extensions })
      : alone({ root, place, original, text, isReadOnly, compares, extensions });
  const { view } = opened;
  const isRemovedHidden = hidesRemoved(original, view, isLong);
  hides(isRemovedHidden);
  if (!isRemovedHidden) watch = watched({ root, view, freePart, isSeen, seen });
  const at = Math.min(caret ?? getChunks(view.state)?.chunks[0]?.fromB ?? 0, view.state.doc.length);
  view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'center' }) });
  return {
    focus: () => view.focus(),
    look: () => watch?.look(),
    caret: () => view.state.selection.main.head,
    destroy: () => {
      watch?.stop();
      opened.destroy();
    },
  };
}

/**
 * Whether removed text can be out of view while the text beside it is in view, because it is too long or not compared.
 */
function hidesRemoved(original: string, view: EditorView, isLong: IsLong) {
  const chunks = getChunks(view.state)?.chunks;
  if (original === '' || !chunks) return original !== '';
  return chunks.some(({ fromA, toA }) => isLong(original.slice(fromA, toA)));
}

type Watched = {
  root: ShadowRoot;
  view: EditorView;
  freePart: FreePart;
  isSeen: boolean;
  seen: (isSeen: boolean) => void;
};

type Watch = { update: (update: ViewUpdate) => void; look: () => void; stop: () => void };

/**
 * Reports whether every change, and everything that was inserted since, has been visible in the editor while that part
 * of the editor was in view.
 */
function watched({ root, view, freePart, isSeen, seen }: Watched): Watch {
  const { length } = view.state.doc;
  const chunks = getChunks(view.state)?.chunks;
  const changed = chunks
    ? chunks.map(({ fromB, toB }) => [Math.min(fromB, length), Math.min(toB, length)] as const)
    : [[0, length] as const];
  const unseen = new Unseen(isSeen ? [] : changed);
  let isReported = isSeen;
  const measure = {
    read() {
      const lines = linesInView(root.host, view, freePart);
      if (lines) unseen.see(...lines);
    },
    write() {
      if (unseen.isEmpty === isReported) return;
      isReported = unseen.isEmpty;
      seen(isReported);
    },
  };
  const look = () => {
    if (!unseen.isEmpty || !isReported) view.requestMeasure(measure);
  };
  // Scroll events do not leave the shadow root.
  const places = [document, root];
  for (const place of places) place.addEventListener('scroll', look, { capture: true, passive: true });
  look();
  return {
    update({ docChanged, geometryChanged, changes }) {
      if (docChanged) unseen.change(changes);
      if (docChanged || geometryChanged) look();
    },
    look,
    stop() {
      for (const place of places) place.removeEventListener('scroll', look, true);
    },
  };
}

/** The positions between which the text is in view, or undefined if none of it is. */
function linesInView(host: Element, view: EditorView, freePart: FreePart): [number, number] | undefined {
  if (document.hidden || document.querySelector('dialog[open]')) return undefined;
  const card = host.closest('.card');
  const scroller = host.closest('.scroller')?.getBoundingClientRect();
  const box = host.getBoundingClientRect();
  const text = view.contentDOM.getBoundingClientRect();
  const head = card?.querySelector(':scope > header')?.getBoundingClientRect();
  const foot = card?.querySelector(':scope > footer')?.getBoundingClientRect();
  const inView = freePart(box, {
    top: Math.max(box.top, text.top, scroller?.top ?? 0, head?.bottom ?? 0),
    bottom: Math.min(box.bottom, text.bottom, scroller?.bottom ?? innerHeight, foot?.top ?? innerHeight),
  });
  // A line that is half in view can be read.
  const half = view.defaultLineHeight / 2;
  const top = inView.top + half;
  const bottom = inView.bottom - half;
  if (top > bottom) return undefined;
  return [
    view.posAtCoords({ x: text.left + 1, y: top }, false),
    view.posAtCoords({ x: text.right - 1, y: bottom }, false),
  ];
}

type Parts = { root: ShadowRoot; place: HTMLElement; original: string; text: string; isReadOnly: boolean };

/** One editor. If the original can be compared, removed text is drawn between the lines. */
function alone({
  root,
  place,
  original,
  text,
  isReadOnly,
  compares,
  extensions,
}: Parts & { compares: boolean; extensions: Extension[] }) {
  // The comparison renders removed text itself, without making misleading characters visible.
  const canCompare = compares && isHarmless(original);
  const comparison = unifiedMergeView({
    original,
    mergeControls: isReadOnly ? false : controls,
    syntaxHighlightDeletions: false,
    ...COMPARISON,
  });
  const state = EditorState.create({ doc: text, extensions: [extensions, canCompare ? comparison : []] });
  const view = new EditorView({ state, parent: place, root });
  return { view, destroy: () => view.destroy() };
}

/** Two editors side by side, the left one read-only. */
function beside({
  root,
  place,
  original,
  text,
  isReadOnly,
  common,
  extensions,
}: Parts & { common: Extension[]; extensions: Extension[] }) {
  const reading = [
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ 'aria-label': 'The current text' }),
  ];
  const both = new MergeView({
    a: { doc: original, extensions: [common, reading] },
    b: { doc: text, extensions },
    root,
    parent: place,
    revertControls: isReadOnly ? undefined : 'a-to-b',
    renderRevertControl: revertButton,
    ...COMPARISON,
  });
  both.dom.style.maxHeight = 'inherit';
  return { view: both.b, destroy: () => both.destroy() };
}

/** The button that rejects a change, so that the accepted version does not contain it. No button accepts a change. */
function controls(type: 'reject' | 'accept', act: (event: MouseEvent) => void): HTMLElement {
  if (type === 'accept') {
    const none = document.createElement('span');
    none.hidden = true;
    return none;
  }
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = REJECT;
  button.addEventListener('mousedown', (event) => event.preventDefault());
  button.addEventListener('click', act);
  return button;
}

const REJECT = 'Reject this change';

/** The button between two editors. CodeMirror reverts on mousedown, which the keyboard doesn't trigger. */
function revertButton(): HTMLElement {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = '→';
  button.title = REJECT;
  button.setAttribute('aria-label', REJECT);
  button.style.color = 'var(--no)';
  button.addEventListener('click', ({ detail }) => {
    if (!detail) button.dispatchEvent(new MouseEvent('mousedown', { bubbles: true, cancelable: true }));
  });
  return button;
}

/** One level of a text's indentation, or two spaces if it has none. */
function indentOf(text: string) {
  const found = /^(\t| {2,8})\S/m.exec(text.slice(0, 20_000));
  return found?.[1] ?? '  ';
}
