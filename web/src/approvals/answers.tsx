// The ways to answer an approval request: the buttons, the field for a reason, and the draft that stays after the
// request was answered elsewhere or withdrawn.

import { useRef } from 'preact/hooks';

import * as kept from '../state/kept.ts';
import { approvesMode } from '../state/projects.ts';
import { counted, single } from '../ui/dom.ts';
import { Button, Text } from '../ui/elements.tsx';
import { isComposing, isTouch } from '../ui/typing.ts';
import type { ApprovalCard } from './card.tsx';
import type { CardProps } from './card-view.tsx';
import type { Always } from '../protocol/messages.ts';
import { changesFiles } from './input.ts';
import { type Reason, reasonsFor } from './reasons.ts';
import { Value } from './value.tsx';

const COMMAND_KEY = /Mac|iP(hone|ad)/.test(globalThis.navigator?.platform ?? '') ? '⌘↵' : 'Ctrl+↵';

/** The maximum length of the text on the "Always" button, in characters. A longer text is shown above the buttons. */
const LONGEST = 120;

/** Whether single letters are shortcuts. */
const hasKeys = () => kept.setting('keys') !== 'off';

export function Answers({ card, version }: CardProps) {
  const { answered, busy: disabled, mode } = card;
  const isUnopened = card.unopened.value > 0;
  const isUnseen = !card.isSeen.value && !card.isEditSeen.value;
  if (answered) return <Kept card={card} version={version} />;
  if (!card.canAnswer) return <footer class="hint">View only. Answer on another device.</footer>;
  if (mode === 'edit')
    return (
      <footer>
        {isUnopened && !card.isUndrawable.value && <Unread />}
        {!isUnopened && isUnseen && card.text !== undefined && (
          <p class="hint unopened">
            {card.hidesRemoved.value
              ? 'Go back and read the removed lines before you accept.'
              : 'Scroll through the whole change before you accept.'}
          </p>
        )}
        {!isUnopened && isUnseen && card.text === undefined && <ReadOn card={card} version={version} />}
        <Button
          label={disabled ? 'Sending…' : card.isChanged.value ? 'Accept edited version' : 'Accept'}
          icon="check"
          shortcut={COMMAND_KEY}
          ariaShortcut="Control+Enter Meta+Enter"
          class="yes accepts edited moved"
          disabled={disabled || isUnopened || isUnseen || !card.isEditorOpen.value}
          onClick={single(() => card.accept())}
        />
        <Back card={card} />
        {card.text !== undefined && (
          <p class="hint editor-keys">Esc leaves the editor and keeps your edit as a draft.</p>
        )}
      </footer>
    );
  return mode === 'reject' ? <Rejection card={card} version={version} /> : <Choices card={card} version={version} />;
}

const Back = ({ card }: Pick<CardProps, 'card'>) => (
  <Button
    label="Back"
    shortcut="Esc"
    ariaShortcut="Escape"
    class="quiet"
    disabled={card.busy}
    onClick={() => card.back()}
  />
);

/** The user's draft for an approval request that was answered elsewhere or withdrawn. */
function Kept({ card }: CardProps) {
  const { message, mode, text, fields } = card;
  const mine = [...(text === undefined ? [] : [text]), ...Object.values(fields ?? {})];
  const comments = card.comments.count.value ? card.comments.message('') : '';
  return (
    <footer>
      {[message, comments].filter(Boolean).map((words, index) => (
        <p key={index} class="mine">
          <Text>{words}</Text>
        </p>
      ))}
      {mode !== 'edit' &&
        mine.map((words, index) => (
          <pre key={index} class="mine">
            <Text>{words}</Text>
          </pre>
        ))}
      <Button label="Close" onClick={() => card.close()} />
    </footer>
  );
}

const Unread = () => <p class="hint unopened">Show the whole request before you accept it.</p>;

/** If nothing in the card counts as seen now, explains why, and what to do. */
export function Beyond({ card }: Pick<CardProps, 'card'>) {
  if (card.cut.value === 'zoomed') return <p class="hint zoomed">Zoom out to see the full width.</p>;
  if (card.cut.value !== 'wide') return null;
  return (
    <p class="hint beyond">
      Part of this request is wider than the card. Make the window wider, or answer on another device.
    </p>
  );
}

/** Shown until all of the request has been in view, instead of Accept or, while fields are edited, above it. */
function ReadOn({ card }: CardProps) {
  const { unread, rest } = card;
  const left = card.mode === 'edit' ? undefined : rest.value;
  const more =
    unread.value !== undefined
      ? ` (${counted(unread.value, 'more line')})`
      : left
        ? ` (about ${counted(left, 'more line')})`
        : '';
  const lines = unread.value === undefined || card.mode === 'edit' ? '' : counted(unread.value, 'line');
  return (
    <>
      <Beyond card={card} />
      <Button label={`Read on${more}`} icon="down" class="reads" disabled={card.busy} onClick={() => card.readOn()} />
      {lines && (
        <Button
          label={card.busy ? 'Sending…' : `Accept without reading ${lines}`}
          class="quiet accepts skips moved"
          disabled={card.busy}
          onClick={single(() => card.accept(false, true))}
        />
      )}
    </>
  );
}

