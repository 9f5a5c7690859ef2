"""What this machine remembers about reviews."""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.core import review_memory
from drawbridge.core.review_memory import Remembered, ReviewMemory


def test_programs_share_the_seen_changes(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "reviews.json")
    ReviewMemory(path).saw("/a", ["h1"], ["h1", "h2"])
    ReviewMemory(path).saw("/a", ["h2"], ["h1", "h2"])
    assert ReviewMemory(path).of("/a").seen == ("h1", "h2")
    assert (tmp_path / "state" / "reviews.json").stat().st_mode & 0o777 == 0o600


def test_hunks_that_have_left_the_review_are_forgotten(tmp_path: Path) -> None:
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    memory.saw("/a", ["h1", "h2"], ["h1", "h2"])
    memory.saw("/a", [], ["h2"])
    assert memory.of("/a") == Remembered(("h2",))


def test_directories_that_were_used_last_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_memory, "MOST_DIRECTORIES", 2)
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    for directory in ("/a", "/b", "/c"):
        memory.saw(directory, ["h"], ["h"])
    assert [memory.of(directory).seen for directory in ("/a", "/b", "/c")] == [(), ("h",), ("h",)]


def test_a_notice_is_new_only_once_for_each_directory(tmp_path: Path) -> None:
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    memory.saw("/a", ["h"], ["h"])
    assert [memory.saw_notice("/a"), memory.saw_notice("/a"), memory.saw_notice("/b")] == [True, False, True]
    memory.saw("/a", ["h2"], ["h", "h2"])
    assert memory.of("/a") == Remembered(("h", "h2"), notice=True)


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"/a": {"seen": 1}}'])
def test_a_damaged_file_counts_as_nothing_seen(tmp_path: Path, text: str) -> None:
    (tmp_path / "reviews.json").write_text(text)
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    assert memory.of("/a") == Remembered()
    memory.saw("/a", ["h"], ["h"])
    assert memory.of("/a").seen == ("h",)


def test_a_directory_that_cannot_be_written_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = ReviewMemory(str(tmp_path / "file" / "reviews.json"))
    memory.saw("/a", ["h"], ["h"])
    assert memory.of("/a") == Remembered()
