// An agent's Markdown as elements. It is never turned into HTML, so what looks like a tag is text. A link leads to an
// http, https or mailto address, or to a file in the project. Any other link is text. Images are links, so that no
// server learns that somebody looked at them.

import type { Token, Tokens } from 'marked';
import { Component, type ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { Text } from '../ui/elements.tsx';
import { blocksOf } from './blocks.ts';
import { CodeBlock } from './code.tsx';
import { decoded } from './entities.ts';
import { harmless } from './harmless.ts';
import { Parts, scrolls } from './plain.tsx';

/** Opens a file in the project, at a line if one is given. */
export type OpenFile = (path: string, line?: number) => void;

/**
 * @property whole also shows what is usually hidden: link addresses, link definitions, all words after code fences
 * @property isLinked whether the text is part of a link, which can’t contain another link
 */
type World = { openFile?: OpenFile; live?: boolean; whole?: boolean; isLinked?: boolean };

/** The number of characters after which no further block is drawn in the same frame. */
const STEP = 8_000;

/** @param openFile without it, links to files are shown as text */
export function Markdown({ text, openFile }: { text: string; openFile?: OpenFile }) {
  const blocks = useMemo(() => blocksOf(text), [text]);
  const [drawn, setDrawn] = useState(() => step(blocks, 0));
  const shown = Math.min(drawn, blocks.length);
  useEffect(() => {
    if (shown >= blocks.length) return;
    const frame = requestAnimationFrame(() => setDrawn(step(blocks, shown)));
    return () => cancelAnimationFrame(frame);
  }, [blocks, shown]);
  return <Blocks blocks={blocks.slice(0, shown)} openFile={openFile} />;
}

/** The number of blocks that are drawn after the next frame, if `from` blocks are already drawn. */
function step(blocks: Token[], from: number) {
  let [at, length] = [from, 0];
  while (at < blocks.length && length < STEP) length += blocks[at++].raw.length;
  return at;
}

/** Draws blocks one below the other. Blocks that are the same objects as before are not drawn again. */
export function Blocks({ blocks, openFile, live, whole }: World & { blocks: Token[] }) {
  return (
    <>
      {blocks.map((token, index) => (
        <Block key={index} token={token} openFile={openFile} live={live && index === blocks.length - 1} whole={whole} />
      ))}
    </>
  );
}

class Block extends Component<World & { token: Token }> {
  override shouldComponentUpdate({ token, live, openFile }: World & { token: Token }) {
    return token !== this.props.token || live !== this.props.live || openFile !== this.props.openFile;
  }

  render() {
    const { token, ...world } = this.props;
    return block(token as Tokens.Generic, world);
  }
}

/** The name of a code block's language, without the words that may follow it; with `whole`, the complete text. */
const languageOf = (info: string, { whole }: World) => (whole ? info : (/^[\w+#.-]*/.exec(info)?.[0] ?? ''));

const all = (tokens: Token[] | undefined, world: World) => (tokens ?? []).map((token) => block(token, world));

function block(token: Tokens.Generic, world: World): ComponentChildren {
  switch (token.type) {
    case 'space':
      return null;
    case 'def':
      return world.whole ? (
        <p class="hint">
          <Text>{token.raw.trim()}</Text>
        </p>
      ) : null;
    case 'heading': {
      // At least `h3`, below the page's own headings. Headings are not shifted, because a message that begins with "##"
      // would skip a level.
      const Heading = `h${Math.min(6, Math.max(3, token.depth))}` as 'h3';
      return <Heading class={`level-${token.depth}`}>{inline(token.tokens, world)}</Heading>;
    }
    case 'hr':
      return <hr />;
    case 'code':
      return <CodeBlock text={token.text} language={languageOf(token.lang ?? '', world)} live={world.live} />;
    case 'blockquote':
      return <blockquote>{all(token.tokens, world)}</blockquote>;
    case 'list':
      return list(token as Tokens.List, world);
    case 'table':
      return table(token as Tokens.Table, world);
    case 'checkbox':
      return <input type="checkbox" disabled checked={token.checked} aria-label={token.checked ? 'Done' : 'To do'} />;
    case 'text':
      return token.tokens ? inline(token.tokens, world) : <Text>{decoded(token.text)}</Text>;
    default:
      return <p>{token.tokens ? inline(token.tokens, world) : <Text>{token.raw}</Text>}</p>;
  }
}

function list({ ordered, start, items }: Tokens.List, world: World) {
  const List = ordered ? 'ol' : 'ul';
  return (
    <List start={ordered && start !== 1 ? Number(start) : undefined}>
      {items.map(({ task, tokens }) => (
        <li class={task ? 'task' : undefined}>{all(tokens, world)}</li>
      ))}
    </List>
  );
}

const ALIGNED: Record<string, string> = { center: 'middle', right: 'right' };

function table({ header, rows }: Tokens.Table, world: World) {
  const cell = (Cell: 'th' | 'td') => (one: Tokens.TableCell) => (
    <Cell class={ALIGNED[one.align ?? '']}>{inline(one.tokens, world)}</Cell>
  );
  return (
    <section class="table" ref={scrolls} aria-label="Table">
      <table>
        <thead>
          <tr>{header.map(cell('th'))}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>{row.map(cell('td'))}</tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Draws inline tokens. Adjacent text tokens are joined, because the lexer may have cut a text at any character. */
function inline(tokens: Token[] | undefined, world: World): ComponentChildren[] {
  const found: ComponentChildren[] = [];
  let text = '';
  const flush = () => {
    if (text) found.push(text.length > STEP ? <Parts text={text} /> : <Text>{text}</Text>);
    text = '';
  };
  for (const token of (tokens ?? []) as Tokens.Generic[]) {
    const plain = plainText(token);
    if (plain !== undefined) text += plain;
    else {
      flush();
      found.push(element(token, world));
    }
  }
  flush();
  return found;
}

/** The text that a token adds to the text around it, or undefined if the token is an element. */
function plainText(token: Tokens.Generic) {
  if (token.type === 'text' && !token.tokens) return decoded(token.text);
  if (token.type === 'escape') return token.text as string;
  if (token.type === 'br') return '\n';
  return token.type === 'html' ? token.raw : undefined;
}

function element(token: Tokens.Generic, world: World): ComponentChildren {
  switch (token.type) {
    case 'strong':
      return <strong>{inline(token.tokens, world)}</strong>;
    case 'em':
      return <em>{inline(token.tokens, world)}</em>;
    case 'del':
      return <del>{inline(token.tokens, world)}</del>;
    case 'codespan':
      return codeSpan(token.text, world);
    case 'link':
    case 'image':
      return world.isLinked ? <Text>{linkAsText(token, world)}</Text> : link(token, world);
    default:
      return token.tokens ? inline(token.tokens, world) : <Text>{token.raw}</Text>;
  }
}

/** `src/bridge.py:11`. A folder or a line is required, because a word that contains a period may not be a file. */
const NAMED_FILE = /^(?=.*(?:\/|:\d))[\w@~+.-][\w@~+./-]*\.[A-Za-z]\w{0,9}(?::\d{1,7})?(?:[:-]\d{1,7})?$/;

function codeSpan(text: string, { openFile }: World) {
  const code = (
    <code>
      <Text code>{text}</Text>
    </code>
  );
  const file = openFile && text.length < 300 && NAMED_FILE.test(text) ? fileOf(text) : undefined;
  return file && openFile ? <FileLink {...file} openFile={openFile} children={code} /> : code;
}

function link(token: Tokens.Generic, world: World): ComponentChildren {
  const href = hrefOf(token);
  const words =
    token.type === 'image' || !token.tokens?.length ? (
      <Text>{wordsOf(token) || href}</Text>
    ) : (
      inline(token.tokens, { ...world, openFile: undefined, isLinked: true })
    );
  const url = addressOf(href);
  if (url) {
    const found = (
      <a href={url} title={harmless(url)} target="_blank" rel="noopener noreferrer">
        {words}
      </a>
    );
    const hidden = hiddenOf(token, world);
    return hidden ? [found, <Text>{hidden}</Text>] : found;
  }
  const file = world.openFile && fileOf(href);
  if (file && world.openFile) return <FileLink {...file} openFile={world.openFile} children={words} />;
  return <Text>{token.raw}</Text>;
}

/**
 * A link or an image inside a link, as text: its words or, if it has none, its address. With `whole`, its address and
 * its title are added.
 */
const linkAsText = (token: Tokens.Generic, world: World) => (wordsOf(token) || hrefOf(token)) + hiddenOf(token, world);

const hrefOf = (token: Tokens.Generic): string => (token.autolink ? token.href : decoded(token.href));

/** The parts of a link that its words don’t show. Empty unless `world.whole`. */
function hiddenOf(token: Tokens.Generic, world: World) {
  const href = hrefOf(token);
  if (!world.whole || token.autolink || wordsOf(token) === href) return '';
  return ` (${href}${token.title ? ` “${decoded(token.title)}”` : ''})`;
}

/** The text of a token, without its emphasis. */
function wordsOf(token: Tokens.Generic): string {
  if (!token.tokens?.length) return plainText(token) ?? decoded(token.text ?? '');
  return (token.tokens as Tokens.Generic[]).map(wordsOf).join('');
}

/** The address of a link, if it leads out of the web UI with a protocol that can't run code; otherwise undefined. */
export function addressOf(href: string) {
  let url: URL;
  try {
    url = new URL(href);
  } catch {
    return undefined;
  }
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : undefined;
}

/** The file and the line that a relative link names: `src/app.js#L3`, `src/app.js:3`, or undefined for other links. */
export function fileOf(href: string): { path: string; line?: number } | undefined {
  const [, name, line] =
    /^(.*?)(?:#L(\d{1,7})(?:C\d+)?(?:-L?\d+(?:C\d+)?)?|:(\d{1,7})(?:[:-]\d+)?)?$/s.exec(href) ?? [];
  const at = line ?? /:(\d{1,7})(?:[:-]\d+)?$/.exec(href)?.[1];
  if (!name || /^[a-z][a-z\d+.-]*:|^\/\/|^[#?]|[\0\n]/i.test(name)) return undefined;
  let path: string;
  try {
    path = decodeURIComponent(name);
  } catch {
    path = name;
  }
  return { path: path.replace(/^(\.\/)+/, ''), line: at ? Number(at) : undefined };
}

/** A button with the name of a file, which opens the file. */
export function FileLink({
  path,
  line,
  openFile,
  children,
}: {
  path: string;
  line?: number;
  openFile: OpenFile;
  children: ComponentChildren;
}) {
  return (
    <button
      type="button"
      class="file-link"
      title={harmless(line ? `${path}, line ${line}` : path)}
      onClick={(event) => {
        event.preventDefault();
        event.stopPropagation();
        openFile(path, line);
      }}
    >
      {children}
    </button>
  );
}
