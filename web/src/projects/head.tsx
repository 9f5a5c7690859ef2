// The header of a view. For a session: its title, its state, and a menu of actions.

import { useEffect, useRef } from 'preact/hooks';

import { fileAddress } from '../files/address.ts';
import { Counts } from '../diff/counts.tsx';
import { reviewAddress } from '../review/address.ts';
import { searchAddress } from '../search/address.ts';
import { exportSession } from '../search/export.ts';
import * as kept from '../state/kept.ts';
import { baseName, counted } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { Menu } from '../ui/menu.tsx';
import { nextWaiting } from '../ui/next.ts';
import { failed, notLoaded } from '../ui/toasts.tsx';
import { useWorld, type World } from '../ui/world.ts';
import { idOf, newSession, removeRow, renameRow } from './acts.tsx';
import { addressOf, groups, type Row, titleOf } from './rows.ts';
import { agentName, standing } from './words.ts';

/** The list's row for the session that is shown, or undefined if none is shown, or if the list does not contain it. */
export function shownRow({ client, sessions, place }: World): Row | undefined {
  const shown = place.value;
  if (shown.view !== 'project') return undefined;
  const project = client.projects.all.get(shown.project);
  if (!project) return undefined;
  const [group] = groups([project], sessions.list.value);
  return group.rows.find((row) =>
    shown.session === undefined ? row.current : row.session?.session_id === shown.session,
  );
}

/** @param tools controls of the view below, such as the mode */
export function Head({ tools }: { tools?: Element }) {
  const world = useWorld();
  const { client, live, place, drawer, folded } = world;
  void live.projects.value;
  void live.hello.value;
  const shown = place.value;
  const isInside = shown.view === 'files' || shown.view === 'review';
  const project = shown.view === 'project' ? client.projects.all.get(shown.project) : undefined;
  const row = shownRow(world);
  // The link to the review already shows how many files there are to review.
  const state = row?.kind === 'undecided' ? standing(project) : row;
  // Without a connection, the last known state may be outdated.
  const isOpen = live.connection.value >= 0 && client.connection.state === 'open';
  const hold = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (tools) hold.current?.replaceChildren(tools);
  }, [tools, project === undefined]);
  const name = project && baseName(project.path);
  const heading = headingOf(world);
  const title = row ? row.title : project && titleOf(project);
  return (
    <header class="project-head">
      {shown.view !== 'home' && (
        <a
          href={isInside ? addressOf(shown.project) : '#/'}
          class={`back${isInside ? ' inside' : ''}`}
          aria-label={isInside ? 'Back to the session' : 'All sessions'}
        >
          <Icon name="back" />
        </a>
      )}
      <Button
        label="Show the list of sessions"
        icon="side"
        bare
        class="quiet unfold"
        aria-expanded={drawer.value}
        aria-controls="side"
        onClick={() => {
          if (folded.value && matchMedia(WIDE).matches) unfold(world);
          else drawer.value = !drawer.value;
        }}
      />
      {project ? (
        <div class="names">
          <h2>
            <span class="folder">
              <Text line>{name ?? ''}</Text>
            </span>
            <span class="title">
              <Text line>{title ?? ''}</Text>
            </span>
          </h2>
          <p class="path">
            {state && (
              <span class={`state ${isOpen ? state.kind : 'ended'}`}>
                <i class="dot" />
                <span>{isOpen ? state.words : 'Disconnected'}</span>
              </span>
            )}
            <span class="about">
              <Text
                line
              >{`${agentName(project.agent, client.hello)}${project.desk ? ' in a terminal' : ''} · ${project.path}`}</Text>
            </span>
          </p>
        </div>
      ) : (
        <div class="names">
          {heading && <h2>{heading}</h2>}
          {isInside && (
            <p class="path lone">
              <span class="about">
                <Text line>{client.projects.all.get(shown.project)?.path ?? ''}</Text>
              </span>
            </p>
          )}
        </div>
      )}
      <NextRequest />
      {project && shown.view === 'project' && shown.session === undefined && <ToReview project={project} />}
      {project && <div class="holder" ref={hold} />}
      {project && row && <SessionMenu row={row} />}
    </header>
  );
}

/**
 * The link to the next request in another session, with the number of such requests. It is on the screen whenever the
 * list, which shows them too, is not.
 */
