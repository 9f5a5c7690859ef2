"""The changes of runs are decided hunk by hunk, and the files then match the decisions exactly."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any, Literal

import pytest

from drawbridge.agents import base
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint, TookTooLong
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.private import Largest
from drawbridge.server.checkpoints.snapshotter import Snapshotter
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import ReviewNumbers
from drawbridge.server.reviews import contents, recorded_diff, review_commits
from drawbridge.server.reviews.commenting import Commenting
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.tui.drawing import files_of
from tests.server.checkpoints.rig import git, hanging, time_ends_at
from tests.server.core_rig import Client, records, settled
from tests.server.reviews.rig import POEM, Reviewed, hunks, id_of, reviewing
from tests.waiting import until

SMALL = Limits(largest=Largest(files=1))


def three_files(directory: Path) -> None:
    poem = (directory / "poem.txt").read_text().replace("line 3\n", "LINE 3\n").replace("line 17\n", "LINE 17\n")
    (directory / "poem.txt").write_text(poem)
    (directory / "new.txt").write_text("new\n")
    (directory / "old.txt").unlink()


def refs(directory: Path) -> list[str]:
    return git(directory, "for-each-ref", "--format=%(refname)", "refs/drawbridge").split()


async def test_hunks_of_three_files_are_kept_undone_and_edited(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        assert hunks(review) == [
            ("new.txt", "", "new\n"),
            ("old.txt", "old\n", ""),
            ("poem.txt", "line 3\n", "LINE 3\n"),
            ("poem.txt", "line 17\n", "LINE 17\n"),
        ]
        assert [(file["change"], file["added"], file["removed"]) for file in review["files"]] == [
            ("added", 1, 0),
            ("deleted", 0, 1),
            ("changed", 2, 2),
        ]
        left = await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="keep")
        assert len(hunks(left)) == 3
        left = await one.decide(hunks=[id_of(review, "old.txt")], decision="undo")
        assert one.text("old.txt") == "old\n"
        left = await one.decide(hunks=[id_of(review, "LINE 17")], text="Line seventeen\nand a half\n")
        expected = POEM.replace("line 3\n", "LINE 3\n").replace("line 17\n", "Line seventeen\nand a half\n")
        assert one.text() == expected
        assert hunks(left) == [("new.txt", "", "new\n")]
        left = await one.decide(all=True, version=left["version"], decision="undo")
        assert (left["state"], left["files"]) == ("none", [])
        assert not (one.directory / "new.txt").exists()
        assert one.text() == expected
        assert (await one.get())["state"] == "none"


async def test_before_the_first_run_a_review_is_empty(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        one.replace("line 3\n", "by a person\n")
        assert (await one.get())["state"] == "none"
        await one.run(lambda directory: None)
        assert (await one.get())["state"] == "none"


async def test_a_users_changes_between_runs_are_not_in_the_review(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        one.replace("line 9\n", "by a person\n")
        (one.directory / "mine.txt").write_text("mine\n")
        assert len(hunks(await one.get())) == 4
        one.replace("line 11\n", "by a person, too\n")
        await one.run(lambda directory: one.replace("line 13\n", "LINE 13\n"))
        review = await one.get()
        assert [added for path, _, added in hunks(review) if path == "poem.txt"] == [
            "LINE 3\n",
            "LINE 13\n",
            "LINE 17\n",
        ]
        await one.decide(all=True, version=review["version"], decision="undo")
        assert one.text() == POEM.replace("line 9\n", "by a person\n").replace("line 11\n", "by a person, too\n")
        assert one.text("mine.txt") == "mine\n"


async def test_a_users_edit_in_a_hunk_shows_the_whole_change(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        one.replace("LINE 3\n", "LINE 3, and more\n")
        review = await one.get()
        assert hunks(review) == [("poem.txt", "line 3\n", "LINE 3, and more\n")]
        await one.decide(all=True, version=review["version"], decision="undo")
        assert one.text() == POEM


async def test_files_with_the_same_shown_name_are_decided_by_hunk(tmp_path: Path) -> None:
    """A user who decides on one of them has not seen the other."""
    names = ("caf\udce8.txt", "caf\udce9.txt")

    def work(directory: Path) -> None:
        for name in names:
            (directory / name).write_text(f"{name[3:4]!r}\n")

    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        error = await one.refused(files=["caf\ufffd.txt"], version=review["version"], decision="undo")
        assert (error.code, error.field) == ("VALIDATION_FAILED", "data.files")
        shown = "The review has several files that are shown as caf\ufffd.txt. Decide on each of their changes."
        assert error.text == shown
        left = await one.decide(hunks=[review["files"][0]["hunks"][0]["id"]], decision="undo")
        assert len(left["files"]) == 1
        assert [(one.directory / name).exists() for name in names].count(True) == 1


async def test_the_deciding_client_also_gets_the_record(tmp_path: Path) -> None:
    """The reply has no ``seq``, so a client that got only the reply would miss a record."""
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        review = await one.get()
        answer = await one.server.does(
            one.phone, "review_decide", one.project, hunks=[id_of(review, "LINE 3")], decision="keep"
        )
        assert "seq" not in answer
        [decided] = one.phone.updates("review_decided")
        assert (decided["by"], decided["decision"], decided["hunks"]) == ("phone", "keep", 1)


async def test_the_record_shows_what_was_decided(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3"), id_of(review, "old.txt")], decision="undo")
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 17")], text="Line seventeen\n")
        await one.decide(hunks=[id_of(review, "new.txt")], decision="keep")
        undone, edited, kept = one.phone.updates("review_decided")
        assert [found["paths"] for found in (undone, edited, kept)] == [
            ["old.txt", "poem.txt"],
            ["poem.txt"],
            ["new.txt"],
        ]
        assert undone["diff"].startswith("diff --git a/old.txt b/old.txt\nnew file mode 100644\n")
        assert "\n-LINE 3\n+line 3\n" in undone["diff"]
        assert "\n-LINE 17\n+Line seventeen\n" in edited["diff"]
        assert "diff" not in kept, "the file stays as it is"


async def test_attributes_do_not_hide_what_was_undone(tmp_path: Path) -> None:
    """An agent can write to both files with attributes."""

    def hides_its_work(directory: Path) -> None:
        (directory / ".gitattributes").write_text("*.txt -diff\n*.bin diff\n")
        (directory / ".git" / "info" / "attributes").write_text("*.txt binary")
        (directory / "0.bin").write_bytes(b"\0" * 100)
        three_files(directory)

    async with reviewing(tmp_path) as one:
        await one.run(hides_its_work)
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3"), id_of(review, "0.bin")], decision="undo")
        [undone] = one.phone.updates("review_decided")
        assert "\n-LINE 3\n+line 3\n" in undone["diff"]
        assert "Binary files a/0.bin and /dev/null differ\n" in undone["diff"]
        assert "LINE 3" not in one.text()
        assert not (one.directory / "0.bin").exists()


async def test_clients_find_a_strange_name_in_the_diff(tmp_path: Path) -> None:
    name = 'odd "name"\t\x01\\ é.txt'
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: (directory / name).write_text("odd\n"))
        await one.decide(hunks=[id_of(await one.get(), "odd\n")], decision="undo")
        [undone] = one.phone.updates("review_decided")
        assert undone["paths"] == [name]
        assert [file.path for file in files_of(undone)] == [name]


async def test_a_record_contains_only_the_beginning_of_a_long_diff(tmp_path: Path) -> None:
    """For a binary file, the diff contains only the name."""

    def many_files(directory: Path) -> None:
        (directory / "0.bin").write_bytes(b"\0" * 100)
        for number in range(30):
            (directory / f"{number}.txt").write_text(f"file {number}\n" * 200)

    async with reviewing(tmp_path) as one:
        await one.run(many_files)
        await one.decide(all=True, version=(await one.get())["version"], decision="undo")
        [undone] = one.phone.updates("review_decided")
        assert (undone["files"], len(undone["paths"]), undone["diff_truncated"]) == (31, 20, True)
        assert "Binary files a/0.bin and /dev/null differ\n" in undone["diff"]
        assert 19_000 < len(undone["diff"]) <= 20_000
        assert undone["diff"].endswith("\n")


async def test_a_gap_alone_does_not_record_the_end_of_a_review(tmp_path: Path) -> None:
    """The review was finished before the server was restarted, and it is still known what it may lack."""

    def decisions(one: Reviewed) -> int:
        return sum(item["message"].get("subtype") == "review_decided" for item in records(one.server, one.project))

    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        await one.decide(all=True, version=(await one.get())["version"], decision="keep")
        before = decisions(one)
        gaps = one.server.folder / "data" / "projects" / one.project / "gaps.json"
    gaps.write_text('{"lost": "git took too long."}')
    async with reviewing(tmp_path) as one:
        assert "git took too long." in (await one.get())["missing"]
        assert decisions(one) == before == 1


async def test_a_git_that_hangs_is_reported_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        with monkeypatch.context() as patched:
            time_ends_at(hanging(tmp_path, patched, "update-ref"), patched)
            refused = await one.refused(hunks=[id_of(review, "LINE 3\n")], decision="undo")
            assert refused.text == "git took too long. Try again, or see the server's log for the command."
        assert "LINE 3" not in one.text()
        assert len(hunks(await one.get())) == 3


async def test_a_damaged_index_is_named_and_can_be_rebuilt(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        index = one.directory / ".git" / "index"
        index.write_bytes(index.read_bytes()[:40])
        with pytest.raises(ClientError) as refused:
            await one.get()
        assert refused.value.code == "CHECKPOINT_NOT_FOUND"
        assert f"its index is damaged. Delete {index} and run git reset" in str(refused.value)
        index.unlink()
        git(one.directory, "reset", "-q")
        assert [file["path"] for file in (await one.get())["files"]] == ["new.txt", "old.txt", "poem.txt"]


async def test_a_decision_counts_even_if_its_diff_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise GitFailed("git printed too much")

    monkeypatch.setattr(recorded_diff, "_between", fails)
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3")], decision="undo")
        assert "line 3\n" in one.text()
        [undone] = one.phone.updates("review_decided")
        assert (undone["decision"], undone["paths"]) == ("undo", ["poem.txt"])
        assert "diff" not in undone


async def test_a_decision_counts_even_if_the_rest_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request fails, but the file is changed, and clients are notified of the decision."""

    async def fails(*_: object) -> None:
        raise GitFailed("git was killed")

    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        with monkeypatch.context() as broken:
            broken.setattr(Commenting, "located", fails)
            await one.refused(hunks=[id_of(review, "LINE 3")], decision="undo")
        assert "line 3\n" in one.text()
        [decided] = one.phone.updates("review_decided")
        assert (decided["by"], decided["decision"], decided["hunks"]) == ("phone", "undo", 1)
        left = one.server.core.projects.get(one.project).store.review
        assert left is not None
        assert left.hunks == 3
        assert len(hunks(await one.get())) == 3


