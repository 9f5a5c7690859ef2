import assert from 'node:assert/strict';
import { test } from 'node:test';

import { groups } from '../../../web/src/projects/rows.ts';
import { plainLine } from '../../../web/src/projects/words.ts';
import { best, score } from '../../../web/src/ui/fuzzy.ts';
import { nextWaiting } from '../../../web/src/ui/next.ts';

const project = (id, path, more) => ({ id, path, agent: 'demo', approvals: [], last_active: '2026-01-01', ...more });
const session = (project_id, session_id, more) => ({
  project_id,
  session_id,
  title: session_id,
  last_active: '2025',
  ...more,
});

test('all sessions of a directory are one group', () => {
  const found = groups(
    [project('p', '/home/ada/blog'), project('d', '/home/ada/blog', { desk: { state: 'finished' } })],
    [session('p', 'now', { current: true, added: 3 }), session('p', 'before'), session('gone', 'other')],
  );
  assert.equal(found.length, 1);
  assert.deepEqual(
    found[0].rows.map((row) => [row.title, row.current, row.words]),
    [
      ['now', true, 'Ready'],
      ['Terminal session', true, 'Idle in terminal'],
      ['before', false, 'Finished'],
    ],
  );
  assert.equal(found[0].rows[0].added, 3);
  assert.equal(found[0].rows[2].href, '#/p/p/s/before');
});

test('sessions that wait for a person come first, then the latest', () => {
  const found = groups(
    [
      project('a', '/a', { last_active: '2026-01-03' }),
      project('b', '/b', { last_active: '2026-01-02' }),
      project('c', '/c', { approvals: [{ tool_name: 'Bash', summary: 'Run a command' }] }),
    ],
    [],
  );
  assert.deepEqual(
    found.map(({ name }) => name),
    ['c', 'a', 'b'],
  );
  assert.equal(found[0].rows[0].preview, 'Run a command');
});

test('directories with the same name show where they are', () => {
  const found = groups([project('a', '/home/ada/work/blog'), project('b', '/home/bob/old/blog')], []);
  assert.deepEqual(found.map(({ hint }) => hint).sort(), ['…/ada/work', '…/bob/old']);
});

test('the filter searches title, directory, agent and preview', () => {
  const all = [project('a', '/work/blog', { title: 'Mend the gate' }), project('b', '/work/shop', { agent: 'gemini' })];
  const names = (filter) => groups(all, [], filter).map(({ name }) => name);
  assert.deepEqual(names('gate MEND'), ['blog']);
  assert.deepEqual(names('gemini'), ['shop']);
  assert.deepEqual(names('work').length, 2);
  assert.deepEqual(names('nothing'), []);
});

test('an idle session shows how much there is to review', () => {
  const words = (more) =>
    groups([project('a', '/a', { state: 'IDLE', review: { files: 7 }, ...more })], [])[0].rows[0].words;
  assert.equal(words(), '7 files to review');
  assert.equal(words({ review: { files: 1 } }), '1 file to review');
  assert.equal(words({ review: { files: 0 } }), 'Ready');
  assert.equal(words({ state: 'EXECUTING' }), 'Working');
  assert.equal(words({ state: 'ERROR' }), 'Last run failed');
  assert.equal(words({ approvals: [{}] }), 'Needs you');
  assert.equal(words({ desk: { state: 'finished' } }), '7 files to review');
  assert.equal(words({ desk: { state: 'ended' } }), '7 files to review');
  assert.equal(words({ desk: { state: 'ended' }, review: { files: 0 } }), 'Ended');
  assert.equal(words({ desk: { state: 'ended', continued_in: 'b' } }), 'Continued in the background');
});

test('a title is one line of bounded length', () => {
  const [group] = groups([project('a', '/a', { title: `first\nsecond ${'x'.repeat(1e6)}` })], []);
  assert.equal(group.rows[0].title, 'first');
  assert.equal(groups([project('a', '/a', { title: 'x'.repeat(1e6) })], [])[0].rows[0].title.length, 120);
});

test('a name is found by some of its letters in order, and better matches come first', () => {
  assert.equal(score('xyz', 'toll-house'), 0);
  assert.ok(score('tlho', 'toll-house') > 0);
  assert.deepEqual(
    best(['another house', 'House', 'hat on us'], 'house', (one) => one),
    ['House', 'another house'],
  );
  assert.deepEqual(
    best(['a', 'b'], ' ', (one) => one),
    ['a', 'b'],
  );
  assert.deepEqual(
    best(['Blog · Needs you'], 'needs blog', (one) => one),
    ['Blog · Needs you'],
  );
});

test('the next waiting session is not the one that is shown', () => {
  const world = (shown, waiting) => ({
    client: { projects: { sorted: () => waiting.map((id) => ({ id, approvals: [{}] })) } },
    place: { value: shown ? { view: 'project', project: shown } : { view: 'home' } },
  });
  assert.equal(nextWaiting(world(undefined, [])), undefined);
  assert.equal(nextWaiting(world(undefined, ['a'])), '#/p/a');
  assert.equal(nextWaiting(world('a', ['a'])), undefined);
  assert.equal(nextWaiting(world('a', ['a', 'b'])), '#/p/b');
  assert.equal(nextWaiting(world('b', ['a', 'b'])), '#/p/a');
});

test('a waiting session shows its request as the server describes it', () => {
  const asked = { approval_id: '1', tool_name: 'mcp__github__create_issue', summary: 'Use create_issue (github)' };
  const preview = (one) => groups([{ ...project('a', '/a'), approvals: [one] }], [])[0].rows[0].preview;
  assert.equal(preview(asked), 'Use create_issue (github)');
  assert.equal(preview({ ...asked, summary: '' }), 'Use mcp__github__create_issue');
});

test('the preview of a last line has no Markdown', () => {
  const lines = [
    ['The **ferns** and `two` [lemons](a.md)', 'The ferns and two lemons'],
    ['## Result', 'Result'],
    ['- [x] done', 'done'],
    ['a * b * c [1]', 'a * b * c [1]'],
  ];
  for (const [line, shown] of lines) assert.equal(plainLine(line), shown);
});