function Choices({ card, version }: CardProps) {
  const { request, world, busy: disabled, isPlan, takesLetter } = card;
  // Only a device that may start runs may choose "Always".
  const mayRemember = world.may('execute');
  const hasLetters = hasKeys();
  const key = (letter: string) => (hasLetters ? letter : undefined);
  const comments = card.comments.count.value;
  const isUnopened = card.unopened.value > 0;
  const isUnread = !isUnopened && !card.isSeen.value;
  const isClosed = isUnopened || isUnread;
  const asksFirst = isPlan && mayRemember && approvesMode(request.suggestions, 'acceptEdits');
  const always = alwaysOf(card);
  return (
    <footer>
      {isUnopened && !card.isUndrawable.value && <Unread />}
      {isUnread && <ReadOn key="reads" card={card} version={version} />}
      {!isUnread && (
        <Button
          key="accepts"
          label={disabled ? 'Sending…' : asksFirst ? 'Approve, ask before edits' : isPlan ? 'Approve' : 'Accept'}
          icon="check"
          shortcut={takesLetter ? key('a') : COMMAND_KEY}
          ariaShortcut={takesLetter ? key('a') : 'Control+Enter Meta+Enter'}
          class="yes accepts moved"
          disabled={disabled || isUnopened}
          onClick={single(() => card.accept())}
        />
      )}
      {asksFirst && (
        <Button
          label="Approve and accept edits"
          class="accepts"
          disabled={disabled || isClosed}
          onClick={single(() => card.accept(true))}
        />
      )}
      {card.canEdit && (
        <Button label="Edit" icon="pen" shortcut={key('e')} disabled={disabled} onClick={() => card.edit()} />
      )}
      <Button
        label={
          isPlan
            ? 'Keep planning…'
            : comments
              ? `Reject with ${comments} comment${comments === 1 ? '' : 's'}…`
              : 'Reject'
        }
        icon="cross"
        shortcut={key('r')}
        class="no"
        disabled={disabled}
        onClick={() => card.reject()}
      />
      {always && (
        <Button
          label={always.length > LONGEST ? 'Always (see above)' : always}
          class="quiet always accepts"
          disabled={disabled || isClosed}
          onClick={single(() => card.accept(true))}
        />
      )}
    </footer>
  );
}

/** What "Always" would save, or '' if it is not offered. */
const alwaysOf = ({ request, world, isPlan }: ApprovalCard) =>
  !world.may('execute') || (isPlan && approvesMode(request.suggestions, 'acceptEdits')) ? '' : alwaysLabel(request);

/**
 * What "Always" would save, if that is too long for the button. The user has to read it like the rest of the request.
 */
export function LongAlways({ card }: CardProps) {
  const always = card.canAnswer && card.mode !== 'edit' ? alwaysOf(card) : '';
  if (always.length <= LONGEST) return null;
  return (
    <div class="asked remembered">
      <p>“Always” would save this:</p>
      <Value text={always} />
    </div>
  );
}

/** The label of the "Always" button; '' if the agent suggests nothing to remember. */
const alwaysLabel = ({ always = [] }: { always?: Always[] }): string =>
  always
    .map(({ text, saved_in: file }) => (file ? `${text} (${file})` : text))
    .join(' · ')
    .replaceAll('`', '');

function Rejection({ card }: CardProps) {
  const { request, world, isPlan, busy: disabled, comments } = card;
  const count = comments.count.value;
  const reject = () => void card.give({ allow: false, message: comments.message(card.message.trim()) });
  const area = useRef<HTMLTextAreaElement>(null);
  const give = (reason: Reason) => {
    card.giveReason(reason);
    // On a touch screen, the field does not get the focus, which would open the keyboard.
    const field = area.current;
    if (!field || !matchMedia('(hover: hover)').matches) return;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  };
  const words = isPlan ? 'Keep planning' : 'Reject';
  return (
    <footer class="rejecting">
      {count > 0 && <p class="hint">{`${count} comment${count === 1 ? '' : 's'} will be sent.`}</p>}
      <textarea
        ref={area}
        rows={2}
        placeholder={
          isPlan
            ? 'What should change in the plan? (optional)'
            : `Tell ${world.agent.replace(/^The /, 'the ')} what to do instead (optional)`
        }
        aria-label="Reason"
        enterkeyhint={isTouch() ? 'enter' : 'send'}
        value={card.message}
        disabled={disabled}
        onInput={(event) => card.typedReason(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || isComposing(event)) return;
          if (isTouch() && !event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          reject();
        }}
      />
      <fieldset class="reasons">
        <legend class="offscreen">Common reasons</legend>
        {reasonsFor(isPlan, changesFiles(request)).map((reason) => (
          <Button
            key={reason.label}
            label={reason.label}
            class="quiet"
            aria-pressed={card.message.includes(reason.text)}
            disabled={disabled}
            onClick={() => give(reason)}
          />
        ))}
      </fieldset>
      <Button
        label={count ? `${words} with comments` : words}
        icon="cross"
        class="no"
        disabled={disabled}
        onClick={reject}
      />
      <Back card={card} />
    </footer>
  );
}
