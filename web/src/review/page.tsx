// A project's review: which files the runs have changed, and each change with the possible decisions on it.

import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

import { Counts } from '../diff/counts.tsx';
import { Tools } from '../diff/diff.tsx';
import { readSettings } from '../diff/style.ts';
import { changesAddress, fileAddress } from '../files/address.ts';
import { addressOf } from '../projects/rows.ts';
import type { FileContent, ReviewFile } from '../protocol/messages.ts';
import { counted, single } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { Confirm, overlay } from '../ui/overlays.tsx';
import { restoreFocus } from '../ui/focus.ts';
import { Menu } from '../ui/menu.tsx';
import { useWorld, type World } from '../ui/world.ts';
import { Board } from './board.ts';
import { CommentsButton, Sending } from './comment-view.tsx';
import { CommitButton } from './commit-view.tsx';
import { fileKey, lineName, linesOn, NO_CONTEXT, type Part, type ShownFile } from './model.ts';
import { ALL, OpenReview, type Version } from './open-review.ts';
import { changes, type Decisions, FileTitle, PartView, type Rights } from './part.tsx';
import { PushButton } from './push-view.tsx';

/** The estimated height of a row of a change that is not drawn yet. */
const ROW = 1.3; // rem

const VIEW_ONLY = 'View only. Decide from another device.';
const COMMENTS_ONLY = 'You can comment here. Decide from another device.';

/** Explains what a device that may not decide can do here. */
const onlyWords = ({ comments }: OpenReview) => (comments.mayWrite ? COMMENTS_ONLY : VIEW_ONLY);

type Decision = 'keep' | 'undo';

export default function ReviewView({ project }: { project: string }) {
  return <Opened key={project} project={project} />;
}

/** The review, the board on which it is drawn, and what the user can do with them. */
function useReview(world: World, project: string) {
  const made = useMemo(() => {
    readSettings();
    const review = new OpenReview(world.client, project, (isMine) => board.before(isMine));
    const acts = decisionsOf(review);
    const board = new Board(review, { ...acts, leave: () => world.go(addressOf(project)) });
    return { review, board, acts };
  }, [world, project]);
  useEffect(
    () => () => {
      made.review.dispose();
      made.board.dispose();
    },
    [made],
  );
  return made;
}

function decisionsOf(review: OpenReview): Decisions {
  const decide = (part: Part, decision: Decision) => {
    if (part.isGone || !review.mayDecide || review.of(part.key).unopened.value !== 0) return;
    const act = (version: Version) => void review.decide(part, decision, version);
    if (part.hunk) decideSome(review, decision, [part], part.path, act);
    else
      ask(
        review,
        decision,
        `all changes in ${part.path}`,
        'They are too large to show here. Read them in an editor first.',
        act,
      );
  };
  return {
    keep: (part) => decide(part, 'keep'),
    undo: (part) => decide(part, 'undo'),
    edit: (part) => review.mayDecide && review.edit(part),
    acceptEdit: (part) => decideSome(review, 'keep', [part], part.path, () => void review.acceptEdit(part)),
    comment: ({ key, hunk, ...part }) => {
      const lines = hunk && linesOn(hunk, NO_CONTEXT);
      const [first] = lines?.new.keys() ?? [];
      const [old] = lines?.old.keys() ?? [];
      const name = first !== undefined ? lineName('new', first) : old !== undefined ? lineName('old', old) : undefined;
      if (lines && name !== undefined) review.comments.begin({ key, hunk, ...part }, lines, name);
    },
  };
}

/**
 * Asks for confirmation before a decision.
 * @param act is called with the version of the review that the question is about. A change that arrives while the
 * question is open is not in that version, and must not be decided on.
 */
function ask(review: OpenReview, decision: Decision, what: string, text: string, act: (version: Version) => void) {
  const version = review.version.peek();
  const isUndo = decision === 'undo';
  overlay((close) => (
    <Confirm
      title={`${isUndo ? 'Undo' : 'Keep'} ${what}?`}
      text={text}
      yes={isUndo ? 'Undo' : 'Keep'}
      danger={isUndo}
      act={() => act(version)}
      close={close}
    />
  ));
}

