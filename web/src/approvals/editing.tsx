// Edits a request before it is accepted: its file in an editor, or the fields of its input.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

import { SideBySide } from '../diff/diff.tsx';
import { isSplit } from '../diff/style.ts';
import { isHarmless } from '../text/harmless.ts';
import { Text } from '../ui/elements.tsx';
import { isComposing } from '../ui/typing.ts';
import { freePart, LOOK_AGAIN } from './current.ts';
import { isLong } from './inserted.ts';
import { Value } from './value.tsx';

/** Milliseconds to wait for the editor to load before a plain field replaces it. */
const PATIENCE = 8000;

/** The maximum number of characters, in both versions together, that are highlighted and compared during typing. */
const MOST = 1_000_000;

/** The minimum width of the conversation, in pixels, at which the original can be shown beside the text. */
const ROOM = 1100;

/** Whether the conversation that contains an element is wide enough for two editors side by side. */
function useRoom(place: { current: HTMLElement | null }) {
  const [isWide, setWide] = useState(false);
  useLayoutEffect(() => {
    const element = place.current as HTMLElement;
    let scroller: Element | null = null;
    const sizes = new ResizeObserver(() => look());
    const look = () => {
      // The card is rendered before it is attached to the page, so there may be no scroller yet.
      if (!scroller) {
        scroller = element.closest('.scroller');
        if (!scroller) return;
        sizes.observe(scroller);
      }
      setWide(scroller.clientWidth >= ROOM);
    };
    sizes.observe(element);
    look();
    return () => sizes.disconnect();
  }, [place]);
  return isWide;
}

/**
 * An editor for a file, or a cell of a notebook, as it will be written. It is a plain field if the editor can't be
 * loaded. `opened` is called once either can be used. `hides` is called with whether removed text can be hidden. If it
 * can't, the editor calls `seen` with whether all changes have been in view, whenever this changes.
 */
export function FileEditor({
  path,
  label,
  original,
  text,
  isReadOnly,
  takesFocus,
  opened,
  changed,
  hides,
  seen,
  accept,
}: {
  path: string;
  label: string;
  original: string;
  text: string;
  isReadOnly: boolean;
  takesFocus: boolean;
  opened: () => void;
  changed: (text: string) => void;
  hides: (isRemovedHidden: boolean) => void;
  seen: (isSeen: boolean) => void;
  accept: () => void;
}) {
  const host = useRef<HTMLDivElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const [state, setState] = useState<'loading' | 'open' | 'failed'>('loading');
  const latest = useRef(text);
  const caret = useRef<number | undefined>(undefined);
  const hasFocus = useRef(takesFocus && !isReadOnly);
  const edit = useRef<(now: string) => void>(() => {});
  edit.current = (now) => {
    latest.current = now;
    changed(now);
  };
  const done = useRef(accept);
  done.current = accept;
  const isSeen = useRef(false);
  const isReady = useRef(opened);
  isReady.current = opened;
  const see = useRef(seen);
  see.current = seen;
  const isHiding = useRef(hides);
  isHiding.current = hides;
  const isSmall = original.length + text.length <= MOST;
  const canSplit = useRoom(place) && isSmall && original !== '';
  const split = canSplit && isSplit.value;
  useEffect(() => {
    let editor: import('./editor.ts').Editor | undefined;
    let isOver = false;
    const fail = (error?: unknown) => {
      if (isOver || editor) return;
      isOver = true;
      if (error) console.error(error);
      isHiding.current(original !== '');
      setState('failed');
      isReady.current();
    };
    const look = () => editor?.look();
    const lookedAt = host.current;
    lookedAt?.addEventListener(LOOK_AGAIN, look);
    const timer = setTimeout(fail, PATIENCE);
    import('./editor.ts')
      .then(({ openEditor }) => {
        const element = host.current;
        if (isOver || !element) return;
        editor = openEditor({
          root: element.shadowRoot ?? element.attachShadow({ mode: 'open' }),
          path,
          original,
          text: latest.current,
          isReadOnly,
          isSmall,
          split,
          caret: caret.current,
          label,
          changed: (now) => edit.current(now),
          hides: (isRemovedHidden) => {
            if (isRemovedHidden) {
              // Nothing records what is in view until another editor is opened.
              isSeen.current = false;
              see.current(false);
            }
            isHiding.current(isRemovedHidden);
          },
          isSeen: isSeen.current,
          seen: (isAllSeen) => {
            isSeen.current = isAllSeen;
            see.current(isAllSeen);
          },
          freePart,
          isLong,
          accept: () => done.current(),
        });
        setState('open');
        isReady.current();
        if (hasFocus.current) editor.focus();
      })
      .catch(fail);
    return () => {
      isOver = true;
      clearTimeout(timer);
      lookedAt?.removeEventListener(LOOK_AGAIN, look);
      if (!editor) return;
      // The next editor, split or not, starts with the caret at the same position.
      caret.current = editor.caret();
      hasFocus.current = document.activeElement === host.current;
      editor.destroy();
      host.current?.shadowRoot?.replaceChildren();
    };
  }, [path, label, original, isReadOnly, isSmall, split]);
  return (
    <div ref={place} class={`file-editor ${split ? 'split' : ''}`}>
      {state === 'failed' ? (
        <PlainField
          label={label}
          text={latest.current}
          {...{ isReadOnly, takesFocus, accept }}
          changed={edit.current}
        />
      ) : (
        <>
          {canSplit && (
            <div class="diff-tools">
              <SideBySide />
            </div>
          )}
          {state === 'loading' && (
            <p class="hint editor-wait" role="status">
              Loading the editor…
            </p>
          )}
          <div ref={host} class="editor-host typing" />
        </>
      )}
    </div>
  );
}

