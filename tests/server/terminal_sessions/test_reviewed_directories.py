"""The changes of agents in terminals are reviewed by directory, with one review for all sessions in it. The tests use
the real git.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.app.core import Core
from drawbridge.server.checkpoints.errors import GitFailed, TookTooLong
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.index_cache import CachedIndex
from drawbridge.server.checkpoints.snapshotter import Snapshotter, _Collected
from drawbridge.server.checkpoints.work_tree import WorkTree
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.reviews import committing, recovery
from drawbridge.server.reviews.review_commits import ReviewCommits
from drawbridge.server.sessions.options.ceilings import Ceilings
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.terminal_sessions import directories
from drawbridge.server.terminal_sessions import sessions as sessions_module
from drawbridge.server.terminal_sessions import turn as turn_module
from drawbridge.server.terminal_sessions.directories import ReviewedDirectory
from tests.server.checkpoints.rig import git
from tests.server.core_rig import Client
from tests.server.reviews.remotes import add_remote, tip
from tests.server.reviews.rig import POEM, Reviewed, hunks, id_of, killed, make_repository
from tests.waiting import until

from .socket_rig import Line, Message, Session, SocketRig, socket_rig
from .test_runs import SHELL, SUBAGENT
from .test_sessions import prompt, said

INTERRUPTED: Message = {
    "type": "user",
    "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]},
    "interruptedMessageId": "m",
}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path, Limits()) as rig:
        yield rig


@pytest.fixture
def place(rig: SocketRig) -> Path:
    make_repository(rig.folder / "one")
    return rig.folder / "one"


class At:
    """A session in a directory. The test sends the reports of its hooks, and changes the files."""

    def __init__(self, rig: SocketRig, place: Path) -> None:
        self.rig = rig
        self.place = place
        self.session = Session(rig, place)

    @property
    def directory(self) -> ReviewedDirectory:
        found = self.rig.server.core.terminal_sessions.find(self.session.project)
        assert found is not None
        return found.reviewed

    async def begins(self, words: str = "Go", turn: str | None = None) -> None:
        self.session.turn = turn or str(uuid.uuid4())
        await self.session.reports("UserPromptSubmit", prompt=words)
        await self.may_write()

    async def may_write(self, tool: str = "Edit", **more: Any) -> None:
        """Sends the report of the hook that runs before a tool. Returns once the server lets the agent continue."""
        async with Line.open() as line:
            payload = self.session.payload("PreToolUse", tool_name=tool, **more)
            line.send(type="hook", pid=self.session.pid, payload=payload)
            while await line.receive() is not None:
                pass
        await self.rig.idle()

    async def stops(self, **more: Any) -> None:
        await self.session.reports("Stop", **more)
        await self.settled()

    async def settled(self) -> None:
        """Returns once all checkpoints have been taken."""
        await self.rig.idle()
        await until(lambda: not self.directory._is_working, "the checkpoints")

    def replace(self, old: str, new: str, name: str = "poem.txt") -> None:
        text = (self.place / name).read_text()
        assert old in text
        (self.place / name).write_text(text.replace(old, new))

    async def get(self) -> Message:
        found: Message = (await self.rig.does("review_get", self.session.project))["data"]
        return found

    async def added(self) -> list[str]:
        """The new text of each hunk of the review."""
        return [added for _, _, added in hunks(await self.get())]

    async def decide(self, **data: Any) -> Message:
        found: Message = (await self.rig.does("review_decide", self.session.project, **data))["data"]
        return found


@pytest.mark.parametrize("kind", ["git", "no git"])
async def test_the_changes_of_a_run_are_decided_hunk_by_hunk(kind: str, rig: SocketRig, place: Path) -> None:
    if kind == "no git":
        shutil.rmtree(place / ".git")
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    at.replace("line 17\n", "LINE 17\n")
    (place / "old.txt").unlink()
    await at.stops()
    review = await at.get()
    assert (len(hunks(review)), review["repository"]) == (3, "private" if kind == "no git" else "project")
    changes = await rig.does("run_changes", at.session.project, run_id=at.session.turn)
    assert [file["path"] for file in changes["data"]["files"]] == ["old.txt", "poem.txt"]
    await at.decide(hunks=[id_of(review, "LINE 3\n")], decision="undo")
    await at.decide(hunks=[id_of(review, "old.txt")], decision="undo")
    left = await at.decide(hunks=[id_of(review, "LINE 17\n")], text="seventeen\n")
    assert left["state"] == "none"
    assert (place / "poem.txt").read_text() == POEM.replace("line 17\n", "seventeen\n")
    assert (place / "old.txt").read_text() == "old\n"


async def test_kept_changes_are_committed_and_pushed(rig: SocketRig, place: Path, tmp_path: Path) -> None:
    """Clients that follow another session in the directory are notified, too."""
    rig.server.core.grants.ceilings = Ceilings(commits=True, pushes=True)
    git(place, "config", "user.name", "Ada")
    git(place, "config", "user.email", "ada@example.com")
    add_remote(place, tmp_path / "remote")
    at, other = At(rig, place), At(rig, place)
    await other.begins("Look")
    await other.stops()
    await at.begins("Shout line 3")
    at.session.writes(prompt("Shout line 3"), said("Gladly"))
    at.replace("line 3\n", "LINE 3\n")
    at.replace("line 17\n", "LINE 17\n")
    await at.stops()
    left = await at.decide(hunks=[id_of(await at.get(), "LINE 3\n")], decision="keep")
    assert (left["kept"], left["commit"]["message"]) == (["poem.txt"], "Shout line 3")
    await other.begins("Go on")
    with pytest.raises(ClientError, match="An agent is working in this directory"):
        await rig.does("review_commit", at.session.project, message="Shout")
    await other.stops()
    before = len(rig.client.received)
    committed = (await rig.does("review_commit", at.session.project, message="Shout"))["data"]["data"]
    assert committed["files"] == ["poem.txt"]
    assert git(place, "show", "HEAD:poem.txt") == POEM.replace("line 3\n", "LINE 3\n")
    version = (await at.get())["push"]["version"]
    await rig.does("review_push", other.session.project, version=version)
    assert tip(tmp_path / "remote") == committed["commit"]
    assert (await other.get())["kept"] == []
    for update in ("review_committed", "review_pushed"):
        notified = [
            one["project_id"]
            for one in rig.client.received[before:]
            if one.get("data", {}).get("update_type") == update
        ]
        assert set(notified) == {at.session.project, other.session.project}, update


@pytest.mark.thorough
async def test_clients_are_notified_of_the_review(rig: SocketRig, place: Path) -> None:
    at = At(rig, place)
    await at.begins()
    await rig.does("project_join", at.session.project)
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    (changed,) = rig.client.updates("review_changed")
    assert (changed["state"], changed["files"], changed["hunks"]) == ("open", 1, 1)
    at.replace("LINE 3\n", "line 3\n")
    assert (await at.get())["state"] == "none"
    assert rig.client.updates("review_changed")[-1]["state"] == "decided"


@pytest.mark.thorough
async def test_a_users_changes_between_runs_are_not_reviewed(rig: SocketRig, place: Path) -> None:
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    at.replace("line 9\n", "by a person\n")
    await at.begins()
    at.replace("line 17\n", "LINE 17\n")
    await at.stops()
    assert await at.added() == ["LINE 3\n", "LINE 17\n"]


async def test_interrupted_and_failed_runs_are_reviewed(rig: SocketRig, place: Path) -> None:
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    at.session.writes(prompt("Go"), said("let me see"), INTERRUPTED)
    await until(lambda: not at.directory.busy, "the end of the run")
    await at.settled()
    at.replace("line 9\n", "by a person\n")
    await at.begins()
    at.replace("line 12\n", "LINE 12\n")
    await at.session.reports("StopFailure", error="unknown", last_assistant_message="no")
    await at.settled()
    await at.begins()
    at.replace("line 15\n", "LINE 15\n")
    await at.session.reports("SessionEnd", reason="prompt_input_exit")
    await at.settled()
    assert await at.added() == ["LINE 3\n", "LINE 12\n", "LINE 15\n"]


@pytest.mark.thorough
async def test_background_work_belongs_to_the_run(rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops(background_tasks=[SUBAGENT])
    await at.may_write(agent_id="a1")
    at.replace("line 9\n", "LINE 9\n")
    await at.session.reports("SubagentStop", agent_id="a1")
    await at.session.reports("UserPromptSubmit", prompt="<task-notification>", prompt_id="another")
    await at.may_write(prompt_id="another")
    at.replace("line 15\n", "LINE 15\n")
    await at.stops(prompt_id="another", background_tasks=[])
    assert not at.directory.busy
    assert await at.added() == ["LINE 3\n", "LINE 9\n", "LINE 15\n"]
    monkeypatch.setattr(turn_module, "LAST_SECONDS", 0.0)
    at.replace("line 19\n", "by a person\n")
    assert len(await at.added()) == 3


@pytest.mark.thorough
async def test_a_background_command_belongs_to_the_run_for_a_while(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that never ends does not make everything that anyone writes the agent's work."""
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops(background_tasks=[SHELL])
    at.replace("line 9\n", "LINE 9\n")
    assert await at.added() == ["LINE 3\n", "LINE 9\n"]
    monkeypatch.setattr(turn_module, "TASK_SECONDS", 0.0)
    await at.session.reports("Stop", background_tasks=[SHELL])
    await until(lambda: not at.directory.busy, "the end of the run")
    await at.settled()
    at.replace("line 15\n", "LINE 15\n")
    assert await at.added() == ["LINE 3\n", "LINE 9\n"]


