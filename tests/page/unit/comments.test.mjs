import assert from 'node:assert/strict';
import { test } from 'node:test';

import './dom.mjs';

import { signal } from '@preact/signals';

Object.assign(globalThis.document, { addEventListener() {}, removeEventListener() {}, hidden: false });

const model = await import('../../../web/src/review/model.ts');
const { Comments, isShown, placeOf } = await import('../../../web/src/review/comments.ts');
const { Commit } = await import('../../../web/src/review/commit.ts');
const { Push } = await import('../../../web/src/review/push.ts');
const { arranged } = await import('../../../web/src/review/comment-view.tsx');
const { RequestError } = await import('../../../web/src/protocol/connection.ts');
const kept = await import('../../../web/src/state/kept.ts');

const HUNK = { id: 'h', kind: 'lines', old_start: 5, new_start: 6, removed: 'old 5\nold 6\n', added: 'new 6\r\n' };
const CONTEXT = { before: ['four'], after: ['seven'], more: false };
const fileOf = (path, hunks) => ({ path, change: 'changed', old_mode: '100644', new_mode: '100644', hunks });
const shown = (path, ...hunks) => ({
  file: fileOf(path, hunks),
  parts: hunks.map((hunk) => ({ key: hunk.id, path, hunk })),
});
const comment = (id, more = {}) => ({
  comment_id: id,
  by: 'me',
  path: 'f',
  side: 'new',
  line: 6,
  end_line: 6,
  quote: 'new 6\r\n',
  blob: 'b',
  text: `text of ${id}`,
  ...more,
});

test('the lines of a hunk have their numbers on both sides', () => {
  const lines = model.linesOn(HUNK, CONTEXT);
  assert.deepEqual(
    [...lines.new],
    [
      [5, 'four'],
      [6, 'new 6\r'],
      [7, 'seven'],
    ],
  );
  assert.deepEqual(
    [...lines.old],
    [
      [5, 'old 5'],
      [6, 'old 6'],
    ],
  );
  assert.equal(model.quoteOf(lines.new, 5, 6), 'four\nnew 6\r\n');
  assert.equal(model.quoteOf(lines.new, 6, 8), undefined, 'not all of them are shown');
  assert.deepEqual([...model.linesOn({ ...HUNK, kind: 'mode' }, CONTEXT).new], []);
});

test('an empty side begins after the line that it names', () => {
  const removed = { ...HUNK, added: '', new_start: 4 };
  assert.deepEqual([...model.linesOn(removed, CONTEXT).new.keys()], [4, 5]);
  assert.equal(model.startOf({ ...HUNK, removed: '', old_start: 4 }, 'old'), 5);
});

test('the name of a line is parsed back, and lines are described in words', () => {
  for (const [side, line] of [
    ['new', 12],
    ['old', 12],
  ])
    assert.deepEqual(model.lineOf(model.lineName(side, line)), [side, line]);
  assert.equal(model.linesWords(comment('a', { end_line: 8 })), 'lines 6–8');
  assert.equal(model.linesWords(comment('a', { side: 'old' })), 'line 6 (removed)');
});

test('a comment is shown at its lines, or at the nearest change of its file', () => {
  const far = { ...HUNK, id: 'far', old_start: 40, new_start: 40 };
  const files = [shown('f', HUNK, far), shown('g', { ...HUNK, id: 'other' })];
  const at = (more) => model.partOf(comment('a', more), files)?.key;
  assert.equal(at({}), 'h');
  assert.equal(at({ line: 41, end_line: 41 }), 'far');
  assert.equal(at({ line: 10, end_line: 12 }), 'h');
  assert.equal(at({ side: 'old', line: 30, end_line: 30 }), 'far');
  assert.equal(at({ path: 'gone' }), undefined);
});

test('a suggestion consists of whole lines with the file’s line endings', () => {
  assert.equal(model.suggestedField('a\r\nb\r\n'), 'a\nb');
  assert.equal(model.suggestedText('a\r\nb\r\n', 'c\nd'), 'c\r\nd\r\n');
  assert.equal(model.suggestedText('a\n', ''), '');
});

// With a server.

class Server {
  constructor(scope = 'admin') {
    this.asked = [];
    this.answers = [];
    this.name = 'me';
    this.hello = { device: { scope } };
    this.projects = { all: new Map() };
    this.connection = {
      ask: (type, data, how) =>
        new Promise((resolve, reject) => {
          this.asked.push([type, data, how.lasting ?? false]);
          this.answers.push({ resolve, reject });
        }),
    };
  }
  may = () => true;
  async gives(data) {
    this.answers.shift().resolve({ data });
    await new Promise((later) => setTimeout(later));
  }
  async refuses(code, details) {
    this.answers.shift().reject(new RequestError(code, 'Refused.', details));
    await new Promise((later) => setTimeout(later));
  }
}

