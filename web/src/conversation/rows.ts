// The rows of a conversation: its items, with tool calls in groups, approval requests at the calls that they are about,
// and subagents' work at the calls that started it. Pure.

import { isToolCall } from '../approvals/input.ts';
import type { Item } from '../state/conversation.ts';
import { kindOf } from './tool-kinds.ts';
import type { ToolState } from './tool-words.ts';

/** A tool call with what belongs to it. */
export type ToolRow = {
  kind: 'tool';
  key: string;
  seq: number;
  version: string;
  tool: Item;
  state: ToolState;
  /** The approval request for the call, as an item. */
  question?: Item;
  /** The work of the agent that this call started. */
  children: Row[];
};

/** Consecutive tool calls that are folded into one row, and the thinking between them. */
export type GroupRow = { kind: 'group'; key: string; seq: number; version: string; rows: (ToolRow | ItemRow)[] };

export type ItemRow = {
  kind: 'item';
  key: string;
  seq: number;
  version: string;
  item: Item;
  /** At the end of a run: the run’s tool calls, or undefined if the run’s prompt is not loaded, or if it has none. */
  calls?: ToolRow[];
};

export type Row = ToolRow | GroupRow | ItemRow;

/** The key of each item's group, so that a group keeps its key when calls are added before or after it. */
const groups = new WeakMap<Item, string>();

/** The inputs of calls as texts, for comparison. */
const inputs = new WeakMap<object, string>();

function written(input: any) {
  if (typeof input !== 'object' || input === null) return JSON.stringify(input);
  let found = inputs.get(input);
  if (found === undefined) inputs.set(input, (found = JSON.stringify(input, sorted)));
  return found;
}

/** For `JSON.stringify`: sorts fields. Claude Code's request has a question's fields in a different order from the
 * model's call. */
const sorted = (_: string, value: any) =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(
        Object.keys(value)
          .sort()
          .map((name) => [name, value[name]]),
      )
    : value;

/**
 * Whether a request is about this call to the same tool. The request may have additional fields, which the agent has
 * filled in, such as the whole plan when Claude Code presents one.
 */
function isAbout({ input, kind }: any, call: any) {
  if (written(input) === written(call)) return true;
  const fields = typeof call === 'object' && call !== null ? Object.keys(call) : [];
  if (!fields.length) return kind === 'plan';
  return fields.every((name) => written(input?.[name]) === written(call[name]));
}

/** @param isRunning whether a run is active, so that calls after the end of the previous run may still be running */
export function rowsOf(items: readonly Item[], isRunning: boolean): Row[] {
  const questions = questionsOf(items);
  const tools = new Map<string, ToolRow>();
  const rows: Row[] = [];
  const ended = lastEnd(items);
  let calls: ToolRow[] | undefined;
  items.forEach((item, index) => {
    const own = item.kind === 'question' && questions.taken.has(item);
    if (own) return;
    const row =
      item.kind === 'tool'
        ? toolRow(item, questions.byTool.get(item), isRunning && index > ended)
        : ({ kind: 'item', key: item.key, seq: item.seq, version: `${item.version}`, item } as ItemRow);
    if (item.kind === 'prompt' && !item.steer) calls = [];
    else if (row.kind === 'tool') calls?.push(row);
    else if (item.kind === 'finished') {
      row.calls = calls;
      row.version += calls ? ' whole' : '';
      calls = undefined;
    }
    if (row.kind === 'tool') tools.set(item.id, row);
    const parent = item.parent && tools.get(item.parent);
    if (parent) parent.children.push(row);
    else rows.push(row);
  });
  return grouped(rows, new Set());
}

/** The index of the last item that ends a run, or -1 if there isn’t one. */
function lastEnd(items: readonly Item[]) {
  for (let n = items.length - 1; n >= 0; n--) if (items[n].kind === 'finished') return n;
  return -1;
}

/**
 * Matches approval requests to calls by the call's id if the request contains it, otherwise by tool and input. The call
 * comes first, except in a terminal session, where the agent asks before its own record of the call is read. A request
 * is never about a call that already had its result.
 */
function questionsOf(items: readonly Item[]) {
  const byTool = new Map<Item, Item>();
  const taken = new Set<Item>();
  const calls = new Map<string, Item[]>();
  const early = new Map<string, Item[]>();
  const join = (tool: Item, question: Item) => {
    byTool.set(tool, question);
    taken.add(question);
  };
  const about = ({ request }: Item, tool: Item) =>
    isToolCall(request) ? request.input.toolCallId === tool.id : isAbout(request, tool.input);
  for (const item of items) {
    if (item.kind === 'tool') {
      const asked = [...(early.get(item.name) ?? []), ...(early.get(BY_ID) ?? [])];
      const question = asked.find((one) => !taken.has(one) && about(one, item));
      if (question) join(item, question);
      append(calls, item.name, item);
      append(calls, BY_ID, item);
    } else if (item.kind === 'question') {
      const name = isToolCall(item.request) ? BY_ID : item.request.tool_name;
      const latest = (calls.get(name) ?? []).slice(-RECENT);
      const tool = latest.findLast((one) => !byTool.has(one) && !(one.result?.seq < item.seq) && about(item, one));
      if (tool) join(tool, item);
      else append(early, name, item);
    } else if (item.kind === 'prompt' || item.kind === 'finished') early.clear();
  }
  return { byTool, taken };
}

