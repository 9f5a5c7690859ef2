// Code in the colors of its language. It is shown immediately, and gets its colors when the grammar is loaded.

import { useEffect, useState } from 'preact/hooks';

import { Button, Text } from '../ui/elements.tsx';
import { Copy } from './copy.tsx';
import { highlight, isColored, type Span } from './highlight.ts';
import { scrolls } from './plain.tsx';

/** The lines of a text in colored parts, or undefined as long as the colors are not known. */
export function useColors(text: string, language: string, isWanted = true): Span[][] | undefined {
  const [found, setFound] = useState<{ text: string; language: string; lines: Span[][] }>();
  useEffect(() => {
    if (!isWanted || !isColored(text, language)) return;
    let isOver = false;
    void highlight(text, language).then((lines) => !isOver && setFound({ text, language, lines }));
    return () => {
      isOver = true;
    };
  }, [text, language, isWanted]);
  return found && found.text === text && found.language === language ? found.lines : undefined;
}

/** A line in its colors. */
export function Colored({ spans }: { spans: Span[] }) {
  return (
    <>
      {spans.map(({ text, kind }, index) =>
        kind ? (
          <span key={index} class={`code-${kind}`}>
            <Text code>{text}</Text>
          </span>
        ) : (
          <Text key={index} code>
            {text}
          </Text>
        ),
      )}
    </>
  );
}

export function Code({ text, language, live }: { text: string; language: string; live?: boolean }) {
  const lines = useColors(text, language, !live);
  return (
    <code>
      {lines ? (
        lines.flatMap((spans, index) => [index ? '\n' : '', <Colored key={index} spans={spans} />])
      ) : (
        <Text code>{text}</Text>
      )}
    </code>
  );
}

/** A block of code with its language, and buttons to wrap and copy it. `live`: whether it is still being written. */
export function CodeBlock({ text, language, live }: { text: string; language: string; live?: boolean }) {
  const [wraps, setWraps] = useState(false);
  return (
    <div class={`code-block ${wraps ? 'wraps' : ''}`}>
      <div class="code-head">
        <span class="language">
          <Text line>{language}</Text>
        </span>
        <Button
          label="Wrap lines"
          icon="wrap"
          bare
          class="quiet"
          aria-pressed={wraps}
          onClick={() => setWraps(!wraps)}
        />
        <Copy text={text} label="Copy code" />
      </div>
      <pre ref={scrolls}>
        <Code text={text} language={/^[\w+#.-]*/.exec(language)?.[0].toLowerCase() ?? ''} live={live} />
      </pre>
    </div>
  );
}