const LINES = model.linesOn(HUNK, CONTEXT);
const PART = { key: 'h', path: 'f', hunk: HUNK };

/** @param load is called with the comments when the review is requested again */
function made(project, { load = () => {}, server = new Server(), files = [shown('f', HUNK)] } = {}) {
  const comments = new Comments(server, project, signal(files), async () => load(comments));
  return { server, comments };
}

test('a comment is sent with the lines as they were shown', async () => {
  const { server, comments } = made('sent');
  comments.begin(PART, LINES, '6');
  const [one] = comments.writings.value;
  comments.typed(one, 'Why?');
  const saved = comments.save(one, HUNK);
  assert.deepEqual(server.asked, [
    [
      'review_comment',
      { path: 'f', side: 'new', line: 6, end_line: 6, quote: 'new 6\r\n', text: 'Why?', suggestion: undefined },
      false,
    ],
  ]);
  assert.equal(await comments.save(one, HUNK), false, 'it is on its way');
  await server.gives({});
  assert.equal(await saved, true);
  assert.deepEqual(comments.writings.value, []);
  assert.deepEqual(kept.reviewDrafts('sent.comments'), {});
});

test('an unfinished comment is still at its lines after a reload', () => {
  const { comments } = made('half');
  comments.begin(PART, LINES, '−5');
  comments.begin(PART, LINES, '−6', true);
  comments.typed(comments.writings.value[0], 'Half');
  const { comments: again } = made('half');
  const [one] = again.writings.value;
  assert.deepEqual([one.text.value, one.quote], ['Half', 'old 5\nold 6\n']);
  // The hunk is now three lines further down.
  const moved = { ...HUNK, old_start: 8 };
  const place = placeOf(one, moved);
  assert.deepEqual(place, { side: 'old', line: 8, end: 9 });
  assert.equal(isShown(model.linesOn(moved, CONTEXT), place, one.quote), true);
  assert.equal(isShown(LINES, { ...place, line: 5, end: 5 }, one.quote), false);
  again.discard(one);
  assert.deepEqual(kept.reviewDrafts('half.comments'), {});
});

test('the drafts of an existing project stay in the browser', () => {
  kept.keepReviewDrafts('there.comments', { a: { path: 'f', text: 'x' } });
  kept.keepReviewDrafts('gone.comments', { a: { path: 'f', text: 'x' } });
  kept.prune([{ id: 'there' }]);
  assert.deepEqual(Object.keys(kept.reviewDrafts('there.comments')), ['a']);
  assert.deepEqual(kept.reviewDrafts('gone.comments'), {});
});

test('an unfinished comment can be extended to a range of lines', () => {
  const { comments } = made('range');
  comments.begin(PART, LINES, '7');
  comments.suggested(comments.writings.value[0], 'seven');
  comments.begin(PART, LINES, '6', true);
  const [one] = comments.writings.value;
  assert.equal(comments.writings.value.length, 1);
  assert.deepEqual(placeOf(one, HUNK), { side: 'new', line: 6, end: 7 });
  assert.equal(one.suggestion.value, 'new 6\nseven', 'an unchanged suggestion is extended, too');
  comments.begin(PART, LINES, '7');
  assert.equal(comments.writings.value.length, 1, 'the comment that was begun is continued');
});

test('a comment whose reply was lost is not added twice', async () => {
  const { server, comments } = made('lost');
  comments.begin(PART, LINES, '6');
  comments.typed(comments.writings.value[0], 'Why?');
  const saved = comments.save(comments.writings.value[0], HUNK);
  await server.refuses('OFFLINE');
  assert.equal(await saved, false);
  assert.match(comments.writings.value[0].note.value, /^The connection was lost\./);
  comments.show({ comments: [comment('other')], drafts: 'v' });
  assert.equal(comments.writings.value.length, 1);
  comments.show({ comments: [comment('other'), comment('mine', { text: 'Why?' })], drafts: 'v' });
  assert.deepEqual(comments.writings.value, []);
});

