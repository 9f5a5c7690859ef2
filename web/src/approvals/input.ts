// What an approval asks for, read from its request. Pure.

import { shownPath } from '../ui/dom.ts';

/** A part of a field to look at twice, in UTF-16 code units; both ends 0: the whole field. */
export type Risk = { code: string; text: string; field?: string; start?: number; end?: number };

/** What `remember` would change. */
export type Always = { text: string; suggestion: number; saved_in?: string };

export type FileChange = { path: string; old_text: string; new_text: string };

/** Words for the titles of a server that sends none. */
const TITLES: Record<string, string> = {
  Edit: 'wants to edit',
  MultiEdit: 'wants to edit',
  NotebookEdit: 'wants to edit',
  Bash: 'wants to run a command',
  WebFetch: 'wants to fetch a web page',
  WebSearch: 'wants to search the web',
};

/** The same for kinds of tool calls of the Agent Client Protocol. */
const KINDS: Record<string, string> = {
  edit: 'wants to edit',
  delete: 'wants to delete',
  move: 'wants to move',
  execute: 'wants to run a command',
  fetch: 'wants to fetch a web page',
};

/** Fields that change what a call may do, in words. */
const FLAGS: Record<string, string> = {
  dangerouslyDisableSandbox: 'Runs outside the sandbox',
  run_in_background: 'Runs in the background',
};

export const isObject = (value: any): value is Record<string, any> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A text as it is; anything else as JSON. */
export const asText = (value: any) => (typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? 'null'));

/** Whether the input is a tool call as agents of the Agent Client Protocol describe it. */
export const isToolCall = (input: any) => isObject(input) && typeof input.toolCallId === 'string';

/** The changes of files in such a call. */
export function changesIn(input: any): FileChange[] {
  if (!isToolCall(input) || !Array.isArray(input.content)) return [];
  return input.content
    .filter((part: any) => part?.type === 'diff' && typeof part.path === 'string' && typeof part.newText === 'string')
    .map(({ path, oldText, newText }: any) => ({
      path,
      old_text: typeof oldText === 'string' ? oldText : '',
      new_text: newText,
    }));
}

/** Whether a request changes files: then there are differences to be drawn. */
export const changesFiles = ({ proposal, input }: any) => Boolean(proposal) || changesIn(input).length > 0;

/** The texts in such a call. */
export function textsIn(input: any): string[] {
  if (!isToolCall(input) || !Array.isArray(input.content)) return [];
  return input.content.map((part: any) => part?.content?.text).filter((text: any) => typeof text === 'string');
}

/** The plan that an agent wants to carry out; undefined: this is not about one. */
export function planIn({ tool_name: tool, input }: any): string | undefined {
  if (tool !== 'ExitPlanMode') return undefined;
  return typeof input?.plan === 'string' ? input.plan : textsIn(input).join('\n\n');
}

/** Whether a person is asked to choose. */
export const asksQuestions = ({ tool_name: tool, input }: any) =>
  tool === 'AskUserQuestion' && Array.isArray(input?.questions) && input.questions.every(isObject);

/** What the agent wants, and the file where there is one. */
export function titleOf(request: any, agent: string, root: string): [string, string | undefined] {
  const { tool_name: tool, proposal, input, title } = request;
  // The server shortens a name that is longer.
  if (typeof title?.text === 'string' && String(tool).length <= 200) return [title.text, title.path ?? undefined];
  if (asksQuestions(request)) return [`${agent} has a question`, undefined];
  if (planIn(request) !== undefined) return [`${agent}’s plan`, undefined];
  const path = proposal?.path ?? input?.file_path ?? input?.notebook_path;
  const files = proposal ? 0 : changesIn(input).length;
  if (files > 1) return [`${agent} wants to edit ${files} files`, undefined];
  const write = proposal && !proposal.old_text ? 'wants to create' : proposal ? 'wants to overwrite' : 'wants to write';
  const words = isToolCall(input) ? KINDS : TITLES;
  const what = tool === 'Write' ? write : Object.hasOwn(words, tool) ? words[tool] : undefined;
  return [
    `${agent} ${what ?? `wants to use ${String(tool)}`}`,
    typeof path === 'string' ? shownPath(path, root) : undefined,
  ];
}

/** Whether a field changes what the call may do. */
export const isFlag = (name: string, value: any) =>
  Boolean(value) && (Object.hasOwn(FLAGS, name) || /^dangerous/i.test(name));

export const flagWords = (name: string) => (Object.hasOwn(FLAGS, name) ? FLAGS[name] : 'Dangerous');

/** Fields of the input that a person may change, as texts; none where the change of a file is edited instead. */
export function editableFields({ editable, input, proposal, truncated, tool_name: tool }: any): string[] {
  if (!Array.isArray(editable) || truncated || !isObject(input) || tool === 'AskUserQuestion') return [];
  if (proposal && tool !== 'NotebookEdit') return [];
  return editable.filter((name: any) => Object.hasOwn(input, name) && typeof input[name] === 'string');
}

/** The risks in a field of the input. */
export const risksIn = (request: any, field: string): Risk[] =>
  (request.risks ?? []).filter((risk: Risk) => risk.field === field && (risk.end ?? 0) > (risk.start ?? 0));
