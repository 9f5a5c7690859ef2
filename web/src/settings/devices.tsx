// The devices that may use this server: their list, and the dialog that pairs another one.

import { useEffect, useRef, useState } from 'preact/hooks';

import type { DeviceInfo, PairCreated } from '../protocol/messages.ts';
import { Copy } from '../text/copy.tsx';
import { ago } from '../ui/dom.ts';
import { Button, Dialog, Text } from '../ui/elements.tsx';
import { Confirm, overlay, useTrying } from '../ui/overlays.tsx';
import { useWorld, type World } from '../ui/world.ts';
import { SCOPES, Section } from './page.tsx';

export function Devices() {
  const world = useWorld();
  const { problem, trying } = useTrying();
  const [all, setAll] = useState<DeviceInfo[]>();
  const devices = all?.filter((one) => one.state === 'valid');
  const load = async (): Promise<DeviceInfo[]> => {
    const { data } = await world.client.connection.ask('device_list');
    setAll(data.devices);
    return data.devices;
  };
  const loads = () =>
    void trying(async () => {
      await load();
    });
  useEffect(() => {
    loads();
  }, []);
  const revokes = (device: DeviceInfo) => world.client.connection.ask('device_revoke', { device_id: device.id });
  const revoke = (device: DeviceInfo) =>
    overlay((close) => (
      <Confirm
        title={`Revoke “${device.name}”?`}
        text="The device loses access within 5 seconds. To let it use this server again, pair it again."
        yes="Revoke"
        danger
        act={async () => {
          await revokes(device);
          await trying(async () => {
            const paired = pairedBy(await load(), device.id);
            if (paired.length > 0) revokePaired(device, paired);
          });
        }}
        close={close}
      />
    ));
  // Whoever had the device may have paired another one with it, to keep access.
  const revokePaired = (device: DeviceInfo, paired: DeviceInfo[]) =>
    overlay((close) => (
      <Confirm
        title={`Revoke what “${device.name}” paired?`}
        text={`Devices that it paired still have access: ${paired.map((one) => `“${one.name}”`).join(', ')}.`}
        yes={paired.length === 1 ? 'Revoke' : `Revoke all ${paired.length}`}
        no="Keep"
        danger
        act={async () => {
          for (const one of pairedBy(await load(), device.id)) await revokes(one);
          await load();
        }}
        close={close}
      />
    ));
  return (
    <Section title="Devices">
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
      {devices?.length === 0 && <p class="hint">No devices are paired. The owner’s access token is not listed.</p>}
      {devices && devices.length > 0 && (
        <ul class="devices">
          {devices.map((device) => (
            <li key={device.id}>
              <div>
                <strong>
                  <Text line>{device.name}</Text>
                </strong>
                {device.mine && <span class="tag">This device</span>}
                <small>
                  <Text line>{facts(device, all ?? [])}</Text>
                </small>
              </div>
              {!device.mine && <Button label="Revoke…" class="quiet" onClick={() => revoke(device)} />}
            </li>
          ))}
        </ul>
      )}
      {world.client.may('pair_create') && (
        <Button
          label="Pair a device…"
          icon="add"
          onClick={() => overlay((close) => <Pairing world={world} close={close} paired={loads} />)}
        />
      )}
    </Section>
  );
}

/** The devices that have access and that a device paired, directly or through others. `all`: in the order of pairing. */
function pairedBy(all: DeviceInfo[], id: string) {
  const makers = new Set([id]);
  for (const one of all) if (one.made_by && makers.has(one.made_by)) makers.add(one.id);
  return all.filter((one) => one.id !== id && makers.has(one.id) && one.state === 'valid' && !one.mine);
}

function facts(device: DeviceInfo, all: DeviceInfo[]) {
  const { scope, projects, connected, last_used: used, expires, made_by: maker } = device;
  const parts = [SCOPES[scope]];
  if (projects) parts.push(projects.length === 1 ? `only ${projects[0]}` : `only ${projects.length} folders`);
  parts.push(connected ? 'connected' : used ? `last seen ${ago(used)}` : 'never used');
  if (expires) parts.push(`expires ${new Date(expires).toLocaleDateString()}`);
  // An SSH key and a device that is no longer in the list have no name.
  if (maker) parts.push(`paired by ${all.find((one) => one.id === maker)?.name ?? maker}`);
  return parts.join(' · ');
}

function Pairing({ world, close, paired }: { world: World; close: () => void; paired: () => void }) {
  const [scope, setScope] = useState<PairCreated['scope']>('approve');
  const [code, setCode] = useState<PairCreated>();
  const { problem, busy, trying } = useTrying();
  const create = () =>
    trying(async () => {
      const { data } = await world.client.connection.ask('pair_create', { scope, origin: location.origin });
      setCode(data);
    });
  // The button that had the focus is gone. “Done” must not get the focus, because a key that is still held would press
  // it.
  const shown = useRef<HTMLParagraphElement>(null);
  useEffect(() => shown.current?.focus(), [code]);
  const end = () => {
    paired();
    close();
  };
  return (
    <Dialog title="Pair a device" onClose={end}>
      {code ? (
        <>
          <p>Scan this with your phone’s camera, or open this server’s address on the device and enter the code.</p>
          <QrCode rows={code.qr} />
          <p class="pair-code" tabIndex={-1} ref={shown}>
            <code>{code.code}</code>
            <Copy text={code.link} label="Copy link" />
          </p>
          <p class="hint">
            {SCOPES[code.scope]}. The code works once, until{' '}
            {new Date(code.expires_at).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' })}.
          </p>
          {code.loopback && (
            <p class="problem">
              Other machines can’t reach this server, because it listens only on its own machine. Restart it with{' '}
              <code>--host</code>, or use a tunnel.
            </p>
          )}
          <footer>
            <button type="button" class="yes" onClick={end}>
              Done
            </button>
          </footer>
        </>
      ) : (
        <>
          <fieldset class="choices-column">
            <legend>What can the new device do?</legend>
            {(['view', 'approve', 'run', 'admin'] as const).map((one) => (
              <label key={one}>
                <input type="radio" name="scope" checked={scope === one} onChange={() => setScope(one)} />
                {SCOPES[one]}
              </label>
            ))}
          </fieldset>
          <p class="problem" role="alert">
            {problem}
          </p>
          <footer>
            <button type="button" class="yes" disabled={busy} onClick={() => void create()}>
              Create code
            </button>
            <button type="button" class="quiet" onClick={close}>
              Cancel
            </button>
          </footer>
        </>
      )}
    </Dialog>
  );
}

/** The width of the light border around the code, in modules. Cameras need it. */
const QUIET = 4;

/** @param rows of '0' and '1', without the light border */
export function QrCode({ rows }: { rows: string[] }) {
  const side = rows.length + 2 * QUIET;
  const path = rows
    .flatMap((row, y) => [...row].map((module, x) => (module === '1' ? `M${x + QUIET} ${y + QUIET}h1v1h-1z` : '')))
    .join('');
  return (
    <svg class="qr" viewBox={`0 0 ${side} ${side}`} role="img" aria-label="QR code with the pairing link">
      <rect class="light" width={side} height={side} />
      <path class="dark" d={path} />
    </svg>
  );
}
