// The queued messages, above the message box.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import type { Client, Unsent } from '../protocol/client.ts';
import type { RunInfo } from '../protocol/messages.ts';
import { Button, Text } from '../ui/elements.tsx';
import { restoreFocus } from '../ui/focus.ts';
import { counted } from '../ui/dom.ts';

/** The maximum number of characters of a message that are drawn. */
const SHOWN = 500;

type Props = {
  client: Client;
  id: string;
  waiting: RunInfo[];
  unsent: Unsent[];
  connected: boolean;
  may: (type: string) => boolean;
  failed: (error: any) => void;
};

export function Queue({ client, id, waiting, unsent, connected, may, failed }: Props) {
  const sending = unsent.filter((one) => !waiting.some((other) => other.request_id === one.id));
  if (!waiting.length && !sending.length) return null;
  return (
    <ul class="queue" aria-label="Queued messages">
      {waiting.map((one, index) => (
        <Queued key={one.run_id} one={one} before={waiting[index - 1]} {...{ client, id, may, failed, connected }} />
      ))}
      {sending.map((one) => (
        <li key={one.id} class="queued">
          <span class="tag">{connected ? 'Sending' : 'Will be sent when you reconnect'}</span>
          <span class="queued-text">
            <Text>{one.prompt.slice(0, SHOWN) || files(one.attachments?.length ?? 0)}</Text>
          </span>
        </li>
      ))}
    </ul>
  );
}

type QueuedProps = Omit<Props, 'waiting' | 'unsent'> & { one: RunInfo; before?: RunInfo };

function Queued({ client, id, one, before, connected, may, failed }: QueuedProps) {
  const { run_id, position, prompt, cut, seq, attachments = 0 } = one;
  const [draft, setDraft] = useState<string | undefined>();
  const [busy, setBusy] = useState(false);
  const row = useRef<HTMLLIElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const isEditing = draft !== undefined;
  const wasEditing = useRef(false);
  useEffect(() => {
    if (isEditing) area.current?.focus();
    else if (wasEditing.current) restoreFocus(row.current?.querySelector('button'));
    wasEditing.current = isEditing;
  }, [isEditing]);
  // A row that is removed passes the focus to another one, or to the message box.
  useLayoutEffect(
    () => () => {
      const at = row.current;
      if (at?.contains(document.activeElement)) beside(at)?.focus();
    },
    [],
  );
  const isMoved = useRef(false);
  useEffect(() => {
    if (!isMoved.current) return;
    isMoved.current = false;
    restoreFocus(row.current?.querySelector<HTMLElement>('.move') ?? row.current?.querySelector('button'));
  }, [before?.run_id]);
  /**
   * Runs `work`. The row's buttons except Save stay enabled in the meantime, because a disabled button loses the focus.
   * @param leaves whether `work` removes this row, so that the focus has to move
   */
  const act = async (work: () => Promise<unknown>, leaves = true) => {
    if (busy) return;
    setBusy(true);
    // Where the focus goes when this row is removed.
    const next = row.current && beside(row.current);
    try {
      await work();
      if (leaves && (row.current?.contains(document.activeElement) || document.activeElement === document.body))
        (next?.isConnected ? next : document.getElementById('prompt'))?.focus();
    } catch (error) {
      failed(error);
    }
    setBusy(false);
  };
  const command = (type: string, data: object = {}) => client.command(type, { run_id, ...data });
  const edit = async () => {
    try {
      const record = cut && seq ? await client.whole(`${id}:${seq}`) : undefined;
      const text = record?.message?.message?.prompt;
      setDraft(typeof text === 'string' ? text : prompt);
    } catch (error) {
      failed(error);
    }
  };
  const save = () =>
    act(async () => {
      await command('queue_edit', { prompt: draft?.trim() });
      setDraft(undefined);
    }, false);
  const what = prompt.trim().split('\n')[0].slice(0, 40) || 'message';
  const isQueued = position > 0 && connected;
  const who = client.other(one);
  if (draft !== undefined && isQueued)
    return (
      <li ref={row} class="queued editing">
        <textarea
          ref={area}
          aria-label="Edit the queued message"
          rows={Math.min(6, draft.split('\n').length + 1)}
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') setDraft(undefined);
            else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void save();
            else return;
            event.preventDefault();
            event.stopPropagation();
          }}
        />
        <span class="queued-acts">
          <Button label="Save" class="yes" disabled={busy || !draft.trim()} onClick={() => void save()} />
          <Button label="Cancel" class="quiet" onClick={() => setDraft(undefined)} />
        </span>
      </li>
    );
  return (
    <li ref={row} class="queued">
      <span class="tag">{position > 0 ? 'Queued' : 'Starting'}</span>
      <span class="queued-text">
        {who && (
          <strong>
            <Text line>{who}</Text>
          </strong>
        )}
        <Text>{(prompt.slice(0, SHOWN) || files(attachments)) + (cut ? '…' : '')}</Text>
        {attachments > 0 && prompt && <small> · {files(attachments)}</small>}
      </span>
      <span class="queued-acts">
        {isQueued && may('queue_edit') && (
          <Button label={`Edit “${what}”`} icon="pen" bare class="quiet" onClick={() => void edit()} />
        )}
        {isQueued && may('queue_move') && before && before.position > 0 && (
          <Button
            label={`Move up “${what}”`}
            icon="up"
            bare
            class="quiet move"
            onClick={() => {
              isMoved.current = true;
              void act(() => command('queue_move', { before: before.run_id }), false);
            }}
          />
        )}
        {isQueued && may('queue_send_now') && (
          <Button
            label={`Stop the run and send “${what}” now`}
            icon="send"
            bare
            class="quiet now"
            onClick={() => void act(() => command('queue_send_now'))}
          />
        )}
        {isQueued && may('queue_remove') && (
          <Button
            label={`Remove “${what}” from the queue`}
            icon="cross"
            bare
            class="quiet"
            onClick={() => void act(() => command('queue_remove'))}
          />
        )}
      </span>
    </li>
  );
}

const beside = (row: Element) =>
  (row.nextElementSibling ?? row.previousElementSibling)?.querySelector('button') ?? document.getElementById('prompt');

const files = (count: number) => (count ? counted(count, 'file') : '');
