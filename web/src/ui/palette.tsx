// The command palette: sessions and commands by a few letters of their names.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

import { fileAddress } from '../files/address.ts';
import { reviewAddress } from '../review/address.ts';
import { searchAddress } from '../search/address.ts';
import { newSession, removeRow, renameRow } from '../projects/acts.tsx';
import { shownRow } from '../projects/head.tsx';
import { groups } from '../projects/rows.ts';
import { setTheme, THEMES, theme } from '../settings/theme.ts';
import { Dialog, Icon, type IconName, Text } from './elements.tsx';
import { best } from './fuzzy.ts';
import { nextWaiting } from './next.ts';
import { counted } from './dom.ts';
import { overlay } from './overlays.tsx';
import { failed } from './toasts.tsx';
import type { World } from './world.ts';

type Entry = { key: string; label: string; detail: string; icon: IconName; shortcut?: string; act: () => void };

export function showPalette(world: World) {
  if (document.querySelector('dialog[open]')) return;
  overlay((close) => <Palette world={world} close={close} />);
}

function sessionsOf(world: World): Entry[] {
  return groups([...world.client.projects.all.values()], world.sessions.list.value).flatMap((group) =>
    group.rows.map((row) => ({
      key: row.key,
      label: row.title,
      detail: `${group.name} · ${row.words}`,
      icon: row.project.desk ? 'tool' : 'sessions',
      act: () => world.go(row.href),
    })),
  );
}

function commandsOf(world: World): Entry[] {
  const { client } = world;
  const row = shownRow(world);
  const next = nextWaiting(world);
  const command = (label: string, icon: IconName, act: () => void, detail = '', shortcut?: string): Entry => ({
    key: label,
    label,
    detail,
    icon,
    shortcut,
    act,
  });
  const own = row && !row.project.desk;
  return [
    next && command('Go to the next request', 'bell', () => world.go(next), '', 'n'),
    row?.kind === 'working' && client.may('agent_interrupt') && own && command('Stop the run', 'stop', world.stop),
    client.may('project_create') && command('New session…', 'add', () => world.go('#/new'), 'choose a folder'),
    own &&
      client.may('agent_new_session') &&
      command('New session here', 'add', () => {
        const { project } = row;
        void newSession(world, { path: project.path, name: '', hint: '', rows: [row], project }).catch(failed);
      }),
    row?.session && client.may('session_rename') && command('Rename session…', 'pen', () => renameRow(world, row)),
    row &&
      client.may('project_delete') &&
      command(own ? 'Remove project…' : 'Remove session…', 'trash', () => removeRow(world, row, 'project')),
    row &&
      client.may('review_get') &&
      command(
        'Review changes',
        'review',
        () => world.go(reviewAddress(row.project.id)),
        reviewWords(world, row.project.id),
      ),
    row && client.may('file_list') && command('Files', 'folder', () => world.go(fileAddress(row.project.id))),
    client.may('search') && command('Search all conversations', 'search', () => world.go(searchAddress(''))),
    command('Settings', 'settings', world.showSettings),
    ...THEMES.filter(([key]) => key !== theme.value).map(([key, name]) =>
      command(`Theme: ${name}`, 'theme', () => setTheme(key)),
    ),
    command('Keyboard shortcuts', 'keyboard', world.showKeys, '', '?'),
    command('All sessions', 'list', () => world.go('#/')),
  ].filter(Boolean) as Entry[];
}

function reviewWords({ reviews }: World, project: string) {
  const open = reviews.open(project);
  return open ? `${counted(open.files, 'file')} +${open.added} −${open.removed}` : '';
}

function Palette({ world, close }: { world: World; close: () => void }) {
  const all = useMemo(() => [...commandsOf(world), ...sessionsOf(world)], []);
  const [query, setQuery] = useState('');
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const found = best(all, query, (one) => `${one.label} ${one.detail}`);
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    close();
    entry.act();
  };
  const keys = (event: KeyboardEvent) => {
    const count = found.length;
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps && count) {
      event.preventDefault();
      setAt((at + steps[event.key] + count) % count);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      run(found[at]);
    }
  };
  return (
    <Dialog title="Go to…" class="palette" onClose={close}>
      <input
        type="text"
        role="combobox"
        aria-label="Session or command"
        aria-expanded="true"
        aria-controls="palette"
        aria-autocomplete="list"
        aria-activedescendant={found.length ? `entry-${at}` : undefined}
        placeholder="Session or command"
        autocomplete="off"
        spellcheck={false}
        ref={field}
        value={query}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={keys}
      />
      <div id="palette" role="listbox" aria-label="Sessions and commands" ref={list}>
        {found.map((entry, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above handles the keys
          <div
            key={entry.key}
            id={`entry-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === at}
            onClick={() => run(entry)}
            onPointerMove={() => setAt(index)}
          >
            <Icon name={entry.icon} />
            <span class="label">
              <Text line>{entry.label}</Text>
            </span>
            {entry.detail && (
              <small>
                <Text line>{entry.detail}</Text>
              </small>
            )}
            {entry.shortcut && <kbd aria-hidden="true">{entry.shortcut}</kbd>}
          </div>
        ))}
      </div>
      <p class="hint" role="status">
        {found.length ? '' : 'No matching sessions or commands.'}
      </p>
    </Dialog>
  );
}
