// The web UI's own dialogs, one on top of the other.

import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

import { Dialog } from './elements.tsx';
import { restoreFocus } from './focus.ts';

type Overlay = { id: number; make: (close: () => void) => ComponentChildren };

const open = signal<Overlay[]>([]);
let last = 0;

/** Shows what `make` returns, a `<Dialog>`, until the function that `make` receives is called. */
export function overlay(make: (close: () => void) => ComponentChildren) {
  const id = ++last;
  open.value = [...open.value, { id, make }];
}

/** Closes all dialogs, without an answer. */
export function closeAll() {
  open.value = [];
}

export function Overlays() {
  return (
    <>
      {open.value.map(({ id, make }) => (
        <div key={id} class="overlay">
          {make(() => {
            open.value = open.value.filter((one) => one.id !== id);
            // The element that had the focus may be gone, such as the row of a removed project.
            requestAnimationFrame(() => restoreFocus(document.querySelector<HTMLElement>('.latest a, .start input')));
          })}
        </div>
      ))}
    </>
  );
}

/** `trying` runs an action that may fail; `problem` is the error to show, or ''. */
export function useTrying() {
  const [problem, setProblem] = useState('');
  const [busy, setBusy] = useState(false);
  const trying = async (act: () => Promise<void>) => {
    const before = document.activeElement as HTMLElement | null;
    setProblem('');
    setBusy(true);
    try {
      await act();
    } catch (error) {
      setProblem((error as Error).message);
    }
    setBusy(false);
    // A control that was disabled in the meantime has lost the focus.
    requestAnimationFrame(() => restoreFocus(before));
  };
  return { problem, busy, trying, setProblem };
}

/** A question with two answers. If `act` fails, the dialog stays open and shows why. */
export function Confirm({
  title,
  text,
  yes,
  no = 'Cancel',
  danger = false,
  act,
  close,
}: {
  title: string;
  text: string;
  yes: string;
  no?: string;
  danger?: boolean;
  act: () => Promise<void> | void;
  close: () => void;
}) {
  const { problem, busy, trying } = useTrying();
  const run = () =>
    trying(async () => {
      await act();
      close();
    });
  return (
    <Dialog title={title} onClose={close}>
      <p>{text}</p>
      <p class="problem" role="alert">
        {problem}
      </p>
      <footer>
        <button type="button" class={danger ? 'no' : 'yes'} disabled={busy} onClick={() => void run()}>
          {yes}
        </button>
        <button type="button" class="quiet" onClick={close}>
          {no}
        </button>
      </footer>
    </Dialog>
  );
}
