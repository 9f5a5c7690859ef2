"""The web UI, the terminal client and VS Code use the same words for the same things. The web UI's code runs in Node.js."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from drawbridge.agents import registry
from drawbridge.agents.tool_calls import Act
from drawbridge.server.protocol.messages import IN_TERMINAL
from drawbridge.server.terminal_sessions import dialog, questions
from drawbridge.text import review_words
from drawbridge.tui import asides, search_dialog, tool_words, wording
from drawbridge.tui.approval_words import ApprovalState, notice, reason_hint, ways
from drawbridge.tui.colors import DARK, LIGHT
from drawbridge.tui.connection import UNANSWERED
from drawbridge.tui.review import commit_dialog
from tests import programs
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parent.parent

COLOR = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")

REASONS = [
    *(
        questions.ELSEWHERE,
        questions.GONE,
        questions.ENDED,
        questions.NOT_DELIVERED,
        questions.NO_LONGER_WAITED,
        IN_TERMINAL,
    ),
    dialog.OVERRULED.format("allowed"),
]
ANSWERS: list[dict[str, Any]] = [
    *({"reason": reason} for reason in REASONS),
    {"decision": "allow", "by": "phone"},
    {"decision": "allow", "by": "phone", "edited": True},
    {"decision": "deny", "by": "phone"},
    {"decision": "deny", "by": "phone", "message": "not now"},
]
REQUEST: dict[str, Any] = {"tool_name": "Bash", "kind": "command", "input": {"command": "make"}}
PLAN: dict[str, Any] = {"tool_name": "ExitPlanMode", "kind": "plan", "input": {"plan": "# Plan"}}
QUESTION: dict[str, Any] = {
    "tool_name": "AskUserQuestion",
    "kind": "question",
    "input": {"questions": [{"question": "Which wood?", "options": [{"label": "oak"}]}]},
}
ANSWERED = {"decision": "allow", "by": "phone", "updated_input": {"answers": {"Which wood?": "oak"}}}
SEVERAL = {
    "decision": "allow",
    "by": "phone",
    "updated_input": {"answers": {"Which wood?": ["oak", "ash"], "Why?": "x"}},
}
SETTLED: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    *((answer, request, is_mine) for answer in ANSWERS for request in (REQUEST, PLAN) for is_mine in (False, True)),
    *((answer, QUESTION, is_mine) for answer in (ANSWERED, SEVERAL, *ANSWERS[-2:]) for is_mine in (False, True)),
]
"""Answers to approval requests, each with its request and whether it was given from the same client."""

PROJECTS: list[dict[str, Any]] = [
    *({"state": state} for state in ("IDLE", "EXECUTING", "ERROR")),
    *({"desk": {"state": state}} for state in ("working", "waiting", "finished", "ended")),
    {"desk": {"state": "waiting", "in_terminal": True}},
    {"desk": {"state": "ended", "continued_in": "another"}},
    {"desk": {"state": "working", "background_tasks": {"agent": 1}}},
    {"state": "IDLE", "approvals": [{}]},
    {"state": "IDLE", "approvals": [{}, {}]},
    {"state": "IDLE", "problem": "The directory is missing"},
]
LIMITS = ["2000-01-01T10:00:00Z"]
"""The end of a limit that has passed. For one in the future, the text contains a local time, which depends on the time
zone.
"""

RETRIES: list[dict[str, Any]] = [
    {"attempt": 3, "attempts": 10, "reason": "authentication_failed", "status": 401},
    {"attempt": 1, "attempts": 10, "reason": "server_error", "status": 500},
    {"attempt": 2, "attempts": 3, "reason": "overloaded", "status": None},
]

HUNK = {"id": "h", "kind": "lines", "old_start": 5, "new_start": 5, "removed": "a\n", "added": "b\n"}
FILE = {"path": "a", "change": "changed", "old_mode": "100644", "new_mode": "100644", "hunks": []}
FILES: list[dict[str, Any]] = [
    *({}, {"old_path": "b"}, {"new_mode": "100755"}, {"old_mode": "100755"}, {"new_mode": "120000"}, {"binary": True}),
    *({"new_mode": mode, "binary": True} for mode in ("100755", "120000")),
    {"change": "added", "old_mode": None},
    {"change": "added", "old_mode": None, "new_mode": "100755", "binary": True},
    {"change": "deleted", "new_mode": None},
    {"change": "deleted", "old_mode": "120000", "new_mode": None},
]
HUNKS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *(
        (FILE, {**HUNK, **texts})
        for texts in ({}, {"added": "b\nc\n"}, {"added": ""}, {"added": "", "removed": "a\nb\n"})
    ),
    ({**FILE, "new_mode": "100755"}, {**HUNK, "kind": "mode"}),
    ({**FILE, "old_path": "b"}, {**HUNK, "kind": "name"}),
    *(({**FILE, **one}, {**HUNK, "kind": "file", "added": added}) for one in FILES for added in ("b\n", "")),
]
GONE: list[dict[str, Any]] = [
    {}, {"by": "Bob"}, *({"by": "Bob", "decision": one} for one in ("keep", "undo", "edit")),
    {"path": "a.py"}, {"path": "a.py", "line": 12},
]  # fmt: skip

PLACES: list[dict[str, Any]] = [
    {"side": side, "line": 5, "end_line": end} for side in ("new", "old") for end in (5, 7)
]  # fmt: skip
QUOTES = ["a\n", "a\r\nb\r\n", "a\r\nb\n", "\n", "a"]

ACTS: dict[str, str] = {
    **registry.tools("claude").acts,
    **registry.tools("codex").acts,
    "Dream": "a later server’s word",
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in (*ACTS, "Strange", "mcp__github__create_issue")),
    *((name, {"file_path": "/p/src/a.py"}) for name in ("Read", "Edit", "Write", "Strange")),
    *(("Read", {"file_path": "/q/a.py", "offset": 5, **more}) for more in ({}, {"limit": 3}, {"limit": "3"})),
    ("Read", {"file_path": "/p/a.py", "offset": True}),
    ("NotebookEdit", {"notebook_path": "/p/a.ipynb"}),
    *(("Bash", {"command": command}) for command in ("npm test", "\n make \n make check", "x" * 300, 5)),
    *(("Grep", {"pattern": "TODO", **where}) for where in ({}, {"path": "/p/src"}, {"glob": "*.py"})),
    *(("Glob", given) for given in ({"pattern": "*.py", "path": "/p/src"}, {"path": "/p/src"})),
    ("WebFetch", {"url": "https://example.org"}),
    ("WebSearch", {"query": "drawbridge"}),
    *(("Task", {name: "look around"}) for name in ("description", "subagent_type", "prompt")),
    *(("AskUserQuestion", {"questions": asked}) for asked in ([{"question": "Which wood?"}], [], ["odd"], "odd")),
    *(("BashOutput", {name: "b1"}) for name in ("bash_id", "shell_id", "task_id")),
    ("Skill", {"skill": "review"}),
    ("apply_patch", {"patch": "*** Add File: /p/a\n*** Update File: b \n+x\n*** Delete File: b\n*** End"}),
    ("apply_patch", {"patch": "odd"}),
    ("mcp__github__create_issue", {"count": 1, "title": "Broken\nfor all"}),
    ("Strange", {"empty": "", "text": "words"}),
]
"""Tool calls: the tool's name and the input, in the project ``/p``."""