async def test_nothing_is_undone_while_another_agent_works_here(rig: SocketRig, place: Path) -> None:
    """One agent is in a terminal, and the server runs the other one. Changes can be kept at any time."""
    created = await rig.does("project_create", path=str(place), join=True)
    managed, at = Reviewed(rig.server, rig.client, created["project_id"], place), At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    run = await managed.run(lambda _: at.replace("line 17\n", "LINE 17\n"))

    await at.begins("Go on")
    hunk = id_of(await managed.get(), "LINE 17\n")
    ways: list[Message] = [{"decision": "undo"}, {"text": "other\n"}]
    for way in ways:
        refused = await managed.refused(hunks=[hunk], **way)
        assert (refused.code, refused.retryable) == ("PROCESS_ACTIVE", True)
    with pytest.raises(ClientError, match="An agent is working in this directory"):
        await rig.does("run_revert", managed.project, run_id=run)
    await managed.decide(hunks=[hunk], decision="keep")
    await at.stops()

    await managed.begin()
    hunk = id_of(await at.get(), "LINE 3\n")
    with pytest.raises(ClientError, match="An agent is working in this directory"):
        await at.decide(hunks=[hunk], decision="undo")
    await managed.end()
    await at.decide(hunks=[hunk], decision="undo")
    assert (place / "poem.txt").read_text() == POEM.replace("line 17\n", "LINE 17\n")


