"""The texts of an approval request, which all clients use."""

from __future__ import annotations

import json
import os.path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec import Raw

from drawbridge.agents import registry
from drawbridge.agents.base import Form, Proposal
from drawbridge.agents.claude.suggestions import remembered
from drawbridge.server.approvals.pending import with_call
from drawbridge.server.approvals.words import LONGEST_PATH, MOST_RISKS, Words, words
from drawbridge.server.events import ApprovalRequested

ROOT = "/home/ada/blog"


def said(
    tool: str,
    given: Any = None,
    proposal: Proposal | None = None,
    *,
    suggestions: Any = (),
    changeable: bool = True,
    agent: str = "claude",
    form: Form = "fields",
) -> Words:
    raw = [Raw(json.dumps(one).encode()) for one in ({} if given is None else given, suggestions)]
    request = ApprovalRequested("appr_1", "run_1", tool, raw[0], raw[1], proposal, changeable, form=form)
    call = with_call(request, registry.tools("gemini" if form == "acp" else agent)).call
    assert call is not None
    return words(request, call, agent, ROOT, os.path.normpath)


def change(path: str, old: str = "old\n") -> Proposal:
    return Proposal(path, old, "new\n")


@pytest.mark.parametrize(
    ("tool", "given", "proposal", "kind", "text", "path"),
    [
        ("Edit", {"file_path": f"{ROOT}/src/a.py"}, change(f"{ROOT}/src/a.py"), "edit", "wants to edit", "src/a.py"),
        ("Edit", {"file_path": f"{ROOT}/a.py"}, None, "edit", "wants to edit", "a.py"),
        ("Write", {"file_path": f"{ROOT}/a.py"}, change(f"{ROOT}/a.py", ""), "create", "wants to create", "a.py"),
        ("Write", {"file_path": f"{ROOT}/a.py"}, change(f"{ROOT}/a.py"), "overwrite", "wants to overwrite", "a.py"),
        ("Write", {"file_path": "/etc/motd"}, None, "overwrite", "wants to write", "/etc/motd"),
        (
            "NotebookEdit",
            {"notebook_path": f"{ROOT}/a.ipynb"},
            None,
            "notebook",
            "wants to edit the notebook",
            "a.ipynb",
        ),
        ("NotebookEdit", {}, None, "notebook", "wants to edit a notebook", None),
        ("Write", {}, None, "overwrite", "wants to write a file", None),
        ("Bash", {"command": "ls"}, None, "command", "wants to run a command", None),
        ("Monitor", {"command": "ls"}, None, "command", "wants to run a command", None),
        ("WebFetch", {"url": "https://x.example"}, None, "fetch", "wants to fetch a web page", None),
        ("WebSearch", {"query": "x"}, None, "search", "wants to search the web", None),
        ("Grep", {"pattern": "x"}, None, "search", "wants to search", None),
        ("Read", {"file_path": f"{ROOT}/.env"}, None, "read", "wants to read", ".env"),
        ("AskUserQuestion", {"questions": [{}]}, None, "question", "has a question", None),
        ("AskUserQuestion", {"questions": [{}, {}, {}]}, None, "question", "has 3 questions", None),
        ("AskUserQuestion", {"questions": 3}, None, "question", "has a question", None),
        ("Task", {}, None, "tool", "wants to use Task", None),
        ("mcp__github__create_issue", {}, None, "tool", "wants to use create_issue (github)", None),
        ("mcp__github", {}, None, "tool", "wants to use mcp__github", None),
    ],
)
def test_a_title_names_the_tool_and_the_file(
    tool: str, given: Any, proposal: Proposal | None, kind: str, text: str, path: str | None
) -> None:
    found = said(tool, given, proposal)
    assert (found.kind, found.title.text, found.title.path) == (kind, f"Claude {text}", path)


@pytest.mark.parametrize(
    ("tool", "given", "summary"),
    [
        ("Bash", {"command": "cat secret"}, "Run a command"),
        ("Edit", {"file_path": "/secret"}, "Edit a file"),
        ("ExitPlanMode", {"plan": "secret"}, "Approve a plan"),
        ("AskUserQuestion", {"questions": []}, "Answer a question"),
        ("mcp__github__create_issue", {"title": "secret"}, "Use create_issue (github)"),
    ],
)
def test_a_summary_contains_no_part_of_the_input(tool: str, given: dict[str, Any], summary: str) -> None:
    assert said(tool, given).summary == summary


