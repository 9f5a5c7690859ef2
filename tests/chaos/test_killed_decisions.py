"""The server is killed with ``kill -9`` while it applies a decision on a review, reverts a run, or commits kept changes.
After the restart, that is done once or not at all, the history shows which, and the client gets an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Literal

import psutil
import pytest
from websockets.exceptions import WebSocketException

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.ide import server_link
from drawbridge.ide.review import Reviews
from drawbridge.ide.server_link import ServerLink
from drawbridge.protocols import local_ipc as wire
from tests.editors.memory import MemoryEditor
from tests.page.agent import COMMAND
from tests.server.checkpoints.rig import git
from tests.waiting import PATIENCE, until

from .rig import Client, Message, Mortal, StoppingGit, connected, mortal, on_disk, seeded

FILES = 12
LINES = "".join(f"line {number}\n" for number in range(2_000))


@pytest.mark.thorough
async def test_killed_decisions_are_done_once_or_not_at_all(tmp_path: Path) -> None:
    await rounds(tmp_path, 6)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_500_killed_decisions_are_done_once_or_not_at_all(tmp_path: Path) -> None:
    await rounds(tmp_path, 500)


class Project:
    """A project with ``FILES`` files, in which an agent changes all of them in each round."""

    def __init__(self, directory: Path) -> None:
        self.root, self.data = directory / "root", directory / "data"
        self.root.mkdir()
        for number in range(FILES):
            (self.root / f"{number}.txt").write_text(LINES)
        git(self.root, "init", "-q")
        self.id = ""

    def server(self, **variables: str) -> contextlib.AbstractAsyncContextManager[Mortal]:
        return mortal(self.data, "--allow", self.root, "--allow-commit", command=COMMAND, **variables)

    def texts(self) -> list[str]:
        return [(self.root / f"{number}.txt").read_text() for number in range(FILES)]

    def records(self, *kinds: str) -> list[Message]:
        """The server's records of these kinds, as their kind and their data."""
        found = [record["message"] for record in on_disk(self.data, self.id) if record["direction"] == "server"]
        return [one for one in found if one["subtype"] in kinds]

    def decisions(self) -> list[Message]:
        """The records of decisions, as ``review_decided`` or ``review_interrupted`` and their data."""
        return [one for one in self.records("review_decided", "review_interrupted") if one["message"].get("by")]

    async def changed(self, client: Client, number: int) -> Message:
        """The agent changes all files. Returns the review."""
        wanted = {f"{file}.txt": f"{LINES}by the agent {number}\n" for file in range(FILES)}
        run = (await client.ask("execute", self.id, prompt=f"/write {json.dumps(wanted)}"))["data"]["run_id"]
        assert (await client.until("run_finished", run_id=run))["outcome"] == "completed"
        await client.until("review_changed", state="open")
        review: Message = (await client.ask("review_get", self.id))["data"]
        assert len(review["files"]) == FILES
        return review


async def rounds(directory: Path, count: int) -> None:
    project = Project(directory)
    with seeded() as random:
        wish: Message = {}
        before: list[str] = []
        for number in range(count + 1):
            async with project.server() as server:
                assert await server.is_ready()
                async with connected(server) as client:
                    if number:
                        await client.ask("project_join", project.id)
                        await check(project, client, number - 1, wish, before)
                    else:
                        project.id = (await client.ask("project_create", path=str(project.root), agent="demo"))[
                            "project_id"
                        ]
                        await client.ask("project_join", project.id)
                    if number < count:
                        review = await project.changed(client, number)
                        before = project.texts()
                        wish = {"all": True, "version": review["version"], "decision": "undo"}
                        await client.send("review_decide", project.id, f"decide-{number}", **wish)
                        await asyncio.sleep(random.uniform(0, 0.5))
                        await killed(server, random)


