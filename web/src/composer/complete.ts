// Completion in the message box: "/" begins a command of the agent, "@" a file of the project. Pure.

import type { Offer } from '../protocol/messages.ts';

/** The part of the text that is completed: from the "/" or "@" to the caret. */
export type Token = { kind: 'command' | 'file'; from: number; to: number; query: string };
export type Choice = { value: string; label: string; text?: string; kind: 'command' | 'file' | 'directory' };

/** The maximum length of a query, in characters. A longer text is not completed. */
const LONGEST = 200;

export const MOST = 50;

/** The token that ends at the caret, or undefined if there is nothing to complete. */
export function tokenAt(text: string, caret: number): Token | undefined {
  const before = text.slice(Math.max(0, caret - LONGEST - 1), caret);
  if (text[0] === '/' && caret > 0 && caret <= LONGEST && !/\s/.test(before))
    return { kind: 'command', from: 0, to: caret, query: before.slice(1) };
  const [, sign, query] = /(?:^|[\s([{"'`])(@)([^\s@"'`]*)$/.exec(before) ?? [];
  if (!sign) return undefined;
  return { kind: 'file', from: caret - query.length - 1, to: caret, query };
}

/** At most `MOST` matching commands: first those that begin with the query, then those that contain it. */
export function commandsFor(query: string, commands: Offer[]): Choice[] {
  const wanted = query.toLowerCase();
  const rank = ({ name }: Offer) => {
    const at = name.toLowerCase().indexOf(wanted);
    return at < 0 ? 2 : at > 0 ? 1 : 0;
  };
  return commands
    .map((one) => ({ one, rank: rank(one) }))
    .filter(({ rank }) => rank < 2)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MOST)
    .map(({ one: { name, text, hint } }) => ({
      value: `/${name}`,
      label: hint ? `/${name} ${hint}` : `/${name}`,
      text: text ?? undefined,
      kind: 'command',
    }));
}

/** The text and the caret after a choice. No space follows a directory, so that its contents can be completed next. */
export function completed(text: string, { from, to }: Token, choice: Choice): { text: string; caret: number } {
  const path = /\s/.test(choice.value) ? `"${choice.value}"` : choice.value;
  const written = choice.kind === 'command' ? `${choice.value} ` : `@${path}${choice.kind === 'directory' ? '' : ' '}`;
  const rest = text.slice(to).replace(/^ /, written.endsWith(' ') ? '' : ' ');
  return { text: text.slice(0, from) + written + rest, caret: from + written.length };
}
