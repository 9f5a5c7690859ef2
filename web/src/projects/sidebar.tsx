// The list of sessions, each with its state and a preview. Sessions that wait for a person come first.

import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

import { searchAddress } from '../search/address.ts';
import * as kept from '../state/kept.ts';
import { ago, counted } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { Menu } from '../ui/menu.tsx';
import { failed } from '../ui/toasts.tsx';
import { useWorld } from '../ui/world.ts';
import { newSession, removeRow, renameRow } from './acts.tsx';
import { type Group, groups, type Row } from './rows.ts';
import { HowToAdd } from './welcome.tsx';

/** How many sessions of a directory are shown without a filter, unless more are current. The user can show the rest. */
const FEW = 5;

export function Sidebar() {
  const world = useWorld();
  const { client, live, sessions, filter } = world;
  // The list is drawn again when these signals change.
  void live.projects.value;
  void live.hello.value;
  const { projects } = client;
  const found = groups([...projects.all.values()], sessions.list.value, filter.value);
  const mayAdd = client.may('project_create');
  return (
    <nav class="side" id="side" aria-label="Sessions">
      <div class="side-top">
        <header>
          <a href="#/" class="brand">
            <img src="icon.svg" alt="" width={24} height={24} />
            <strong>Drawbridge</strong>
          </a>
          <Button label="Hide the list of sessions" icon="side" bare class="quiet fold" onClick={() => fold(world)} />
        </header>
        {mayAdd && <Button label="New session" icon="add" class="add" onClick={() => world.go('#/new')} />}
        {projects.all.size > 0 && <Filter />}
      </div>
      {projects.known && projects.all.size === 0 && (
        <div class="empty">
          <Icon name="folder" />
          <p>No projects yet</p>
          <p class="hint">
            {mayAdd ? (
              'A project is a folder on the server where an agent works.'
            ) : (
              <>
                This device can’t add projects.{' '}
                <span class="how">
                  <HowToAdd />
                </span>
              </>
            )}
          </p>
        </div>
      )}
      {projects.all.size > 0 && found.length === 0 && <p class="hint no-match">No matching sessions.</p>}
      {filter.value && client.may('search') && (
        <a class="search-all" href={searchAddress(filter.value)}>
          <Icon name="search" />
          <span>Search all conversations</span>
        </a>
      )}
      <ul class="projects">
        {found.map((group) => (
          <GroupView key={group.path} group={group} />
        ))}
      </ul>
      {sessions.hasMore.value && (
        <Button label="Show more sessions" class="quiet show-more" onClick={() => sessions.showMore()} />
      )}
      <footer>
        <Button label="Settings" icon="settings" class="quiet" onClick={world.showSettings} />
        <Button label="Keyboard shortcuts" icon="keyboard" bare class="quiet keys-button" onClick={world.showKeys} />
        <Button label="Go to… (Ctrl+K)" icon="search" bare class="quiet" onClick={world.showPalette} />
      </footer>
    </nav>
  );
}

/** Closes the list if it is open as a drawer, and otherwise hides it. */
export function fold({ drawer, folded }: { drawer: { value: boolean }; folded: { value: boolean } }) {
  if (drawer.value) drawer.value = false;
  else {
    folded.value = true;
    kept.keepFolded(true);
  }
  requestAnimationFrame(() => document.querySelector<HTMLElement>('.unfold')?.focus());
}

function Filter() {
  const { filter } = useWorld();
  return (
    <div class="filter">
      <Icon name="search" />
      <input
        id="filter"
        type="search"
        aria-label="Filter sessions"
        placeholder="Filter sessions"
        autocomplete="off"
        spellcheck={false}
        value={filter.value}
        onInput={(event) => {
          filter.value = event.currentTarget.value;
        }}
        onKeyDown={(event) => {
          if (event.key === 'Escape' && filter.value) {
            event.stopPropagation();
            filter.value = '';
          } else if (event.key === 'ArrowDown' || event.key === 'Enter') {
            event.preventDefault();
            const first = document.querySelector<HTMLElement>('.side .project, .side .session');
            if (event.key === 'Enter') first?.click();
            else first?.focus();
          }
        }}
      />
    </div>
  );
}

