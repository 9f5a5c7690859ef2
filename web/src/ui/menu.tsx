// A button that opens a list of commands.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import { Button, Icon, type IconName, Text } from './elements.tsx';

export type Choice = { label: string; icon?: IconName; danger?: boolean; act: () => void };

/** @param choices the commands; null, false and undefined are left out */
export function Menu({
  label,
  icon = 'more',
  class: name = 'quiet',
  choices,
}: {
  label: string;
  icon?: IconName;
  class?: string;
  choices: (Choice | null | false | undefined)[];
}) {
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const shown = choices.filter(Boolean) as Choice[];
  const close = (returns: boolean) => {
    setOpen(false);
    if (returns) box.current?.querySelector('button')?.focus();
  };

  useLayoutEffect(() => {
    const element = list.current;
    const at = box.current?.getBoundingClientRect();
    if (!isOpen || !element || !at) return;
    // The position is fixed, because a list that contains the menu would cut it off.
    const { width, height } = element.getBoundingClientRect();
    const below = at.bottom + height + 8 <= innerHeight;
    element.style.left = `${Math.max(8, Math.min(at.right - width, innerWidth - width - 8))}px`;
    element.style.top = `${Math.max(8, below ? at.bottom + 4 : at.top - height - 4)}px`;
    element.querySelector<HTMLElement>('[role=menuitem]')?.focus();
  }, [isOpen]);

  useEffect(() => {
    if (!isOpen) return;
    const outside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    addEventListener('resize', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      removeEventListener('resize', outside);
    };
  }, [isOpen]);

  const step = (event: KeyboardEvent) => {
    if (!isOpen) return;
    const items = [...(list.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const keys: Record<string, () => void> = {
      ArrowDown: () => items[(at + 1) % items.length]?.focus(),
      ArrowUp: () => items[(at - 1 + items.length) % items.length]?.focus(),
      Home: () => items[0]?.focus(),
      End: () => items[items.length - 1]?.focus(),
      Escape: () => close(true),
    };
    // No keyboard shortcut works while a menu is open.
    event.stopPropagation();
    if (event.key === 'Tab') setOpen(false);
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };

  if (!shown.length) return null;
  return (
    <div class="more-menu" ref={box}>
      <Button
        label={label}
        icon={icon}
        bare
        class={name}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      />
      {isOpen && (
        <div class="menu-list" role="menu" tabIndex={-1} aria-label={label} ref={list} onKeyDown={step}>
          {shown.map(({ label: text, icon: shape, danger, act }) => (
            <button
              key={text}
              type="button"
              role="menuitem"
              tabIndex={-1}
              class={danger ? 'no' : ''}
              onClick={() => {
                close(true);
                act();
              }}
            >
              {shape && <Icon name={shape} />}
              <span>
                <Text line>{text}</Text>
              </span>
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
