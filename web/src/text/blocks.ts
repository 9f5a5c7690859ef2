// An agent's Markdown as tokens of marked, one for each block. Its lexer is loaded on its own: on a slow network the message
// box is usable before it has come.

import type { Links, Token, Tokens } from 'marked';

let lexer: typeof import('./lexer.ts') | undefined;
let loading: Promise<void> | undefined;

/** Whether Markdown can be read. Without its lexer a text is one paragraph. */
export const isLoaded = () => lexer !== undefined;

/** Loads the lexer. It never fails: where there is no lexer, it is asked for again with the next call. */
export function load() {
  loading ??= import('./lexer.ts').then(
    (loaded) => {
      lexer = loaded;
    },
    () => {
      loading = undefined;
    },
  );
  return loading;
}

const plain = (text: string): Tokens.Paragraph => ({
  type: 'paragraph',
  raw: text,
  text,
  tokens: [{ type: 'text', raw: text, text } as Token],
});

const lines = (text: string) => (text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text);

const noLinks = (): Links => Object.create(null);

/** The blocks of a text. `links`: the definitions of links that are known; those of the text are added. */
export function blocksOf(text: string, links = noLinks()): Token[] {
  const source = lines(text);
  if (!lexer) return [plain(source)];
  try {
    return lexer.tokensOf(source, links);
  } catch (error) {
    console.error(error);
    return [plain(source)];
  }
}

/**
 * A text that grows. Its finished blocks stay the same objects, and only what is behind them is read again, so that the
 * time does not grow with the square of the length.
 */
export class GrowingBlocks {
  /** The same array, changed. */
  blocks: Token[] = [];
  /** So many blocks are finished. */
  finished = 0;
  private _text = '';
  private _begin = 0;
  private _hasReturns = false;
  private _links = noLinks();

  /** @param whole the text so far. One that does not continue the text before is read from its beginning. */
  update(whole: string) {
    // Only what is behind the finished blocks is looked at: the whole each time would take the square of the length.
    this._hasReturns ||= whole.includes('\r', this._begin);
    const text = this._hasReturns ? lines(whole) : whole;
    const open = this._text.slice(this._begin);
    if (text.length === this._text.length && text.endsWith(open) && this.blocks.length) return;
    if (text.length < this._text.length || !text.startsWith(open, this._begin)) {
      this.blocks = [];
      this.finished = this._begin = 0;
      this._links = noLinks();
    }
    this._text = text;
    const fresh = blocksOf(text.slice(this._begin), this._links);
    this.blocks.length = this.finished;
    this.blocks.push(...fresh);
    // The last one may still become another: a paragraph a heading or a table, a list a longer one.
    let last = fresh.length - 1;
    while (last > 0 && fresh[last].type === 'space') last--;
    for (const { raw } of fresh.slice(0, Math.max(0, last))) {
      if (!text.startsWith(raw, this._begin)) break; // not as it was written: the place behind it is not known
      this._begin += raw.length;
      this.finished++;
    }
  }
}
