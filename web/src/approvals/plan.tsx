// A plan as Markdown, block by block, with a comment button on each block if comments are collected.

import type { Token } from 'marked';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { Comment, type Comments } from '../diff/comment.tsx';
import { blocksOf } from '../text/blocks.ts';
import { decoded } from '../text/entities.ts';
import { Blocks } from '../text/markdown.tsx';
import { cutAt, Parts } from '../text/plain.tsx';
import { isBeyond, textSize } from '../ui/dom.ts';
import { Text } from '../ui/elements.tsx';
import { ShowAll } from '../ui/must.tsx';

/** The maximum number of characters that are drawn as Markdown. The rest is drawn as plain text. */
const MARKDOWN = 20_000;

/** The maximum number of characters that a comment quotes from its block. */
const QUOTED = 80;

/** The name under which comments on a plan are collected. */
export const PLAN = '';

type PlanProps = {
  text: string;
  comments?: Comments;
  /** Called when part of the plan that may have been in view is drawn in another form. */
  redrawn?: () => void;
  /** The form in which each block is drawn, so that it is known when the plan is drawn again. */
  forms?: Forms;
};

/** For each block, by its number, whether its source is shown instead of its Markdown. */
export type Forms = Map<number, boolean>;

export function Plan({ text, comments, redrawn, forms }: PlanProps) {
  const cut = cutAt(text, MARKDOWN);
  const blocks = useMemo(() => blocksOf(text.slice(0, cut)).filter(({ type }) => type !== 'space'), [text, cut]);
  const [isOpen, setOpen] = useState(false);
  if (!text) return <p class="hint">This request doesn’t contain a plan.</p>;
  return (
    <div class="plan">
      {blocks.map((block, index) => (
        <PlanBlock key={index} token={block} number={index + 1} comments={comments} redrawn={redrawn} forms={forms} />
      ))}
      {cut < text.length && !isOpen && (
        <ShowAll label={`Show all (${textSize(text)}), the rest as plain text`} onOpen={() => setOpen(true)} />
      )}
      {isOpen && (
        <div class="words">
          <Parts text={text.slice(cut)} />
        </div>
      )}
    </div>
  );
}

/** Matches the number of a list item, which is not in the text of the page, because the browser numbers the items. */
const NUMBER = /^[ \t>*+-]*\d{1,9}[.)](?=\s)/gm;

const LINE_BREAK = /<br[ \t]*\/?>/gi;

// Letters and digits, and marks that are possibly not emphasis: the stars in `5*3*2` and `build/*tmp*/cache`.
const READ = /[\p{L}\p{N}]+|(?<=[\p{L}\p{N}/])[*~_\\]+(?=[\p{L}\p{N}/])/gu;

const letters = (text: string) => (text.match(READ) ?? []).join('').toLowerCase();

/**
 * The possible readings of a block's source: what looks like a list number, a line break or a character reference is
 * plain text in code.
 * @param hasReferences whether the drawn text contains references; if so, references in the source are not decoded
 */
function readings(source: string, hasReferences: boolean) {
  const ways = [(text: string) => text.replace(NUMBER, ''), (text: string) => text.replace(LINE_BREAK, '')];
  if (!hasReferences) ways.push(decoded);
  return new Set(ways.reduce((found, read) => found.concat(found.map(read)), [source]).map(letters));
}

/** Whether the text in `drawn` matches one of the readings of a block's source. */
function isDrawn(source: string, drawn: HTMLElement) {
  let text = '';
  const nodes = document.createTreeWalker(drawn, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  for (let node = nodes.nextNode(); node; node = nodes.nextNode())
    if (node instanceof HTMLInputElement) text += node.checked ? 'x' : '';
    else if (node instanceof window.Text && !node.parentElement?.closest('button:not(.file-link)')) text += node.data;
  return readings(source, decoded(text) !== text).has(letters(text));
}

/** Matches a bar between two cells, but not a bar that a backslash escapes. */
const BAR = /(?<=(?:^|[^\\])(?:\\\\)*)\|/;

/** Whether a block contains a table with a row that has more cells than the header. The surplus cells are not drawn,
 * which `isDrawn` does not notice if they contain no letters or digits. */
function losesCells(token: any): boolean {
  if (token.type !== 'table') return [...(token.tokens ?? []), ...(token.items ?? [])].some(losesCells);
  const [, , ...rows] = token.raw.trim().split('\n');
  return rows.some((row: string) => {
    const cells = row.trim().split(BAR);
    return cells.slice(token.header.length + (cells[0] ? 0 : 1)).some((cell) => cell.trim());
  });
}

type BlockProps = Omit<PlanProps, 'text'> & { token: Token; number: number };

function PlanBlock({ token, number, comments, redrawn, forms }: BlockProps) {
  const [isCommented, setCommented] = useState(() => comments?.get(PLAN, String(number)) !== undefined);
  const place = useRef<HTMLDivElement>(null);
  // Once its source has been shown, a block keeps that form, also after an editor has replaced the plan for a while.
  const [isRaw, setRaw] = useState(() => forms?.get(number) === true);
  // Markdown can contain text that is not drawn, such as a table row with more cells than the table has columns.
  useLayoutEffect(() => {
    const drawn = place.current;
    const takes = (form: boolean) => {
      const before = forms?.get(number);
      forms?.set(number, form);
      if (form) setRaw(true);
      if (before !== undefined && before !== form) queueMicrotask(() => redrawn?.());
    };
    if (isRaw || !drawn) return takes(isRaw);
    takes(losesCells(token) || !isDrawn(token.raw, drawn) || isBeyond(drawn));
    // A table with many columns may fit until the window is made narrower.
    const resized = new ResizeObserver(() => {
      if (isBeyond(drawn)) takes(true);
    });
    resized.observe(drawn);
    return () => resized.disconnect();
  }, [token, isRaw]);
  const quote = () => (place.current?.textContent ?? '').replace(/\s+/g, ' ').trim().slice(0, QUOTED);
  const label = `Comment on part ${number} of the plan`;
  return (
    <div class="plan-block">
      <div ref={place} class="markdown">
        {isRaw ? (
          <p class="raw">
            <Text>{token.raw}</Text>
          </p>
        ) : (
          <Blocks blocks={[token]} whole />
        )}
      </div>
      {comments && (
        <button type="button" class="comment" aria-label={label} onClick={() => setCommented(true)}>
          +
        </button>
      )}
      {isCommented && comments && (
        <Comment
          label={label}
          placeholder="Add a comment (sent with “Keep planning”)"
          text={comments.get(PLAN, String(number)) ?? ''}
          change={(words) => comments.set(PLAN, String(number), words, quote())}
          close={() => setCommented(false)}
        />
      )}
    </div>
  );
}
