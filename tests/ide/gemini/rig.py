"""Gemini CLI's side of a bridge over real sockets: one or more requests on each connection, and an event stream."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any

import h11
from msgspec import Struct

from tests.editors.memory import MemoryEditor
from tests.ide.bridge_rig import BridgeRig, open_bridge
from tests.waiting import PATIENCE

ACCEPT = "application/json, text/event-stream"
VERSION = "2025-06-18"


@contextlib.asynccontextmanager
async def open_gemini_bridge(
    folder: Path, editor: MemoryEditor | None = None, **flags: Any
) -> AsyncIterator[BridgeRig]:
    """Runs a bridge whose editor has reported which files are open. Closes its event streams before its server."""
    async with open_bridge(folder, editor, **flags) as rig:
        await rig.settled()
        yield rig
        await rig.bridge.gemini.close()


class Answer(Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One connection to the bridge, on which any head and body can be sent. ``async with`` closes it."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._http = h11.Connection(h11.CLIENT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def ask(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> Answer:
        """Sends a request and returns the whole answer. The connection can be used again unless one side closes it."""
        await self.send(method, path, headers, body)
        answer = await self.head()
        while isinstance(event := await self.event(), h11.Data):
            answer.body += event.data
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        return answer

    async def send(self, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> None:
        raw = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers.items()]
        request = h11.Request(method=method, target=path, headers=raw)
        data = self._http.send(request) or b""
        if body:
            data += self._http.send(h11.Data(data=body)) or b""
        self.writer.write(data + (self._http.send(h11.EndOfMessage()) or b""))

    async def head(self) -> Answer:
        response = await self.event()
        assert isinstance(response, h11.Response), response
        return Answer(response.status_code, {name.decode(): value.decode() for name, value in response.headers}, b"")

    async def event(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            async with asyncio.timeout(PATIENCE):
                self._http.receive_data(await self.reader.read(65_536))
        assert isinstance(event, h11.Event)
        return event


class Stream:
    """An open event stream."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.last_id: str | None = None
        self._text = ""

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connection.__aexit__(kind, error, trace)

    async def message(self) -> Any:
        """Waits for the next message and returns it. Returns None at the end of the stream."""
        while (block := await self._block()) is not None:
            if "data" in block:
                self.last_id = block.get("id", self.last_id)
                return json.loads(block["data"])
        return None

    async def comment(self) -> None:
        """Waits for the next comment. Messages before it are skipped."""
        while "" not in (block := await self._block() or {}):
            assert block, "the stream ended before a comment"

    async def _block(self) -> dict[str, str] | None:
        """Waits for the next event or comment and returns its fields by name, "" for a comment. Returns None at the end
        of the stream.
        """
        while "\n\n" not in self._text:
            event = await self.connection.event()
            if not isinstance(event, h11.Data):
                return None
            self._text += event.data.decode()
        block, _, self._text = self._text.partition("\n\n")
        return dict(line.split(": ", 1) for line in block.split("\n"))

    async def receive(self, method: str) -> Any:
        """Waits for the next message with this method and returns its parameters. Messages before it are skipped."""
        while (message := await self.message()) is not None:
            assert message.keys() == {"jsonrpc", "method", "params"}
            if message["method"] == method:
                return message["params"]
        raise AssertionError(f"the stream ended before a {method}")

    async def files(self) -> list[Any]:
        """Waits for the next context update and returns its open files."""
        files: list[Any] = (await self.receive("ide/contextUpdate"))["workspaceState"]["openFiles"]
        return files


class Cli:
    """One session that connects as the real CLI does, once for each request and once for the event stream."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token
        self.session: str | None = None
        self._ids = itertools.count()

    def headers(self, **changed: str | None) -> dict[str, str]:
        """Returns the headers of a POST. ``changed`` adds, replaces or, with None, removes headers. ``_`` stands for
        ``-``.
        """
        given: dict[str, str | None] = {
            "host": f"127.0.0.1:{self.port}",
            "accept": ACCEPT,
            "authorization": f"Bearer {self.token}",
            "content-type": "application/json",
            "mcp-session-id": self.session,
            "mcp-protocol-version": VERSION if self.session else None,
        }
        given |= {name.replace("_", "-"): value for name, value in changed.items()}
        return {name: value for name, value in given.items() if value is not None}

    async def post(self, body: bytes, **changed: str | None) -> Answer:
        async with Connection(self.port) as connection:
            return await connection.ask("POST", "/mcp", self.headers(content_length=str(len(body)), **changed), body)

    async def send(self, **members: Any) -> Answer:
        return await self.post(json.dumps({"jsonrpc": "2.0", **members}).encode())

    async def greet(self) -> Cli:
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "streamable-http-client"}}
        answer = await self.send(id=next(self._ids), method="initialize", params=params)
        assert answer.status == 200, answer
        self.session = answer.headers["mcp-session-id"]
        assert (await self.send(method="notifications/initialized")).status == 202
        return self

    async def get(self, path: str = "/mcp", **changed: str | None) -> Answer:
        """Sends a GET request and returns the whole answer, which is not a stream."""
        async with Connection(self.port) as connection:
            return await connection.ask("GET", path, self.headers(content_type=None, **changed))

    async def delete(self) -> Answer:
        async with Connection(self.port) as connection:
            return await connection.ask("DELETE", "/mcp", self.headers(content_type=None))

    async def listen(self, path: str = "/mcp", **changed: str | None) -> Stream:
        connection = await Connection(self.port).__aenter__()
        await connection.send("GET", path, self.headers(content_type=None, accept="text/event-stream", **changed))
        answer = await connection.head()
        assert answer.status == 200, answer
        assert answer.headers["content-type"] == "text/event-stream"
        return Stream(connection)

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool and returns the whole message that answers the call."""
        answer = await self.send(id=next(self._ids), method="tools/call", params={"name": tool, "arguments": arguments})
        assert answer.status == 200, answer
        assert answer.headers["content-type"] == "application/json"
        return answer.json

    async def open_diff(self, path: str, text: str) -> None:
        assert (await self.call("openDiff", filePath=path, newContent=text))["result"] == {"content": []}

    async def body(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool that succeeds, and returns the JSON in its only text item."""
        result = (await self.call(tool, **arguments))["result"]
        assert "isError" not in result, result
        [item] = result["content"]
        assert item["type"] == "text"
        return json.loads(item["text"])


@contextlib.asynccontextmanager
async def connected(rig: BridgeRig) -> AsyncIterator[tuple[Cli, Stream]]:
    """Yields a CLI with a session, and its open stream, which has delivered the first context update."""
    cli = await Cli(rig.port, rig.token).greet()
    async with await cli.listen() as stream:
        await stream.receive("ide/contextUpdate")
        yield cli, stream


def make_project(root: Path) -> Path:
    """Creates a folder with two ordinary files and a secret one. Returns its real path."""
    folder = Path(os.path.realpath(root)) / "project"
    folder.mkdir()
    (folder / "poem.txt").write_text("one\ntwo\n")
    (folder / "song.txt").write_text("la\n")
    (folder / ".env").write_text("TOKEN=1\n")
    return folder
