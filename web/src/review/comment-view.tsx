// A review's comments, at their lines and in a list of all comments, and the fields in which they are written.

import { computed, type ReadonlySignal, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';

import { PlainField } from '../approvals/editing.tsx';
import type { Notes } from '../diff/comment.tsx';
import type { ReviewComment } from '../protocol/messages.ts';
import { Copy } from '../text/copy.tsx';
import { counted, single } from '../ui/dom.ts';
import { Button, Dialog, Text } from '../ui/elements.tsx';
import { isFocusLost, restoreFocus } from '../ui/focus.ts';
import { Confirm, overlay } from '../ui/overlays.tsx';
import { isComposing } from '../ui/typing.ts';
import { useWorld } from '../ui/world.ts';
import type { Board } from './board.ts';
import { type Comments, isDraft, isShown, type Place, placeOf, type Writing } from './comments.ts';
import { lineName, lineOf, type Lines, linesWords, type Part, quoteOf, suggestedField, titleOf } from './model.ts';
import type { OpenReview } from './open-review.ts';

/** The maximum number of lines to which a comment can be extended in its field. */
const FARTHEST = 200;

/** The maximum number of characters of a comment in a button that leads to it, or in its summary once resolved. */
const SHORT = 40;

type Shared = { review: OpenReview; board: Board };

/** A comment, or what the user is writing: a new comment or a new text for a draft. */
type Entry = ReviewComment | Writing;

const isWriting = (one: Entry): one is Writing => 'key' in one;
const keyOf = (one: Entry) => (isWriting(one) ? one.key : one.comment_id);

/**
 * The comments on a part. `rows`: the comments by the name of their last line (`lineName`). `rest`: the comments whose
 * lines are not shown. `ranges`: the lines of each comment on more than one line.
 */
type Arranged = { rows: ReadonlyMap<string, Entry[]>; rest: Entry[]; ranges: Place[] };

/** The comments of a part. The value is the same object until one of them changes, because every line reads it. */
export function arranged({ comments }: OpenReview, part: Part, lines: Lines): ReadonlySignal<Arranged> {
  let last: { text: string; mine: Writing[]; found: Arranged } | undefined;
  return computed(() => {
    const here = comments.byPart.value.get(part.key) ?? [];
    const ids = new Set(here.map(({ comment_id: id }) => id));
    const mine = comments.writings.value.filter((one) => one.part === part.key || ids.has(one.comment_id ?? ''));
    const text = JSON.stringify(here);
    const isSame =
      last?.text === text && last.mine.length === mine.length && mine.every((one, n) => one === last?.mine[n]);
    if (!last || !isSame) last = { text, mine, found: arrange(here, mine, part, lines) };
    return last.found;
  });
}

function arrange(here: readonly ReviewComment[], mine: readonly Writing[], part: Part, lines: Lines): Arranged {
  const rows = new Map<string, Entry[]>();
  const rest: Entry[] = [];
  const ranges: Place[] = [];
  const put = (one: Entry, place: Place, isThere: boolean) => {
    if (!isThere) {
      rest.push(one);
      return;
    }
    const name = lineName(place.side, place.end);
    rows.set(name, [...(rows.get(name) ?? []), one]);
    if (place.end > place.line) ranges.push(place);
  };
  const changed = new Map(mine.map((one) => [one.comment_id, one]));
  for (const comment of here) {
    const place = { side: comment.side, line: comment.line, end: comment.end_line };
    const isThere = !comment.outdated && quoteOf(lines[place.side], place.line, place.end) !== undefined;
    const writing = isDraft(comment) ? changed.get(comment.comment_id) : undefined;
    if (writing) changed.delete(comment.comment_id);
    put(writing ?? comment, place, isThere);
  }
  for (const one of mine) {
    if (one.comment_id && !changed.has(one.comment_id)) continue;
    const place = placeOf(one, part.hunk);
    put(one, place, isShown(lines, place, one.quote));
  }
  return { rows, rest, ranges };
}

/** The notes at the lines of a part, and its comments whose lines are not shown. */
export function useComments({ review, board, part, lines }: Shared & { part: Part; lines: Lines }) {
  const { comments } = review;
  const { mayWrite } = comments;
  return useMemo(() => {
    const found = arranged(review, part, lines);
    const shared = { review, board, part, lines };
    const notes: Notes = {
      begin: mayWrite ? (name, isRange) => comments.begin(part, lines, name, isRange) : undefined,
      below: (name) => found.value.rows.get(name)?.map((one) => <One key={keyOf(one)} one={one} {...shared} />),
      isMarked: (name) => {
        const [side, line] = lineOf(name);
        return found.value.ranges.some((one) => one.side === side && one.line <= line && line <= one.end);
      },
    };
    return {
      notes,
      rest: () => found.value.rest.map((one) => <One key={keyOf(one)} one={one} hasPlace {...shared} />),
    };
  }, [review, board, part, lines, comments, mayWrite]);
}

type OneOf = Shared & { one: Entry; part?: Part; lines?: Lines; hasPlace?: boolean; close?: () => void };

function One({ one, ...rest }: OneOf) {
  return isWriting(one) ? <Field one={one} {...rest} /> : <Card comment={one} {...rest} />;
}

/** Moves the focus to the line of a comment if the field or the button that had the focus is gone. */
function returnTo(board: Board, part: Part | undefined, name: string) {
  requestAnimationFrame(() => isFocusLost() && part && board.focusLine(part.key, name));
}

// A comment

type CardOf = Omit<OneOf, 'one'> & { comment: ReviewComment };

function Card(props: CardOf) {
  const { comment, review } = props;
  const state = comment.state ?? 'draft';
  if (state !== 'resolved')
    return (
      <article
        class={`remark ${state}`}
        aria-label={`Comment on ${linesWords(comment)}`}
        data-comment={comment.comment_id}
      >
        <Inside {...props} />
      </article>
    );
  return (
    <details
      class="remark resolved"
      data-comment={comment.comment_id}
      open={review.comments.busy.value.has(comment.comment_id)}
    >
      <summary>
        <Text line>{`Resolved by ${comment.resolved_by ?? 'somebody'}: ${shortWords(comment)}`}</Text>
      </summary>
      <Inside {...props} />
    </details>
  );
}

function Inside({ comment, review, board, part, hasPlace, close }: CardOf) {
  const { client } = useWorld();
  const { comments } = review;
  const { comment_id: id, text, suggestion, outdated, quote } = comment;
  const state = comment.state ?? 'draft';
  const isBusy = comments.busy.value.has(id);
  const note = comments.notes.value.get(id);
  const answers = comments.answered.value.get(id) ?? [];
  const isRange = comment.end_line > comment.line;
  const name = lineName(comment.side, comment.end_line);
  const remove = () =>
    overlay((end) => (
      <Confirm
        title="Remove this comment?"
        text="It has not been sent. It can’t be restored."
        yes="Remove"
        danger
        act={async () => {
          await comments.remove(comment);
          returnTo(board, part, name);
        }}
        close={end}
      />
    ));
  return (
    <>
      <p class="remark-head">
        <strong>
          <Text line>{comment.by === client.name ? 'You' : comment.by}</Text>
        </strong>
        <span class="tag">{{ draft: 'Draft', waiting: 'Waiting', sent: 'Sent', resolved: 'Resolved' }[state]}</span>
        {outdated && <span class="tag">Outdated</span>}
        {(hasPlace || isRange) && <span class="hint">{linesWords(comment)}</span>}
      </p>
      {hasPlace && (
        <>
          {outdated && <p class="hint">These lines have changed or moved since the comment was written:</p>}
          <Lined label="Lines of the comment" text={quote} />
        </>
      )}
      {text && (
        <p class="remark-text">
          <Text>{text}</Text>
        </p>
      )}
      {typeof suggestion === 'string' && (
        <>
          <p class="hint">{suggestion ? 'Suggested instead:' : 'Suggested: remove these lines.'}</p>
          {suggestion && <Lined label="Suggested lines" text={suggestion} />}
        </>
      )}
      {answers.length > 0 && (
        <p class="hint">
          Answered by:{' '}
          {answers.map((one) => (
            <Button
              key={one.key}
              label={answerWords(one, comment.path)}
              class="quiet"
              onClick={() => {
                close?.();
                requestAnimationFrame(() => board.goTo(one.key));
              }}
            />
          ))}
        </p>
      )}
      {note && (
        <p class="notice" role="alert">
          <Text>{note}</Text>
        </p>
      )}
      {state === 'draft' && comments.mayChange(comment) && (
        <div class="acts">
          <Button label="Edit" class="quiet" disabled={isBusy} onClick={() => comments.edit(comment, part)} />
          <Button label={isBusy ? 'Removing…' : 'Remove…'} class="quiet no" disabled={isBusy} onClick={remove} />
        </div>
      )}
      {(state === 'sent' || state === 'resolved') && comments.mayWrite && (
        <div class="acts">
          <Button
            label={state === 'sent' ? 'Resolve' : 'Reopen'}
            class="quiet"
            disabled={isBusy}
            onClick={single(() => {
              void comments.resolve(comment, state === 'sent').then(() => returnTo(board, part, name));
            })}
          />
        </div>
      )}
    </>
  );
}

/** Lines of code, or of a program's output, as they are. */
export const Lined = ({ label, text }: { label: string; text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll only what has the focus
  <section class="remark-lines" tabIndex={0} aria-label={label}>
    <pre>
      <Text code>{text.replace(/\r?\n$/, '')}</Text>
    </pre>
  </section>
);

/** The beginning of a comment. */
function shortWords({ text, suggestion }: ReviewComment): string {
  const line = text.split('\n')[0] || (suggestion ? 'a suggestion' : 'remove these lines');
  return line.length > SHORT ? `${line.slice(0, SHORT)}…` : line;
}

const answerWords = ({ hunk, path }: Part, from: string) =>
  `${hunk ? titleOf(hunk) : 'Whole file'}${path === from ? '' : ` of ${path}`}`;

// Writing

type FieldOf = Omit<OneOf, 'one'> & { one: Writing };

function Field({ one, review, board, part, lines, hasPlace }: FieldOf) {
  const { comments } = review;
  const box = useRef<HTMLFieldSetElement>(null);
  const { side, line, end } = placeOf(one, part?.hunk);
  const name = lineName(side, end);
  const draft = comments.draftOf(one);
  const { text, suggestion, busy, note } = one;
  const isUnsaved = comments.isUnsaved(one);
  const where = linesWords({ side, line, end_line: end });
  useEffect(() => {
    if (!one.focus) return;
    const css = { text: 'textarea', range: 'select', suggestion: '.growing textarea' }[one.focus];
    const field = box.current?.querySelector<HTMLElement>(css);
    one.focus = undefined;
    field?.focus({ preventScroll: true });
    box.current?.scrollIntoView({ block: 'nearest' });
  }, [one]);
  const back = () => returnTo(board, part, name);
  const save = async () => {
    if (await comments.save(one, part?.hunk)) back();
  };
  const discard = () => {
    comments.discard(one);
    back();
  };
  const keys = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    if (event.key === 'Escape') {
      event.stopPropagation();
      if (isUnsaved) {
        (event.target as HTMLElement).blur();
        back();
      } else discard();
    } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !event.repeat) {
      event.preventDefault();
      void save();
    }
  };
  const ends: number[] = [];
  for (let n = line; !draft && lines?.[side].has(n) && ends.length < FARTHEST; n++) ends.push(n);
  return (
    <fieldset ref={box} class="remark writing" aria-label={`Comment on ${where}`} onKeyDown={keys}>
      {hasPlace && <Lined label="Lines of the comment" text={one.quote} />}
      {part && lines && !hasPlace && ends.length > 1 && (
        <label class="remark-head">
          <span>{`From line ${line} to`}</span>
          <select
            value={end}
            disabled={busy.value}
            onChange={(event) => comments.stretch(one, part, lines, line, Number(event.currentTarget.value))}
          >
            {ends.map((n) => (
              <option key={n} value={n}>
                {n}
              </option>
            ))}
          </select>
        </label>
      )}
      <textarea
        rows={3}
        aria-label={`Comment on ${where}`}
        placeholder="Write a comment"
        value={text.value}
        readOnly={busy.value}
        onInput={(event) => comments.typed(one, event.currentTarget.value)}
      />
      {suggestion.value !== undefined && (
        <>
          <p class="hint">
            {suggestion.value
              ? 'The agent will be asked to write these lines instead:'
              : 'The agent will be asked to remove the lines. To replace them, write the new ones:'}
          </p>
          <PlainField
            label="Suggested lines"
            text={suggestion.value}
            isReadOnly={busy.value}
            takesFocus={false}
            changed={(now) => comments.suggested(one, now)}
            accept={() => {}}
          />
        </>
      )}
      {note.value && (
        <p class="notice" role="alert">
          <Text>{note.value}</Text>
        </p>
      )}
      {one.comment_id && !draft && (
        <p class="notice">This comment was already sent or removed. You can add what you wrote as a new comment.</p>
      )}
      <div class="acts">
        <Button
          label={busy.value ? 'Saving…' : draft ? 'Save' : 'Add comment'}
          class="yes"
          ariaShortcut="Control+Enter Meta+Enter"
          disabled={busy.value || !comments.isComplete(one) || (draft !== undefined && !isUnsaved)}
          onClick={single(() => void save())}
        />
        <Button
          label={suggestion.value === undefined ? 'Suggest a change' : 'Remove suggestion'}
          class="quiet"
          disabled={busy.value}
          onClick={() => {
            const isNew = suggestion.value === undefined;
            comments.suggested(one, isNew ? suggestedField(one.quote) : undefined);
            if (isNew)
              requestAnimationFrame(() => box.current?.querySelector<HTMLElement>('.growing textarea')?.focus());
          }}
        />
        <Button label={isUnsaved ? 'Discard' : 'Cancel'} class="quiet" disabled={busy.value} onClick={discard} />
      </div>
    </fieldset>
  );
}

