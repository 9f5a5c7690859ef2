// Colours for code: enough to read by, for any language. Comments, strings, numbers and words that languages keep. Pure.

const HASH = new Set(['py', 'sh', 'bash', 'rb', 'toml', 'yaml', 'yml', 'r', 'pl', 'python', 'ruby', 'shell', 'zsh', 'make', 'dockerfile']);
const DASHES = new Set(['lua', 'sql', 'hs', 'elm', 'ada']);
const PROSE = new Set(['md', 'markdown', 'txt', 'text', 'rst', 'csv', 'log', '']);

const WORDS = new Set(
  (
    'abstract and as assert async await bool boolean break case catch class const constexpr continue def default defer del delete do elif else ' +
    'elsif end enum except export extends extern false False final finally fn for foreach from func function global go goto if impl implements ' +
    'import in include instanceof int interface is lambda let local loop match mod module mut namespace new nil None nonlocal not null nullptr of ' +
    'operator or override package pass private protected pub public raise repeat require return self static str string struct super switch ' +
    'template then this throw throws trait true True try type typedef typeof undefined union unless unsafe until use using val var virtual void ' +
    'when where while with yield select insert update create table values'
  ).split(' '),
);

/** Characters of a line that is coloured. */
const LONGEST = 1000;

/** The kind of a file, by its name. */
export function languageOf(/** @type {string} */ path) {
  const name = (path.split('/').pop() ?? '').toLowerCase();
  if (name === 'makefile' || name === 'dockerfile') return name === 'makefile' ? 'make' : name;
  return name.includes('.') ? (name.split('.').pop() ?? '') : '';
}

/** @type {Map<string, RegExp>} */
const patterns = new Map();

function patternFor(/** @type {string} */ language) {
  let found = patterns.get(language);
  if (!found) {
    const comment = HASH.has(language) ? '#.*' : DASHES.has(language) ? '--.*' : '//.*|/\\*.*?(?:\\*/|$)|<!--.*?(?:-->|$)|^\\s*\\*(?:\\s.*|/)?$';
    // A string without an end is searched again at each quote, so the search has a limit.
    const quoted = '"(?:[^"\\\\]|\\\\.)*"?|\'(?:[^\'\\\\]|\\\\.){0,200}\'|`(?:[^`\\\\]|\\\\.)*`?';
    found = new RegExp(`(${comment})|(${quoted})|(\\b\\d[\\w.]*)|([A-Za-z_]\\w*)`, 'g');
    patterns.set(language, found);
  }
  return found;
}

/**
 * A line in pieces, one behind the other: the whole of it. `kind` is comment, string, number, word or empty.
 * @param {string} line @param {string} language
 * @returns {{text: string, kind: string}[]}
 */
export function pieces(line, language) {
  if (PROSE.has(language) || line.length > LONGEST) return [{ text: line, kind: '' }];
  const found = [];
  let at = 0;
  for (const match of line.matchAll(patternFor(language))) {
    const [text, comment, string, number] = match;
    const kind = comment ? 'comment' : string ? 'string' : number ? 'number' : WORDS.has(text) ? 'word' : '';
    if (!kind) continue;
    if (match.index > at) found.push({ text: line.slice(at, match.index), kind: '' });
    found.push({ text, kind });
    at = match.index + text.length;
  }
  if (at < line.length) found.push({ text: line.slice(at), kind: '' });
  return found;
}