async def killed(server: Mortal, random: Random) -> None:
    """Kills the server. In half of the cases also kills everything that it started, as a power failure does."""
    if random.random() < 0.5:
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(server.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()
    await server.kill()


async def check(project: Project, client: Client, number: int, wish: Message, before: list[str]) -> None:
    """Checks the decision of a round after the restart, and sends the same request again, as clients do."""
    review = (await client.ask("review_get", project.id))["data"]  # answered once the decision has been recovered
    texts = project.texts()
    is_done = texts == [LINES] * FILES
    assert is_done or texts == before, "some files were written and others were not"
    here = [one for one in project.decisions() if one["message"]["files"] == FILES][-1:]
    last = here[0]["subtype"] if here else ""
    decided = [one for one in project.decisions() if one["subtype"] == "review_decided"]
    assert len(decided) == number + is_done, "a decision that was done is recorded once"
    assert not is_done or last == "review_decided"
    assert len(review["files"]) == (0 if is_done else FILES), "the review agrees with the files"
    again = await client.ask("review_decide", project.id, f"decide-{number}", **wish)
    assert (again["type"], again["data"]["state"]) == ("review", "none"), again
    assert project.texts() == [LINES] * FILES
    decided = [one for one in project.decisions() if one["subtype"] == "review_decided"]
    assert len(decided) == number + 1, "the repeated request is not carried out twice"


STEPS = {
    "before git writes": ("apply", 'sleep 600; exec "$real" "$@"', False),
    "while git removes": ("apply", 'rm -f 0.txt 1.txt; sleep 600; exec "$real" "$@"', True),
    "after the first file": ("apply", '"$real" "$@" --include=0.txt; sleep 600', True),
    "in the middle of a file": ("apply", 'echo "line 0" >0.txt; sleep 600', True),
    "after git has written": ("apply", '"$real" "$@"; sleep 600', True),
    "while git finishes later": ("apply", 'sleep 1.8; exec "$real" "$@"', True),
    "before the review is changed": ("update-ref --stdin", "sleep 600", True),
    "after the review was changed": ("update-ref --stdin", '"$real" "$@"; sleep 600', True),
}
"""For each step: the git command at which the server is killed, the shell commands that run instead of it, and whether
the decision has been applied after the restart."""


async def stopped_decision(
    project: Project, stopping: StoppingGit, client: Client, decision: str, step: str
) -> Message:
    """Sends a decision on everything that the project's first run changed, and waits until git is stopped at ``step``.
    Returns the request's data."""
    project.id = (await client.ask("project_create", path=str(project.root), agent="demo"))["project_id"]
    await client.ask("hello", client="phone")
    await client.ask("project_join", project.id)
    review = await project.changed(client, 1)
    stopping.armed.touch()
    wish = {"all": True, "version": review["version"], "decision": decision}
    await client.send("review_decide", project.id, "decide", **wish)
    await until(stopping.reached.exists, step)
    return wish


@pytest.mark.slow_for(
    "after git has written",
    "after the first file",
    "after the review was changed",
    "before git writes",
    "while git finishes later",
    "while git removes",
)
@pytest.mark.thorough
@pytest.mark.parametrize("step", STEPS)
async def test_a_decision_survives_a_kill_at_any_step(tmp_path: Path, step: str) -> None:
    command, does, is_done = STEPS[step]
    project, stopping = Project(tmp_path), StoppingGit(tmp_path, command, does)
    async with project.server(PATH=stopping.path) as server:
        assert await server.is_ready()
        async with connected(server) as client:
            wish = await stopped_decision(project, stopping, client, "undo", step)
            before = len(on_disk(project.data, project.id))
            await server.kill()
            with contextlib.suppress(WebSocketException):
                await client.next()
    async with project.server() as server:
        assert await server.is_ready()
        async with connected(server) as client:
            kind = "review_decided" if is_done else "review_interrupted"
            await client.ask("project_join", project.id, after_seq=before)
            received = await client.until(kind, by="phone", decision="undo", files=FILES, hunks=FILES)
            assert received.get("interrupted") or received.get("result") == "not_done"
            assert [one["subtype"] for one in project.decisions()] == [kind]
            assert project.texts() == [LINES if is_done else f"{LINES}by the agent 1\n"] * FILES
            review = (await client.ask("review_get", project.id))["data"]
            assert len(review["files"]) == (0 if is_done else FILES)
            await client.ask("hello", client="phone")
            again = await client.ask("review_decide", project.id, "decide", **wish)
            assert again["data"]["state"] == "none"
            assert project.texts() == [LINES] * FILES
            assert [one["subtype"] for one in project.decisions()].count("review_decided") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("step", ["before the review is changed", "after the review was changed"])
async def test_a_kept_change_survives_a_kill_at_any_step(tmp_path: Path, step: str) -> None:
    """Keeping changes no file, so the next server sees only from the review's commits whether it was done."""
    command, does, _ = STEPS[step]
    is_done = step == "after the review was changed"
    project, stopping = Project(tmp_path), StoppingGit(tmp_path, command, does)
    async with project.server(PATH=stopping.path) as server:
        assert await server.is_ready()
        async with connected(server) as client:
            wish = await stopped_decision(project, stopping, client, "keep", step)
            await server.kill()
    changed = [f"{LINES}by the agent 1\n"] * FILES
    async with project.server() as server:
        assert await server.is_ready()
        async with connected(server) as client:
            await client.ask("project_join", project.id)
            review = (await client.ask("review_get", project.id))["data"]
            assert len(review["files"]) == (0 if is_done else FILES)
            [found] = project.decisions()
            assert found["subtype"] == ("review_decided" if is_done else "review_interrupted")
            assert found["message"].get("result", "done") == ("done" if is_done else "not_done")
            await client.ask("hello", client="phone")
            again = await client.ask("review_decide", project.id, "decide", **wish)
            assert again["data"]["state"] == "none"
            assert [one["subtype"] for one in project.decisions()].count("review_decided") == 1
            assert project.texts() == changed


@contextlib.asynccontextmanager
async def linked() -> AsyncIterator[ServerLink]:
    """The part of an editor's bridge that is connected to the newest server."""
    editor = MemoryEditor()
    reviews = Reviews(editor)
    about = wire.Bridge("Neovim", (), reviews=True)
    link = ServerLink(reviews, lambda: about, lambda _: (None, ""), editor.type_prompt, lambda *_: None)
    tasks, failures = BackgroundTasks(logging.getLogger("tests.link")), list[Exception]()
    link.start(tasks, failures.append)
    try:
        yield link
    finally:
        await tasks.close()
        await reviews.stop()
    assert failures == []


@pytest.mark.slow_for("undo")
@pytest.mark.thorough
@pytest.mark.parametrize("decision", ["keep", "undo"])
async def test_an_editors_decision_survives_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decision: Literal["keep", "undo"]
) -> None:
    """The bridge sends the decision again once a server runs. It is answered, although it was already applied."""
    monkeypatch.setattr(server_link, "RESTART_SECONDS", PATIENCE)
    command, does, _ = STEPS["after the review was changed"]
    project, stopping = Project(tmp_path), StoppingGit(tmp_path, command, does)
    async with linked() as link:
        async with project.server(PATH=stopping.path) as server:
            assert await server.is_ready()
            async with connected(server) as client:
                project.id = (await client.ask("project_create", path=str(project.root), agent="demo"))["project_id"]
                await client.ask("project_join", project.id)
                review = await project.changed(client, 1)
            await until(lambda: link.is_connected, "the bridge")
            stopping.armed.touch()
            line = wire.ReviewDecision(
                id="decide", project=project.id, decision=decision, all=True, version=review["version"]
            )
            deciding = asyncio.create_task(link.change_review(line))
            await until(stopping.reached.exists, "the decision")
            await server.kill()
        async with project.server() as server:
            assert await server.is_ready()
            answer = await deciding
            assert json.loads(bytes(answer.review))["files"] == []
    [found] = project.decisions()
    assert (found["subtype"], found["message"]["by"]) == ("review_decided", "Neovim")
    assert (found["message"]["decision"], found["message"]["files"]) == (decision, FILES)
    assert project.texts() == [LINES if decision == "undo" else f"{LINES}by the agent 1\n"] * FILES