// All comments

/** The comments that a hunk answers. */
export function Answers({ review, board, part }: Shared & { part: Part }) {
  const ids = part.hunk?.answers ?? [];
  const answered = review.comments.all.value.filter(({ comment_id: id }) => ids.includes(id));
  if (!answered.length || part.isGone) return null;
  return (
    <p class="answering hint">
      In answer to:{' '}
      {answered.map((one) => (
        <Button
          key={one.comment_id}
          label={shortWords(one)}
          class="quiet"
          onClick={() => showComments({ review, board }, one.comment_id)}
        />
      ))}
    </p>
  );
}

/** Shows all comments, scrolled to the one with this id. */
function showComments(shared: Shared, id?: string) {
  overlay((close) => <AllComments {...shared} first={id} close={close} />);
}

function AllComments({ review, board, first, close }: Shared & { first?: string; close: () => void }) {
  const { comments } = review;
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = first && list.current?.querySelector<HTMLElement>(`[data-comment="${CSS.escape(first)}"]`);
    if (!element) return;
    if (element instanceof HTMLDetailsElement) element.open = true;
    element.scrollIntoView({ block: 'center' });
  }, [first]);
  const all = comments.all.value;
  useEffect(() => restoreFocus(list.current), [all]);
  const changed = new Map(comments.writings.value.map((one) => [one.comment_id, one]));
  const parts = new Map(
    [...comments.byPart.value].flatMap(([key, some]) => some.map((one) => [one.comment_id, key] as const)),
  );
  const byPlace = [...all].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : a.line - b.line));
  return (
    <Dialog title="Comments" onClose={close}>
      <div ref={list} tabIndex={-1} class="all-comments">
        {!all.length && <p class="hint">No comments.</p>}
        {byPlace.map((comment) => {
          const key = parts.get(comment.comment_id);
          const part = review.parts.value.find((one) => one.key === key);
          const writing = isDraft(comment) ? changed.get(comment.comment_id) : undefined;
          return (
            <section key={comment.comment_id} aria-label={`${comment.path}, ${linesWords(comment)}`}>
              <h3>
                <code>
                  <Text line>{comment.path}</Text>
                </code>
                {part && (
                  <Button
                    label="Go to it"
                    class="quiet"
                    onClick={() => {
                      close();
                      requestAnimationFrame(() => board.goTo(part.key));
                    }}
                  />
                )}
              </h3>
              <One one={writing ?? comment} hasPlace {...{ review, board, part, close }} />
            </section>
          );
        })}
      </div>
      <Sending review={review} board={board} close={close} />
    </Dialog>
  );
}

