// The view of one file: its content, or what has changed in it since the last commit.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useSignal } from '@preact/signals';

import { Counts } from '../diff/counts.tsx';
import { Diff, Tools } from '../diff/diff.tsx';
import { hasGaps } from '../diff/lines.ts';
import type { FileChanges, FileContent } from '../protocol/messages.ts';
import { RequestError } from '../protocol/connection.ts';
import { Copy } from '../text/copy.tsx';
import { baseName, counted, size } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { failed, notLoaded } from '../ui/toasts.tsx';
import { useWorld } from '../ui/world.ts';
import { changesAddress, type FilePlace, fileAddress } from './address.ts';
import { differenceOf, NOTES } from './changes.ts';

/** Why a file is not shown, in words. */
function whyNot(error: RequestError): string {
  switch (error.code) {
    case 'FILE_TOO_LARGE':
      return error.details?.size
        ? `This file is too large to show: ${size(error.details.size)}. The limit is ${size(error.details.limit)}.`
        : 'This file is too large to show.';
    case 'FILE_NOT_FOUND':
      return 'This file doesn’t exist.';
    default:
      return error.message;
  }
}

type Asked = { file_read: FileContent; file_changes: FileChanges };

/** The answer to a request about a file, or its error. Nothing is requested while `isOn` is false. */
function useAnswer<T extends keyof Asked>(type: T, project: string, path: string, isOn: boolean) {
  const { client } = useWorld();
  const [answer, setAnswer] = useState<Asked[T]>();
  const [refused, setRefused] = useState<Error>();
  useEffect(() => {
    let isOver = false;
    setAnswer(undefined);
    setRefused(undefined);
    if (isOn)
      client.connection.ask(type, { path }, { project, lasting: true }).then(
        ({ data }) => !isOver && setAnswer(data as Asked[T]),
        (error) => !isOver && setRefused(error),
      );
    return () => {
      isOver = true;
    };
  }, [type, project, path, isOn]);
  return { answer, refused };
}

const isNoText = (error?: Error) => error instanceof RequestError && error.code === 'FILE_UNSUPPORTED';

/** @param isInGit whether the project is in a git work tree, so that changes are known */
export function FileView({ project, path, line, changes = false, isInGit }: FilePlace & { isInGit: boolean }) {
  const { client } = useWorld();
  const compared = useAnswer('file_changes', project, path, changes);
  // For example, the web UI can show an image, but not compare it.
  const isNotCompared = changes && isNoText(compared.refused);
  const read = useAnswer('file_read', project, path, !changes || isNotCompared);
  const file = read.answer;
  const problem = isNotCompared ? read.refused && compared.refused : (compared.refused ?? read.refused);
  const facts =
    file && (file.kind === 'text' ? `${counted(file.lines ?? 0, 'line')} · ${size(file.size)}` : size(file.size));
  const isGone = compared.answer?.status === 'D';
  return (
    <article class="opened" aria-label={path} tabIndex={-1}>
      <header>
        <a class="back-to narrow-only" href={fileAddress(project)} aria-label="All files">
          <Icon name="back" />
        </a>
        <h3>
          <Text line>{baseName(path)}</Text>
          {path !== baseName(path) && (
            <small>
              <Text line>{path}</Text>
            </small>
          )}
        </h3>
        <Copy text={path} label="Copy path" />
        <span class="hint">{facts}</span>
        {file?.kind === 'text' && !file.truncated && <Copy text={file.text ?? ''} label="Copy file" />}
        {(changes || isInGit) && client.may('file_changes') && (
          <nav class="views" aria-label="View">
            <a href={changesAddress(project, path)} aria-current={changes ? 'page' : undefined}>
              Changes
            </a>
            {!isGone && (
              <a href={fileAddress(project, path)} aria-current={changes ? undefined : 'page'}>
                File
              </a>
            )}
          </nav>
        )}
      </header>
      {problem && (
        <p class="notice" role="alert">
          <Text>{problem instanceof RequestError ? whyNot(problem) : problem.message}</Text>
        </p>
      )}
      {isNotCompared && file && <p class="notice">Changes are shown for text files only.</p>}
      {compared.answer && <ChangedFile changes={compared.answer} />}
      {file?.kind === 'text' && <TextFile file={file} line={line} />}
      {file?.kind === 'image' && <ImageFile file={file} />}
    </article>
  );
}

/** The changes to a file since the last commit. */
function ChangedFile({ changes }: { changes: FileChanges }) {
  const difference = useMemo(() => differenceOf(changes), [changes]);
  const isWhole = useSignal(false);
  // Only the mode of a changed file may differ.
  const same = difference || changes.truncated ? undefined : 'No lines differ from the last commit.';
  const note = NOTES[changes.status ?? ''] ?? same;
  return (
    <div class="compared">
      <div class="compared-head">
        {note && <p class="hint">{note}</p>}
        {difference?.both && <Counts added={difference.added} removed={difference.removed} />}
        {difference && <Tools both={difference.both} hasGaps={hasGaps(difference)} whole={isWhole} />}
      </div>
      {difference && <Diff path={changes.path} difference={difference} whole={isWhole} />}
      {changes.truncated && <p class="hint">The diff is too large to show completely.</p>}
    </div>
  );
}

function TextFile({ file, line }: { file: FileContent; line?: number }) {
  const { client } = useWorld();
  const [text, setText] = useState(file.text ?? '');
  const [isCut, setCut] = useState(Boolean(file.truncated));
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let isOver = false;
    let close = () => {};
    const root = host.current?.shadowRoot ?? host.current?.attachShadow({ mode: 'open' });
    root?.replaceChildren();
    void import('./viewer.ts').then(({ openViewer }) => {
      if (!isOver && root) close = openViewer({ root, path: file.path, text, line });
    }, notLoaded);
    return () => {
      isOver = true;
      close();
    };
  }, [text, line]);
  const whole = async () => {
    const bytes = await client.bytes(file.truncated?.blob_id ?? '');
    setText(new TextDecoder().decode(bytes));
    setCut(false);
  };
  return (
    <>
      {isCut && (
        <p class="notice">
          Only the beginning is shown.{' '}
          <Button label={`Show all (${size(file.size)})`} class="quiet" onClick={() => void whole().catch(failed)} />
        </p>
      )}
      <div class="viewer" ref={host} />
    </>
  );
}

function ImageFile({ file }: { file: FileContent }) {
  const { client } = useWorld();
  const [address, setAddress] = useState('');
  useEffect(() => {
    let made = '';
    let isOver = false;
    client.bytes(file.blob_id ?? '').then((bytes) => {
      if (isOver) return;
      made = URL.createObjectURL(new Blob([bytes], { type: file.media_type ?? '' }));
      setAddress(made);
    }, failed);
    return () => {
      isOver = true;
      URL.revokeObjectURL(made);
    };
  }, [file.blob_id]);
  return address ? (
    <div class="picture">
      <img src={address} alt={baseName(file.path)} />
    </div>
  ) : null;
}
