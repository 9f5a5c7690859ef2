// Fields of an input that are not shown elsewhere, as rows of names and values.

import { Text } from '../ui/elements.tsx';
import { Replaced } from '../ui/must.tsx';
import { asJson, asText, rank, risksIn } from './input.ts';
import { Marked, Value } from './value.tsx';

/** The maximum number of fields that have their own row. The others are shown together, as JSON. */
const FIELDS = 40;

/** The maximum length of a value that is drawn on one line, in characters. */
const SHORT = 120;

const NONE: readonly string[] = [];

/** The fields by rank (see `rank`), then in the order of the input. The agent's description of the call comes last. */
const fieldsOf = (input: any): [string, any][] => {
  const last = (name: string) => (name === 'description' ? 2 : rank(name));
  return Object.entries(input).sort(([one], [other]) => last(one) - last(other));
};

/** A value as text. Strings are unchanged, and other values are JSON, on one line if that is short. */
function shortText(value: any) {
  const line = typeof value === 'string' ? '' : asJson(value);
  return line && line.length <= SHORT ? line : asText(value);
}

/** The fields that are not `drawn` elsewhere. `request` contains the risks, in which `prefix` precedes the names. */
export function Rest({
  request = {},
  input,
  drawn = NONE,
  edited = NONE,
  prefix = '',
}: {
  request?: any;
  input: any;
  drawn?: readonly string[];
  edited?: readonly string[];
  prefix?: string;
}) {
  const all = fieldsOf(input).filter(([name]) => !drawn.includes(name));
  if (!all.length) return null;
  const rest: [string, any][] = all.length > FIELDS ? [['…', Object.fromEntries(all.slice(FIELDS))]] : [];
  return (
    <dl class="fields">
      {[...all.slice(0, FIELDS), ...rest].map(([name, value]) => {
        const text = shortText(value);
        const risks = risksIn(request, prefix + name);
        return (
          <Replaced key={name} isReplaced={edited.includes(name)}>
            <dt>
              <Text line>{name}</Text>
            </dt>
            <dd>
              {text.length <= SHORT && !text.includes('\n') ? (
                <code class="short">
                  <Marked text={text} risks={risks} />
                </code>
              ) : (
                <Value text={text} risks={risks} />
              )}
            </dd>
          </Replaced>
        );
      })}
    </dl>
  );
}
