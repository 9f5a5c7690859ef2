// The state of all projects, built from messages from the server. Pure.

import { baseName } from '../ui/dom.ts';

/** A project as the messages `project_list` and `update/project_state` contain it. */
export type Project = any;

export class Projects {
  all: Map<string, Project>;
  known: boolean;

  constructor() {
    this.all = new Map();
    /** Whether the list has been received. */
    this.known = false;
  }

  /** Applies a message. Returns whether it changed anything. */
  take({ type, project_id: id, data }: any): boolean {
    if (type === 'project_list') {
      this.all = new Map(data.projects.map((one: Project) => [one.id, one]));
      this.known = true;
      return true;
    }
    if (type === 'project_deleted') return this.all.delete(data.project_id);
    if (type === 'permission_request') return this._change(id, (project) => waits(project, data));
    if (type === 'review')
      return this._change(id, (project) => (project.review = { files: (data.files?.length ?? 0) + (data.more ?? 0) }));
    if (type !== 'update') return false;
    const { update_type: what, data: told } = data;
    if (what === 'project_state' || what === 'project_created') {
      this.all.set(told.id, told); // replaces everything, because fields that it no longer has are not sent
      return true;
    }
    // An `update/project_state` with the complete state follows.
    if (what === 'session_reset') return this._change(id, (project) => (project.session_id = told.new_session_id));
    if (what === 'project_deleted') return this.all.delete(told.project_id);
    if (what === 'review_changed') return this._change(id, (project) => (project.review = told));
    if (what === 'permission_resolved' || what === 'permission_withdrawn') {
      return this._change(
        id,
        (project) => (project.approvals = project.approvals.filter((one: any) => one.approval_id !== told.approval_id)),
      );
    }
    return false;
  }

  /** Notes that a record with this number was received, if it is the project's newest. */
  heard(id: string | undefined, seq: number | undefined) {
    const project = this.all.get(id ?? '');
    if (project && seq && seq > project.last_seq) project.last_seq = seq;
  }

  /** The projects that wait for a person, then all others, both sorted by last activity, latest first. */
  sorted(): Project[] {
    const order = (one: Project) => (one.approvals.length ? 1 : 0);
    return [...this.all.values()].sort((a, b) => order(b) - order(a) || b.last_active.localeCompare(a.last_active));
  }

  /** The number of approval requests that wait, in all projects. */
  get waiting() {
    let sum = 0;
    for (const project of this.all.values()) sum += project.approvals.length;
    return sum;
  }

  /** `text` with a project's id replaced by the name of its directory. */
  named(text: string, id: string | undefined) {
    const project = this.all.get(id ?? '');
    return id && project ? text.replace(id, baseName(project.path)) : text;
  }

  _change(id: string | undefined, change: (project: Project) => void) {
    const project = this.all.get(id ?? '');
    if (!project) return false;
    change(project);
    return true;
  }
}

function waits(project: Project, { approval_id, tool_name, created_at, summary }: any) {
  if (!project.approvals.some((one: any) => one.approval_id === approval_id)) {
    project.approvals = [...project.approvals, { approval_id, tool_name, created_at, summary }];
  }
}

/** Whether the answer to an approval request can contain the user's own text. */
export function canBeEdited(request: any): boolean {
  const { proposal, truncated, changeable = true } = request;
  return Boolean(proposal) && changeable && !truncated && editedInput(request, '') !== undefined;
}

/**
 * The input for the answer to a request about a change, with the user's own text. An edit gets the whole file as its
 * old and new strings, so that what was shown is what will be written. Undefined if the text can't be edited.
 * @param text with "\n" as line endings
 */
export function editedInput({ editable, input, proposal }: any, text: string): object | undefined {
  const old_string = proposal.old_text.replace(/\r\n/g, '\n');
  switch (Array.isArray(editable) ? editable.join(' ') : '') {
    case 'content':
      return { ...input, content: endsLike(proposal.new_text, text) };
    case 'old_string new_string':
      return { ...input, old_string, new_string: text };
    case 'edits':
      return { ...input, edits: [{ old_string, new_string: text }] };
  }
  return undefined;
}

/** `text` with the line endings that most lines of `model` have. A text field has only one kind. */
export function endsLike(model: string, text: string) {
  const crlf = model.split('\r\n').length - 1;
  return crlf * 2 > model.split('\n').length - 1 ? text.replace(/\n/g, '\r\n') : text;
}

/** Whether remembering the answer switches to `mode`, and does nothing else. */
export const approvesMode = (suggestions: any, mode: string) =>
  Array.isArray(suggestions) &&
  suggestions.length > 0 &&
  suggestions.every((one) => one?.type === 'setMode' && one.mode === mode);
