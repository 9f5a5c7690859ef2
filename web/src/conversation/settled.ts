// How an approval request was resolved, in words. Pure.

import { planIn } from '../approvals/input.ts';

/**
 * Why an answer is no longer needed, in words. Without "Withdrawn:" if the request was answered elsewhere or overruled,
 * or can be answered only in the terminal.
 */
function withdrawn(reason: string) {
  return /^(answered elsewhere|asked in the terminal|overruled)/.test(reason)
    ? `${reason[0].toUpperCase()}${reason.slice(1)}`
    : `Withdrawn: ${reason}`;
}

/** What was chosen or written for each of an agent's questions, or undefined if no answers to questions are known. */
export function answersOf(answer: any, request: any): [string, string][] | undefined {
  return request?.kind === 'question' ? answersIn(answer?.updated_input?.answers) : undefined;
}

/**
 * Pairs of a question and its answer, from Claude Code's object of answers, or undefined if `given` is not an object.
 */
export function answersIn(given: any): [string, string][] | undefined {
  if (typeof given !== 'object' || given === null) return undefined;
  const words = (value: any) => (Array.isArray(value) ? value.join(', ') : String(value));
  return Object.entries(given).map(([question, value]) => [question, words(value)]);
}

/** What somebody did with a request. The terminal client uses the same words. */
export function verbOf(answer: any, request?: any) {
  const isAllowed = answer.decision === 'allow';
  if (request?.kind === 'question') return isAllowed ? 'answered' : 'skipped';
  return isAllowed ? 'accepted' : 'rejected';
}

export type Settled = { shape: 'check' | 'cross' | 'back' | 'help'; words: string; kind: '' | 'yes' | 'no' };

/**
 * The line for a resolved approval request.
 * @param isMine whether the answer was given from this browser
 */
export function settledWords(answer: any, request?: any, isMine: boolean = false): Settled {
  if (!answer) return { shape: 'help', words: 'Not answered', kind: '' };
  if (answer.reason !== undefined) return { shape: 'back', words: withdrawn(answer.reason), kind: '' };
  const by = isMine ? 'you' : answer.by;
  const message = answer.message ? `: “${answer.message}”` : '';
  const plan = request && planIn(request) !== undefined;
  if (answer.decision !== 'allow') {
    const rejected = plan ? 'Plan rejected' : request?.kind === 'question' ? 'Skipped' : 'Rejected';
    return { shape: 'cross', words: `${rejected} by ${by}${message}`, kind: 'no' };
  }
  const answers = answersOf(answer, request);
  if (answers) {
    const words = `Answered by ${by}: ${answers.map(([, value]) => value).join('; ')}`;
    return { shape: 'check', words, kind: 'yes' };
  }
  if (answer.edited)
    return { shape: 'check', words: isMine ? 'Accepted with your edits' : `Accepted with edits by ${by}`, kind: 'yes' };
  return { shape: 'check', words: `${plan ? 'Plan approved' : 'Accepted'} by ${by}`, kind: 'yes' };
}
