// A tool call in words: what is done to what. Pure.

import { isObject } from '../approvals/input.ts';
import { baseName, shownPath } from '../ui/dom.ts';
import { kindOf, type ToolKind } from './tool-kinds.ts';

/** The fields of an item that determine the words. `result`: the result that the agent reported, if any. */
export type Call = { name: string; input: any; result?: any };

/** The verbs for a call that is running, and for one that is over. */
const VERBS: Record<ToolKind, [string, string]> = {
  read: ['Reading', 'Read'],
  edit: ['Editing', 'Edited'],
  write: ['Writing', 'Wrote'],
  command: ['Running', 'Ran'],
  search: ['Searching for', 'Searched for'],
  find: ['Looking for', 'Looked for'],
  fetch: ['Fetching', 'Fetched'],
  web: ['Searching the web for', 'Searched the web for'],
  agent: ['Running agent', 'Ran agent'],
  todo: ['Updating the to-do list', 'Updated the to-do list'],
  question: ['Asking', 'Asked'],
  plan: ['Presenting the plan', 'Presented the plan'],
  output: ['Reading output of', 'Read output of'],
  stop: ['Stopping', 'Stopped'],
  skill: ['Using skill', 'Used skill'],
  other: ['Using', 'Used'],
};

/** The verbs for a call that waits for approval, or was not allowed to run. */
const WANTED: Partial<Record<ToolKind, string>> = {
  read: 'Read',
  edit: 'Edit',
  write: 'Write',
  command: 'Run',
  search: 'Search for',
  find: 'Look for',
  fetch: 'Fetch',
  web: 'Search the web for',
  agent: 'Run agent',
  todo: 'Update the to-do list',
  output: 'Read output of',
  stop: 'Stop',
  skill: 'Use skill',
  other: 'Use',
};

export type ToolState = 'running' | 'waiting' | 'done' | 'failed' | 'rejected' | 'stopped';

export function verb(call: Call, state: ToolState) {
  const kind = kindOf(call);
  if (state === 'waiting' || state === 'rejected') return WANTED[kind] ?? VERBS[kind][state === 'waiting' ? 0 : 1];
  return VERBS[kind][state === 'running' ? 0 : 1];
}

const text = (value: any) => (typeof value === 'string' && value ? value : undefined);

/** The first line, cut to a length that a row can show. */
const short = (value: string) => value.trim().split('\n', 1)[0].slice(0, 200);

/**
 * The file of a call, and the line in it that was read first or changed first, if it is known. Undefined if the call
 * has no file.
 */
export function fileIn({ input, result }: Call): { path: string; line?: number } | undefined {
  if (!isObject(input)) return undefined;
  const path = text(input.file_path) ?? text(input.notebook_path);
  if (!path) return undefined;
  const line = input.offset ?? firstChanged(result?.patch);
  return { path, line: Number.isInteger(line) && line > 0 ? line : undefined };
}

/** A change of text that the input of a call contains. `isWhole`: whether the new text is the whole file. */
export type TextChange = { old_text: string; new_text: string; isWhole: boolean };

/** The maximum number of changes of one call that are drawn. */
const CHANGES = 50;

/**
 * The changes in the input of a call that edits or writes a file: one, or a list of them. Empty for any other call, and
 * if the input has another form.
 */
export function textChanges(call: Pick<Call, 'name' | 'input'>): TextChange[] {
  const kind = kindOf(call);
  const { input } = call;
  if ((kind !== 'edit' && kind !== 'write') || !isObject(input)) return [];
  const listed = Array.isArray(input.edits) ? input.edits.slice(0, CHANGES) : [input];
  const edits = listed.filter((edit) => typeof edit?.new_string === 'string');
  if (edits.length && edits.length === listed.length)
    return edits.map((edit) => ({
      old_text: String(edit.old_string ?? ''),
      new_text: edit.new_string,
      isWhole: false,
    }));
  return typeof input.content === 'string' ? [{ old_text: '', new_text: input.content, isWhole: true }] : [];
}

/** The files that a patch in the input of a call changes, in the order of the patch. Empty for any other call. */
export function patched({ name, input }: Pick<Call, 'name' | 'input'>): string[] {
  const lines = kindOf({ name }) === 'edit' ? (text(input?.patch) ?? '').split('\n') : [];
  const found = lines.flatMap((line) => /^\*\*\* (?:Add|Update|Delete) File: (.+)/.exec(line)?.[1].trim() ?? []);
  return [...new Set(found)];
}

/** The number of the first line that a patch changes, in the new version, or undefined if it is not a patch. */
function firstChanged(patch: any): number | undefined {
  const hunk = Array.isArray(patch) ? patch[0] : undefined;
  if (!Number.isInteger(hunk?.newStart) || !Array.isArray(hunk.lines)) return undefined;
  return (
    hunk.newStart +
    Math.max(
      0,
      hunk.lines.findIndex((line: unknown) => !String(line).startsWith(' ')),
    )
  );
}

