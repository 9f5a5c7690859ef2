import assert from 'node:assert/strict';
import { test } from 'node:test';

import { drawn, markup } from './dom.mjs';

Object.assign(globalThis.document, { addEventListener() {}, removeEventListener() {}, hidden: false });

const { blocksOf } = await import('../../../web/src/diff/rows.ts');
const { reviewAddress } = await import('../../../web/src/review/address.ts');
const model = await import('../../../web/src/review/model.ts');
const { PartView } = await import('../../../web/src/review/part.tsx');
const { ALL, OpenReview } = await import('../../../web/src/review/open-review.ts');
const { RequestError } = await import('../../../web/src/protocol/connection.ts');
const kept = await import('../../../web/src/state/kept.ts');
const { numbersOf, Reviews } = await import('../../../web/src/state/reviews.ts');
const { placeIn } = await import('../../../web/src/ui/place.ts');

const hunk = (id, more = {}) => ({
  id,
  kind: 'lines',
  old_start: 5,
  new_start: 5,
  removed: 'old\n',
  added: 'new\n',
  ...more,
});
const file = (path, hunks, more = {}) => ({
  path,
  change: 'changed',
  old_mode: '100644',
  new_mode: '100644',
  added: hunks.length,
  removed: hunks.length,
  hunks,
  ...more,
});
const review = (version, files, more = 0) => ({ state: files.length ? 'open' : 'none', version, files, more });

test('an address names the review of a project', () => {
  assert.deepEqual(placeIn(reviewAddress('proj_1')), { view: 'review', project: 'proj_1' });
  assert.deepEqual(placeIn('#/p/proj_1/reviews'), { view: 'home' });
});

// Lines.

const TEXT = Array.from({ length: 20 }, (_, n) => `line ${n + 1}\n`).join('');
const rowsOf = (difference) => difference.hunks[0].rows.map(({ old, new: fresh }) => [old?.number, fresh?.number]);

test('a hunk is shown with the lines around it and their numbers on both sides', () => {
  const one = hunk('a', { old_start: 9, new_start: 10, removed: 'x\n', added: 'line 10\nline 11\n' });
  const context = model.contextOf(TEXT, file('f', [one]), one, 2);
  assert.deepEqual(context, { before: ['line 8', 'line 9'], after: ['line 12', 'line 13'], more: true });
  const difference = model.differenceOf(one, true, context);
  assert.deepEqual(rowsOf(difference), [
    [7, 8],
    [8, 9],
    [9, 10],
    [undefined, 11],
    [10, 12],
    [11, 13],
  ]);
  assert.equal(blocksOf(difference, false).length, 1, 'without a gap');
});

test('a hunk that only removes lines is after the line that it names', () => {
  const one = hunk('a', { old_start: 3, new_start: 2, removed: 'gone\n', added: '' });
  const context = model.contextOf(TEXT, file('f', [one]), one, 1);
  assert.deepEqual([context.before, context.after], [['line 2'], ['line 3']]);
  assert.deepEqual(rowsOf(model.differenceOf(one, true, context)), [
    [2, 2],
    [3, undefined],
    [4, 3],
  ]);
});

test('the lines around a hunk end at the next hunk and at the ends of the file', () => {
  const first = hunk('a', { old_start: 1, new_start: 2, removed: '', added: 'line 2\n' });
  const second = hunk('b', { old_start: 4, new_start: 5, removed: 'x\n', added: 'line 5\n' });
  const both = file('f', [first, second]);
  assert.deepEqual(model.contextOf(TEXT, both, first, 100), {
    before: ['line 1'],
    after: ['line 3', 'line 4'],
    more: false,
  });
  assert.deepEqual(model.contextOf(TEXT, both, second, 100).after.length, 15);
});

test('no lines around a hunk are shown if the file has changed since', () => {
  const one = hunk('a', { new_start: 5, added: 'something else\n' });
  assert.deepEqual(model.contextOf(TEXT, file('f', [one]), one, 3), model.NO_CONTEXT);
  const behind = hunk('b', { new_start: 40, added: '' });
  assert.deepEqual(model.contextOf(TEXT, file('f', [behind]), behind, 3), model.NO_CONTEXT);
});

