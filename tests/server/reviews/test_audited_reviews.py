"""What people did with a review is in the audit log once, however often their clients repeat the request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.server.checkpoints.rig import git
from tests.server.reviews.rig import Reviewed, id_of, reviewing
from tests.server.reviews.test_commenting import lines_3_and_17
from tests.server.reviews.test_committing import committing_to
from tests.server.reviews.test_recovery import (
    COMMITTED,
    END,
    RECORD,
    SET,
    UNCOMMITTED,
    WRITE,
    before_and_kill,
    commit_and_kill,
    revert_and_kill,
)


def audited(one: Reviewed) -> list[dict[str, Any]]:
    entries = one.server.audited()
    assert {entry.pop("project_id") for entry in entries} <= {one.project}
    return entries


async def test_a_repeated_decision_is_audited_once(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        wish: dict[str, Any] = {"hunks": [id_of(await one.get(), "LINE 3\n")], "decision": "undo", "request_id": "7"}
        for _ in range(2):
            await one.decide(**wish)
        version = (await one.get())["version"]
        await one.decide(all=True, version=version, decision="keep")
        assert audited(one) == [
            {"event": "review_decided", "by": "phone", "decision": "undo", "hunks": 1, "files": 1},
            {"event": "review_decided", "by": "phone", "decision": "keep", "hunks": 1, "files": 1},
        ]


@pytest.mark.parametrize("point", [SET, RECORD, END])
async def test_a_decision_completed_after_a_kill_is_audited_once(tmp_path: Path, point: tuple[object, str]) -> None:
    await before_and_kill(tmp_path, point, "undo")
    async with reviewing(tmp_path) as one:
        await one.get()
        assert audited(one) == [
            {"event": "review_decided", "by": "phone", "decision": "undo", "hunks": 1, "files": 1},
        ]


async def test_a_reverted_run_is_audited_once(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        run = await one.run(lines_3_and_17)
        await one.server.does(one.phone, "run_revert", one.project, run_id=run)
        assert audited(one) == [{"event": "reverted", "by": "phone", "run_id": run}]


async def test_a_commit_is_audited_once(tmp_path: Path) -> None:
    async with committing_to(tmp_path) as one:
        await one.run(lines_3_and_17)
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="keep")
        made = await one.commit()
        assert audited(one)[1:] == [
            {"event": "review_committed", "by": "phone", "commit": made["commit"], "branch": "main"},
        ]


@pytest.mark.parametrize(("point", "written"), [(WRITE, 1), (END, 3)])
async def test_a_revert_completed_after_a_kill_is_audited_once(
    tmp_path: Path, point: tuple[object, str], written: int
) -> None:
    run = await revert_and_kill(tmp_path, point, written)
    async with reviewing(tmp_path) as one:
        assert audited(one) == [{"event": "reverted", "by": "phone", "run_id": run}]


@pytest.mark.parametrize("point", [COMMITTED, END])
async def test_a_commit_completed_after_a_kill_is_audited_once(tmp_path: Path, point: tuple[object, str]) -> None:
    await commit_and_kill(tmp_path, point)
    async with reviewing(tmp_path) as one:
        made = git(one.directory, "rev-parse", "HEAD").strip()
        assert audited(one)[1:] == [{"event": "review_committed", "by": "phone", "commit": made, "branch": "main"}]


@pytest.mark.parametrize("is_commit", [False, True])
async def test_what_a_kill_prevented_is_not_audited(tmp_path: Path, is_commit: bool) -> None:
    if is_commit:
        await commit_and_kill(tmp_path, UNCOMMITTED)
    else:
        await revert_and_kill(tmp_path, WRITE)
    async with reviewing(tmp_path) as one:
        assert [entry["event"] for entry in audited(one)] == ["review_decided"] * is_commit


async def test_a_repeated_comment_is_audited_once(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        comment: dict[str, Any] = {
            "path": "poem.txt",
            "line": 3,
            "quote": "LINE 3\n",
            "text": "Why?",
            "request_id": "7",
        }
        id = [(await one.comment(**comment))["comment_id"] for _ in range(2)][-1]
        for _ in range(2):
            await one.comment(comment_id=id, text="Why so loud?")
        await one.comment(comment_id=id, remove=True)
        about = {"event": "review_commented", "by": "phone", "comment_id": id}
        assert audited(one) == [
            about | {"path": "poem.txt"},
            about | {"path": "poem.txt"},
            about | {"removed": True},
        ]


async def test_comments_submitted_twice_are_audited_once(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.run(lines_3_and_17)
        await one.write(3, "LINE 3\n")
        drafts = (await one.get())["drafts"]
        [run, again] = [(await one.submit(drafts=drafts, request_id="8"))["data"]["run_id"] for _ in range(2)]
        [entry] = [entry for entry in audited(one) if entry["event"] == "review_submitted"]
        assert run == again
        assert entry == {"event": "review_submitted", "by": "phone", "run_id": run}
