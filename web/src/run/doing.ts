// Describes in a few words what the agent is doing. Pure.

import { kindOf } from '../conversation/tool-kinds.ts';
import { nowWords } from '../conversation/tool-words.ts';
import type { Retry } from '../protocol/messages.ts';

const LONGEST = 60;

const TESTS =
  /(?:^|[;&|]\s*|\s)(?:pytest|jest|vitest|mocha|rspec|phpunit|ctest|tox|nox|(?:npm|pnpm|yarn|bun|make|cargo|go|mix|dotnet|gradle|\.\/gradlew|mvn|deno|rake)\s+(?:run\s+)?test)\b/;

/** The calls that are running now: the latest run's calls without a result, in order, except those by subagents. */
export function running(items: { kind: string; result?: unknown; nested?: boolean }[]) {
  const found = [];
  for (let at = items.length - 1; at >= 0 && items[at].kind !== 'finished'; at--) {
    if (items[at].kind === 'tool' && !items[at].result && !items[at].nested) found.unshift(items[at]);
  }
  return found as any[];
}

/** "Running tests", "Editing notes.md": what a running tool call does. @param root the project's directory */
export function doing(call: { name: string; input: any }, root: string): string {
  if (kindOf(call) === 'command' && TESTS.test(String(call.input?.command ?? ''))) return 'Running tests';
  const words = nowWords(call, root);
  return words.length > LONGEST ? `${words.slice(0, LONGEST - 1)}…` : words;
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

/** "38% of 200k context", or "76k tokens" if the window is not known, or undefined if `used` is not known. */
export function contextWords(used?: number | null, window?: number | null) {
  if (!used) return undefined;
  return window ? `${Math.round((100 * used) / window)}% of ${tokens(window)} context` : `${tokens(used)} tokens`;
}
