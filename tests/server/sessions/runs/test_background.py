"""What a background command of a managed agent changes after its run belongs to the run's review. The tests use the real
git, and an agent that the test controls.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from drawbridge.agents.base import AgentState, StateReported, Task
from drawbridge.server.sessions.runs import background
from tests.server.reviews.rig import Reviewed, hunks, id_of, reviewing
from tests.waiting import until

OUTLASTED = (
    "A background command of the latest run was still running 10 minutes after the run. What it has changed since is not "
    "in this review."
)


def runs_in_background(one: Reviewed, *ids: str) -> None:
    """The agent reports that exactly these commands are running in the background."""
    tasks = tuple(Task(id, "npm run build", "running", "local_bash", background=True) for id in ids)
    one.server.agent.latest.emit(StateReported(AgentState(tasks=tasks)))


async def settled(one: Reviewed) -> None:
    await one.server.core.projects.get(one.project).tasks.wait()


async def added(one: Reviewed) -> list[str]:
    """The new text of each hunk of the review."""
    return [text for _, _, text in hunks(await one.get())]


async def a_run_that_leaves(one: Reviewed, *commands: str, number: int = 1) -> None:
    """A run that changes line ``number``, and leaves these commands running."""
    await one.begin()
    one.replace(f"line {number}\n", f"LINE {number}\n")
    runs_in_background(one, *commands)
    await one.end()


async def test_changes_by_a_background_command_are_reviewed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await a_run_that_leaves(one, "b1")
        one.replace("line 6\n", "LINE 6\n")
        review = await one.get()
        assert [text for _, _, text in hunks(review)] == ["LINE 1\n", "LINE 6\n"]
        await one.decide(hunks=[id_of(review, "LINE 1\n")], decision="undo")
        one.replace("line 9\n", "LINE 9\n")
        before = len(one.phone.updates("review_changed"))
        runs_in_background(one)
        await settled(one)
        assert [update["hunks"] for update in one.phone.updates("review_changed")[before:]] == [2]
        one.replace("line 19\n", "by a person\n")
        review = await one.get()
        assert ([text for _, _, text in hunks(review)], review["missing"]) == (["LINE 6\n", "LINE 9\n"], "")


async def test_a_command_that_ended_early_keeps_nothing_open(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await one.begin()
        runs_in_background(one, "b1")
        runs_in_background(one)
        one.replace("line 1\n", "LINE 1\n")
        await one.end()
        one.replace("line 19\n", "by a person\n")
        assert await added(one) == ["LINE 1\n"]


async def test_the_next_run_keeps_what_a_command_has_written(tmp_path: Path) -> None:
    """The agent begins it itself when its command has ended, as Claude Code does."""
    async with reviewing(tmp_path) as one:
        await a_run_that_leaves(one, "b1")
        one.replace("line 6\n", "LINE 6\n")
        runs_in_background(one)
        await one.begin_alone()
        one.replace("line 9\n", "LINE 9\n")
        await one.end()
        one.replace("line 19\n", "by a person\n")
        assert await added(one) == ["LINE 1\n", "LINE 6\n", "LINE 9\n"]
        await a_run_that_leaves(one, "b2", number=12)
        one.replace("line 14\n", "LINE 14\n")
        await one.begin()
        runs_in_background(one)
        await one.end()
        one.replace("line 17\n", "by a person\n")
        assert await added(one) == ["LINE 1\n", "LINE 6\n", "LINE 9\n", "LINE 12\n", "LINE 14\n"]


async def test_a_command_that_never_ends_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with reviewing(tmp_path) as one:
        with monkeypatch.context() as patched:
            patched.setattr(background, "BACKGROUND_SECONDS", 0.05)
            await a_run_that_leaves(one, "server")
            work = one.server.core.projects.get(one.project)._background
            await until(lambda: not work.keeps_open, "the end of the review")
            await settled(one)
        assert (await one.get())["missing"] == OUTLASTED
        one.replace("line 19\n", "by a person\n")
        assert await added(one) == ["LINE 1\n"]
        await a_run_that_leaves(one, "server", number=6)
        one.replace("line 17\n", "by a person\n")
        review = await one.get()
        assert ([text for _, _, text in hunks(review)], review["missing"]) == (["LINE 1\n", "LINE 6\n"], "")


async def test_changes_after_the_servers_end_are_the_users(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as one:
        await a_run_that_leaves(one, "b1")
        one.replace("line 6\n", "LINE 6\n")
    one.replace("line 19\n", "by a person\n")
    async with reviewing(tmp_path) as one:
        assert await added(one) == ["LINE 1\n", "LINE 6\n"]
