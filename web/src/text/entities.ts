// The character references of Markdown, such as `&lt;` and `&#8594;`. Pure. A name that is not in the table is left
// unchanged. HTML has 2,231 names, but agents hardly ever use the others.

const NAMES: Record<string, string> = Object.assign(Object.create(null), {
  amp: '&',
  apos: "'",
  bull: '•',
  cent: '¢',
  check: '✓',
  copy: '©',
  cross: '✗',
  darr: '↓',
  deg: '°',
  divide: '÷',
  emsp: '\u2003',
  ensp: '\u2002',
  equiv: '≡',
  euro: '€',
  frac12: '½',
  ge: '≥',
  gt: '>',
  harr: '↔',
  hellip: '…',
  infin: '∞',
  laquo: '«',
  larr: '←',
  lbrace: '{',
  lbrack: '[',
  ldquo: '“',
  le: '≤',
  lowbar: '_',
  lpar: '(',
  lsquo: '‘',
  lt: '<',
  mdash: '—',
  middot: '·',
  minus: '−',
  mu: 'μ',
  nbsp: '\u00a0',
  ndash: '–',
  ne: '≠',
  not: '¬',
  num: '#',
  para: '¶',
  permil: '‰',
  plusmn: '±',
  pound: '£',
  quot: '"',
  radic: '√',
  raquo: '»',
  rarr: '→',
  rArr: '⇒',
  rbrace: '}',
  rbrack: ']',
  rdquo: '”',
  reg: '®',
  rpar: ')',
  rsquo: '’',
  sect: '§',
  sum: '∑',
  thinsp: '\u2009',
  times: '×',
  trade: '™',
  uarr: '↑',
  vert: '|',
  yen: '¥',
  auml: 'ä',
  Auml: 'Ä',
  ouml: 'ö',
  Ouml: 'Ö',
  uuml: 'ü',
  Uuml: 'Ü',
  szlig: 'ß',
  eacute: 'é',
  egrave: 'è',
  agrave: 'à',
  ccedil: 'ç',
  ntilde: 'ñ',
});

const REFERENCE = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z][a-zA-Z\d]{1,31}));/g;

/** A text with its references replaced by the characters that they name. */
export function decoded(text: string) {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCE, (whole, decimal, hexadecimal, name) => {
    if (name) return NAMES[name] ?? whole;
    const number = decimal ? Number(decimal) : Number.parseInt(hexadecimal, 16);
    const isCharacter = number > 0 && number <= 0x10ffff && !(number >= 0xd800 && number <= 0xdfff);
    return isCharacter ? String.fromCodePoint(number) : '\ufffd';
  });
}
