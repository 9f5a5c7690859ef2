"""A transcript is read line by line as it grows, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.agents.claude.terminal import agent
from drawbridge.server.terminal_sessions import transcript_file
from drawbridge.server.terminal_sessions.transcript_file import TranscriptFile


def read(transcript: TranscriptFile) -> list[bytes]:
    found: list[bytes] = []
    more = True
    while more:
        lines, more = transcript.read()
        found += lines
    return found


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_file, "LONGEST_LINE", 100)
    monkeypatch.setattr(transcript_file, "PORTION", 64)


def test_a_line_that_is_too_long_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\n" + b"x" * 300 + b"\ntwo\n")
    transcript = TranscriptFile(agent(), str(file))
    assert read(transcript) == [b"one", b"two"]


def test_the_first_line_of_a_rewritten_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"one\n" + b"x" * 300)
    transcript = TranscriptFile(agent(), str(file))
    assert read(transcript) == [b"one"]
    file.write_bytes(b"two\nthree\n")
    assert read(transcript) == [b"two", b"three"]
