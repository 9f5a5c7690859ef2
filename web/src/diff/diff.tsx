// The view of a diff: one or two columns, wrapped or unwrapped lines, unchanged lines on demand, and comments on lines.

import type { Signal } from '@preact/signals';
import { useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { useColors } from '../text/code.tsx';
import { languageOf, type Span } from '../text/highlight.ts';
import { Parts } from '../text/plain.tsx';
import { counted } from '../ui/dom.ts';
import { Button, Text } from '../ui/elements.tsx';
import { ShowAll, Unopened } from '../ui/must.tsx';
import { compare, type Difference, type Hunk, type Side } from './lines.ts';
import { Comment, type Comments, type Notes } from './comment.tsx';
import { blocksOf, FIRST, type GapOf, type Line, linesIn, LONGEST, STEP } from './rows.ts';
import { inColumns, isRoomy, isSplit, isWrapped, setSplit, setWrapped } from './style.ts';

/** The number of rows above which the browser lays out only the rows near the viewport. */
const FAR = 1000;

/** The height of an unwrapped row. Keep it in sync with diff.css. */
const ROW = 1.55; // em

/** The maximum number of characters that a comment quotes from its line. */
const QUOTED = 200;

/** The diff of two texts. `numbered`: whether line numbers are shown, as for texts that are whole files. */
export function TextsDiff({
  path,
  old_text: before,
  new_text: after,
  numbered,
}: {
  path: string;
  old_text: string;
  new_text: string;
  numbered?: boolean;
}) {
  const difference = useMemo(() => compare(before, after), [before, after]);
  return <Diff path={path} difference={difference} numbered={numbered} />;
}

/**
 * @param whole whether all unchanged lines are shown
 * @param comments collects comments on lines
 * @param notes what else is drawn at lines, such as the comments of a review
 * @param numbered whether line numbers are shown
 */
export function Diff({
  path,
  label = `Changes to ${path}`,
  difference,
  whole,
  comments,
  notes,
  numbered = true,
}: {
  path: string;
  label?: string;
  difference: Difference;
  whole?: Signal<boolean>;
  comments?: Comments;
  notes?: Notes;
  numbered?: boolean;
}) {
  const { hunks, rough, end, both } = difference;
  const region = useRef<HTMLElement>(null);
  const isInCard = useContext(Unopened) !== undefined;
  const split = inColumns.value && both;
  const below = end || (hunks.length ? '' : 'No changes.');
  return (
    <div class="difference">
      <section
        ref={region}
        class={`diff ${isWrapped.value ? '' : 'unwrapped'}`}
        aria-label={label}
        tabIndex={isInCard && isWrapped.value ? undefined : 0}
        onKeyDown={step}
      >
        {rough && both && (
          <p class="hint">{split ? 'File rewritten.' : 'File rewritten: old version above, new below.'}</p>
        )}
        <Hunks
          path={path}
          difference={difference}
          split={split}
          whole={whole}
          comments={comments}
          notes={notes}
          numbered={numbered}
        />
        {below && <p class="hint">{below}</p>}
      </section>
      {isInCard && !isWrapped.value && <Unwrapped region={region} />}
    </div>
  );
}

/** The arrow keys move between comment buttons. */
function step(event: KeyboardEvent) {
  const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
  const target = event.target as HTMLElement;
  if (!by || !target.matches('.comment')) return;
  const all = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>('.comment')];
  all[all.indexOf(target) + by]?.focus();
  event.preventDefault();
}

/** Buttons for the layout of diffs. `both`: whether a diff has two sides. `hasGaps`: whether it has hidden lines. */
export function Tools({ both, hasGaps, whole }: { both: boolean; hasGaps: boolean; whole: Signal<boolean> }) {
  return (
    <div class="diff-tools">
      {hasGaps && (
        <Button
          label="Whole file"
          class="quiet"
          aria-pressed={whole.value}
          onClick={() => (whole.value = !whole.value)}
        />
      )}
      {both && isRoomy.value && <SideBySide />}
      <Button
        label="Wrap lines"
        class="quiet"
        aria-pressed={isWrapped.value}
        onClick={() => setWrapped(!isWrapped.value)}
      />
    </div>
  );
}

