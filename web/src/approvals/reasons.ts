// Common reasons for a rejection: the label of a button, and the text for the agent. Pure.

export type Reason = { label: string; text: string };

const ASK: Reason = { label: 'Ask me first', text: 'Ask me before you do this.' };

const OF_CHANGE: Reason[] = [
  { label: 'Wrong file', text: 'This is the wrong file.' },
  { label: 'Too much at once', text: 'This is too much at once. Split it into smaller steps.' },
  { label: 'Add tests', text: 'Add tests for this change.' },
  ASK,
];

const OF_PLAN: Reason[] = [
  { label: 'Smaller steps', text: 'Plan smaller steps.' },
  { label: 'Add tests', text: 'Add tests to the plan.' },
  { label: 'Ask me first', text: 'Ask me about open questions before you plan.' },
];

const OF_CALL: Reason[] = [
  { label: 'Too risky', text: 'This is too risky. Find a safer way.' },
  { label: 'Explain first', text: 'Explain first what this does and why you need it.' },
  ASK,
];

export const reasonsFor = (isPlan: boolean, isChange: boolean) => (isPlan ? OF_PLAN : isChange ? OF_CHANGE : OF_CALL);

/** The message with a reason added at its end or, if the message already contains the reason, without it. */
export function toggled(message: string, { text }: Reason) {
  if (!message.includes(text)) return message.trim() ? `${message.trimEnd()} ${text}` : text;
  const at = message.indexOf(text);
  return `${message.slice(0, at).trimEnd()} ${message.slice(at + text.length).trimStart()}`.trim();
}
