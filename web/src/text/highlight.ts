// Colors for code: finds the kinds of its words with the grammar of its language. A grammar is fetched when the first
// code of its language is shown. The work is done a few milliseconds at a time, so that highlighting never blocks the
// page.

import type { StreamParser } from '@codemirror/streamparser';
import type { Parser } from '@lezer/common';

import { kindOf, tagsOf } from './kinds.ts';

/** A part of a line. `kind` is the part of the CSS class after `code-`, or empty. */
export type Span = { text: string; kind: string };

type Grammar = { parser: Parser } | { mode: StreamParser<any> };

/** The maximum length of code that is colored, in characters. Longer code stays plain. */
const LONGEST = 300_000;

/** The maximum length of a line that is colored, in characters, for grammars that work line by line. */
const LONGEST_LINE = 5_000;

const SLICE = 8; // ms

/**
 * The maximum time for one text. A text that takes longer stays plain, because unclosed nested constructs take
 * quadratic time.
 */
const WORK = 1_500; // ms

const mode = async (module: Promise<any>, name: string): Promise<Grammar> => ({ mode: (await module)[name] });

const html = async (): Promise<Grammar> => {
  const [{ parser, configureNesting }, javascript, css] = await Promise.all([
    import('@lezer/html'),
    import('@lezer/javascript'),
    import('@lezer/css'),
  ]);
  const wrap = configureNesting([
    { tag: 'script', parser: javascript.parser },
    { tag: 'style', parser: css.parser },
  ]);
  return { parser: parser.configure({ wrap }) };
};

const javascript = async (dialect: string): Promise<Grammar> => ({
  parser: (await import('@lezer/javascript')).parser.configure({ dialect }),
});

const clike = (name: string) => mode(import('@codemirror/legacy-modes/mode/clike'), name);

const GRAMMARS: Record<string, () => Promise<Grammar>> = {
  c: async () => await import('@lezer/cpp'),
  clojure: () => mode(import('@codemirror/legacy-modes/mode/clojure'), 'clojure'),
  cmake: () => mode(import('@codemirror/legacy-modes/mode/cmake'), 'cmake'),
  csharp: () => clike('csharp'),
  css: async () => await import('@lezer/css'),
  dart: () => clike('dart'),
  diff: () => mode(import('@codemirror/legacy-modes/mode/diff'), 'diff'),
  dockerfile: () => mode(import('@codemirror/legacy-modes/mode/dockerfile'), 'dockerFile'),
  elm: () => mode(import('@codemirror/legacy-modes/mode/elm'), 'elm'),
  erlang: () => mode(import('@codemirror/legacy-modes/mode/erlang'), 'erlang'),
  fsharp: () => mode(import('@codemirror/legacy-modes/mode/mllike'), 'fSharp'),
  go: async () => await import('@lezer/go'),
  groovy: () => mode(import('@codemirror/legacy-modes/mode/groovy'), 'groovy'),
  haskell: () => mode(import('@codemirror/legacy-modes/mode/haskell'), 'haskell'),
  html,
  ini: () => mode(import('@codemirror/legacy-modes/mode/properties'), 'properties'),
  java: async () => await import('@lezer/java'),
  javascript: () => javascript('jsx'),
  json: async () => await import('@lezer/json'),
  julia: () => mode(import('@codemirror/legacy-modes/mode/julia'), 'julia'),
  kotlin: () => clike('kotlin'),
  lua: () => mode(import('@codemirror/legacy-modes/mode/lua'), 'lua'),
  markdown: async () => await import('@lezer/markdown'),
  nginx: () => mode(import('@codemirror/legacy-modes/mode/nginx'), 'nginx'),
  objectivec: () => clike('objectiveC'),
  ocaml: () => mode(import('@codemirror/legacy-modes/mode/mllike'), 'oCaml'),
  perl: () => mode(import('@codemirror/legacy-modes/mode/perl'), 'perl'),
  php: async () => await import('@lezer/php'),
  powershell: () => mode(import('@codemirror/legacy-modes/mode/powershell'), 'powerShell'),
  protobuf: () => mode(import('@codemirror/legacy-modes/mode/protobuf'), 'protobuf'),
  python: async () => await import('@lezer/python'),
  r: () => mode(import('@codemirror/legacy-modes/mode/r'), 'r'),
  ruby: () => mode(import('@codemirror/legacy-modes/mode/ruby'), 'ruby'),
  rust: async () => await import('@lezer/rust'),
  sass: () => mode(import('@codemirror/legacy-modes/mode/sass'), 'sass'),
  scala: () => clike('scala'),
  shell: () => mode(import('@codemirror/legacy-modes/mode/shell'), 'shell'),
  sql: () => mode(import('@codemirror/legacy-modes/mode/sql'), 'standardSQL'),
  swift: () => mode(import('@codemirror/legacy-modes/mode/swift'), 'swift'),
  toml: () => mode(import('@codemirror/legacy-modes/mode/toml'), 'toml'),
  typescript: () => javascript('ts'),
  tsx: () => javascript('ts jsx'),
  xml: async () => await import('@lezer/xml'),
  yaml: async () => await import('@lezer/yaml'),
};

