// The view while no session is open: the three steps to a new session, the latest sessions, or a hint that this device
// can't add projects.

import { useEffect, useRef } from 'preact/hooks';

import { ago } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { restoreFocus } from '../ui/focus.ts';
import { useWorld } from '../ui/world.ts';
import { groups } from './rows.ts';
import { Start } from './start.tsx';

const LATEST = 5;

export function Welcome() {
  const world = useWorld();
  const { client, live, place } = world;
  void live.projects.value;
  void live.hello.value;
  if (!client.projects.known && place.value.view !== 'new') return <div class="welcome" />;
  const isEmpty = client.projects.all.size === 0;
  if (place.value.view === 'new' || (isEmpty && client.may('project_create'))) return <Start />;
  return isEmpty ? (
    <div class="empty">
      <Icon name="folder" />
      <p>No projects yet</p>
      <p class="hint">
        This device can’t add projects. <HowToAdd />
      </p>
    </div>
  ) : (
    <Latest />
  );
}

/** How the owner adds the first project, or lets a device without the scope for it do so. */
export function HowToAdd() {
  return (
    <>
      On the server’s machine, run <code>drawbridge attach .</code> in the project’s folder, or pair this device again
      with <code>drawbridge pair --scope admin</code>.
    </>
  );
}

function Latest() {
  const world = useWorld();
  const { client, sessions } = world;
  const rows = groups([...client.projects.all.values()], sessions.list.value)
    .flatMap((group) => group.rows.map((row) => ({ row, name: group.name })))
    .sort(
      (a, b) =>
        Number(b.row.kind === 'waiting') - Number(a.row.kind === 'waiting') || b.row.active.localeCompare(a.row.active),
    )
    .slice(0, LATEST);
  const place = useRef<HTMLUListElement>(null);
  useEffect(() => restoreFocus(place.current?.querySelector('a')), []);
  return (
    <div class="welcome">
      <p class="lead">
        {client.may('project_create')
          ? 'Select a session, or start a new one.'
          : 'Select a session to see its conversation.'}
      </p>
      <h2>Latest sessions</h2>
      <ul class="latest" ref={place}>
        {rows.map(({ row, name }) => (
          <li key={row.key}>
            <a href={row.href}>
              <strong>
                <Text line>{row.title}</Text>
              </strong>
              <span class="facts">
                <span class={`state ${row.kind}`}>
                  <i class="dot" />
                  <span>{row.words}</span>
                </span>
                <span class="last-line">
                  <Text line>{name}</Text>
                </span>
                <time dateTime={row.active}>{ago(row.active)}</time>
              </span>
            </a>
          </li>
        ))}
      </ul>
      <footer>
        {client.may('project_create') && (
          <Button label="New session" icon="add" class="yes" onClick={() => world.go('#/new')} />
        )}
        <Button label="Go to…" icon="search" shortcut="Ctrl+K" ariaShortcut="Control+K" onClick={world.showPalette} />
      </footer>
    </div>
  );
}