test('an edit of a draft that has been sent becomes a new comment', async () => {
  const { server, comments } = made('meanwhile');
  comments.show({ comments: [comment('a')], drafts: 'v' });
  comments.edit(comment('a'), PART);
  const [one] = comments.writings.value;
  assert.equal(comments.isUnsaved(one), false);
  comments.typed(one, 'Other words');
  assert.equal(comments.draftOf(one)?.comment_id, 'a');
  comments.show({ comments: [comment('a', { state: 'sent', run_id: 'r' })], drafts: 'w' });
  assert.equal(comments.draftOf(one), undefined);
  void comments.save(one, HUNK);
  assert.equal(server.asked[0][1].comment_id, undefined);
  assert.equal(server.asked[0][1].quote, 'new 6\r\n');
});

test('drafts are sent once, and only those that are shown', async () => {
  let there = { comments: [comment('a')], drafts: '1' };
  const { server, comments } = made('once', { load: (all) => all.show(there) });
  comments.show(there);
  const sent = comments.send();
  assert.equal(await comments.send(), '', 'it is on its way');
  await new Promise((later) => setTimeout(later));
  assert.deepEqual(server.asked, [['review_submit', { drafts: '1' }, true]]);
  there = { comments: [comment('a', { state: 'sent' })], drafts: '2' };
  await server.gives({ run_id: 'r', position: 1 });
  assert.equal(await sent, 'Sent 1 comment. The agent will get them when it finishes its current work.');
  assert.equal(await comments.send(), '', 'there are no drafts');
  there = { comments: [comment('b'), comment('c')], drafts: '4' };
  comments.show({ comments: [comment('b')], drafts: '3' });
  assert.equal(await comments.send(), '');
  assert.match(comments.note.value, /^The comments have changed since you saw them, so they were not sent\./);
  assert.equal(server.asked.length, 1);
});

test('a draft that was changed during the question is not removed', async () => {
  const { server, comments } = made('removed');
  const asked = comment('a');
  comments.show({ comments: [comment('a', { text: 'Other' })], drafts: '2' });
  await comments.remove(asked);
  assert.match(comments.notes.value.get('a'), /^The comment has changed since you saw it, so it was not removed\./);
  assert.deepEqual(server.asked, []);
  const removed = comments.remove(comments.all.value[0]);
  await server.gives({});
  await removed;
  assert.deepEqual(server.asked, [['review_comment', { comment_id: 'a', remove: true }, true]]);
  assert.equal(comments.notes.value.size, 0);
});

test('only its author and the owner of the server can change a draft', () => {
  const theirs = comment('a', { by: 'Bob' });
  assert.equal(made('mine').comments.mayChange(theirs), true);
  const { comments } = made('mine', { server: new Server('approve') });
  assert.deepEqual([comments.mayChange(theirs), comments.mayChange(comment('b'))], [false, true]);
});

test('drafts that cannot reach a terminal are kept, with the prompt to copy', async () => {
  const there = { comments: [comment('a')], drafts: '1' };
  const { server, comments } = made('desk_1', { load: (all) => all.show(there) });
  server.projects.all.set('desk_1', { desk: {} });
  assert.equal(comments.mayWrite, true);
  comments.show(there);
  const sent = comments.send();
  await new Promise((later) => setTimeout(later));
  await server.refuses('NOT_SUPPORTED', { prompt: 'Why?' });
  assert.equal(await sent, '');
  assert.deepEqual([comments.note.value, comments.unsent.value], ['Refused.', 'Why?']);
  assert.equal(comments.drafts.value.length, 1);
  comments.show(there);
  assert.equal(comments.unsent.value, 'Why?');
  comments.show({ comments: [comment('a', { text: 'Other' })], drafts: '2' });
  assert.deepEqual([comments.note.value, comments.unsent.value], ['', '']);
});

test('comments are below their last line, and outdated ones below the change', () => {
  const { comments } = made('arranged');
  comments.show({
    comments: [
      comment('a', { line: 5, end_line: 6 }),
      comment('b', { side: 'old', line: 5, end_line: 5 }),
      comment('c', { outdated: true }),
      comment('d', { line: 300, end_line: 300 }),
    ],
    drafts: 'v',
  });
  const found = arranged({ comments }, PART, LINES);
  const first = found.value;
  const ids = (some) => some.map(({ comment_id: id }) => id);
  assert.deepEqual(
    [...first.rows].map(([name, some]) => [name, ...ids(some)]),
    [
      ['6', 'a'],
      ['−5', 'b'],
    ],
  );
  assert.deepEqual(ids(first.rest), ['c', 'd']);
  assert.deepEqual(first.ranges, [{ side: 'new', line: 5, end: 6 }]);
  comments.show({ comments: [...comments.all.value.map((one) => ({ ...one }))], drafts: 'v' });
  assert.equal(found.value, first, 'nothing is drawn again');
});

