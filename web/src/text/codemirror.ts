// The CodeMirror extensions that the editor and the file viewer share: colors, the look, and misleading characters
// written out.

import { HighlightStyle, type LanguageSupport, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { Compartment, type Extension } from '@codemirror/state';
import { EditorView, highlightSpecialChars, ViewPlugin } from '@codemirror/view';
import { tags } from '@lezer/highlight';

import { harmless, strange } from './harmless.ts';
import { languageOf, modeOf } from './highlight.ts';
import { kindOf, tagsOf } from './kinds.ts';

const TAGS = tagsOf(tags);

/**
 * The style of each kind, as in diffs and messages. It is repeated here, because base.css and text.css do not apply
 * inside a shadow root.
 */
const LOOKS: Record<string, Record<string, string>> = {
  comment: { color: 'var(--code-comment)' },
  string: { color: 'var(--code-string)' },
  number: { color: 'var(--code-number)' },
  word: { color: 'var(--code-word)' },
  type: { color: 'var(--accent)' },
  name: { color: 'var(--code-number)' },
  meta: { color: 'var(--accent)' },
  heading: { fontWeight: '650' },
  inserted: { color: 'var(--yes)' },
  deleted: { color: 'var(--no)' },
};

const STYLE = HighlightStyle.define(Object.entries(TAGS).map(([kind, tag]) => ({ tag, ...LOOKS[kind] })));

export const COLORS = syntaxHighlighting(STYLE);

export const LOOK = EditorView.theme({
  '&': { color: 'var(--ink)', backgroundColor: 'var(--sheet)', fontSize: 'var(--small)', maxHeight: 'inherit' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--ink)' },
  // The rule for other code is in conversation.css, which does not apply inside a shadow root.
  '.cm-line, .cm-deletedLine': { direction: 'ltr', unicodeBidi: 'isolate-override' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--soft)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--accent) 8%, transparent)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '.cm-specialChar': { color: 'var(--wait)', backgroundColor: 'var(--wait-wash)', borderRadius: '3px' },
});

/** Characters that reorder, hide or imitate others are written out. */
export const HIDDEN = highlightSpecialChars({ addSpecialChars: strange, render: special });

/** A hidden character, written out. */
function special(code: number) {
  const character = String.fromCodePoint(code);
  const mark = document.createElement('span');
  mark.className = 'cm-specialChar';
  const written = harmless(character);
  mark.textContent = written === character ? `\\u${code.toString(16).padStart(4, '0')}` : written;
  return mark;
}

/** The colors of a file's language, as soon as its grammar is loaded. */
export function colorsFor(path: string): Extension {
  const language = new Compartment();
  const fetched = ViewPlugin.define((view) => {
    void languageFor(path).then(
      (found) => found && view.dispatch({ effects: language.reconfigure(found) }),
      () => undefined, // without a grammar, the file is shown without colors
    );
    return {};
  });
  return [language.of([]), fetched];
}

/** The languages that an editor supports beyond their colors. */
const LANGUAGES: Record<string, () => Promise<Extension | LanguageSupport>> = {
  python: async () => (await import('@codemirror/lang-python')).python(),
  javascript: async () => (await import('@codemirror/lang-javascript')).javascript({ jsx: true }),
  typescript: async () => (await import('@codemirror/lang-javascript')).javascript({ typescript: true }),
  tsx: async () => (await import('@codemirror/lang-javascript')).javascript({ typescript: true, jsx: true }),
  rust: async () => (await import('@codemirror/lang-rust')).rust(),
  go: async () => (await import('@codemirror/lang-go')).go(),
  c: async () => (await import('@codemirror/lang-cpp')).cpp(),
  java: async () => (await import('@codemirror/lang-java')).java(),
  php: async () => (await import('@codemirror/lang-php')).php(),
  css: async () => (await import('@codemirror/lang-css')).css(),
  html: async () => (await import('@codemirror/lang-html')).html(),
  xml: async () => (await import('@codemirror/lang-xml')).xml(),
  json: async () => (await import('@codemirror/lang-json')).json(),
  sql: async () => (await import('@codemirror/lang-sql')).sql(),
  yaml: async () => (await import('@codemirror/lang-yaml')).yaml(),
  markdown: async () => (await import('@codemirror/lang-markdown')).markdown(),
};

async function languageFor(path: string): Promise<Extension | undefined> {
  const name = languageOf(path);
  if (Object.hasOwn(LANGUAGES, name)) return LANGUAGES[name]();
  const mode = await modeOf(name);
  if (!mode) return undefined;
  const tokenTable = Object.fromEntries(Object.entries(TAGS).map(([kind, found]) => [kind, found[0]]));
  // Replaces the names of styles with kinds, because some of CodeMirror's own tags for these names have no color here.
  const token: typeof mode.token = (stream, state) => kindOf(mode.token(stream, state)) || null;
  return StreamLanguage.define({ ...mode, token, tokenTable });
}