/** The button that sends the drafts, and the result. */
export function Sending({ review, board, close }: Shared & { close?: () => void }) {
  const { live } = useWorld();
  const { comments } = review;
  void live.conversation.value;
  void live.projects.value;
  const { steers } = comments;
  const queues = steers || review.isWorking.value;
  const count = comments.drafts.value.length;
  const isSending = comments.isSending.value;
  const asks = useSignal(false);
  const unsaved = comments.writings.value.find((one) => comments.isUnsaved(one));
  const send = async (steer = false) => {
    asks.value = unsaved !== undefined;
    if (unsaved) return;
    const done = await comments.send(steer);
    if (done) review.tell(done);
    // The button is gone, so the focus goes to the button for all comments.
    requestAnimationFrame(() => restoreFocus(document.querySelector<HTMLElement>('.review button.comments')));
  };
  return (
    <>
      {count > 0 && comments.mayWrite && (
        <div class="acts">
          {comments.maySend ? (
            <>
              <Button
                label={isSending ? 'Sending…' : `${queues ? 'Queue' : 'Send'} ${counted(count, 'comment')}`}
                icon="send"
                class="yes"
                disabled={isSending}
                onClick={single(() => void send())}
              />
              {steers && (
                <Button
                  label="Add to the current run"
                  icon="steer"
                  class="quiet"
                  disabled={isSending}
                  onClick={single(() => void send(true))}
                />
              )}
            </>
          ) : (
            <p class="hint">This device can’t send comments. Use a device that can start runs.</p>
          )}
        </div>
      )}
      <Waiting comments={comments} />
      {asks.value && unsaved && (
        <p class="notice" role="alert">
          First save or discard the comment that you are writing.{' '}
          {review.parts.value.some(({ key }) => key === unsaved.part) && (
            <Button
              label="Go to it"
              class="quiet"
              onClick={() => {
                close?.();
                requestAnimationFrame(() => board.goTo(unsaved.part));
              }}
            />
          )}
        </p>
      )}
      {comments.note.value && (
        <p class="notice" role="alert">
          <Text>{comments.note.value}</Text>
        </p>
      )}
      {comments.unsent.value && (
        <div class="acts">
          <p class="hint">The drafts are kept. You can paste them into the terminal yourself.</p>
          <Copy text={comments.unsent.value} label="Copy as a prompt" isNamed />
        </div>
      )}
    </>
  );
}