test('mixed or changed line endings are shown, and a missing last one is reported', () => {
  const textsOf = (one) => model.differenceOf(one, true).hunks[0].rows.flatMap((row) => [row.old?.text, row.new?.text]);
  assert.deepEqual(textsOf(hunk('a', { removed: 'x\r\n', added: 'y\r\n' })), ['x', 'y']);
  assert.deepEqual(textsOf(hunk('a', { removed: 'x\r\n', added: 'x\n' })), ['x\r', 'x']);
  assert.equal(model.differenceOf(hunk('a', { added: 'new' }), true).end, 'No newline at end of file.');
  assert.equal(model.differenceOf(hunk('a', { removed: 'old' }), true).end, 'Newline added at end of file.');
  assert.equal(model.differenceOf(hunk('a', { removed: '', added: 'new' }), true).end, '');
});

test('long hunks and long lines are shortened', () => {
  assert.equal(model.isCut(hunk('a')), false);
  assert.equal(model.isCut(hunk('a', { added: 'x\n'.repeat(500) })), true);
  assert.equal(model.isCut(hunk('a', { added: `${'x'.repeat(3000)}\n` })), true);
});

// Words.

test('changes without lines are described in words', () => {
  const mode = hunk('m', { kind: 'mode', removed: '', added: '' });
  const whole = hunk('w', { kind: 'file', removed: '', added: '' });
  const words = (one, more) => model.wordsOf(file('f', [one], more), one);
  assert.equal(words(mode, { new_mode: '100755' }), 'The file was made executable.');
  assert.equal(words(whole, { change: 'added', old_mode: null }), 'This is a new file. It is empty.');
  assert.match(words(whole, { binary: true }), /^The content of this file was changed\. Its content is not shown/);
  assert.match(words(whole, { change: 'deleted', old_mode: '120000', new_mode: null }), /it was a symbolic link/);
  assert.match(words(whole, { new_mode: '120000' }), /was a regular file and is now a symbolic link/);
  assert.match(model.wordsOf(file('f', [], { too_large: true })), /too large to show/);
  assert.equal(model.titleOf(hunk('a', { new_start: 3, added: 'a\nb\n' })), 'Lines 3–4');
  assert.equal(model.titleOf(hunk('a', { old_start: 3, added: '' })), 'Line 3 (removed)');
});

test('an edit gets the file’s line endings, on the last line too', () => {
  const crlf = hunk('a', { removed: 'x\r\n', added: 'a\r\nb\r\n' });
  assert.equal(model.fieldOf(crlf), 'a\nb');
  assert.equal(model.editedText(crlf, 'a\nc'), 'a\r\nc\r\n');
  assert.equal(model.editedText(hunk('a', { added: '' }), 'again'), 'again\n');
  assert.equal(model.editedText(hunk('a', { added: 'last' }), 'the end'), 'the end');
  assert.equal(model.editedText(hunk('a'), ''), '');
  assert.equal(model.canEdit(file('f', [], { change: 'deleted' }), hunk('a', { kind: 'file' })), false);
  assert.equal(model.canEdit(file('f', [], { change: 'added' }), hunk('a', { kind: 'file' })), true);
});

// The order of the parts.

test('after the current part, the next remaining part is current or, at the end, the last one', () => {
  assert.equal(model.follow([], ['a', 'b'], undefined), 'a');
  assert.equal(model.follow(['a', 'b', 'c'], ['a', 'c'], 'b'), 'c');
  assert.equal(model.follow(['a', 'b', 'c'], ['a', 'b', 'c'], 'b'), 'b');
  assert.equal(model.follow(['a', 'b', 'c'], ['a'], 'b'), 'a');
  assert.equal(model.follow(['a'], [], 'a'), undefined);
});

