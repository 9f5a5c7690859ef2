// The content of an agent's request. It includes every field that means something to the user, because any of them may
// matter.

import type { Signal } from '@preact/signals';
import { useMemo } from 'preact/hooks';

import { Counts } from '../diff/counts.tsx';
import { Diff } from '../diff/diff.tsx';
import { compare, type Difference } from '../diff/lines.ts';
import type { Comments } from '../diff/comment.tsx';
import type { PermissionRequest, ProposalOf } from '../protocol/messages.ts';
import { shownPath } from '../ui/dom.ts';
import { Icon, Text } from '../ui/elements.tsx';
import { Replaced } from '../ui/must.tsx';
import {
  asText,
  changesIn,
  FLAG,
  type FileChange,
  flagsIn,
  inDiff,
  isDrawn,
  isObject,
  isToolCall,
  othersIn,
  planIn,
  risksIn,
  shownFlags,
  textsIn,
} from './input.ts';
import { type Cell, cellsOf, nameOf, pathOf } from './notebook.ts';
import { type Forms, Plan } from './plan.tsx';
import { Rest } from './rest.tsx';
import { Value } from './value.tsx';

export type Context = {
  request: PermissionRequest;
  /** Whether files are shown whole. */
  whole: Signal<boolean>;
  /** The project's directory. */
  root: string;
  comments?: Comments;
  /** Called when something that may have been in view is drawn in another form. */
  redrawn?: () => void;
  /** The form in which each block of a plan is drawn. */
  forms?: Forms;
  /** The input fields that are being edited below. A field stays in view beside its editor while parts are folded. */
  edited?: readonly string[];
};

const NONE: readonly string[] = [];

/** The prefix that the names of an ACP tool call's arguments have in risks. */
const RAW = 'rawInput.';

/** All of a request except the diff of its proposal. */
export function Asked({ request, root, comments, redrawn, forms, whole, edited = NONE }: Context) {
  const { input } = request;
  return (
    <>
      <Links targets={request.link_targets} root={root} />
      <Risks request={request} />
      {!isObject(input) ? (
        <Value text={asText(input)} />
      ) : isToolCall(request) ? (
        <Call {...{ request, root, comments, redrawn, forms, whole, edited }} />
      ) : (
        <Fields {...{ request, comments, redrawn, forms, edited }} />
      )}
      <Path request={request} root={root} />
    </>
  );
}

/**
 * The path of the file that a proposal changes, unless the title contains it. The title may contain none, or only a part
 * of a very long one.
 */
function Path({ request: { proposal, title }, root }: Pick<Context, 'request' | 'root'>) {
  const path = proposal ? shownPath(proposal.path, root) : '';
  if (!proposal || title?.path === path) return null;
  return (
    <div class="change">
      <p class="file">
        <code>
          <Text line>{path}</Text>
        </code>
      </p>
    </div>
  );
}

type FieldsProps = Pick<Context, 'request' | 'comments' | 'redrawn' | 'forms'> & { edited: readonly string[] };

function Fields({ request, comments, redrawn, forms, edited }: FieldsProps) {
  const { input } = request;
  const plan = planIn(request);
  const main = typeof input.command === 'string' ? 'command' : '';
  const isEdited = (name: string) => edited.includes(name);
  const drawn = [
    ...shownFlags(request, input),
    // While fields are being edited, the diff may be hidden, so the other fields are always shown.
    ...inDiff(request).filter((name) => !edited.length || isEdited(name)),
    ...(main ? [main] : []),
    ...(typeof input.plan === 'string' && plan !== undefined ? ['plan'] : []),
  ];
  return (
    <>
      <Flags request={request} input={input} />
      {main && (
        <Replaced isReplaced={isEdited(main)}>
          <Value text={input.command} risks={risksIn(request, 'command')} />
        </Replaced>
      )}
      {plan !== undefined && (
        <Replaced isReplaced={isEdited('plan')}>
          <Plan text={plan} comments={comments} redrawn={redrawn} forms={forms} />
        </Replaced>
      )}
      <Rest request={request} input={input} drawn={drawn} edited={edited} />
    </>
  );
}

function Call({ request, root, comments, redrawn, forms, whole, edited = NONE }: Context) {
  const { input, proposal } = request;
  const plan = planIn(request);
  const changes = proposal ? [] : changesIn(request);
  const raw = isObject(input.rawInput) ? input.rawInput : undefined;
  const command = commandOf(raw?.command);
  // What runs or is written comes first, because the agent's description of it may be long.
  return (
    <>
      <Flags request={request} input={input} />
      {raw && <Flags request={request} input={raw} prefix={RAW} />}
      {command && <Value text={command} risks={risksIn(request, 'rawInput.command')} />}
      {plan !== undefined && <Plan text={plan} comments={comments} redrawn={redrawn} forms={forms} />}
      {changes.length > 0 && (
        <Changes changes={changes} root={root} comments={comments} whole={whole} id={request.approval_id} />
      )}
      {typeof input.title === 'string' && input.title && (
        <Replaced isReplaced={edited.includes('title')}>
          <Value text={input.title} risks={risksIn(request, 'title')} />
        </Replaced>
      )}
      {plan === undefined && textsIn(request).map((text, index) => <Value key={index} text={text} />)}
      {othersIn(request).map((part, index) => (
        <Value key={index} text={asText(part)} />
      ))}
      {raw && (
        <Rest
          request={request}
          input={raw}
          drawn={[...shownFlags(request, raw, RAW), ...(command ? ['command'] : [])]}
          prefix={RAW}
        />
      )}
      <Rest
        request={request}
        input={input}
        drawn={[...shownFlags(request, input), ...Object.keys(input).filter((name) => isDrawn(name, input[name]))]}
        edited={edited}
      />
    </>
  );
}