function NextRequest() {
  const world = useWorld();
  const { client, live, place } = world;
  void live.projects.value;
  const shown = place.value;
  const isShown = shown.view === 'project' && shown.session === undefined;
  const own = isShown ? (client.projects.all.get(shown.project)?.approvals.length ?? 0) : 0;
  const others = client.projects.waiting - own;
  const next = nextWaiting(world);
  if (others <= 0 || next === undefined) return null;
  const label = `${counted(others, 'request')} in other sessions. Go to the next one`;
  return (
    <a class="next-request" href={next} aria-label={label} title={label}>
      <Icon name="bell" />
      {others}
    </a>
  );
}

/** The title of a view that does not show a session. Empty if it has none. */
function headingOf({ client, place }: World): string {
  const shown = place.value;
  if (shown.view === 'settings') return 'Settings';
  if (shown.view === 'search') return 'Search';
  if (shown.view !== 'files' && shown.view !== 'review') return '';
  const title = shown.view === 'files' ? 'Files' : 'Review';
  const path = client.projects.all.get(shown.project)?.path;
  return path ? `${title} of ${baseName(path)}` : title;
}

/** Milliseconds after which the review is requested, so that the content of the session comes first. */
const PAUSE = 1500;

/** The link to the review of a project, shown while there is something to decide or to commit. */
function ToReview({ project }: { project: any }) {
  const { client, live, reviews } = useWorld();
  const hasRun = Boolean(project.session_id || project.message_count);
  const { value: greeted } = live.hello;
  const isKnown = reviews.isKnown(project.id);
  useEffect(() => {
    if (!hasRun || isKnown) return;
    const later = setTimeout(() => reviews.look(project.id), PAUSE);
    return () => clearTimeout(later);
  }, [project.id, hasRun, greeted, isKnown]);
  const open = reviews.open(project.id);
  const kept = reviews.kept(project.id);
  if (!(open || kept) || !client.may('review_get')) return null;
  return (
    <a class="to-review" href={reviewAddress(project.id)}>
      {open ? 'Review' : 'Commit'} <span class="files">{counted(open?.files ?? kept, 'file')}</span>{' '}
      {open && <Counts added={open.added} removed={open.removed} />}
    </a>
  );
}

/** Screens where the list is beside the conversation, not over it. The same query is in ui.css and projects.css. */
export const WIDE = '(min-width: 1001px) and (min-height: 501px)';

export function unfold({ folded, drawer }: World) {
  folded.value = false;
  kept.keepFolded(false);
  drawer.value = false;
}

function SessionMenu({ row }: { row: Row }) {
  const world = useWorld();
  const { client } = world;
  const { project, session } = row;
  const isManaged = !project.desk;
  const exports = (format: 'markdown' | 'jsonl') =>
    void idOf(world, row)
      .then((id) => exportSession(client, project.id, id, format))
      .catch(failed);
  return (
    <Menu
      label="Session menu"
      choices={[
        isManaged &&
          client.may('agent_new_session') && {
            label: 'New session',
            icon: 'add',
            act: () =>
              void newSession(world, { path: project.path, name: '', hint: '', rows: [row], project }).catch(failed),
          },
        isManaged &&
          client.may('session_list') && {
            label: 'All sessions in this folder…',
            icon: 'sessions',
            act: () => void openSessions(world, project.id),
          },
        client.may('review_get') && {
          label: 'Review',
          icon: 'review',
          act: () => world.go(reviewAddress(project.id)),
        },
        client.may('file_list') && { label: 'Files', icon: 'folder', act: () => world.go(fileAddress(project.id)) },
        client.may('search') && {
          label: 'Search here…',
          icon: 'search',
          act: () => world.go(searchAddress('', project.id)),
        },
        ...(session && client.may('session_export')
          ? [
              { label: 'Export as Markdown', icon: 'down' as const, act: () => exports('markdown') },
              { label: 'Export as JSON Lines', icon: 'down' as const, act: () => exports('jsonl') },
            ]
          : []),
        session && client.may('session_rename') && { label: 'Rename…', icon: 'pen', act: () => renameRow(world, row) },
        { label: 'Settings', icon: 'settings', act: world.showSettings },
        { label: 'Keyboard shortcuts', icon: 'keyboard', act: world.showKeys },
        session &&
          isManaged &&
          client.may('session_delete') && {
            label: 'Remove session…',
            icon: 'trash',
            danger: true,
            act: () => removeRow(world, row, 'session'),
          },
        client.may('project_delete') && {
          label: isManaged ? 'Remove project…' : 'Remove session…',
          icon: 'trash',
          danger: true,
          act: () => removeRow(world, row, 'project'),
        },
      ]}
    />
  );
}

const openSessions = (world: World, project: string) =>
  import('../ui/views.ts').then(({ showSessions }) => showSessions(world, project), notLoaded);
