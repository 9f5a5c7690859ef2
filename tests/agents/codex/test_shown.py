"""How the history shows the items of ``codex exec --json``."""

from __future__ import annotations

from typing import Any

import pytest

from drawbridge.agents.codex.shown import Shown
from tests.agents.rig import blocks


def shown_of(item: dict[str, Any], shown: Shown | None = None, *, is_over: bool = True) -> list[dict[str, Any]]:
    return blocks((shown or Shown("p.")).add("s1", {"id": "item_0", **item}, is_over=is_over))


def test_a_command_is_shown_once_when_it_begins() -> None:
    shown, command = Shown("p."), {"type": "command_execution", "command": "ls"}
    [called] = shown_of(command, shown, is_over=False)
    assert called == {"type": "tool_use", "id": "p.item_0", "name": "Bash", "input": {"command": "ls"}}
    assert shown_of(command, shown, is_over=False) == []
    [result] = shown_of(command | {"aggregated_output": "a\n", "exit_code": 2, "status": "failed"}, shown)
    assert result == {"type": "tool_result", "tool_use_id": "p.item_0", "content": "a\n", "is_error": True}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "agent_message", "text": "Done."}, [{"type": "text", "text": "Done."}]),
        ({"type": "reasoning", "text": "Hm"}, [{"type": "thinking", "thinking": "Hm"}]),
        ({"type": "error", "message": "Deprecated"}, [{"type": "text", "text": "Deprecated"}]),
        ({"type": "todo_list", "items": []}, []),
        ({"type": "agent_message", "text": 3}, []),
        ({}, []),
    ],
)
def test_messages_of_codex_are_shown(item: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    assert shown_of(item) == expected
    assert shown_of(item, is_over=False) == []


def test_each_changed_file_is_shown() -> None:
    changes = [{"path": "/p/a", "kind": "add"}, {"path": "/p/b", "kind": "update"}, {"path": 3}, "odd"]
    shown = shown_of({"type": "file_change", "changes": changes, "status": "completed"})
    assert [(one["id"], one["name"], one["input"]["file_path"]) for one in shown[::2]] == [
        ("p.item_0.0", "Write", "/p/a"),
        ("p.item_0.1", "Edit", "/p/b"),
    ]
    assert [one["tool_use_id"] for one in shown[1::2]] == ["p.item_0.0", "p.item_0.1"]


@pytest.mark.parametrize(
    ("end", "result", "is_error"),
    [
        ({"result": {"content": [{"type": "text", "text": "4"}, 7]}, "status": "completed"}, "4", False),
        ({"error": {"message": "no such table"}, "status": "failed"}, "no such table", True),
        ({"result": 7}, "", False),
    ],
)
def test_a_call_of_an_mcp_server_is_shown(end: dict[str, Any], result: str, is_error: bool) -> None:
    item = {"type": "mcp_tool_call", "server": "db", "tool": "query", "arguments": {"sql": "x"}}
    called, answered = shown_of(item | end)
    assert (called["name"], called["input"]) == ("mcp__db__query", {"sql": "x"})
    assert (answered["content"], answered["is_error"]) == (result, is_error)