/**
 * A plain text field, as tall as its text so that it never scrolls. Below it, a text with hidden characters is written
 * out. `takesFocus`: whether it is focused at first.
 */
export function PlainField({
  label,
  text,
  isReadOnly,
  takesFocus,
  changed,
  accept,
}: {
  label: string;
  text: string;
  isReadOnly: boolean;
  takesFocus: boolean;
  changed: (text: string) => void;
  accept: () => void;
}) {
  const place = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const isWanted = useRef(takesFocus); // only when it appears, because later the user may type somewhere else
  useEffect(() => {
    if (isWanted.current && !isReadOnly) area.current?.focus();
  }, [isReadOnly]);
  return (
    <>
      <div ref={place} class="growing" data-text={text}>
        <textarea
          ref={area}
          class="code"
          spellcheck={false}
          autocapitalize="off"
          aria-label={label}
          value={text}
          rows={2}
          readOnly={isReadOnly}
          onInput={({ currentTarget: { value } }) => {
            (place.current as HTMLElement).dataset.text = value;
            changed(value);
          }}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.repeat || isComposing(event))
              return;
            event.preventDefault();
            accept();
          }}
        />
      </div>
      {!isHarmless(text) && (
        <div class="written-out">
          <p class="notice">
            This text contains hidden or misleading characters that this field can’t show. They are shown as escapes
            below.
          </p>
          <Value text={text} />
        </div>
      )}
    </>
  );
}

/** A plain text field for each input field that is being edited. */
export function FieldsEditor({
  names,
  values,
  isReadOnly,
  takesFocus,
  changed,
  accept,
}: {
  names: string[];
  values: Record<string, string>;
  isReadOnly: boolean;
  takesFocus: boolean;
  changed: (name: string, text: string) => void;
  accept: () => void;
}) {
  return (
    <div class="asked editing">
      {names.map((name, index) => (
        <div key={name} class="editing-field">
          <span>
            <Text line>{name}</Text>
          </span>
          <PlainField
            label={`Edit ${name}`}
            text={values[name]}
            isReadOnly={isReadOnly}
            takesFocus={takesFocus && index === 0}
            changed={(text) => changed(name, text)}
            accept={accept}
          />
        </div>
      ))}
    </div>
  );
}
