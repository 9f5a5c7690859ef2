// An agent's Markdown as tokens of the marked library, one for each block. The lexer is loaded separately, so that on a
// slow network the message box is usable before it arrives.

import type { Links, Token, Tokens } from 'marked';

let lexer: typeof import('./lexer.ts') | undefined;
let loading: Promise<void> | undefined;

/** Whether the lexer is loaded. Without it, a text is one paragraph. */
export const isLoaded = () => lexer !== undefined;

/** Loads the lexer. Never fails: if the lexer can't be loaded, the next call tries again. */
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

/** The blocks of a text. `links`: the link definitions that are known, to which those in the text are added. */
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
 * The blocks of a text that grows. Finished blocks stay the same objects, and only the text after them is parsed again,
 * so that the time does not grow with the square of the length.
 */
export class GrowingBlocks {
  /** Always the same array, which `update` changes. */
  blocks: Token[] = [];
  /** The number of finished blocks. */
  finished = 0;
  private _text = '';
  private _begin = 0;
  private _hasReturns = false;
  private _links = noLinks();

  /** @param whole the text so far. If it does not continue the previous text, it is parsed from its beginning. */
  update(whole: string) {
    // Only the text after the finished blocks is searched, because with all of it, the time would grow quadratically.
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
    // The last block may still change: a paragraph can become a heading or a table, and a list can become longer.
    let last = fresh.length - 1;
    while (last > 0 && fresh[last].type === 'space') last--;
    for (const { raw } of fresh.slice(0, Math.max(0, last))) {
      if (!text.startsWith(raw, this._begin)) break; // if `raw` differs from the text, the block's end is not known
      this._begin += raw.length;
      this.finished++;
    }
  }
}
