// What the agent is doing at the moment, in a few words. Pure.

import { patched } from '../conversation/tool-words.ts';
import type { Retry } from '../protocol/messages.ts';
import { baseName } from '../ui/dom.ts';

const LONGEST = 60;

const TESTS =
  /(?:^|[;&|]\s*|\s)(?:pytest|jest|vitest|mocha|rspec|phpunit|ctest|tox|nox|(?:npm|pnpm|yarn|bun|make|cargo|go|mix|dotnet|gradle|\.\/gradlew|mvn|deno|rake)\s+(?:run\s+)?test)\b/;

/** The calls that are running now: the latest run's calls without a result, except calls of subagents, in order. */
export function running(items: { kind: string; result?: unknown; nested?: boolean }[]) {
  const found = [];
  for (let at = items.length - 1; at >= 0 && items[at].kind !== 'finished'; at--) {
    if (items[at].kind === 'tool' && !items[at].result && !items[at].nested) found.unshift(items[at]);
  }
  return found as any[];
}

/** "Running tests", "Editing notes.md": what a tool call does. */
export function doing({ name, input }: { name: string; input: any }): string {
  const file = baseName(text(input?.file_path ?? input?.notebook_path ?? input?.path));
  switch (name) {
    case 'Bash':
      return command(text(input?.command));
    case 'Read':
    case 'NotebookRead':
      return `Reading ${file || 'a file'}`;
    case 'Edit':
    case 'MultiEdit':
    case 'NotebookEdit':
      return `Editing ${file || 'a file'}`;
    case 'apply_patch':
      return `Editing ${patched({ name, input }).map(baseName).join(', ') || 'files'}`;
    case 'Write':
      return `Writing ${file || 'a file'}`;
    case 'Grep':
    case 'Glob':
      return text(input?.pattern) ? `Searching for ${short(text(input.pattern))}` : 'Searching';
    case 'WebSearch':
      return 'Searching the web';
    case 'WebFetch':
      return `Fetching ${host(text(input?.url)) || 'a page'}`;
    case 'Task':
    case 'Agent':
      return text(input?.description) ? `Subagent: ${short(text(input.description))}` : 'Running a subagent';
    case 'TodoWrite':
      return 'Updating the to-do list';
    case 'AskUserQuestion':
      return 'Asking a question';
    case 'ExitPlanMode':
      return 'Presenting the plan';
  }
  const [, server, tool] = /^mcp__(.+?)__(.+)$/.exec(name) ?? [];
  return short(server ? `Using ${tool} (${server})` : `Using ${name}`);
}

/** "Retrying 3 of 10: 401 authentication" */
export function retryWords({ attempt, attempts, reason, status }: Retry) {
  const why = reason.replaceAll('_', ' ').replace(/ (failed|error)$/, '');
  return `Retrying ${attempt} of ${attempts}: ${[status, why].filter(Boolean).join(' ')}`;
}

/** "200k", "1M" */
export function tokens(count: number) {
  if (count < 1000) return String(count);
  return count < 999_500 ? `${Math.round(count / 1000)}k` : `${(count / 1e6).toFixed(1).replace(/\.0$/, '')}M`;
}

/** "38 % of 200k context", or "76k tokens" if the window is not known, or undefined if `used` is not known. */
export function contextWords(used?: number | null, window?: number | null) {
  if (!used) return undefined;
  return window ? `${Math.round((100 * used) / window)} % of ${tokens(window)} context` : `${tokens(used)} tokens`;
}

function command(line: string) {
  if (!line) return 'Running a command';
  return TESTS.test(line) ? 'Running tests' : `Running ${short(line.trim().split('\n')[0])}`;
}

function host(url: string) {
  try {
    return new URL(url).host;
  } catch {
    return '';
  }
}

const text = (given: unknown) => (typeof given === 'string' ? given : '');
const short = (words: string) => (words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words);
