// The content of an approval request's card: who asks, what for, the editor, and the ways to answer.

import { Component, type ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo } from 'preact/hooks';

import { Counts } from '../diff/counts.tsx';
import { Tools } from '../diff/diff.tsx';
import { settledWords, verbOf } from '../conversation/settled.ts';
import { compare, type Difference, hasGaps } from '../diff/lines.ts';
import { ago, size } from '../ui/dom.ts';
import { Button, Text } from '../ui/elements.tsx';
import { Replaced, ShowAll, Unopened, useMust } from '../ui/must.tsx';
import { Answers, Beyond, LongAlways } from './answers.tsx';
import { Asked, CellName, OutputsRemoved, Proposed } from './asked.tsx';
import type { ApprovalCard } from './card.tsx';
import { FieldsEditor, FileEditor } from './editing.tsx';
import { changesFiles, titleOf } from './input.ts';
import { pathOf } from './notebook.ts';
import { QuestionForm } from './question.tsx';

/** Replaces a request that fails to render. Such a request can't be accepted, because nobody has seen it. */
class Boundary extends Component<{ card: ApprovalCard; children: ComponentChildren }, { failed: boolean }> {
  state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  componentDidCatch(error: unknown) {
    console.error(error);
  }

  render() {
    return this.state.failed ? <Undrawable card={this.props.card} /> : this.props.children;
  }
}

/** Shown in place of a request that fails to render. Its hidden `must` button keeps Accept disabled. */
function Undrawable({ card }: Pick<CardProps, 'card'>) {
  useMust();
  useLayoutEffect(() => {
    card.isUndrawable.value = true;
    return () => {
      card.isUndrawable.value = false;
    };
  }, [card]);
  const canReject = card.canAnswer && !card.questions;
  const todo = canReject ? ' Reject it, or answer it on another device.' : ' Answer it on another device.';
  return (
    <div class="asked">
      <p class="problem">{`This request can’t be shown here.${card.answered ? '' : todo}`}</p>
      <button type="button" class="must" hidden disabled />
    </div>
  );
}

/** `version` changes each time the card is drawn. */
export type CardProps = { card: ApprovalCard; version: number };

export function CardView({ card, version }: CardProps) {
  const { questions } = card;
  return (
    <Unopened.Provider value={card.musts}>
      <Boundary card={card}>
        <Content card={card} version={version} />
      </Boundary>
      {!questions && <Notice card={card} version={version} />}
      {!questions && <Answers card={card} version={version} />}
    </Unopened.Provider>
  );
}

function Content({ card, version }: CardProps) {
  const { request, mode } = card;
  const { proposal } = request;
  const { root } = card.world;
  const compared = useMemo(() => (proposal ? compare(proposal.old_text, proposal.new_text) : undefined), [proposal]);
  const comments = card.canAnswer ? card.comments : undefined;
  const names = JSON.stringify(mode === 'edit' ? card.edits : []);
  const asked = useMemo(
    () => (
      <div class="asked">
        <Asked
          request={request}
          root={root}
          comments={comments}
          redrawn={() => card.redrawn()}
          forms={card.forms}
          whole={card.isFileWhole}
          edited={JSON.parse(names)}
        />
      </div>
    ),
    [card, request, root, comments, names],
  );
  const proposed = useMemo(
    () =>
      compared &&
      request.proposal && (
        <Proposed proposal={request.proposal} compared={compared} comments={comments} whole={card.isFileWhole} />
      ),
    [card, request, comments, compared],
  );
  if (card.questions)
    return (
      <>
        <Head card={card} version={version} />
        <QuestionForm
          questions={card.questions}
          name={`question-${request.approval_id}`}
          disabled={card.busy}
          mayAnswer={card.canAnswer}
          submit={() => card.submit()}
          leadsOn={() => card.leadsOn()}
          stepped={() => card.stepped()}
          skip={() => void card.give({ allow: false, message: '' })}
        >
          {card.questions.isUnread.value && <Beyond card={card} />}
          {card.answered && <Notice card={card} version={version} />}
          {!card.canAnswer && <Answers card={card} version={version} />}
        </QuestionForm>
      </>
    );
  return (
    <>
      <Head card={card} version={version} compared={compared} />
      {asked}
      {proposed && (
        <Replaced class="proposed" isReplaced={mode === 'edit'}>
          {proposed}
        </Replaced>
      )}
      <LongAlways card={card} version={version} />
      {mode === 'edit' && <Editing card={card} version={version} />}
    </>
  );
}

