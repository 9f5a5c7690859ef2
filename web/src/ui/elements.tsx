// The elements that all views use. Text from an agent goes through <Text>: misleading characters in it are written out.

import type { ButtonHTMLAttributes, ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { harmless, inPieces, inShortPieces } from '../text/harmless.ts';
import { isFocusLost } from './focus.ts';
import { ICONS } from './icons.ts';

export type IconName = keyof typeof ICONS;

/**
 * A text that can have several lines. `code`: long runs of blanks are counted instead of drawn. `line`: line breaks and
 * tabs are written out, so that the text is always one line.
 */
export function Text({ children, code, line }: { children: string; code?: boolean; line?: boolean }) {
  const text = line ? children.replace(/[\t\n\r]/g, harmless) : children;
  const pieces = code ? inShortPieces(text) : inPieces(text);
  return (
    <>
      {pieces.map((piece, index) =>
        piece.strange ? (
          <span key={index} class="strange">
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </>
  );
}

export function Icon({ name }: { name: IconName }) {
  return (
    <svg viewBox="0 0 24 24" class="icon" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

type ButtonProps = Omit<ButtonHTMLAttributes<HTMLButtonElement>, 'label' | 'icon'> & {
  label: string;
  icon?: IconName;
  /** Shown beside the label. */
  shortcut?: string;
  /** The shortcut in the notation of `aria-keyshortcuts`, if it differs from `shortcut` or is not shown. */
  ariaShortcut?: string;
  /** Whether only the icon is shown. Screen readers still read `label`. */
  bare?: boolean;
};

export function Button({ label, icon, shortcut, ariaShortcut = shortcut, bare, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      title={bare ? harmless(label) : undefined}
      aria-label={bare ? harmless(label) : undefined}
      aria-keyshortcuts={ariaShortcut}
      {...rest}
    >
      {icon && <Icon name={icon} />}
      {!bare && (
        <span>
          <Text line>{label}</Text>
        </span>
      )}
      {shortcut && !bare && <kbd aria-hidden="true">{shortcut}</kbd>}
    </button>
  );
}

const CONTROL = 'a[href], button:not(:disabled), input:not(:disabled), summary';

const firstControl = (place: HTMLElement) =>
  [...place.querySelectorAll<HTMLElement>(CONTROL)].find((one) => one.checkVisibility());

/** A modal dialog. `onClose` is called whenever the user closes it. */
export function Dialog({
  title,
  class: name,
  onClose,
  children,
}: {
  title: string;
  class?: string;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before: HTMLElement[] = [];
    for (let at = document.activeElement; at; at = at.parentElement) before.push(at as HTMLElement);
    dialog.current?.showModal();
    // A dialog that is removed while it is open does not return the focus. If the control that opened it is gone, such
    // as the row of a revoked device, the nearest control gets the focus.
    const restore = () => {
      const [opener, ...around] = before;
      const control = opener?.isConnected
        ? opener
        : around.map((one) => one.isConnected && firstControl(one)).find(Boolean);
      if (control) control.focus({ preventScroll: true });
    };
    return () => {
      restore();
      // The control that opened it may be removed in the same step.
      queueMicrotask(() => isFocusLost() && restore());
    };
  }, []);
  return (
    <dialog ref={dialog} class={name} aria-label={title} onClose={onClose}>
      <header>
        <h2>
          <Text line>{title}</Text>
        </h2>
        <Button label="Close" icon="cross" bare class="quiet" onClick={() => dialog.current?.close()} />
      </header>
      {children}
    </dialog>
  );
}
