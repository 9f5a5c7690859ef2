// Interprets the input of approval requests. Pure.

import type { PermissionRequest, Risk } from '../protocol/messages.ts';

/** The fields of a request that describe its input. */
export type Asking = Pick<PermissionRequest, 'input'> & Partial<PermissionRequest>;

export type FileChange = { path: string; old_text: string; new_text: string };

export const isObject = (value: any): value is Record<string, any> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Matches names that JavaScript lists before all others, whatever their position in the input. */
const INDEX = /^(0|[1-9]\d*)$/;

/**
 * The rank by which fields are sorted: 1 for a name that is a number, 0 for any other. JavaScript does not keep the
 * positions of such names, and a field that the agent names `0` must not appear above the command.
 */
export const rank = (name: string) => Number(INDEX.test(name));

/**
 * A value as JSON, as `JSON.stringify` writes it, but with names that are numbers at the end.
 * @param indent the indentation of nested lines; '' for JSON on one line
 * @param before the indentation of the value itself
 */
export function asJson(value: any, indent = '', before = ''): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const inside = before + indent;
  const parts = Array.isArray(value)
    ? value.map((one) => asJson(one, indent, inside))
    : Object.entries(value)
        .sort(([one], [other]) => rank(one) - rank(other))
        .map(([name, one]) => `${JSON.stringify(name)}:${indent && ' '}${asJson(one, indent, inside)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  if (!parts.length) return open + close;
  return indent ? `${open}\n${inside}${parts.join(`,\n${inside}`)}\n${before}${close}` : open + parts.join(',') + close;
}

/** A text unchanged, or any other value as JSON. */
export const asText = (value: any) => (typeof value === 'string' ? value : asJson(value, '  '));

/** Whether the input is an ACP tool call. The server reports this, because an input could pretend to be one. */
export const isToolCall = ({ form, input }: Asking) => form === 'acp' && isObject(input);

const contentOf = (request: Asking): any[] =>
  isToolCall(request) && Array.isArray(request.input.content) ? request.input.content : [];

/** The file changes in an ACP tool call. */
export function changesIn(request: Asking): FileChange[] {
  return contentOf(request)
    .filter((part: any) => part?.type === 'diff' && typeof part.path === 'string' && typeof part.newText === 'string')
    .map(({ path, oldText, newText }: any) => ({
      path,
      old_text: typeof oldText === 'string' ? oldText : '',
      new_text: newText,
    }));
}

/** Whether a request changes files, so that there are diffs to draw. */
export const changesFiles = (request: Asking) => Boolean(request.proposal) || changesIn(request).length > 0;

/** Whether a request only writes one file. */
export const changesOneFile = ({ proposal, kind }: Partial<PermissionRequest>) =>
  Boolean(proposal) && ['edit', 'create', 'overwrite', 'notebook'].includes(kind ?? '');

const textOf = (part: any): string | undefined =>
  part?.type === 'content' && part.content?.type === 'text' && typeof part.content.text === 'string'
    ? part.content.text
    : undefined;

/** The texts in an ACP tool call. */
export const textsIn = (request: Asking): string[] =>
  contentOf(request)
    .map(textOf)
    .filter((text) => text !== undefined);

/** The contents of an ACP tool call other than its changes and texts. */
export function othersIn(request: Asking): any[] {
  return contentOf(request).flatMap((part) => {
    const { type, content, path, oldText, newText, ...rest } = isObject(part) ? part : ({} as any);
    if (textOf(part) !== undefined) {
      const { type: _, text: __, ...ofText } = content;
      const more = {
        ...rest,
        ...left({ path, oldText, newText, content: Object.keys(ofText).length ? ofText : undefined }),
      };
      return Object.keys(more).length ? [more] : [];
    }
    if (type === 'diff' && typeof path === 'string' && typeof newText === 'string') {
      const old = typeof oldText === 'string' || oldText === null ? undefined : oldText;
      const more = { ...rest, ...left({ content, oldText: old }) };
      return Object.keys(more).length ? [more] : [];
    }
    return [part];
  });
}

const left = (fields: Record<string, any>) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** Fields of an ACP tool call and the values that the protocol defines for them. Only other values are shown. */
const WORDS: Record<string, string[]> = {
  kind: ['read', 'edit', 'delete', 'move', 'search', 'execute', 'think', 'fetch', 'switch_mode', 'other'],
  status: ['pending', 'in_progress', 'completed', 'failed'],
  sessionUpdate: ['tool_call', 'tool_call_update'],
};

/**
 * Whether a field of an ACP tool call isn't shown as a field, because it is drawn differently or means nothing to the
 * user.
 */
export function isDrawn(name: string, value: any): boolean {
  if (Object.hasOwn(WORDS, name)) return WORDS[name].includes(value);
  if (name === 'toolCallId') return typeof value === 'string' && /^[\w.:/-]{1,100}$/.test(value);
  if (name === 'title') return typeof value === 'string' && value !== '';
  return (name === 'content' && Array.isArray(value)) || (name === 'rawInput' && isObject(value));
}

/** The plan that an agent wants to carry out, or undefined if the request is not about one. */
export function planIn(request: Asking): string | undefined {
  const { kind, input } = request;
  if (kind !== 'plan') return undefined;
  if (isToolCall(request)) return textsIn(request).join('\n\n');
  return typeof input?.plan === 'string' ? input.plan : '';
}

/**
 * Whether the agent asks the user its own questions, and the request contains all of them. A truncated request contains
 * only a part. An ACP tool call is treated like any other call, because its input can't be changed.
 */
export const asksQuestions = ({ kind, form, input, truncated }: Asking) =>
  kind === 'question' &&
  form !== 'acp' &&
  !truncated &&
  Array.isArray(input?.questions) &&
  input.questions.every(isObject);

/**
 * What the agent wants, and the path of the file; the path is undefined if the request is not about one file. A longer
 * name of a tool is shortened in the server's title; a request that an older server has stored has no title.
 */
export function titleOf(
  { title, tool_name: tool }: Partial<PermissionRequest>,
  agent: string,
): [string, string | undefined] {
  const path = title?.path ?? undefined;
  const isWhole = typeof title?.text === 'string' && String(tool).length <= 200;
  return [isWhole ? title.text : `${agent} wants to use ${String(tool)}`, path];
}

/** The maximum length of a flag's value that is shown among the flags, in characters. */
export const FLAG = 200;

/**
 * The fields of `input` that are risks as a whole, because they change what the call may do or how it runs. A command
 * may be such a risk as well, but it is not a flag.
 * @param prefix what precedes the names of these fields in the risks
 */
export function flagsIn(
  { risks }: Partial<PermissionRequest>,
  input: any,
  prefix = '',
): { name: string; risk: Risk }[] {
  if (!isObject(input)) return [];
  return (risks ?? [])
    .filter(({ field = '', start = 0, end = 0 }) => field.startsWith(prefix) && end <= start)
    .map((risk) => ({ name: String(risk.field ?? '').slice(prefix.length), risk }))
    .filter(({ name }) => name !== 'command' && Object.hasOwn(input, name));
}

/** The names of the flags whose values are shown whole among the flags. */
export const shownFlags = (request: Asking, input: any, prefix = ''): string[] =>
  flagsIn(request, input, prefix)
    .map(({ name }) => name)
    .filter((name) => asText(input[name]).length <= FLAG);

/** The fields of the input that the proposal’s diff shows completely, according to the server. */
export const inDiff = ({ proposal, shown_fields: fields }: Partial<PermissionRequest>): string[] =>
  proposal && Array.isArray(fields) ? fields : [];

/** The text fields of the input that the user may change. None if the user edits the change to a file instead. */
export function editableFields({ editable, input, proposal, truncated, kind }: Asking): string[] {
  if (!Array.isArray(editable) || truncated || !isObject(input) || kind === 'question') return [];
  if (proposal && kind !== 'notebook') return [];
  return editable.filter((name) => Object.hasOwn(input, name) && typeof input[name] === 'string');
}

/** The risks in parts of a field of the input, without a risk that is about the whole field. */
export const risksIn = (request: Asking, field: string): Risk[] =>
  (request.risks ?? []).filter((risk) => risk.field === field && (risk.end ?? 0) > (risk.start ?? 0));
