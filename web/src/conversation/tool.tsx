// A tool call as a line that unfolds, and several calls as one line.

import { asText, changesIn, isObject, planIn } from '../approvals/input.ts';
import { Counts } from '../diff/counts.tsx';
import { Diff, TextsDiff } from '../diff/diff.tsx';
import { patchIn } from '../diff/patch.ts';
import { Copy } from '../text/copy.tsx';
import { CodeBlock } from '../text/code.tsx';
import { withoutAnsi } from '../text/ansi.ts';
import { FileLink } from '../text/markdown.tsx';
import { Message } from '../text/message.tsx';
import { LongPlain } from '../text/plain.tsx';
import { shownPath } from '../ui/dom.ts';
import { Icon, type IconName, Text } from '../ui/elements.tsx';
import { countsOf } from './counts.ts';
import { Folded } from './folded.tsx';
import { FileLines, Images, More, numberedLines, Output } from './output.tsx';
import type { GroupRow, ItemRow, Row, ToolRow } from './rows.ts';
import { answersIn, answersOf, settledWords } from './settled.ts';
import { kindOf } from './tool-kinds.ts';
import { fileIn, groupWords, nowWords, subject, textChanges, type ToolState, verb } from './tool-words.ts';
import { When } from './when.tsx';
import type { World } from './world.ts';

const ICONS: Record<ToolState, IconName> = {
  running: 'running',
  waiting: 'clock',
  done: 'check',
  failed: 'cross',
  rejected: 'rejected',
  stopped: 'stop',
};

const STATES: Record<ToolState, string> = {
  running: 'Running…',
  waiting: 'Waiting for approval',
  done: '',
  failed: 'Failed',
  rejected: 'Rejected',
  stopped: 'Stopped',
};

/** The text for screen readers where only the icon shows the state. */
const DONE = 'Done';

/** A question is answered or skipped, and any other call is approved or rejected. */
const OF_QUESTION: Partial<Record<ToolState, string>> = { waiting: 'Waiting for an answer', rejected: 'Skipped' };
const wordsOf = (state: ToolState, isQuestion: boolean) => (isQuestion && OF_QUESTION[state]) || STATES[state];

function State({ state, isQuestion = false }: { state: ToolState; isQuestion?: boolean }) {
  return (
    <span class={`tool-icon ${state}`}>
      <Icon name={ICONS[state]} />
      <span class="offscreen">{wordsOf(state, isQuestion) || DONE}</span>
    </span>
  );
}

export function ToolView({
  row,
  world,
  draw,
}: {
  row: ToolRow;
  world: World;
  draw: (rows: Row[]) => preact.JSX.Element;
}) {
  const { tool, question, state, children } = row;
  const isRejected = state === 'rejected';
  const isQuestion = kindOf(tool as any) === 'question';
  const answered = question?.answer && settledOf(question, world);
  const { words, code } = subject(tool as any, world.root);
  const counts = countsOf(row);
  const error = state === 'failed' ? firstLine(tool.result?.text ?? tool.task?.text ?? '') : '';
  const todos = kindOf(tool as any) === 'todo' && Array.isArray(tool.input?.todos) ? tool.input.todos : undefined;
  const answers = answersTo(row);
  const line = (
    <>
      <State state={state} isQuestion={isQuestion} />
      <span class="tool-words">
        <strong>
          <Text line>{verb(tool as any, state)}</Text>
        </strong>{' '}
        {code ? (
          <code>
            <Text line>{words}</Text>
          </code>
        ) : (
          <Text line>{words}</Text>
        )}
        {counts && (
          <>
            {' '}
            <Counts {...counts} />
          </>
        )}
      </span>
      {error && (
        <span class="tool-error">
          <Text line>{error}</Text>
        </span>
      )}
      {answered ? (
        <span class={`tool-state settled-words ${answered.kind}`}>
          <Text line>{answered.words}</Text>
        </span>
      ) : (
        // The verb and the icon show that it is running.
        STATES[state] && state !== 'running' && <span class={`tool-state ${state}`}>{wordsOf(state, isQuestion)}</span>
      )}
      <When time={tool.timestamp} />
    </>
  );
  return (
    <div class={`tool-row ${isRejected ? 'rejected' : ''}`}>
      {todos ? (
        <p class="tool line">{line}</p>
      ) : (
        <Folded
          id={row.key}
          unfolded={world.unfolded}
          class={`tool ${answered ? `settled-line ${answered.kind}` : ''}`}
          line={line}
          body={() => <ToolBody row={row} world={world} />}
        />
      )}
      {answers && <Answers answers={answers} />}
      {todos && <Todos todos={todos} />}
      {tool.result?.images?.length > 0 && (
        <Images images={tool.result.images} truncated={tool.result.truncated} world={world} />
      )}
      {tool.task?.text && tool.result && (
        <p class={`background ${tool.task.status === 'failed' ? 'failed' : ''}`}>
          <Text line>{`${tool.task.status === 'running' ? 'In the background: ' : ''}${tool.task.text}`}</Text>
        </p>
      )}
      {children.length > 0 && <div class="nested-rows">{draw(children)}</div>}
    </div>
  );
}

