// The list of a conversation's prompts, from which the user can jump to one.

import { useEffect, useState } from 'preact/hooks';

import type { SearchResults } from '../protocol/messages.ts';
import { Button, Dialog, Text } from '../ui/elements.tsx';
import { useTrying } from '../ui/overlays.tsx';

/** `record`: the number of the prompt's record, which is below `seq` if the prompt has waited in the queue. */
export type Entry = { seq: number; record: number; text: string; time: string };

export type Prompts = {
  /** The prompts in the part of the conversation that is loaded, `first` to `last`. */
  loaded: Entry[];
  first: number;
  last: number;
  /** The session whose prompts are requested, or undefined for all sessions of the project. */
  session?: string;
  /** Requests prompts, newest first. Undefined if that is not possible. `before`: the `next` of the last reply. */
  find?: (before?: string) => Promise<SearchResults>;
  /** Loads earlier records. Undefined if there are none, or if `find` returns the prompts in all of them. */
  older?: () => Promise<unknown>;
};

const SHORT = 160;

function when(time: string) {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(
    undefined,
    isToday
      ? { hour: '2-digit', minute: '2-digit' }
      : { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  );
}

/** The loaded prompts and the prompts that the server found in the rest of the history, in chronological order. */
function listed({ loaded, first, last }: Prompts, found: SearchResults['results']): Entry[] {
  const records = new Set(loaded.map(({ record }) => record));
  const others = found
    .filter(({ seq }) => (seq < first || seq > last) && !records.has(seq))
    .map(({ seq, snippet, created_at }) => ({ seq, record: seq, text: snippet.join(''), time: created_at }));
  return [...loaded, ...others].sort((one, other) => one.seq - other.seq);
}

export function Outline({
  prompts,
  goTo,
  close,
}: {
  prompts: Prompts;
  goTo: (seq: number) => void;
  close: () => void;
}) {
  const { session, find, first, older } = prompts;
  const [found, setFound] = useState<SearchResults>();
  const { problem, busy, trying } = useTrying();
  useEffect(() => {
    let isOver = false;
    setFound(undefined);
    if (find)
      void trying(async () => {
        let results: SearchResults['results'] = [];
        for (let next: string | undefined | null; next !== null; ) {
          const page = await find(next);
          if (isOver) return;
          results = [...results, ...page.results];
          setFound({ ...page, results });
          next = page.next ?? null;
        }
      });
    return () => {
      isOver = true;
    };
  }, [session, find === undefined]);
  const entries = listed(prompts, found?.results ?? []);
  const isSearched = !find || found !== undefined || problem !== '';
  // The server finds all prompts in its own history. Earlier ones may be stored only by the agent.
  const isRestUnknown = isSearched && (entries.length === 0 || entries[0].seq >= first);
  return (
    <Dialog title="Messages" onClose={close}>
      {older && isRestUnknown && (
        <Button
          label="Show earlier messages"
          class="quiet"
          disabled={busy}
          onClick={() => void trying(async () => void (await older()))}
        />
      )}
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
      {found?.building && <p class="hint">Earlier messages are still being indexed.</p>}
      {entries.length === 0 && isSearched && !problem && !older && !found?.building && (
        <p class="hint">No messages yet.</p>
      )}
      <ol class="outline">
        {entries.map(({ seq, text, time }) => (
          <li key={seq}>
            <button type="button" class="quiet" onClick={() => goTo(seq)}>
              <time dateTime={time}>{when(time)}</time>
              <span>
                <Text line>{text.trim().slice(0, SHORT) || 'No text'}</Text>
              </span>
            </button>
          </li>
        ))}
      </ol>
    </Dialog>
  );
}
