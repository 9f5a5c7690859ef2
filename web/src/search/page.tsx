// Search in all histories: prompts, answers, tool calls and their results, errors, and decisions.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { SearchResult, SearchResults } from '../protocol/messages.ts';
import { searchAddress } from './address.ts';
import { addressOf } from '../projects/rows.ts';
import { ago, baseName, counted } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { useTrying } from '../ui/overlays.tsx';
import { useWorld } from '../ui/world.ts';

const KINDS: Record<SearchResult['kind'], string> = {
  prompt: 'Message',
  answer: 'Answer',
  tool: 'Tool call',
  result: 'Output',
  decision: 'Decision',
  error: 'Error',
};

/** Milliseconds from the last keystroke until the search is sent to the server. */
const PAUSE = 250;

/** `place`: a new object for each search that is started elsewhere, even if the search is the same. */
export default function Search({ place }: { place: { query: string; project?: string } }) {
  const { query, project } = place;
  const { client } = useWorld();
  const [text, setText] = useState(query);
  const [only, setOnly] = useState<string | undefined>(project);
  const [found, setFound] = useState<SearchResults>();
  const { problem, trying } = useTrying();
  const field = useRef<HTMLInputElement>(null);
  const asked = useRef(0);
  useLayoutEffect(() => field.current?.focus(), []);
  // Before the next event: what the user types must not be overwritten by the search of the address.
  useLayoutEffect(() => {
    setText(query);
    setOnly(project);
  }, [place]);
  useEffect(() => {
    history.replaceState(null, '', searchAddress(text, only));
    const number = ++asked.current;
    if (!text.trim()) {
      setFound(undefined);
      return;
    }
    const later = setTimeout(() => {
      void trying(async () => {
        const wanted = { query: text, limit: 30 };
        const { data } = await client.connection.ask('search', wanted, { project: only, lasting: true });
        if (number === asked.current) setFound(data);
      });
    }, PAUSE);
    return () => clearTimeout(later);
  }, [text, only]);
  const more = () =>
    trying(async () => {
      const number = asked.current;
      const data = { query: text, limit: 30, before: found?.next };
      const answer = await client.connection.ask('search', data, { project: only });
      if (number === asked.current)
        setFound({ ...answer.data, results: [...(found?.results ?? []), ...answer.data.results] });
    });
  const widen = () => {
    setOnly(undefined);
    field.current?.focus();
  };
  const named = only === undefined ? undefined : client.projects.all.get(only);
  return (
    <search class="search">
      <div class="filter">
        <Icon name="search" />
        <input
          id="search"
          type="search"
          ref={field}
          aria-label={named ? 'Search this project' : 'Search all conversations'}
          placeholder={named ? 'Search this project' : 'Search all conversations'}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </div>
      {named && (
        <p class="only">
          Only in <Text line>{baseName(named.path)}</Text>{' '}
          <Button label="Search everywhere" class="quiet" onClick={widen} />
        </p>
      )}
      {found?.building && <p class="hint">Older conversations are still being indexed.</p>}
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
      <p class="unseen" role="status">
        {found ? `${counted(found.results.length, 'result')}${found.next ? ', and there are more' : ''}` : ''}
      </p>
      {found?.results.length === 0 && <p class="hint">No results.</p>}
      <ol class="results">
        {found?.results.map((result) => (
          <Result key={`${result.project_id} ${result.seq} ${result.kind}`} result={result} />
        ))}
      </ol>
      {found?.next && <Button label="Show more" onClick={() => void more()} />}
    </search>
  );
}

function Result({ result }: { result: SearchResult }) {
  const { client, sessions } = useWorld();
  const project = client.projects.all.get(result.project_id);
  const session = sessions.list.value.find(
    (one) => one.project_id === result.project_id && one.session_id === result.session_id,
  );
  return (
    <li>
      <a
        href={`${addressOf(result.project_id, session && !session.current ? session.session_id : undefined)}?seq=${result.seq}`}
      >
        <small>
          <span class="tag">{KINDS[result.kind]}</span>
          <span class="about">
            <Text line>
              {[result.tool, session?.title, project && baseName(project.path)].filter(Boolean).join(' · ')}
            </Text>
          </span>
          <time dateTime={result.created_at}>{ago(result.created_at)}</time>
        </small>
        <p>
          {result.snippet.map((part, index) =>
            index % 2 ? (
              <mark key={index}>
                <Text>{part}</Text>
              </mark>
            ) : (
              <Text key={index}>{part}</Text>
            ),
          )}
        </p>
      </a>
    </li>
  );
}
