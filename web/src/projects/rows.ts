// The rows of the list of sessions: grouped by directory, sessions that wait for a person first. Pure.

import type { SessionEntry } from '../state/sessions.ts';
import { baseName } from '../ui/dom.ts';
import { listed, plainLine, type Standing } from './words.ts';

export type Row = Standing & {
  key: string;
  /** The address of the view that shows the session. */
  href: string;
  project: any;
  /** Undefined if the server has not listed it, for example because it has not begun. */
  session?: SessionEntry;
  /** Whether the next run continues this session. */
  current: boolean;
  title: string;
  /** The agent's last line, or what it asks for. */
  preview: string;
  added: number;
  removed: number;
  active: string;
};

/** The sessions of one directory. `hint`: the parent directory, if two groups have the same name. */
export type Group = { path: string; name: string; hint: string; rows: Row[]; project?: any };

/** The maximum length of a title, in characters. The first prompt, which may be used for it, can be of any length. */
const TITLE = 120;

const firstLine = (text: string) => text.trim().split('\n', 1)[0].slice(0, TITLE);

export const addressOf = (project: string, session?: string) =>
  `#/p/${project}${session === undefined ? '' : `/s/${encodeURIComponent(session)}`}`;

/** A session's title: its name or first prompt, or a default while it has neither. */
export const titleOf = (project: any, session?: SessionEntry): string =>
  firstLine(session?.title || project.title || '') ||
  (project.desk ? 'Terminal session' : project.session_id ? 'Session' : 'New session');

function currentRow(project: any, session: SessionEntry | undefined): Row {
  const { kind, words } = listed(project);
  const silent = project.desk?.asks === false && project.desk.state !== 'ended' && kind !== 'waiting';
  const [asked] = project.approvals;
  return {
    key: project.id,
    href: addressOf(project.id),
    project,
    session,
    current: true,
    title: titleOf(project, session),
    kind,
    words: silent ? `${words} · not asking` : words,
    // Requests that an older server has stored have no summary.
    preview: asked
      ? firstLine(asked.summary || `Use ${asked.tool_name}`)
      : plainLine(firstLine(session?.last_line ?? '')),
    added: session?.added ?? 0,
    removed: session?.removed ?? 0,
    active: project.last_active,
  };
}

function olderRow(project: any, session: SessionEntry): Row {
  return {
    key: `${project.id} ${session.session_id}`,
    href: addressOf(project.id, session.session_id),
    project,
    session,
    current: false,
    title: titleOf({}, session),
    kind: session.state === 'failed' ? 'failed' : 'ended',
    words: session.state === 'failed' ? 'Last run failed' : 'Finished',
    preview: plainLine(firstLine(session.last_line ?? '')),
    added: session.added ?? 0,
    removed: session.removed ?? 0,
    active: session.last_active,
  };
}

const rank = (row: Row) => (row.kind === 'waiting' ? 0 : row.current ? 1 : 2);
const byNeed = (a: Row, b: Row) => rank(a) - rank(b) || b.active.localeCompare(a.active);

/** @param filter words that have to occur in the title, the directory, the agent, the preview or the state */
export function groups(projects: any[], sessions: SessionEntry[], filter = ''): Group[] {
  const known = new Map(projects.map((project) => [project.id, project]));
  const current = new Map<string, SessionEntry>();
  for (const one of sessions) if (one.current) current.set(one.project_id, one);
  const rows = projects.map((project) => currentRow(project, current.get(project.id)));
  for (const one of sessions) {
    const project = known.get(one.project_id);
    if (project && !one.current) rows.push(olderRow(project, one));
  }
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const all = new Map<string, Group>();
  for (const row of rows) {
    const { path, agent } = row.project;
    const text = `${row.title} ${path} ${agent} ${row.preview} ${row.words}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const group: Group = all.get(path) ?? { path, name: baseName(path), hint: '', rows: [] };
    if (!row.project.desk) group.project = row.project;
    group.rows.push(row);
    all.set(path, group);
  }
  const found = [...all.values()];
  for (const group of found) {
    group.rows.sort(byNeed);
    if (found.some((other) => other !== group && other.name === group.name)) group.hint = parent(group.path);
  }
  return found.sort((a, b) => byNeed(a.rows[0], b.rows[0]));
}

function parent(path: string) {
  const names = path.replace(/\/+$/, '').split('/').slice(0, -1);
  return names.length > 2 ? `…/${names.slice(-2).join('/')}` : names.join('/') || '/';
}
