"""The agents' side of a bridge without sockets. An agent sends a message and receives the answer."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from drawbridge.core.privacy import Privacy
from drawbridge.editors.port import Decided, EditorEvent
from drawbridge.ide.claude import TOKEN_HEADER, ClaudeClient, ClaudeClients
from drawbridge.ide.review import Reviews
from drawbridge.ide.tools import Toolbox
from drawbridge.ide.workspace import Workspace
from drawbridge.protocols.gate import Head
from tests.editors.memory import MemoryEditor
from tests.waiting import until

TOKEN = "0123456789abcdef0123456789abcdef"

Answer = dict[str, Any]


def head(**headers: str) -> Head:
    """Returns the head of a real agent's handshake. ``headers`` adds or replaces headers (``_`` stands for ``-``)."""
    given = {"host": "127.0.0.1:12345", TOKEN_HEADER: TOKEN}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    return Head("GET", "/", tuple(given.items()))


class FakeWebSocket:
    """An open WebSocket as the bridge sees it. ``sent``: the messages that the agent received."""

    def __init__(self) -> None:
        self.sent: list[Answer] = []
        self.closed: tuple[int, str] | None = None
        self.congested = False

    address = "127.0.0.1"
    compressed = False

    def send(self, data: bytes) -> None:
        if self.closed is None:
            self.sent.append(json.loads(data))

    def send_framed(self, data: bytes) -> None:
        raise AssertionError("no message goes to all agents at once")

    def limit_unfinished(self, size: int | None) -> None:
        pass

    def hold_reading(self, hold: bool) -> None:
        raise AssertionError("messages from agents are always read")

    def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed = (code, reason)


class Agent:
    """One connected agent."""

    def __init__(self, clients: ClaudeClients) -> None:
        self.socket = FakeWebSocket()
        peer = clients.opened(head(), self.socket)
        assert isinstance(peer, ClaudeClient)
        self.peer = peer
        self._ids = itertools.count()

    def send(self, **members: Any) -> None:
        self.peer.received(json.dumps({"jsonrpc": "2.0", **members}))

    def greet(self, *, hears: bool = True) -> None:
        """Performs the real CLI's handshake. ``hears``: whether the CLI handles notifications right after it."""
        self.send(id=next(self._ids), method="initialize", params={"protocolVersion": "2025-11-25"})
        self.send(method="notifications/initialized")
        if hears and isinstance(self.peer, ClaudeClient):
            self.peer.start_listening()

    def ask(self, tool: str, **arguments: Any) -> int:
        """Begins a tool call and returns its ID."""
        id = next(self._ids)
        self.send(id=id, method="tools/call", params={"name": tool, "arguments": arguments})
        return id

    def answers(self, id: int | str) -> list[Answer]:
        return [answer for answer in self.socket.sent if answer.get("id") == id and "method" not in answer]

    async def answer(self, id: int | str) -> Answer:
        await until(lambda: self.answers(id), f"an answer to call {id}")
        [answer] = self.answers(id)
        return answer

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """Calls a tool and returns the whole answer."""
        return await self.answer(self.ask(tool, **arguments))

    async def texts(self, tool: str, **arguments: Any) -> list[str]:
        """Calls a tool that succeeds, and returns its text items."""
        return texts(await self.call(tool, **arguments))

    async def body(self, tool: str, **arguments: Any) -> Any:
        """Calls a tool that succeeds, and returns the JSON in its only text item."""
        [text] = await self.texts(tool, **arguments)
        return json.loads(text)

    def notifications(self, method: str) -> list[Answer]:
        """Returns the parameters of all notifications with this method that the agent received."""
        return [message["params"] for message in self.socket.sent if message.get("method") == method]

    def vanish(self) -> None:
        self.peer.closed(1006)


def texts(answer: Answer) -> list[str]:
    result = answer["result"]
    assert "isError" not in result, result
    assert all(item["type"] == "text" for item in result["content"])
    return [item["text"] for item in result["content"]]


def failure(answer: Answer) -> str:
    """Returns the error text in the answer to a tool call that failed."""
    assert answer["result"]["isError"] is True
    [item] = answer["result"]["content"]
    text: str = item["text"]
    return text


class ClaudeRig:
    """An in-memory editor, its workspace, and the agents that are connected to it."""

    def __init__(
        self, *folders: Path, privacy: Privacy | None = None, execute_code: bool = False, **options: Any
    ) -> None:
        self.editor = MemoryEditor([str(folder) for folder in folders])
        self.workspace = Workspace(self.editor, [str(folder) for folder in folders], privacy or Privacy())
        self.reviews = Reviews(self.editor)
        self.clients = ClaudeClients(
            self.workspace, self.reviews, Toolbox(execute_code=execute_code), TOKEN, "1.2.3", **options
        )

    async def __aenter__(self) -> ClaudeRig:
        await self.editor.start(self._on_event)
        return self

    async def __aexit__(self, *exc: object) -> None:
        for client in list(self.clients._clients):
            client.closed(1001)
        await self.clients.close()
        await until(lambda: not self.reviews._open)
        await self.reviews.stop()
        await self.editor.close()

    def agent(self) -> Agent:
        agent = Agent(self.clients)
        agent.greet()
        return agent

    async def proposals(self, number: int = 1) -> Sequence[str]:
        """Waits until ``number`` proposals are shown, and returns their IDs."""
        await until(lambda: len(self.editor.shown) == number, f"{number} proposals shown")
        return list(self.editor.shown)

    def _on_event(self, event: EditorEvent) -> None:
        if isinstance(event, Decided):
            self.reviews.decided(event)
