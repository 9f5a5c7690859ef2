"""A server in the test's process: the real HTTP server, clients and dispatch, with a fake core that the tests
control.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from drawbridge.protocols.gate import Head
from drawbridge.server.app.blobs import Blobs
from drawbridge.server.app.clients import Clients
from drawbridge.server.app.command_table import COMMANDS, scopes_of
from drawbridge.server.app.connection import Connection
from drawbridge.server.app.dispatch import AnyRow, Dispatch
from drawbridge.server.app.outbox import Writers
from drawbridge.server.app.server_commands import ServerCommands
from drawbridge.server.app.site import ServerSite
from drawbridge.server.app.stats import ServerMonitor
from drawbridge.server.auth.access import Access, OwnNames
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.scopes import Identity
from drawbridge.server.events import SessionSummary
from drawbridge.server.protocol import commands as say
from drawbridge.server.protocol import frames, messages, replies
from drawbridge.server.protocol.answers import Answer, updated
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Frame, Subscriber
from drawbridge.server.protocol.replies import OK, Health
from drawbridge.server.updates import project_info
from drawbridge.transport.http_server import HttpServer, ServerOptions, WebSocket

TOKEN = "a-token-that-is-long-enough-for-all-of-us"
AT = "2026-01-01T00:00:00.000Z"


def summary(id: str, path: str) -> SessionSummary:
    return SessionSummary(
        id=id,
        path=path,
        state="IDLE",
        session_id="",
        agent="demo",
        created_at=AT,
        last_active=AT,
        message_count=0,
        last_seq=0,
        approvals=(),
    )


def info(id: str, path: str) -> messages.ProjectInfo:
    return project_info(summary(id, path))


class FakeCore:
    """A core in memory. It records commands and answers them like the real one. A test can make it wait or fail."""

    def __init__(self) -> None:
        self.modes: list[str] = ["default"]
        self.asked: list[say.Command] = []
        self.subscribers: dict[str, Subscriber] = {}
        self.followers: dict[str, set[str]] = {"projects": set(), "approvals": set(), "reviews": set(), "stats": set()}
        self.projects: dict[str, messages.ProjectInfo] = {}
        self.left: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.fault: Exception | None = None
        self.then: Callable[[], None] | None = None
        """Called after the reply to a prompt, unless it is None."""
        self.records: dict[int, bytes] = {}

    def publish(self, frame: Frame) -> None:
        for subscriber in self.subscribers.values():
            subscriber.send(frame)

    def say_line(self, line: bytes, seq: int | None = None) -> None:
        data = frames.agent_message(line, project_id="p1", session_id="s1", seq=seq)
        self.publish(Frame(data, ephemeral=seq is None, project_id="p1", seq=seq))

    async def project_create(self, command: say.ProjectCreate, client: Subscriber) -> Answer[Any]:
        self.asked.append(command)
        made = info(f"p{len(self.projects) + 1}", command.path)
        self.projects[made.id] = made
        return updated("project_state", messages.ProjectState(**msgspec.structs.asdict(made)))

    async def project_list(self, command: say.ProjectList, client: Subscriber) -> Answer[Any]:
        self.asked.append(command)
        seen = [project for project in self.projects.values() if client.sees(Path(project.path))]
        return Answer(type="project_list", data=replies.ProjectList(seen))

    async def project_join(self, command: say.ProjectJoin, client: Subscriber) -> Answer[Any]:
        self.asked.append(command)
        if command.project_id not in self.projects:
            raise ClientError("PROJECT_NOT_FOUND", "The project does not exist.", "project_id")
        self.subscribers[client.id] = client
        made = msgspec.structs.asdict(self.projects[command.project_id])
        return updated(
            "project_joined", messages.ProjectJoined(**made, run=None, queue=[], open_approvals=[]), command.project_id
        )

    async def project_leave(self, command: say.ProjectLeave, client: Subscriber) -> Answer[Any]:
        self.subscribers.pop(client.id, None)
        return await self._plain(command, client)

    async def execute(self, command: say.Execute, client: Subscriber) -> Answer[Any]:
        self.asked.append(command)
        return Answer(
            type="accepted",
            project_id=command.project_id,
            seq=len(self.asked),
            data=replies.Accepted(f"run_{client.name}", 0),
            then=self.then,
        )

    async def agent_kill(self, command: say.AgentKill, client: Subscriber) -> Answer[Any]:
        self.asked.append(command)
        await self.go_on.wait()
        return OK

    def offers(self, type: str) -> bool:
        return True

    async def _plain(self, command: say.Command, client: Subscriber) -> Answer[Any]:
        self.asked.append(command)
        if self.fault is not None:
            raise self.fault
        return OK

    def follow(self, topics: Sequence[say.Topic], client: Subscriber) -> None:
        for topic in topics:
            self.followers[topic].add(client.id)

    def unfollow(self, topics: Sequence[say.Topic], client: Subscriber) -> None:
        for topic in topics:
            self.followers[topic].discard(client.id)

    def remove_client(self, client: Subscriber) -> None:
        self.left.append(client.id)
        self.subscribers.pop(client.id, None)

    def path_of(self, project_id: str) -> Path | None:
        project = self.projects.get(project_id)
        return Path(project.path) if project else None

    async def examine(self) -> None:
        """Does nothing, because the projects have no directories."""

    def leads_to(self, path: Path) -> Path:
        return path

    def sees(self, identity: Identity, project_id: str) -> bool:
        return True

    async def check_sees(self, identity: Identity, project_id: str) -> None:
        """Never raises: in these tests, every device can see every project."""

    async def record(self, project_id: str, seq: int) -> bytes:
        if project_id not in self.projects or seq not in self.records:
            raise ClientError("BLOB_NOT_FOUND", "There is no such record.", "data.blob_id")
        return self.records[seq]

    def states(self) -> Mapping[str, messages.State]:
        return {id: project.state for id, project in self.projects.items()}

    def health_of(self, whole: Health, identity: Identity) -> Health:
        return whole


class Server:
    """A server that listens on 127.0.0.1, at ``url``."""

    def __init__(self, directory: Path, *, token: str | None, tls: ssl.SSLContext | None, terms: ServerOptions) -> None:
        self.core = FakeCore()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self.url = f"{'wss' if tls else 'ws'}://127.0.0.1:{self.port}/ws"
        self.roots = [directory / "allowed"]
        self.roots[0].mkdir()
        entrance = Entrance(Access(token, OwnNames(["public.example"]), secure=tls is not None))
        core: Any = self.core
        self.clients = Clients(entrance, core, Writers())
        self.monitor = ServerMonitor(directory, "1.2.3", self.core.states, self.clients.__len__)
        self.blobs = Blobs(directory / "blobs")
        own = ServerCommands(
            core,
            core,
            core,
            core,
            self.blobs,
            entrance,
            self.clients,
            version="1.2.3",
            roots=self.roots,
            agents=["demo"],
            scopes=scopes_of(COMMANDS),
            health=self.monitor.health,
        )
        rows = [row if row.owner is ServerCommands else _done_by_fake(row) for row in COMMANDS]
        self.dispatch = Dispatch(rows, core, (core, own), entrance)
        self.site = Site(entrance, self.clients, self.dispatch)
        self.door = HttpServer(self.site, self.listener, terms, tls)


class Site(ServerSite):
    """A site that records the connections that were opened."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.connections: list[Connection] = []

    def opened(self, head: Head, websocket: WebSocket) -> Connection:
        self.connections.append(super().opened(head, websocket))
        return self.connections[-1]


def _done_by_fake(row: AnyRow) -> AnyRow:
    return msgspec.structs.replace(row, owner=FakeCore, handler=getattr(FakeCore, row.name, FakeCore._plain))


SERVED = ServerOptions(
    connections=200,
    message_bytes=messages.MESSAGE_BYTES,
    binary_as_text=False,
    congested_bytes=64 * 1024,
    kernel_bytes=128 * 1024,
)


@contextlib.asynccontextmanager
async def serving(
    directory: Path, *, token: str | None = TOKEN, tls: ssl.SSLContext | None = None, terms: ServerOptions = SERVED
) -> AsyncIterator[Server]:
    server = Server(directory, token=token, tls=tls, terms=terms)
    async with server.door:
        yield server


def request_head(server: Server, path: str = "/ws", **headers: Any) -> dict[str, str]:
    return {"Host": f"127.0.0.1:{server.port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
