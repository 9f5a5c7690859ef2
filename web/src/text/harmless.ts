// Makes text from agents and files safe to read: characters that reorder, hide or imitate others are written out, such
// as `\u202e`. `drawbridge/core/terminal_text.py` has the same rules, and a test checks that both agree. Pure.

/** Blocks of combining characters that any script may use. `MARK`: also the marks of scripts that stack them. */
const ANY_MARK =
  '\\u0300-\\u036f\\u0483-\\u0489\\u1ab0-\\u1aff\\u1dc0-\\u1dff\\u20d0-\\u20e2\\u20e4-\\u20ff\\ufe20-\\ufe2f';
const MARK = `${ANY_MARK}\\u0591-\\u05bd\\u0610-\\u061a\\u064b-\\u065f\\u0e31\\u0e34-\\u0e3a\\u0e47-\\u0e4e`;

// Controls, direction, invisible format characters, overlays, blanks that are not a space, lone surrogates, tags. They
// are written out everywhere, and so are joiners and variation selectors after them, which then have nothing to act on.
const HIDDEN =
  '\\0-\\x1f\\x7f-\\x9f\\xad\\u034f\\u0334-\\u0338\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5\\u180e\\u2000-\\u200b\\u200e\\u200f\\u2028-\\u202e' +
  '\\u205f-\\u206f\\u2800\\u3164\\ud800-\\udfff\\ufeff\\uffa0\\ufff0-\\ufffc\\ufffe\\uffff\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}';
// Blanks that are written out only in some places. They count as hidden for the character that follows.
const HIDDEN_OR_BLANK = `${HIDDEN}\\u202f\\u3000`;
const JOINERS = '\\u180b-\\u180d\\u180f\\u200c\\u200d';
const SELECTORS = '\\ufe00-\\ufe0f';
const NOT_VARIED = `\\0-\\xa8\\xaa-\\xad\\xaf-\\u058f${SELECTORS}${JOINERS}${HIDDEN_OR_BLANK}`;

const STRANGE = [
  `[${HIDDEN}]`,
  // No-break spaces, except in numbers and in French punctuation, and the wide space after a character that is not
  // wide.
  '[\\xa0\\u202f](?![!?:;\\xbb%\\u20ac])(?<!\\xab.)(?!(?<=[0-9].)[0-9])',
  '(?<=[!-\\u058f])\\u3000',
  // Joiners and variation selectors where there is nothing to join or to vary.
  `(?<=[\\0-\\u058f${JOINERS}${HIDDEN_OR_BLANK}])[${JOINERS}]`,
  `(?<=[${NOT_VARIED}][${SELECTORS}])[${JOINERS}]`,
  `(?<=[${NOT_VARIED}])(?!\\ufe0f\\u20e3)[${SELECTORS}]`,
  // Marks on characters that take none, and every mark after the fourth on a letter.
  `(?<=[\\0-/:-@\\[-\`{-\\x7f])[${ANY_MARK}]`,
  `(?<=[${MARK}]{4})[${MARK}]`,
].join('|');

/** Matches a character that has to be written out. */
export const strange = new RegExp(STRANGE, 'gsu');

/** Most texts contain only these characters, which need no further check. */
const PLAIN = /^[\t\n\x20-\x7e]*$/;

function written(character: string) {
  const number = character.codePointAt(0) as number;
  if (number < 0x100) return `\\x${number.toString(16).padStart(2, '0')}`;
  return number < 0x10000 ? `\\u${number.toString(16).padStart(4, '0')}` : `\\U${number.toString(16).padStart(8, '0')}`;
}

/** Writes out misleading characters, and also line breaks and tabs: for titles, names and attributes. */
export const harmless = (text: string) => text.replace(strange, written);

/** Whether all of a text is shown as it is. Line breaks and tabs count as visible. */
export const isHarmless = (text: string) => PLAIN.test(text) || inPieces(text).every((piece) => !piece.strange);

/** A text in successive pieces, of which the `strange` ones are written out. Line breaks and tabs stay. */
export function inPieces(text: string): { text: string; strange: boolean }[] {
  if (PLAIN.test(text)) return text ? [{ text, strange: false }] : [];
  const found: { text: string; strange: boolean }[] = [];
  const add = (piece: string, isStrange: boolean) => {
    const last = found[found.length - 1];
    if (last?.strange === isStrange) last.text += piece;
    else if (piece) found.push({ text: piece, strange: isStrange });
  };
  let at = 0;
  // Treated as if it followed a line break, because a joiner at its beginning would act on the text that is drawn
  // before it.
  for (const { 0: character, index: place } of `\n${text}`.matchAll(strange)) {
    const index = place - 1;
    if (index < 0) continue;
    const stays = character === '\n' || character === '\t' || (character === '\r' && text[index + 1] === '\n');
    add(text.slice(at, index), false);
    if (stays) add(character === '\r' ? '' : character, false);
    else add(written(character), true);
    at = index + character.length;
  }
  add(text.slice(at), false);
  return found;
}

const RUN = /[ \t]{80,}|(?:[ \t]{0,79}\n){6,}/g;

/**
 * Like `inPieces`, but replaces long runs of spaces or blank lines with a count, because they could hide other text.
 */
export function inShortPieces(text: string) {
  const found: { text: string; strange: boolean }[] = [];
  let at = 0;
  for (const { 0: run, index } of text.matchAll(RUN)) {
    found.push(...inPieces(text.slice(at, index)));
    const lines = run.split('\n').length - 1;
    const words = lines
      ? `${(lines - 1).toLocaleString('en')} blank lines`
      : `${run.length.toLocaleString('en')} spaces or tabs`;
    if (lines) found.push({ text: '\n', strange: false });
    found.push({ text: `⟨${words}⟩`, strange: true });
    if (lines) found.push({ text: '\n', strange: false });
    at = index + run.length;
  }
  found.push(...inPieces(text.slice(at)));
  return found;
}

/** Replaces each lone surrogate with U+FFFD, because the server does not accept lone surrogates. */
export const wellFormed = (text: string) => text.replace(/[\ud800-\udfff]/gu, '\ufffd');
