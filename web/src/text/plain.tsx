// Plain texts of any length, drawn a part at a time, so that no text from an agent can block the page.

import type { ComponentChild } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';

import { textSize } from '../ui/dom.ts';
import { Button, Text } from '../ui/elements.tsx';
import { useMust } from '../ui/must.tsx';

/** The maximum number of characters that are drawn in one frame. */
const STEP = 8_000;

/** The number of characters that are shown before the user asks for more. */
export const SHOWN = 20_000;

/** Makes a scrollable element focusable, because keys scroll only the element that has the focus. */
export const scrolls = (element: HTMLElement | null) => {
  if (element) element.tabIndex = 0;
};

/**
 * Where to cut a text to at most `most` characters: at the end of a line or of a word if possible, never inside a
 * character.
 */
export function cutAt(text: string, most: number) {
  if (text.length <= most) return text.length;
  for (const end of ['\n', ' ']) {
    const at = text.lastIndexOf(end, most - 1) + 1;
    if (at > most / 2) return at;
  }
  return /[\ud800-\udbff]/.test(text[most - 1]) ? most - 1 : most;
}

/** Prevents the card that contains it from being accepted or decided on while a part is still to be drawn. */
function Unfinished() {
  useMust();
  return null;
}

const plain = (part: string) => <Text>{part}</Text>;
const code = (part: string) => <Text code>{part}</Text>;

/**
 * Draws all of a text, one part per frame.
 * @param draw draws a part that begins at position `at`; has to be the same function each time
 */
export function Parts({
  text,
  code: isCode,
  draw = isCode ? code : plain,
}: {
  text: string;
  code?: boolean;
  draw?: (part: string, at: number) => ComponentChild;
}) {
  const parts = useMemo(() => {
    const found = [];
    for (let at = 0; at < text.length; ) {
      const end = at + cutAt(text.slice(at, at + STEP + 1), STEP);
      found.push({ at, part: text.slice(at, end) });
      at = end;
    }
    return found;
  }, [text]);
  // The elements are kept, so that no part is drawn twice.
  const drawn = useMemo<ComponentChild[]>(() => [], [parts, draw]);
  const [count, setCount] = useState(1);
  useEffect(() => {
    if (count >= parts.length) return;
    const frame = requestAnimationFrame(() => setCount(count + 1));
    return () => cancelAnimationFrame(frame);
  }, [count, parts]);
  for (const { at, part } of parts.slice(drawn.length, count))
    drawn.push(
      parts.length === 1 ? (
        draw(part, at)
      ) : (
        <span key={at} class="part">
          {draw(part, at)}
        </span>
      ),
    );
  return (
    <>
      {[...drawn]}
      {count < parts.length && <Unfinished />}
    </>
  );
}

/** The beginning of a text and a button for the rest. */
export function LongPlain({
  text,
  as: Tag = 'div',
  class: style,
  most = SHOWN,
}: {
  text: string;
  as?: 'div' | 'pre';
  class: string;
  most?: number;
}) {
  const [isWhole, setWhole] = useState(most === Number.POSITIVE_INFINITY);
  const cut = isWhole ? text.length : cutAt(text, most);
  return (
    <>
      <Tag class={style} ref={Tag === 'pre' ? scrolls : undefined}>
        {cut === text.length && text.length > STEP ? <Parts text={text} /> : <Text>{text.slice(0, cut)}</Text>}
      </Tag>
      {cut < text.length && (
        <Button label={`Show all (${textSize(text)})`} class="quiet" onClick={() => setWhole(true)} />
      )}
    </>
  );
}
