// One part of a review: a hunk with the lines around it, the buttons to decide on it, and why a decision failed.

import { useId, useLayoutEffect, useMemo, useRef } from 'preact/hooks';

import { PlainField } from '../approvals/editing.tsx';
import type { Notes } from '../diff/comment.tsx';
import { Counts } from '../diff/counts.tsx';
import { Diff } from '../diff/diff.tsx';
import type { ReviewFile } from '../protocol/messages.ts';
import * as kept from '../state/kept.ts';
import { baseName, counted, single } from '../ui/dom.ts';
import { Button, Text } from '../ui/elements.tsx';
import { isFocusLost } from '../ui/focus.ts';
import { Unopened } from '../ui/must.tsx';
import type { Board } from './board.ts';
import { Answers, useComments } from './comment-view.tsx';
import { Images } from './images.tsx';
import {
  canEdit,
  type Context,
  contextOf,
  differenceOf,
  linesOn,
  NO_CONTEXT,
  NO_LINES,
  type Part,
  titleOf,
  wordsOf,
} from './model.ts';
import { CONTEXT, type OpenReview, type Standing } from './open-review.ts';

/** Lines that "Show more lines" first adds on each side. After that, it doubles the lines of context. */
const MORE = 20;

/** What the user may do now. `whyNot`: why the files can't be written. Empty if they can. */
export type Rights = { mayDecide: boolean; whyNot: string };

/** What the user can do with a part. The functions ask for confirmation where necessary. */
export type Decisions = {
  keep(part: Part): void;
  undo(part: Part): void;
  edit(part: Part): void;
  acceptEdit(part: Part): void;
  /** Begins a comment on the first changed line. */
  comment(part: Part): void;
};

type PartOf = {
  file: ReviewFile;
  part: Part;
  /** "2 of 7" */
  place: string;
  /** The current file, for the lines around a hunk, or undefined if it is not known. */
  text: string | undefined;
  review: OpenReview;
  board: Board;
  rights: Rights;
  acts: Decisions;
};

export function PartView(props: PartOf) {
  const { file, part, place, text, review, board } = props;
  const element = useRef<HTMLElement>(null);
  const standing = review.of(part.key);
  const { hunk } = part;
  useLayoutEffect(() => board.add(part, element.current as HTMLElement), [part, board]);
  const closed = useMemo(() => new Closed(standing), [standing]);
  useLayoutEffect(() => closed.draw(), [closed]);
  const count = standing.context.value;
  const context = useMemo(
    () => (hunk && text !== undefined ? contextOf(text, file, hunk, count) : NO_CONTEXT),
    [file, hunk, text, count],
  );
  const lines = useMemo(() => (hunk ? linesOn(hunk, context) : NO_LINES), [hunk, context]);
  const { notes, rest } = useComments({ review, board, part, lines });
  const others = rest();
  const words = part.isGone ? '' : wordsOf(file, hunk);
  const name = useId();
  return (
    <article
      ref={element}
      class="card hunk"
      tabIndex={-1}
      data-part={part.key}
      data-gone={part.isGone}
      aria-labelledby={name}
    >
      <header>
        <h4 id={name}>
          {hunk ? titleOf(hunk) : !part.isGone ? 'Whole file' : standing.draft.value ? 'Your edit' : 'Your comment'}{' '}
          <code>
            <Text line>{baseName(file.path)}</Text>
          </code>
        </h4>
        {place && <span class="tag place">{place}</span>}
        {review.newCount.value > 0 && review.isNew(part) && <span class="tag">since your last visit</span>}
        {hunk?.kind === 'lines' && context.more && !part.isGone && (
          <Button
            label="Show more lines"
            class="quiet view"
            onClick={() => {
              standing.context.value += count > CONTEXT ? count : MORE;
            }}
          />
        )}
      </header>
      <Unopened.Provider value={closed}>
        {words && (
          <p class="about">
            <Text>{words}</Text>
          </p>
        )}
        {hunk?.kind === 'file' && <Images file={file} />}
        {hunk && (hunk.removed || hunk.added) && (
          <Changed path={file.path} part={part} file={file} context={context} notes={notes} />
        )}
      </Unopened.Provider>
      <Answers review={review} board={board} part={part} />
      {others.length > 0 && <div class="comments-rest">{others}</div>}
      <Editing {...props} />
      <Note {...props} />
      <Foot {...props} />
    </article>
  );
}

/** The buttons of a part that have to be pressed, and its images that have to be drawn, before it can be decided on. */
class Closed {
  _buttons: Set<object> = new Set();
  _standing: Standing;
  _isGone = false;

  constructor(standing: Standing) {
    this._standing = standing;
  }

  add(button: object) {
    this._buttons.add(button);
    this._count();
  }

  delete(button: object) {
    this._buttons.delete(button);
    this._count();
  }

  /** Called when the part is drawn. @returns a function to call when it is removed */
  draw() {
    this._count();
    return () => {
      // The buttons are removed after the part, which does not mean that they were pressed.
      this._isGone = true;
      if (this._buttons.size) this._standing.unopened.value = undefined;
    };
  }

  _count() {
    if (!this._isGone) this._standing.unopened.value = this._buttons.size;
  }
}

function Changed({
  path,
  part: { hunk },
  file,
  context,
  notes,
}: Pick<PartOf, 'part' | 'file'> & { path: string; context: Context; notes: Notes }) {
  const both = file.change === 'changed';
  const difference = useMemo(() => hunk && differenceOf(hunk, both, context), [hunk, both, context]);
  return difference && hunk ? (
    <Diff path={path} label={`${titleOf(hunk)} of ${path}`} difference={difference} notes={notes} />
  ) : null;
}

