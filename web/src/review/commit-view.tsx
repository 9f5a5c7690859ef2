// The dialog that commits what was kept in a review.

import { useEffect, useRef } from 'preact/hooks';

import { Counts } from '../diff/counts.tsx';
import { counted } from '../ui/dom.ts';
import { Button, Dialog, Text } from '../ui/elements.tsx';
import { isFocusLost, restoreFocus } from '../ui/focus.ts';
import { overlay } from '../ui/overlays.tsx';
import { Lined } from './comment-view.tsx';
import type { OpenReview } from './open-review.ts';
import { showPush } from './push-view.tsx';

/** The button that opens the dialog, if there is something to commit. */
export function CommitButton({ review }: { review: OpenReview }) {
  if (!review.commit.isAllowed || !review.kept.value.length) return null;
  return <Button label="Commit…" icon="check" class="quiet" onClick={() => showCommit(review)} />;
}

function showCommit(review: OpenReview) {
  review.commit.open();
  overlay((close) => <CommitDialog review={review} close={close} />);
}

function CommitDialog({ review, close }: { review: OpenReview; close: () => void }) {
  const { commit } = review;
  const done = commit.done.value;
  const place = useRef<HTMLDivElement>(null);
  // This effect is not in `Form`, whose effects run before the dialog is open.
  useEffect(() => place.current?.querySelector('textarea')?.focus(), []);
  // The button that had the focus is gone, or is disabled.
  useEffect(() => {
    if (done) restoreFocus(place.current?.querySelector<HTMLElement>('button'));
  }, [done]);
  return (
    <Dialog title="Commit" class="commit" onClose={close}>
      <div ref={place}>{done ? <Done review={review} close={close} /> : <Form review={review} close={close} />}</div>
    </Dialog>
  );
}

function Done({ review, close }: { review: OpenReview; close: () => void }) {
  const { push } = review;
  const done = review.commit.done.value;
  if (!done) return null;
  return (
    <>
      <p role="status">
        {`Committed ${counted(done.files.length, 'file')} on ${done.created ? 'the new branch ' : ''}`}
        <code>
          <Text line>{done.branch}</Text>
        </code>
        {' as '}
        <code>{done.commit.slice(0, 10)}</code>.
      </p>
      {done.output && <Lined label="Output of git" text={done.output} />}
      {push.isAllowed && push.offer.value?.problem && (
        <p class="hint">
          <Text>{push.offer.value.problem}</Text>
        </p>
      )}
      <footer>
        <Button label="Close" class="yes" onClick={close} />
        {push.isAllowed && push.isWaiting && (
          <Button
            label="Push…"
            class="quiet"
            onClick={() => {
              close();
              showPush(review);
            }}
          />
        )}
      </footer>
    </>
  );
}

function Form({ review, close }: { review: OpenReview; close: () => void }) {
  const { commit } = review;
  const { message, isNewBranch, branch, without, busy, problem, output, offer } = commit;
  const field = useRef<HTMLTextAreaElement>(null);
  const kept = review.kept.value;
  const chosen = kept.filter((path) => !without.value.has(path));
  const { author, problem: obstacle, lines = {} } = offer.value ?? {};
  const sum = (name: 'added' | 'removed') => chosen.reduce((all, path) => all + (lines[path]?.[name] ?? 0), 0);
  const isReady =
    !obstacle && message.value.trim() !== '' && chosen.length > 0 && (!isNewBranch.value || branch.value.trim() !== '');
  const run = async () => {
    if (!isReady || review.isWorking.value) return;
    const before = document.activeElement as HTMLElement | null;
    await commit.run(kept);
    requestAnimationFrame(() => isFocusLost() && restoreFocus(before?.isConnected ? before : field.current));
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}
    >
      <label for="commit-message">Message</label>
      <textarea
        ref={field}
        id="commit-message"
        rows={4}
        value={message.value}
        readOnly={busy.value}
        onInput={(event) => (message.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.repeat) return;
          event.preventDefault();
          void run();
        }}
      />
      <fieldset>
        <legend>Branch</legend>
        <label>
          <input
            type="radio"
            name="branch"
            checked={!isNewBranch.value}
            disabled={busy.value}
            onChange={() => (isNewBranch.value = false)}
          />{' '}
          The current branch
        </label>
        <label>
          <input
            type="radio"
            name="branch"
            checked={isNewBranch.value}
            disabled={busy.value}
            onChange={() => (isNewBranch.value = true)}
          />{' '}
          A new branch (will be checked out)
        </label>
        {isNewBranch.value && (
          <input
            type="text"
            aria-label="Name of the new branch"
            placeholder="Name"
            autocapitalize="off"
            spellcheck={false}
            value={branch.value}
            readOnly={busy.value}
            onInput={(event) => (branch.value = event.currentTarget.value)}
          />
        )}
      </fieldset>
      <fieldset>
        <legend>
          {`What was kept: ${counted(kept.length, 'file')}`} <Counts added={sum('added')} removed={sum('removed')} />
        </legend>
        <ul>
          {kept.map((path) => (
            <li key={path}>
              <label>
                <input
                  type="checkbox"
                  checked={!without.value.has(path)}
                  disabled={busy.value}
                  onChange={(event) => {
                    const left = new Set(without.value);
                    left[event.currentTarget.checked ? 'delete' : 'add'](path);
                    without.value = left;
                  }}
                />{' '}
                <code>
                  <Text line>{path}</Text>
                </code>
                {lines[path] && <Counts {...lines[path]} />}
              </label>
            </li>
          ))}
        </ul>
        {!kept.length && <p class="hint">There is nothing left to commit.</p>}
      </fieldset>
      {author && (
        <p class="author">
          {'Author: '}
          <Text line>{author}</Text>
        </p>
      )}
      <p class="hint">
        Git on the server’s machine makes the commit, with the name, hooks and signing that are configured there.
      </p>
      {review.isWorking.value && (
        <p class="hint">The agent is working. Until it has finished, nothing can be committed.</p>
      )}
      {(problem.value || obstacle) && (
        <p class="notice" role="alert">
          <Text>{problem.value || obstacle || ''}</Text>
        </p>
      )}
      {output.value && <Lined label="Output of git" text={output.value} />}
      <footer>
        <button type="submit" class="yes" disabled={busy.value || !isReady || review.isWorking.value}>
          {busy.value ? 'Committing…' : `Commit ${counted(chosen.length, 'file')}`}
        </button>
        <Button label="Cancel" class="quiet" onClick={close} />
      </footer>
    </form>
  );
}
