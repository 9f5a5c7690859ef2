// A message from an agent, of any length.

import { Component, type ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import { textSize } from '../ui/dom.ts';
import { Button } from '../ui/elements.tsx';
import { cutAt, LongPlain } from './plain.tsx';
import { Markdown, type OpenFile } from './markdown.tsx';

/** The maximum number of characters of a message that are drawn as Markdown. */
export const MARKDOWN = 60_000;

/** A message as Markdown. The rest of a long message, and a message that can't be drawn, is plain text. */
export function Message({ text, openFile }: { text: string; openFile?: OpenFile }) {
  const [isWhole, setWhole] = useState(false);
  const cut = cutAt(text, MARKDOWN);
  return (
    <Drawn instead={<LongPlain text={text} class="words" />}>
      <div class="markdown">
        <Markdown text={text.slice(0, cut)} openFile={openFile} />
        {cut < text.length &&
          (isWhole ? (
            <LongPlain text={text.slice(cut)} class="words" most={Number.POSITIVE_INFINITY} />
          ) : (
            <Button
              label={`Show all (${textSize(text)}), the rest as plain text`}
              class="quiet"
              onClick={() => setWhole(true)}
            />
          ))}
      </div>
    </Drawn>
  );
}

/** Shows `instead` if its children can't be drawn, so that the other texts are still drawn. */
export class Drawn extends Component<{ instead: ComponentChildren; children: ComponentChildren }, { failed: boolean }> {
  override state = { failed: false };

  override componentDidCatch(error: unknown) {
    console.error(error);
    this.setState({ failed: true });
  }

  render() {
    return this.state.failed ? this.props.instead : this.props.children;
  }
}