function GroupView({ group }: { group: Group }) {
  const world = useWorld();
  const { client, filter, place } = world;
  const shown = place.value;
  const isShown = (row: Row) =>
    shown.view === 'project' &&
    shown.project === row.project.id &&
    (shown.session === undefined ? row.current : shown.session === row.session?.session_id && !row.current);
  const current = group.rows.filter((row) => row.current);
  const older = group.rows.filter((row) => !row.current);
  const few = filter.value ? older : older.slice(0, Math.max(0, FEW - current.length));
  const { project } = group;
  const mayBegin = client.may('agent_new_session') && (project || client.may('project_create'));
  return (
    <li class="group">
      <div class="group-head">
        <h3 title={group.path}>
          <Icon name="folder" />
          <span>
            <Text line>{group.name}</Text>
          </span>
          {group.hint && (
            <small>
              <Text line>{group.hint}</Text>
            </small>
          )}
        </h3>
        {mayBegin && (
          <Button
            label={`New session in ${group.name}`}
            icon="add"
            bare
            class="quiet"
            onClick={() => void newSession(world, group).catch(failed)}
          />
        )}
      </div>
      <ul>
        {[...current, ...few].map((row) => (
          <RowView key={row.key} row={row} isShown={isShown(row)} />
        ))}
        {few.length < older.length && <More rows={older.slice(few.length)} isShown={isShown} />}
      </ul>
    </li>
  );
}

function More({ rows, isShown }: { rows: Row[]; isShown: (row: Row) => boolean }) {
  return (
    <li>
      <details class="more" open={rows.some(isShown)}>
        <summary>{counted(rows.length, 'earlier session')}</summary>
        <ul>
          {rows.map((row) => (
            <RowView key={row.key} row={row} isShown={isShown(row)} />
          ))}
        </ul>
      </details>
    </li>
  );
}

function RowView({ row, isShown }: { row: Row; isShown: boolean }) {
  const world = useWorld();
  const { project, session, kind, words, title, preview } = row;
  const isUnread = row.current && !isShown && project.last_seq > kept.seen(project.id);
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (isShown) link.current?.scrollIntoView({ block: 'nearest' });
  }, [isShown]);
  useLayoutEffect(() => {
    const row = link.current?.parentElement;
    // A row that is removed passes the focus to the next or previous one, or to the filter.
    return () => {
      if (!row?.contains(document.activeElement)) return;
      const next = row.nextElementSibling ?? row.previousElementSibling;
      (next?.querySelector('a') ?? document.getElementById('filter'))?.focus();
    };
  }, []);
  return (
    <li class="row">
      <a
        ref={link}
        href={row.href}
        class={`${row.current ? 'project' : 'session'} ${kind}${isUnread ? ' new' : ''}`}
        aria-current={isShown ? 'page' : undefined}
        onClick={() => {
          world.drawer.value = false;
        }}
      >
        <span class="name">
          {project.desk && (
            <span class="at-desk" title="In a terminal">
              <Icon name="tool" />
              <span class="unseen">In a terminal: </span>
            </span>
          )}
          <strong>
            <Text line>{title}</Text>
          </strong>
          {isUnread && (
            <span class="unread" title="Unread">
              <span class="unseen">Unread</span>
            </span>
          )}
          <time dateTime={row.active}>{ago(row.active)}</time>
        </span>
        <span class="facts">
          <span class={`state ${kind}`}>
            <i class="dot" />
            <span>{words}</span>
          </span>
          {preview && (
            <span class="last-line">
              <Text line>{preview}</Text>
            </span>
          )}
          {(row.added > 0 || row.removed > 0) && <Lines added={row.added} removed={row.removed} />}
        </span>
      </a>
      <Menu
        label={`Actions for “${title}”`}
        choices={[
          session &&
            world.client.may('session_rename') && { label: 'Rename…', icon: 'pen', act: () => renameRow(world, row) },
          (session && !project.desk ? world.client.may('session_delete') : false) && {
            label: 'Remove session…',
            icon: 'trash',
            danger: true,
            act: () => removeRow(world, row, 'session'),
          },
          row.current &&
            world.client.may('project_delete') && {
              label: project.desk ? 'Remove session…' : 'Remove project…',
              icon: 'trash',
              danger: true,
              act: () => removeRow(world, row, 'project'),
            },
        ]}
      />
    </li>
  );
}

/** "+12 −4" */
export function Lines({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="lines" title="Lines added and removed">
      <span class="plus">+{added}</span> <span class="minus">−{removed}</span>
    </span>
  );
}