test('a part that is gone can stay in its place, and unchanged files stay the same objects', () => {
  const [a, b, c] = ['a', 'b', 'c'].map((id, n) => hunk(id, { new_start: n + 1 }));
  const before = model.shownFiles([file('f', [a, b, c]), file('g', [hunk('d')])]);
  const gone = { part: { ...before[0].parts[1], isGone: true }, file: before[0].file };
  const now = model.shownFiles([file('f', [a, c]), file('g', [hunk('d')])], [gone], before);
  assert.deepEqual(
    model.partsIn(now).map(({ key }) => key),
    ['a', 'b', 'c', 'd'],
  );
  assert.equal(now[1], before[1]);
  const alone = model.shownFiles([file('g', [hunk('d')])], [gone], before);
  assert.deepEqual(
    alone.map((one) => [one.file.path, one.parts.length]),
    [
      ['f', 1],
      ['g', 1],
    ],
  );
});

// With a server.

const B = hunk('b', { new_start: 9 });

class Server extends EventTarget {
  constructor() {
    super();
    this.asked = [];
    this.answers = [];
    this.connection = {
      state: 'open',
      ask: (type, data) =>
        new Promise((resolve, reject) => {
          this.asked.push([type, data]);
          this.answers.push({ resolve: (found) => resolve({ data: found }), reject });
        }),
    };
  }
  projects = { all: new Map() };
  may = () => true;
  isMine = () => false;
  called = ({ by }) => by;
  hears(message) {
    this.dispatchEvent(new CustomEvent('message', { detail: message }));
  }
  async answers_(number, found) {
    this.answers[number].resolve(found);
    await new Promise((later) => setTimeout(later));
  }
  async refuses(number, code, details) {
    this.answers[number].reject(new RequestError(code, 'Refused.', details));
    await new Promise((later) => setTimeout(later));
  }
}

const changed = (by) => ({
  type: 'update',
  project_id: 'p',
  data: {
    update_type: 'review_changed',
    data: { state: 'open', files: 1, hunks: 2, added: 3, removed: 4, by, client_id: 'other' },
  },
});

async function opened(files, project = 'p') {
  const server = new Server();
  const found = new OpenReview(server, project, () => {});
  await server.answers_(0, review('1', files));
  return { server, found };
}

const keysOf = (found) => found.parts.value.map(({ key, isGone }) => (isGone ? `(${key})` : key));

test('a decision sends the hunk, or the version that was shown', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  void found.decide(found.parts.value[0], 'keep');
  assert.deepEqual(server.asked[1], ['review_decide', { hunks: ['a'], decision: 'keep' }]);
  await server.answers_(1, review('2', [file('f', [B])]));
  assert.deepEqual(keysOf(found), ['b']);
  void found.decideAll('undo', '2');
  assert.deepEqual(server.asked[2], ['review_decide', { all: true, decision: 'undo', version: '2' }]);
  void found.decideFile('f', 'undo', '2');
  assert.deepEqual(server.asked[3], ['review_decide', { files: ['f'], decision: 'undo', version: '2' }]);
});

test('a decision on several changes names the version that the user saw', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B]), file('large', [])]);
  const whole = found.parts.value.at(-1);
  server.hears(changed('Phone'));
  await server.answers_(1, review('2', [file('f', [hunk('a'), B, hunk('c')]), file('large', [])]));
  void found.decideAll('keep', '1');
  void found.decideFile('f', 'undo', '1');
  void found.decide(whole, 'keep', '1');
  assert.deepEqual(server.asked.slice(2), [
    ['review_decide', { all: true, decision: 'keep', version: '1' }],
    ['review_decide', { files: ['f'], decision: 'undo', version: '1' }],
    ['review_decide', { files: ['large'], decision: 'keep', version: '1' }],
  ]);
});

test('a reply to an outdated request is ignored', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  server.hears(changed('Phone'));
  void found.decide(found.parts.value[0], 'keep');
  await server.answers_(2, review('3', [file('f', [B])]));
  await server.answers_(1, review('1', [file('f', [hunk('a'), B])]));
  assert.deepEqual(keysOf(found), ['b']);
});

