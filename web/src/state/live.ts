// The client's state as signals. A component that reads one is drawn again when that part has changed, at most once per
// frame.

import { type Signal, signal } from '@preact/signals';

/** The parts of a client's state, as its `change` events name them. */
export type Part = 'connection' | 'hello' | 'projects' | 'conversation';

export type Live = { [part in Part]: Signal<number> };

/** Signals that count the changes to `client`. Components read what they show from the client itself. */
export function live(client: EventTarget): Live {
  const parts: Live = { connection: signal(0), hello: signal(0), projects: signal(0), conversation: signal(0) };
  const changed = new Set<Part>();
  const tell = () => {
    for (const part of changed) parts[part].value++;
    changed.clear();
  };
  client.addEventListener('change', (event) => {
    const part = (event as CustomEvent<string>).detail;
    if (!(part in parts)) return;
    if (!changed.size) requestAnimationFrame(tell);
    changed.add(part as Part);
  });
  return parts;
}
