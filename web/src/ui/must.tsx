// Buttons that have to be pressed before an approval request can be accepted, or before a change in a review can be
// decided on. Elsewhere they only show the rest of a text.

import { type ComponentChildren, createContext } from 'preact';
import { useContext, useLayoutEffect, useMemo, useState } from 'preact/hooks';

import { Button } from './elements.tsx';

/**
 * Collects what prevents a card from being accepted or decided on: buttons that have to be pressed, and content that is
 * not drawn yet. Undefined outside a card.
 */
export const Unopened = createContext<Musts | undefined>(undefined);

type Musts = { add: (one: object) => void; delete: (one: object) => void };

/** A button that has to be pressed before the card can be accepted or decided on. */
export function ShowAll({ label, onOpen, class: more = '' }: { label: string; onOpen: () => void; class?: string }) {
  useMust();
  return <Button label={label} class={`must ${more}`} onClick={onOpen} />;
}

/** Prevents the card from being accepted or decided on while the component is mounted. */
export function useMust() {
  const unopened = useContext(Unopened);
  useLayoutEffect(() => {
    if (!unopened) return;
    const one = {};
    unopened.add(one);
    return () => unopened.delete(one);
  }, [unopened]);
}

/**
 * Content that an editor replaces. As long as parts of it are folded, it stays in view beside the editor, and these
 * parts have to be opened before the card can be accepted. Opened parts are open again once the editor is closed.
 */
export function Replaced({
  isReplaced,
  class: name,
  children,
}: {
  isReplaced: boolean;
  class?: string;
  children: ComponentChildren;
}) {
  const card = useContext(Unopened);
  const inside = useMemo(() => {
    const unopened = new Set<object>();
    const found = { unopened, hadAny: false, musts: undefined as Musts | undefined };
    if (card)
      found.musts = {
        add: (one) => {
          found.hadAny = true;
          unopened.add(one);
          card.add(one);
        },
        delete: (one) => {
          unopened.delete(one);
          card.delete(one);
        },
      };
    return found;
  }, [card]);
  // Only content that has been rendered can report its closed parts, so it is removed one render later.
  const [state, setState] = useState<'shown' | 'hidden' | 'gone'>('shown');
  useLayoutEffect(
    () => setState(!isReplaced || inside.unopened.size ? 'shown' : inside.hadAny ? 'hidden' : 'gone'),
    [isReplaced, inside],
  );
  const now = isReplaced ? state : 'shown';
  if (now === 'gone') return null;
  return (
    <Unopened.Provider value={inside.musts}>
      <div class={name} hidden={now === 'hidden'}>
        {children}
      </div>
    </Unopened.Provider>
  );
}