/** The field in which the user changes the hunk's new lines. The change itself stays in view above it. */
function Editing({ part, review, board, rights, acts }: PartOf) {
  const { draft, isEditing, busy } = review.of(part.key);
  const isOpen = isEditing.value && !part.isGone;
  useLayoutEffect(() => {
    if (isOpen) board.showField(part.key);
  }, [isOpen, board, part.key]);
  if (!isEditing.value || draft.value === undefined) return null;
  return (
    <div class="file-editor">
      <PlainField
        label={part.isGone ? 'Your lines' : 'Your version of these lines'}
        text={draft.value}
        isReadOnly={Boolean(part.isGone) || busy.value || !rights.mayDecide}
        takesFocus={!part.isGone}
        changed={(now) => review.typed(part, now)}
        accept={() => accept(part, review, rights, acts)}
      />
    </div>
  );
}

function accept(part: Part, review: OpenReview, rights: Rights, acts: Decisions) {
  const { unopened } = review.of(part.key);
  if (!rights.whyNot && unopened.value === 0 && review.hasDraft(part)) acts.acceptEdit(part);
}

/** Runs `act`, which removes the button that was pressed, and gives the focus to the part. */
function afterwards(act: () => void, board: Board, part: Part) {
  act();
  requestAnimationFrame(() => isFocusLost() && board.focus(part.key));
}

function Note({ part, review, board }: PartOf) {
  const leave = (act: () => void) => afterwards(act, board, part);
  const { note, draft, isEditing } = review.of(part.key);
  const hasDraft = !part.isGone && !isEditing.value && review.hasDraft(part) && draft.value !== undefined;
  return (
    <>
      {note.value && (
        <p class="notice" role="alert">
          <Text>{note.value}</Text>
          {part.isGone &&
            (draft.value !== undefined || review.comments.isWriting(part.key)) &&
            ' What you wrote is kept here until you close this.'}
        </p>
      )}
      {hasDraft && (
        <p class="notice draft">
          Your edit is kept as a draft. “Keep” accepts the change without it.{' '}
          <Button label="Continue" class="quiet" onClick={() => review.edit(part)} />
          <Button label="Discard" class="quiet" onClick={() => leave(() => review.discard(part))} />
        </p>
      )}
    </>
  );
}

function Foot({ part, file, review, board, rights, acts }: PartOf) {
  const leave = (act: () => void) => afterwards(act, board, part);
  const { busy, isEditing, unopened } = review.of(part.key);
  const hasKeys = kept.setting('keys') !== 'off' && part.hunk !== undefined;
  const key = (letter: string) => (hasKeys ? letter : undefined);
  if (part.isGone)
    return (
      <footer>
        <Button label="Close" onClick={() => review.close(part)} />
      </footer>
    );
  if (!rights.mayDecide) return null;
  const isClosed = (unopened.value ?? 1) > 0;
  const closed = isClosed && <p class="hint unopened">Show the whole change before you decide on it.</p>;
  const isOff = busy.value || isClosed;
  if (isEditing.value)
    return (
      <footer>
        {closed}
        {rights.whyNot && <p class="hint unopened">{rights.whyNot}</p>}
        <Button
          label={busy.value ? 'Sending…' : 'Keep edited version'}
          icon="check"
          ariaShortcut="Control+Enter Meta+Enter"
          class="yes accepts edited"
          disabled={isOff || Boolean(rights.whyNot) || !review.hasDraft(part)}
          onClick={single(() => accept(part, review, rights, acts))}
        />
        <Button
          label="Back"
          shortcut="Esc"
          ariaShortcut="Escape"
          class="quiet"
          onClick={() => leave(() => review.back(part))}
        />
      </footer>
    );
  // For a part without a hunk, the buttons ask for confirmation, because its changes are not shown.
  const asks = part.hunk ? '' : '…';
  return (
    <footer>
      {closed}
      <Button
        label={busy.value ? 'Sending…' : part.hunk ? 'Keep' : `Keep file${asks}`}
        icon="check"
        shortcut={key('a')}
        class="yes accepts"
        disabled={isOff}
        onClick={single(() => acts.keep(part))}
      />
      <Button
        label={part.hunk ? 'Undo' : `Undo file${asks}`}
        icon="undo"
        shortcut={key('u')}
        class="no accepts"
        disabled={isOff || Boolean(rights.whyNot)}
        onClick={single(() => acts.undo(part))}
      />
      {canEdit(file, part.hunk) && (
        <Button
          label="Edit"
          icon="pen"
          shortcut={key('e')}
          disabled={busy.value || Boolean(rights.whyNot)}
          onClick={() => acts.edit(part)}
        />
      )}
    </footer>
  );
}

export function FileTitle({ file }: { file: ReviewFile }) {
  const word = file.old_path ? 'renamed' : { added: 'new', deleted: 'deleted', changed: '' }[file.change];
  const start = file.path.lastIndexOf('/') + 1;
  const hasMode = file.change === 'changed' && file.hunks.some(({ kind }) => kind === 'mode');
  return (
    <>
      <code>
        {start > 0 && (
          <span class="dir">
            <Text line>{file.path.slice(0, start)}</Text>
          </span>
        )}
        <Text line>{file.path.slice(start)}</Text>
      </code>
      {word && <span class="tag">{word}</span>}
      {hasMode && <span class="tag">mode</span>}
      {file.binary && <span class="tag">{file.old_image || file.new_image ? 'image' : 'binary'}</span>}
      {(file.added > 0 || file.removed > 0) && <Counts added={file.added} removed={file.removed} />}
    </>
  );
}

/** "7 changes" */
export const changes = (count: number) => counted(count, 'change');