async def test_nothing_is_undone_while_an_agent_works_further_down(rig: SocketRig, place: Path) -> None:
    (place / "inside").mkdir()
    at, inside = At(rig, place), At(rig, place / "inside")
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    await inside.begins()
    hunk = id_of(await at.get(), "LINE 3\n")
    with pytest.raises(ClientError, match="An agent is working in this directory"):
        await at.decide(hunks=[hunk], decision="undo")
    await inside.stops()
    await at.decide(hunks=[hunk], decision="undo")
    assert (place / "poem.txt").read_text() == POEM


async def test_two_sessions_in_a_directory_share_the_review(rig: SocketRig, place: Path) -> None:
    """The review can't be decided until both runs have ended."""
    one, two, elsewhere = At(rig, place), At(rig, place), At(rig, rig.folder)
    await elsewhere.session.reports("SessionStart", source="startup")
    await one.begins()
    one.replace("line 3\n", "LINE 3\n")
    await two.begins()
    two.replace("line 6\n", "LINE 6\n")
    await one.stops()
    two.replace("line 9\n", "LINE 9\n")
    with pytest.raises(ClientError) as refused:
        await one.decide(hunks=[id_of(await one.get(), "LINE 3\n")], decision="undo")
    assert refused.value.code == "PROCESS_ACTIVE"
    await two.stops()
    assert one.directory is two.directory
    assert await one.added() == await two.added() == ["LINE 3\n", "LINE 6\n", "LINE 9\n"]
    left = await one.decide(hunks=[id_of(await one.get(), "LINE 6\n")], decision="undo")
    assert left["version"] == (await two.get())["version"]
    assert (await elsewhere.get())["state"] == "none"


