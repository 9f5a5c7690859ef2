// Short notes over the conversation. An error stays until the user closes it. Other notes disappear.

import { signal } from '@preact/signals';

import { Button, Text } from './elements.tsx';

type Toast = { id: number; text: string; isProblem: boolean };

/** Milliseconds for which a note that is not an error is shown. */
const SHOWN = 6000;

/** The maximum number of notes. More would cover the conversation, so the oldest is dropped. */
const MOST = 4;

export const toasts = signal<Toast[]>([]);
let last = 0;

const close = (id: number) => {
  toasts.value = toasts.value.filter((one) => one.id !== id);
};

function add(text: string, isProblem: boolean) {
  if (toasts.value.some((one) => one.text === text)) return;
  const id = ++last;
  toasts.value = [...toasts.value, { id, text, isProblem }].slice(-MOST);
  if (!isProblem) setTimeout(() => close(id), SHOWN);
}

/** Shows a note. The `kind` 'problem' makes it an error. */
export const said = (text: string, kind = '') => add(text, kind === 'problem');

export const failed = (error: any) => add(error?.message ?? String(error), true);

/** Reports that a part of the web UI could not be loaded: without a connection, or after an update of the server. */
export const notLoaded = () =>
  add('This part of Drawbridge can’t be loaded. Check your connection, then reload the page.', true);

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, isProblem }) => (
        <p key={id} class={isProblem ? 'toast problem' : 'toast'}>
          <span>
            <Text>{text}</Text>
          </span>
          {isProblem && <Button label="Close" icon="cross" bare class="quiet" onClick={() => close(id)} />}
        </p>
      ))}
    </div>
  );
}