async def test_reverting_a_run_updates_the_numbers_of_the_review(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        run = await one.run(lambda directory: one.replace("line 17\n", "LINE 17\n"))
        await one.server.does(one.phone, "run_revert", one.project, run_id=run)
        latest = one.phone.updates("review_changed")[-1]
        assert (latest["state"], latest["hunks"]) == ("open", 1)
        assert hunks(await one.get()) == [("poem.txt", "line 3\n", "LINE 3\n")]


def renames_the_poem(directory: Path) -> None:
    text = (directory / "poem.txt").read_text().replace("line 3\n", "LINE 3\n").replace("line 17\n", "LINE 17\n")
    (directory / "poem.txt").unlink()
    (directory / "verses").mkdir()
    (directory / "verses" / "song.txt").write_text(text)


def files_in(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*.txt"))


async def test_a_renamed_file_is_one_file_of_the_review(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(renames_the_poem)
        review = await one.get()
        [file] = review["files"]
        assert (file["path"], file["old_path"], file["change"]) == ("verses/song.txt", "poem.txt", "changed")
        assert [(hunk["kind"], hunk["added"]) for hunk in file["hunks"]] == [
            ("lines", "LINE 3\n"),
            ("lines", "LINE 17\n"),
            ("name", ""),
        ]
        third, seventeenth, name = (hunk["id"] for hunk in file["hunks"])
        await one.decide(hunks=[third], decision="undo")
        assert one.text("verses/song.txt") == POEM.replace("line 17\n", "LINE 17\n")
        left = await one.decide(hunks=[name], decision="undo")
        assert files_in(one.directory) == ["old.txt", "poem.txt"]
        assert one.text() == POEM.replace("line 17\n", "LINE 17\n")
        assert [(file["path"], file.get("old_path")) for file in left["files"]] == [("poem.txt", None)]
        assert id_of(left, "LINE 17") == seventeenth, "the others stay"
        await one.decide(hunks=[seventeenth], decision="keep")
        assert (await one.get())["state"] == "none"
        assert one.text() == POEM.replace("line 17\n", "LINE 17\n")


async def test_a_rename_that_was_kept_survives_a_restart(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(renames_the_poem)
        review = await one.get()
        name = review["files"][0]["hunks"][-1]["id"]
        await one.decide(hunks=[id_of(review, "LINE 3\n"), name], decision="keep")
        before = await one.get()
        assert [(file["path"], file.get("old_path")) for file in before["files"]] == [("verses/song.txt", None)]
    async with reviewing(tmp_path) as one:
        assert hunks(await one.get()) == [("verses/song.txt", "line 17\n", "LINE 17\n")]
        assert id_of(await one.get(), "LINE 17") == id_of(before, "LINE 17")
        await one.decide(files=["verses/song.txt"], version=before["version"], decision="undo")
        assert one.text("verses/song.txt") == POEM.replace("line 3\n", "LINE 3\n")
        assert files_in(one.directory) == ["old.txt", "verses/song.txt"]


async def test_undoing_a_rename_keeps_the_lines_that_a_user_changed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(renames_the_poem)
        assert len(hunks(await one.get())) == 3
        one.replace("line 9\n", "by a person\n", "verses/song.txt")
        review = await one.get()
        assert len(hunks(review)) == 3, "it is not part of the review"
        await one.decide(all=True, version=review["version"], decision="undo")
        assert files_in(one.directory) == ["old.txt", "poem.txt"]
        assert one.text() == POEM.replace("line 9\n", "by a person\n")


async def test_a_file_that_a_user_renames_stays_in_the_review(tmp_path: Path) -> None:
    """The agent has added one file and changed another one. The user renames both, and changes lines."""
    async with reviewing(tmp_path) as one:

        def work(directory: Path) -> None:
            one.replace("line 3\n", "LINE 3\n")
            (directory / "new.txt").write_text("new\n")

        await one.run(work)
        assert len(hunks(await one.get())) == 2
        one.replace("line 9\n", "by a person\n")
        (one.directory / "poem.txt").rename(one.directory / "song.txt")
        (one.directory / "new.txt").rename(one.directory / "newer.txt")
        review = await one.get()
        assert hunks(review) == [("newer.txt", "", "new\n"), ("song.txt", "line 3\n", "LINE 3\n")]
        await one.decide(all=True, version=review["version"], decision="undo")
        assert files_in(one.directory) == ["old.txt", "song.txt"]
        assert one.text("song.txt") == POEM.replace("line 9\n", "by a person\n")


async def test_a_renamed_file_that_a_user_renames_again_stays_renamed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(renames_the_poem)
        assert len(hunks(await one.get())) == 3
        (one.directory / "verses" / "song.txt").rename(one.directory / "ballad.txt")
        review = await one.get()
        assert [(file["path"], file["old_path"], len(file["hunks"])) for file in review["files"]] == [
            ("ballad.txt", "poem.txt", 3)
        ]
        await one.decide(all=True, version=review["version"], decision="undo")
        assert files_in(one.directory) == ["old.txt", "poem.txt"]
        assert one.text() == POEM


async def test_a_renamed_file_that_a_user_deletes_is_shown_as_deleted(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: (directory / "poem.txt").rename(directory / "song.txt"))
        assert len(hunks(await one.get())) == 1
        (one.directory / "song.txt").unlink()
        review = await one.get()
        assert hunks(review) == [("poem.txt", POEM, "")]
        await one.decide(all=True, version=review["version"], decision="undo")
        assert one.text() == POEM


async def test_an_outdated_decision_does_not_apply_to_the_same_change(tmp_path: Path) -> None:
    """An agent makes changes again that were undone: a new file, another mode and another name."""

    def work(directory: Path) -> None:
        (directory / "new.txt").write_text("new\n")
        (directory / "old.txt").chmod(0o755)
        (directory / "poem.txt").rename(directory / "song.txt")

    async with reviewing(tmp_path) as one:
        await one.run(work)
        seen = [hunk["id"] for file in (await one.get())["files"] for hunk in file["hunks"]]
        assert len(seen) == 3
        await one.decide(hunks=seen, decision="undo")
        await one.run(work)
        before = await one.get()
        for id in seen:
            error = await one.refused(hunks=[id], decision="undo")
            assert (error.code, error.details) == ("HUNK_GONE", {"gone": id, "by": "phone", "decision": "undo"})
        assert await one.get() == before
        assert len(hunks(before)) == 3


async def test_undoing_a_rename_does_not_overwrite_another_file(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(renames_the_poem)
        review = await one.get()
        (one.directory / "poem.txt").write_text("by a person\n")
        name = review["files"][0]["hunks"][-1]["id"]
        error = await one.refused(hunks=[name], decision="undo")
        assert error.code == "HUNK_GONE"
        assert one.text() == "by a person\n"
        assert "verses/song.txt" in files_in(one.directory)


async def test_undoing_the_last_hunk_by_hand_closes_the_review(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        one.replace("LINE 3\n", "line 3\n")
        assert (await one.get())["state"] == "none"
        assert one.phone.updates("review_changed")[-1]["state"] == "decided"
        assert one.phone.updates("review_decided") == [{"files": 0, "hunks": 0, "left": 0}]


async def test_a_later_run_extends_the_review(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3\n"), id_of(review, "old.txt")], decision="keep")
        await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        later = await one.get()
        assert [added for _, _, added in hunks(later)] == ["new\n", "LINE 6\n", "LINE 17\n"]
        assert id_of(later, "LINE 17") == id_of(review, "LINE 17")
        await one.decide(all=True, version=later["version"], decision="undo")
        assert one.text() == POEM.replace("line 3\n", "LINE 3\n")
        assert not (one.directory / "old.txt").exists()


async def test_the_review_survives_a_restart(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="keep")
    async with reviewing(tmp_path) as one:
        again = await one.get()
        assert len(hunks(again)) == 3
        refused = await one.refused(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        assert (refused.code, refused.details) == (
            "HUNK_GONE",
            {"gone": id_of(review, "LINE 3\n"), "by": "phone", "decision": "keep"},
        )
        await one.decide(hunks=[id_of(review, "LINE 17")], decision="undo")
        assert one.text() == POEM.replace("line 3\n", "LINE 3\n")


async def test_a_run_interrupted_by_a_kill_is_reviewed(tmp_path: Path) -> None:
    """After ``kill -9``, for example, there is no checkpoint after the run."""
    async with reviewing(tmp_path) as one:
        await one.begin()
        one.replace("line 3\n", "LINE 3\n")
        session = one.server.core.projects.get(one.project)
        session.checkpoints.snapshotter.create = nothing  # type: ignore[assignment, method-assign]
    async with reviewing(tmp_path) as one:
        assert hunks(await one.get()) == [("poem.txt", "line 3\n", "LINE 3\n")]
        one.replace("line 9\n", "by a person\n")
        assert hunks(await one.get()) == [("poem.txt", "line 3\n", "LINE 3\n")]


async def nothing(*_: object) -> bool:
    return False


async def test_two_clients_decide_the_same_hunk_and_the_first_one_wins(tmp_path: Path) -> None:
    page = Client("page")
    async with reviewing(tmp_path) as one:
        await one.server.does(page, "project_join", one.project)
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        id = id_of(await one.get(), "LINE 3")
        both = await asyncio.gather(
            one.decide(hunks=[id], decision="undo"),
            one.decide(page, hunks=[id], decision="keep"),
            return_exceptions=True,
        )
        (error,) = [found for found in both if isinstance(found, Exception)]
        won_by_phone = isinstance(both[0], dict)
        assert one.text() == (POEM if won_by_phone else POEM.replace("line 3\n", "LINE 3\n"))
        first, how = ("phone", "undo") if won_by_phone else ("page", "keep")
        assert error.details == {"gone": id, "by": first, "decision": how}  # type: ignore[attr-defined]
        winner = page if won_by_phone else one.phone
        assert winner.updates("review_changed")[-1] | {"client_id": ""} == {
            "state": "decided", "files": 0, "hunks": 0, "added": 0, "removed": 0, "by": first, "client_id": ""
        }  # fmt: skip
        decided = [
            item for item in records(one.server, one.project) if item["message"].get("subtype") == "review_decided"
        ]
        assert [item["message"]["message"]["by"] for item in decided] == [first]


async def test_all_clients_are_notified_of_a_review(tmp_path: Path) -> None:
    page = Client("page")
    async with reviewing(tmp_path) as one:
        await one.server.does(page, "project_join", one.project)
        await one.run(three_files)
        assert page.updates("review_changed") == [{"state": "open", "files": 3, "hunks": 4, "added": 3, "removed": 3}]
        await one.get()
        assert len(page.updates("review_changed")) == 1


async def test_a_missing_directory_has_no_review_until_it_exists(tmp_path: Path) -> None:
    page = Client("page")
    async with reviewing(tmp_path) as one:
        await one.server.does(page, "project_join", one.project)
        await one.run(three_files)
        there = page.updates("review_changed")
        away = one.directory.rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(ClientError, match=r"^The session's directory does not exist\.$") as refused:
                await one.get()
            assert refused.value.code == "INVALID_PATH"
        assert one.server.core.projects.get(one.project).info().review == ReviewNumbers(
            files=0, hunks=0, added=0, removed=0
        )
        nothing = {"state": "decided", "files": 0, "hunks": 0, "added": 0, "removed": 0}
        assert page.updates("review_changed") == [*there, nothing]
        away.rename(one.directory)
        assert len(hunks(await one.get())) == 4
        assert page.updates("review_changed") == [*there, nothing, *there]
        kinds = [item["message"].get("subtype") for item in records(one.server, one.project)]
        assert "review_decided" not in kinds, "nobody has decided anything"


async def test_lists_show_no_review_of_a_missing_directory(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        project = one.server.core.projects.get(one.project)
        away = one.directory.rename(tmp_path / "away")
        await one.server.core.examine()
        assert project.info().review == ReviewNumbers(files=0, hunks=0, added=0, removed=0)
        away.rename(one.directory)
        await one.server.core.examine()
        await until(lambda: project.info().review == ReviewNumbers(files=3, hunks=4, added=3, removed=3))


async def test_a_refused_hunk_names_no_file_that_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision is no longer remembered, and the file is as it was shown."""
    monkeypatch.setattr(review_commits, "REMEMBERED", 1)
    async with reviewing(tmp_path) as one:
        text = POEM.replace("line 3\n", "LINE 3\n").replace("line 17\n", "LINE 17\n")
        await one.run(lambda directory: (directory / "poem.txt").write_text(text))
        ids = [hunk["id"] for file in (await one.get())["files"] for hunk in file["hunks"]]
        for id in ids:
            await one.decide(hunks=[id], decision="keep")
        refused = await one.refused(hunks=ids[:1], decision="keep")
        assert (refused.code, refused.details) == ("HUNK_GONE", {"gone": ids[0]})


async def test_a_hunk_that_changed_on_disk_is_refused(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        review = await one.get()
        one.replace("LINE 3\n", "LINE 3, by a person\n")
        before = one.text()
        for decision in ("keep", "undo"):
            refused = await one.refused(hunks=[id_of(review, "LINE 3")], decision=decision)
            where = {"gone": id_of(review, "LINE 3"), "path": "poem.txt", "line": 3}
            assert (refused.code, refused.details) == ("HUNK_GONE", where)
        refused = await one.refused(all=True, version=review["version"], decision="undo")
        assert refused.code == "HUNK_GONE"
        assert one.text() == before


async def test_a_file_with_unsaved_changes_is_not_written(tmp_path: Path) -> None:
    """Neither a decision nor reverting a run writes the file."""
    async with reviewing(tmp_path) as one:
        run = await one.run(lambda directory: (directory / "poem.txt").write_text(POEM.replace("line 3", "LINE 3")))
        unsaved = {str(one.directory / "poem.txt"): "Neovim"}
        checkpoints = one.server.core.projects.get(one.project).checkpoints
        checkpoints.work_tree._find_unsaved = lambda paths: {path: unsaved[path] for path in paths if path in unsaved}
        id = id_of(await one.get(), "LINE 3\n")
        text = "The files can't be changed: poem.txt has unsaved changes in Neovim. Save or discard them first."
        wishes: list[dict[str, Any]] = [{"decision": "undo"}, {"text": "line three\n"}]
        for wish in wishes:
            refused = await one.refused(hunks=[id], **wish)
            assert (refused.code, refused.text, refused.details) == ("UNSAVED_CHANGES", text, {"paths": ["poem.txt"]})
        with pytest.raises(ClientError, match="unsaved changes in Neovim"):
            await one.server.does(one.phone, "run_revert", one.project, run_id=run)
        assert "LINE 3\n" in (one.directory / "poem.txt").read_text()
        assert id_of(await one.get(), "LINE 3\n") == id
        unsaved.clear()
        await one.decide(hunks=[id], decision="undo")
        assert (one.directory / "poem.txt").read_text() == POEM


async def test_a_file_that_changes_during_a_decision_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git = Git.run
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()

        async def meanwhile(self: Git, *words: str, **more: Any) -> Any:
            if words[0] == "apply":
                one.replace("LINE 3\n", "LINE 3, by a person\n")
            return await run_git(self, *words, **more)

        monkeypatch.setattr(Git, "run", meanwhile)
        refused = await one.refused(all=True, version=review["version"], decision="undo")
        monkeypatch.undo()
        assert (refused.code, refused.details) == ("REVIEW_CLASH", {"paths": ("poem.txt",)})
        assert not (one.directory / "old.txt").exists(), "all or nothing"
        assert len(hunks(await one.get())) == 4


async def test_a_late_decision_names_the_files_that_have_changed(tmp_path: Path) -> None:
    """A file may also have entered or left the review since it was shown."""
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        one.replace("LINE 3\n", "LINE 3, by a person\n")
        (one.directory / "new.txt").unlink()
        refused = await one.refused(files=["old.txt"], version=review["version"], decision="undo")
        assert (refused.code, refused.field) == ("HUNK_GONE", "data.version")
        assert refused.details == {"paths": ["new.txt", "poem.txt"], "files": 2}
        later = await one.get()
        for number in range(30):
            (one.directory / f"{number}.txt").write_text("")
            git(one.directory, "add", f"{number}.txt")
        await one.run(lambda directory: [(directory / f"{number}.txt").write_text("x\n") for number in range(30)])
        refused = await one.refused(all=True, version=later["version"], decision="keep")
        assert refused.details is not None
        assert (len(refused.details["paths"]), refused.details["files"]) == (20, 30)
        refused = await one.refused(all=True, version="of an earlier server", decision="keep")
        assert (refused.code, refused.details) == ("HUNK_GONE", None)
        assert not (one.directory / "old.txt").exists()
        assert len(hunks(await one.get())) == 33


async def test_changes_elsewhere_do_not_prevent_a_decision(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        one.replace("line 1\n", "by a person\n\nand more\n")
        await one.decide(hunks=[id_of(review, "LINE 17")], decision="undo")
        assert one.text() == POEM.replace("line 1\n", "by a person\n\nand more\n").replace("line 3\n", "LINE 3\n")


async def test_during_a_run_hunks_can_be_kept_and_nothing_else(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        await one.begin()
        one.replace("line 6\n", "LINE 6\n")
        review = await one.get()
        assert len(hunks(review)) == 5
        ways: list[dict[str, Any]] = [{"decision": "undo"}, {"text": "other\n"}]
        for how in ways:
            refused = await one.refused(hunks=[id_of(review, "LINE 6")], **how)
            assert (refused.code, refused.retryable) == ("PROCESS_ACTIVE", True)
        await one.decide(hunks=[id_of(review, "LINE 6")], decision="keep")
        one.replace("line 7\n", "LINE 7\n")
        await one.end()
        assert ("poem.txt", "line 7\n", "LINE 7\n") in hunks(await one.get())


async def test_binary_files_and_modes_are_decided_as_a_whole(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        (one.directory / "picture").write_bytes(b"\0old")
        (one.directory / "latin").write_bytes(b"caf\xe9\n")
        (one.directory / "link").symlink_to("poem.txt")
        git(one.directory, "add", ".")

        def work(directory: Path) -> None:
            (directory / "picture").write_bytes(b"\0new\xff")
            (directory / "latin").write_bytes(b"th\xe9\n")
            (directory / "link").unlink()
            (directory / "link").symlink_to("old.txt")
            (directory / "added").write_bytes(b"\0\0")
            (directory / "poem.txt").chmod(0o755)

        await one.run(work)
        review = await one.get()
        found = {
            file["path"]: (file["change"], file.get("binary", False), [hunk["kind"] for hunk in file["hunks"]])
            for file in review["files"]
        }
        assert found == {
            "added": ("added", True, ["file"]),
            "latin": ("changed", True, ["file"]),
            "link": ("changed", True, ["file"]),
            "picture": ("changed", True, ["file"]),
            "poem.txt": ("changed", False, ["mode"]),
        }
        refused = await one.refused(hunks=[id_of(review, "picture")], text="text\n")
        assert (refused.code, refused.field) == ("VALIDATION_FAILED", "data.text")
        left = await one.decide(files=["latin", "added"], version=review["version"], decision="keep")
        assert [file["path"] for file in left["files"]] == ["link", "picture", "poem.txt"]
        left = await one.decide(all=True, version=left["version"], decision="undo")
        assert left["state"] == "none"
        assert (one.directory / "picture").read_bytes() == b"\0old"
        assert (one.directory / "latin").read_bytes() == b"th\xe9\n"
        assert (one.directory / "added").read_bytes() == b"\0\0"
        assert os.readlink(one.directory / "link") == "poem.txt"
        assert not os.access(one.directory / "poem.txt", os.X_OK)


def image_of(review: dict[str, Any], path: str, side: str) -> str:
    """Git's id of the content, taken from the id of the blob."""
    file = next(file for file in review["files"] if file["path"] == path)
    project, _, blob = file[side]["blob_id"].partition(":review_")
    assert project.startswith("proj_")
    return str(blob)


async def test_only_images_in_the_review_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = b"\x89PNG\r\n\x1a\n\0before", b"\x89PNG\r\n\x1a\n\0after\xff"
    async with reviewing(tmp_path) as one:
        (one.directory / "icon.png").write_bytes(before)
        (one.directory / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n\0secret")
        git(one.directory, "add", ".")
        git(one.directory, "commit", "-qm", "images")
        secret = git(one.directory, "rev-parse", "HEAD:secret.png").strip()

        def work(directory: Path) -> None:
            (directory / "icon.png").write_bytes(after)
            (directory / "none.png").write_bytes(b"\0not an image")
            (directory / "words.png").write_text("words\n")
            (directory / "data.bin").write_bytes(after)

        async def image(blob: str) -> bytes:
            return await one.server.built.reviews.review_image(one.project, blob)

        async def refused(blob: str) -> tuple[str, str | None]:
            with pytest.raises(ClientError) as error:
                await image(blob)
            return error.value.code, error.value.field

        await one.run(work)
        assert await refused(secret) == ("BLOB_NOT_FOUND", "data.blob_id")
        review = await one.get()
        shown = {file["path"]: {"old_image", "new_image"} & file.keys() for file in review["files"]}
        assert shown == {
            "data.bin": set(),
            "icon.png": {"old_image", "new_image"},
            "none.png": {"new_image"},
            "words.png": set(),
        }
        old, new = image_of(review, "icon.png", "old_image"), image_of(review, "icon.png", "new_image")
        assert (await image(old), await image(new)) == (before, after)
        assert await refused(secret) == ("BLOB_NOT_FOUND", "data.blob_id")
        assert await refused("HEAD:secret.png") == ("BLOB_NOT_FOUND", "data.blob_id")
        assert await refused(image_of(review, "none.png", "new_image")) == ("FILE_UNSUPPORTED", "data.blob_id")
        monkeypatch.setattr("drawbridge.server.sessions.files.files.LARGEST_IMAGE", len(after) - 1)
        assert await refused(new) == ("FILE_TOO_LARGE", "data.blob_id")
        await one.decide(files=["icon.png"], version=review["version"], decision="keep")
        assert await refused(old) == ("BLOB_NOT_FOUND", "data.blob_id")


async def test_line_endings_are_kept_byte_for_byte(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        odd = one.directory / "odd.txt"
        odd.write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree\rfour\nfive\nlast")

        def work(directory: Path) -> None:
            odd.write_bytes(b"\xef\xbb\xbfone\ntwo\nthree\rfour\nfive\nlast\n\n")

        await one.run(work)
        review = await one.get()
        first, last = [hunk["id"] for hunk in review["files"][0]["hunks"]]
        await one.decide(hunks=[last], decision="undo")
        assert odd.read_bytes() == b"\xef\xbb\xbfone\ntwo\nthree\rfour\nfive\nlast"
        await one.decide(hunks=[first], decision="undo")
        assert odd.read_bytes() == b"\xef\xbb\xbfone\r\ntwo\nthree\rfour\nfive\nlast"


async def test_equal_hunks_are_decided_one_by_one(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        (one.directory / "poem.txt").write_text("".join(f"{number}\nx\n" for number in range(3)))
        await one.run(lambda directory: one.replace("x\n", "y\n"))
        review = await one.get()
        first, second, third = [hunk["id"] for hunk in review["files"][0]["hunks"]]
        await one.decide(hunks=[first], decision="keep")
        assert (await one.refused(hunks=[first], decision="undo")).code == "HUNK_GONE"
        await one.decide(hunks=[second], decision="undo")
        assert one.text() == "0\ny\n1\nx\n2\ny\n"
        await one.decide(hunks=[third], decision="undo")
        assert one.text() == "0\ny\n1\nx\n2\nx\n"


async def test_undoing_a_file_does_not_remove_a_directory(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:

        def work(directory: Path) -> None:
            (directory / "old.txt").unlink()
            (directory / "old.txt").mkdir()
            (directory / "old.txt" / "new").write_text("new\n")

        await one.run(work)
        review = await one.get()
        refused = await one.refused(hunks=[id_of(review, "old\n")], decision="undo")
        assert (refused.code, refused.details) == ("REVIEW_CLASH", {"paths": ("old.txt/new",)})
        assert one.text("old.txt/new") == "new\n"
        await one.decide(all=True, version=review["version"], decision="undo")
        assert one.text("old.txt") == "old\n"


async def test_undo_never_replaces_a_users_directory(tmp_path: Path) -> None:
    """Restoring the file would destroy the directory, so the deletion is not in the review."""
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        (one.directory / "old.txt").mkdir()
        (one.directory / "old.txt" / "mine").write_text("mine\n")
        assert [path for path, _, _ in hunks(await one.get())] == ["new.txt", "poem.txt", "poem.txt"]
        await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        review = await one.get()
        await one.decide(all=True, version=review["version"], decision="undo")
        assert (one.text(), one.text("old.txt/mine")) == (POEM, "mine\n")


async def test_undo_does_not_follow_the_links_of_a_run(tmp_path: Path) -> None:
    """The run replaces a directory and a file with links to the outside, where files have the same content."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "deep.txt").write_text("DEEP\n")
    (outside / "poem.txt").write_text(POEM)
    async with reviewing(tmp_path) as one:
        (one.directory / "folder").mkdir()
        (one.directory / "folder" / "deep.txt").write_text("deep\n")
        git(one.directory, "add", ".")

        def work(directory: Path) -> None:
            shutil.rmtree(directory / "folder")
            (directory / "folder").symlink_to(outside)
            (directory / "poem.txt").unlink()
            (directory / "poem.txt").symlink_to(outside / "poem.txt")

        await one.run(work)
        review = await one.get()
        assert [file["path"] for file in review["files"]] == ["folder", "folder/deep.txt", "poem.txt"]
        await one.decide(all=True, version=review["version"], decision="undo")
        assert (one.text("folder/deep.txt"), one.text()) == ("deep\n", POEM)
        assert not (one.directory / "poem.txt").is_symlink()
    assert (outside / "deep.txt").read_text() == "DEEP\n"
    assert sorted(file.name for file in outside.iterdir()) == ["deep.txt", "poem.txt"]


async def test_undo_does_not_follow_a_link_that_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the agent replaces the directory just before git writes. The link leads to files with the same lines."""
    run_git, outside = Git.run, tmp_path / "outside"
    outside.mkdir()
    async with reviewing(tmp_path) as one:
        folder = one.directory / "folder"
        folder.mkdir()
        (folder / "deep.txt").write_text(POEM)
        git(one.directory, "add", ".")
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n", "folder/deep.txt"))
        (outside / "deep.txt").write_text(one.text("folder/deep.txt"))
        id = id_of(await one.get(), "LINE 3\n")

        async def meanwhile(self: Git, *words: str, **more: Any) -> Any:
            if words[0] == "apply" and not folder.is_symlink():
                folder.rename(one.directory / "moved")
                folder.symlink_to(outside)
            return await run_git(self, *words, **more)

        monkeypatch.setattr(Git, "run", meanwhile)
        refused = await one.refused(hunks=[id], decision="undo")
        monkeypatch.undo()
        assert refused.code == "REVIEW_CLASH"
        assert "LINE 3\n" in one.text("moved/deep.txt")
        assert "LINE 3\n" in (outside / "deep.txt").read_text()


async def test_a_project_in_a_repository_subdirectory_is_reviewed(tmp_path: Path) -> None:
    async with reviewing(tmp_path, inside="below") as one:
        (one.directory / "a.txt").write_text("1\n2\n3\n")
        await one.run(lambda directory: one.replace("2\n", "two\n", "a.txt"))
        (one.directory.parent / "poem.txt").write_text("by a person\n")
        review = await one.get()
        assert hunks(review) == [("a.txt", "2\n", "two\n")]
        await one.decide(hunks=[id_of(review, "two")], decision="undo")
        assert one.text("a.txt") == "1\n2\n3\n"
        assert (one.directory.parent / "poem.txt").read_text() == "by a person\n"


async def test_the_review_of_a_deleted_project_is_removed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        await one.get()
        assert [name for name in refs(one.directory) if "/review/" in name]
        await one.server.does(one.phone, "project_delete", one.project)
        for deleted in (one.server.folder / "data" / "trash").iterdir():
            os.utime(deleted, (1, 1))
        await one.server.core.projects.empty_trash()
        assert refs(one.directory) == []


async def test_many_later_runs_do_not_remove_the_review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbridge.server.checkpoints.refs.KEPT_RUNS", 1)
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        for _ in range(3):
            await one.run(lambda directory: None)
        assert len(hunks(await one.get())) == 4
        assert len(refs(one.directory)) <= 7


async def test_a_review_requires_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reviewing(tmp_path) as one:
        monkeypatch.setattr("drawbridge.server.checkpoints.git.git.program", lambda: None)
        monkeypatch.setattr("drawbridge.server.checkpoints.operations.program", lambda: None)
        with pytest.raises(Exception, match="Install git") as refused:
            await one.get()
        assert refused.value.code == "CHECKPOINT_NOT_FOUND"  # type: ignore[attr-defined]
        assert (await one.refused(hunks=["x"], decision="keep")).code == "CHECKPOINT_NOT_FOUND"


async def test_a_directory_without_a_repository_is_reviewed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        shutil.rmtree(one.directory / ".git")
        run = await one.run(three_files)
        review = await one.get()
        assert (len(hunks(review)), review["repository"]) == (4, "private")
        assert review["notice"] == (
            "The server stores the versions of these files in its own repository, without dependencies, build output, "
            "caches, nested repositories or files over 10 MB."
        )
        changes = await one.server.does(one.phone, "run_changes", one.project, run_id=run)
        assert len(changes["data"]["files"]) == 3
        await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="keep")
        left = await one.decide(files=["old.txt", "new.txt"], decision="undo", version=(await one.get())["version"])
        assert [added for _, _, added in hunks(left)] == ["LINE 17\n"]
        assert sorted(os.listdir(one.directory)) == ["old.txt", "poem.txt"]
    async with reviewing(tmp_path) as one:
        assert [added for _, _, added in hunks(await one.get())] == ["LINE 17\n"]


async def test_the_private_repository_of_a_deleted_project_is_removed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        shutil.rmtree(one.directory / ".git")
        await one.run(three_files)
        data = one.server.folder / "data"
        assert list(data.glob("projects/*/repository/HEAD"))
        await one.server.does(one.phone, "project_delete", one.project)
        assert list(data.glob("trash/*/repository/HEAD")), "a deleted project can be restored for 7 days"
        for deleted in (data / "trash").iterdir():
            os.utime(deleted, (1, 1))
        await one.server.core.projects.empty_trash()
        assert not list(data.rglob("repository"))


async def test_reading_the_review_of_a_project_being_deleted_fails(tmp_path: Path) -> None:
    """The project's private repository is moved to the trash while git is being used in it."""
    async with reviewing(tmp_path) as one:
        shutil.rmtree(one.directory / ".git")
        await one.run(three_files)
        session = one.server.core.projects.get(one.project)

        async def reads() -> None:
            async with session.checkpoints.operations.exclusive() as running:
                await one.server.does(one.phone, "project_delete", one.project)
                await running.read("for-each-ref")

        with pytest.raises(NoCheckpoint, match="removed in the meantime"):
            await reads()


async def test_a_directory_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """The review is refused, but the run itself is not affected."""
    async with reviewing(tmp_path, limits=SMALL) as one:
        shutil.rmtree(one.directory / ".git")
        run = await one.run(three_files)
        with pytest.raises(ClientError, match=r"^Too large to review: the directory has more than 1 files") as refused:
            await one.get()
        assert refused.value.code == "CHECKPOINT_NOT_FOUND"
        with pytest.raises(ClientError, match=r"^Too large to review"):
            await one.server.does(one.phone, "run_changes", one.project, run_id=run)


async def test_a_large_directory_is_still_refused_after_a_restart(tmp_path: Path) -> None:
    async with reviewing(tmp_path, limits=SMALL) as one:
        shutil.rmtree(one.directory / ".git")
        await one.run(three_files)
    async with reviewing(tmp_path, limits=SMALL) as one:
        with pytest.raises(ClientError, match=r"^Too large to review"):
            await one.get()


async def test_a_review_can_be_ended_in_a_directory_now_too_large(tmp_path: Path) -> None:
    """Files of a user that were added later don't belong to it, and may be as many as they like."""
    async with reviewing(tmp_path, limits=Limits(largest=Largest(files=3))) as one:
        shutil.rmtree(one.directory / ".git")
        await one.run(three_files)
        review = await one.get()
        for number in range(5):
            (one.directory / f"later{number}.txt").write_text("later\n")
        assert await one.get() == review
        one.replace("line 6\n", "by a person\n")
        left = await one.decide(all=True, version=(await one.get())["version"], decision="undo")
        assert left["state"] == "none"
        assert one.text() == POEM.replace("line 6\n", "by a person\n")
        assert sorted(path.name for path in one.directory.iterdir()) == [
            *(f"later{number}.txt" for number in range(5)),
            "old.txt",
            "poem.txt",
        ]


async def test_a_run_that_makes_a_directory_too_large_is_not_reviewed(tmp_path: Path) -> None:
    """Otherwise, the review would lack the files that the agent has added."""
    async with reviewing(tmp_path, limits=Limits(largest=Largest(files=3))) as one:
        shutil.rmtree(one.directory / ".git")
        await one.run(three_files)
        await one.begin()
        for number in range(5):
            (one.directory / f"later{number}.txt").write_text("later\n")
        with pytest.raises(ClientError, match=r"^Too large to review"):
            await one.get()
        await one.end()
        with pytest.raises(ClientError, match=r"^Too large to review"):
            await one.get()


def fails(monkeypatch: pytest.MonkeyPatch, when: Literal["before", "after"]) -> None:
    """Makes git too slow for the checkpoint before or after a run."""

    async def took_too_long(*_: object) -> None:
        raise TookTooLong("git took more than 30 s for: git add")

    monkeypatch.setattr(Snapshotter, f"_collect_{when}", took_too_long)


async def test_a_run_without_a_checkpoint_is_not_reviewed_as_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is given until the next run."""
    reason = "^The changes of the latest run can't be reviewed, because no checkpoint was taken before it: git took too"
    async with reviewing(tmp_path) as one:
        with monkeypatch.context() as slow:
            fails(slow, "before")
            await one.begin()
            three_files(one.directory)
            with pytest.raises(ClientError, match=reason) as during:
                await one.get()
            assert during.value.code == "CHECKPOINT_NOT_FOUND"
            await one.end()
        for _ in range(2):
            with pytest.raises(ClientError, match=reason):
                await one.get()
        await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        review = await one.get()
        assert hunks(review) == [("poem.txt", "line 6\n", "LINE 6\n")]
        left = await one.decide(all=True, version=review["version"], decision="keep")
        assert left["state"] == "none"
        assert (await one.get())["state"] == "none"


async def test_a_run_without_a_checkpoint_adds_to_the_changes_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        with monkeypatch.context() as slow:
            fails(slow, "before")
            await one.begin()
            one.replace("line 13\n", "LINE 13\n")
            assert [added for _, _, added in hunks(await one.get())] == ["LINE 6\n", "LINE 13\n"]
            one.replace("line 17\n", "LINE 17\n")
            await one.end()
        one.replace("line 2\n", "by a person\n")
        assert [added for _, _, added in hunks(await one.get())] == ["LINE 6\n", "LINE 13\n", "LINE 17\n"]


async def test_work_after_a_failed_last_checkpoint_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(tmp_path) as one:
        await one.begin()
        one.replace("line 6\n", "LINE 6\n")
        with monkeypatch.context() as slow:
            fails(slow, "after")
            await one.end()
        assert len(hunks(await one.get())) == 1
        one.replace("line 13\n", "by a person\n")
        review = await one.get()
        assert hunks(review) == [("poem.txt", "line 6\n", "LINE 6\n")]
        await one.decide(all=True, version=review["version"], decision="undo")
        assert one.text() == POEM.replace("line 13\n", "by a person\n")


@pytest.mark.parametrize("earlier", [True, False], ids=["changes are left", "first run"])
async def test_a_restart_does_not_hide_a_run_without_a_checkpoint(
    earlier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reviewing(tmp_path) as one:
        if earlier:
            await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        with monkeypatch.context() as slow:
            fails(slow, "before")
            fails(slow, "after")
            await one.run(lambda directory: one.replace("line 13\n", "LINE 13\n"))
    async with reviewing(tmp_path) as one:
        if earlier:
            assert [added for _, _, added in hunks(await one.get())] == ["LINE 6\n", "LINE 13\n"]
        else:
            with pytest.raises(ClientError, match="no checkpoint was taken before it: git took too"):
                await one.get()


async def test_a_repeated_request_is_recognized_after_a_new_run(tmp_path: Path) -> None:
    """The agent makes the same change again, so the hunk looks the same."""

    def work(directory: Path) -> None:
        one.replace("line 6\n", "LINE 6\n")

    async with reviewing(tmp_path) as one:
        await one.run(work)
        wanted: dict[str, Any] = {"hunks": [id_of(await one.get(), "LINE 6\n")], "decision": "undo", "request_id": "1"}
        await one.decide(**wanted)
        await one.run(work)
        assert len(hunks(await one.decide(**wanted))) == 1
        assert one.text() == POEM.replace("line 6\n", "LINE 6\n")


async def test_a_repeated_request_is_recognized_during_a_run(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        wanted: dict[str, Any] = {"hunks": [id_of(await one.get(), "LINE 6\n")], "decision": "undo", "request_id": "1"}
        await one.decide(**wanted)
        await one.begin()
        assert (await one.decide(**wanted))["state"] == "none"
        assert (await one.refused(**wanted | {"request_id": "2"})).code == "PROCESS_ACTIVE"
        await one.end()


async def test_a_too_large_directory_is_reviewed_once_it_has_git(tmp_path: Path) -> None:
    """Nobody has to open the review first."""
    async with reviewing(tmp_path, limits=SMALL) as one:
        shutil.rmtree(one.directory / ".git")
        await one.run(three_files)
        git(one.directory, "init", "-q")
        await one.run(lambda directory: (directory / "new.txt").write_text("newer\n"))
        review = await one.get()
        assert review["repository"] == "project"
        assert [added for _, _, added in hunks(review)] == ["newer\n"]


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"decision": "keep"}, "data.hunks"),
        ({"decision": "keep", "hunks": ["a"], "all": True}, "data.hunks"),
        ({"hunks": ["a"]}, "data.decision"),
        ({"all": True, "decision": "undo"}, "data.version"),
        ({"hunks": ["a", "b"], "text": "x"}, "data.text"),
        ({"hunks": ["a"], "decision": "keep", "text": "x"}, "data.text"),
    ],
)
async def test_an_invalid_decision_is_refused(data: dict[str, Any], field: str, tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        refused = await one.refused(**data)
        assert (refused.code, refused.field) == ("VALIDATION_FAILED", field)


async def test_a_review_too_large_for_a_message_omits_large_files(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:

        def work(directory: Path) -> None:
            for number in range(6):
                (directory / f"large{number}.txt").write_text("x" * 240_000 + "\n")
            (directory / "small.txt").write_text("small\n")

        await one.run(work)
        review = await one.get()
        assert [file["path"] for file in review["files"] if file.get("too_large")] == ["large4.txt", "large5.txt"]
        assert ("small.txt", "", "small\n") in hunks(review)
        assert review["more"] == 0
        left = await one.decide(all=True, version=review["version"], decision="undo")
        assert left["state"] == "none"
        assert sorted(file.name for file in one.directory.iterdir()) == [".git", "old.txt", "poem.txt"]


async def test_a_link_instead_of_a_ref_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """An agent can make a ref of the review point to a branch, but the server does not change that branch."""
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        branch = git(one.directory, "rev-parse", "HEAD")
        name = git(one.directory, "symbolic-ref", "HEAD").strip()
        for ref in refs(one.directory):
            if "/review/" in ref:
                git(one.directory, "symbolic-ref", ref, name)
        await one.get()
        await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        assert git(one.directory, "rev-parse", "HEAD") == branch


async def test_damaged_refs_end_the_review_until_the_next_run(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        blob = git(one.directory, "rev-parse", "HEAD:poem.txt").strip()
        for ref in refs(one.directory):
            if "/review/" in ref:
                git(one.directory, "update-ref", ref, blob)
        assert (await one.get())["state"] == "none"
        await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        assert hunks(await one.get()) == [("poem.txt", "line 6\n", "LINE 6\n")]


async def test_files_with_unusual_names_can_be_reviewed(tmp_path: Path) -> None:
    names = ["a b.txt", 'quote".txt', "tab\t.txt", "line\nfeed.txt", "-option", "caf\udce9.txt", "colon:.txt", "*.txt"]
    async with reviewing(tmp_path) as one:
        for name in names:
            (one.directory / name).write_text("1\n2\n3\n")

        def work(directory: Path) -> None:
            for name in names:
                (directory / name).write_text("1\ntwo\n3\n")

        await one.run(work)
        review = await one.get()
        assert {file["path"] for file in review["files"]} == {name.replace("\udce9", "\ufffd") for name in names}
        ids = [hunk["id"] for file in review["files"] for hunk in file["hunks"]]
        left = await one.decide(hunks=ids[::2], decision="keep")
        assert len(hunks(left)) == 4
        left = await one.decide(hunks=[hunks_id(left, 0)], text="edited\n")
        left = await one.decide(
            files=[file["path"] for file in left["files"]], version=left["version"], decision="undo"
        )
        assert left["state"] == "none"
        texts = sorted((one.directory / name).read_text() for name in names)
        assert texts == ["1\n2\n3\n"] * 3 + ["1\nedited\n3\n"] + ["1\ntwo\n3\n"] * 4


def hunks_id(review: dict[str, Any], number: int) -> str:
    """The id of a file's first hunk. ``number``: the file's index in the review."""
    return str(review["files"][number]["hunks"][0]["id"])


async def test_line_endings_that_git_converts_are_kept(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        git(one.directory, "config", "core.autocrlf", "true")
        (one.directory / "dos.txt").write_bytes(b"1\r\n2\r\n3\r\n")
        await one.run(lambda directory: (directory / "dos.txt").write_bytes(b"one\r\n2\r\nthree\r\n"))
        review = await one.get()
        assert [parts[1:] for parts in hunks(review)] == [("1\n", "one\n"), ("3\n", "three\n")]
        await one.decide(hunks=[id_of(review, "one")], decision="undo")
        assert (one.directory / "dos.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"


async def test_a_file_over_the_limit_is_decided_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "LARGEST_TEXT", 100)
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        review = await one.get()
        assert [(hunk["kind"], hunk["added"]) for hunk in review["files"][0]["hunks"]] == [("file", "")]
        await one.decide(hunks=[hunks_id(review, 0)], decision="undo")
        assert one.text() == POEM


async def test_a_crash_after_writing_the_files_keeps_the_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_git = Git.run

    async def dies(self: Git, *words: str, **more: Any) -> Any:
        if words[0] == "update-ref" and "--stdin" in words:
            raise GitFailed("the server died")
        return await run_git(self, *words, **more)

    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        with monkeypatch.context() as patched:
            patched.setattr(Git, "run", dies)
            assert (
                await one.refused(hunks=[id_of(review, "LINE 3\n")], decision="undo")
            ).code == "CHECKPOINT_NOT_FOUND"
    async with reviewing(tmp_path) as one:
        assert [added for _, _, added in hunks(await one.get())] == ["new\n", "", "LINE 17\n"]
        assert one.text() == POEM.replace("line 17\n", "LINE 17\n")


async def test_a_large_file_with_a_filter_is_not_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drawbridge.server.checkpoints.filters.FILTERED_BYTES", 0)
    async with reviewing(tmp_path) as one:
        (one.directory / ".gitattributes").write_text("poem.txt filter=lfs\n")
        os.utime(one.directory / "poem.txt", (1, 1))
        git(one.directory, "add", ".")
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        review = await one.get()
        refused = await one.refused(all=True, version=review["version"], decision="undo")
        assert (refused.code, "poem.txt" in refused.text) == ("CHECKPOINT_NOT_FOUND", True)
        assert one.text() == POEM.replace("line 3\n", "LINE 3\n")
        assert (await one.decide(all=True, version=review["version"], decision="keep"))["state"] == "none"


async def test_the_server_does_not_stop_during_a_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, run_git = asyncio.Event(), Git.run

    async def slowly(self: Git, *words: str, **more: Any) -> Any:
        if words[0] == "apply":
            begun.set()
            await settled()
        return await run_git(self, *words, **more)

    async with reviewing(tmp_path) as one:
        await one.run(three_files)
        review = await one.get()
        monkeypatch.setattr(Git, "run", slowly)
        deciding = asyncio.create_task(one.decide(all=True, version=review["version"], decision="undo"))
        await begun.wait()
        await one.server.core.close("the server is ending")
        assert one.text() == POEM
        assert (await deciding)["state"] == "none"
        assert [item for item in records(one.server, one.project) if item["message"].get("subtype") == "review_decided"]


async def test_a_turn_started_by_the_agent_is_reviewed(tmp_path: Path) -> None:
    """Changes that the user made before the turn are not in the review."""
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        one.replace("line 9\n", "by a person\n")
        await one.begin_alone()
        one.replace("line 6\n", "LINE 6\n")
        await one.end()
        assert [added for _, _, added in hunks(await one.get())] == ["LINE 3\n", "LINE 6\n"]


async def test_a_turn_started_by_the_agent_may_end_immediately(tmp_path: Path) -> None:
    """The checkpoint after the turn is still taken later than the one before the turn."""
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        one.server.agent.latest.emit(base.TurnBegun())
        await one.end()
        one.replace("line 9\n", "by a person\n")
        assert [added for _, _, added in hunks(await one.get())] == ["LINE 3\n"]


async def test_a_reverted_run_is_no_longer_in_the_review(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lambda directory: one.replace("line 3\n", "LINE 3\n"))
        second = await one.run(lambda directory: one.replace("line 6\n", "LINE 6\n"))
        await one.server.does(one.phone, "run_revert", one.project, run_id=second)
        assert [added for _, _, added in hunks(await one.get())] == ["LINE 3\n"]


async def test_the_project_list_contains_the_size_of_each_review(tmp_path: Path) -> None:
    """The numbers come from the last comparison, and are still known after a restart."""

    async def listed(one: Reviewed) -> dict[str, int] | None:
        [project] = (await one.server.does(one.phone, "project_list"))["data"]["projects"]
        found: dict[str, int] | None = project.get("review")
        return found

    async with reviewing(tmp_path) as one:
        assert await listed(one) is None
        await one.run(three_files)
        assert await listed(one) == {"files": 3, "hunks": 4, "added": 3, "removed": 3}
    async with reviewing(tmp_path) as one:
        assert await listed(one) == {"files": 3, "hunks": 4, "added": 3, "removed": 3}
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3")], decision="keep")
        assert await listed(one) == {"files": 3, "hunks": 3, "added": 2, "removed": 2}
        (one.directory / "poem.txt").write_text(POEM)
    async with reviewing(tmp_path) as one:
        await one.get()
        found = await listed(one)
        assert found is not None
        assert found["files"] == 2, "the next look finds what a person changed while no server ran"
