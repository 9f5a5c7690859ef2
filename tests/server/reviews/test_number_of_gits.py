"""How often git is started for a decision, and to read the review. A user waits for each of these processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.server.checkpoints.rig import git
from tests.server.reviews.rig import Reviewed, hunks, id_of, reviewing


def two_lines(one: Reviewed) -> None:
    one.replace("line 3\n", "LINE 3\n")
    one.replace("line 17\n", "LINE 17\n")


async def test_keeping_a_hunk_starts_git_at_most_7_times(tmp_path: Path, calls: Callable[[], list[str]]) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda _: two_lines(one))
        review = await one.get()
        calls()
        left = await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="keep")
        assert len(calls()) <= 7
        assert hunks(left) == [("poem.txt", "line 17\n", "LINE 17\n")]


async def test_undoing_a_hunk_starts_git_at_most_9_times(tmp_path: Path, calls: Callable[[], list[str]]) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda _: two_lines(one))
        review = await one.get()
        calls()
        left = await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        assert len(calls()) <= 9
        assert hunks(left) == [("poem.txt", "line 17\n", "LINE 17\n")]
        assert "line 3\n" in one.text()


async def test_reading_the_review_starts_git_at_most_3_times(tmp_path: Path, calls: Callable[[], list[str]]) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda _: two_lines(one))
        await one.get()
        calls()
        assert len(hunks(await one.get())) == 2
        assert len(calls()) <= 3


async def test_a_missing_blob_leaves_the_other_files_in_the_review(tmp_path: Path) -> None:
    """The blob's size is known, because the review was read before the blob was deleted."""
    async with reviewing(tmp_path) as one:

        def work(directory: Path) -> None:
            two_lines(one)
            (directory / "old.txt").write_text("new\n")

        await one.run(work)
        before = await one.get()
        assert len(hunks(before)) == 3
        blob = git(one.directory, "rev-parse", "HEAD:old.txt").strip()
        (one.directory / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        assert hunks(await one.get())[-2:] == hunks(before)[-2:]
