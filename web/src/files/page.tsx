// The files of a project: the tree beside the file that is shown. In a narrow window, one or the other.

import { useEffect, useRef, useState } from 'preact/hooks';

import type { FileEntry } from '../protocol/messages.ts';
import { baseName } from '../ui/dom.ts';
import { Icon, Text } from '../ui/elements.tsx';
import { restoreFocus } from '../ui/focus.ts';
import { useTrying } from '../ui/overlays.tsx';
import { useWorld } from '../ui/world.ts';
import { changesAddress, type FilePlace, fileAddress } from './address.ts';
import { FileView } from './file.tsx';

/** The git status of a file, as a mark and in words. */
const MARKS: Record<string, [mark: string, words: string]> = {
  M: ['M', 'changed'],
  A: ['A', 'added'],
  D: ['D', 'deleted'],
  '?': ['U', 'not tracked by git'],
};

export default function Files({ project, path, line, changes = false }: FilePlace) {
  const [filter, setFilter] = useState('');
  const [isInGit, setInGit] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // On a touch screen, giving the focus to a field opens the keyboard.
    const css = path ? '.opened' : matchMedia('(hover: hover)').matches ? '.tree input' : '.tree';
    restoreFocus(place.current?.querySelector<HTMLElement>(css));
  }, [path]);
  return (
    <div ref={place} class={`browser${path ? ' one' : ''}`}>
      <nav class="tree" aria-label="Files" tabIndex={-1}>
        <header>
          <input
            type="search"
            aria-label="Find a file"
            placeholder="Find a file"
            autocomplete="off"
            spellcheck={false}
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        </header>
        {filter ? (
          <Found project={project} query={filter} shown={path} />
        ) : (
          <Level key={project} project={project} path="" shown={path} depth={0} onGit={setInGit} />
        )}
      </nav>
      {path ? (
        <FileView key={path} project={project} path={path} line={line} changes={changes} isInGit={isInGit} />
      ) : (
        <div class="empty">
          <p>Select a file to read it.</p>
        </div>
      )}
    </div>
  );
}

/** The entries that one request returns, and the error if it failed. */
function useEntries(project: string, data: { path?: string; query?: string }) {
  const { client } = useWorld();
  const [entries, setEntries] = useState<FileEntry[]>();
  const [more, setMore] = useState(false);
  const [git, setGit] = useState<boolean>();
  const { problem, trying } = useTrying();
  useEffect(() => {
    let isOver = false;
    void trying(async () => {
      const answer = await client.connection.ask('file_list', data, { project, lasting: true });
      if (isOver) return;
      setEntries(answer.data.entries);
      setMore(Boolean(answer.data.more));
      setGit(Boolean(answer.data.git));
    });
    return () => {
      isOver = true;
    };
  }, [project, data.path, data.query]);
  return { entries, more, git, problem };
}

type LevelOf = { project: string; path: string; shown: string; depth: number };

/** @param onGit is called with true if the project is in a git work tree, otherwise with false */
function Level({ project, path, shown, depth, onGit }: LevelOf & { onGit?: (isInGit: boolean) => void }) {
  const { entries, more, git, problem } = useEntries(project, { path });
  useEffect(() => {
    if (git !== undefined) onGit?.(git);
  }, [git, onGit]);
  return (
    <>
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
      {entries?.length === 0 && (
        <p class="hint">{depth ? 'No files to show' : 'This folder is empty or contains only private files.'}</p>
      )}
      <ul>
        {entries?.map((entry) => (
          <Entry key={entry.path} project={project} entry={entry} shown={shown} depth={depth} />
        ))}
      </ul>
      {more && <p class="hint">Not all files are listed. Use “Find a file”.</p>}
    </>
  );
}

function Found({ project, query, shown }: { project: string; query: string; shown: string }) {
  const { entries, more, problem } = useEntries(project, { query });
  return (
    <>
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
      {entries?.length === 0 && <p class="hint">No matching files.</p>}
      <ul>
        {entries?.map((entry) => (
          <FileRow key={entry.path} project={project} entry={entry} shown={shown} label={entry.path} />
        ))}
      </ul>
      {more && <p class="hint">There may be more matches. Type more of the path.</p>}
    </>
  );
}

type Row = { project: string; entry: FileEntry; shown: string };

function Entry({ project, entry, shown, depth }: Row & { depth: number }) {
  const leadsThrough = `${shown}/`.startsWith(`${entry.path}/`);
  const [isOpen, setOpen] = useState(leadsThrough);
  useEffect(() => {
    if (leadsThrough) setOpen(true);
  }, [leadsThrough]);
  const name = baseName(entry.path);
  if (entry.kind !== 'directory') return <FileRow project={project} entry={entry} shown={shown} label={name} />;
  return (
    <li>
      <button type="button" class="entry quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name={isOpen ? 'unfold' : 'folder'} />
        <span>
          <Text line>{name}</Text>
        </span>
        <Mark entry={entry} />
      </button>
      {isOpen && (
        <div class="level">
          <Level project={project} path={entry.path} shown={shown} depth={depth + 1} />
        </div>
      )}
    </li>
  );
}

function FileRow({ project, entry, shown, label }: Row & { label: string }) {
  const { client } = useWorld();
  const words = (
    <>
      <Icon name="file" />
      <span>
        <Text line>{label}</Text>
      </span>
      <Mark entry={entry} />
    </>
  );
  const isGone = entry.status === 'D';
  const hasChanges = Boolean(entry.status) && !entry.link && client.may('file_changes');
  if (entry.kind === 'other' || (isGone && !hasChanges)) return <li class="entry gone">{words}</li>;
  return (
    <li>
      <a
        class={`entry ${isGone ? 'gone' : ''}`}
        href={(hasChanges ? changesAddress : fileAddress)(project, entry.path)}
        aria-current={shown === entry.path ? 'page' : undefined}
      >
        {words}
      </a>
    </li>
  );
}

function Mark({ entry: { status, ignored } }: { entry: FileEntry }) {
  const [mark, words] = (status && MARKS[status]) || [];
  if (mark)
    return (
      <span class={`mark mark-${mark}`} title={words}>
        <span aria-hidden="true">{mark}</span>
        <span class="unseen">{words}</span>
      </span>
    );
  return ignored ? <span class="mark ignored">ignored</span> : null;
}
