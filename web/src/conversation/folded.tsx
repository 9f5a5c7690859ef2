// What unfolds: its line is always there, and the rest is made when it is wanted.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import { Icon } from '../ui/elements.tsx';

/**
 * @param id by which `unfolded` remembers that it is open
 * @param body called once it is open
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
