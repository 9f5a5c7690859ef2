// A plan as Markdown, block by block, with a comment on each block where comments are collected.

import type { Token } from 'marked';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { Comment, type Comments } from '../diff/comment.tsx';
import { blocksOf } from '../text/blocks.ts';
import { decoded } from '../text/entities.ts';
import { Blocks } from '../text/markdown.tsx';
import { cutAt, Parts } from '../text/plain.tsx';
import { size } from '../ui/dom.ts';
import { Text } from '../ui/elements.tsx';
import { ShowAll } from '../ui/must.tsx';

/** Characters that are drawn as Markdown; the rest is drawn as it is. */
const MARKDOWN = 20_000;

/** Characters of a block that a comment quotes. */
const QUOTED = 80;

/** The name under which comments on a plan are collected. */
export const PLAN = '';

export function Plan({ text, comments }: { text: string; comments?: Comments }) {
  const cut = cutAt(text, MARKDOWN);
  const blocks = useMemo(() => blocksOf(text.slice(0, cut)).filter(({ type }) => type !== 'space'), [text, cut]);
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

/** The number of an item of a list: what is drawn counts from the first one. */
const NUMBER = /^[ \t>*+-]*\d{1,9}[.)](?=\s)/gm;

/** Whether letters or digits of a block's source are missing in what is drawn of it. */
function lacks(source: string, drawn: HTMLElement) {
  const left = new Map<string, number>();
  const count = (text: string, by: number) => {
    for (const letter of text.match(/[\p{L}\p{N}]/gu) ?? []) left.set(letter, (left.get(letter) ?? 0) + by);
  };
  const texts = document.createTreeWalker(drawn, NodeFilter.SHOW_TEXT);
  while (texts.nextNode())
    if (!texts.currentNode.parentElement?.closest('button:not(.file-link)'))
      count(texts.currentNode.nodeValue ?? '', 1);
  count(decoded(source.replace(NUMBER, '')), -1);
  for (const box of drawn.querySelectorAll<HTMLInputElement>('input[type=checkbox]')) if (box.checked) count('x', 1);
  return [...left.values()].some((number) => number < 0);
}

function PlanBlock({ token, number, comments }: { token: Token; number: number; comments?: Comments }) {
  const [isCommented, setCommented] = useState(() => comments?.get(PLAN, String(number)) !== undefined);
  const place = useRef<HTMLDivElement>(null);
  const [isRaw, setRaw] = useState(false);
  // Markdown has ways to write what is not drawn, such as a cell more than a table has columns.
  useLayoutEffect(() => {
    if (!isRaw && place.current && lacks(token.raw, place.current)) setRaw(true);
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
          text={comments.get(PLAN, String(number)) ?? ''}
          change={(words) => comments.set(PLAN, String(number), words, quote())}
          close={() => setCommented(false)}
        />
      )}
    </div>
  );
}
