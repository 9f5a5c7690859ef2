// A chip of the message box: a button that shows a choice, and its menu with a line of help for each choice.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { Icon, Text } from '../ui/elements.tsx';

export type Choice = { value: string; label: string; help?: string; warns?: boolean; disabled?: boolean };

type Props = {
  /** What the user chooses here: "Permission mode". */
  name: string;
  label: string;
  value: string;
  choices: Choice[];
  /** A sentence above the choices. */
  note?: string;
  warns?: boolean;
  class?: string;
  onOpen?: () => void;
  choose: (value: string) => void;
};

export function Chip({ name, label, value, choices, note, warns, onOpen, choose, ...rest }: Props) {
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const items = () => [...(menu.current?.querySelectorAll('button:not(:disabled)') ?? [])] as HTMLElement[];

  // Runs before the menu is visible, because the next key may already be meant for it.
  useLayoutEffect(() => {
    if (!open) return undefined;
    (menu.current?.querySelector<HTMLElement>('[aria-checked=true]:not(:disabled)') ?? items()[0])?.focus();
    const outside = (event: Event) => {
      if (!place.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [open]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const toggle = () => {
    if (!open) onOpen?.();
    setOpen(!open);
  };
  const key = (event: KeyboardEvent) => {
    if (!open) return;
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to: Record<string, number> = {
      ArrowDown: (at + 1) % all.length,
      ArrowUp: (at + all.length - 1) % all.length,
      Home: 0,
      End: all.length - 1,
    };
    // No keyboard shortcut works while the menu is open.
    event.stopPropagation();
    if (event.key === 'Tab') setOpen(false);
    if (event.key === 'Escape') close();
    else if (event.key in to) all[to[event.key]]?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <span ref={place} class={`chip ${rest.class ?? ''}`}>
      <button
        ref={button}
        type="button"
        class={warns ? 'quiet careless' : 'quiet'}
        aria-haspopup="menu"
        aria-expanded={open}
        aria-label={`${name}: ${label}`}
        title={name}
        data-value={value}
        onClick={toggle}
      >
        <span>
          <Text line>{label}</Text>
        </span>
        <Icon name="unfold" />
      </button>
      {open && (
        <div ref={menu} class="chip-menu" role="menu" aria-label={name} tabIndex={-1} onKeyDown={key}>
          <p class="chip-menu-name" aria-hidden="true">
            {name}
          </p>
          {note && <p class="hint">{note}</p>}
          {choices.map((choice) => (
            <button
              key={choice.value}
              type="button"
              role="menuitemradio"
              class={choice.warns ? 'warns' : ''}
              aria-checked={choice.value === value}
              disabled={choice.disabled}
              data-value={choice.value}
              onClick={() => {
                close();
                if (choice.value !== value) choose(choice.value);
              }}
            >
              <span class="chip-menu-label">
                <Text line>{choice.label}</Text>
              </span>
              {choice.help && (
                <small>
                  <Text>{choice.help}</Text>
                </small>
              )}
            </button>
          ))}
        </div>
      )}
    </span>
  );
}