/** A command, or a list of its arguments, as a shell command. Empty if the value is neither. */
function commandOf(given: unknown): string {
  if (!Array.isArray(given) || given.some((word) => typeof word !== 'string'))
    return typeof given === 'string' ? given : '';
  return given.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`)).join(' ');
}

/** The changes to several files, as a list of the files, then the diffs one below the other. */
export function Changes({
  changes,
  root,
  comments,
  whole,
  id,
}: {
  changes: FileChange[];
  root: string;
  comments?: Comments;
  whole: Signal<boolean>;
  id: string;
}) {
  const all = useMemo(
    () => changes.map((change) => ({ change, compared: compare(change.old_text, change.new_text) })),
    [changes],
  );
  return (
    <>
      {all.length > 1 && (
        <nav class="file-list" aria-label="Files">
          {all.map(({ change, compared }, index) => (
            <button
              key={index}
              type="button"
              class="quiet"
              onClick={() =>
                document.getElementById(`change-${id}-${index}`)?.scrollIntoView({ block: 'start', behavior: 'auto' })
              }
            >
              <code>
                <Text line>{shownPath(change.path, root)}</Text>
              </code>
              <Counts {...compared} />
            </button>
          ))}
        </nav>
      )}
      {all.map(({ change, compared }, index) => (
        <section key={index} class="change" id={`change-${id}-${index}`}>
          <p class="file">
            <code>
              <Text line>{shownPath(change.path, root)}</Text>
            </code>
            <Counts {...compared} />
          </p>
          <Diff path={change.path} difference={compared} comments={comments} whole={whole} />
        </section>
      ))}
    </>
  );
}

/** The diff of a proposal, cell by cell for a notebook if the cells show the whole change, otherwise in one piece. */
export function Proposed({
  proposal,
  compared,
  comments,
  whole,
}: {
  proposal: ProposalOf;
  compared: Difference;
  comments?: Comments;
  whole: Signal<boolean>;
}) {
  const notebook = useMemo(
    () => (/\.ipynb$/i.test(proposal.path) ? cellsOf(proposal.old_text, proposal.new_text) : undefined),
    [proposal],
  );
  const cells = useMemo(
    () => notebook?.cells.map((cell) => ({ cell, compared: compare(cell.old_text, cell.new_text) })),
    [notebook],
  );
  if (!cells) return <Diff path={proposal.path} difference={compared} comments={comments} whole={whole} />;
  return (
    <>
      {cells.map(({ cell, compared: change }) => (
        <section key={cell.number} class="change cell">
          <p class="file">
            <CellName cell={cell} />
            <Counts {...change} />
          </p>
          <Diff path={pathOf(cell)} difference={change} comments={comments} whole={whole} />
        </section>
      ))}
      {notebook?.outputs && <OutputsRemoved />}
    </>
  );
}

/** Which cell of a notebook is meant, and what happens to it. */
export const CellName = ({ cell }: { cell: Cell }) => (
  <>
    <strong>{nameOf(cell)}</strong>
    <span class="hint">
      <Text line>{`${cell.type}, ${cell.kind}`}</Text>
    </span>
  </>
);

export const OutputsRemoved = () => <p class="hint cleared">The outputs of the changed cells are removed.</p>;

/** Paths that lead through a symbolic link, with their targets. */
function Links({ targets, root }: { targets?: Record<string, string>; root: string }) {
  const all = Object.entries(targets ?? {});
  if (!all.length) return null;
  return (
    <ul class="links">
      {all.map(([path, target]) => (
        <li key={path}>
          <Icon name="fork" />
          <span>
            <code>
              <Text line>{shownPath(path, root)}</Text>
            </code>
            {' resolves through a symbolic link to '}
            <code>
              <Text line>{String(target)}</Text>
            </code>
          </span>
        </li>
      ))}
    </ul>
  );
}

/** The distinct risks of the request, without those that `Flags` shows. */
function Risks({ request }: { request: PermissionRequest }) {
  const { input, risks } = request;
  const flags = [
    ...flagsIn(request, input),
    ...(isToolCall(request) && isObject(input.rawInput) ? flagsIn(request, input.rawInput, RAW) : []),
  ].map(({ risk }) => risk);
  const others = (risks ?? []).filter((risk) => !flags.includes(risk));
  const words = [...new Set<string>(others.map(({ text }) => text))];
  if (!words.length) return null;
  return (
    <ul class="risks" aria-label="Check these parts">
      {words.map((text) => (
        <li key={text}>
          <Text line>{text}</Text>
        </li>
      ))}
    </ul>
  );
}

function Flags({ request, input, prefix = '' }: { request: PermissionRequest; input: any; prefix?: string }) {
  const flags = flagsIn(request, input, prefix);
  if (!flags.length) return null;
  return (
    <ul class="flags">
      {flags.map(({ name, risk }) => (
        <li key={name}>
          <strong>
            <Text line>{risk.text}</Text>
          </strong>{' '}
          <code>
            <Text line>{`${name}: ${asText(input[name]).slice(0, FLAG)}`}</Text>
          </code>
        </li>
      ))}
    </ul>
  );
}
