// Buttons that copy text to the clipboard.

import { useEffect, useState } from 'preact/hooks';

import { Button } from '../ui/elements.tsx';

/** Copies a text to the clipboard. Returns whether that was possible. */
async function copyText(text: string): Promise<boolean> {
  try {
    // `clipboard` is missing if the page was loaded over http from another machine.
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch {
    // The browser does not allow it, but may allow the older method below.
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'offscreen';
  const before = document.activeElement as HTMLElement | null;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  before?.focus({ preventScroll: true });
  return isCopied;
}

const SHOWN = 2000; // ms

/**
 * @param label what the button does, such as "Copy code"
 * @param isNamed whether the button shows its label
 */
export function Copy({
  text,
  label,
  isNamed = false,
  class: style = '',
}: {
  text: string | (() => string);
  label: string;
  isNamed?: boolean;
  class?: string;
}) {
  const [state, setState] = useState<'' | 'done' | 'failed'>('');
  useEffect(() => {
    if (!state) return;
    const timer = setTimeout(() => setState(''), SHOWN);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => setState((await copyText(typeof text === 'string' ? text : text())) ? 'done' : 'failed');
  return (
    <>
      <Button
        label={label}
        icon={state === 'done' ? 'check' : state === 'failed' ? 'cross' : 'copy'}
        bare={!isNamed}
        class={`quiet copy ${style}`}
        onClick={() => void copy()}
      />
      <span class="offscreen" role="status">
        {state === 'done' ? 'Copied' : state === 'failed' ? 'Couldn’t copy: the browser does not allow it.' : ''}
      </span>
    </>
  );
}
