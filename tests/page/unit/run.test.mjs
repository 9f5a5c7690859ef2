import assert from 'node:assert/strict';
import { test } from 'node:test';

import { learn } from '../../../web/src/conversation/tool-kinds.ts';
import { contextWords, doing, retryWords, running } from '../../../web/src/run/doing.ts';
import { problemOf } from '../../../web/src/run/problem.ts';
import { duration } from '../../../web/src/ui/dom.ts';
import { AGENTS } from './tools.mjs';

learn(AGENTS);

test('a running call is described by a verb', () => {
  const words = (name, input) => doing({ name, input }, '/a');
  assert.equal(words('Bash', { command: 'cd web && npm test -- --watch' }), 'Running tests');
  assert.equal(words('Bash', { command: '.venv/bin/python -m pytest -q' }), 'Running tests');
  assert.equal(words('Bash', { command: 'git status\ngit log' }), 'Running git status');
  assert.equal(words('Edit', { file_path: '/a/notes.md' }), 'Editing notes.md');
  assert.equal(words('apply_patch', { patch: '*** Update File: /a/notes.md' }), 'Editing notes.md');
  assert.equal(words('apply_patch', {}), 'Editing a file');
  assert.equal(words('Dream', {}), 'Using Dream');
  assert.equal(words('Grep', { pattern: 'is_open', path: 'src' }), 'Searching for is_open in src');
  assert.equal(words('WebFetch', { url: 'https://example.org/a?b' }), 'Fetching https://example.org/a?b');
  assert.equal(words('mcp__tickets__create', {}), 'Using create (tickets)');
  assert.equal(words('Bash', { command: 7 }), 'Running a command');
  assert.equal(words('Read', null), 'Reading a file');
  assert.ok(words('Bash', { command: 'x'.repeat(1e6) }).length < 80);
});

test('a running call whose input is incomplete is described by a whole sentence', () => {
  const found = ['Grep', 'Glob', 'WebFetch', 'WebSearch', 'AskUserQuestion', 'BashOutput', 'KillShell'];
  assert.deepEqual(
    found.map((name) => doing({ name, input: {} }, '/a')),
    [
      'Searching for text',
      'Looking for files',
      'Fetching a page',
      'Searching the web for pages',
      'Asking a question',
      'Reading output of a background task',
      'Stopping a background task',
    ],
  );
});

test('only calls of the latest run that have no result are running', () => {
  const tool = (id, more = {}) => ({ kind: 'tool', id, ...more });
  const items = [tool(1), { kind: 'finished' }, tool(2, { result: {} }), tool(3), tool(4, { nested: true })];
  assert.deepEqual(
    running(items).map(({ id }) => id),
    [3],
  );
});

test('retries and the context are described in a few words', () => {
  const retry = { attempt: 3, attempts: 10, reason: 'authentication_failed', status: 401 };
  assert.equal(retryWords(retry), 'Retrying 3 of 10: 401 authentication');
  assert.equal(retryWords({ attempt: 1, attempts: 2, reason: 'overloaded_error' }), 'Retrying 1 of 2: overloaded');
  assert.equal(contextWords(76_000, 200_000), '38% of 200k context');
  assert.equal(contextWords(1500, undefined), '2k tokens');
  assert.equal(contextWords(5, 1_000_000), '0% of 1M context');
  assert.equal(contextWords(undefined, 200_000), undefined);
});

test('S2-23: each error offers a suitable remedy', () => {
  const help = (code, more = {}) =>
    problemOf({ outcome: 'failed', code, ...more }, 'Claude', new Date('2026-01-01T12:00:00Z'));
  assert.deepEqual(help('AGENT_NOT_LOGGED_IN').help, ['login', 'retry']);
  assert.deepEqual(help('MODEL_UNAVAILABLE').help, ['retry']);
  assert.deepEqual(help('CONTEXT_TOO_LONG').help, ['compact', 'new']);
  const tooLong = problemOf({ outcome: 'failed', code: 'CONTEXT_TOO_LONG' }, 'Gemini', new Date(), false);
  assert.deepEqual(tooLong, {
    title: 'The conversation no longer fits in the context window',
    hint: 'Start a new session.',
    help: ['new'],
  });
  assert.deepEqual(help('AGENT_NOT_FOUND').help, ['install', 'retry']);
  assert.match(help('AGENT_EXITED').title, /process ended unexpectedly/);
  assert.match(help('AGENT_RATE_LIMITED', { retry_at: '2026-01-01T14:00:00Z' }).hint, /^It resets at /);
  assert.match(help('AGENT_RATE_LIMITED', { retry_at: '2026-01-01T11:00:00Z' }).hint, /has since reset/);
  assert.deepEqual(help('EXECUTION_FAILED').help, ['retry', 'new']);
  assert.equal(problemOf({ outcome: 'completed' }, 'Claude'), undefined);
  assert.equal(problemOf({ outcome: 'interrupted' }, 'Claude'), undefined);
});

test('an agent that the server no longer has is not said to be missing its program', () => {
  const failed = { outcome: 'failed', code: 'AGENT_NOT_FOUND' };
  const { title, hint, help } = problemOf(failed, 'The goose agent', new Date(), true, false);
  assert.equal(title, 'The server no longer has the goose agent');
  assert.match(hint, /^Choose another agent/);
  assert.deepEqual(help, ['retry'], 'without advice on how to install it');
});

test('a duration is rounded before it is divided into minutes', () => {
  assert.equal(duration(1_449), '1.4 s');
  assert.equal(duration(9_949), '9.9 s');
  assert.equal(duration(9_960), '10 s');
  assert.equal(duration(59_499), '59 s');
  assert.equal(duration(59_600), '1 min 00 s');
  assert.equal(duration(119_700), '2 min 00 s');
  assert.equal(duration(125_000), '2 min 05 s');
});
