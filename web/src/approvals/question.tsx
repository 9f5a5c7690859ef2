// An agent's questions, each with its options and a field for the user's own answer. On a small screen, one question is
// shown at a time.

import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import { Button, Text } from '../ui/elements.tsx';
import { isSmall } from '../ui/small.ts';
import { MORE, type Option, partOf, type Question, type Questions } from './questions.ts';
import { Rest } from './rest.tsx';
import { Value } from './value.tsx';

/**
 * Whether a chosen option's preview is truncated. If so, leads the user to it, because it has to be shown in full
 * first.
 */
export function isChoiceCut(place: HTMLElement, { problem }: Questions) {
  const button = place.querySelector<HTMLElement>('.preview.chosen button.must');
  if (!button) return false;
  problem.value = 'The preview of your choice is truncated. Show all of it first.';
  (button.closest('details') as HTMLDetailsElement).open = true;
  button.focus();
  return true;
}

/**
 * @param name makes the field names unique on the page
 * @param submit is called to send the answers
 * @param leadsOn scrolls to what has to be read before the next question is shown; returns false if nothing has to be
 *   read
 * @param stepped is called after another question has replaced the one that was shown
 */
export function QuestionForm({
  questions,
  name,
  disabled,
  mayAnswer,
  submit,
  leadsOn,
  stepped,
  skip,
  children,
}: {
  questions: Questions;
  name: string;
  disabled: boolean;
  mayAnswer: boolean;
  submit: () => void;
  leadsOn: () => boolean;
  stepped: () => void;
  skip: () => void;
  children?: ComponentChildren;
}) {
  const { all, at, problem } = questions;
  const isStepped = isSmall.value && all.length > 1;
  const isLast = !isStepped || at.value === all.length - 1;
  const form = useRef<HTMLFormElement>(null);
  const before = useRef(at.value);
  useLayoutEffect(() => {
    if (before.current === at.value || !isStepped) return;
    before.current = at.value;
    stepped();
    form.current?.querySelector<HTMLElement>('fieldset')?.focus({ preventScroll: true });
    form.current?.scrollIntoView({ block: 'nearest' });
  }, [at.value, isStepped]);
  return (
    <form
      ref={form}
      class="questions"
      onSubmit={(event) => {
        event.preventDefault();
        if (isLast) submit();
        else if (!isChoiceCut(event.currentTarget, questions) && !leadsOn()) questions.step(1);
      }}
    >
      <More of={questions.more} part={MORE} />
      {all.map((question, index) =>
        isStepped && index !== at.value ? null : (
          <Fieldset
            key={index}
            question={question}
            name={`${name}-${index}`}
            index={index}
            number={isStepped ? `${index + 1} of ${all.length}` : ''}
            keyed={index === at.value}
            disabled={disabled || !mayAnswer}
            enter={() => (at.value = index)}
            changed={() => questions.changed()}
          />
        ),
      )}
      <p class="hint" role="status">
        {problem.value && <Text>{problem.value}</Text>}
      </p>
      {children}
      {mayAnswer && (
        <footer>
          {isStepped && at.value > 0 && (
            <Button label="Back" icon="back" disabled={disabled} onClick={() => questions.step(-1)} />
          )}
          <button type="submit" class="yes" disabled={disabled}>
            {disabled ? 'Sending…' : questions.isUnread.value ? 'Read on' : isLast ? 'Submit' : 'Next'}
          </button>
          <Button label="Skip" class="quiet" disabled={disabled} onClick={skip} />
        </footer>
      )}
    </form>
  );
}

/** Fields that the form does not show elsewhere. */
function More({ of: fields, part }: { of: Record<string, any>; part: string }) {
  if (!Object.keys(fields).length) return null;
  return (
    <div data-part={part}>
      <Rest input={fields} />
    </div>
  );
}

function Fieldset({
  question,
  name,
  index,
  number,
  keyed,
  disabled,
  enter,
  changed,
}: {
  question: Question;
  name: string;
  index: number;
  number: string;
  keyed: boolean;
  disabled: boolean;
  enter: () => void;
  changed: () => void;
}) {
  const { header, text, multiple, options, own } = question;
  return (
    <fieldset tabIndex={-1} disabled={disabled} onFocusIn={enter} onPointerDown={enter}>
      <legend data-part={partOf(index, 'text')}>
        {header && (
          <span class="tag">
            <Text line>{header}</Text>
          </span>
        )}
        <Text>{text}</Text>
        {number && <span class="step">{number}</span>}
        {multiple && <span class="hint">Select all that apply</span>}
      </legend>
      <More of={question.more} part={partOf(index, MORE)} />
      {options.map((option, n) => (
        <Choice
          key={n}
          option={option}
          name={name}
          question={question}
          parts={[partOf(index, 'option', n), partOf(index, 'preview', n)]}
          shortcut={keyed && n < 9 ? String(n + 1) : ''}
          changed={changed}
        />
      ))}
      <input
        type="text"
        class="own"
        value={own.value}
        placeholder="Other…"
        aria-label={`Your own answer to: ${text}`}
        onInput={(event) => {
          question.write(event.currentTarget.value);
          changed();
        }}
      />
    </fieldset>
  );
}

function Choice({
  option,
  name,
  question,
  parts: [part, ofPreview],
  shortcut,
  changed,
}: {
  option: Option;
  name: string;
  question: Question;
  parts: [string, string];
  shortcut: string;
  changed: () => void;
}) {
  const { label, description, preview } = option;
  const isChosen = question.chosen.value.includes(label);
  return (
    <>
      <label class="option" data-part={part}>
        <input
          type={question.multiple ? 'checkbox' : 'radio'}
          name={name}
          value={label}
          checked={isChosen}
          aria-keyshortcuts={shortcut || undefined}
          onChange={() => {
            question.pick(label);
            changed();
          }}
        />
        <span>
          <strong>
            <Text>{label}</Text>
          </strong>
          {typeof description === 'string' && description && (
            <small>
              <Text>{description}</Text>
            </small>
          )}
        </span>
        {shortcut && <kbd aria-hidden="true">{shortcut}</kbd>}
      </label>
      {typeof preview === 'string' && preview && <Preview text={preview} part={ofPreview} isOpen={isChosen} />}
    </>
  );
}

/** The preview of an option. */
function Preview({ text, part, isOpen }: { text: string; part: string; isOpen: boolean }) {
  return (
    <details class={`preview${isOpen ? ' chosen' : ''}`} data-part={part} open={isOpen}>
      <summary>Preview</summary>
      <Value text={text} />
    </details>
  );
}