/** The line-by-line grammar of a language, for editors, or undefined if it has none. */
export async function modeOf(language: string): Promise<StreamParser<any> | undefined> {
  const grammar = Object.hasOwn(GRAMMARS, language) ? await GRAMMARS[language]() : undefined;
  return grammar && 'mode' in grammar ? grammar.mode : undefined;
}

/** Other names of languages, and their file extensions. */
const NAMES: Record<string, string> = {
  bash: 'shell',
  cc: 'c',
  cjs: 'javascript',
  clj: 'clojure',
  cljs: 'clojure',
  conf: 'ini',
  console: 'shell',
  cpp: 'c',
  'c++': 'c',
  cs: 'csharp',
  cxx: 'c',
  erl: 'erlang',
  fs: 'fsharp',
  gemspec: 'ruby',
  gradle: 'groovy',
  h: 'c',
  hpp: 'c',
  hs: 'haskell',
  htm: 'html',
  ipynb: 'json',
  jl: 'julia',
  js: 'javascript',
  json5: 'javascript',
  jsonc: 'javascript',
  jsonl: 'json',
  jsx: 'javascript',
  kt: 'kotlin',
  kts: 'kotlin',
  ksh: 'shell',
  less: 'css',
  m: 'objectivec',
  make: 'cmake',
  md: 'markdown',
  mdx: 'markdown',
  mjs: 'javascript',
  ml: 'ocaml',
  mts: 'typescript',
  cts: 'typescript',
  patch: 'diff',
  pl: 'perl',
  pm: 'perl',
  properties: 'ini',
  proto: 'protobuf',
  ps1: 'powershell',
  py: 'python',
  pyi: 'python',
  rake: 'ruby',
  rb: 'ruby',
  rs: 'rust',
  scss: 'css',
  sh: 'shell',
  svelte: 'html',
  svg: 'xml',
  ts: 'typescript',
  vue: 'html',
  webmanifest: 'json',
  xhtml: 'html',
  yml: 'yaml',
  zsh: 'shell',
};

const FILES: Record<string, string> = {
  'cmakelists.txt': 'cmake',
  'nginx.conf': 'nginx',
  containerfile: 'dockerfile',
  dockerfile: 'dockerfile',
  gemfile: 'ruby',
  makefile: 'cmake',
  rakefile: 'ruby',
};

/** The language of a file, by its name. Empty if it is not known. */
export function languageOf(path: string): string {
  const name = (path.split('/').pop() ?? '').toLowerCase();
  if (Object.hasOwn(FILES, name)) return FILES[name];
  return name.includes('.') ? known(name.split('.').pop() ?? '') : '';
}

function known(language: string) {
  const name = language.toLowerCase();
  const found = Object.hasOwn(NAMES, name) ? NAMES[name] : name;
  return Object.hasOwn(GRAMMARS, found) ? found : '';
}

/** Whether `highlight` colors code of this length and language, if that does not take too long. */
export const isColored = (code: string, language: string) => code.length <= LONGEST && known(language) !== '';

const loaded = new Map<string, Promise<Grammar>>();

