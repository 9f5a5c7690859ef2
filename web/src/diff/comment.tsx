// A comment on a line of a diff or on a part of a plan.

import type { ComponentChild } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { Button } from '../ui/elements.tsx';

/** Comments on lines of files or on parts of a plan, by path and line. */
export type Comments = {
  get: (path: string, line: string) => string | undefined;
  /** `quote`: the beginning of the line or part. An empty text removes the comment. */
  set: (path: string, line: string, text: string, quote: string) => void;
};

/** The notes at lines of a diff. A line is named "12", or "−12" in the old text. The functions read signals. */
export type Notes = {
  /** Begins a comment on a line or, with `isRange`, extends the last comment to the line. Undefined if not allowed. */
  begin?: (line: string, isRange: boolean) => void;
  below: (line: string) => ComponentChild[] | undefined;
  isMarked: (line: string) => boolean;
};

/** A comment that is sent with the rejection. */
export function Comment({
  label,
  placeholder = 'Add a comment (sent when you reject)',
  text,
  change,
  close,
}: {
  label: string;
  placeholder?: string;
  text: string;
  change: (text: string) => void;
  close: () => void;
}) {
  const area = useRef<HTMLTextAreaElement>(null);
  const isNew = useRef(!text);
  useEffect(() => {
    if (isNew.current) area.current?.focus();
  }, []);
  const remove = () => {
    // The focus goes to the button that began the comment, which is the last one before it.
    const field = area.current as HTMLElement;
    const buttons = [...(field.closest('.card')?.querySelectorAll<HTMLElement>('.comment') ?? [])];
    buttons.findLast((one) => one.compareDocumentPosition(field) & Node.DOCUMENT_POSITION_FOLLOWING)?.focus();
    change('');
    close();
  };
  return (
    <div class="comment-field">
      <textarea
        ref={area}
        rows={2}
        aria-label={label}
        placeholder={placeholder}
        value={text}
        onInput={(event) => change(event.currentTarget.value)}
        onBlur={(event) => {
          // This does not happen immediately, because it would move what is being clicked out from under the pointer.
          if (!event.currentTarget.value.trim())
            setTimeout(() => area.current && !area.current.value.trim() && close(), 300);
        }}
      />
      <Button label="Remove comment" icon="cross" bare class="quiet" onClick={remove} />
    </div>
  );
}