/** The key for calls to any tool. A request of the Agent Client Protocol contains the id of its call. */
const BY_ID = '';

/** The number of recent calls that are searched for the call that an approval request is about. */
const RECENT = 20;

function append(lists: Map<string, Item[]>, name: string, item: Item) {
  const list = lists.get(name);
  if (list) list.push(item);
  else lists.set(name, [item]);
}

function toolRow(tool: Item, question: Item | undefined, isRunning: boolean): ToolRow {
  const state = stateOf(tool, question?.answer, Boolean(question), isRunning);
  const version = `${tool.version} ${question?.version ?? ''} ${state}`;
  return { kind: 'tool', key: tool.key, seq: tool.seq, version, tool, state, question, children: [] };
}

function stateOf({ result, task }: Item, answer: any, isAsked: boolean, isRunning: boolean): ToolState {
  if (answer?.decision === 'deny') return 'rejected';
  if (task?.status === 'running' && isRunning) return 'running';
  if (task?.status === 'failed') return 'failed';
  if (task?.status === 'stopped' || task?.status === 'killed') return 'stopped';
  if (result) return !result.error ? 'done' : result.denied ? 'rejected' : 'failed';
  if (isAsked && !answer && isRunning) return 'waiting';
  return isRunning ? 'running' : 'stopped';
}

/** Whether the user should see a call without unfolding anything. */
function standsAlone(row: ToolRow) {
  const kind = kindOf(row.tool as any);
  const answer = row.question?.answer;
  return (
    row.state === 'rejected' ||
    // Withdrawn, overruled, or accepted with edits.
    (answer && (answer.decision !== 'allow' || answer.edited)) ||
    row.tool.result?.images?.length > 0 ||
    kind === 'question' ||
    kind === 'plan' ||
    kind === 'agent' ||
    kind === 'todo'
  );
}

const isQuiet = (row: Row) => row.kind === 'item' && row.item.kind === 'thinking';

function grouped(rows: Row[], used: Set<string>): Row[] {
  const found: Row[] = [];
  let open: (ToolRow | ItemRow)[] = [];
  const close = () => {
    if (open.filter((row) => row.kind === 'tool').length > 1) found.push(group(open, used));
    else found.push(...open);
    open = [];
  };
  for (const row of rows) {
    if (row.kind === 'tool') {
      row.children = grouped(row.children, used);
      if (row.children.length) row.version += ` ${row.children.map((child) => child.version).join()}`;
    }
    if ((row.kind === 'tool' && !standsAlone(row)) || isQuiet(row)) open.push(row as ToolRow | ItemRow);
    else {
      close();
      found.push(row);
    }
  }
  close();
  return found;
}

function group(rows: (ToolRow | ItemRow)[], used: Set<string>): GroupRow {
  const items = rows.map((row) => (row.kind === 'tool' ? row.tool : row.item));
  // A group that was split gives its key to the first of its parts.
  const known = items.map((item) => groups.get(item)).find((one) => one !== undefined && !used.has(one));
  const key = known ?? `group ${items[0].key}`;
  used.add(key);
  for (const item of items) groups.set(item, key);
  return { kind: 'group', key, seq: items[0].seq, version: rows.map((row) => row.version).join(), rows };
}

/** The last row that begins at or before a record, otherwise the first row. Undefined if there are no rows. */
export function rowAt(rows: readonly Row[], seq: number): Row | undefined {
  let found: Row | undefined;
  for (const row of rows) {
    if (row.seq > seq) break;
    found = row;
  }
  return found ?? rows[0];
}

const dayOf = (row: Row) => {
  const time = row.kind === 'item' ? row.item.timestamp : row.kind === 'tool' ? row.tool.timestamp : undefined;
  return typeof time === 'string' ? new Date(time) : undefined;
};

/** Adds a divider where a new day begins, except for the current day at the top. */
export function withDays(rows: readonly Row[], now = new Date()): Row[] {
  const found: Row[] = [];
  let last = now.toDateString();
  for (const row of rows) {
    const day = dayOf(row);
    if (day && day.toDateString() !== last) {
      last = day.toDateString();
      const year = day.getFullYear() === now.getFullYear() ? undefined : 'numeric';
      const text =
        last === now.toDateString()
          ? 'Today'
          : day.toLocaleDateString(undefined, { weekday: 'long', day: 'numeric', month: 'long', year });
      const item = { key: `day ${row.key}`, seq: row.seq, kind: 'day', version: 0, text };
      found.push({ kind: 'item', key: item.key, seq: row.seq, version: '', item });
    }
    found.push(row);
  }
  return found;
}

/** The prompts, for the outline. */
export const promptsOf = (items: readonly Item[]) => items.filter((item) => item.kind === 'prompt');
