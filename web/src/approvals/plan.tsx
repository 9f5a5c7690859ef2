// A plan as Markdown, block by block, with a comment on each block where comments are collected.

import type { Token } from 'marked';
import { useMemo, useRef, useState } from 'preact/hooks';

import { Comment, type Comments } from '../diff/comment.tsx';
import { blocksOf } from '../text/blocks.ts';
import { Blocks } from '../text/markdown.tsx';
import { cutAt, Parts } from '../text/plain.tsx';
import { size } from '../ui/dom.ts';
import { ShowAll } from '../ui/must.tsx';

/** Characters that are drawn as Markdown; the rest is drawn as it is. */
const MARKDOWN = 20_000;

/** Characters of a block that a comment quotes. */
const QUOTED = 80;

/** The name under which comments on a plan are collected. */
export const PLAN = '';

export function Plan({ text, comments }: { text: string; comments?: Comments }) {
  const cut = cutAt(text, MARKDOWN);
  const blocks = useMemo(
    () => blocksOf(text.slice(0, cut)).filter(({ type }) => type !== 'space' && type !== 'def'),
    [text, cut],
  );
  const [isOpen, setOpen] = useState(false);
  if (!text) return <p class="hint">This request doesn’t contain a plan.</p>;
  return (
    <div class="plan">
      {blocks.map((block, index) => (
        <PlanBlock key={index} token={block} number={index + 1} comments={comments} />
      ))}
      {cut < text.length && !isOpen && (
        <ShowAll label={`Show all (${size(text.length)}), the rest as plain text`} onOpen={() => setOpen(true)} />
      )}
      {isOpen && (
        <div class="words">
          <Parts text={text.slice(cut)} />
        </div>
      )}
    </div>
  );
}

function PlanBlock({ token, number, comments }: { token: Token; number: number; comments?: Comments }) {
  const [isCommented, setCommented] = useState(() => comments?.get(PLAN, String(number)) !== undefined);
  const place = useRef<HTMLDivElement>(null);
  const quote = () => (place.current?.textContent ?? '').replace(/\s+/g, ' ').trim().slice(0, QUOTED);
  const label = `Comment on part ${number} of the plan`;
  return (
    <div class="plan-block">
      <div ref={place} class="markdown">
        <Blocks blocks={[token]} />
      </div>
      {comments && (
        <button type="button" class="comment" aria-label={label} onClick={() => setCommented(true)}>
          +
        </button>
      )}
      {isCommented && comments && (
        <Comment
          label={label}
          text={comments.get(PLAN, String(number)) ?? ''}
          change={(words) => comments.set(PLAN, String(number), words, quote())}
          close={() => setCommented(false)}
        />
      )}
    </div>
  );
}
