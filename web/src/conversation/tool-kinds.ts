// What the agents' tools do, as the server describes them.

import type { AgentWords } from '../protocol/messages.ts';

export const KINDS = [
  'read',
  'edit',
  'write',
  'command',
  'search',
  'find',
  'fetch',
  'web',
  'agent',
  'todo',
  'question',
  'plan',
  'output',
  'stop',
  'skill',
  'other',
] as const;

export type ToolKind = (typeof KINDS)[number];

let known = new Map<string, ToolKind>();

/** Stores what the tools of all agents do. */
export function learn(agents: Pick<AgentWords, 'tools'>[]) {
  const tools = agents.flatMap((agent) => Object.entries(agent.tools));
  known = new Map(tools.map(([name, kind]) => [name, KINDS.find((one) => one === kind) ?? 'other']));
}

/** What a call does. A tool that the server does not describe is shown with its name. */
export const kindOf = ({ name }: { name: string }): ToolKind => known.get(name) ?? 'other';