export function SideBySide() {
  return (
    <Button label="Side by side" class="quiet" aria-pressed={isSplit.value} onClick={() => setSplit(!isSplit.value)} />
  );
}

/** If lines are not wrapped, text beyond the edge has to be shown before the user can accept the change. */
function Unwrapped({ region }: { region: { current: HTMLElement | null } }) {
  const [isCut, setCut] = useState(true);
  useLayoutEffect(() => {
    const element = region.current as HTMLElement;
    const look = () => setCut(element.scrollWidth > element.clientWidth + 1);
    look();
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    for (const table of element.querySelectorAll('table')) sizes.observe(table);
    return () => sizes.disconnect();
  }, [region]);
  return isCut ? <ShowAll label="Wrap lines to see them in full" class="wrap" onOpen={() => setWrapped(true)} /> : null;
}

/** The colors of a line by its number, once they are known. */
type Colors = (number: number) => Span[] | undefined;

/** The highlighting of one side, computed from the whole text, or from the hunks if the text is not known. */
function useSide(path: string, hunks: Hunk[], side: 'old' | 'new', whole: string | undefined): Colors | undefined {
  const { numbers, text } = useMemo(() => {
    if (whole !== undefined) return { text: whole };
    const lines = hunks.flatMap(({ rows }) => rows.flatMap((row) => row[side] ?? []));
    const places = new Map(lines.map(({ number }, index) => [number, index]));
    return { numbers: places, text: lines.map((line) => line.text).join('\n') };
  }, [hunks, side, whole]);
  const spans = useColors(text, languageOf(path));
  return useMemo(
    () => spans && ((number) => spans[numbers ? (numbers.get(number) ?? -1) : number - 1]),
    [spans, numbers],
  );
}

/** Properties that all rows of a diff share. */
type Shared = {
  path: string;
  split: boolean;
  numbered: boolean;
  old?: Colors;
  fresh?: Colors;
  /** Whether long lines are drawn whole. */
  isOpen: boolean;
  /** The line whose comment button Tab reaches. Arrow keys lead to the others. */
  first: string;
  /** Whether lines are wrapped and there are more than `FAR` rows. If so, rows out of view are not laid out. */
  isFar: boolean;
  comments?: Comments;
  notes?: Notes;
};

/** A number that grows by `by` in each frame while `isOn`, until it is at least `all`. */
function useGrowing(first: number, all: number, by: number, isOn: boolean) {
  const [count, setCount] = useState(first);
  useEffect(() => {
    if (!isOn || count >= all) return;
    const frame = requestAnimationFrame(() => setCount(count + by));
    return () => cancelAnimationFrame(frame);
  }, [isOn, count, all, by]);
  return count;
}

function Hunks({
  path,
  difference,
  split,
  whole,
  comments,
  notes,
  numbered,
}: {
  path: string;
  difference: Difference;
  split: boolean;
  whole?: Signal<boolean>;
  comments?: Comments;
  notes?: Notes;
  numbered: boolean;
}) {
  const { hunks, old: oldText, fresh: freshText } = difference;
  const old = useSide(path, hunks, 'old', oldText);
  const fresh = useSide(path, hunks, 'new', freshText);
  const texts = useMemo(() => freshText?.split('\n'), [freshText]);
  const blocks = useMemo(() => blocksOf(difference, split), [difference, split]);
  const all = blocks[blocks.length - 1]?.to ?? 0;
  const [isOpen, setOpen] = useState(false);
  const drawn = useGrowing(FIRST, all, STEP, isOpen);
  const rest = all - FIRST;
  const isCut = rest > 0 || blocks.some(({ rows }) => rows.some(isLong));
  const line = blocks.find(({ rows }) => rows.length)?.rows[0];
  const first = line ? nameOf(line) : '';
  // Without wrapping, all rows are laid out, because `Unwrapped` needs their width.
  const isFar = isWrapped.value && all > FAR;
  const shared = useMemo(
    () => ({ path, split, numbered, old, fresh, isOpen, isFar, comments, notes, first }),
    [path, split, numbered, old, fresh, isOpen, isFar, comments, notes, first],
  );
  return (
    <>
      <div class="hunks">
        {blocks
          .filter(({ from }) => from < drawn)
          .map(({ gap, from, rows }) =>
            gap ? (
              <Gap key={`gap-${gap.new}`} gap={gap} texts={texts} whole={whole} shared={shared} />
            ) : (
              <Table key={`rows-${from}`} rows={rows} shared={shared} />
            ),
          )}
      </div>
      {isCut && !isOpen && (
        <ShowAll
          label={rest > 0 ? `Show ${counted(rest, 'more line')}` : 'Show full lines'}
          onOpen={() => setOpen(true)}
        />
      )}
    </>
  );
}