SUGGESTED = {"always": [{"text": "x"}], "suggestions": [{"type": "setMode", "mode": "acceptEdits"}]}


def label(request: dict[str, Any], button: str, **state: Any) -> str:
    """The label of a button of the terminal client, without its key."""
    words = ways(request, ApprovalState(**state))[button].plain
    return words.partition(" ")[2] if button != "reject" or request["kind"] != "question" else words


SENTENCES = {
    "approvals/answers.tsx": [
        *(notice(REQUEST, ApprovalState(may_answer=False), None), reason_hint(PLAN, "Claude")),
        reason_hint(REQUEST, "").removeprefix("Tell"),
        *(label(PLAN | SUGGESTED, "accept"), label(PLAN | SUGGESTED, "always"), label(PLAN, "reject")),
        *(label(REQUEST, "reject", mode="reject"), label(REQUEST, "accept", mode="edit")),
    ],
    "approvals/card-view.tsx": [notice({**REQUEST, "truncated": {}}, ApprovalState(), None)],
    "approvals/question.tsx": [
        *(f"'{label(QUESTION, 'accept', next_question=another)}'" for another in (False, True)),
        f'"{label(QUESTION, "reject")}"',
    ],
    "approvals/questions.ts": ["Pick an option or type an answer for “", "Type an answer for “"],
    "protocol/connection.ts": [UNANSWERED],
    "projects/start.tsx": ["Not installed on the server.", " · doesn’t ask before it changes files"],
    "run/foot.tsx": [
        *(wording.rights({}, may_answer=may_answer) for may_answer in (False, True)),
        *(wording.rights({"desk": {"state": state}}, may_answer=True) for state in ("ended", "working")),
    ],
    "conversation/items.tsx": [asides.SUMMARY, asides.CONTEXT],
    "search/page.tsx": [search_dialog.MORE, *(f"{kind}: '{words}'" for kind, words in search_dialog.KINDS.items())],
    "review/comments.ts": [review_words.CHANGED, review_words.NOT_AS_SHOWN, review_words.AFTER_WORK],
    "composer/composer.tsx": [review_words.STEER, review_words.QUEUE],
    "review/page.tsx": [review_words.ONLY_NEW, review_words.OTHERS_HIDDEN],
    "review/part.tsx": [review_words.NEW],
    "review/commit.ts": [review_words.COMMIT_LOST],
    "review/comment-view.tsx": [
        *(review_words.STEER, review_words.QUEUE),
        *(review_words.NOT_A_DRAFT, review_words.UNFINISHED, review_words.MAY_NOT_SEND, review_words.NO_COMMENTS),
        *(review_words.OUTDATED, *review_words.STATES.values(), *map(review_words.suggestion_words, ("x", ""))),
        *("It has not been sent. It can’t be restored.", "Remove this comment?", "Write a comment"),
        "The agent will be asked to write these lines instead:",
        "The agent will be asked to remove the lines. To replace them, write the new ones:",
    ],
    "review/commit-view.tsx": [
        *(review_words.COMMIT_WORKING, review_words.COMMIT_HINT, review_words.NOTHING_LEFT, "What was kept: "),
        *commit_dialog.BRANCHES,
    ],
    "review/push.ts": [review_words.PUSH_LOST],
    "review/push-view.tsx": [
        *(review_words.PUSH_HINT, review_words.NOTHING_TO_PUSH, "No pull request can be created: "),
        *("There is nothing new to push from ", " as a new branch."),
    ],
}

