// How an approval ended, in words.

import { icon } from './dom.js';
import { planIn } from './view-input.js';

/** Why no answer is needed any more; a question that was answered at the desk was not withdrawn. */
function withdrawn(/** @type {string} */ reason) {
  return /^(answered elsewhere|asked in the terminal|overruled)/.test(reason) ? `${reason[0].toUpperCase()}${reason.slice(1)}` : `Withdrawn: ${reason}`;
}

/**
 * The line for a settled approval: its icon and its words.
 * @param {any} answer @param {any} [request] @param {boolean} [isMine] it was given from this window
 */
export function settledWords(answer, request, isMine = false) {
  if (!answer) return { shape: icon('help'), words: 'Not answered', kind: '' };
  if (answer.reason !== undefined) return { shape: icon('back'), words: withdrawn(answer.reason), kind: '' };
  const message = answer.message ? `: “${answer.message}”` : '';
  const plan = request && planIn(request) !== undefined;
  if (answer.decision !== 'allow') return { shape: icon('cross'), words: `${plan ? 'Plan rejected' : 'Rejected'} by ${answer.by}${message}`, kind: 'no' };
  const answers = request?.tool_name === 'AskUserQuestion' ? answer.updated_input?.answers : undefined;
  if (answers && typeof answers === 'object') return { shape: icon('check'), words: `Answered by ${answer.by}: ${Object.values(answers).join('; ')}`, kind: 'yes' };
  if (answer.edited) return { shape: icon('check'), words: isMine ? 'Accepted with your edits' : `Accepted with edits by ${answer.by}`, kind: 'yes' };
  return { shape: icon('check'), words: `${plan ? 'Plan approved' : 'Accepted'} by ${answer.by}`, kind: 'yes' };
}