const isLong = ({ old, new: fresh }: Line) => [old, fresh].some((side) => side && side.text.length > LONGEST);

/** @param texts the lines of the file, or undefined if they are not known, in which case the gap can't be opened */
function Gap({ gap, texts, whole, shared }: { gap: GapOf; texts?: string[]; whole?: Signal<boolean>; shared: Shared }) {
  const [isShown, setShown] = useState(false);
  const isOpen = texts !== undefined && (isShown || Boolean(whole?.value));
  const drawn = Math.min(gap.count, useGrowing(STEP, gap.count, STEP, isOpen));
  const tables = useMemo(() => {
    const found = [];
    for (let n = 0; isOpen && n < drawn; n += STEP)
      found.push(<Table key={n} rows={linesIn(gap, texts, n, Math.min(n + STEP, drawn))} shared={shared} />);
    return found;
  }, [isOpen, drawn, gap, texts, shared]);
  if (isOpen) return <>{tables}</>;
  const words = counted(gap.count, 'unchanged line');
  if (!texts) return <p class="skipped">{words}</p>;
  return (
    <button type="button" class="skipped" onClick={() => setShown(true)}>
      {words}: <span>Show</span>
    </button>
  );
}

const COLUMNS = ['number', 'text'];

function Table({ rows, shared }: { rows: Line[]; shared: Shared }) {
  const { split, numbered, isFar } = shared;
  const table = useMemo(
    () => (
      <table class={`${split ? 'split' : 'unified'} ${numbered ? '' : 'unnumbered'}`}>
        <colgroup>
          {(split ? [...COLUMNS, ...COLUMNS] : COLUMNS).map((name, index) => (
            <col key={index} class={`column-${name}`} />
          ))}
        </colgroup>
        <tbody>
          {rows.map((line) => (
            <LineRow key={nameOf(line)} line={line} shared={shared} />
          ))}
        </tbody>
      </table>
    ),
    [rows, shared, split, numbered],
  );
  if (!isFar) return table;
  return (
    <div class="far" style={{ containIntrinsicBlockSize: `auto ${rows.length * ROW}em` }}>
      {table}
    </div>
  );
}

/** The line that a comment on a row is about: "12" in the new text, or "−12" for a removed line of the old text. */
const nameOf = ({ old, new: fresh }: Line) => (fresh ? String(fresh.number) : `−${old?.number}`);

