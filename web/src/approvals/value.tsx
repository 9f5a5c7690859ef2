// A value in a tool's input, with wrapped lines. If it is long, a button shows the rest, and has to be pressed before
// the request can be accepted.

import { useCallback, useMemo, useState } from 'preact/hooks';

import { inShortPieces } from '../text/harmless.ts';
import { cutAt, Parts } from '../text/plain.tsx';
import { counted, textSize } from '../ui/dom.ts';
import { Text } from '../ui/elements.tsx';
import { ShowAll } from '../ui/must.tsx';
import type { Risk } from '../protocol/messages.ts';

/** A value with more characters or lines than this is cut until "Show all" is pressed. */
const SHOWN = 3000;
const LINES = 50;

/** The number of characters of a text that are measured. A longer text is always cut. */
const STEP = 8000;

/** This list is shared, so that the default doesn't invalidate memos. */
const NONE: Risk[] = [];

export function Value({ text, risks = NONE }: { text: string; risks?: Risk[] }) {
  const shown = useMemo(() => shownOf(text), [text]);
  const [isOpen, setOpen] = useState(false);
  const draw = useCallback((part: string, at: number) => <Marked text={part} offset={at} risks={risks} />, [risks]);
  const whole = shown === text.length;
  const value = (
    <pre class="value">
      <code>{isOpen ? <Parts text={text} draw={draw} /> : draw(text.slice(0, shown), 0)}</code>
    </pre>
  );
  if (whole) return value;
  const label = `Show all (${counted(text.split('\n').length, 'line')}, ${textSize(text)})`;
  return (
    <div class="cut">
      {value}
      {!isOpen && <ShowAll label={label} onOpen={() => setOpen(true)} />}
    </div>
  );
}

/** How many characters of a text are shown at first. */
function shownOf(text: string) {
  const drawn = inShortPieces(text.slice(0, STEP))
    .map((piece) => piece.text)
    .join('');
  if (text.length <= STEP && drawn.length <= SHOWN && drawn.split('\n', LINES + 1).length <= LINES) return text.length;
  let at = 0;
  for (let n = 0; n < LINES - 10; n++) {
    const end = text.indexOf('\n', at);
    if (end < 0 || end >= SHOWN) return cutAt(text, SHOWN - 1);
    at = end + 1;
  }
  return at;
}

/** A text with its risks marked. `offset`: where it begins in the text that the risks are about. */
export function Marked({ text, risks = [], offset = 0 }: { text: string; risks?: Risk[]; offset?: number }) {
  const pieces = [];
  let at = 0;
  const inside = risks
    .map(({ start = 0, end = 0, text: words }) => ({ start: start - offset, end: end - offset, words }))
    .filter(({ start, end }) => end > 0 && start < text.length)
    .sort((a, b) => a.start - b.start);
  for (const { start, end, words } of inside) {
    const from = Math.max(start, at);
    const to = Math.min(end, text.length);
    if (to <= from) continue;
    pieces.push(
      <Text key={at} code>
        {text.slice(at, from)}
      </Text>,
      <mark key={`risk-${from}`} class="risk" title={words}>
        <Text code>{text.slice(from, to)}</Text>
      </mark>,
    );
    at = to;
  }
  pieces.push(
    <Text key="rest" code>
      {text.slice(at)}
    </Text>,
  );
  return <>{pieces}</>;
}
