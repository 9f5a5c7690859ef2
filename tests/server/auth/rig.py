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
from drawbridge.core.private_files import write_private
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server import composition
from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.app.dispatch import AnyRow
from drawbridge.server.auth.access import OwnNames
from drawbridge.server.auth.devices import Devices
from drawbridge.server.auth.entrance import ClientLimits
from drawbridge.server.auth.scopes import Scope
from drawbridge.server.auth.tls import Certificate
from drawbridge.server.serve import terms
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.transport.http_server import HttpServer
from tests.server.plans import plan_of
from tests.server.wire_client import WireClient, connected

OWNER = "the-owners-token-which-is-long-enough-for-all"
SCOPES: tuple[Scope, ...] = ("view", "approve", "run", "admin")


class Server:
    """A server that listens on 127.0.0.1. Projects must be in the directory ``roots``. ``devices`` accesses the
    server's devices file like another process.
    """

    def __init__(
        self,
        directory: Path,
        tls: ssl.SSLContext | None,
        crowd: ClientLimits,
        rows: Sequence[AnyRow],
        certificate: Certificate | None,
        **planned: Any,
    ) -> None:
        self.data, self.roots = directory / "data", directory / "roots"
        self.data.mkdir(mode=0o700)
        self.roots.mkdir()
        write_private(str(self.data / "token"), OWNER.encode())
        self.devices = Devices(self.data)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        plan = plan_of(
            self.data,
            self.roots,
            tls=tls is not None,
            client_limits=crowd,
            limits=Limits(checkpoints=False, warm_processes=1),
            **planned,
        )
        self.built = composition.Server(
            plan,
            self.port,
            {"demo": Demo()},
            names=OwnNames(["public.example"]),
            certificate=certificate,
            rows=rows,
        )
        self.core, self.clients, self.access = self.built.core, self.built.clients, self.built.access
        self.monitor = self.built.monitor
        self.url = f"{'wss' if tls else 'ws'}://127.0.0.1:{self.port}/ws"
        self.door = HttpServer(self.built.site, self.listener, terms(64), tls)

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
    certificate: Certificate | None = None,
    **planned: Any,
) -> AsyncIterator[Server]:
    """``planned``: attributes of the server's plan."""
    server = Server(directory, tls, crowd or ClientLimits(), rows, certificate, **planned)
    await server.built.open()
    async with server.door:
        checks = BackgroundTasks(logging.getLogger("tests.access"))
        checks.repeat(server.clients.check, 0.02, "checking which clients may stay")
        yield server
        await checks.close()
        await server.built.close("the end")


def code_of(answer: dict[str, Any]) -> str:
    """Returns the code of an error, or otherwise the type of the reply."""
    return str(answer["data"]["code"] if answer["type"] == "error" else answer["type"])
