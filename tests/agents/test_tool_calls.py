"""The meaning of tool calls, in terms that all agents share."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents import catalog, registry
from drawbridge.agents.base import Form, Proposal
from drawbridge.agents.proposals import in_editor
from drawbridge.agents.tool_calls import Other, ToolCall, UnknownTools, shown_name

AGENTS = [row.name for row in catalog.ROWS]


def call(agent: str, tool: str, given: dict[str, Any], suggestions: Any = (), form: Form = "fields") -> ToolCall:
    return registry.tools(agent).call(tool, given, Raw(json.dumps(suggestions).encode()), form)


@pytest.mark.parametrize("tool", ["new_tool", "mcp__files__write", ""])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_call_of_an_unknown_tool_has_no_editable_fields(agent: str, tool: str) -> None:
    """``approve`` may change only fields that Drawbridge knows to be answers or text."""
    found = call(agent, tool, {"content": "x", "new_string": "x", "answers": {}, "questions": [], "file_path": "/a"})
    assert (found.kind, found.answers, found.texts, found.is_only_command) == ("tool", "", (), False)


def test_calls_of_an_agent_without_known_tools_cannot_be_edited() -> None:
    found = UnknownTools().call("Write", {"content": "x", "command": "ls"}, Raw(b'[{"type":"x"}]'), "fields")
    assert found == ToolCall(name="Write", grants=(Other(suggestion=0, text='{"type": "x"}'),))
    assert UnknownTools().with_text("Write", {"content": "x"}, "x", "y") is None
    assert UnknownTools().changed_text("Write", {"content": "x"}, "x") is None


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Bash", "Bash"),
        ("mcp__github__create_issue", "create_issue (github)"),
        ("mcp__github__create__issue", "create__issue (github)"),
        ("mcp__github", "mcp__github"),
        ("mcp__github__", "mcp__github__"),
        ("my__own__tool", "my__own__tool"),
    ],
)
def test_the_tool_of_an_mcp_server_is_shown_by_its_own_name(name: str, shown: str) -> None:
    assert shown_name(name) == shown


def test_an_edited_change_of_an_editor_is_written_as_edited() -> None:
    tools, question = registry.tools("gemini"), in_editor("q", Proposal("/p/a.py", "old\n", "new\n"))
    given = json.loads(bytes(question.input))
    assert tools.changed_text(question.tool_name, given, "old\n") == "new\n"
    edited = tools.with_text(question.tool_name, given, "old\n", "mine\n")
    assert edited is not None
    assert tools.changed_text(question.tool_name, edited, "old\n") == "mine\n"
    assert tools.call(question.tool_name, given, question.suggestions, "fields").paths == ("/p/a.py",)


def test_the_diff_of_an_editor_shows_the_whole_call() -> None:
    tools, question = registry.tools("gemini"), in_editor("q", Proposal("/p/a.py", "old\n", "new\n"))
    name, given = question.tool_name, json.loads(bytes(question.input))
    assert tools.shown_fields(name, given, Proposal("/p/a.py", "old\n", "new\n")) == ("file_path", "content")
    for other in (Proposal("/p/b.py", "old\n", "new\n"), Proposal("/p/a.py", "old\n", "else\n")):
        assert tools.shown_fields(name, given, other) == ()
    assert tools.shown_fields("another", given, Proposal("/p/a.py", "old\n", "new\n")) == ()


@pytest.mark.parametrize("agent", AGENTS)
def test_no_field_of_an_unknown_tool_is_in_the_diff(agent: str) -> None:
    given = {"file_path": "/p/a.py", "content": "new\n"}
    assert registry.tools(agent).shown_fields("new_tool", given, Proposal("/p/a.py", "old\n", "new\n")) == ()


def test_an_edit_of_an_acp_call_is_never_sent() -> None:
    """The protocol has no answer that changes a call."""
    given = {"content": [{"type": "diff", "path": "/a", "oldText": "x", "newText": "y"}]}
    for agent in ("gemini", "an ACP agent"):
        assert registry.tools(agent).with_text("edit", given, "x", "z") is None
        assert call(agent, "edit", given, form="acp").editable == ()


def test_only_a_plain_shell_command_is_marked_as_such() -> None:
    shell = {"command": "ls", "description": "Lists"}
    assert call("claude", "Bash", shell).is_only_command
    assert call("codex", "Bash", shell).is_only_command
    assert not call("claude", "Bash", {**shell, "run_in_background": True}).is_only_command
    assert not call("claude", "Monitor", shell).is_only_command
    assert not call("codex", "Bash", {**shell, "directory": "/srv"}).is_only_command
    assert not call("gemini", "execute", {"title": "ls"}, form="acp").is_only_command
