// The functions of the web UI that tests in Python use.
export { KINDS, learn } from '../../../web/src/conversation/tool-kinds.ts';
export { subject, verb } from '../../../web/src/conversation/tool-words.ts';
export { settledWords } from '../../../web/src/conversation/settled.ts';
export { liftedWords, standing } from '../../../web/src/projects/words.ts';
export { retryWords } from '../../../web/src/run/doing.ts';
export { harmless } from '../../../web/src/text/harmless.ts';
export {
  goneWords,
  linesWords,
  suggestedField,
  suggestedText,
  titleOf,
  wordsOf,
} from '../../../web/src/review/model.ts';
export { movedWords } from '../../../web/src/review/open-review.ts';
