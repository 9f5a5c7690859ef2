"""The server is killed with ``kill -9`` while it applies a decision on a review. After the restart, the decision has
been applied once or not at all, the history shows which, and the client that decided gets an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from random import Random

import psutil
import pytest
from websockets.exceptions import WebSocketException

from tests import programs
from tests.page.agent import COMMAND
from tests.server.checkpoints.rig import git
from tests.waiting import until

from .rig import Client, Message, Mortal, connected, mortal, on_disk, seeded

FILES = 12
LINES = "".join(f"line {number}\n" for number in range(2_000))


@pytest.mark.thorough
async def test_some_killed_decisions(tmp_path: Path) -> None:
    await rounds(tmp_path, 20)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
async def test_five_hundred_killed_decisions(tmp_path: Path) -> None:
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
        return mortal(self.data, "--allow", self.root, command=COMMAND, **variables)

    def texts(self) -> list[str]:
        return [(self.root / f"{number}.txt").read_text() for number in range(FILES)]

    def decisions(self) -> list[Message]:
        """The records of decisions, as ``review_decided`` or ``review_interrupted`` and their data."""
        found = [record["message"] for record in on_disk(self.data, self.id) if record["direction"] == "server"]
        return [
            one
            for one in found
            if one["subtype"] in ("review_decided", "review_interrupted") and one["message"].get("by")
        ]

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
    texts = project.texts()
    is_done = texts == [LINES] * FILES
    assert is_done or texts == before, "some files were written and others were not"
    here = [one for one in project.decisions() if one["message"]["files"] == FILES][-1:]
    last = here[0]["subtype"] if here else ""
    decided = [one for one in project.decisions() if one["subtype"] == "review_decided"]
    assert len(decided) == number + is_done, "a decision that was done is recorded once"
    assert not is_done or last == "review_decided"
    review = (await client.ask("review_get", project.id))["data"]
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
"""For each step: the git command at which the server is killed, what a shell does then in place of it, and whether the
decision is done."""


@pytest.mark.thorough
@pytest.mark.parametrize("step", STEPS)
async def test_a_decision_survives_a_kill_at_any_step(tmp_path: Path, step: str) -> None:
    command, does, is_done = STEPS[step]
    project, reached, armed = Project(tmp_path), tmp_path / "reached", tmp_path / "armed"
    bin = tmp_path / "bin"
    bin.mkdir()
    lines = (
        "#!/bin/sh",
        f"real={programs.git()}",
        f'case " $* " in *" {command} "*) if [ -e {armed} ]; then rm {armed}; : >{reached}; {does}; exit; fi ;; esac',
        'exec "$real" "$@"',
    )
    (bin / "git").write_text("\n".join(lines) + "\n")
    (bin / "git").chmod(0o755)
    async with project.server(PATH=f"{bin}:{os.environ['PATH']}") as server:
        assert await server.is_ready()
        async with connected(server) as client:
            project.id = (await client.ask("project_create", path=str(project.root), agent="demo"))["project_id"]
            await client.ask("hello", client="phone")
            await client.ask("project_join", project.id)
            review = await project.changed(client, 1)
            armed.touch()
            wish = {"all": True, "version": review["version"], "decision": "undo"}
            await client.send("review_decide", project.id, "decide", **wish)
            await until(reached.exists, step)
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
