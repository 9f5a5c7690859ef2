// The changes that a run made to its project's files, and a way to undo them.

import { useRef, useState } from 'preact/hooks';

import { Counts } from '../diff/counts.tsx';
import { Diff } from '../diff/diff.tsx';
import { type GitChange, filesIn } from '../diff/patch.ts';
import { FileLink } from '../text/markdown.tsx';
import { Button, Dialog, Text } from '../ui/elements.tsx';
import { restoreFocus } from '../ui/focus.ts';
import { Folded } from './folded.tsx';
import type { World } from './world.ts';
import { counted } from '../ui/dom.ts';

/** If more files than this have changed, they are folded at first. */
export const UNFOLDED = 3;

/** A button that loads a run's changes. They replace it until they are closed. */
export function Changes({ run, world }: { run: string; world: World }) {
  const [told, setTold] = useState<any>();
  const [problem, setProblem] = useState('');
  const [isBusy, setBusy] = useState(false);
  const opener = useRef<HTMLDivElement>(null);
  const show = async () => {
    setBusy(true);
    setProblem('');
    try {
      setTold(await world.changes?.(run));
    } catch (error) {
      setProblem((error as Error).message);
    }
    setBusy(false);
    requestAnimationFrame(() => {
      const place = opener.current;
      restoreFocus(place?.querySelector('summary') ?? place?.querySelector('button'));
    });
  };
  const close = () => {
    setTold(undefined);
    requestAnimationFrame(() => opener.current?.querySelector('button')?.focus());
  };
  return (
    <div class="changes" ref={opener}>
      {told === undefined ? (
        <Button label="View changes" class="quiet" disabled={isBusy} onClick={() => void show()} />
      ) : (
        <Answer told={told} world={world} run={run} close={close} />
      )}
      {problem && (
        <p class="hint">
          <Text>{problem}</Text>
        </p>
      )}
    </div>
  );
}

function Answer({ told, world, run, close }: { told: any; world: World; run: string; close: () => void }) {
  const { files, diff, truncated, directory } = told;
  const [known] = useState(() => new Map(filesIn(diff).map((file) => [file.path, file])));
  const all = [...known.values()];
  const added = all.reduce((sum, file) => sum + file.added, 0);
  const removed = all.reduce((sum, file) => sum + file.removed, 0);
  return (
    <>
      <p class="changes-head">
        {files.length === 0 ? (
          <span class="hint">No changes found.</span>
        ) : (
          <span>
            {counted(files.length, 'file')} changed <Counts added={added} removed={removed} />
          </span>
        )}
        <Button label="Close the changes" icon="cross" bare class="quiet" onClick={close} />
      </p>
      {directory && (
        <p class="hint">
          <Text line>{`The agent worked in ${directory}. Changes there are not shown.`}</Text>
        </p>
      )}
      {files.length > 0 && (
        <ul class="files">
          {files.map(({ path, change }: any) => (
            <li key={path}>
              <FileChanges
                path={path}
                change={change}
                file={known.get(path)}
                world={world}
                isOpen={files.length <= UNFOLDED}
              />
            </li>
          ))}
        </ul>
      )}
      {truncated && <p class="hint">The diff is too large to show completely. All changed files are listed.</p>}
      {files.length > 0 && world.revert && <Undo run={run} revert={world.revert} />}
    </>
  );
}

const CHANGES: Record<string, string> = { added: 'new', changed: '', deleted: 'deleted' };

/** A changed file that unfolds. `change`: as in the protocol; `file`: its diff, if it is known. */
export function FileChanges({
  path,
  change,
  file,
  world,
  isOpen,
}: {
  path: string;
  change: string;
  file: GitChange | undefined;
  world: World;
  isOpen: boolean;
}) {
  const [unfolded] = useState(() => new Set(isOpen ? ['file'] : []));
  const word = CHANGES[change];
  return (
    <Folded
      id="file"
      unfolded={unfolded}
      class="file-changes"
      line={
        <>
          <code>
            <Text line>{path}</Text>
          </code>
          {word && <span class="tag">{word}</span>}
          {file && <Counts added={file.added} removed={file.removed} />}
        </>
      }
      body={() => (
        <>
          {world.openFile && change !== 'deleted' && (
            <p class="hint">
              <FileLink path={path} line={firstLine(file)} openFile={world.openFile}>
                Open file
              </FileLink>
            </p>
          )}
          {file?.note && <p class="hint">{file.note}</p>}
          {file && file.hunks.length > 0 && <Diff path={path} difference={file} />}
        </>
      )}
    />
  );
}

/** The number of the first new line in the first hunk, or undefined if there isn’t one. */
function firstLine(file: GitChange | undefined) {
  const row = file?.hunks[0]?.rows.find((one) => one.kind === 'changed' && one.new);
  return row?.new?.number;
}

/** The button that undoes the changes. It asks for confirmation, because it changes files. */
function Undo({ run, revert }: { run: string; revert: (run: string) => Promise<any> }) {
  const [state, setState] = useState<'' | 'asked' | 'busy' | 'done'>('');
  const [problem, setProblem] = useState('');
  const act = async () => {
    setState('busy');
    setProblem('');
    try {
      await revert(run);
      setState('done');
    } catch (error) {
      setState('');
      setProblem((error as Error).message);
    }
  };
  if (state === 'done')
    return (
      <footer>
        <p class="hint" role="status">
          Changes undone.
        </p>
      </footer>
    );
  return (
    <footer>
      <Button label="Undo changes…" icon="undo" onClick={() => setState('asked')} />
      {problem && (
        <p class="problem" role="alert">
          <Text>{problem}</Text>
        </p>
      )}
      {state !== '' && (
        <Dialog title="Undo this run’s changes?" onClose={() => state === 'asked' && setState('')}>
          <p>Later edits to the same files are kept.</p>
          <footer>
            <Button label="Undo changes" class="no" disabled={state === 'busy'} onClick={() => void act()} />
            <Button label="Cancel" class="quiet" onClick={() => setState('')} />
          </footer>
        </Dialog>
      )}
    </footer>
  );
}