/** The comments that wait for an agent in a terminal. */
function Waiting({ comments }: { comments: Comments }) {
  const handover = comments.handover.value;
  if (!handover) return null;
  const isWithdrawing = comments.isWithdrawing.value;
  return (
    <div class="handover">
      <p class="hint" role="status">
        {comments.waitingWords}
      </p>
      {handover.state === 'waiting' && (
        <div class="acts">
          {comments.mayWithdraw && (
            <Button
              label={isWithdrawing ? 'Withdrawing…' : 'Withdraw'}
              disabled={isWithdrawing}
              onClick={single(() => void comments.withdraw())}
            />
          )}
          <Copy text={handover.prompt} label="Copy as a prompt" isNamed />
        </div>
      )}
    </div>
  );
}

/** The number of open comments, as a button that shows all comments. `bare`: for places with little space. */
export function CommentsButton({ review, board, bare }: Shared & { bare?: boolean }) {
  const all = review.comments.all.value;
  const open = all.filter(({ state }) => state !== 'resolved').length;
  if (!all.length) return null;
  return (
    <Button
      label={bare ? String(open) : open ? counted(open, 'comment') : 'Comments'}
      icon="comment"
      class="quiet comments"
      aria-label={bare ? `Comments: ${open}` : undefined}
      onClick={() => showComments({ review, board })}
    />
  );
}