export function settledOf(question: any, world: World) {
  const { answer, request } = question;
  const isOwn = world.isOwn(answer);
  const named = isOwn || !answer.by ? answer : { ...answer, by: world.called(answer) };
  return settledWords(named, request, isOwn);
}

const firstLine = (text: string) =>
  withoutAnsi(text)
    .replace(/<\/?tool_use_error>/g, '')
    .trim()
    .split('\n', 1)[0]
    .slice(0, 300);

/**
 * The answers to the agent’s questions, from the decision on the request, otherwise from the call’s result. Undefined
 * if none are known.
 */
function answersTo({ tool, question }: ToolRow) {
  if (kindOf(tool as any) !== 'question') return undefined;
  const answers = answersOf(question?.answer, question?.request) ?? answersIn(tool.result?.answers);
  return answers?.length ? answers : undefined;
}

function Answers({ answers }: { answers: [string, string][] }) {
  return (
    <dl class="answers">
      {answers.map(([question, answer], index) => (
        <div key={index}>
          <dt>
            <Text>{question}</Text>
          </dt>
          <dd>
            <Text>{answer}</Text>
          </dd>
        </div>
      ))}
    </dl>
  );
}

const TODOS: { name: string; words: string; icon: IconName }[] = [
  { name: 'pending', words: 'To do', icon: 'circle' },
  { name: 'in_progress', words: 'In progress', icon: 'running' },
  { name: 'completed', words: 'Done', icon: 'check' },
];

/** The state of a to-do entry, or "To do" if its status is not known. Agents may send any value. */
const todoOf = (todo: any) => TODOS.find(({ name }) => name === todo?.status) ?? TODOS[0];

function Todos({ todos }: { todos: any[] }) {
  return (
    <ul class="todos">
      {todos.slice(0, 100).map((todo, index) => (
        <li key={index} class={todoOf(todo).name}>
          <Icon name={todoOf(todo).icon} />
          <span class="offscreen">{todoOf(todo).words}: </span>
          <span>
            <Text line>{String((todo?.status === 'in_progress' && todo?.activeForm) || todo?.content || '')}</Text>
          </span>
        </li>
      ))}
    </ul>
  );
}

function ToolBody({ row, world }: { row: ToolRow; world: World }) {
  const { tool, question } = row;
  const kind = kindOf(tool as any);
  const file = fileIn(tool as any);
  const truncated = tool.truncated ?? tool.result?.truncated;
  return (
    <div class="tool-body">
      {file && (
        <p class="tool-file">
          {world.openFile ? (
            <FileLink {...file} openFile={world.openFile}>
              <Text line>{shownPath(file.path, world.root)}</Text>
            </FileLink>
          ) : (
            <code>
              <Text line>{shownPath(file.path, world.root)}</Text>
            </code>
          )}
          <Copy text={file.path} label="Copy path" />
        </p>
      )}
      <Asked row={row} world={world} />
      {kind === 'plan' && question ? null : <Result row={row} world={world} />}
      {truncated && <More truncated={truncated} world={world} />}
    </div>
  );
}