def test_a_plan_has_its_own_title() -> None:
    assert said("ExitPlanMode", {"plan": "# Plan"}).title.text == "Claude’s plan"


def test_an_agent_without_a_display_name_is_named_by_its_id() -> None:
    found = said("execute", acp("execute"), agent="pelican", form="acp")
    assert found.title.text == "The pelican agent wants to run a command"


@pytest.mark.parametrize(
    ("tool", "given", "kind", "text", "path"),
    [
        ("apply_patch", {"add": f"{ROOT}/a.py", "patch": "x"}, "create", "wants to create", "a.py"),
        ("apply_patch", {"delete": "/etc/motd", "patch": "x"}, "delete", "wants to delete", "/etc/motd"),
        ("apply_patch", {"add": f"{ROOT}/a", "update": f"{ROOT}/b\n{ROOT}/c"}, "edit", "wants to edit 3 files", None),
        ("Bash", {"command": "ls", "directory": "/srv"}, "command", "wants to run a command", None),
        ("mcp__github__create_issue", {}, "tool", "wants to use create_issue (github)", None),
    ],
)
def test_a_codex_call_has_a_title(tool: str, given: Any, kind: str, text: str, path: str | None) -> None:
    found = said(tool, given, agent="codex", changeable=False)
    assert (found.kind, found.title.text, found.title.path) == (kind, f"Codex {text}", path)


def test_a_change_that_was_proposed_to_an_editor_has_a_title() -> None:
    given = {"file_path": f"{ROOT}/a.py", "content": "new\n"}
    found = said("Write", given, change(f"{ROOT}/a.py"), agent="gemini")
    assert (found.kind, found.title.text, found.title.path) == ("overwrite", "Gemini wants to overwrite", "a.py")
    assert found.editable == ("content",)


def acp(kind: str, *paths: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "diff", "path": path, "oldText": "a", "newText": "b"} for path in paths]
    return {"toolCallId": "t1", "kind": kind, "title": "Change it", "content": content, **more}


@pytest.mark.parametrize(
    ("kind", "call", "text", "path"),
    [
        ("edit", acp("edit", f"{ROOT}/a.py"), "wants to edit", "a.py"),
        ("edit", acp("edit", f"{ROOT}/a.py", f"{ROOT}/b.py"), "wants to edit 2 files", None),
        ("edit", acp("edit"), "wants to edit a file", None),
        ("execute", acp("execute"), "wants to run a command", None),
        ("delete", acp("delete", locations=[{"path": f"{ROOT}/a.py"}]), "wants to delete", "a.py"),
        ("other", acp("other"), "wants to use a tool", None),
    ],
)
def test_an_acp_tool_call_has_a_title(kind: str, call: dict[str, Any], text: str, path: str | None) -> None:
    found = said(kind, call, agent="gemini", form="acp")
    assert (found.title.text, found.title.path) == (f"Gemini {text}", path)


def test_an_acp_command_is_marked_in_its_own_field() -> None:
    [risk] = said("execute", acp("execute", rawInput={"command": "sudo ls"}), form="acp").risks
    assert (risk.code, risk.field, risk.start, risk.end) == ("sudo", "rawInput.command", 0, 4)
    [risk] = said("execute", acp("execute") | {"title": "sudo ls"}, form="acp").risks
    assert (risk.code, risk.field) == ("sudo", "title")
    [risk] = said("execute", acp("execute", rawInput={"command": ["sh", "-c", "sudo ls"]}), form="acp").risks
    assert (risk.code, risk.field, risk.end) == ("sudo", "rawInput.command", 0)


def test_the_command_of_any_tool_is_marked() -> None:
    risks = said("mcp__shell__run", {"description": "sudo", "command": "ls; sudo ls"}).risks
    assert [(risk.code, risk.field, risk.start) for risk in risks] == [("sudo", "command", 4)]
    risks = said("other", acp("other", rawInput={"command": "sudo ls"}), form="acp").risks
    assert [(risk.code, risk.field) for risk in risks] == [("sudo", "rawInput.command")]


def test_an_acp_call_of_kind_other_is_described_as_a_tool() -> None:
    found = said("other", acp("other"), form="acp")
    assert (found.title.text, found.summary) == ("Claude wants to use a tool", "Use a tool")
    assert said("other").title.text == "Claude wants to use other"


