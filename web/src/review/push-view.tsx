// The dialog that pushes the current branch and, on request, creates a pull request.

import { useEffect, useRef } from 'preact/hooks';

import type { PushOffer, ReviewPushed } from '../protocol/messages.ts';
import { counted } from '../ui/dom.ts';
import { Button, Dialog, Text } from '../ui/elements.tsx';
import { isFocusLost, restoreFocus } from '../ui/focus.ts';
import { overlay } from '../ui/overlays.tsx';
import { addressOf } from '../text/markdown.tsx';
import { Lined } from './comment-view.tsx';
import type { OpenReview } from './open-review.ts';

/** The button that opens the dialog, if there is something to push. */
export function PushButton({ review }: { review: OpenReview }) {
  if (!review.push.isAllowed || !review.push.isWaiting) return null;
  return <Button label="Push…" class="quiet" onClick={() => showPush(review)} />;
}

export function showPush(review: OpenReview) {
  review.push.open();
  overlay((close) => <PushDialog review={review} close={close} />);
}

function PushDialog({ review, close }: { review: OpenReview; close: () => void }) {
  const done = review.push.done.value;
  const place = useRef<HTMLDivElement>(null);
  // The button that had the focus is gone, or was disabled.
  useEffect(() => {
    if (done) restoreFocus(place.current?.querySelector<HTMLElement>('a, button'));
  }, [done]);
  return (
    <Dialog title="Push" class="commit" onClose={close}>
      <div ref={place}>
        {done && <Done done={done} />}
        {done && !done.problem ? (
          <footer>
            <Button label="Close" class="yes" onClick={close} />
          </footer>
        ) : (
          <Form review={review} close={close} />
        )}
      </div>
    </Dialog>
  );
}

function Done({ done }: { done: ReviewPushed }) {
  const { branch, remote, pull_request, problem, output } = done;
  const address = pull_request && addressOf(pull_request);
  return (
    <>
      <p role="status">
        Pushed <Places branch={branch} remote={remote} />.
      </p>
      {problem && (
        <p class="notice" role="alert">
          <Text>{`${problem}.`}</Text>
        </p>
      )}
      {address && (
        <p class="address">
          <a href={address} target="_blank" rel="noopener noreferrer">
            <Text line>{address}</Text>
          </a>
        </p>
      )}
      {output && <Lined label="Output" text={output} />}
    </>
  );
}

function Places({ branch, remote }: { branch: string; remote: string }) {
  return (
    <>
      <code>
        <Text line>{branch}</Text>
      </code>
      {' to '}
      <code>
        <Text line>{remote}</Text>
      </code>
    </>
  );
}

/** The commits that the remote does not have yet, in words. */
function Waiting({ offer: { ahead, branch = '', remote = '' } }: { offer: PushOffer }) {
  const places = <Places branch={branch} remote={remote} />;
  if (ahead === 0) return <p>There is nothing new to push from {places}.</p>;
  return (
    <p>
      Push {places}
      {ahead ? `: ${counted(ahead, 'commit')}.` : ' as a new branch.'}
    </p>
  );
}

function Form({ review, close }: { review: OpenReview; close: () => void }) {
  const { push } = review;
  const { offer, isPullRequest, title, body, busy, problem, output } = push;
  const first = useRef<HTMLButtonElement>(null);
  const found = offer.value;
  const name = found?.pull_request === 'glab' ? 'merge request' : 'pull request';
  const isWanted = isPullRequest.value && !!found?.pull_request;
  const isPushed = !!push.done.value;
  const isReady = !!found && !found.problem && (!isWanted || title.value.trim() !== '');
  const run = async () => {
    if (!isReady) return;
    const before = document.activeElement as HTMLElement | null;
    await push.run();
    requestAnimationFrame(() => isFocusLost() && restoreFocus(before?.isConnected ? before : first.current));
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}
    >
      {found && !found.problem && !isPushed && <Waiting offer={found} />}
      {!found && <p class="hint">Nothing can be pushed now.</p>}
      {found?.pull_request && (
        <fieldset>
          <legend class="visually-hidden">Pull request</legend>
          <label>
            <input
              type="checkbox"
              checked={isPullRequest.value}
              disabled={busy.value}
              onChange={(event) => (isPullRequest.value = event.currentTarget.checked)}
            />{' '}
            {`Create a ${name} with ${found.pull_request}`}
          </label>
          {isWanted && (
            <>
              <input
                type="text"
                aria-label={`Title of the ${name}`}
                placeholder="Title"
                value={title.value}
                readOnly={busy.value}
                onInput={(event) => (title.value = event.currentTarget.value)}
              />
              <textarea
                aria-label={`Description of the ${name}`}
                placeholder="Description"
                rows={4}
                value={body.value}
                readOnly={busy.value}
                onInput={(event) => (body.value = event.currentTarget.value)}
              />
            </>
          )}
        </fieldset>
      )}
      {found?.no_pull_request && (
        <p class="hint">
          <Text>{`No pull request can be created: ${found.no_pull_request}.`}</Text>
        </p>
      )}
      <p class="hint">
        Git on the server’s machine pushes the branch, with the credentials and hooks that are configured there.
      </p>
      {(problem.value || found?.problem) && (
        <p class="notice" role="alert">
          <Text>{problem.value || found?.problem || ''}</Text>
        </p>
      )}
      {output.value && <Lined label="Output" text={output.value} />}
      <footer>
        <button ref={first} type="submit" class="yes" disabled={busy.value || !isReady}>
          {busy.value ? 'Pushing…' : !isWanted ? 'Push' : isPushed ? `Create ${name}` : `Push and create ${name}`}
        </button>
        <Button label={isPushed ? 'Close' : 'Cancel'} class="quiet" onClick={close} />
      </footer>
    </form>
  );
}