/** Decides on parts. Asks for confirmation if several are undone, or if any has not been fully in view. */
function decideSome(
  review: OpenReview,
  decision: Decision,
  parts: readonly Part[],
  where: string,
  act: (version: Version) => void,
) {
  const unseen = parts.filter(({ key }) => !review.of(key).isSeen).length;
  const isUndo = decision === 'undo';
  if (unseen === 0 && (!isUndo || parts.length < 2)) {
    act(review.version.peek());
    return;
  }
  const text = [
    unseen > 0 &&
      (unseen === parts.length
        ? parts.length === 1
          ? 'You have not seen all of it.'
          : 'You have not fully seen any of them.'
        : `You have not fully seen ${unseen} of them.`),
    isUndo && 'Other changes to the same files are not affected.',
  ];
  ask(review, decision, `${changes(parts.length)} in ${where}`, text.filter(Boolean).join(' '), act);
}

function Opened({ project }: { project: string }) {
  const world = useWorld();
  const { client, live } = world;
  const { review, board, acts } = useReview(world, project);
  const scroller = useRef<HTMLDivElement>(null);
  const files = review.files.value;
  const parts = review.parts.value;
  void live.hello.value;
  void live.projects.value;
  const isWorking = client.projects.all.get(project)?.state === 'EXECUTING';
  const { mayDecide } = review;
  useLayoutEffect(() => {
    review.isWorking.value = isWorking;
  }, [review, isWorking]);
  const rights = useMemo<Rights>(
    () => ({
      mayDecide,
      whyNot: isWorking
        ? 'The agent is working. Until it has finished, changes can be kept, but not undone or edited.'
        : '',
    }),
    [mayDecide, isWorking],
  );
  const isPaged = board.isPaged.value;
  useLayoutEffect(() => {
    board.open(scroller.current as HTMLElement);
  }, [board]);
  useLayoutEffect(() => board.after(parts), [parts, board]);
  useLayoutEffect(() => {
    if (isPaged && board.at.peek()) board.goTo(board.at.peek() as string, { takesFocus: false });
  }, [isPaged, board]);
  const isThere = review.version.value !== undefined;
  const isEmpty = isThere && parts.length === 0;
  const at = board.at.value;
  const showsList = isPaged && board.showsList.value;
  const shared = { review, board, rights, acts, project };
  const places = useMemo(
    () => new Map(parts.map(({ key }, n) => [key, parts.length > 1 ? `${n + 1} of ${parts.length}` : ''])),
    [parts],
  );
  return (
    <section class={`review${isPaged ? ' paged' : ''}`} aria-label="Review">
      {parts.length > 0 && isPaged && <Pager review={review} board={board} parts={parts} />}
      {review.problem.value && (
        <p class="notice" role="alert">
          <Text>{review.problem.value}</Text>{' '}
          <Button label="Try again" class="quiet" onClick={() => void review.load()} />
        </p>
      )}
      {!isThere && !review.problem.value && (
        <p class="hint wait" role="status">
          Loading the review…
        </p>
      )}
      {review.missing.value && (
        <p class="notice about-all">
          <Text>{review.missing.value}</Text>
        </p>
      )}
      {review.notice.value && (
        <p class="hint about-all">
          <Text>{review.notice.value}</Text>{' '}
          <Button label="Dismiss" class="quiet" onClick={() => review.dismissNotice()} />
        </p>
      )}
      {isEmpty && <Empty {...shared} />}
      {parts.length > 0 && (!isPaged || showsList) && <Bar {...shared} parts={parts} />}
      {parts.length > 0 && isPaged && !showsList && (rights.whyNot || !mayDecide) && (
        <p class="hint about-all">{mayDecide ? rights.whyNot : onlyWords(review)}</p>
      )}
      <p class="news" role="status">
        <Text>{review.news.value}</Text>
      </p>
      <div class="review-body" hidden={parts.length === 0}>
        {(!isPaged || showsList) && <FileList files={files} board={board} />}
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: keys scroll only what has the focus */}
        <section ref={scroller} class="review-scroller" tabIndex={0} aria-label="Changes" hidden={showsList}>
          {files.map((one) => {
            if (isPaged && !one.parts.some(({ key }) => key === at)) return null;
            return (
              <FileSection
                key={one.file.path}
                shown={one}
                only={isPaged ? at : undefined}
                places={places}
                {...shared}
              />
            );
          })}
          <More review={review} />
        </section>
      </div>
    </section>
  );
}