def test_an_input_that_only_looks_like_acp_is_not_acp() -> None:
    """The input of an MCP tool may have any fields, since the model chooses them."""
    evil = {"toolCallId": "t", "kind": "edit", "content": [{"path": "/etc/motd"}], "command": "sudo ls"}
    found = said("Bash", evil)
    assert (found.kind, found.title.path) == ("command", None)
    assert [(risk.code, risk.field) for risk in found.risks] == [("sudo", "command")]


def test_a_flag_of_an_acp_call_is_marked_in_any_position() -> None:
    call = acp("execute", dangerouslySkip=True, rawInput={"command": "ls", "dangerouslyDisableSandbox": True})
    fields = [risk.field for risk in said("execute", call, form="acp").risks]
    assert fields == ["dangerouslySkip", "rawInput.dangerouslyDisableSandbox"]


def test_a_file_outside_the_project_is_marked() -> None:
    [risk] = said("Write", {"file_path": "/home/ada/.profile", "content": "x"}).risks
    assert (risk.code, risk.field, risk.end) == ("outside_project", "file_path", len("/home/ada/.profile"))
    assert said("Write", {"file_path": f"{ROOT}/a", "content": "sudo rm -rf /"}).risks == ()


def test_a_call_outside_the_sandbox_is_marked() -> None:
    [risk] = said("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}).risks
    assert (risk.code, risk.field) == ("no_sandbox", "dangerouslyDisableSandbox")
    assert said("Bash", {"command": "ls", "dangerouslyDisableSandbox": False}).risks == ()


def test_a_call_in_the_background_is_marked() -> None:
    [risk] = said("Bash", {"command": "ls", "run_in_background": True}).risks
    assert (risk.code, risk.field, risk.text) == ("background", "run_in_background", "Runs in the background")
    assert said("Bash", {"command": "ls", "run_in_background": False}).risks == ()


RULE = {"type": "addRules", "behavior": "allow", "destination": "localSettings"}
MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


@pytest.mark.parametrize(
    ("suggestion", "text", "saved_in"),
    [
        (MODE, "Accept all edits for this session", ""),
        ({**MODE, "mode": "auto"}, "Switch to “auto” mode for this session", ""),
        (
            {
                **RULE,
                "rules": [{"toolName": "Bash", "ruleContent": "npm run *"}, {"toolName": "Bash", "ruleContent": "ls"}],
            },
            "Always allow `npm run …` and `ls` in this project",
            ".claude/settings.local.json",
        ),
        (
            {**RULE, "rules": [{"toolName": "Bash", "ruleContent": "make:*"}], "destination": "projectSettings"},
            "Always allow `make …` in this project, for everyone who works in it",
            ".claude/settings.json",
        ),
        (
            {
                **RULE,
                "rules": [{"toolName": "WebFetch", "ruleContent": "domain:x.example"}],
                "destination": "userSettings",
            },
            "Always allow web pages from `x.example` in all projects",
            "~/.claude/settings.json",
        ),
        (
            {**RULE, "rules": [{"toolName": "Bash"}]},
            "Always allow every command in this project",
            ".claude/settings.local.json",
        ),
        (
            {**RULE, "rules": [{"toolName": "Bash", "ruleContent": ":*"}]},
            "Always allow `:*` in this project",
            ".claude/settings.local.json",
        ),
        (
            {**RULE, "rules": [{"toolName": "mcp__a__b"}], "destination": "session"},
            "Always allow b (a) for this session",
            "",
        ),
        (
            {"type": "addDirectories", "directories": ["/srv/a", "/srv/b"], "destination": "session"},
            "Always allow access to `/srv/a` and `/srv/b` for this session",
            "",
        ),
        ({"type": "removeRules", "rules": []}, 'Always apply {"type": "removeRules", "rules": []}', ""),
        ({**RULE, "rules": ["odd"], "destination": "moon"}, 'Always allow "odd" ("moon")', ""),
        ({**RULE, "rules": ["odd"], "destination": "project"}, 'Always allow "odd" ("project")', ""),
        ({**RULE, "rules": ["odd"], "destination": ""}, 'Always allow "odd" ("")', ""),
    ],
)
def test_an_always_option_shows_its_effect_and_where_it_is_saved(
    suggestion: dict[str, Any], text: str, saved_in: str
) -> None:
    [always] = said("Bash", {"command": "ls"}, suggestions=[suggestion]).always
    assert (always.text, always.suggestion, always.saved_in) == (text, 0, saved_in)


def test_the_projects_own_directory_is_not_offered() -> None:
    """Claude Code 2.1.329 suggests this directory for ``touch x``, but asks again the next time even if the user has
    accepted it.
    """

    def offered(*paths: str) -> list[str]:
        suggestion = {"type": "addDirectories", "directories": paths, "destination": "session"}
        return [one.text for one in said("Bash", {"command": "touch x"}, suggestions=[suggestion]).always]

    assert offered(ROOT) == offered(f"{ROOT}/", f"{ROOT}/src") == []
    assert offered(ROOT, "/srv") == [f"Always allow access to `{ROOT}` and `/srv` for this session"]
    assert offered(f"{ROOT}2") == [f"Always allow access to `{ROOT}2` for this session"]


def test_the_always_option_of_an_acp_agent_keeps_its_name() -> None:
    options = [
        {"optionId": "once", "kind": "allow_once"},
        {"optionId": "always", "kind": "allow_always", "name": "Always Allow"},
    ]
    [always] = said("execute", acp("execute"), suggestions=options, form="acp").always
    assert (always.text, always.suggestion) == ("Always Allow", 1)
    assert said("execute", acp("execute"), suggestions=[options[1], options[1]], form="acp").always == ()


SUGGESTION = some.sampled_from([MODE, {**RULE, "rules": [{"toolName": "Bash"}]}, {"type": "new"}, {}])


@given(some.lists(SUGGESTION, max_size=4))
def test_always_options_match_what_the_driver_remembers(suggestions: list[dict[str, Any]]) -> None:
    found = said("Bash", {"command": "ls"}, suggestions=suggestions).always
    raw = Raw(json.dumps(suggestions).encode())
    assert [suggestions[one.suggestion] for one in found] == remembered(raw)


@pytest.mark.parametrize("suggestions", [None, 3, {}, ["odd"], [MODE, "odd"], "x"])
def test_suggestions_of_unknown_form_are_ignored(suggestions: Any) -> None:
    assert said("Bash", {"command": "ls"}, suggestions=suggestions).always == ()


@pytest.mark.parametrize(
    ("tool", "given", "fields"),
    [
        ("Bash", {"command": "ls", "description": "d"}, ("command",)),
        ("ExitPlanMode", {"plan": "x"}, ("plan",)),
        ("mcp__a__b", {"text": "x", "count": 3}, ("text",)),
        ("NotebookEdit", {"cell_id": "c", "new_source": "x"}, ("new_source",)),
        ("NotebookEdit", {"cell_id": "c", "new_source": "", "edit_mode": "delete"}, ()),
    ],
)
def test_the_fields_that_can_be_edited_are_listed(tool: str, given: Any, fields: tuple[str, ...]) -> None:
    assert said(tool, given).editable == fields
    assert said(tool, given, changeable=False).editable == ()


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
TOOLS = ["Bash", "Edit", "Write", "NotebookEdit", "ExitPlanMode", "AskUserQuestion", "WebFetch", "execute", "edit", "x"]
TOOLS += ["apply_patch", "other"]
FIELDS = ["command", "file_path", "content", "locations", "toolCallId", "rawInput", "title", "questions", "plan", "url"]
FIELDS += ["add", "update"]


def test_all_of_a_path_is_in_the_title() -> None:
    """Clients show the path only in the title."""
    path = "/p" + "/./" * 400 + "../../.ssh/authorized_keys"
    assert (said("Write", {"file_path": path, "content": ""}).title.path or "").endswith("/.ssh/authorized_keys")


@given(
    some.sampled_from([("claude", "fields"), ("codex", "fields"), ("gemini", "fields"), ("gemini", "acp")]),
    some.sampled_from(TOOLS),
    some.dictionaries(some.sampled_from(FIELDS), JSON | some.fixed_dictionaries({"command": JSON}), max_size=6) | JSON,
    JSON | some.lists(some.dictionaries(some.sampled_from(["type", "rules", "optionId", "mode", "destination"]), JSON)),
)
def test_every_input_has_valid_texts(asks: tuple[str, Form], tool: str, given: Any, suggestions: Any) -> None:
    agent, form = asks
    found = said(tool, given, suggestions=suggestions, agent=agent, form=form)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Words) == found
    assert found.title.text
    assert len(found.risks) <= MOST_RISKS
    assert len(found.title.path or "") <= LONGEST_PATH + 1
