// The files of a decision in a review, and what the decision changed in them.

import { useMemo } from 'preact/hooks';

import { BINARY, type GitChange, filesIn } from '../diff/patch.ts';
import { Text } from '../ui/elements.tsx';
import { counted } from '../ui/dom.ts';
import { FileChanges, UNFOLDED } from './changes.tsx';
import type { World } from './world.ts';

/** `files`: the number of files, of which `paths` are named. `isCut`: whether `diff` is incomplete. */
type Decision = { files: number; paths: string[]; diff: string; isCut: boolean };

export function Decided({ decided, world }: { decided: Decision; world: World }) {
  const { files, paths, diff, isCut } = decided;
  const changed = useMemo(() => filesIn(diff).map(described), [diff]);
  const known = new Set(changed.map((file) => file.path));
  const others = paths.filter((path) => !known.has(path));
  const more = paths.length ? files - paths.length : 0; // a record of an earlier version names no files
  return (
    <div class="changes">
      <ul class="files">
        {changed.map((file) => (
          <li key={file.path}>
            <FileChanges
              path={file.path}
              change={isDeleted(file) ? 'deleted' : 'changed'}
              file={file}
              world={world}
              isOpen={changed.length <= UNFOLDED}
            />
          </li>
        ))}
      </ul>
      {others.length > 0 && (
        <ul class="named">
          {others.map((path) => (
            <li key={path}>
              <code>
                <Text line>{path}</Text>
              </code>
            </li>
          ))}
        </ul>
      )}
      {more > 0 && <p class="hint">and {counted(more, 'more file')}</p>}
      {isCut && <p class="hint">Only the beginning of the diff was recorded.</p>}
    </div>
  );
}

const isDeleted = ({ both, added, removed }: GitChange) => !both && !added && removed > 0;

/** For a record, git also leaves out the content of large files. */
const described = (file: GitChange): GitChange =>
  file.note === BINARY
    ? { ...file, note: 'Its content is not shown: git does not compare it as text, or it is too large.' }
    : file;