test('a reply that is older than a comment does not remove the comment', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  const comment = { comment_id: 'c', by: 'me', path: 'f', side: 'new', line: 6, end_line: 6, quote: 'x', text: 'Why?' };
  const texts = () => found.comments.all.value.map(({ text }) => text);
  const commented = (text) =>
    server.hears({
      type: 'update',
      project_id: 'p',
      data: { update_type: 'review_commented', data: { comment_id: 'c', comment: { ...comment, text } } },
    });
  commented('Why?');
  commented('Why so?');
  assert.deepEqual(texts(), ['Why so?']);
  await server.answers_(1, { ...review('1', [file('f', [hunk('a'), B])]), comments: [comment] });
  assert.deepEqual(texts(), ['Why so?'], 'it was requested before the second text was written');
  await server.answers_(2, {
    ...review('1', [file('f', [hunk('a'), B])]),
    comments: [{ ...comment, text: 'Why so?' }],
  });
  assert.deepEqual(texts(), ['Why so?']);
  void found.load();
  await server.answers_(3, { ...review('1', [file('f', [hunk('a'), B])]), comments: [] });
  assert.deepEqual(texts(), [], 'later answers count again');
});

test('loading the review does not wait for later changes', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  let isThere = false;
  server.hears(changed('Phone'));
  void found.load().then(() => {
    isThere = true;
  });
  await server.answers_(1, review('2', [file('f', [B])]));
  assert.equal(isThere, false, 'that review was requested before this call');
  server.hears(changed('Phone'));
  await server.answers_(2, review('3', [file('f', [B])]));
  assert.equal(isThere, true);
  await server.answers_(3, review('4', []));
  assert.deepEqual(keysOf(found), []);
});

test('a note in the hunk’s place names who decided first', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  void found.decide(found.parts.value[0], 'keep');
  await server.refuses(1, 'HUNK_GONE', { gone: 'a', by: 'Phone', decision: 'undo' });
  await server.answers_(2, review('2', [file('f', [B])]));
  assert.deepEqual(keysOf(found), ['(a)', 'b']);
  assert.equal(found.of('a').note.value, 'Phone already undid this change.');
  found.close(found.parts.value[0]);
  assert.deepEqual(keysOf(found), ['b']);
});

test('an update that arrives before the refusal leaves the hunk in its place', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  void found.decide(found.parts.value[0], 'keep');
  server.hears(changed('Phone'));
  await server.answers_(2, review('2', [file('f', [B])]));
  assert.deepEqual(keysOf(found), ['(a)', 'b']);
  await server.refuses(1, 'HUNK_GONE', { gone: 'a', by: 'Phone', decision: 'edit' });
  assert.equal(found.of('a').note.value, 'Phone already edited this change.');
});

test('an update about the user’s own decision removes the hunk', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  void found.decide(found.parts.value[0], 'keep');
  server.hears(changed(null));
  await server.answers_(2, review('2', [file('f', [B])]));
  await server.answers_(1, review('2', [file('f', [B])]));
  assert.deepEqual(keysOf(found), ['b']);
});

test('a conflict names the files', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  void found.decide(found.parts.value[0], 'undo');
  await server.refuses(1, 'REVIEW_CLASH', { paths: ['f'] });
  assert.match(found.of('a').note.value, /conflicts with the current state of f\. Nothing was changed\./);
  await server.answers_(2, review('2', [file('f', [hunk('a'), B])]));
  assert.deepEqual(keysOf(found), ['a', 'b']);
});

test('a draft survives somebody else’s decision and a reload', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])], 'p');
  const [part] = found.parts.value;
  found.edit(part);
  found.typed(part, 'mine');
  server.hears(changed('Phone'));
  await server.answers_(1, review('2', [file('f', [B])]));
  assert.deepEqual(keysOf(found), ['(a)', 'b']);
  assert.deepEqual([found.of('a').draft.value, found.of('a').note.value], ['mine', 'Phone decided on this change.']);
  assert.equal(found.news.value, 'Phone decided on 1 change.');
  found.dispose();
  const { found: again } = await opened([file('f', [B])]);
  assert.deepEqual(keysOf(again), ['b', '(a)']);
  assert.equal(again.of('a').draft.value, 'mine');
  again.close(again.parts.value[1]);
  assert.deepEqual(kept.reviewDrafts('p'), {});
});

test('an edit from an earlier visit is restored as a draft', async () => {
  const { found } = await opened([file('f', [hunk('a')])], 'r');
  found.typed(found.parts.value[0], 'mine');
  found.dispose();
  const { found: again } = await opened([file('f', [hunk('a')])], 'r');
  const [part] = again.parts.value;
  assert.deepEqual(
    [again.of('a').draft.value, again.of('a').isEditing.value, again.hasDraft(part)],
    ['mine', false, true],
  );
  again.discard(part);
  assert.deepEqual(kept.reviewDrafts('r'), {});
});

