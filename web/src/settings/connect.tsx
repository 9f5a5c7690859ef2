// The first view of a browser that has no access yet: it takes a pairing code or a token.

import { useEffect, useRef, useState } from 'preact/hooks';

import { deviceName } from '../state/device-name.ts';
import * as kept from '../state/kept.ts';
import { Text } from '../ui/elements.tsx';

/** Matches a pairing code, in upper case and without separators: eight letters and digits, but no 0 or 1. */
const CODE = /^[A-Z2-9]{8}$/;

/** The pairing or sign-in code that was typed or is in a link, or undefined if the text is not a code. */
export function codeIn(text: string) {
  const code = text.toUpperCase().replace(/[\s-]/g, '');
  return CODE.test(code) ? code : undefined;
}

/**
 * The default name of this device: its model ("Pixel 8") if the browser reports it, as Chrome on Android does,
 * otherwise a name derived from the user agent.
 */
async function modelName(): Promise<string> {
  const data = (navigator as any).userAgentData;
  const { model } = (await data?.getHighEntropyValues?.(['model']).catch(() => undefined)) ?? {};
  const known = typeof model === 'string' ? model.trim().slice(0, 60) : '';
  return known || deviceName(navigator.userAgent, navigator.maxTouchPoints);
}

export type Invitation = { code: string; fingerprint?: string };

/** @param refused why the server refused the last code or token: "" without a reason, undefined without a refusal */
export function Connect({
  refused,
  invited,
  busy,
  connect,
  pair,
}: {
  refused?: string;
  invited?: Invitation;
  busy: boolean;
  connect: (token: string) => void;
  pair: (code: string, name: string) => void;
}) {
  const code = invited?.code;
  const [given, setGiven] = useState(code ? `${code.slice(0, 4)}-${code.slice(4)}` : '');
  const [name, setName] = useState(kept.clientName());
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (code) setGiven(`${code.slice(0, 4)}-${code.slice(4)}`);
  }, [code]);
  useEffect(() => {
    if (!kept.isNamed())
      void modelName().then((proposed) => setName((now) => (now === kept.clientName() ? proposed : now)));
  }, []);
  useEffect(() => {
    if (!busy) field.current?.focus();
  }, [busy, refused]);
  const isCode = codeIn(given) !== undefined;
  const go = (event: Event) => {
    event.preventDefault();
    const found = codeIn(given);
    if (found !== undefined) pair(found, name.trim());
    else if (given.trim()) connect(given.trim());
  };
  return (
    <main class="connect">
      <img src="icon.svg" alt="" width={72} height={72} />
      <h1>Drawbridge</h1>
      <p class="lead">Coding agents propose changes. You decide what gets in.</p>
      <form onSubmit={go}>
        <label for="token">Pairing code or access token</label>
        <input
          id="token"
          ref={field}
          // A token is a secret that is pasted. A code works once, and is typed.
          type={(isCode || given.length < 12 ? 'text' : 'password') as 'text'}
          value={given}
          autocomplete="off"
          spellcheck={false}
          autocapitalize="characters"
          required
          aria-describedby="token-help"
          aria-invalid={refused !== undefined}
          disabled={busy}
          onInput={(event) => setGiven(event.currentTarget.value)}
        />
        {isCode && (
          <div class="naming">
            <label for="device">Device name</label>
            <input
              id="device"
              type="text"
              maxLength={60}
              value={name}
              autocomplete="off"
              disabled={busy}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </div>
        )}
        {refused !== undefined && (
          <p class="problem" role="alert">
            <Text>{refused || 'That token isn’t valid. Check it and try again.'}</Text>
          </p>
        )}
        <button type="submit" class="yes" disabled={busy}>
          {busy ? 'Connecting…' : isCode ? 'Pair this device' : 'Connect'}
        </button>
        <p id="token-help" class="hint">
          Run <code>drawbridge pair</code> on the server’s machine to get a code. Or paste the owner’s token:{' '}
          <code>drawbridge serve</code> shows the path of the file that contains it. This browser stores the token until
          you sign out.
        </p>
        {location.protocol === 'https:' && (
          <p class="hint">
            If your browser warns about the certificate,{' '}
            <a href="ca.crt">install this server’s certificate authority</a>. Notifications require that, too.
          </p>
        )}
        {invited?.fingerprint && (
          <details class="hint" open={false}>
            <summary>Is this the right server?</summary>
            <p>If your browser warns about the certificate, check that the fingerprint matches:</p>
            <code class="fingerprint">{invited.fingerprint}</code>
          </details>
        )}
      </form>
    </main>
  );
}
