// Actions on a session in the list, and the dialogs that confirm them.

import { useEffect, useRef } from 'preact/hooks';

import { baseName } from '../ui/dom.ts';
import { Dialog, Text } from '../ui/elements.tsx';
import { Confirm, overlay, useTrying } from '../ui/overlays.tsx';
import { said } from '../ui/toasts.tsx';
import type { World } from '../ui/world.ts';
import { addressOf, type Group, type Row } from './rows.ts';

/** Starts a session in the group's project and shows it. A directory that has only terminal sessions becomes a project,
 * with the agent of the group's first row. */
export async function newSession(world: World, group: Group) {
  const { client } = world;
  if (group.project) await client.connection.ask('agent_new_session', {}, { project: group.project.id });
  const id =
    group.project?.id ??
    (await client.connection.ask('project_create', { path: group.path, agent: group.rows[0]?.project.agent })).data.data
      .id;
  world.go(addressOf(id));
  said('New session. Your next message starts fresh.');
}

/** Makes an earlier session, or a copy of it, the current session, which the next message continues. */
export async function resume(world: World, project: string, session: string, copies = false) {
  await world.client.connection.ask(copies ? 'session_fork' : 'session_resume', { session_id: session }, { project });
  world.go(addressOf(project));
  said(
    copies ? 'Forked. Your next message continues in the copy.' : 'Resumed. Your next message continues that session.',
  );
}

/**
 * The id of a row's session, or '' if it has none. The current session's id is requested, because soon after a session
 * begins, the list may still contain its previous id.
 */
export async function idOf(world: World, { project, session, current }: Row): Promise<string> {
  if (!current) return session?.session_id ?? '';
  const { data } = await world.client.connection.ask('sessions', { limit: 20 }, { project: project.id });
  return data.sessions.find((one: any) => one.current)?.session_id ?? session?.session_id ?? '';
}

export function renameRow(world: World, row: Row) {
  if (row.session) overlay((close) => <Rename world={world} row={row} close={close} />);
}

function Rename({ world, row, close }: { world: World; row: Row; close: () => void }) {
  const { problem, busy, trying } = useTrying();
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const rename = (event: Event) => {
    event.preventDefault();
    void trying(async () => {
      const name = field.current?.value.trim() ?? '';
      await world.client.connection.ask(
        'session_rename',
        { session_id: await idOf(world, row), name },
        { project: row.project.id },
      );
      world.sessions.refresh();
      close();
    });
  };
  return (
    <Dialog title="Rename session" onClose={close}>
      <form onSubmit={rename}>
        <label for="session-name">Name (leave empty to use the first message)</label>
        <input
          id="session-name"
          type="text"
          maxLength={120}
          autocomplete="off"
          ref={field}
          defaultValue={row.session?.named ? row.title : ''}
          placeholder={row.title}
        />
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
        <footer>
          <button type="submit" class="yes" disabled={busy}>
            Rename
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

/** @param what whether to remove one session or the whole project (a terminal session is a project) */
export function removeRow(world: World, row: Row, what: 'session' | 'project') {
  const { project, session } = row;
  const { client, place } = world;
  const isProject = what === 'project';
  const text = project.desk
    ? 'This removes the session from the list and deletes Drawbridge’s copy of it. What the agent has stored is kept.'
    : isProject
      ? 'All its conversations are moved to the server’s trash for 7 days. Your files aren’t touched.'
      : 'The conversation is moved to the server’s trash for 7 days. Your files aren’t touched.';
  const remove = async () => {
    if (isProject) await client.remove(project.id);
    else await client.connection.ask('session_delete', { session_id: await idOf(world, row) }, { project: project.id });
    world.sessions.refresh();
    const shown = place.value;
    if (shown.view !== 'project' || shown.project !== project.id) return;
    if (isProject) world.go('#/');
    else if (shown.session === session?.session_id) world.go(addressOf(project.id));
  };
  overlay((close) => (
    <Confirm
      title={isProject && !project.desk ? `Remove ${baseName(project.path)}?` : 'Remove this session?'}
      text={text}
      yes="Remove"
      danger
      act={remove}
      close={close}
    />
  ));
}