test('an edit that changes nothing is not kept', async () => {
  const { found } = await opened([file('f', [hunk('a')])], 'q');
  const [part] = found.parts.value;
  found.edit(part);
  assert.equal(found.of('a').draft.value, 'new');
  assert.equal(found.back(part), true);
  assert.deepEqual([found.of('a').draft.value, found.back(part)], [undefined, false]);
});

test('a review that has changed is loaded again, and its buttons show it', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  void found.decideAll('keep', '1');
  await server.refuses(1, 'HUNK_GONE');
  assert.match(
    found.of(ALL).note.value,
    /^The review has changed since you saw it, so your decision was not applied\./,
  );
  assert.deepEqual(server.asked[2], ['review_get', {}]);
});

test('a refusal names the files that have changed since', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B])]);
  void found.decideAll('keep', '1');
  await server.refuses(1, 'HUNK_GONE', { paths: ['f'], files: 3 });
  assert.match(found.of(ALL).note.value, /Read what is new in f and 2 other files, then decide again\.$/);
});

test('changes that arrive while the review is loading are loaded once afterwards', async () => {
  const { server, found } = await opened([file('f', [hunk('a')])]);
  for (let n = 0; n < 5; n++) server.hears(changed('Phone'));
  await server.answers_(1, review('2', [file('f', [B])]));
  await server.answers_(2, review('3', [file('f', [hunk('c')])]));
  assert.equal(server.asked.length, 3);
  assert.deepEqual(keysOf(found), ['c']);
});

test('a review is closed if its directory is missing, and shows the drafts again once it exists', async () => {
  const { server, found } = await opened([file('f', [hunk('a'), B]), file('g', [hunk('c')])], 'gone');
  const [first, , last] = found.parts.value;
  for (const part of [first, last]) {
    found.edit(part);
    found.typed(part, 'mine');
  }
  void found.decide(found.parts.value[1], 'keep');
  await server.refuses(1, 'INVALID_PATH');
  await server.refuses(2, 'INVALID_PATH');
  assert.deepEqual(keysOf(found), []);
  assert.equal(found.problem.value, 'Refused.');
  assert.equal(found.version.value, undefined, 'it is not an empty review');
  void found.load();
  await server.answers_(3, review('2', [file('f', [hunk('a')])]));
  assert.deepEqual(keysOf(found), ['(c)', 'a']);
  assert.deepEqual([found.of('a').draft.value, found.of('c').draft.value], ['mine', 'mine']);
  assert.equal(found.problem.value, '');
});

test('a review that the server can’t read stays as it was', async () => {
  const { server, found } = await opened([file('f', [hunk('a')])]);
  void found.load();
  await server.refuses(1, 'CHECKPOINT_NOT_FOUND');
  assert.deepEqual(keysOf(found), ['a']);
});

const BOARD = { add: () => () => {} };

/** The first render of a part. */
const firstRender = async (found, number = 0, rights = { mayDecide: true, whyNot: '' }) => {
  const [{ file: of }] = found.files.value;
  const props = { file: of, part: found.parts.value[number], place: '', review: found, board: BOARD, rights, acts: {} };
  const look = drawn(PartView, props);
  await new Promise((later) => setTimeout(later, 0)); // the updates that rendering has caused come before timers
  return look;
};

/** The texts of the buttons, with "(off)" if they are disabled. Buttons without text (line numbers) are left out. */
const buttonsOf = (element) => {
  const found = [];
  const visit = (one) => {
    if (one.localName === 'button' && one.textContent)
      found.push(`${one.textContent}${one.attributes.disabled || one.disabled ? ' (off)' : ''}`);
    for (const child of one.childNodes) visit(child);
  };
  visit(element);
  return found;
};