function Head({ card, compared }: CardProps & { compared?: Difference }) {
  const { request, world, mode, place, answered } = card;
  const [words, path] = titleOf(request, world.agent);
  const { asked_by: asker, reason, blocked_path: blocked } = request;
  const facts = [asker && `Asked by ${asker.agent_type ?? 'a subagent'}`, reason, blocked && 'Path: '].filter(Boolean);
  const differs = mode !== 'edit' && changesFiles(request);
  const isOpen = card.showsTools.value;
  const counts = mode === 'edit' && card.counts.value ? card.counts.value : compared;
  return (
    <>
      <header>
        <h3 id={`title-${request.approval_id}`}>
          <span>
            <Text line>{words}</Text>
          </span>{' '}
          {path !== undefined && (
            <code>
              <Text line>{path}</Text>
            </code>
          )}
        </h3>
        {place.value && !answered && <span class="tag place">{place.value}</span>}
        {counts && request.proposal && <Counts {...counts} />}
        <time dateTime={request.created_at}>{ago(request.created_at)}</time>
        {differs && (
          <Button
            label="View"
            class="quiet view"
            aria-expanded={isOpen}
            onClick={() => (card.showsTools.value = !isOpen)}
          />
        )}
      </header>
      {differs && isOpen && (
        <Tools both={!compared || compared.both} hasGaps={!compared || hasGaps(compared)} whole={card.isFileWhole} />
      )}
      {facts.length > 0 && (
        <p class="notice why">
          <Text>{facts.join(' · ')}</Text>
          {blocked && (
            <code>
              <Text>{blocked}</Text>
            </code>
          )}
        </p>
      )}
    </>
  );
}

function Editing({ card }: CardProps) {
  const { request, text, fields, answered, cell } = card;
  const isReadOnly = Boolean(answered);
  if (text === undefined)
    return (
      <FieldsEditor
        names={card.edits}
        values={fields ?? {}}
        isReadOnly={isReadOnly}
        takesFocus={!card.isRestored}
        changed={(name, now) => card.typedField(name, now)}
        accept={() => card.acceptByKey()}
      />
    );
  const editor = (
    <FileEditor
      path={cell ? pathOf(cell) : (request.proposal?.path ?? '')}
      label={`Edit the ${cell ? 'cell' : 'file'} before accepting`}
      original={card.original}
      text={text}
      isReadOnly={isReadOnly}
      takesFocus={!card.isRestored}
      opened={() => (card.isEditorOpen.value = true)}
      changed={(now) => card.typed(now)}
      hides={(isRemovedHidden) => (card.hidesRemoved.value = isRemovedHidden)}
      seen={(isSeen) => card.editorSeen(isSeen)}
      accept={() => card.acceptByKey()}
    />
  );
  if (!cell) return editor;
  // The editor replaces the diff, which shows these, too.
  return (
    <>
      <p class="file">
        <CellName cell={cell} />
      </p>
      {cell.outputs && <OutputsRemoved />}
      {editor}
    </>
  );
}

function Notice({ card }: CardProps) {
  const { answered, request, mode, message } = card;
  if (answered) {
    const { by } = answered;
    const outcome = by ? `${by} ${verbOf(answered, request)} this first.` : `${settledWords(answered).words}.`;
    return (
      <p class="notice" role="alert">
        <Text>{`${outcome} What you entered wasn’t used. It’s kept here until you close this.`}</Text>
      </p>
    );
  }
  if (request.truncated)
    return (
      <p class="notice">
        This request is too large for one message, so only part of it is shown.{' '}
        <ShowAll label={`Show all (${size(request.truncated.bytes)})`} onOpen={() => void card.whole()} />
      </p>
    );
  const isEdited = card.text !== undefined || card.fields !== undefined;
  const comments = card.comments.count.value;
  if (mode !== 'read' || !(isEdited || message || comments)) return null;
  const words = isEdited
    ? 'Your edit is kept as a draft. If you accept now, the agent’s version is used.'
    : comments
      ? `${comments} ${comments === 1 ? 'comment is kept as a draft' : 'comments are kept as drafts'}. Accepting doesn’t send ${comments === 1 ? 'it' : 'them'}.`
      : 'Your reason is kept as a draft.';
  return (
    <p class="notice draft">
      {words} <Button label="Continue" class="quiet" onClick={() => (isEdited ? card.edit() : card.reject())} />
      <Button label="Discard" class="quiet" onClick={() => card.discard()} />
    </p>
  );
}