function Empty({ project, review, board }: Shared) {
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => restoreFocus(link.current), []);
  return (
    <div class="empty">
      <Icon name="check" />
      <p>Nothing to review</p>
      <p class="hint">Changes made by the agent’s runs are shown here until someone decides on them.</p>
      <p>
        <a ref={link} href={addressOf(project)}>
          Back to the session
        </a>
      </p>
      <Beside review={review} board={board} />
      <div class="acts beside">
        <Sending review={review} board={board} />
      </div>
    </div>
  );
}

/** The other parts of the review: its comments, the commit of what was kept, and the push. */
function Beside({ review, board }: Pick<Shared, 'review' | 'board'>) {
  return (
    <div class="acts beside">
      <CommentsButton review={review} board={board} />
      <CommitButton review={review} />
      <PushButton review={review} />
    </div>
  );
}

/** A notice if files did not fit into the message. */
function More({ review }: { review: OpenReview }) {
  const count = review.more.value;
  return count ? <p class="notice">{counted(count, 'more file')} will follow. Decide on these changes first.</p> : null;
}

type Shared = { review: OpenReview; board: Board; rights: Rights; acts: Decisions; project: string };

/** The bar for the whole review, with its numbers, how it is shown, and decisions on all of it. */
function Bar({ review, board, rights, parts }: Shared & { parts: readonly Part[] }) {
  const files = review.files.value;
  const { busy, note } = review.of(ALL);
  const isWhole = useSignal(false);
  const sum = (count: (file: ReviewFile) => number) => files.reduce((all, { file }) => all + count(file), 0);
  const open = parts.filter((part) => !part.isGone);
  const whyNot = whyNotAll(review, open);
  const closed = review.more.value ? undefined : open.find((part) => part.hunk && review.isClosed(part));
  const decide = (decision: Decision) =>
    decideSome(
      review,
      decision,
      open,
      counted(files.length, 'file'),
      (version) => void review.decideAll(decision, version),
    );
  return (
    <header class="review-bar">
      <p>
        {counted(files.length + review.more.value, 'file')} · {changes(open.length)}{' '}
        <Counts added={sum((file) => file.added)} removed={sum((file) => file.removed)} />
      </p>
      <Tools both={files.some(({ file }) => file.change === 'changed')} hasGaps={false} whole={isWhole} />
      {review.newCount.value > 0 && (
        <Button
          label={`Only since your last visit (${review.newCount.value})`}
          class="quiet"
          aria-pressed={review.onlyNew.value}
          onClick={() => {
            review.onlyNew.value = !review.onlyNew.value;
          }}
        />
      )}
      <Beside review={review} board={board} />
      {!rights.mayDecide && <p class="hint">{onlyWords(review)}</p>}
      {rights.mayDecide && (
        <div class="acts">
          <Button
            label={busy.value ? 'Sending…' : 'Keep all'}
            icon="check"
            disabled={busy.value || whyNot !== ''}
            onClick={single(() => decide('keep'))}
          />
          <Button
            label={open.length > 1 ? 'Undo all…' : 'Undo all'}
            icon="undo"
            class="no"
            disabled={busy.value || whyNot !== '' || rights.whyNot !== ''}
            onClick={single(() => decide('undo'))}
          />
        </div>
      )}
      {rights.mayDecide && (rights.whyNot || whyNot) && (
        <p class="hint about-all">
          {rights.whyNot || whyNot}{' '}
          {!rights.whyNot && closed && <Button label="Go to it" class="quiet" onClick={() => board.goTo(closed.key)} />}
        </p>
      )}
      {/* These buttons come after the hint, so that they share its line and leave the decisions in the first one. */}
      <div class="acts beside sends">
        <Sending review={review} board={board} />
      </div>
      {note.value && (
        <p class="notice" role="alert">
          <Text>{note.value}</Text>
        </p>
      )}
    </header>
  );
}

