// Settings: this browser, the server's devices, notifications, and what the agents have used.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';

import { wantNotices } from '../notifications/notices.ts';
import * as push from '../notifications/push.ts';
import { isSplit, isWrapped, setSplit, setWrapped } from '../diff/style.ts';
import * as kept from '../state/kept.ts';
import { Text } from '../ui/elements.tsx';
import { restoreFocus } from '../ui/focus.ts';
import { Confirm, overlay, useTrying } from '../ui/overlays.tsx';
import { useWorld } from '../ui/world.ts';
import { Devices } from './devices.tsx';
import { setTheme, THEMES, theme } from './theme.ts';
import { Usage } from './usage.tsx';

/** What a device may do, in words. */
export const SCOPES: Record<string, string> = {
  view: 'View only',
  approve: 'Approve and stop',
  run: 'Run agents',
  admin: 'Full access',
};

export default function Settings({ forget }: { forget: () => Promise<void> }) {
  const { client, live } = useWorld();
  void live.hello.value;
  const { hello } = client;
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => restoreFocus(place.current), []);
  return (
    <div class="settings" tabIndex={-1} ref={place}>
      <Notifications />
      <Appearance />
      {client.may('device_list') && hello?.device.projects === null && <Devices />}
      <ThisDevice forget={forget} />
      {client.may('usage') && <Usage />}
      <Section title="About">
        <dl class="facts">
          <dt>Server</dt>
          <dd>
            <Text line>{String(hello?.machine ?? location.hostname)}</Text>
          </dd>
          <dt>Address</dt>
          <dd>
            <Text line>{location.host}</Text>
          </dd>
          <dt>Version</dt>
          <dd>
            <Text line>{String(hello?.version ?? 'unknown')}</Text>
          </dd>
        </dl>
        <p>
          <a href="licenses.txt" target="_blank" rel="noreferrer">
            Open-source licenses
          </a>
        </p>
      </Section>
    </div>
  );
}

export function Section({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

/** A checkbox whose change may fail. If it does, the checkbox keeps its state and the error is shown. */
function Switch({
  label,
  on,
  hint,
  change,
}: {
  label: string;
  on: boolean;
  hint?: string;
  change: (on: boolean) => unknown;
}) {
  const [checked, setChecked] = useState(on);
  const { problem, busy, trying } = useTrying();
  return (
    <div class="switch-row">
      <label class="switch">
        <input
          type="checkbox"
          checked={checked}
          disabled={busy}
          onChange={(event) => {
            const wanted = event.currentTarget.checked;
            event.currentTarget.checked = checked;
            void trying(async () => {
              await change(wanted);
              setChecked(wanted);
            });
          }}
        />
        {label}
      </label>
      {hint && <p class="hint">{hint}</p>}
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
    </div>
  );
}

const IN_PUSH =
  'Notifications are sent encrypted through your browser’s push service. They contain only the project’s name, the kind of request (“Run a command”) or how the run ended, and how much there is to review.';
const ALSO = ' If you turn on “Accept or reject in the notification”, they also contain short commands.';

function Notifications() {
  const { client } = useWorld();
  const [pushes, setPushes] = useState(kept.wants('push'));
  const canAct = push.canAct() && client.may('permission_response');
  const closed = async (on: boolean) => {
    if (on) {
      await wantNotices(true);
      await push.subscribe(client);
    } else await push.unsubscribe(client);
    setPushes(on);
  };
  return (
    <Section title="Notifications">
      <Switch label="When an agent needs you or finishes" on={kept.wants('notices')} change={wantNotices} />
      {push.canPush(client) && (
        <Switch
          label="Even when Drawbridge is closed"
          hint={canAct ? IN_PUSH + ALSO : IN_PUSH}
          on={kept.wants('push')}
          change={closed}
        />
      )}
      {pushes && canAct && (
        <Switch
          label="Accept or reject in the notification"
          hint="Only for short commands that fit in the notification, which then contains the command. Anyone who can press its buttons can decide, even on a locked screen."
          on={kept.wants('actions')}
          change={(on) => push.subscribe(client, on)}
        />
      )}
      {pushes && client.may('push_test') && <TestNotification />}
      <Switch label="Play a sound" on={kept.wants('sound')} change={(on) => kept.keepWants('sound', on)} />
    </Section>
  );
}

function TestNotification() {
  const { client } = useWorld();
  const { problem, busy, trying, setProblem } = useTrying();
  const [sent, setSent] = useState(false);
  const test = () =>
    trying(async () => {
      setSent(false);
      const told = await push.test(client);
      if (told.accepted) setSent(true);
      else setProblem(told.problem ?? 'The push service did not accept the notification.');
    });
  return (
    <div class="switch-row">
      <button type="button" disabled={busy} onClick={() => void test()}>
        Send a test notification
      </button>
      <p class="hint" role="status">
        {sent ? 'Sent. It appears in a few seconds.' : ''}
      </p>
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
    </div>
  );
}

function Choices<Value extends string>({
  label,
  name,
  values,
  value,
  choose,
}: {
  label: string;
  name: string;
  values: [Value, string][];
  value: Value;
  choose: (value: Value) => void;
}) {
  return (
    <fieldset class="choices-row">
      <legend>{label}</legend>
      {values.map(([key, words]) => (
        <label key={key}>
          <input type="radio" name={name} checked={value === key} onChange={() => choose(key)} />
          {words}
        </label>
      ))}
    </fieldset>
  );
}

const DIFFS: [string, string][] = [
  ['split', 'Side by side, if there is room'],
  ['unified', 'One column'],
];

function Appearance() {
  return (
    <Section title="Appearance and keys">
      <Choices label="Theme" name="theme" values={THEMES} value={theme.value} choose={setTheme} />
      <Choices
        label="Changes"
        name="diff"
        values={DIFFS}
        value={isSplit.value ? 'split' : 'unified'}
        choose={(chosen) => setSplit(chosen === 'split')}
      />
      <Switch label="Wrap long lines" on={isWrapped.value} change={setWrapped} />
      <Switch
        label="Single-key shortcuts"
        hint="For example, “a” accepts a change to a file once all of it has been in view. To accept anything else, press Ctrl+Enter (⌘+Enter on a Mac), or click the button."
        on={kept.setting('keys') !== 'off'}
        change={(on) => kept.keepSetting('keys', on ? '' : 'off')}
      />
    </Section>
  );
}

function ThisDevice({ forget }: { forget: () => Promise<void> }) {
  const { client } = useWorld();
  const scope = SCOPES[client.hello?.device.scope] ?? 'Full access';
  const signOut = () =>
    overlay((close) => (
      <Confirm
        title="Sign out?"
        text="This browser deletes its access token, which signs out all of its windows. To sign in again, you need a pairing code or an access token."
        yes="Sign out"
        danger
        act={forget}
        close={close}
      />
    ));
  return (
    <Section title="This device">
      {client.isNamed ? (
        <p>
          This device is “<Text line>{client.name}</Text>”. {scope}.
        </p>
      ) : (
        <div class="field">
          <label for="name">Device name (applies after reconnecting)</label>
          <input
            id="name"
            type="text"
            maxLength={60}
            value={client.name}
            onChange={(event) => kept.keepClientName(event.currentTarget.value.trim())}
          />
        </div>
      )}
      <button type="button" onClick={signOut}>
        Sign out…
      </button>
    </Section>
  );
}