test('the hunks that answer a comment are found', () => {
  const { comments } = made('answers', { files: [shown('f', { ...HUNK, answers: ['a'] })] });
  assert.deepEqual(
    comments.answered.value.get('a')?.map(({ key }) => key),
    ['h'],
  );
});

test('a failed commit keeps the message, and shows the reason', async () => {
  const server = new Server();
  const commit = new Commit(server, 'p', async () => {});
  const runs = async () => {
    const done = commit.run(['a', 'b']);
    await server.gives({ kept: ['a', 'b'] });
    return { done };
  };
  commit.message.value = 'Fix';
  commit.without.value = new Set(['b']);
  let { done } = await runs();
  assert.deepEqual(server.asked, [
    ['review_get', {}, false],
    ['review_commit', { message: 'Fix', branch: undefined, files: ['a'] }, false],
  ]);
  await server.refuses('COMMIT_FAILED', { output: 'no', code: 1 });
  await done;
  assert.deepEqual([commit.message.value, commit.problem.value, commit.output.value], ['Fix', 'Refused.', 'no']);
  ({ done } = await runs());
  await server.refuses('COMMIT_BLOCKED', { reason: 'overlap', paths: ['a', 'b'] });
  await done;
  assert.deepEqual([commit.problem.value, commit.output.value], ['Refused. Files: a, b.', '']);
  commit.without.value = new Set();
  ({ done } = await runs());
  assert.equal(server.asked.at(-1)[1].files, undefined, 'all files');
  await server.gives({ data: { commit: 'c', branch: 'main', files: ['a', 'b'], output: '', by: 'me' } });
  await done;
  assert.deepEqual([commit.message.value, commit.done.value.branch], ['', 'main']);
});

test('a commit contains only what was shown', async () => {
  const server = new Server();
  const commit = new Commit(server, 'p', async () => {});
  const lines = (added) => ({ a: { added, removed: 0 } });
  commit.offer.value = { message: '', lines: lines(1) };
  for (const now of [
    { kept: ['a', 'b'], commit: { lines: lines(1) } },
    { kept: ['a'], commit: { lines: lines(2) } },
    { kept: ['a'], commit: null },
  ]) {
    const done = commit.run(['a']);
    await server.gives(now);
    await done;
    assert.match(commit.problem.value, /^What was kept has changed since you saw it, so it was not committed\./);
  }
  void commit.run(['a']);
  await server.gives({ kept: ['a'], commit: { lines: lines(1) } });
  assert.deepEqual(
    server.asked.map(([type]) => type),
    ['review_get', 'review_get', 'review_get', 'review_get', 'review_commit'],
  );
});

test('a commit is not made later if the connection is lost first', async () => {
  const server = new Server();
  server.connection.state = 'open';
  const commit = new Commit(server, 'p', async () => {});
  const done = commit.run(['a']);
  await server.refuses('OFFLINE');
  await done;
  assert.match(commit.problem.value, /^The connection was lost before the server responded\./);
  assert.deepEqual(server.asked, [['review_get', {}, false]]);
});

test('a push contains what was shown, and the user’s title and body are kept', async () => {
  const server = new Server();
  const push = new Push(server, 'p', async () => {});
  push.offer.value = { version: 'v1', remote: 'origin', branch: 'b', pull_request: 'gh', title: 'One', body: 'Body' };
  push.open();
  assert.deepEqual([push.title.value, push.body.value, push.isWaiting], ['One', 'Body', true]);
  push.offer.value = { ...push.offer.value, version: 'v2', title: 'Two' };
  push.open();
  assert.equal(push.title.value, 'Two', 'the user has not changed the title');
  push.title.value = ' Mine ';
  push.open();
  push.isPullRequest.value = true;
  let done = push.run();
  const request = { title: 'Mine', body: 'Body' };
  assert.deepEqual(server.asked[0], ['review_push', { version: 'v2', pull_request: request }, false]);
  await server.refuses('PUSH_FAILED', { output: 'no', code: 1 });
  await done;
  assert.deepEqual([push.title.value, push.problem.value, push.output.value], [' Mine ', 'Refused.', 'no']);
  push.offer.value = { ...push.offer.value, pull_request: null, ahead: 0 };
  assert.equal(push.isWaiting, false, 'the remote has everything');
  done = push.run();
  assert.equal(server.asked[1][1].pull_request, undefined, 'no program can create a pull request now');
  await server.gives({ data: { remote: 'origin', branch: 'b', problem: 'gh did not create a pull request' } });
  await done;
  assert.ok(push.isWaiting, 'a pull request is missing');
  push.offer.value = { problem: 'No.' };
  assert.equal(push.isWaiting, false);
});
