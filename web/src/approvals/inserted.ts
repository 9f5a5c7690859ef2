// The text that an edit has inserted, and whether that text can be out of view.

/** Whether a text is so long that some of it can be out of view while the text beside it is in view. */
export const isLong = (text: string) => text.length > 200 || text.split('\n').length - 1 > 3;

/** The text that an edit inserted or, if it has changed several places, the text between the first and the last. */
export function inserted(before: string, after: string): string {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start++;
  let end = 0;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  return after.slice(start, after.length - end);
}