/** The purpose of the call or, if there was an approval request, the decision. */
function Asked({ row: { tool, question }, world }: { row: ToolRow; world: World }) {
  const kind = kindOf(tool as any);
  const { name } = tool;
  const input = isObject(tool.input) ? tool.input : {};
  if (question) {
    const { request, answer } = question as any;
    const plan = planIn(request);
    if (plan !== undefined) return <SettledPlan plan={plan} answer={answer} world={world} />;
    if (request.proposal) return <Proposal proposal={request.proposal} answer={answer} />;
    if (answer?.edited && answer.updated_input && kind !== 'question')
      return (
        <>
          <p class="hint">Accepted version</p>
          <Fields name={name} kind={kind} input={answer.updated_input} />
          <p class="hint">Proposed version</p>
          <Fields name={name} kind={kind} input={input} />
        </>
      );
  }
  if (kind === 'plan' && typeof input.plan === 'string') return <Plan plan={input.plan} world={world} />;
  const patch = kind === 'edit' || kind === 'write' ? patchIn(tool.result?.patch) : undefined;
  const path = String(input.file_path ?? '');
  if (patch) return <Diff path={path} difference={patch} />;
  const changes = question ? changesIn((question as any).request) : [];
  if (changes.length)
    return (
      <>
        {changes.map((change, index) => (
          <TextsDiff key={index} {...change} />
        ))}
      </>
    );
  const texts = textChanges(tool as any);
  if (texts.length)
    return (
      <>
        {texts.map(({ isWhole, ...change }, index) => (
          <TextsDiff key={index} path={path} {...change} numbered={isWhole} />
        ))}
      </>
    );
  if (kind === 'read' || kind === 'question') return null;
  return <Fields name={name} kind={kind} input={input} />;
}

const editedPlan = (answer: any) =>
  answer?.edited && typeof answer.updated_input?.plan === 'string' ? answer.updated_input.plan : undefined;

/**
 * The plan of an approval request or, if it was accepted with edits, the accepted version, unless that is too large.
 */
export function SettledPlan({ plan, answer, world }: { plan: string; answer: any; world: World }) {
  const edited = editedPlan(answer);
  return (
    <>
      {answer?.edited && edited === undefined && <p class="hint">{TOO_LARGE}</p>}
      <Plan plan={edited ?? plan} world={world} />
    </>
  );
}

function Plan({ plan, world }: { plan: string; world: World }) {
  return (
    <div class="plan">
      <Message text={plan} openFile={world.openFile} />
      <Copy text={plan} label="Copy plan" />
    </div>
  );
}

const TOO_LARGE = 'The accepted version is too large to show. Proposed version:';

/** A proposed change. If it was accepted with edits, the accepted version comes first. */
export function Proposal({ proposal, answer }: { proposal: any; answer: any }) {
  const isEdited = answer?.edited && typeof answer.new_text === 'string';
  return (
    <>
      {isEdited && (
        <>
          <p class="hint">Accepted version</p>
          <TextsDiff {...proposal} new_text={answer.new_text} />
          <p class="hint">Proposed version</p>
        </>
      )}
      {answer?.edited && !isEdited && <p class="hint">{TOO_LARGE}</p>}
      <TextsDiff {...proposal} />
    </>
  );
}

/** The number of characters of a value that are shown before the user asks for more. */
const VALUE = 4_000;

const FIELDS = 40;