function LineRow({ line, shared }: { line: Line; shared: Shared }) {
  const { path, split, old, fresh, isOpen, comments, notes, first } = shared;
  const side = line.new ?? (line.old as Side);
  const name = nameOf(line);
  const [begun, setBegun] = useState<Record<string, boolean>>({});
  // Side by side, a row also shows the comment on its old line.
  const sides: [string, Side][] = [[name, side]];
  if (line.new && line.old && line.kind === 'changed') sides.push([`−${line.old.number}`, line.old]);
  const commented = sides.filter(([one]) => comments && (begun[one] || comments.get(path, one) !== undefined));
  const button = (one: string, number: number) => (
    <button
      type="button"
      class="comment"
      tabIndex={one === first ? 0 : -1}
      aria-label={`Comment on line ${one}`}
      data-number={number}
      data-line={one}
      onClick={(event) => (notes?.begin ? notes.begin(one, event.shiftKey) : setBegun({ ...begun, [one]: true }))}
    />
  );
  const comment = (comments || notes?.begin) && button(name, side.number);
  const isChanged = line.kind !== 'same';
  const noted = notes && sides.flatMap(([one]) => notes.below(one) ?? []);
  return (
    <>
      <tr class={notes && sides.some(([one]) => notes.isMarked(one)) ? 'marked' : undefined}>
        {split ? (
          <>
            <Cells side={line.old} kind={isChanged && 'removed'} colors={old} isOpen={isOpen}>
              {line.new
                ? line.old && isChanged && notes?.begin && button(`−${line.old.number}`, line.old.number)
                : comment}
            </Cells>
            <Cells side={line.new} kind={isChanged && 'added'} colors={fresh} isOpen={isOpen}>
              {line.new && comment}
            </Cells>
          </>
        ) : (
          <Cells
            side={side}
            kind={line.kind === 'added' || line.kind === 'removed' ? line.kind : false}
            colors={line.new ? fresh : old}
            isOpen={isOpen}
          >
            {comment}
          </Cells>
        )}
      </tr>
      {commented.map(([one, { text: quote }]) => (
        <tr key={one} class="commented">
          <td colSpan={split ? 4 : 2}>
            <Comment
              label={`Comment on line ${one}`}
              text={comments?.get(path, one) ?? ''}
              change={(text) => {
                setBegun({ ...begun, [one]: true });
                comments?.set(path, one, text, quote.slice(0, QUOTED));
              }}
              close={() => setBegun({ ...begun, [one]: false })}
            />
          </td>
        </tr>
      ))}
      {noted?.length ? (
        <tr class="commented">
          <td colSpan={split ? 4 : 2}>{noted}</td>
        </tr>
      ) : null}
    </>
  );
}

/** The number and the text of one side. A long line is cut unless the diff was expanded. */
function Cells({
  side,
  kind,
  colors,
  isOpen,
  children,
}: {
  side?: Side;
  kind: 'added' | 'removed' | false;
  colors?: Colors;
  isOpen: boolean;
  children?: preact.ComponentChildren;
}) {
  if (!side)
    return (
      <>
        <td class="number none" />
        <td class="none" />
      </>
    );
  const { text, number, marks = [] } = side;
  return (
    <>
      <td class={`number ${kind || ''}`} data-number={number}>
        {children}
      </td>
      <td class={`line ${kind || ''}`}>
        <code>
          {text.length <= LONGEST ? (
            colored(text, colors?.(number), marks)
          ) : isOpen ? (
            <Parts text={text} code />
          ) : (
            <Text code>{`${text.slice(0, LONGEST)}…`}</Text>
          )}
        </code>
      </td>
    </>
  );
}

/** A highlighted line, with its changed parts in `<mark>`. */
function colored(text: string, spans: Span[] | undefined, marks: [number, number][]) {
  const found = [];
  let at = 0;
  const isIts = spans?.reduce((sum, span) => sum + span.text.length, 0) === text.length;
  for (const piece of spans && isIts ? spans : [{ text, kind: '' }]) {
    let from = at;
    for (const [part, isMarked] of parts(piece.text, at, marks)) {
      const content = <Text code>{part}</Text>;
      const inside = piece.kind ? (
        <span key={from} class={`code-${piece.kind}`}>
          {content}
        </span>
      ) : (
        content
      );
      found.push(isMarked ? <mark key={from}>{inside}</mark> : inside);
      from += part.length;
    }
    at += piece.text.length;
  }
  return found;
}

/**
 * Splits a part of a line wherever a mark begins or ends. `start`: the part's position in the line. Returns the pieces
 * and, for each, whether it is marked.
 */
function parts(text: string, start: number, marks: [number, number][]): [string, boolean][] {
  const found: [string, boolean][] = [];
  let at = start;
  const end = start + text.length;
  for (const [from, to] of marks) {
    if (to <= at || from >= end) continue;
    if (from > at) found.push([text.slice(at - start, from - start), false]);
    found.push([text.slice(Math.max(from, at) - start, Math.min(to, end) - start), true]);
    at = Math.min(to, end);
  }
  if (at < end) found.push([text.slice(at - start), false]);
  return found;
}