REVERTING = ("before git writes", "after the first file", "after git has written")


@pytest.mark.slow_for("after git has written", "before git writes")
@pytest.mark.thorough
@pytest.mark.parametrize("step", REVERTING)
async def test_a_revert_survives_a_kill_at_any_step(tmp_path: Path, step: str) -> None:
    command, does, is_done = STEPS[step]
    project, stopping = Project(tmp_path), StoppingGit(tmp_path, command, does)
    async with project.server(PATH=stopping.path) as server:
        assert await server.is_ready()
        async with connected(server) as client:
            project.id = (await client.ask("project_create", path=str(project.root), agent="demo"))["project_id"]
            await client.ask("hello", client="phone")
            await client.ask("project_join", project.id)
            await project.changed(client, 1)
            [run] = {one["message"]["run_id"] for one in project.records("run_finished")}
            before = len(on_disk(project.data, project.id))
            stopping.armed.touch()
            await client.send("run_revert", project.id, "revert", run_id=run)
            await until(stopping.reached.exists, step)
            await server.kill()
            with contextlib.suppress(WebSocketException):
                await client.next()
    async with project.server() as server:
        assert await server.is_ready()
        async with connected(server) as client:
            await client.ask("project_join", project.id, after_seq=before)
            if is_done:
                received = await client.until("run_reverted", by="phone", run_id=run)
                assert len(received["files"]) == FILES
            else:
                await client.until("review_interrupted", by="phone", decision="revert", files=FILES, result="not_done")
            assert project.texts() == [LINES if is_done else f"{LINES}by the agent 1\n"] * FILES
            assert len(project.records("run_reverted")) == is_done
            review = (await client.ask("review_get", project.id))["data"]
            assert len(review["files"]) == (0 if is_done else FILES)