/** The input of a call. A command is shown unchanged, and any other input by its fields. */
function Fields({ name, kind, input }: { name: string; kind: string; input: any }) {
  if (!isObject(input)) return <LongPlain text={asText(input)} as="pre" class="result" most={VALUE} />;
  const command = kind === 'command' && typeof input.command === 'string' ? input.command : undefined;
  const described = command !== undefined && typeof input.description === 'string' ? ['description'] : [];
  const drawn = [...(command === undefined ? [] : ['command']), ...described, ...(kind === 'todo' ? ['todos'] : [])];
  const rest = Object.entries(input).filter(([field]) => !drawn.includes(field));
  return (
    <>
      {command !== undefined && typeof input.description === 'string' && (
        <p class="hint">
          <Text>{input.description}</Text>
        </p>
      )}
      {command !== undefined &&
        (command.length <= VALUE ? (
          <CodeBlock text={command} language="sh" />
        ) : (
          <LongPlain text={command} as="pre" class="result" most={VALUE} />
        ))}
      {rest.length > 0 && (
        <dl class="fields" aria-label={`Input of ${name}`}>
          {rest.slice(0, FIELDS).map(([field, value]) => (
            <FieldRow key={field} name={field} text={asText(value)} />
          ))}
          {rest.length > FIELDS && <FieldRow name="…" text={asText(Object.fromEntries(rest.slice(FIELDS)))} />}
        </dl>
      )}
    </>
  );
}

function FieldRow({ name, text }: { name: string; text: string }) {
  return (
    <>
      <dt>
        <Text line>{name}</Text>
      </dt>
      <dd>
        <LongPlain text={text} class="words" most={VALUE} />
      </dd>
    </>
  );
}

function Result({ row, world }: { row: ToolRow; world: World }) {
  const { tool, state, question } = row;
  const { result } = tool;
  const kind = kindOf(tool as any);
  if (!result) return null;
  // The line already shows who rejected the call, and why.
  if (question?.answer?.decision === 'deny') return null;
  if (kind === 'todo' && !result.error) return null;
  if (kind === 'question' && !result.error && answersTo(row)) return null;
  if ((kind === 'edit' || kind === 'write') && state === 'done') return null;
  const file = fileIn(tool as any);
  const lines = kind === 'read' && file && !result.error ? numberedLines(result.text) : undefined;
  return (
    <>
      {lines && file ? (
        <FileLines path={file.path} {...lines} />
      ) : kind === 'agent' && !result.error ? (
        <Message text={result.text} openFile={world.openFile} />
      ) : (
        !(result.images?.length && !result.text) && <Output text={result.text} />
      )}
    </>
  );
}

const NAMES = new Intl.ListFormat('en');

/** Several calls as one line. */
export function GroupView({
  row,
  world,
  draw,
}: {
  row: GroupRow;
  world: World;
  draw: (rows: Row[]) => preact.JSX.Element;
}) {
  const tools = row.rows.filter((one): one is ToolRow => one.kind === 'tool');
  const waiting = tools.filter(({ state }) => state === 'waiting');
  const now = tools.findLast(({ state }) => state === 'running') ?? waiting[0];
  const failed = tools.filter(({ state }) => state === 'failed').length;
  const stopped = tools.some(({ state }) => state === 'stopped');
  const answers = tools.flatMap(({ question }) => (question?.answer ? [question.answer] : []));
  const people = new Set(answers.map((answer) => (world.isOwn(answer) ? 'you' : world.called(answer))));
  const words = groupWords(tools.map(({ tool, state }) => ({ name: tool.name, input: tool.input, state })));
  const line = (
    <>
      <State state={now?.state ?? (stopped ? 'stopped' : 'done')} />
      <span class="tool-words">
        {words && <strong>{words}</strong>}
        {now && (
          <span class="now">
            {words && ' · '}
            <Text line>{nowWords(now.tool as any, world.root, now.state)}</Text>
          </span>
        )}
      </span>
      {failed > 0 && <span class="tool-state failed">{failed === 1 ? '1 failed' : `${failed} failed`}</span>}
      {now?.state === 'waiting' && (
        <span class="tool-state waiting">
          {waiting.length > 1 ? `${waiting.length} waiting for approval` : STATES.waiting}
        </span>
      )}
      {people.size > 0 && (
        <span class="tool-state settled-words yes">
          <Text line>{`Accepted by ${NAMES.format(people)}`}</Text>
        </span>
      )}
      <When time={tools[0]?.tool.timestamp} />
    </>
  );
  return (
    <Folded
      id={row.key}
      unfolded={world.unfolded}
      class="tool group"
      line={line}
      body={() => <div class="group-rows">{draw(row.rows as (ToolRow | ItemRow)[])}</div>}
    />
  );
}
