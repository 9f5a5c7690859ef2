"""Messages are read from Claude Code's own conversation file: backwards in pages, or forwards from a position."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import EarlierMessages
from drawbridge.agents.claude import earlier, sessions

SESSION = "1c839b3a-0719-4371-94a4-d94be3a5abca"
NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))


def line(path: Path, number: int, words: str = "", **more: Any) -> dict[str, Any]:
    """Returns a line as Claude Code 2.1.329 writes it ``number`` seconds after noon: a prompt if ``number`` is even, an
    answer if it is odd.
    """
    stamp = (NOON + timedelta(seconds=number)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shared = {"uuid": f"u{number}", "timestamp": stamp, "cwd": str(path), "isSidechain": False} | more
    if number % 2 == 0:
        return {"type": "user", "promptId": f"p{number}", "message": {"content": words or f"prompt {number}"}} | shared
    content = [{"type": "text", "text": words or f"answer {number}"}]
    return {"type": "assistant", "message": {"role": "assistant", "content": content}} | shared


def write(path: Path, lines: list[dict[str, Any] | str]) -> Path:
    folder = sessions.directory_of(path)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{SESSION}.jsonl"
    file.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return file


def read(path: Path, **where: Any) -> EarlierMessages:
    usual = {"after": datetime.min.replace(tzinfo=UTC), "before": datetime.max.replace(tzinfo=UTC)}
    return earlier.messages(path, SESSION, **{**usual, "end": None, "limit": 100, "size": 10**6, **where})


def uuids(found: EarlierMessages) -> list[str]:
    return [message.uuid for message in found.messages]


def read_from(path: Path, start: int = 0, **where: Any) -> list[tuple[int, str]]:
    usual = {"after": datetime.min.replace(tzinfo=UTC), "before": datetime.max.replace(tzinfo=UTC)}
    found = earlier.messages_from(path, SESSION, **{**usual, "start": start, **where})
    return [(end, message.uuid) for end, message in found]


@pytest.mark.parametrize(
    ("metadata", "sizes"),
    [
        ({"trigger": "auto", "preTokens": 155_000, "postTokens": 9_000}, {"pre_tokens": 155_000, "post_tokens": 9_000}),
        ({"preTokens": "many"}, {}),
        (7, {}),
    ],
)
def test_a_compaction_has_the_same_form_as_in_the_stream(tmp_path: Path, metadata: Any, sizes: dict[str, int]) -> None:
    compacted = line(tmp_path, 1, type="system", subtype="compact_boundary", compactMetadata=metadata)
    write(tmp_path, [line(tmp_path, 0), compacted, line(tmp_path, 2, type="system", subtype="turn_duration")])
    [_, message] = read(tmp_path).messages
    found = json.loads(message.line)
    assert (found["type"], found["subtype"], found["compact_metadata"]) == ("system", "compact_boundary", sizes)


@pytest.mark.parametrize("chunk", [1, 7, 100, 10**6])
def test_pages_from_the_end_have_every_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(earlier, "CHUNK", chunk)
    noise: list[dict[str, Any] | str] = [
        "",
        "no json",
        '{"type":"api-request"}',
        '{"type":"last-prompt","timestamp":7}',
    ]
    write(
        tmp_path, [*(line(tmp_path, number) for number in range(5)), *noise, *(line(tmp_path, n) for n in range(5, 10))]
    )
    found: list[str] = []
    end = None
    for _ in range(20):
        page = read(tmp_path, limit=3, end=end)
        found = [*uuids(page), *found]
        end = page.before
        if end is None:
            break
    assert found == [f"u{number}" for number in range(10)]


def test_prompts_and_answers_are_distinguished(tmp_path: Path) -> None:
    write(tmp_path, [line(tmp_path, 0), line(tmp_path, 1)])
    prompt, answer = read(tmp_path).messages
    assert (prompt.prompt, prompt.turn, prompt.time) == ("prompt 0", "p0", NOON)
    assert json.loads(answer.line)["message"]["content"] == [{"type": "text", "text": "answer 1"}]


def test_only_messages_between_two_times_are_read(tmp_path: Path) -> None:
    write(tmp_path, [line(tmp_path, number) for number in range(10)])
    between = {"after": NOON + timedelta(seconds=2), "before": NOON + timedelta(seconds=6)}
    assert uuids(read(tmp_path, **between)) == ["u3", "u4", "u5"]


def test_messages_are_read_in_order_from_any_of_their_positions(tmp_path: Path) -> None:
    noise: list[dict[str, Any] | str] = ["", "no json", '{"type":"last-prompt","timestamp":7}']
    write(tmp_path, [line(tmp_path, 0), *noise, line(tmp_path, 1, "Grüße"), *noise, line(tmp_path, 2)])
    found = read_from(tmp_path)
    assert [uuid for _, uuid in found] == ["u0", "u1", "u2"]
    for number, (end, _) in enumerate(found):
        assert read_from(tmp_path, end) == found[number + 1 :]
    assert read_from(tmp_path, after=NOON, before=NOON + timedelta(seconds=2)) == found[1:2]


def test_a_message_at_an_impossible_time_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, [line(tmp_path, 0, timestamp="0001-01-01T00:00:00+14:00"), line(tmp_path, 1)])
    assert uuids(read(tmp_path)) == ["u1"]
    assert [uuid for _, uuid in read_from(tmp_path)] == ["u1"]


def test_a_page_is_bounded_in_bytes(tmp_path: Path) -> None:
    write(tmp_path, [line(tmp_path, number, "x" * 1_000) for number in range(10)])
    page = read(tmp_path, size=2_600)
    assert uuids(page) == ["u8", "u9"]
    assert uuids(read(tmp_path, size=10, end=page.before)) == ["u7"], "a page has at least one message"


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "LONGEST_LINE", 5_000)
    monkeypatch.setattr(earlier, "CHUNK", 300)
    write(tmp_path, [line(tmp_path, 0), line(tmp_path, 1, "x" * 6_000), line(tmp_path, 2)])
    assert uuids(read(tmp_path)) == ["u0", "u2"]
    assert [uuid for _, uuid in read_from(tmp_path)] == ["u0", "u2"]


def test_the_search_for_messages_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(earlier, "SEARCHED_BYTES", 1_000)
    write(tmp_path, [line(tmp_path, 0), *('{"type":"api-request"}' for _ in range(100)), line(tmp_path, 1)])
    page = read(tmp_path, limit=2)
    assert uuids(page) == ["u1"]
    pages = 1
    while page.before is not None:
        page, pages = read(tmp_path, limit=2, end=page.before), pages + 1
    assert uuids(page) == ["u0"]
    assert 3 <= pages <= 5


def test_a_conversation_of_another_directory_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, [line(tmp_path / "elsewhere", 0)])
    assert read(tmp_path) == EarlierMessages((), None)
    assert read_from(tmp_path) == []


@pytest.mark.parametrize("session_id", ["", "../x", f"{SESSION}/../x", "x" * 36])
def test_an_invalid_session_id_opens_no_file(tmp_path: Path, session_id: str) -> None:
    write(tmp_path, [line(tmp_path, 0)])
    moments = {"after": datetime.min.replace(tzinfo=UTC), "before": datetime.max.replace(tzinfo=UTC)}
    assert earlier.messages(tmp_path, session_id, **moments, end=None, limit=9, size=9) == EarlierMessages((), None)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    file = write(tmp_path, [line(tmp_path, 0)])
    file.rename(tmp_path / "secret.jsonl")
    file.symlink_to(tmp_path / "secret.jsonl")
    assert read(tmp_path) == EarlierMessages((), None)