MOVED: list[dict[str, Any]] = [
    {},
    {"paths": ["a"], "files": 1},
    {"paths": ["a", "b"], "files": 2},
    {"paths": ["a", "b"], "files": 1_200},
]

SCRIPT = """
await import(process.argv[1] + '/dom.mjs');
document.createElementNS = (_, name) => document.createElement(name);
const page = await import(process.argv[1] + '/modules.mjs');
const { goneWords, liftedWords, retryWords, settledWords, standing, titleOf, wordsOf } = page;
const { linesWords, movedWords, suggestedField, suggestedText, learn, subject, verb } = page;
const examples = JSON.parse(process.argv[2]);
const { acts, answers, calls, gone, hunks, limits, moved, places, projects, quotes, retries, states } = examples;
learn([{ tools: acts }]);
const words = {
  calls: calls.map(([name, input]) => subject({ name, input }, '/p').words),
  verbs: Object.keys(acts).concat('Strange').map((name) => states.map((state) => verb({ name }, state))),
  answers: answers.map((given) => settledWords(...given).words),
  limits: limits.map((one) => liftedWords(one)),
  gone: gone.map(goneWords),
  hunks: hunks.map(([file, hunk]) => [titleOf(hunk), wordsOf(file, hunk), wordsOf(file)]),
  moved: moved.map(movedWords),
  places: places.map(linesWords),
  suggestions: quotes.map((one) => [suggestedField(one), suggestedText(one, 'x\\ny'), suggestedText(one, '')]),
  kinds: page.KINDS,
  retries: retries.map(retryWords),
  states: projects.map((one) => standing({ approvals: [], ...one }).words),
};
console.log(JSON.stringify(words));
"""