@pytest.mark.thorough
async def test_the_last_run_is_reviewed_without_its_own_checkpoint(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(self: Snapshotter, run: str) -> bool:
        raise GitFailed("no such luck")

    one, two = At(rig, place), At(rig, place)
    await one.begins()
    one.replace("line 3\n", "LINE 3\n")
    with monkeypatch.context() as patched:
        patched.setattr(Snapshotter, "begin", fails)
        await two.begins()
    await one.stops()
    two.replace("line 9\n", "LINE 9\n")
    await two.stops()
    two.replace("line 15\n", "by a person\n")
    assert await two.added() == ["LINE 3\n", "LINE 9\n"]


@pytest.mark.thorough
async def test_a_link_to_a_directory_shares_its_review(rig: SocketRig, place: Path) -> None:
    (rig.folder / "link").symlink_to(place)
    one, two = At(rig, place), At(rig, rig.folder / "link")
    await one.begins()
    one.replace("line 3\n", "LINE 3\n")
    await one.stops()
    await two.begins()
    await two.stops()
    assert one.directory is two.directory
    assert await two.added() == ["LINE 3\n"]


@pytest.mark.thorough
async def test_no_changes_are_lost_if_the_next_prompt_is_immediate(rig: SocketRig, place: Path) -> None:
    """The server processes the end of the first run after the agent has begun to work on the next one."""
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    async with Line.open() as line:  # the agent's last text is not in the transcript yet, and the server waits for it
        line.send(type="hook", pid=at.session.pid, payload=at.session.payload("Stop", last_assistant_message="Done."))
        line.end()
        assert await line.receive() is None
    at.session.turn = str(uuid.uuid4())
    async with Line.open() as line:
        line.send(type="hook", pid=at.session.pid, payload=at.session.payload("UserPromptSubmit", prompt="Go on"))
        line.end()
        assert await line.receive() is None
    await at.may_write()
    at.replace("line 9\n", "LINE 9\n")
    await at.settled()
    at.replace("line 15\n", "LINE 15\n")
    await at.stops()
    assert await at.added() == ["LINE 3\n", "LINE 9\n", "LINE 15\n"]


@pytest.mark.thorough
async def test_a_run_that_only_its_first_tool_reports_is_reviewed(rig: SocketRig, place: Path) -> None:
    """A prompt that was queued in the terminal begins a run without a report from its ``UserPromptSubmit`` hook."""
    at = At(rig, place)
    await at.may_write()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    assert await at.added() == ["LINE 3\n"]


async def test_a_tool_waits_for_the_checkpoint_before_its_run(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook of the prompt itself does not wait."""
    held = asyncio.Event()
    begin = Snapshotter.begin

    async def holds(self: Snapshotter, run: str) -> bool:
        await held.wait()
        return await begin(self, run)

    monkeypatch.setattr(Snapshotter, "begin", holds)
    at = At(rig, place)
    await at.session.reports("UserPromptSubmit", prompt="Go")
    waiting = asyncio.create_task(at.may_write("Bash"))
    async with Line.open() as line:
        line.send(type="hook", pid=at.session.pid, payload=at.session.payload("PreToolUse", tool_name="Write"))
        assert await line.receive() == {"decision": None}, "the server tells the hook to wait"
        assert await line.receives_nothing()
        assert not waiting.done()
        held.set()
        assert await line.receive() is None
    await waiting
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    assert await at.added() == ["LINE 3\n"]


@pytest.mark.thorough
async def test_a_tool_waits_for_a_limited_time(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(directories, "READY_SECONDS", 0.05)
    held = asyncio.Event()

    async def holds(self: Snapshotter, run: str) -> bool:
        await held.wait()
        return True

    monkeypatch.setattr(Snapshotter, "begin", holds)
    at = At(rig, place)
    await at.session.reports("UserPromptSubmit", prompt="Go")
    await at.may_write()
    assert "the checkpoint before the run was late" in caplog.text
    monkeypatch.setattr(directories, "READY_SECONDS", 600.0)
    await at.may_write()  # tools wait only once in each run
    held.set()


async def test_a_late_checkpoint_is_said_until_the_next_run(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's first change was made before the checkpoint, so that the review lacks it."""
    held, collect = asyncio.Event(), Snapshotter._collect_before

    async def holds(self: Snapshotter, *given: Any) -> Any:
        await held.wait()
        return await collect(self, *given)

    at = At(rig, place)
    with monkeypatch.context() as patched:
        patched.setattr(directories, "READY_SECONDS", 0.05)
        patched.setattr(Snapshotter, "_collect_before", holds)
        await at.begins()
        at.replace("line 3\n", "LINE 3\n")
        held.set()
        await at.settled()
    at.replace("line 6\n", "LINE 6\n")
    review = await at.get()
    assert [added for _, _, added in hunks(review)] == ["LINE 6\n"]
    assert review["missing"] == (
        "Changes of the latest run may be missing here, because no checkpoint was taken in time before it: "
        "git took longer than 5 s."
    )
    await at.stops()
    left = await at.decide(all=True, version=(await at.get())["version"], decision="keep")
    assert (left["files"], left["missing"]) == ([], review["missing"])
    await at.begins()
    at.replace("line 9\n", "LINE 9\n")
    later = await at.get()
    assert (len(hunks(later)), later["missing"]) == (1, "")
    assert later["version"] != left["version"]


def worktree(place: Path) -> Path:
    """Creates a git worktree where Claude Code creates one."""
    path = place / ".claude" / "worktrees" / "trial"
    git(place, "worktree", "add", "-q", str(path))
    return path


def elsewhere(directory: str) -> str:
    return (
        f"The agent worked in {directory}. Changes there are not in this review. Start the agent in that directory to "
        "review what it changes."
    )


async def test_a_review_names_the_worktree_of_the_latest_run(rig: SocketRig, place: Path) -> None:
    at, trial = At(rig, place), worktree(place)
    await at.begins()
    await rig.does("project_join", at.session.project)
    at.session.cwd = trial
    await at.may_write()
    (trial / "poem.txt").write_text("in the worktree\n")
    await at.stops()
    assert rig.client.updates("review_changed")[-1]["state"] == "decided"
    review = await at.get()
    assert (hunks(review), review["missing"]) == ([], elsewhere(".claude/worktrees/trial"))
    await at.begins("Go on there")
    at.session.cwd = place
    await at.may_write()
    await at.stops()
    assert (await at.get())["missing"] == elsewhere(".claude/worktrees/trial"), "it worked in both"
    await at.begins("Go on here")
    at.replace("line 3\n", "LINE 3\n")
    (place / "sub").mkdir()
    at.session.cwd = place / "sub"
    await at.stops()
    review = await at.get()
    assert ([added for _, _, added in hunks(review)], review["missing"]) == (["LINE 3\n"], "")


async def test_a_subagents_worktree_is_named_for_its_run(rig: SocketRig, place: Path) -> None:
    at, trial = At(rig, place), place.parent / "trial"
    git(place, "worktree", "add", "-q", str(trial))
    await at.begins()
    await at.may_write(agent_id="a1", agent_type="general-purpose", cwd=str(trial))
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    review = await at.get()
    assert ([added for _, _, added in hunks(review)], review["missing"]) == (["LINE 3\n"], elsewhere("../trial"))


async def test_opening_a_conversation_elsewhere_is_not_work(rig: SocketRig, place: Path) -> None:
    at, trial = At(rig, place), worktree(place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    at.session.cwd = trial
    await at.session.reports("SessionStart", source="resume")
    await at.settled()
    review = await at.get()
    assert ([added for _, _, added in hunks(review)], review["missing"]) == (["LINE 3\n"], "")


async def test_the_worktree_is_still_named_after_a_restart(tmp_path: Path) -> None:
    async with socket_rig(tmp_path, Limits()) as rig:
        make_repository(rig.folder / "one")
        trial = worktree(rig.folder / "one")
        at = At(rig, rig.folder / "one")
        await at.begins()
        await at.may_write(cwd=str(trial))
        await at.settled()
    async with socket_rig(tmp_path, Limits()) as rig:
        at.session.at(rig)
        at.rig = rig
        assert (await at.get())["missing"] == elsewhere(".claude/worktrees/trial")
        await at.may_write()
        await at.stops()
        assert (await at.get())["missing"] == elsewhere(".claude/worktrees/trial"), "the same run continues"
        await at.begins()
        await at.stops()
        assert (await at.get())["missing"] == ""


@pytest.mark.thorough
async def test_a_git_error_does_not_block_the_agent(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is logged only once."""

    async def fails(self: Snapshotter, run: str) -> bool:
        raise GitFailed("no such luck")

    with monkeypatch.context() as patched:
        patched.setattr(Snapshotter, "begin", fails)
        at = At(rig, place)
        for _ in range(3):
            await at.begins()
            await at.stops()
    assert caplog.text.count("no such luck") == 1
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    assert await at.added() == ["LINE 3\n"]


async def test_a_run_without_a_checkpoint_is_not_reviewed_as_nothing(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first checkpoint can't be stored, and git is too slow for the second one."""
    at = At(rig, place)
    for failing, reason in (
        ((ReviewedDirectory, "_prepare", OSError(28, "No space left on device")), "A file operation failed"),
        ((Snapshotter, "_collect_before", TookTooLong("git took more than 30 s for: git add")), "git took too long"),
    ):
        owner, name, error = failing

        async def fails(*_: object, error: Exception = error) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, fails)
            await at.begins()
            at.replace("line 3\n", "LINE 3\n")
            await at.stops()
        with pytest.raises(ClientError, match=f"no checkpoint was taken before it: {reason}"):
            await at.added()
        at.replace("LINE 3\n", "line 3\n")
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    assert await at.added() == ["LINE 3\n"]


async def test_work_after_a_failed_last_checkpoint_is_the_users(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")

    async def fails(*_: object) -> None:
        raise TookTooLong("git took more than 30 s for: git add")

    with monkeypatch.context() as patched:
        patched.setattr(Snapshotter, "_collect_after", fails)
        await at.stops()
    assert await at.added() == ["LINE 3\n"]
    at.replace("line 13\n", "by a person\n")
    assert await at.added() == ["LINE 3\n"]


async def test_a_run_of_the_server_begins_after_a_decision(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the run's own review would show what the user has undone as a change by its agent."""
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    review = await at.get()
    phone, write = Client("phone"), WorkTree.write
    project = (await rig.server.does(phone, "project_create", path=str(place), join=True))["project_id"]
    has_begun = asyncio.Event()

    async def writes(*given: Any) -> None:
        await rig.server.does(phone, "execute", project, prompt="go")
        for _ in range(50):  # long enough for a prompt that did not wait
            await asyncio.sleep(0.01)
            assert not [process for process in rig.server.agent.processes if process.prompts]
        await write(*given)
        has_begun.set()

    monkeypatch.setattr(WorkTree, "write", writes)
    await at.decide(all=True, version=review["version"], decision="undo")
    assert has_begun.is_set()
    await until(lambda: any(process.prompts for process in rig.server.agent.processes), "the prompt")
    rig.server.agent.latest.ends()
    assert (await rig.server.does(phone, "review_get", project))["data"]["files"] == []


async def test_the_review_of_a_directory_that_is_gone_is_not_listed(rig: SocketRig, place: Path) -> None:
    """Nobody has to open the review. Once the directory is back, its review is listed again."""
    at = At(rig, place)
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()

    async def listed() -> int:
        [session] = (await rig.does("project_list"))["data"]["projects"]
        return int((session.get("review") or {}).get("files", 0))

    assert await listed() == 1
    place.rename(place.with_name("elsewhere"))
    assert await listed() == 0
    place.with_name("elsewhere").rename(place)
    await listed()
    session = rig.server.core.terminal_sessions.find(at.session.project)
    assert session is not None
    await until(lambda: session.store.review is not None and session.store.review.files == 1, "the review")
    assert await listed() == 1


async def test_a_late_checkpoint_does_not_hide_a_change(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent has changed the file before git reads it."""
    at = At(rig, place)
    await at.begins()
    await at.stops()
    held = asyncio.Event()
    collect = Snapshotter._collect_before

    async def waits(self: Snapshotter, git: Git, run: str, cached: CachedIndex | None) -> _Collected:
        await held.wait()
        return await collect(self, git, run, cached)

    with monkeypatch.context() as patched:
        patched.setattr(directories, "READY_SECONDS", 0.05)
        patched.setattr(Snapshotter, "_collect_before", waits)
        await at.begins()
        at.replace("line 3\n", "LINE 3\n")
        held.set()
        await at.settled()
    await at.stops()
    assert await at.added() == ["LINE 3\n"]


@pytest.mark.thorough
async def test_no_checkpoints_are_taken_for_old_turns_of_a_transcript(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []
    take = Snapshotter._create

    async def counts(self: Snapshotter, run_id: str, *more: Any) -> bool:
        taken.append(run_id)
        return await take(self, run_id, *more)

    monkeypatch.setattr(Snapshotter, "_create", counts)
    at = At(rig, place)
    for number in range(20):
        at.session.writes(
            prompt(f"Prompt {number}", promptId=f"old{number}"), said("done") | {"promptId": f"old{number}"}
        )
    await at.begins()
    await at.stops()
    assert len(taken) <= 4, taken
    assert at.session.turn in taken


@pytest.mark.thorough
async def test_a_directory_that_is_not_allowed_has_no_review(
    rig: SocketRig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_repository(tmp_path / "outside")
    at = At(rig, tmp_path / "outside")
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    assert git(at.place, "for-each-ref", "refs/drawbridge") == ""
    with pytest.raises(ClientError) as refused:
        await at.get()
    assert refused.value.code == "INVALID_PATH"


@pytest.mark.thorough
async def test_a_run_and_its_review_survive_a_restart(tmp_path: Path) -> None:
    async with socket_rig(tmp_path, Limits()) as rig:
        make_repository(rig.folder / "one")
        at = At(rig, rig.folder / "one")
        await at.begins()
        at.replace("line 3\n", "LINE 3\n")
        await at.stops()
        await at.begins()
        at.replace("line 6\n", "LINE 6\n")
        await at.settled()
    at.replace("line 9\n", "LINE 9\n")
    async with socket_rig(tmp_path, Limits()) as rig:
        at.session.at(rig)
        at.rig = rig
        assert at.directory.busy
        at.replace("line 12\n", "LINE 12\n")
        assert await at.added() == ["LINE 3\n", "LINE 6\n", "LINE 9\n", "LINE 12\n"]
        at.replace("line 15\n", "LINE 15\n")
        await at.stops()
        at.replace("line 19\n", "by a person\n")
        assert await at.added() == ["LINE 3\n", "LINE 6\n", "LINE 9\n", "LINE 12\n", "LINE 15\n"]


async def test_an_interrupted_decision_is_recorded_in_its_session(tmp_path: Path) -> None:
    """The sessions share the review, and only one of them has the record."""
    async with socket_rig(tmp_path, Limits()) as rig:
        make_repository(rig.folder / "one")
        one, two = At(rig, rig.folder / "one"), At(rig, rig.folder / "one")
        for at in (one, two):
            await at.begins()
            at.replace("line 3\n" if at is one else "line 9\n", "by an agent\n")
            await at.stops()
        review = await two.get()
        with killed(ReviewCommits, "set"):
            await two.decide(hunks=[hunk["id"] for hunk in review["files"][0]["hunks"]], decision="undo")
    async with socket_rig(tmp_path, Limits()) as rig:
        assert (rig.folder / "one" / "poem.txt").read_text() == POEM
        found = {}
        for at in (one, two):
            page = await rig.does("get_messages", at.session.project, after_seq=0, limit=100)
            records = [record["message"] for record in page["data"]["messages"]]
            found[at] = [record["message"] for record in records if record.get("subtype") == "review_decided"]
        assert found[one] == []
        [decided] = found[two]
        assert (decided["hunks"], decided["left"], decided["interrupted"]) == (2, 0, True)
        for at in (one, two):
            assert (await rig.does("review_get", at.session.project))["data"]["state"] == "none"


@pytest.mark.thorough
async def test_removing_the_last_session_removes_the_checkpoints(tmp_path: Path) -> None:
    async with socket_rig(tmp_path, Limits()) as rig:
        make_repository(rig.folder / "one")
        one, two = At(rig, rig.folder / "one"), At(rig, rig.folder / "one")
        for at in (one, two):
            await at.begins()
            at.replace("line 3\n" if at is one else "line 9\n", "by an agent\n")
            await at.stops()
        folder = one.directory.folder
        await rig.does("project_delete", one.session.project)
        assert len(await two.added()) == 2
        assert folder.exists()
        await rig.does("project_delete", two.session.project)
        await rig.server.core.terminal_sessions._directories._removals.wait()
        assert git(one.place, "for-each-ref", "refs/drawbridge") == ""
        assert not folder.exists()
        await one.begins()
        one.replace("line 15\n", "LINE 15\n")
        await one.stops()
        assert await one.added() == ["LINE 15\n"]


@pytest.mark.thorough
async def test_a_directory_without_a_session_is_cleaned_up_at_startup(tmp_path: Path) -> None:
    """The directory's checkpoints are removed from the repository, and its folder from the server's data."""
    async with socket_rig(tmp_path, Limits()) as rig:
        make_repository(rig.folder / "one")
        at = At(rig, rig.folder / "one")
        await at.begins()
        await at.stops()
        folder = at.directory.folder
    assert git(at.place, "for-each-ref", "refs/drawbridge") != ""
    shutil.rmtree(tmp_path / "data" / "desk" / at.session.project)
    async with socket_rig(tmp_path, Limits()) as rig:
        await rig.server.core.terminal_sessions._directories._removals.wait()
        assert git(at.place, "for-each-ref", "refs/drawbridge") == ""
        assert not folder.exists()


@pytest.mark.thorough
async def test_the_folder_of_a_displaced_session_is_removed(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "MOST", 1)
    first = At(rig, place)
    await first.begins()
    await first.stops()
    folder = first.directory.folder
    await first.session.reports("SessionEnd")
    make_repository(rig.folder / "two")
    second = At(rig, rig.folder / "two")
    await second.begins()
    await until(lambda: not folder.exists(), "the removal")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("what", ["undo", "commit"])
async def test_a_change_by_a_removed_session_is_audited(
    rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch, what: str, shared: bool
) -> None:
    """The session is removed while files are written, or a commit is made, so no history is left for the record."""
    rig.server.core.grants.ceilings = Ceilings(commits=True)
    git(place, "config", "user.name", "Ada")
    git(place, "config", "user.email", "ada@example.com")
    at, other = At(rig, place), At(rig, place)
    if shared:
        await other.begins()
        await other.stops()
    await at.begins()
    at.replace("line 3\n", "LINE 3\n")
    await at.stops()
    sessions = rig.server.core.terminal_sessions
    session = sessions.find(at.session.project)
    assert session is not None
    intent = at.directory.folder / recovery.NAME

    def removing(owner: object, name: str) -> None:
        works = getattr(owner, name)

        async def removes(*given: Any) -> Any:
            await sessions.forget(session)
            return await works(*given)

        monkeypatch.setattr(owner, name, removes)

    every: Message = {"all": True, "version": (await at.get())["version"]}
    if what == "undo":
        removing(WorkTree, "write")
        assert (await at.decide(**every, decision="undo"))["files"] == []
        assert (place / "poem.txt").read_text() == POEM
        expected: Message = {"event": "review_decided", "decision": "undo", "hunks": 1, "files": 1}
    else:
        await at.decide(**every, decision="keep")
        removing(committing, "_run")
        await rig.does("review_commit", at.session.project, message="Shout")
        commit = git(place, "rev-parse", "HEAD").strip()
        expected = {"event": "review_committed", "commit": commit, "branch": "main"}
    last = rig.server.audited()[-1]
    assert last == {**expected, "project_id": at.session.project, "by": last["by"]}
    assert not intent.exists()


@pytest.mark.parametrize("what", ["undo", "commit"])
async def test_a_change_during_a_shutdown_is_answered_and_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The server is shut down while files are written, or a commit is made. Only the next server can record it."""
    async with socket_rig(tmp_path, Limits()) as rig:
        place = rig.folder / "one"
        make_repository(place)
        rig.server.core.grants.ceilings = Ceilings(commits=True)
        git(place, "config", "user.name", "Ada")
        git(place, "config", "user.email", "ada@example.com")
        at = At(rig, place)
        await at.begins()
        at.replace("line 3\n", "LINE 3\n")
        await at.stops()
        every: Message = {"all": True, "version": (await at.get())["version"]}
        if what == "commit":
            await at.decide(**every, decision="keep")
        session = rig.server.core.terminal_sessions.find(at.session.project)
        assert session is not None
        history, has_begun = session.history, asyncio.Event()
        owner, name = (WorkTree, "write") if what == "undo" else (committing, "_run")
        works = getattr(owner, name)

        async def waits(*given: Any) -> Any:
            has_begun.set()
            await until(lambda: history.closed, "the shutdown")
            return await works(*given)

        monkeypatch.setattr(owner, name, waits)
        command = "review_decide" if what == "undo" else "review_commit"
        request: Message = {**every, "decision": "undo"} if what == "undo" else {"message": "Shout"}
        changing = asyncio.create_task(rig.does(command, at.session.project, **request))
        await until(has_begun.is_set, "the change")
    answer = (await changing)["data"]
    if what == "undo":
        assert (place / "poem.txt").read_text() == POEM
        assert answer["files"] == []
    else:
        assert answer["data"]["commit"] == git(place, "rev-parse", "HEAD").strip()
    async with socket_rig(tmp_path, Limits()) as rig:
        page = await rig.does("get_messages", at.session.project, after_seq=0, limit=100)
        kind = "review_decided" if what == "undo" else "review_committed"
        for found in (
            [record["message"].get("subtype") for record in page["data"]["messages"]],
            [entry["event"] for entry in rig.server.audited()],
        ):
            assert found.count(kind) == 1


async def test_an_interrupted_change_by_a_removed_session_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change is completed only once its session was removed, so no history is left for the record."""

    async def fails(*_: object) -> None:
        pass

    async with socket_rig(tmp_path, Limits()) as rig:
        place = rig.folder / "one"
        make_repository(place)
        one, other = At(rig, place), At(rig, place)
        for at in (one, other):
            await at.begins()
            at.replace("line 3\n" if at is one else "line 9\n", "by an agent\n")
            await at.stops()
        review = await one.get()
        with killed(ReviewCommits, "set"):
            await one.decide(all=True, version=review["version"], decision="undo")
    monkeypatch.setattr(Core, "_recover_one", fails)
    async with socket_rig(tmp_path, Limits()) as rig:
        await rig.does("project_delete", one.session.project)
        other.session.at(rig)
        other.rig = rig
        assert await other.added() == []
        [entry] = [entry for entry in rig.server.audited() if entry["event"] == "review_decided"]
        assert (entry["project_id"], entry["decision"], entry["hunks"]) == (one.session.project, "undo", 2)


@pytest.mark.parametrize("what", ["changes", "a draft"])
async def test_a_session_with_an_open_review_is_not_displaced(
    what: str, rig: SocketRig, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "MOST", 1)
    first, second = At(rig, place), At(rig, place)
    for at in (first, second):
        await at.begins()
        if at is first:
            at.replace("line 3\n", "LINE 3\n")
        await at.stops()
        await at.session.reports("SessionEnd")
    if what == "a draft":
        draft = {"path": "poem.txt", "line": 3, "quote": "LINE 3\n", "text": "Why?"}
        await rig.does("review_comment", second.session.project, **draft)
        await second.decide(all=True, version=(await second.get())["version"], decision="keep")
    make_repository(rig.folder / "two")
    third = At(rig, rig.folder / "two")
    await third.begins()
    await third.stops()
    # The first one is displaced, because the review stays with the second one.
    assert {one.id for one in rig.server.core.terminal_sessions} == {second.session.project, third.session.project}
    review = await second.get()
    assert (len(hunks(review)), len(review["comments"])) == ((1, 0) if what == "changes" else (0, 1))


@pytest.mark.thorough
async def test_no_checkpoints_are_taken_if_they_are_disabled(tmp_path: Path) -> None:
    async with socket_rig(tmp_path, Limits(checkpoints=False)) as rig:
        make_repository(rig.folder / "one")
        at = At(rig, rig.folder / "one")
        await at.begins()
        await at.stops()
        assert git(at.place, "for-each-ref", "refs/drawbridge") == ""
