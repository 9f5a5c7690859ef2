// Fuzzy search: finds entries by some of their letters. Pure.

/**
 * How well `query` matches `text`: 0 if its letters don't occur in this order, and higher if they are adjacent or begin
 * words. Spaces in the query separate words that may come in any order.
 */
export function score(query: string, text: string): number {
  let sum = 0;
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const found = wordScore(word, text.toLowerCase());
    if (!found) return 0;
    sum += found;
  }
  return sum || 1;
}

function wordScore(word: string, text: string): number {
  const whole = text.indexOf(word);
  if (whole >= 0) return 100 + (isStart(text, whole) ? 50 : 0) - Math.min(whole, 40);
  let sum = 0;
  let at = -1;
  for (const letter of word) {
    const next = text.indexOf(letter, at + 1);
    if (next < 0) return 0;
    sum += next === at + 1 ? 5 : isStart(text, next) ? 8 : 1;
    at = next;
  }
  return sum;
}

const isStart = (text: string, at: number) => at === 0 || /[\s/_\-.·›]/.test(text[at - 1]);

/** The best matches in `all`, at most `most`, or the first entries if the query is empty. */
export function best<T>(all: T[], query: string, textOf: (one: T) => string, most = 50): T[] {
  if (!query.trim()) return all.slice(0, most);
  return all
    .map((one) => ({ one, points: score(query, textOf(one)) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, most)
    .map(({ one }) => one);
}
