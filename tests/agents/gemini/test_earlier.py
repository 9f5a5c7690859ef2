"""The messages of a conversation that Gemini CLI stored are read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import EarlierMessage
from drawbridge.agents.gemini.earlier import messages, page
from drawbridge.agents.gemini.sessions import GeminiSessionFiles

EVER = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
LATER = "2026-11-27T09:00:01.000Z"
CALL = {"id": "c1", "name": "replace", "args": {"file_path": "/p/poem.txt", "old_string": "two"}, "status": "success"}


def line(id: str, type: str, content: Any, *, minute: int = 0, **more: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": f"2026-11-27T09:{minute:02}:00.000Z", "type": type, "content": content, **more}


def written(directory: Path, *lines: Any) -> Path:
    file = directory / "session.jsonl"
    file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return file


def texts(found: list[EarlierMessage]) -> list[Any]:
    """Returns the text of each prompt and the first content block of each other line."""
    return [one.prompt if one.prompt is not None else json.loads(one.line)["message"]["content"][0] for one in found]


def test_a_later_line_of_a_message_replaces_the_earlier_one(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"sessionId": "s1", "kind": "main"},
        line("u0", "user", [{"text": "<session_context>\nToday is Friday.\n</session_context>"}]),
        line("u1", "user", [{"text": "Translate it"}]),
        line("g1", "gemini", "I will.", thoughts=[{"subject": "Words", "description": "Two is zwei."}]),
        {"$set": {"lastUpdated": "2026-11-27T09:00:01.000Z"}},
        line(
            "g1",
            "gemini",
            "I will.",
            toolCalls=[CALL | {"resultDisplay": {"originalContent": "a\n", "newContent": "b\n"}}],
        ),
        line("i1", "info", "Update available"),
        line("u2", "user", [{"functionResponse": {"id": "c1"}}]),
    )
    [prompt, words, call, result] = found = messages(file, "s1", *EVER)
    assert texts(found)[:3] == [
        "Translate it",
        {"type": "text", "text": "I will."},
        {"type": "tool_use", "id": "c1", "name": "Edit", "input": CALL["args"]},
    ]
    assert json.loads(result.line)["tool_use_result"]["structuredPatch"][0]["lines"] == ["-a", "+b"]
    assert (prompt.turn, prompt.time) == ("u1", datetime(2026, 11, 27, 9, tzinfo=UTC))
    assert words.uuid == call.uuid == "g1"


@pytest.mark.parametrize(
    ("content", "prompts"),
    [
        ([{"text": "Translate it"}, {"text": "<hook_context>The file is open.</hook_context>"}], ["Translate it"]),
        ([{"text": "<hook_context>The file is open.</hook_context>"}], []),
        (["Translate ", {"text": "it"}, 7], ["Translate it"]),
        (
            [{"text": "Look at @a"}, {"text": "\n--- Content from referenced files ---"}, {"text": "one"}],
            ["Look at @a"],
        ),
        ([{"text": "[System: You successfully executed a tool but said nothing.]"}], []),
        ([{"text": "<review_comments>\nShorter, please.\n</review_comments>"}], ["Shorter, please."]),
        (None, []),
    ],
)
def test_only_text_from_the_user_is_a_prompt(tmp_path: Path, content: Any, prompts: list[str]) -> None:
    assert texts(messages(written(tmp_path, line("u1", "user", content)), "s1", *EVER)) == prompts


@pytest.mark.parametrize(
    ("contents", "title"),
    [
        (["Translate\n it", "Go on"], "Translate it"),
        (["<session_context>", [{"text": "Go"}, {"text": "<hook_context>Open</hook_context>"}]], "Go"),
        ([[{"inlineData": {"mimeType": "image/png", "data": ""}}]], None),
    ],
)
def test_the_title_is_the_first_prompt(tmp_path: Path, contents: list[Any], title: str | None) -> None:
    id = "6a6a6a6a-0000-4000-8000-000000000001"
    chats = tmp_path / "tmp" / "poems" / "chats"
    chats.mkdir(parents=True)
    (chats.parent / ".project_root").write_text(str(tmp_path))
    lines = [line(f"u{number}", "user", content) for number, content in enumerate(contents)]
    written(chats, {"sessionId": id, "kind": "main"}, *lines).rename(chats / f"session-2026-11-27T09-00-{id[:8]}.jsonl")
    [found] = GeminiSessionFiles(tmp_path).listed(tmp_path, 10)
    assert (found.session_id, found.title) == (id, title)


def test_thoughts_and_other_results_are_shown(tmp_path: Path) -> None:
    answer = [{"functionResponse": {"response": {"error": "no such file"}}}]
    calls = [
        {"id": "c1", "name": "read_file", "args": {"absolute_path": "/p/a"}, "status": "error", "result": answer},
        {"id": "c2", "name": "run_shell_command", "args": {"command": "ls"}, "status": "success", "resultDisplay": "a"},
        {"id": "c3", "name": "mine", "args": 7, "status": "cancelled"},
        {"id": 4, "name": "mine"},
    ]
    thoughts = [{"subject": "Files", "description": "There are some."}, {}, 7]
    found = texts(
        messages(written(tmp_path, line("g1", "gemini", "", thoughts=thoughts, toolCalls=calls)), "s1", *EVER)
    )
    assert found[0] == {"type": "thinking", "thinking": "Files\n\nThere are some."}
    assert [one.get("input", (one.get("content"), one.get("is_error"))) for one in found[1:]] == [
        {"file_path": "/p/a"},
        ("no such file", True),
        {"command": "ls"},
        ("a", False),
        {},
        ("", True),
    ]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"$rewindTo": "b"}, ["one"]),
        ({"$rewindTo": "unknown"}, []),
        ({"$set": {"messages": [line("z", "user", "other"), {"id": 3}, 7]}}, ["other"]),
        ({"$set": {"messages": [line("z", "user", "other"), {"id": "y", "timestamp": LATER}]}}, ["other"]),
        ("{not json", ["one", "two", "three"]),
        ("7", ["one", "two", "three"]),
    ],
)
def test_messages_that_were_removed_are_not_shown(tmp_path: Path, change: Any, left: list[str]) -> None:
    prompts = [line(id, "user", words) for id, words in (("a", "one"), ("b", "two"), ("c", "three"))]
    assert texts(messages(written(tmp_path, *prompts, change), "s1", *EVER)) == left


def test_only_messages_between_two_times_are_read(tmp_path: Path) -> None:
    file = written(tmp_path, *(line(f"u{minute}", "user", f"{minute}", minute=minute) for minute in range(5)))
    between = (datetime(2026, 11, 27, 9, 1, tzinfo=UTC), datetime(2026, 11, 27, 9, 4, tzinfo=UTC))
    assert texts(messages(file, "s1", *between)) == ["2", "3"]
    assert messages(tmp_path / "missing", "s1", *EVER) == []


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, line("u1", "user", "one"))
    monkeypatch.setattr("drawbridge.agents.gemini.earlier.LARGEST", file.stat().st_size)
    assert texts(messages(file, "s1", *EVER)) == ["one"]
    monkeypatch.setattr("drawbridge.agents.gemini.earlier.LARGEST", file.stat().st_size - 1)
    assert messages(file, "s1", *EVER) == []


def test_a_message_at_an_impossible_time_is_skipped(tmp_path: Path) -> None:
    odd = line("u1", "user", "odd") | {"timestamp": "0001-01-01T00:00:00+14:00"}
    assert texts(messages(written(tmp_path, odd, line("u2", "user", "sound")), "s1", *EVER)) == ["sound"]


@pytest.mark.parametrize(("limit", "size"), [(2, 1_000), (10, 2)])
def test_pages_follow_each_other_from_the_end(tmp_path: Path, limit: int, size: int) -> None:
    found = messages(written(tmp_path, *(line(f"u{n}", "user", f"{n}") for n in range(5))), "s1", *EVER)
    pages: list[Any] = []
    end: int | None = None
    while not pages or end is not None:
        one = page(found, end=end, limit=limit, size=size)
        pages.append(texts(list(one.messages)))
        end = one.before
    assert pages == [["3", "4"], ["1", "2"], ["0"]]
