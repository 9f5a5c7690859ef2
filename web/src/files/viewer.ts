// Shows a file, read-only, in CodeMirror, which draws only the lines in view but searches all of them.

import { defaultKeymap } from '@codemirror/commands';
import { search, searchKeymap } from '@codemirror/search';
import { EditorSelection, EditorState } from '@codemirror/state';
import { EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view';

import { COLORS, colorsFor, HIDDEN, LOOK } from '../text/codemirror.ts';
import * as kept from '../state/kept.ts';

/** The viewer fills its container and scrolls its own content, so that only the lines in view are drawn. */
const FILLS = EditorView.theme({ '&': { position: 'absolute', inset: '0', height: '100%', maxHeight: 'none' } });

/** The maximum length of a file that is colored, in characters. */
const MOST = 1_000_000;

/**
 * Shows `text` in `root`, which has to be empty. Returns a function that closes the viewer.
 * @param line the line to scroll into view, counted from 1
 */
export function openViewer({
  root,
  path,
  text,
  line,
}: {
  root: ShadowRoot;
  path: string;
  text: string;
  line?: number;
}) {
  const state = EditorState.create({
    doc: text,
    extensions: [
      LOOK,
      FILLS,
      lineNumbers(),
      highlightActiveLine(),
      highlightActiveLineGutter(),
      HIDDEN,
      COLORS,
      search({ top: true }),
      kept.setting('wrap') === 'off' ? [] : EditorView.lineWrapping,
      EditorView.contentAttributes.of({ 'aria-label': path, tabindex: '0' }),
      EditorView.editable.of(false),
      EditorState.readOnly.of(true),
      keymap.of([...searchKeymap, ...defaultKeymap.filter(({ key }) => key !== 'Escape')]),
      text.length <= MOST ? colorsFor(path) : [],
    ],
  });
  const view = new EditorView({ state, parent: root, root });
  if (line) {
    const at = view.state.doc.line(Math.min(line, view.state.doc.lines)).from;
    view.dispatch({ selection: EditorSelection.cursor(at), effects: EditorView.scrollIntoView(at, { y: 'center' }) });
  }
  return () => view.destroy();
}
