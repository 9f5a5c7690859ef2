"""A whole server in the test's process: real projects, the demo agent, devices, and clients on real sockets."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from drawbridge.agents.demo.driver import Demo
from drawbridge.agents.registry import terminal_agents
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.app.blobs import Blobs
from drawbridge.server.app.clients import Clients
from drawbridge.server.app.command_table import COMMANDS, scopes_of
from drawbridge.server.app.core import Core
from drawbridge.server.app.dispatch import AnyRow, Dispatch
from drawbridge.server.app.outbox import Writers
from drawbridge.server.app.server_commands import ServerCommands
from drawbridge.server.app.site import ServerSite
from drawbridge.server.app.stats import Monitor
from drawbridge.server.auth.access import Access, OwnNames
from drawbridge.server.auth.audit import Audit
from drawbridge.server.auth.devices import Devices
from drawbridge.server.auth.entrance import ClientLimits, Entrance
from drawbridge.server.auth.scopes import Scope
from drawbridge.server.serve import terms
from drawbridge.server.sessions.ceilings import Ceilings
from drawbridge.server.sessions.limits import Limits
from drawbridge.server.sessions.places import Places
from drawbridge.transport.http_server import HttpServer
from tests.server.wire_client import WireClient, connected

OWNER = "the-owners-token-which-is-long-enough-for-all"
SCOPES: tuple[Scope, ...] = ("view", "approve", "run", "admin")


class Server:
    """A server that listens on 127.0.0.1. Projects must be in the directory ``roots``. ``devices`` accesses the
    server's devices file like another process.
    """

    def __init__(
        self, directory: Path, tls: ssl.SSLContext | None, crowd: ClientLimits, rows: Sequence[AnyRow], **access: Any
    ) -> None:
        addresses = access.pop("addresses", tuple)
        self.data, self.roots = directory / "data", directory / "roots"
        self.data.mkdir(mode=0o700)
        self.roots.mkdir()
        self.devices = Devices(self.data)
        blobs = Blobs(self.data / "blobs")
        limits = Limits(checkpoints=False, warm_processes=1)
        writers = Writers()
        self.core = Core(
            self.data,
            Places([self.roots], self.data),
            {"demo": Demo()},
            blobs,
            limits,
            "off",
            Ceilings(),
            terminal_agents=terminal_agents(),
            broadcast=writers.broadcast,
            notices=lambda announced: None,
            audit=lambda announced: None,
        )
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        names, devices = OwnNames(["public.example"]), Devices(self.data)
        self.access = Access(OWNER, names, secure=tls is not None, devices=devices, port=self.port, **access)
        entrance = Entrance(self.access, crowd, Audit(self.data))
        self.clients = Clients(entrance, self.core, writers)
        self.monitor = Monitor(self.data, "1.2.3", self.core.states, self.clients.__len__)
        own = ServerCommands(
            self.core,
            blobs,
            entrance,
            self.clients,
            version="1.2.3",
            roots=[self.roots],
            agents=["demo"],
            scopes=scopes_of(rows),
            health=self.monitor.health,
            devices=Devices(self.data),
            addresses=addresses,
        )
        site = ServerSite(entrance, self.clients, Dispatch(rows, self.core, own, entrance, blobs))
        self.url = f"{'wss' if tls else 'ws'}://127.0.0.1:{self.port}/ws"
        self.door = HttpServer(site, self.listener, terms(64), tls)

    def token(self, name: str = "phone", scope: Scope = "approve", **more: Any) -> str:
        """Adds a device, as the owner would in another process. Returns its token."""
        return self.devices.add(name, scope, **more)[1]

    @contextlib.asynccontextmanager
    async def client(self, token: str = OWNER, **options: Any) -> AsyncIterator[WireClient]:
        async with connected(self.url, token, **options) as client:
            yield client

    async def project(self, owner: WireClient, name: str = "code") -> str:
        """Creates a directory and, in it, a project with the demo agent. Returns the project's id."""
        (self.roots / name).mkdir()
        made = await owner.ask("project_create", {"path": str(self.roots / name), "agent": "demo"})
        id: str = made["project_id"]
        return id


@contextlib.asynccontextmanager
async def serving(
    directory: Path,
    tls: ssl.SSLContext | None = None,
    crowd: ClientLimits | None = None,
    rows: Sequence[AnyRow] = COMMANDS,
    **access: Any,
) -> AsyncIterator[Server]:
    server = Server(directory, tls, crowd or ClientLimits(), rows, **access)
    await server.core.open()
    async with server.door:
        checks = BackgroundTasks(logging.getLogger("tests.access"))
        checks.repeat(server.clients.check, 0.02, "checking which clients may stay")
        yield server
        await checks.close()
        await server.core.close("the end")


def code_of(answer: dict[str, Any]) -> str:
    """The code of an error; otherwise the type of the reply."""
    return str(answer["data"]["code"] if answer["type"] == "error" else answer["type"])
