"""Interrupted decisions, reverts and commits are completed or undone, and are recorded once.
``tests/chaos`` kills real servers."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from drawbridge.core.errors import DrawbridgeError, NotPrivate
from drawbridge.server.app.core import Core
from drawbridge.server.checkpoints.errors import GitFailed
from drawbridge.server.checkpoints.work_tree import WorkTree
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.reviews import committing, recovery
from drawbridge.server.reviews.publishing import Publishing
from drawbridge.server.reviews.recovery import Recovery
from drawbridge.server.reviews.review_commits import ReviewCommits
from drawbridge.server.reviews.reviewing import UNREAD, Reviewing
from drawbridge.server.reviews.reviews import Review
from drawbridge.server.sessions.options.ceilings import Ceilings
from tests import programs
from tests.server.checkpoints.rig import git
from tests.server.core_rig import Client, records
from tests.server.reviews.rig import POEM, Reviewed, hunks, id_of, killed, reviewing
from tests.server.reviews.test_committing import committing_to, hook
from tests.waiting import PATIENCE, until

FILES = ("a.txt", "b.txt", "c.txt")
LONG = "".join(f"{number:06}\n" for number in range(1000))


def work(directory: Path) -> None:
    (directory / "poem.txt").write_text(POEM.replace("line 3\n", "LINE 3\n").replace("line 17\n", "LINE 17\n"))


def three_files(directory: Path) -> None:
    for name in FILES:
        (directory / name).write_text(LONG + "by the agent\n")


def of_review(one: Reviewed) -> list[dict[str, Any]]:
    """What the history contains about decisions, reverts and commits."""
    found = [record["message"] for record in records(one.server, one.project)]
    kinds = ("review_decided", "review_interrupted", "review_committed", "run_reverted")
    about = [{"kind": one["subtype"], **one["message"]} for one in found if one.get("subtype") in kinds]
    return [one for one in about if one.get("by")]


def intent_of(one: Reviewed) -> Path:
    return one.server.folder / "data" / "projects" / one.project / recovery.NAME


async def before_and_kill(folder: Path, point: tuple[object, str], decision: str = "undo") -> None:
    async with reviewing(folder) as one:
        await one.run(work)
        review = await one.get()
        wish: dict[str, Any] = {"text": "edited\n"} if decision == "edit" else {"decision": decision}
        with killed(*point):
            await one.decide(hunks=[id_of(review, "LINE 3\n")], **wish)
        assert intent_of(one).exists()


WRITE, SET, RECORD, END = (
    (WorkTree, "write"),
    (ReviewCommits, "set"),
    (Reviewing, "_publish_decision"),
    (Recovery, "end"),
)


@pytest.mark.parametrize(
    ("point", "decision", "result"),
    [
        (WRITE, "undo", "review_interrupted"),
        (WRITE, "edit", "review_interrupted"),
        (SET, "undo", "review_decided"),
        (SET, "edit", "review_decided"),
        (RECORD, "undo", "review_decided"),
        (RECORD, "edit", "review_decided"),
        (RECORD, "keep", "review_decided"),
        (END, "undo", "review_decided"),
        (END, "keep", "review_decided"),
    ],
)
async def test_a_decision_is_made_once_or_not_at_all_and_recorded(
    tmp_path: Path, point: tuple[object, str], decision: str, result: str
) -> None:
    await before_and_kill(tmp_path, point, decision)
    async with reviewing(tmp_path) as one:
        assert not intent_of(one).exists()
        [found] = of_review(one)
        assert (found["kind"], found["by"], found["decision"]) == (result, "phone", decision)
        assert (found["files"], found["hunks"]) == (1, 1)
        if result == "review_decided":
            added = {"keep": None, "undo": "\n-LINE 3\n+line 3\n", "edit": "\n-LINE 3\n+edited\n"}[decision]
            assert found["paths"] == ["poem.txt"]
            assert added in found["diff"] if added else "diff" not in found
        left = POEM.replace("line 17\n", "LINE 17\n")
        if result == "review_decided":
            assert found.get("interrupted", False) == (point != END), "before the end, it was not recorded"
            assert found["left"] == 1
            text = {"keep": "LINE 3\n", "undo": "line 3\n", "edit": "edited\n"}[decision]
            assert one.text() == left.replace("line 3\n", text)
            assert hunks(await one.get()) == [("poem.txt", "line 17\n", "LINE 17\n")]
        else:
            assert found["result"] == "not_done"
            assert one.text() == left.replace("line 3\n", "LINE 3\n")
            assert len(hunks(await one.get())) == 2
    async with reviewing(tmp_path) as one:
        assert len(of_review(one)) == 1, "it is recorded only once"


@pytest.mark.parametrize("point", [WRITE, SET])
async def test_a_recovery_that_is_killed_is_recorded_once(tmp_path: Path, point: tuple[object, str]) -> None:
    await before_and_kill(tmp_path, point)
    with killed(*END):
        async with reviewing(tmp_path) as one:
            assert len(of_review(one)) == 1
            await one.get()
    async with reviewing(tmp_path) as one:
        assert len(of_review(one)) == 1


@pytest.mark.parametrize("name", ["start", "base", "head"])
async def test_the_lock_of_a_ref_that_a_killed_git_left_is_removed(tmp_path: Path, name: str) -> None:
    await before_and_kill(tmp_path, SET)
    [base] = tmp_path.rglob("refs/drawbridge/*/review/base")
    lock = base.with_name(f"{name}.lock")
    lock.touch()
    os.utime(lock, (1, 1))
    async with reviewing(tmp_path) as one:
        assert hunks(await one.get()) == [("poem.txt", "line 17\n", "LINE 17\n")]
        assert of_review(one)[-1]["kind"] == "review_decided"
        assert not lock.exists()
        assert not intent_of(one).exists()


async def test_the_lock_of_a_ref_that_git_may_hold_is_left(tmp_path: Path) -> None:
    await before_and_kill(tmp_path, SET)
    [base] = tmp_path.rglob("refs/drawbridge/*/review/base")
    lock = base.with_name("base.lock")
    lock.touch()
    async with reviewing(tmp_path) as one:
        with pytest.raises(ClientError, match="git failed"):
            await one.get()
        assert lock.exists()
        lock.unlink()
        assert hunks(await one.get()) == [("poem.txt", "line 17\n", "LINE 17\n")]


async def test_a_decision_leaves_no_intent_behind(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        await one.refused(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        assert not intent_of(one).exists()
        [decided] = of_review(one)
        assert "interrupted" not in decided


@pytest.mark.parametrize("torn", [None, "", LONG[:3000]], ids=["removed", "empty", "cut"])
async def test_a_decision_that_was_half_written_is_completed(tmp_path: Path, torn: str | None) -> None:
    async with reviewing(tmp_path) as one:
        for name in FILES:
            (one.directory / name).write_text(LONG)
        await one.run(three_files)
        review = await one.get()

        def half(*_: object) -> None:
            (one.directory / "a.txt").write_text(LONG)
            (one.directory / "b.txt").unlink()
            if torn is not None:
                (one.directory / "b.txt").write_text(torn)

        with killed(WorkTree, "write", half):
            await one.decide(all=True, version=review["version"], decision="undo")
    async with reviewing(tmp_path) as one:
        assert [one.text(name) for name in FILES] == [LONG] * 3
        [decided] = of_review(one)
        assert (decided["kind"], decided["files"], decided["left"]) == ("review_decided", 3, 0)
        assert (await one.get())["state"] == "none"


async def test_no_file_is_written_while_an_agent_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that failed at the server's start waits for the end of the run."""
    async with reviewing(tmp_path) as one:
        for name in FILES:
            (one.directory / name).write_text(LONG)
        await one.run(three_files)
        review = await one.get()
        with killed(WorkTree, "write", lambda *_: (one.directory / "a.txt").write_text(LONG)):
            await one.decide(all=True, version=review["version"], decision="undo")
    with monkeypatch.context() as failing:
        failing.setattr(Core, "_recover_one", fails)
        async with reviewing(tmp_path) as one:
            await one.begin()
            await one.get()
            assert [one.text(name) == LONG for name in FILES] == [True, False, False]
            assert (await one.refused(all=True, version=review["version"], decision="keep")).code == "PROCESS_ACTIVE"
            assert intent_of(one).exists()
            await one.end()
            await one.get()
            assert [one.text(name) == LONG for name in FILES] == [True, True, True]
            assert [found["kind"] for found in of_review(one)] == ["review_decided"]