@cache
def page() -> Any:
    """Returns the web UI's texts for the examples above, by the kind of example."""
    asked = {"answers": SETTLED, "limits": LIMITS, "projects": PROJECTS}
    asked |= {"acts": ACTS, "calls": CALLS, "states": get_args(tool_words.State)}
    asked |= {"retries": RETRIES, "gone": GONE, "hunks": HUNKS, "moved": MOVED, "places": PLACES, "quotes": QUOTES}
    given = json.dumps(asked)
    command = [str(programs.node()), "--input-type=module", "--eval", SCRIPT, str(programs.page_units()), given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", range(len(SETTLED)))
def test_clients_describe_a_resolved_approval_the_same_way(number: int) -> None:
    answer, request, is_mine = SETTLED[number]
    assert page()["answers"][number] == wording.settled_words(answer, request, is_mine=is_mine)


@pytest.mark.parametrize("number", range(len(PROJECTS)))
def test_clients_name_the_state_of_a_project_the_same_way(number: int) -> None:
    assert page()["states"][number] == wording.project_state(PROJECTS[number])


def test_clients_name_the_end_of_a_limit_the_same_way() -> None:
    assert page()["limits"] == [wording.lifted(one, datetime.now(UTC)) for one in LIMITS]


def test_the_web_ui_has_words_for_everything_that_tools_do() -> None:
    assert {*page()["kinds"]} == {*get_args(Act), "other"}


def test_clients_name_the_files_that_have_changed_the_same_way() -> None:
    words = [review_words.refused_words("HUNK_GONE", details, "", "", is_hunk=False) for details in MOVED]
    assert page()["moved"] == words


def test_clients_have_the_same_verbs_for_tools() -> None:
    verbs = [
        [tool_words.verb(name, state, ACTS) for state in get_args(tool_words.State)] for name in (*ACTS, "Strange")
    ]
    assert page()["verbs"] == verbs


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_clients_describe_a_tool_call_the_same_way(number: int) -> None:
    name, given = CALLS[number]
    assert page()["calls"][number] == tool_words.subject(name, given, "/p", ACTS)


def test_clients_describe_a_retry_the_same_way() -> None:
    assert page()["retries"] == [wording.agent_words({"retry": one}) for one in RETRIES]


@pytest.mark.parametrize("number", range(len(HUNKS)))
def test_clients_describe_a_hunk_the_same_way(number: int) -> None:
    file, hunk = HUNKS[number]
    words = [review_words.title(hunk), review_words.words(file, hunk), review_words.words(file, None)]
    assert page()["hunks"][number] == words


def test_clients_describe_a_decided_hunk_the_same_way() -> None:
    assert page()["gone"] == [review_words.gone_words(**one) for one in GONE]


REFUSED: list[tuple[str, dict[str, Any], bool]] = [
    *(("HUNK_GONE", {"gone": "h", **given}, is_hunk) for given in GONE for is_hunk in (True, False)),
    *(("HUNK_GONE", details, False) for details in MOVED),
    ("REVIEW_CLASH", {"paths": ["a", "b"]}, True),
    ("REVIEW_CLASH", {}, True),
    ("PROCESS_ACTIVE", {}, True),
]
IN_VS_CODE = """
const { allWords, fileWords, goneWords, NEW, onlyNewWords, OTHERS_HIDDEN } = require(process.argv[1]);
const { refusedWords, title, words } = require(process.argv[1]);
const { files, gone, hunks, refused } = JSON.parse(process.argv[2]);
console.log(JSON.stringify({
  files: files.map(fileWords),
  gone: gone.map(({ by, decision, path, line }) => goneWords(by, decision, path, line)),
  hunks: hunks.map(([file, hunk]) => [title(hunk), words(file, hunk), words(file, null)]),
  refused: refused.map(([code, details, isHunk]) => refusedWords(code, details, 'Busy.', isHunk)),
  visits: [NEW, OTHERS_HIDDEN, allWords(true), allWords(false), onlyNewWords(1, 1), onlyNewWords(2, 5)],
}));
"""


def test_vs_code_describes_reviews_like_the_other_clients() -> None:
    files = [{**FILE, **one} for one in FILES]
    asked = json.dumps({"files": files, "gone": GONE, "hunks": HUNKS, "refused": REFUSED})
    command = [
        str(programs.node()),
        "--eval",
        IN_VS_CODE,
        str(ROOT / "extensions" / "vscode" / "review_words.js"),
        asked,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "files": [review_words.file_words(file) for file in files],
        "gone": [review_words.gone_words(**one) for one in GONE],
        "hunks": [
            [review_words.title(hunk), review_words.words(file, hunk), review_words.words(file, None)]
            for file, hunk in HUNKS
        ],
        "refused": [
            review_words.refused_words(code, details, "Busy.", str(details.get("by") or ""), is_hunk=is_hunk)
            for code, details, is_hunk in REFUSED
        ],
        "visits": [
            *(review_words.NEW, review_words.OTHERS_HIDDEN),
            *(review_words.all_words(has_new=has_new) for has_new in (True, False)),
            *(review_words.only_new_words(*numbers) for numbers in ((1, 1), (2, 5))),
        ],
    }


def test_clients_name_the_lines_of_a_comment_the_same_way() -> None:
    words = [review_words.lines_words(one["side"], one["line"], one["end_line"]) for one in PLACES]
    assert page()["places"] == words


def test_clients_write_a_suggestion_the_same_way() -> None:
    found = [
        [review_words.suggested_field(one), *(review_words.suggested_text(one, text) for text in ("x\ny", ""))]
        for one in QUOTES
    ]
    assert page()["suggestions"] == found


@pytest.mark.parametrize("file", SENTENCES)
def test_the_web_ui_has_the_sentences_of_the_other_clients(file: str) -> None:
    """The texts in ``SENTENCES`` are in functions that need a browser, so the test looks for them in the source."""
    source = "".join((ROOT / "web" / "src" / file).read_text().split())
    missing = [words for words in SENTENCES[file] if "".join(words.split()) not in source]
    assert missing == []


def test_clients_use_the_same_colors() -> None:
    """``drawbridge attach`` has fewer colors than the web UI."""
    found = COLOR.findall((ROOT / "web" / "src" / "styles" / "base.css").read_text())
    of_web = {name.replace("-", "_"): (light, dark) for name, light, dark in found}
    shared = [name for name in LIGHT._fields if name in of_web]
    assert len(shared) > len(LIGHT._fields) // 2
    assert {name: (getattr(LIGHT, name), getattr(DARK, name)) for name in shared} == {
        name: of_web[name] for name in shared
    }