function grammar(name: string): Promise<Grammar> {
  let found = loaded.get(name);
  if (!found) {
    found = GRAMMARS[name]();
    // The connection may have been lost, so the next call fetches the grammar again.
    found.catch(() => loaded.delete(name));
    loaded.set(name, found);
  }
  return found;
}

const plainLines = (code: string): Span[][] => code.split('\n').map((text) => (text ? [{ text, kind: '' }] : []));

/**
 * The lines of `code` in parts, each with its kind. Together they are the whole code. They are plain if the language is
 * not known, the code is too long or takes too much work, or the grammar can't be fetched.
 */
export async function highlight(code: string, language: string): Promise<Span[][]> {
  if (!isColored(code, language)) return plainLines(code);
  try {
    const found = await grammar(known(language));
    return 'mode' in found ? await byLines(code, found.mode) : await byTree(code, found.parser);
  } catch (error) {
    if (!(error instanceof TooMuch)) console.error(error);
    return plainLines(code);
  }
}

class TooMuch extends Error {}

/** Returns a function to call between steps. It yields to the event loop after each slice, and may throw `TooMuch`. */
function pacer() {
  let begin = performance.now();
  let worked = 0;
  return async () => {
    const took = performance.now() - begin;
    if (took < SLICE) return;
    worked += took;
    if (worked > WORK) throw new TooMuch();
    await new Promise((later) => setTimeout(later));
    begin = performance.now();
  };
}

/** The number of characters whose colors are found in one step. */
const STEP = 10_000;

async function byTree(code: string, parser: Parser): Promise<Span[][]> {
  const { highlightTree, tagHighlighter, tags } = await import('@lezer/highlight');
  const highlighter = tagHighlighter(
    Object.entries(tagsOf(tags)).flatMap(([kind, found]) => found.map((tag) => ({ tag, class: kind }))),
  );
  const pace = pacer();
  const parse = parser.startParse(code);
  let tree = parse.advance();
  for (; !tree; tree = parse.advance()) await pace();
  const lines = collector(code);
  for (let from = 0; from < code.length; from += STEP) {
    const to = Math.min(code.length, from + STEP);
    highlightTree(
      tree,
      highlighter,
      (start, end, kind) => lines.add(Math.max(start, from), Math.min(end, to), kind.split(' ').pop() ?? ''),
      from,
      to,
    );
    await pace();
  }
  return lines.end();
}

/** Splits a text into lines. `add` takes the parts that have a kind, in order. */
function collector(code: string) {
  const lines: Span[][] = [[]];
  let at = 0;
  const put = (text: string, kind: string) => {
    let from = 0;
    for (;;) {
      const end = text.indexOf('\n', from);
      const part = text.slice(from, end < 0 ? undefined : end);
      if (part) lines[lines.length - 1].push({ text: part, kind });
      if (end < 0) return;
      lines.push([]);
      from = end + 1;
    }
  };
  return {
    add(from: number, to: number, kind: string) {
      if (to <= at) return;
      if (from > at) put(code.slice(at, from), '');
      put(code.slice(Math.max(at, from), to), kind);
      at = to;
    },
    end() {
      put(code.slice(at), '');
      return lines;
    },
  };
}

async function byLines(code: string, found: StreamParser<any>): Promise<Span[][]> {
  const { StringStream } = await import('@codemirror/streamparser');
  const pace = pacer();
  const state = found.startState?.(2) ?? {};
  const lines: Span[][] = [];
  for (const line of code.split('\n')) {
    const spans: Span[] = [];
    lines.push(spans);
    if (!line) found.blankLine?.(state, 2);
    else if (line.length > LONGEST_LINE) spans.push({ text: line, kind: '' });
    else {
      const stream = new StringStream(line, 4, 2);
      for (let stuck = 0; !stream.eol(); ) {
        const style = found.token(stream, state);
        if (stream.pos === stream.start && ++stuck < 10) continue;
        if (stream.pos === stream.start) stream.pos++;
        stuck = 0;
        const kind = kindOf(style);
        const last = spans[spans.length - 1];
        const text = line.slice(stream.start, stream.pos);
        if (last?.kind === kind) last.text += text;
        else spans.push({ text, kind });
        stream.start = stream.pos;
      }
    }
    await pace();
  }
  return lines;
}
