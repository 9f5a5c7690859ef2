// The views of the items in a conversation.

import { render } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { changesIn, planIn } from '../approvals/input.ts';
import { liftedWords } from '../projects/words.ts';
import { isInterruption } from '../state/conversation.ts';
import { withoutAnsi } from '../text/ansi.ts';
import { Copy } from '../text/copy.tsx';
import { Drawn, Message } from '../text/message.tsx';
import { LongPlain } from '../text/plain.tsx';
import { counted, duration, money, shownPath } from '../ui/dom.ts';
import { Button, Icon, Text } from '../ui/elements.tsx';
import { Changes } from './changes.tsx';
import { editedBy } from './counts.ts';
import { Decided } from './decided.tsx';
import { Counts } from '../diff/counts.tsx';
import { TextsDiff } from '../diff/diff.tsx';
import { Folded } from './folded.tsx';
import { Images, More, Output, SentFiles } from './output.tsx';
import type { ItemRow, Row, ToolRow } from './rows.ts';
import { answersOf } from './settled.ts';
import { GroupView, Proposal, settledOf, SettledPlan, ToolView } from './tool.tsx';
import { When } from './when.tsx';
import type { World } from './world.ts';

/**
 * Draws a row and returns its element.
 * @param before the element in which the row was previously drawn
 */
export function rowView(row: Row, world: World, before?: HTMLElement): HTMLElement {
  const element = before ?? document.createElement('div');
  const isNewText = !before && row.kind === 'item' && row.item.kind === 'text';
  const adopted = isNewText ? world.adopt?.((row as ItemRow).item.text) : undefined;
  element.className = row.kind === 'item' && row.item.nested ? 'item nested' : 'item';
  element.dataset.seq = `${row.seq}`;
  element.dataset.kind = row.kind === 'item' ? row.item.kind : row.kind;
  render(<RowView row={row} world={world} adopted={adopted} />, element);
  return element;
}

function RowView({ row, world, adopted }: { row: Row; world: World; adopted?: HTMLElement }) {
  return <Drawn instead={<LongPlain text={plainly(row)} class="said words" />}>{drawn(row, world, adopted)}</Drawn>;
}

function drawn(row: Row, world: World, adopted?: HTMLElement) {
  const draw = (rows: Row[]) => (
    <>
      {rows.map((one) => (
        <RowView key={one.key} row={one} world={world} />
      ))}
    </>
  );
  if (row.kind === 'tool') return <ToolView row={row} world={world} draw={draw} />;
  if (row.kind === 'group') return <GroupView row={row} world={world} draw={draw} />;
  const View = VIEWS[row.item.kind];
  return <View item={row.item} world={world} adopted={adopted} calls={row.calls} />;
}

/** The plain text that is shown instead of a row that fails to render. */
function plainly(row: Row) {
  const item: any = row.kind === 'item' ? row.item : row.kind === 'tool' ? row.tool : row.rows;
  try {
    return String(item.text ?? item.result?.text ?? JSON.stringify(item.input ?? item.request ?? item));
  } catch {
    return 'This item can’t be shown.';
  }
}

/** `adopted`: the element of a message that was rendered while it streamed. */
type ViewOf = { item: any; world: World; adopted?: HTMLElement; calls?: ToolRow[] };

const VIEWS: Record<string, (view: ViewOf) => preact.JSX.Element | null> = {
  prompt: Prompt,
  text: Said,
  thinking: Thinking,
  aside: Aside,
  images: ({ item, world }) => <Images images={item.images} truncated={item.truncated} world={world} />,
  summary: Summary,
  question: Settled,
  finished: Finished,
  notice: Notice,
  day: ({ item }) => (
    <p class="divider day">
      <span>{item.text}</span>
    </p>
  ),
};

function Prompt({ item, world }: ViewOf) {
  const { text, timestamp, truncated, attachments, images, files } = item;
  const who = item.by === 'desk' ? 'You, in the terminal' : (world.other(item) ?? 'You');
  return (
    <article class="prompt">
      <p class="who">
        <Text line>{who}</Text>
        <When time={timestamp} />
        <Copy text={String(text)} label="Copy message" />
      </p>
      <LongPlain text={String(text)} class="words" />
      {Array.isArray(attachments) && attachments.length > 0 && (
        <SentFiles
          images={Array.isArray(images) ? images : []}
          files={Array.isArray(files) ? files : []}
          names={attachments.map((name) => String(name))}
          world={world}
        />
      )}
      {truncated && <More truncated={truncated} world={world} />}
    </article>
  );
}

function Said({ item: { text, timestamp, truncated }, world, adopted }: ViewOf) {
  return (
    <article class="said">
      <Adopted text={text} world={world} adopted={adopted} />
      {truncated && <More truncated={truncated} world={world} />}
      <p class="said-tools">
        <Copy text={text} label="Copy answer" />
        <When time={timestamp} />
      </p>
    </article>
  );
}

/** A message. If it has just been streamed, the element that was rendered during streaming is reused. */
function Adopted({ text, world, adopted }: { text: string; world: World; adopted?: HTMLElement }) {
  const [element] = useState(adopted);
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!element) return;
    place.current?.append(element);
    return () => render(null, element);
  }, [element]);
  return element ? <div ref={place} /> : <Message text={text} openFile={world.openFile} />;
}

