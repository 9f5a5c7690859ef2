import type { Tag, tags } from '@lezer/highlight';

/** The kinds of words that have their own style, and the grammars' tags for each. */
export const tagsOf = (all: typeof tags): Record<string, Tag[]> => ({
  comment: [all.comment],
  string: [all.string, all.regexp, all.character, all.escape, all.special(all.string)],
  number: [all.number, all.bool, all.null, all.atom, all.unit, all.color],
  word: [all.keyword, all.modifier, all.self],
  type: [all.typeName, all.className, all.namespace, all.tagName],
  name: [
    all.attributeName,
    all.macroName,
    all.labelName,
    all.definition(all.propertyName),
    all.function(all.definition(all.variableName)),
    all.definition(all.function(all.variableName)),
  ],
  meta: [all.meta, all.processingInstruction],
  heading: [all.heading],
  inserted: [all.inserted],
  deleted: [all.deleted],
});

/** The kinds for the style names of the older grammars. */
const STYLES: Record<string, string> = {
  atom: 'number',
  attribute: 'name',
  builtin: 'word',
  bool: 'number',
  comment: 'comment',
  controlKeyword: 'word',
  def: 'name',
  deleted: 'deleted',
  header: 'heading',
  heading: 'heading',
  inserted: 'inserted',
  keyword: 'word',
  meta: 'meta',
  modifier: 'word',
  negative: 'deleted',
  null: 'number',
  number: 'number',
  positive: 'inserted',
  'string-2': 'string',
  string: 'string',
  tag: 'type',
  tagName: 'type',
  type: 'type',
  typeName: 'type',
};

/** The kind of a word, by the style that an older grammar returns for it, or '' if it has no color. */
export function kindOf(style: string | null) {
  for (const word of (style ?? '').split(/[ .]/)) if (Object.hasOwn(STYLES, word)) return STYLES[word];
  return '';
}
