"""What this machine remembers about reviews."""

from __future__ import annotations

import contextlib
import fcntl
import threading
from pathlib import Path

import pytest

from drawbridge.core import private_files, review_memory
from drawbridge.core.review_memory import ReviewMemory, SeenReviews, review_key
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX
from tests.waiting import PATIENCE


def test_programs_share_the_seen_changes(tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "reviews.json")
    ReviewMemory(path).saw("/a", ["h1"], ["h1", "h2"])
    ReviewMemory(path).saw("/a", ["h2"], ["h1", "h2"])
    assert ReviewMemory(path).of("/a").seen == ("h1", "h2")
    assert (tmp_path / "state" / "reviews.json").stat().st_mode & 0o777 == 0o600


def test_simultaneous_stores_keep_what_other_programs_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "reviews.json")
    both_have_read = threading.Barrier(2)

    def write_late(path: str, data: bytes) -> None:
        # Without a lock, both threads have read the file before one of them writes it.
        with contextlib.suppress(threading.BrokenBarrierError):
            both_have_read.wait(0.2)
        private_files.write_private(path, data)

    monkeypatch.setattr(review_memory, "write_private", write_late)
    monkeypatch.setattr(review_memory, "LOCK_SECONDS", PATIENCE)
    threads = [threading.Thread(target=ReviewMemory(path).saw, args=(one, ["h"], ["h"])) for one in ("/a", "/b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert [ReviewMemory(path).of(one).seen for one in ("/a", "/b")] == [("h",), ("h",)]


def test_a_store_that_hangs_does_not_stop_other_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_memory, "LOCK_SECONDS", 0.05)
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    with open(tmp_path / "reviews.json.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        memory.saw("/a", ["h"], ["h"])
    assert memory.of("/a").seen == ("h",)


def test_hunks_that_have_left_the_review_are_forgotten(tmp_path: Path) -> None:
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    memory.saw("/a", ["h1", "h2"], ["h1", "h2"])
    memory.saw("/a", [], ["h2"])
    assert memory.of("/a") == SeenReviews(("h2",))


def test_reviews_in_one_directory_are_remembered_apart(tmp_path: Path) -> None:
    """The terminal sessions in a directory share their review. A session that the server runs has its own."""
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    managed, terminal, other = (review_key("/a", id) for id in ("proj_1", f"{TERMINAL_PREFIX}1", f"{TERMINAL_PREFIX}2"))
    memory.saw(managed, ["h1"], ["h1"])
    memory.saw(terminal, ["h2"], ["h2"])
    assert [memory.of(key).seen for key in (managed, terminal, other)] == [("h1",), ("h2",), ("h2",)]


def test_reviews_that_were_used_last_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_memory, "MOST_REVIEWS", 2)
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    for directory in ("/a", "/b", "/c"):
        memory.saw(directory, ["h"], ["h"])
    assert [memory.of(directory).seen for directory in ("/a", "/b", "/c")] == [(), ("h",), ("h",)]


def test_a_notice_is_new_only_once_for_each_directory(tmp_path: Path) -> None:
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    memory.saw("/a", ["h"], ["h"])
    assert [memory.saw_notice("/a"), memory.saw_notice("/a"), memory.saw_notice("/b")] == [True, False, True]
    memory.saw("/a", ["h2"], ["h", "h2"])
    assert memory.of("/a") == SeenReviews(("h", "h2"), notice=True)


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b'{"/a": {"seen": 1}}', b'{"/a": {"seen": ["\xff"]}}'])
def test_a_damaged_file_counts_as_nothing_seen(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "reviews.json").write_bytes(data)
    memory = ReviewMemory(str(tmp_path / "reviews.json"))
    assert memory.of("/a") == SeenReviews()
    memory.saw("/a", ["h"], ["h"])
    assert memory.of("/a").seen == ("h",)


def test_a_directory_that_cannot_be_written_is_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = ReviewMemory(str(tmp_path / "file" / "reviews.json"))
    memory.saw("/a", ["h"], ["h"])
    assert memory.of("/a") == SeenReviews()
