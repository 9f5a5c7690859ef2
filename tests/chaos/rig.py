"""Helpers for the chaos tests: a seed that failures report, a server that may be killed at any moment, a client that
keeps following a project, and a reader of the files on disk that needs no server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests import programs, seeds
from tests.rigs.written import written
from tests.server.processes import COMMAND, start
from tests.waiting import PATIENCE

Message = dict[str, Any]

NUMBERS = count(1)


@contextlib.contextmanager
def seeded() -> Iterator[Random]:
    """Yields a random generator. A failure names its seed, which can be set again in ``DRAWBRIDGE_TEST_SEED``."""
    seed = seeds.seed()
    try:
        yield Random(seed)
    except BaseException as error:
        error.add_note(f"DRAWBRIDGE_TEST_SEED={seed}")
        raise


class Mortal:
    """A server process that the test kills. ``ready`` is the object that the server prints once it is ready; it is
    empty until then.
    """

    def __init__(self, process: asyncio.subprocess.Process, errors: Any) -> None:
        self.process = process
        self._errors = errors
        self.ready: Message = {}

    async def is_ready(self) -> bool:
        """Waits until the server is ready. Returns False if it ends before that."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await self.process.stdout.readline()
        if line:
            self.ready = json.loads(line)
        return bool(line)

    @property
    def url(self) -> str:
        return str(self.ready["url"])

    @property
    def token(self) -> str:
        return Path(self.ready["token_file"]).read_text().strip()

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    @property
    def errors(self) -> str:
        return written(self._errors)


@contextlib.asynccontextmanager
async def mortal(
    data: Path, *arguments: str | Path, command: Sequence[str] = COMMAND, **variables: str
) -> AsyncIterator[Mortal]:
    with tempfile.TemporaryFile() as errors:
        given = ("--json", "--port", "0", "--no-tls", "--data-dir", data, "--log-level", "warning", *arguments)
        server = Mortal(await start(errors, *given, command=command, **variables), errors)
        try:
            yield server
        finally:
            await server.kill()
        assert "Traceback" not in server.errors, server.errors


class Client:
    """A plain client that sends requests and receives messages. The messages are not checked against the schema,
    because there are too many.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.others: list[Message] = []

    async def send(self, type: str, project: str | None = None, request_id: str | None = None, **data: Any) -> None:
        message = {"type": type, "project_id": project, "request_id": request_id, "data": data}
        await self.connection.send(json.dumps({name: value for name, value in message.items() if value is not None}))

    async def next(self, patience: float = PATIENCE) -> Message:
        async with asyncio.timeout(patience):
            message: Message = json.loads(await self.connection.recv())
        return message

    async def ask(self, type: str, project: str | None = None, request_id: str | None = None, **data: Any) -> Message:
        """Sends a request. Returns the reply. Messages that arrive before it are added to ``others``."""
        request_id = request_id or f"request-{next(NUMBERS)}"  # a project does not execute a ``request_id`` twice
        await self.send(type, project, request_id, **data)
        while (message := await self.next(PATIENCE)).get("request_id") != request_id:
            self.others.append(message)
        return message

    async def until(self, kind: str, patience: float = PATIENCE, **fields: Any) -> Message:
        """Waits for the next message or update of this kind whose data has these fields. Searches ``others`` first, and
        drops what does not match. Returns its data and its ``seq``.
        """
        while True:
            message = self.others.pop(0) if self.others else await self.next(patience)
            data = message["data"]
            if message["type"] == "update":
                what, data = data["update_type"], data["data"]
            else:
                what = message["type"]
            if what == kind and all(data.get(name) == value for name, value in fields.items()):
                return {"seq": message.get("seq"), **data}


@contextlib.asynccontextmanager
async def connected(server: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {server.token}"}
    async with connect(server.url, additional_headers=headers, proxy=None, max_size=None) as connection:
        yield Client(connection)


class Follower:
    """Receives each record of a project exactly once, however often its server is killed, by requesting the records
    after its last one.
    """

    def __init__(self, project: str) -> None:
        self.project = project
        self.seen: list[Message] = []

    async def follow(self, server: Any) -> None:
        """Follows the project until the connection ends."""
        with contextlib.suppress(WebSocketException, OSError, EOFError):
            async with connected(server) as client:
                await client.send("project_join", self.project, after_seq=len(self.seen))
                while True:
                    message: Message = json.loads(await client.connection.recv())
                    if "seq" in message and message.get("project_id") == self.project:
                        assert message["seq"] == len(self.seen) + 1
                        self.seen.append(message)


class StoppingGit:
    """A program that behaves like git until ``armed`` exists. The next time that it gets ``command``, it creates
    ``reached`` and executes the shell commands in ``does`` instead. ``path``: a ``PATH`` on which it is found first."""

    def __init__(self, folder: Path, command: str, does: str) -> None:
        self.reached, self.armed = folder / "reached", folder / "armed"
        bin = folder / "bin"
        bin.mkdir()
        starts = f"rm {self.armed}; : >{self.reached}; {does}; exit"
        lines = (
            "#!/bin/sh",
            f"real={programs.git()}",
            f'case " $* " in *" {command} "*) if [ -e {self.armed} ]; then {starts}; fi ;; esac',
            'exec "$real" "$@"',
        )
        (bin / "git").write_text("\n".join(lines) + "\n")
        (bin / "git").chmod(0o755)
        self.path = f"{bin}:{os.environ['PATH']}"


def on_disk(data: Path, project: str) -> list[Message]:
    """Returns the records of the history, read without Drawbridge's code. Skips the last line if it is torn, as it may
    be after the server was killed.
    """
    logs = data / "projects" / project / "logs"
    records: list[Message] = []
    for file in sorted(logs.glob("messages_*.jsonl"), key=first_seq):
        lines = file.read_bytes().split(b"\n")
        records += [json.loads(line) for line in lines[:-1]]
    return records


def first_seq(file: Path) -> int:
    with file.open("rb") as lines:
        first = lines.readline()
    return int(json.loads(first)["seq"]) if first.endswith(b"\n") else 2**60


def same(record: Message, message: Message) -> bool:
    """Whether ``message``, which a client received, matches ``record`` in the log. An ``agent_message`` must have
    the record's content, unless it is truncated. For other messages, only the type is compared.
    """
    data = message["data"]
    if message["type"] == "agent_message":
        return bool(data["messages"][0] == record["message"] or "truncated" in data)
    what = data["update_type"] if message["type"] == "update" else message["type"]
    return bool(record["message"]["subtype"] == what)
