// Buttons that have to be pressed before an approval can be accepted. Outside an approval they only show the rest.

import { type ComponentChildren, createContext } from 'preact';
import { useContext, useLayoutEffect, useMemo, useState } from 'preact/hooks';

import { Button } from './elements.tsx';

/** Knows the buttons of a card that have to be pressed before it can be accepted; undefined outside of a card. */
export const Unopened = createContext<Musts | undefined>(undefined);

type Musts = { add: (one: object) => void; delete: (one: object) => void };

/** A button that has to be pressed before the card can be accepted. */
export function ShowAll({ label, onOpen, class: more = '' }: { label: string; onOpen: () => void; class?: string }) {
  useMust();
  return <Button label={label} class={`must ${more}`} onClick={onOpen} />;
}

/** While the component is there, the card can't be accepted. */
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
 * What an editor replaces. What of it has not been opened by then stays in view beside the editor, and has to be opened before
 * the card can be accepted; what has been opened is open again once the editor is closed.
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
  // Only what is drawn can be asked what of it is closed: it goes away one drawing later.
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
