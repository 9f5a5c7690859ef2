// The keyboard shortcuts of the web UI, as the help lists them.

import { Dialog } from './elements.tsx';
import { overlay } from './overlays.tsx';

/** Two spaces separate the keys that share a line. */
const KEYS: [string, string][] = [
  ['a', 'Accept the highlighted change when all of it is in view'],
  ['Ctrl+Enter', 'Accept the current request of any kind (⌘+Enter on a Mac)'],
  ['e', 'Edit; accept the edit with Ctrl+Enter'],
  ['Esc, Tab', 'Close the editor (Tab indents in it), then move to the next control'],
  ['r', 'Reject with a reason'],
  ['a  u', 'Keep or undo the highlighted change of a review when all of it has been in view'],
  ['c', 'Comment on the highlighted change of a review'],
  ['n', 'Next session that needs you'],
  ['j  k', 'Next or previous message, request, or change of a review'],
  ['/', 'Go to the message box'],
  ['Enter', 'Send (Shift+Enter for a new line)'],
  ['↑  ↓', 'Previous messages'],
  ['Ctrl+K', 'Go to a session or run a command (⌘+K on a Mac)'],
  ['Esc', 'Go back; your draft is kept'],
  ['Esc Esc', 'Stop the run'],
  ['1 – 9', 'Choose an option in the current question'],
  ['?', 'Show keyboard shortcuts'],
];

export function showKeys() {
  overlay((close) => (
    <Dialog title="Keyboard shortcuts" onClose={close}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => [
          <dt key={keys}>
            {keys.split('  ').map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>,
          <dd key={what}>{what}</dd>,
        ])}
      </dl>
    </Dialog>
  ));
}