async def fails(*_: object) -> None:
    pass


async def test_a_half_written_decision_is_undone_if_a_file_was_changed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        for name in FILES:
            (one.directory / name).write_text(LONG)
        await one.run(three_files)
        review = await one.get()

        def half(*_: object) -> None:
            (one.directory / "a.txt").write_text(LONG)
            (one.directory / "b.txt").unlink()

        with killed(WorkTree, "write", half):
            await one.decide(all=True, version=review["version"], decision="undo")
        (one.directory / "c.txt").write_text("by a person\n")
    async with reviewing(tmp_path) as one:
        assert [one.text(name) for name in FILES] == [LONG + "by the agent\n"] * 2 + ["by a person\n"]
        [found] = of_review(one)
        assert (found["kind"], found["result"], found["changed"]) == ("review_interrupted", "not_done", ["c.txt"])
        assert {path for path, _, _ in hunks(await one.get())} == set(FILES)


async def test_a_file_that_was_changed_since_is_not_written(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        with killed(ReviewCommits, "set"):
            await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        one.replace("line 10\n", "by a person\n")
        text = one.text()
    async with reviewing(tmp_path) as one:
        assert one.text() == text
        [found] = of_review(one)
        assert (found["kind"], found["result"], found["changed"]) == ("review_interrupted", "unknown", ["poem.txt"])
        assert hunks(await one.get()) == [("poem.txt", "line 17\n", "LINE 17\n")], "the review shows the file as it is"


async def test_a_damaged_intent_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await before_and_kill(tmp_path, (WorkTree, "write"))
    for file in tmp_path.rglob(recovery.NAME):
        file.write_bytes(b'{"session": "\xff')
    async with reviewing(tmp_path) as one:
        assert not intent_of(one).exists()
        assert len(hunks(await one.get())) == 2
        assert of_review(one) == []
        assert "a decision, revert or commit was interrupted, and may be incomplete" in caplog.text


async def test_a_missing_directory_is_recovered_once_it_exists_again(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        with killed(*SET):
            await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
    elsewhere = one.directory.rename(tmp_path / "elsewhere")
    async with reviewing(tmp_path) as one:
        assert intent_of(one).exists()
        assert of_review(one) == []
        elsewhere.rename(one.directory)
        assert hunks(await one.get()) == [("poem.txt", "line 17\n", "LINE 17\n")]
        [found] = of_review(one)
        assert (found["kind"], found["interrupted"]) == ("review_decided", True)


async def test_without_room_for_the_intent_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: object, **__: object) -> None:
        raise NotPrivate("there is no space left on the device")

    async with reviewing(tmp_path) as one:
        await one.run(work)
        review, text = await one.get(), one.text()
        with monkeypatch.context() as full:
            full.setattr(recovery, "write_private", is_full)
            with pytest.raises(DrawbridgeError):
                await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        assert one.text() == text
        assert await one.get() == review
        await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        assert len(of_review(one)) == 1


@pytest.mark.parametrize("request_id", ["undo-1", None])
async def test_a_repeated_request_is_answered_but_not_executed_again(tmp_path: Path, request_id: str | None) -> None:
    """A client sends its request again after it has lost the connection."""
    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        wish = {"all": True, "version": review["version"], "decision": "undo", "request_id": request_id}
        with killed(Reviewing, "_publish_decision"):
            await one.decide(**wish)
    async with reviewing(tmp_path) as one:
        one.replace("line 3\n", "by a person\n")
        if request_id is None:
            assert (await one.refused(**wish)).code == "HUNK_GONE"
        else:
            assert (await one.decide(**wish))["state"] == "none"
            assert (await one.refused(**wish | {"request_id": "undo-2"})).code == "HUNK_GONE"
        assert "by a person\n" in one.text()
        assert len(of_review(one)) == 1


async def test_a_repeated_request_publishes_what_has_changed_since(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(work)
        other = Client("laptop")
        await one.server.does(other, "project_join", one.project)
        wish: dict[str, Any] = {
            "hunks": [id_of(await one.get(), "LINE 3\n")],
            "decision": "undo",
            "request_id": "undo-1",
        }
        await one.decide(**wish)
        assert other.updates("review_changed")[-1]["hunks"] == 1
        one.replace("LINE 17\n", "line 17\n")
        await one.decide(**wish)
        assert other.updates("review_changed")[-1]["hunks"] == 0


@pytest.mark.parametrize("written", [True, False])
async def test_a_write_that_git_interrupted_is_completed_immediately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """git fails while it writes, for example because the disk is full. ``written``: whether it has written anything."""
    real, folder, mark = programs.git(), tmp_path / "bin", tmp_path / "failed"
    folder.mkdir()
    begins = "rm poem.txt;" if written else ""
    fails = f'case " $* " in *" apply "*) [ -e {mark} ] || {{ touch {mark}; {begins} exit 128; }} ;; esac'
    (folder / "git").write_text(f'#!/bin/sh\n{fails}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        monkeypatch.setenv("PATH", str(folder), prepend=":")
        if written:
            left = await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
            assert hunks(left) == [("poem.txt", "line 17\n", "LINE 17\n")]
            assert one.text() == POEM.replace("line 17\n", "LINE 17\n")
            [decided] = of_review(one)
            assert "interrupted" not in decided
        else:
            assert (
                await one.refused(hunks=[id_of(review, "LINE 3\n")], decision="undo")
            ).code == "CHECKPOINT_NOT_FOUND"
            assert hunks(await one.get()) == hunks(review)
            assert of_review(one) == [], "whoever has decided gets the error"
        assert not intent_of(one).exists()


async def test_a_decision_is_refused_until_the_recovery_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recovery is retried with each decision. Its result is recorded separately from the decision's."""
    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        with killed(*SET):
            await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
    verdict, failures = Recovery._verdict, [GitFailed("no space left on the device")]

    async def fails_once(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return await verdict(*given)

    monkeypatch.setattr(Core, "_recover_one", fails)
    monkeypatch.setattr(Recovery, "_verdict", fails_once)
    async with reviewing(tmp_path) as one:
        second: dict[str, Any] = {"hunks": [id_of(review, "LINE 17\n")], "decision": "undo"}
        assert (await one.refused(**second)).code == "CHECKPOINT_NOT_FOUND"
        assert "LINE 17\n" in one.text()
        assert (await one.decide(**second))["state"] == "none"
        assert one.text() == POEM
        assert [found.get("interrupted", False) for found in of_review(one)] == [True, False]


async def test_a_waiting_client_does_not_get_the_result_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """git fails while a decision is written, and meanwhile another client requests the review."""
    run, waiting, readers = Recovery.run, asyncio.Event(), list[asyncio.Task[dict[str, Any]]]()

    async def waits(recovery: Recovery) -> Any:
        waiting.set()
        return await run(recovery)

    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        with monkeypatch.context() as failing:

            async def breaks(*_: object) -> None:
                failing.undo()
                failing.setattr(Recovery, "run", waits)
                readers.append(asyncio.create_task(one.get(Client("laptop"))))
                await until(waiting.is_set, "the request of the other client")
                (one.directory / "poem.txt").unlink()
                raise GitFailed("no space left on the device")

            failing.setattr(WorkTree, "write", breaks)
            left = await one.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        assert hunks(left) == hunks(await readers[0]) == [("poem.txt", "line 17\n", "LINE 17\n")]
        assert [found["kind"] for found in of_review(one)] == ["review_decided"]


async def test_an_unreadable_review_does_not_fail_the_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails_to_read(*_: object) -> None:
        raise GitFailed("git was killed")

    async with reviewing(tmp_path) as one:
        await one.run(work)
        review = await one.get()
        with monkeypatch.context() as failing:
            failing.setattr(Publishing, "offers", fails_to_read)
            refused = await one.refused(hunks=[id_of(review, "LINE 3\n")], decision="undo")
        assert (refused.code, refused.text) == ("CHECKPOINT_NOT_FOUND", UNREAD)
        assert [found["kind"] for found in of_review(one)] == ["review_decided"]
        assert hunks(await one.get()) == [("poem.txt", "line 17\n", "LINE 17\n")]


# Reverts and commits.


async def revert_and_kill(folder: Path, point: tuple[object, str], written: int = 0) -> str:
    """Kills the server while it reverts a run that has changed all ``FILES``. ``written``: how many of them the server
    has restored by then. Returns the run's id."""
    async with reviewing(folder) as one:
        for name in FILES:
            (one.directory / name).write_text(LONG)
        run = await one.run(three_files)
        await one.get()

        def restore(*_: object) -> None:
            for name in FILES[:written]:
                (one.directory / name).write_text(LONG)

        with killed(*point, restore):
            await one.server.does(one.phone, "run_revert", one.project, run_id=run)
        assert intent_of(one).exists()
    return run


@pytest.mark.parametrize(
    ("point", "written", "done"), [(WRITE, 0, False), (WRITE, 1, True), (WRITE, 3, True), (END, 3, True)]
)
async def test_a_run_is_reverted_once_or_not_at_all(
    tmp_path: Path, point: tuple[object, str], written: int, done: bool
) -> None:
    run = await revert_and_kill(tmp_path, point, written)
    async with reviewing(tmp_path) as one:
        assert not intent_of(one).exists()
        [found] = of_review(one)
        if done:
            assert (found["kind"], found["by"], found["run_id"]) == ("run_reverted", "phone", run)
            assert [file["path"] for file in found["files"]] == list(FILES)
        else:
            assert (found["kind"], found["by"], found["decision"]) == ("review_interrupted", "phone", "revert")
            assert (found["files"], found["result"]) == (3, "not_done")
        assert [one.text(name) for name in FILES] == [LONG if done else LONG + "by the agent\n"] * 3
        assert len(hunks(await one.get())) == (0 if done else 3)
    async with reviewing(tmp_path) as one:
        assert len(of_review(one)) == 1, "it is recorded only once"


async def test_a_half_reverted_run_is_restored_if_a_file_was_changed(tmp_path: Path) -> None:
    await revert_and_kill(tmp_path, WRITE, 1)
    [c] = tmp_path.rglob("c.txt")
    c.write_text("by a person\n")
    async with reviewing(tmp_path) as one:
        assert [one.text(name) for name in FILES] == [LONG + "by the agent\n"] * 2 + ["by a person\n"]
        [found] = of_review(one)
        assert (found["kind"], found["result"], found["changed"]) == ("review_interrupted", "not_done", ["c.txt"])


async def test_nothing_is_left_after_a_revert(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        run = await one.run(work)
        await one.server.does(one.phone, "run_revert", one.project, run_id=run)
        assert not intent_of(one).exists()
        again = await one.run(work)
        one.replace("LINE 3\n", "by a person\n")
        with pytest.raises(ClientError, match="Nothing was undone"):
            await one.server.does(one.phone, "run_revert", one.project, run_id=again)
        assert not intent_of(one).exists()
        assert [found["kind"] for found in of_review(one)] == ["run_reverted"]


COMMITTED = (Review, "_are_committed")
UNCOMMITTED = (committing, "_run")


async def commit_and_kill(
    folder: Path, point: tuple[object, str], first: Callable[[Path], object] = lambda _: None, branch: str | None = None
) -> str:
    """Kills the server while it commits a change that was kept. ``first`` is called with the directory before that.
    Returns the id of the last commit before it."""
    async with committing_to(folder) as one:
        await one.run(work)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="keep")
        before = git(one.directory, "rev-parse", "HEAD").strip()
        with killed(*point, lambda *_: first(one.directory)):
            await one.commit("Shout", branch=branch)
        assert intent_of(one).exists()
    return before


@pytest.mark.parametrize(("point", "done"), [(UNCOMMITTED, False), (COMMITTED, True), (END, True)])
async def test_a_commit_is_made_once_or_not_at_all(tmp_path: Path, point: tuple[object, str], done: bool) -> None:
    before = await commit_and_kill(tmp_path, point)
    async with reviewing(tmp_path) as one:
        assert not intent_of(one).exists()
        _, found = of_review(one)
        commits = git(one.directory, "rev-list", f"{before}..HEAD").split()
        if done:
            assert (found["kind"], found["by"], found["branch"]) == ("review_committed", "phone", "main")
            assert (found["files"], commits) == (["poem.txt"], [found["commit"]])
        else:
            assert (found["kind"], found["by"], found["decision"]) == ("review_interrupted", "phone", "commit")
            assert (found["files"], found["result"], commits) == (1, "not_done", [])
        assert (await one.get())["kept"] == ([] if done else ["poem.txt"])
    async with reviewing(tmp_path) as one:
        assert len(of_review(one)) == 2, "it is recorded only once"


@pytest.mark.parametrize(("point", "result"), [(UNCOMMITTED, "unknown"), (COMMITTED, "done")])
async def test_a_commit_is_found_among_those_that_followed(
    tmp_path: Path, point: tuple[object, str], result: str
) -> None:
    await commit_and_kill(tmp_path, point)
    [own] = tmp_path.rglob(".git")
    made = git(own.parent, "rev-parse", "HEAD").strip()
    git(own.parent, "commit", "-q", "--allow-empty", "-m", "By hand")
    async with reviewing(tmp_path) as one:
        _, found = of_review(one)
        if result == "done":
            assert (found["kind"], found["commit"]) == ("review_committed", made)
        else:
            assert (found["kind"], found["result"]) == ("review_interrupted", "unknown")


async def test_the_new_branch_of_a_commit_that_was_not_made_is_removed(tmp_path: Path) -> None:
    """Simulates a power failure, which also ends the script that makes the commit."""

    def create(directory: Path) -> None:
        git(directory, "branch", "topic")
        git(directory, "symbolic-ref", "HEAD", "refs/heads/topic")

    await commit_and_kill(tmp_path, UNCOMMITTED, create, "topic")
    async with reviewing(tmp_path) as one:
        assert git(one.directory, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
        assert "topic" not in git(one.directory, "for-each-ref", "refs/heads")
        assert of_review(one)[-1]["result"] == "not_done"


async def test_a_new_branch_that_cannot_be_removed_is_reported(tmp_path: Path) -> None:
    def create(directory: Path) -> None:
        git(directory, "branch", "topic")
        (directory / ".git" / "refs" / "heads" / "topic.lock").touch()

    await commit_and_kill(tmp_path, UNCOMMITTED, create, "topic")
    async with reviewing(tmp_path) as one:
        assert "topic" in git(one.directory, "for-each-ref", "refs/heads")
        assert of_review(one)[-1]["result"] == "unknown"


def make_commit(directory: Path) -> None:
    """Makes the commit of the intent, and not its index, as before a power failure."""
    [intent] = directory.parents[1].rglob(recovery.NAME)
    tree = json.loads(intent.read_text())["attempt"]["tree"]
    commit = git(directory, "commit-tree", tree, "-p", "HEAD", "-m", "Shout").strip()
    git(directory, "update-ref", "HEAD", commit)


@pytest.mark.parametrize("is_made", [True, False])
async def test_the_lock_that_a_killed_commit_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    """Simulates a power failure. If the commit was made, the index gets its changes, as after any commit."""
    with monkeypatch.context() as patched:
        patched.setattr(committing._Lock, "remove", lambda *_: None)
        await commit_and_kill(tmp_path, UNCOMMITTED, make_commit if is_made else lambda _: None)
    [lock] = tmp_path.rglob("index.lock")
    async with reviewing(tmp_path) as one:
        assert not lock.exists()
        assert of_review(one)[-1]["kind"] == ("review_committed" if is_made else "review_interrupted")
        assert git(one.directory, "diff", "--cached", "--name-only") == ""


async def test_a_lock_that_did_not_reach_the_disk_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit did, before a power failure. What the user has staged must not be lost."""
    with monkeypatch.context() as patched:
        patched.setattr(committing._Lock, "remove", lambda *_: None)
        await commit_and_kill(tmp_path, UNCOMMITTED, make_commit)
    [lock], [file] = tmp_path.rglob("index.lock"), tmp_path.rglob(recovery.NAME)
    os.truncate(lock, 0)
    intent = json.loads(file.read_text())
    intent["attempt"]["lock"] = committing._identity(lock)
    file.write_text(json.dumps(intent))
    staged = git(lock.parents[1], "ls-files", "--stage")
    async with reviewing(tmp_path) as one:
        assert not lock.exists()
        assert of_review(one)[-1]["kind"] == "review_committed"
        assert git(one.directory, "ls-files", "--stage") == staged


SCRIPT: Final = """
kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat)
"""
"""A hook that kills the shell in which git was started."""

ALL: Final = """
kill -9 0
"""
"""A hook that kills all processes of the commit."""


@pytest.mark.parametrize("kills", [SCRIPT, ALL], ids=["the script", "everything"])
@pytest.mark.parametrize("branch", [None, "topic"])
async def test_a_commit_is_completed_if_git_is_killed(tmp_path: Path, kills: str, branch: str | None) -> None:
    """The index gets the changes of the commit. Otherwise, they would be staged in reverse."""
    async with committing_to(tmp_path) as one:
        await one.run(work)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="keep")
        hook(one.directory, "post-commit", kills)
        found = await one.commit("Shout", branch=branch)
        assert found["commit"] == git(one.directory, "rev-parse", "HEAD").strip()
        assert found["branch"] == (branch or "main")
        assert git(one.directory, "status", "--porcelain").splitlines() == [" M poem.txt"]
        assert not (one.directory / ".git" / "index.lock").exists()
        assert not intent_of(one).exists()


async def test_a_commit_that_was_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(work)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="keep")
        before = git(one.directory, "status", "--porcelain=2", "--branch"), git(one.directory, "branch", "--list")
        hook(one.directory, "pre-commit", ALL)
        assert "git failed" in (await one.not_committed("Shout", branch="topic")).text
        assert (
            git(one.directory, "status", "--porcelain=2", "--branch"),
            git(one.directory, "branch", "--list"),
        ) == before
        assert not (one.directory / ".git" / "index.lock").exists()


async def cancel_in_hook(one: Reviewed, name: str, branch: str | None = None) -> None:
    """Cancels a commit during the hook ``name``, as a shutdown of the server does if the hook takes too long."""
    await one.run(work)
    await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="keep")
    begun = one.server.folder / "begun"
    hook(one.directory, name, f"touch {begun}\nexec sleep {10 * PATIENCE}\n")
    commit = asyncio.create_task(one.commit("Shout", branch=branch))
    await until(begun.exists, "the hook")
    commit.cancel()
    await asyncio.wait([commit])
    assert commit.cancelled()


async def test_a_commit_that_a_shutdown_cut_short_is_completed(tmp_path: Path) -> None:
    """git has made the commit, but its last hook takes too long. The index gets the changes at the next start."""
    async with committing_to(tmp_path) as one:
        await cancel_in_hook(one, "post-commit")
        made = git(one.directory, "rev-parse", "HEAD").strip()
    async with reviewing(tmp_path) as one:
        assert git(one.directory, "status", "--porcelain").splitlines() == [" M poem.txt"]
        assert not (one.directory / ".git" / "index.lock").exists()
        found = of_review(one)[-1]
        assert (found["kind"], found["commit"]) == ("review_committed", made)


async def test_a_commit_cut_short_before_it_was_made_leaves_no_lock(tmp_path: Path) -> None:
    """The user can commit even if the server is not started again."""
    async with committing_to(tmp_path) as one:
        await cancel_in_hook(one, "pre-commit", "topic")
        assert not (one.directory / ".git" / "index.lock").exists()
        assert git(one.directory, "diff", "--cached", "--name-only") == ""
    async with reviewing(tmp_path) as one:
        found = of_review(one)[-1]
        assert (found["kind"], found["result"]) == ("review_interrupted", "not_done")
        assert "topic" not in git(one.directory, "for-each-ref", "refs/heads")


async def test_a_commit_cut_short_while_it_locks_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is slow: the lock file is created only after the commit was canceled."""
    create, remove = committing._create, committing._Lock.remove
    begun, removing, created = threading.Event(), threading.Event(), threading.Event()

    def slow(lock: Path) -> tuple[int, int]:
        begun.set()
        removing.wait(PATIENCE)
        made = create(lock)
        created.set()
        return made

    def seen(lock: Any) -> None:
        removing.set()
        remove(lock)

    monkeypatch.setattr(committing, "_create", slow)
    monkeypatch.setattr(committing._Lock, "remove", seen)
    async with committing_to(tmp_path) as one:
        await one.run(work)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="keep")
        commit = asyncio.create_task(one.commit("Shout"))
        await until(begun.is_set, "the lock")
        commit.cancel()
        await asyncio.wait([commit])
        assert commit.cancelled()
        await until(created.is_set, "the lock file")
        assert not (one.directory / ".git" / "index.lock").exists()


async def test_the_lock_of_another_git_command_is_left_and_named(tmp_path: Path) -> None:
    await commit_and_kill(tmp_path, UNCOMMITTED)
    [index] = tmp_path.rglob("one/.git/index")
    lock = index.with_name("index.lock")
    lock.write_bytes(index.read_bytes())
    async with reviewing(tmp_path) as one:
        one.server.core.grants.ceilings = Ceilings(commits=True)
        refused = await one.not_committed()
        assert (refused.details or {})["reason"] == "locked"
        assert f"If none is running, delete {lock}." in refused.text
        assert lock.exists()


async def test_a_refused_commit_leaves_nothing_to_recover(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(work)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="keep")
        hook(one.directory, "pre-commit", "exit 1\n")
        assert (await one.not_committed("Shout")).code == "COMMIT_FAILED"
        assert not intent_of(one).exists()
