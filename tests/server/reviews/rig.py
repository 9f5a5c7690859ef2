"""A project in a real git repository, whose runs a test controls, and its review as a client sees it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import TurnBegun
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.limits import Limits
from tests.server.checkpoints.rig import git
from tests.server.core_rig import Client, Server, serving
from tests.waiting import until

POEM = "".join(f"line {number}\n" for number in range(1, 21))


def make_repository(directory: Path) -> None:
    directory.mkdir(parents=True)
    git(directory, "init", "-q")
    (directory / "poem.txt").write_text(POEM)
    (directory / "old.txt").write_text("old\n")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "first")


class Reviewed:
    """One project of a server, and its review."""

    def __init__(self, server: Server, phone: Client, project: str, directory: Path) -> None:
        self.server = server
        self.phone = phone
        self.project = project
        self.directory = directory
        self._runs = 0

    async def begin(self) -> str:
        """Begins a run. Returns its id once the agent has the prompt and the checkpoint before the run is stored."""
        server, prompts = self.server, self._prompts()
        run = (await server.does(self.phone, "execute", self.project, prompt="go"))["data"]["run_id"]
        await until(lambda: self._prompts() > prompts, "the prompt")
        await server.core.projects.get(self.project).checkpoints.snapshotter.stored()
        return str(run)

    async def begin_alone(self) -> None:
        """Begins a run without a prompt, and waits for the checkpoint before it."""
        session = self.server.core.projects.get(self.project)
        self.server.agent.latest.emit(TurnBegun())
        await session.tasks.wait()
        await session.checkpoints.snapshotter.stored()

    def _prompts(self) -> int:
        return sum(len(process.prompts) for process in self.server.agent.processes)

    async def end(self) -> None:
        """Ends the run, and waits for the checkpoint after it."""
        session = self.server.core.projects.get(self.project)
        self.server.agent.latest.ends()
        await until(lambda: not session.controller.busy, "the end of the run")
        await session.tasks.wait()

    async def run(self, work: Callable[[Path], object]) -> str:
        """Runs an agent that does ``work`` in the directory, from its prompt to the checkpoint after the run. Returns
        the run's id.
        """
        run = await self.begin()
        work(self.directory)
        await self.end()
        return run

    async def get(self, client: Client | None = None) -> dict[str, Any]:
        answer = await self.server.does(client or self.phone, "review_get", self.project)
        data: dict[str, Any] = answer["data"]
        return data

    async def decide(self, client: Client | None = None, **data: Any) -> dict[str, Any]:
        answer = await self.server.does(client or self.phone, "review_decide", self.project, **data)
        found: dict[str, Any] = answer["data"]
        return found

    async def refused(self, client: Client | None = None, **data: Any) -> ClientError:
        with pytest.raises(ClientError) as refused:
            await self.decide(client, **data)
        return refused.value

    async def comment(self, client: Client | None = None, **data: Any) -> dict[str, Any]:
        """Sends ``review_comment``. Returns the data of the update that answers it."""
        answer = await self.server.does(client or self.phone, "review_comment", self.project, **data)
        found: dict[str, Any] = answer["data"]["data"]
        return found

    async def write(self, line: int, quote: str, text: str = "Why?", **more: Any) -> str:
        """Writes a draft about a line of the poem. Returns its id."""
        given: dict[str, Any] = {"path": "poem.txt", "line": line, "quote": quote, "text": text}
        return str((await self.comment(**(given | more)))["comment_id"])

    async def submit(self, client: Client | None = None, **data: Any) -> dict[str, Any]:
        """Sends ``review_submit``, by default with all drafts. Returns the whole reply."""
        drafts = data.pop("drafts", None) or (await self.get(client))["drafts"]
        return await self.server.does(client or self.phone, "review_submit", self.project, drafts=drafts, **data)

    async def commit(self, message: str = "Kept", **data: Any) -> dict[str, Any]:
        """Sends ``review_commit``. Returns the data of the update that answers it."""
        answer = await self.server.does(self.phone, "review_commit", self.project, message=message, **data)
        found: dict[str, Any] = answer["data"]["data"]
        return found

    async def not_committed(self, message: str = "Kept", **data: Any) -> ClientError:
        with pytest.raises(ClientError) as refused:
            await self.commit(message, **data)
        return refused.value

    async def comments(self) -> dict[str, dict[str, Any]]:
        """The comments by id."""
        return {one["comment_id"]: one for one in (await self.get())["comments"]}

    def text(self, name: str = "poem.txt") -> str:
        return (self.directory / name).read_text()

    def replace(self, old: str, new: str, name: str = "poem.txt") -> None:
        text = self.text(name)
        assert old in text
        (self.directory / name).write_text(text.replace(old, new))


@contextlib.asynccontextmanager
async def reviewing(folder: Path, inside: str = "", limits: Limits = Limits()) -> AsyncIterator[Reviewed]:  # noqa: B008
    """A server with one new project, or with the project that an earlier server left in ``folder``. ``inside``: the
    path of a new project, relative to its repository.
    """
    phone = Client("phone")
    async with serving(folder, limits) as server:
        projects = [(one.id, one.path) for one in server.core.projects]
        if projects:
            ((project, directory),) = projects
            await server.does(phone, "project_join", project)
        else:
            directory = server.root / "one" / inside
            make_repository(server.root / "one")
            directory.mkdir(exist_ok=True)
            created = await server.does(phone, "project_create", path=str(directory), join=True)
            project = created["project_id"]
        yield Reviewed(server, phone, project, directory)


def hunks(review: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The path, the removed and the added text of each hunk."""
    return [(file["path"], one["removed"], one["added"]) for file in review["files"] for one in file["hunks"]]


def id_of(review: dict[str, Any], part: str) -> str:
    """The id of the only hunk that contains ``part`` in its path or its text."""
    found = [
        one["id"]
        for file in review["files"]
        for one in file["hunks"]
        if part in file["path"] + "\n" + one["removed"] + "\n" + one["added"]
    ]
    assert len(found) == 1, found
    return str(found[0])


class Killed(Exception):
    """Raised at the point where the server is killed."""


@contextlib.contextmanager
def killed(owner: object, name: str, first: Callable[..., object] = lambda *_: None) -> Iterator[None]:
    """The server is killed where ``owner.name`` would be called, after ``first`` was called with its arguments."""

    async def stops(*given: object) -> None:
        first(*given)
        raise Killed

    def stops_now(*given: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, stops_now if name == "_publish_decision" else stops)
        try:
            yield
        except Killed:
            return
        raise AssertionError(f"{name} was not called")
