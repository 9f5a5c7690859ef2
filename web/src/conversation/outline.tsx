// The list of a conversation's prompts, from which the user can jump to one.

import { useState } from 'preact/hooks';

import { Button, Dialog, Text } from '../ui/elements.tsx';

export type Entry = { seq: number; text: string; time: string };

const SHORT = 160;

function when(time: string) {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(
    undefined,
    isToday
      ? { hour: '2-digit', minute: '2-digit' }
      : { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' },
  );
}

/**
 * @param entries the prompts that are loaded
 * @param older loads earlier ones; undefined if there are none
 */
export function Outline({
  entries,
  older,
  goTo,
  close,
}: {
  entries: Entry[];
  older?: () => Promise<unknown>;
  goTo: (seq: number) => void;
  close: () => void;
}) {
  const [isBusy, setBusy] = useState(false);
  const more = async () => {
    setBusy(true);
    await older?.().catch(() => {});
    setBusy(false);
  };
  return (
    <Dialog title="Messages" onClose={close}>
      {older && <Button label="Show earlier messages" class="quiet" disabled={isBusy} onClick={() => void more()} />}
      {entries.length === 0 && <p class="hint">No messages yet</p>}
      <ol class="outline">
        {entries.map(({ seq, text, time }) => (
          <li key={seq}>
            <button type="button" class="quiet" onClick={() => goTo(seq)}>
              <time dateTime={time}>{when(time)}</time>
              <span>
                <Text line>{text.trim().slice(0, SHORT) || 'Image'}</Text>
              </span>
            </button>
          </li>
        ))}
      </ol>
    </Dialog>
  );
}
