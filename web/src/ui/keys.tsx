// The keyboard shortcuts of the web UI, as the help lists them.

import { Dialog } from './elements.tsx';
import { overlay } from './overlays.tsx';

/** Two spaces separate the keys that share a line. */
const KEYS: [string, string][] = [
  ['a', 'Accept the current change to a file, once all of it has been in view'],
  ['Ctrl+Enter', 'Accept the current request, or submit your answers (⌘+Enter on a Mac)'],
  ['e', 'Edit the current request or change (Ctrl+Enter accepts your version)'],
  ['Esc, Tab', 'Leave the editor for the next control (in the editor, Tab indents)'],
  ['r', 'Reject the current request; you can give a reason'],
  ['a  u', 'Keep or undo the current change in a review, once all of it has been in view'],
  ['c', 'Comment on the current change in a review'],
  ['n', 'Next session that needs you'],
  ['j  k', 'Next or previous item in the conversation, or change in a review'],
  ['/', 'Go to the message box'],
  ['Enter', 'Send (Shift+Enter, or Enter on a touch screen, starts a new line)'],
  ['↑  ↓', 'Bring back messages that you sent earlier'],
  ['Ctrl+K', 'Go to a session or run a command (⌘+K on a Mac)'],
  ['Esc', 'Go back; what you wrote is kept as a draft'],
  ['Esc Esc', 'Stop the run, unless a request is waiting'],
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