/**
 * Why the user can't decide on all of these now, because some are not shown, collapsed or being edited. '' if the user
 * can.
 */
function whyNotAll(review: OpenReview, parts: readonly Part[]): string {
  if (review.hidesOld.value) return 'To decide on all changes at once, show the others too.';
  if (review.more.value || parts.some(({ hunk }) => !hunk))
    return 'You can’t decide on all changes at once: some changes are not shown here.';
  const closed = parts.filter((part) => review.isClosed(part)).length;
  const collapsed = closed === 1 ? 'collapsed change' : `${closed} collapsed changes`;
  if (closed) return `To decide on all changes at once, first expand the ${collapsed}.`;
  return parts.some((part) => review.hasDraft(part))
    ? 'Finish or discard your edit to decide on all changes at once.'
    : '';
}

function FileList({ files, board }: { files: readonly ShownFile[]; board: Board }) {
  const at = board.at.value;
  const list = useRef<HTMLElement>(null);
  const path = files.find(({ parts }) => parts.some(({ key }) => key === at))?.file.path;
  useEffect(() => list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' }), [path]);
  return (
    <nav ref={list} class="review-files" aria-label="Files">
      <ul>
        {files.map(({ file, parts }) => (
          <li key={file.path}>
            <button
              type="button"
              class="entry quiet"
              aria-current={file.path === path ? 'true' : undefined}
              onClick={() => parts[0] && board.goTo(parts[0].key)}
            >
              <FileTitle file={file} />
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** On a small screen: which change is shown, and the buttons that lead to the others. */
function Pager({ review, board, parts }: Pick<Shared, 'review' | 'board'> & { parts: readonly Part[] }) {
  const at = parts.findIndex(({ key }) => key === board.at.value);
  const go = (by: 1 | -1) => {
    const next = parts[at + by];
    if (next) board.goTo(next.key, { takesFocus: false });
  };
  const isList = board.showsList.value;
  return (
    <nav class="pager" aria-label="Changes">
      <Button
        label="Files"
        icon="list"
        class="quiet"
        aria-expanded={isList}
        onClick={() => (board.showsList.value = !isList)}
      />
      <span class="hint" role="status">{`${at + 1} of ${parts.length}`}</span>
      <CommentsButton review={review} board={board} bare />
      <Button label="Previous change" icon="back" bare class="quiet" disabled={at <= 0} onClick={() => go(-1)} />
      <Button
        label="Next change"
        icon="next"
        bare
        class="quiet"
        disabled={at < 0 || at >= parts.length - 1}
        onClick={() => go(1)}
      />
    </nav>
  );
}

type SectionOf = Shared & { shown: ShownFile; only: string | undefined; places: ReadonlyMap<string, string> };

/** One file. Its parts are drawn once it is near the viewport. Until then, it is about as tall as they will be. */
function FileSection({ shown, only, places, review, board, rights, acts, project }: SectionOf) {
  const { file, parts } = shown;
  const element = useRef<HTMLElement>(null);
  useLayoutEffect(() => board.addFile(file.path, element.current as HTMLElement), [file.path, board]);
  const isDrawn = board.drawn.value.has(file.path) || only !== undefined;
  const text = useText(project, file, isDrawn);
  const rows = file.added + file.removed + parts.length * 8;
  return (
    <section
      ref={element}
      class="review-file"
      aria-label={file.path}
      style={isDrawn ? undefined : { minBlockSize: `${rows * ROW}rem` }}
    >
      <FileHead {...{ shown, review, board, rights, acts, project }} />
      {isDrawn &&
        parts
          .filter(({ key }) => only === undefined || key === only)
          .map((part) => (
            <PartView
              key={part.key}
              {...{ file, part, text, review, board, rights, acts }}
              place={only === undefined ? (places.get(part.key) ?? '') : ''}
            />
          ))}
    </section>
  );
}

/** The current text of a file, for the lines around its hunks, or undefined if it is not known. */
function useText(project: string, file: ReviewFile, isWanted: boolean): string | undefined {
  const { client } = useWorld();
  const [text, setText] = useState<string>();
  const isAsked = isWanted && file.hunks.some(({ kind }) => kind === 'lines') && client.may('file_read');
  const lines = file.hunks.map(({ id, new_start: start }) => `${id} ${start}`).join();
  useEffect(() => {
    if (!isAsked) return;
    let isOver = false;
    client.connection.ask('file_read', { path: file.path }, { project, lasting: true }).then(
      ({ data }: { data: FileContent }) => {
        if (!isOver && data.kind === 'text' && !data.truncated) setText(data.text ?? undefined);
      },
      () => {}, // the hunks of a private or large file are shown without the lines around them
    );
    return () => {
      isOver = true;
    };
  }, [project, file.path, lines, isAsked]);
  return text;
}

function FileHead({ shown, review, board, rights, project }: Omit<SectionOf, 'only' | 'places'>) {
  const { client, go } = useWorld();
  const { file, parts } = shown;
  const { busy, note } = review.of(fileKey(file.path));
  const open = parts.filter((part) => !part.isGone);
  const isClosed = open.some((part) => review.isClosed(part));
  const hasDraft = open.some((part) => review.hasDraft(part));
  const decide = (decision: Decision) =>
    decideSome(review, decision, open, file.path, (version) => void review.decideFile(file.path, decision, version));
  // A single change already has its own buttons.
  const isSome = rights.mayDecide && open.length > 1 && !review.hidesOld.value;
  const isOff = busy.value || isClosed || hasDraft;
  const [first] = open;
  const line = first?.hunk?.kind === 'lines' ? first.hunk.new_start : undefined;
  const mayOpen = file.change !== 'deleted' && !file.binary && client.may('file_read');
  const isPaged = board.isPaged.value;
  return (
    <header class="review-file-head">
      <h3>
        <FileTitle file={file} />
      </h3>
      {isPaged ? (
        <Menu
          label="File menu"
          choices={[
            isSome && !isOff && { label: 'Keep file', icon: 'check', act: () => decide('keep') },
            isSome &&
              !isOff &&
              !rights.whyNot && { label: 'Undo file…', icon: 'undo', danger: true, act: () => decide('undo') },
            mayOpen && { label: 'Open file', icon: 'file', act: () => go(fileAddress(project, file.path, line)) },
            !first?.hunk &&
              client.may('file_changes') && {
                label: 'Changes since the last commit',
                icon: 'file',
                act: () => go(changesAddress(project, file.path)),
              },
          ]}
        />
      ) : (
        <div class="acts">
          {mayOpen && <a href={fileAddress(project, file.path, line)}>Open file</a>}
          {first && !first.hunk && client.may('file_changes') && (
            <a href={changesAddress(project, file.path)}>Changes since the last commit</a>
          )}
          {isSome && (
            <Button
              label={busy.value ? 'Sending…' : 'Keep file'}
              class="quiet"
              disabled={isOff}
              onClick={single(() => decide('keep'))}
            />
          )}
          {isSome && (
            <Button
              label="Undo file…"
              class="quiet no"
              disabled={isOff || rights.whyNot !== ''}
              onClick={single(() => decide('undo'))}
            />
          )}
        </div>
      )}
      {isSome && isClosed && (
        <p class="hint about-all">To decide on the whole file, expand all of its changes first.</p>
      )}
      {isSome && !isClosed && hasDraft && (
        <p class="hint about-all">Finish or discard your edit to decide on the whole file.</p>
      )}
      {note.value && first?.hunk && (
        <p class="notice" role="alert">
          <Text>{note.value}</Text>
        </p>
      )}
    </header>
  );
}
