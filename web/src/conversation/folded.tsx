// Content that unfolds: one line is always shown, and the rest is rendered when it is opened.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import { Icon } from '../ui/elements.tsx';

/**
 * @param id the id under which `unfolded` remembers that the content is open
 * @param body renders the rest; called while it is open
 */
export function Folded({
  id,
  unfolded,
  class: style,
  line,
  body,
}: {
  id: string;
  unfolded: Set<string>;
  class: string;
  line: ComponentChildren;
  body: () => ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(unfolded.has(id));
  const toggle = (event: Event) => {
    const { open } = event.currentTarget as HTMLDetailsElement;
    if (open) unfolded.add(id);
    else unfolded.delete(id);
    setOpen(open);
  };
  return (
    <details class={style} open={isOpen} onToggle={toggle}>
      <summary>
        {line}
        <Icon name="next" />
      </summary>
      {isOpen && body()}
    </details>
  );
}
