"""The history shows each Agent Client Protocol tool call once, in the form that clients display."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents.acp.messages import Update
from drawbridge.agents.acp.shown import Shown, name_and_input
from drawbridge.agents.acp.text import other_content
from tests.agents.rig import blocks

DIFF = {"type": "diff", "path": "/p/poem.txt", "oldText": "one\ntwo\n", "newText": "one\nzwei\n"}


def words(text: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": text}}


@pytest.mark.parametrize(
    ("fields", "name", "given"),
    [
        (
            {"kind": "execute", "title": "List files", "rawInput": {"command": "ls", "timeout": 5}},
            "Bash",
            {"command": "ls", "title": "List files", "timeout": 5},
        ),
        ({"kind": "execute", "title": "touch made"}, "Bash", {"command": "touch made"}),
        ({"kind": "execute", "rawInput": {"command": ["bash", "-lc", "ls"]}}, "Bash", {"command": "bash -lc ls"}),
        (
            {"kind": "edit", "title": "Edit", "content": [DIFF]},
            "Edit",
            {"file_path": "/p/poem.txt", "title": "Edit"},
        ),
        ({"kind": "read", "title": "/p/a", "locations": [{"path": "/p/a"}]}, "Read", {"file_path": "/p/a"}),
        (
            {"kind": "fetch", "title": "a", "rawInput": {"url": "b"}},
            "WebFetch",
            {"url": "b", "title": "a"},
        ),
        ({"kind": "search", "title": "'x' in src"}, "Grep", {"pattern": "'x' in src"}),
        ({"kind": "edit", "title": "Edit something"}, "Edit something", {}),
        ({"kind": "think", "title": "Ask the docs", "rawInput": {"q": "?"}}, "Ask the docs", {"q": "?"}),
        ({"kind": "other", "rawInput": [1]}, "other", {"input": [1]}),
        ({}, "Tool", {}),
        ({"kind": 3, "title": ["x"], "rawInput": "x", "locations": 7, "content": ["x"]}, "Tool", {"input": "x"}),
    ],
)
def test_tool_calls_are_shown_as_the_equivalent_claude_tool(
    fields: dict[str, Any], name: str, given: dict[str, Any]
) -> None:
    assert name_and_input(fields) == (name, given)


def test_a_call_is_shown_immediately_and_updated_later() -> None:
    shown, fields = Shown(), {"kind": "execute", "title": "Terminal", "status": "pending"}
    first = shown.add("s1", "1", fields)
    assert shown.add("s1", "1", fields | {"status": "in_progress", "content": [words("a")]}) == []
    second = shown.add("s1", "1", fields | {"rawInput": {"command": "ls"}})
    end = shown.add("s1", "1", fields | {"rawInput": {"command": "ls"}, "status": "completed", "content": [words("a")]})
    assert [(block["id"], block["input"].get("command")) for block in blocks([*first, *second])] == [
        ("1", "Terminal"),
        ("1", "ls"),
    ]
    assert blocks(end) == [
        {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}], "is_error": False}
    ]


def test_a_call_first_reported_at_its_end_shows_its_result() -> None:
    fields = {"kind": "edit", "title": "poem.txt", "status": "completed", "content": [DIFF]}
    called, result = shown = Shown().add("s1", "1", fields)
    assert [block["type"] for block in blocks(shown)] == ["tool_use", "tool_result"]
    assert json.loads(result.raw)["tool_use_result"]["structuredPatch"] == [
        {"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" one", "-two", "+zwei"]}
    ]
    assert called.session_id == result.session_id == "s1"


def test_only_the_latest_open_calls_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """This bounds the memory for calls whose end is never reported. A forgotten call is shown again when it is updated."""
    monkeypatch.setattr("drawbridge.agents.acp.shown.MOST_CALLS", 2)
    shown = Shown()
    assert [len(shown.add("s1", id, {"title": "Look"})) for id in ("1", "2", "3", "3", "2", "1")] == [1, 1, 1, 0, 0, 1]


def test_the_result_text_shows_the_changes_to_each_file() -> None:
    other = DIFF | {"path": "/p/new.txt", "oldText": None}
    [_, result] = blocks(Shown().add("s1", "1", {"kind": "edit", "status": "completed", "content": [DIFF, other]}))
    assert [block["text"] for block in result["content"]] == [
        "/p/poem.txt:\n one\n-two\n+zwei",
        "/p/new.txt:\n+one\n+zwei",
    ]


def test_a_failed_call_shows_no_change() -> None:
    fields = {"kind": "edit", "status": "failed", "content": [DIFF, words("no such file")]}
    [_, result] = Shown().add("s1", "1", fields)
    assert "tool_use_result" not in json.loads(result.raw)
    [block] = blocks([result])
    assert (block["is_error"], block["content"][0]["text"]) == (True, "no such file")


def test_images_and_links_in_a_result_are_shown() -> None:
    parts = [
        {"type": "content", "content": {"type": "image", "mimeType": "image/png", "data": "aGk="}},
        {"type": "content", "content": {"type": "resource_link", "uri": "file:///p/a"}},
        {"type": "terminal", "terminalId": "t"},
        {"type": "content"},
        7,
    ]
    [_, result] = blocks(Shown().add("s1", "1", {"title": "Look", "status": "completed", "content": parts}))
    assert result["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "text", "text": "file:///p/a"},
    ]


@pytest.mark.parametrize(
    ("content", "block"),
    [
        (
            {"type": "image", "mimeType": "image/png", "data": "aGk="},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        ),
        ({"type": "resource_link", "uri": "file:///p/a"}, {"type": "text", "text": "file:///p/a"}),
        ({"type": "resource", "resource": {"uri": "file:///p/a", "text": "a"}}, {"type": "text", "text": "a"}),
    ],
)
def test_images_and_links_in_an_answer_are_shown(content: dict[str, Any], block: dict[str, Any]) -> None:
    given = Raw(json.dumps(content).encode())
    line = other_content("s1", Update(sessionUpdate="agent_message_chunk", content=given))
    assert line is not None
    assert blocks([line]) == [block]
    assert other_content("s1", Update(sessionUpdate="agent_thought_chunk", content=given)) is None