function Thinking({ item, world }: ViewOf) {
  return (
    <Folded
      id={item.key}
      unfolded={world.unfolded}
      class="thinking"
      line={<span>Thinking</span>}
      body={() => <Message text={item.text} openFile={world.openFile} />}
    />
  );
}

/** An event on one line. The changes that a decision in a review made unfold below it. */
function Notice({ item, world }: ViewOf) {
  const line = (
    <span>
      <Text line>{item.by ? `${world.other(item) ?? 'You'} ${item.text}` : item.text}</Text>
    </span>
  );
  if (!item.diff && !(item.paths?.length > 1)) return <p class="divider">{line}</p>;
  return (
    <Folded
      id={item.key}
      unfolded={world.unfolded}
      class="decided"
      line={line}
      body={() => <Decided decided={item} world={world} />}
    />
  );
}

const OUTPUT = /^<(local-command-stdout|local-command-stderr|bash-stdout|bash-stderr)>([\s\S]*?)<\/\1>$/;

/** Text that was sent to the agent as if from the user, but that the user did not type. */
function Aside({ item, world }: ViewOf) {
  const text = String(item.text).trim();
  if (isInterruption(text))
    return (
      <p class="divider">
        <span>Stopped</span>
      </p>
    );
  const output = OUTPUT.exec(text)?.[2];
  // The output of one of the agent's own commands, such as /context, or of a command that the user ran with "!".
  if (output !== undefined)
    return output.trim() ? (
      <article class="said">
        <Message text={withoutAnsi(output).trim()} openFile={world.openFile} />
      </article>
    ) : null;
  if (text.length <= 300 && !text.startsWith('<'))
    return (
      <p class="aside">
        <Text>{text}</Text>
      </p>
    );
  return (
    <Folded
      id={item.key}
      unfolded={world.unfolded}
      class="thinking"
      line={<span>Context added for the agent</span>}
      body={() => <Output text={text} label="Copy text" />}
    />
  );
}

function Summary({ item, world }: ViewOf) {
  return (
    <Folded
      id={item.key}
      unfolded={world.unfolded}
      class="thinking"
      line={<span>Summary that the agent continues from</span>}
      body={() => <Message text={item.text} openFile={world.openFile} />}
    />
  );
}

/** A resolved approval request that matches none of the loaded calls. An open one has a card instead. */
function Settled({ item, world }: ViewOf) {
  const { key, request, answer } = item;
  if (!answer) return null;
  const { shape, words, kind } = settledOf(item, world);
  const path = request.proposal?.path ?? request.input?.file_path;
  const plan = planIn(request);
  const changes = request.proposal ? [] : changesIn(request);
  const answers = answersOf(answer, request);
  const line = (
    <>
      <Icon name={shape} />
      <span class="settled-words">
        <Text line>{words}</Text>
      </span>
      {path ? (
        <code>
          <Text line>{shownPath(String(path), world.root)}</Text>
        </code>
      ) : (
        !answers &&
        plan === undefined && (
          <span class="tool-words">
            <Text line>{String(request.input?.command ?? request.tool_name)}</Text>
          </span>
        )
      )}
    </>
  );
  if (!request.proposal && plan === undefined && !changes.length && !answer.edited && !answers)
    return <p class={`settled-line ${kind}`}>{line}</p>;
  const isEdited = answer.edited && typeof answer.new_text === 'string';
  return (
    <Folded
      id={key}
      unfolded={world.unfolded}
      class={`settled-line ${kind}`}
      line={line}
      body={() => (
        <div class="tool-body">
          {answer.edited && !isEdited && answer.updated_input && plan === undefined && (
            <Output text={JSON.stringify(answer.updated_input, null, 2)} label="Copy input" />
          )}
          {request.proposal && <Proposal proposal={request.proposal} answer={answer} />}
          {plan !== undefined && <SettledPlan plan={plan} answer={answer} world={world} />}
          {changes.map((change, index) => (
            <TextsDiff key={index} {...change} />
          ))}
          {answers?.map(([question, value], index) => (
            <p key={index}>
              <Text>{`${question} → ${value}`}</Text>
            </p>
          ))}
        </div>
      )}
    />
  );
}

const OUTCOMES: Record<string, string> = {
  completed: 'Finished',
  failed: 'Failed',
  killed: 'Killed',
  timeout: 'Timed out',
  interrupted: 'Stopped',
};

function Finished({ item, world, calls }: ViewOf) {
  const { run_id: run, outcome, duration_ms: ms, cost_usd: cost, error, retry_at: until } = item;
  const words = [
    OUTCOMES[outcome] ?? String(outcome),
    typeof ms === 'number' ? duration(ms) : '',
    cost ? money(cost) : '',
  ].filter(Boolean);
  const edited = calls && editedBy(calls);
  return (
    <div class={`finished ${outcome}`}>
      <p>
        {words.join(' · ')}
        {edited && (
          <>
            {` · ${counted(edited.files, 'file')} edited `}
            <Counts added={edited.added} removed={edited.removed} />
          </>
        )}
      </p>
      {error && (
        <p class="problem">
          <Text>{until ? `${error} ${liftedWords(until)}` : String(error)}</Text>
        </p>
      )}
      {world.changes && <Changes run={run} world={world} />}
      {world.review && <ToReview run={run} world={world} />}
    </div>
  );
}

function ToReview({ run, world }: { run: string; world: World }) {
  return world.review?.(run) ? (
    <Button label="Review changes" icon="review" class="after-run" onClick={() => world.openReview?.()} />
  ) : null;
}