test('a hunk is drawn with its lines and its buttons', async () => {
  const { found } = await opened([file('src/f', [hunk('a')])], 'drawn');
  const look = await firstRender(found);
  assert.match(look.textContent, /^Line 5 f/);
  assert.match(look.textContent, /old.*new/);
  assert.deepEqual(buttonsOf(look), ['Keepa', 'Undou', 'Edite']);
  assert.match(markup(look), /<table>/);
  const reading = await firstRender(found, 0, { mayDecide: false, whyNot: '' });
  assert.deepEqual(buttonsOf(reading), []);
});

test('during a run a hunk can only be kept', async () => {
  const { found } = await opened([file('f', [hunk('a')])], 'drawn');
  const look = await firstRender(found, 0, { mayDecide: true, whyNot: 'The agent is working.' });
  assert.deepEqual(buttonsOf(look), ['Keepa', 'Undou (off)', 'Edite (off)']);
});

test('a shortened hunk has to be expanded before it is decided', async () => {
  const { found } = await opened([file('f', [hunk('a', { added: 'x\n'.repeat(500) })])], 'drawn');
  const look = await firstRender(found);
  assert.equal(found.of('a').unopened.value, 1);
  assert.equal(found.isClosed(found.parts.value[0]), true);
  assert.deepEqual(buttonsOf(look).slice(1), ['Keepa (off)', 'Undou (off)', 'Edite']);
});

// The numbers on the buttons that open the review.

test('the numbers of a review are from the last message about it', () => {
  const server = new Server();
  const reviews = new Reviews(server);
  reviews.look('p');
  reviews.look('p');
  assert.deepEqual(server.asked, [['review_get', {}]], 'asked once');
  server.hears(changed('Phone'));
  assert.deepEqual(reviews.open('p'), { files: 1, hunks: 2, added: 3, removed: 4 });
  server.hears({ type: 'review', project_id: 'p', data: review('1', []) });
  assert.equal(reviews.open('p'), undefined);
  assert.deepEqual(numbersOf(review('1', [file('f', [hunk('a')]), file('g', [], { added: 7 })], 2)), {
    files: 4,
    hunks: 2,
    added: 8,
    removed: 1,
    more: true,
  });
});

test('kept changes can be committed until the review reports otherwise', () => {
  const server = new Server();
  const reviews = new Reviews(server);
  const kept = (paths, offer = { message: 'one' }) =>
    server.hears({ type: 'review', project_id: 'p', data: { ...review('1', []), kept: paths, commit: offer } });
  assert.equal(reviews.kept('p'), 0);
  kept(['f', 'g'], null);
  assert.equal(reviews.kept('p'), 0, 'this server makes no commits');
  kept(['f', 'g']);
  assert.equal(reviews.kept('p'), 2);
  reviews.look('p');
  assert.deepEqual(server.asked, [], 'the number is already known');
  for (const update_type of ['review_changed', 'review_committed']) {
    server.asked = [];
    server.hears({ type: 'update', project_id: 'p', data: { update_type, data: { files: 0 } } });
    assert.equal(reviews.kept('p'), 2);
    reviews.look('p');
    reviews.look('p');
    assert.deepEqual(server.asked, [['review_get', {}]]);
  }
  kept([]);
  assert.equal(reviews.kept('p'), 0);
  kept(['f']);
  server.may = (type) => type !== 'review_commit';
  assert.equal(reviews.kept('p'), 0);
});

test('the numbers of a review are those of its project until a message about the review arrives', () => {
  const server = new Server();
  const reviews = new Reviews(server);
  const stored = { files: 7, hunks: 9, added: 3, removed: 4 };
  server.hears({ type: 'project_list', data: { projects: [{ id: 'p', review: stored }, { id: 'q' }] } });
  assert.deepEqual(reviews.open('p'), stored);
  assert.equal(reviews.open('q'), undefined);
  reviews.look('p');
  assert.deepEqual(server.asked, [['review_get', {}]], 'the files may have changed since');
  const state = (data) => ({ type: 'update', project_id: 'q', data: { update_type: 'project_state', data } });
  server.hears(state({ id: 'q', review: stored }));
  server.hears(state({ id: 'q' }));
  assert.deepEqual(reviews.open('q'), stored);
  server.hears(state({ id: 'q', review: { ...stored, files: 0 } }));
  assert.equal(reviews.open('q'), undefined);
});
