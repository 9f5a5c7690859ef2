// Markdown blocks as tokens of the marked library. Pure. The work is bounded, even for malicious input. HTML is not
// parsed, but stays text.

import { Lexer, type Links, type Token, Tokenizer, type Tokens } from 'marked';

/**
 * Markup inside more than this many lists and quotes, or inside more than this many emphases and links, is plain text,
 * because the time grows with the depth.
 */
const DEEPEST = 8;

/** The maximum length of a block with markup, in characters. A longer block is plain text, unless it is code. */
const LONGEST = 20_000;

/**
 * The maximum length of one emphasis, in characters. The search for its end starts at each character that could begin
 * one, so without this limit, the time would grow with the square of the block's length.
 */
const SPAN = 500;

/** The maximum number of markers in one emphasis, of which each asterisk, underscore and tilde is one. The search for its
 * end looks at all of them. */
const MARKERS = 60;

/** The maximum number of searches for emphasis in a text. Many meaningless markers would take a long time. */
const SEARCHES = 2_000;

/** The characters with which a link, an image or a reference begins. */
const BRACKETS = new Set(['[', '!']);
const MARKS = new Set(['*', '_', '~']);
const IN_WORD = /[\p{L}\p{N}]/u;

/** How many characters are searched for the end of plain text, or for a mail address, which any of them could begin. */
const NEAR = 150;

/** The maximum number of columns in a table. A wider table is plain text. */
const COLUMNS = 60;

const WEB = /^(?:https?|ftp|www)/i;

class Bounded extends Tokenizer {
  _blocks = 0;
  _inlines = 0;
  _searches = 0;

  _inBlock<T>(tokenize: () => T): T | undefined {
    if (this._blocks > DEEPEST) return undefined;
    this._blocks++;
    try {
      return tokenize();
    } finally {
      this._blocks--;
    }
  }

  _inLine<T>(tokenize: () => T): T | undefined {
    if (this._inlines > DEEPEST) return undefined;
    this._inlines++;
    try {
      return tokenize();
    } finally {
      this._inlines--;
    }
  }

  /**
   * The result of `find` at the beginning of `text`, or undefined beyond the limits. `masked`: the whole text, of which
   * `text` is the rest, with links and code masked.
   */
  _spanning<T extends { raw: string }>(
    text: string,
    masked: string,
    find: (near: string, around: string) => T | undefined,
  ) {
    if (this._searches++ >= SEARCHES) return undefined;
    const at = masked.length - text.length;
    const most = reach(masked, at);
    const around = masked.slice(Math.max(0, at - NEAR), at + most);
    const found = this._inLine(() => find(text.slice(0, most), around));
    return found && found.raw.length < most ? found : undefined;
  }

  override blockquote(text: string) {
    return this._inBlock(() => super.blockquote(text));
  }

  override list(text: string) {
    return this._inBlock(() => super.list(text));
  }

  override table(text: string) {
    const table = super.table(text);
    return table && table.header.length > COLUMNS ? undefined : table;
  }

  override html() {
    return undefined;
  }

  /** Accepts only `<br>`, which agents write in tables because Markdown has no other line break there. */
  override tag(text: string): Tokens.Tag | undefined {
    if (text[0] !== '<') return undefined;
    const found = /^<br[ \t]*\/?>/i.exec(text);
    return found ? ({ type: 'br', raw: found[0] } as unknown as Tokens.Tag) : undefined;
  }

  override link(text: string) {
    return BRACKETS.has(text[0]) ? this._inLine(() => super.link(text)) : undefined;
  }

  override reflink(text: string, links: Links) {
    return BRACKETS.has(text[0]) ? this._inLine(() => super.reflink(text, links)) : undefined;
  }

  override emStrong(text: string, masked: string, before?: string) {
    if (text[0] !== '*' && (text[0] !== '_' || IN_WORD.test(before ?? ''))) return undefined;
    return this._spanning(text, masked, (near, around) => super.emStrong(near, around, before));
  }

  override del(text: string, masked: string, before?: string) {
    if (text[0] !== '~') return undefined;
    return this._spanning(text, masked, (near, around) => super.del(near, around, before));
  }

  override url(text: string) {
    return super.url(WEB.test(text) ? text : beginning(text));
  }

  override inlineText(text: string) {
    return super.inlineText(beginning(text));
  }
}

/** The maximum length of an emphasis that begins at this position of a text, in characters. */
function reach(masked: string, at: number) {
  let markers = 0;
  for (let n = 0; n < SPAN; n++) if (MARKS.has(masked[at + n]) && ++markers > MARKERS) return n;
  return SPAN;
}

/** The beginning of a text, up to the last blanks in the first `NEAR` characters, to avoid cutting a word. */
function beginning(text: string) {
  if (text.length <= NEAR) return text;
  let end = text.lastIndexOf(' ', NEAR);
  while (end > 0 && text[end - 1] === ' ') end--;
  return text.slice(0, end > 0 ? end : NEAR);
}

/** The blocks of a text, which must not contain carriage returns. Its link definitions are added to `links`. */
export function tokensOf(text: string, links: Links): Token[] {
  const lexer = new Lexer({ gfm: true, tokenizer: new Bounded() });
  lexer.tokens.links = links;
  lexer.blockTokens(text, lexer.tokens);
  for (const { src, tokens } of lexer.inlineQueue) {
    if (src.length > LONGEST) tokens.push({ type: 'text', raw: src, text: src });
    else lexer.inlineTokens(src, tokens);
  }
  return [...lexer.tokens];
}