@pytest.mark.slow_for("pre-commit-False")
@pytest.mark.thorough
@pytest.mark.parametrize(("hook", "is_done"), [("pre-commit", False), ("post-commit", True)])
async def test_a_commit_survives_a_kill_during_a_hook(tmp_path: Path, hook: str, is_done: bool) -> None:
    """The hook never ends. The index is as after the commit, or as before it."""
    project, reached = Project(tmp_path), tmp_path / "reached"
    git(project.root, "config", "user.name", "Ada")
    git(project.root, "config", "user.email", "ada@example.com")
    git(project.root, "add", ".")
    git(project.root, "commit", "-q", "-m", "First")
    file = project.root / ".git" / "hooks" / hook
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n: >{reached}\nsleep 600\n")
    file.chmod(0o755)
    async with project.server() as server:
        assert await server.is_ready()
        async with connected(server) as client:
            project.id = (await client.ask("project_create", path=str(project.root), agent="demo"))["project_id"]
            await client.ask("hello", client="phone")
            await client.ask("project_join", project.id)
            review = await project.changed(client, 1)
            wish = {"all": True, "version": review["version"], "decision": "keep"}
            assert (await client.ask("review_decide", project.id, **wish))["data"]["state"] == "none"
            before = len(on_disk(project.data, project.id))
            await client.send("review_commit", project.id, "commit", message="Shout")
            await until(reached.exists, hook)
            await server.kill()
            with contextlib.suppress(WebSocketException):
                await client.next()
    async with project.server() as server:
        assert await server.is_ready()
        async with connected(server) as client:
            await client.ask("project_join", project.id, after_seq=before)
            if is_done:
                received = await client.until("review_committed", by="phone")
                assert received["commit"] == git(project.root, "rev-parse", "HEAD").strip()
            else:
                await client.until("review_interrupted", by="phone", decision="commit", files=FILES, result="not_done")
            subjects = git(project.root, "log", "--format=%s").split()
            assert subjects == (["Shout", "First"] if is_done else ["First"])
            assert git(project.root, "diff", "--cached", "--name-only") == ""
            assert not (project.root / ".git" / "index.lock").exists()
            kept = (await client.ask("review_get", project.id))["data"]["kept"]
            assert len(kept) == (0 if is_done else FILES)