/** What a call acts on. `code`: whether it is shown as code. */
export function subject(call: Call, root: string): { words: string; code: boolean } {
  const { name } = call;
  const input = isObject(call.input) ? call.input : {};
  const kind = kindOf(call);
  const code = (words: string | undefined) => ({ words: short(words ?? ''), code: true });
  const plain = (words: string | undefined) => ({ words: short(words ?? ''), code: false });
  const file = fileIn(call);
  switch (kind) {
    case 'search': {
      const where = text(input.path) ?? text(input.glob);
      const pattern = short(text(input.pattern) ?? '');
      if (!pattern) return plain('text');
      return code(where ? `${pattern} in ${shownPath(where, root)}` : pattern);
    }
    case 'find':
      return code(text(input.pattern) ?? (text(input.path) ? shownPath(input.path, root) : 'files'));
    case 'command':
      return text(input.command) ? code(input.command) : plain('a command');
    case 'fetch':
      return text(input.url) ? code(input.url) : plain('a page');
    case 'web':
      return plain(text(input.query) ? `“${input.query}”` : 'pages');
    case 'agent':
      return plain(text(input.description) ?? text(input.subagent_type) ?? text(input.prompt));
    case 'question':
      return plain(text(input.questions?.[0]?.question) ?? 'a question');
    case 'output':
    case 'stop': {
      const id = text(input.bash_id) ?? text(input.shell_id) ?? text(input.task_id);
      return id ? code(id) : plain('a background task');
    }
    case 'skill':
      return code(text(input.skill) ?? text(input.command) ?? text(input.name));
    case 'todo':
    case 'plan':
      return plain('');
    default:
  }
  if (file) {
    const path = shownPath(file.path, root);
    const { offset, limit } = input;
    const lines =
      kind === 'read' && Number.isInteger(offset)
        ? `:${offset}${Number.isInteger(limit) ? `–${offset + limit - 1}` : ''}`
        : '';
    return code(`${path}${lines}`);
  }
  if (kind === 'edit' && 'patch' in input) {
    const files = patched(call).map((path) => shownPath(path, root));
    return files.length ? code(files.join(', ')) : plain('files');
  }
  if (kind === 'read' || kind === 'edit' || kind === 'write') return plain('a file');
  const tool = /^mcp__(.+?)__(.+)$/.exec(name);
  const what = Object.values(input).find((value) => text(value)) as string | undefined;
  return plain(`${tool ? `${tool[2]} (${tool[1]})` : name}${what ? `: ${short(what)}` : ''}`);
}

const NOUNS: Partial<Record<ToolKind, [string, string, string]>> = {
  read: ['read', 'file', 'files'],
  edit: ['edited', 'file', 'files'],
  write: ['wrote', 'file', 'files'],
  command: ['ran', 'command', 'commands'],
  search: ['searched', 'time', 'times'],
  find: ['looked for files', 'time', 'times'],
  fetch: ['fetched', 'page', 'pages'],
  web: ['searched the web', 'time', 'times'],
  agent: ['ran', 'agent', 'agents'],
};

/** "Read 8 files, ran 6 commands": the calls that are over, by kind, in the order of each kind's first call. */
export function groupWords(calls: (Call & { state: ToolState })[]): string {
  const counts = new Map<ToolKind, { times: number; files: Set<string> }>();
  for (const call of calls) {
    if (call.state === 'running' || call.state === 'waiting') continue;
    const found = kindOf(call);
    const kind = found in NOUNS || found === 'todo' ? found : 'other';
    const one = counts.get(kind) ?? { times: 0, files: new Set() };
    one.times++;
    const changed = patched(call);
    for (const path of changed.length ? changed : [fileIn(call)?.path ?? `${one.times}`]) one.files.add(path);
    counts.set(kind, one);
  }
  const words = [...counts].map(([kind, { times, files }]) => {
    if (kind === 'todo') return 'updated the to-do list';
    const noun = NOUNS[kind];
    if (!noun) return times === 1 ? 'used 1 tool' : `used ${times} tools`;
    const count = noun[1] === 'file' ? files.size : times;
    if (noun[1] === 'time') return count === 1 ? noun[0] : `${noun[0]} ${count} times`;
    return `${noun[0]} ${count} ${count === 1 ? noun[1] : noun[2]}`;
  });
  const all = words.join(', ');
  return all && `${all[0].toUpperCase()}${all.slice(1)}`;
}

/** One line about a call: "Running npm test" while it runs, "Run npm test" while it waits. */
export function nowWords(call: Call, root: string, state: ToolState = 'running') {
  const kind = kindOf(call);
  const { words } = subject(call, root);
  if (patched(call).length > 1) return `${verb(call, state)} ${words}`;
  return `${verb(call, state)} ${kind === 'read' || kind === 'edit' || kind === 'write' ? baseName(words) : words}`.trim();
}
