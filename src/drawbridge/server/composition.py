"""The composition root: the only place where the parts of a server are constructed and connected. ``drawbridge serve``,
the tests and the benchmarks build their servers here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Final

from drawbridge.agents.base import Agent
from drawbridge.agents.registry import agents, programs, terminal_agents, with_forks, with_image_input
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.app.blobs import Blobs
from drawbridge.server.app.clients import CHECK_SECONDS, Clients
from drawbridge.server.app.command_table import COMMANDS, scopes_of
from drawbridge.server.app.core import Core
from drawbridge.server.app.dispatch import AnyRow, Dispatch
from drawbridge.server.app.file_commands import FileCommands
from drawbridge.server.app.history_commands import HistoryCommands
from drawbridge.server.app.outbox import Writers
from drawbridge.server.app.review_commands import ReviewCommands
from drawbridge.server.app.run_commands import RunCommands
from drawbridge.server.app.server_commands import ServerCommands
from drawbridge.server.app.site import ServerSite
from drawbridge.server.app.stats import EVERY_SECONDS, ServerMonitor
from drawbridge.server.auth.access import Access, OwnNames, owner_token
from drawbridge.server.auth.audit import ServerAuditLog
from drawbridge.server.auth.devices import Devices, hashed
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.tls import Certificate
from drawbridge.server.checkpoints.unsaved import FindUnsaved, no_editors
from drawbridge.server.notifications.send import Notifier
from drawbridge.server.notifications.web_push import Subscriptions
from drawbridge.server.plan import Plan
from drawbridge.server.screen import pages
from drawbridge.server.sessions.conversations.searching import INDEXING_SECONDS
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories
from drawbridge.server.sessions.projects import MAINTENANCE_SECONDS

ENDING_SECONDS: Final = 10.0
"""Seconds within which runs and their processes must end. After that, clients are disconnected (1001)."""

logger = logging.getLogger("drawbridge.server")


class Server:
    """A server's parts, connected. Call ``open`` before the first request, and ``close`` after the last."""

    def __init__(
        self,
        plan: Plan,
        port: int,
        known: Mapping[str, Agent] | None = None,
        *,
        names: OwnNames | None = None,
        certificate: Certificate | None = None,
        find_unsaved: FindUnsaved = no_editors,
        rows: Sequence[AnyRow] = COMMANDS,
        writers: Writers | None = None,
    ) -> None:
        """The server that ``plan`` describes, for connections to ``port``. ``known``: the agents by name; by default,
        those of the plan. ``certificate``: the one that new connections get; None without TLS. ``rows``: the commands
        that clients can send. ``writers`` sends frames to the clients. Raises ``DrawbridgeError`` if a file in the data
        directory can't be used."""
        known = agents(plan.agents) if known is None else known
        self.version = version("drawbridge")
        self.agents = list(known)
        self.writers = writers or Writers()
        host, directories, devices = socket.gethostname(), AllowedDirectories(plan.roots, plan.data), Devices(plan.data)
        token = owner_token(plan.data / "token") if plan.token_wanted else None
        subscriptions = Subscriptions(plan.data, hashed(token) if token is not None else None)
        self.notifier = Notifier(subscriptions, devices, directories.leads_to, plan.webhook, plan.public_hosts, host)
        self.access = Access(
            token,
            names or OwnNames(plan.public_hosts),
            secure=plan.tls,
            devices=devices,
            origins=plan.origins,
            proxies=plan.proxies,
            keys=plan.keys,
            port=port,
            certificate=lambda: certificate.shown if certificate is not None else None,
            notified=self.notifier.identify,
        )
        self.audit = ServerAuditLog(plan.data)
        self.entrance = Entrance(self.access, plan.client_limits, self.audit)
        self.blobs = Blobs(plan.data / "blobs")
        self.core = Core(
            plan.data,
            directories,
            known,
            self.blobs,
            plan.limits,
            plan.fsync,
            plan.ceilings,
            plan.retention,
            terminal_agents=terminal_agents(),
            broadcast=self.writers.broadcast,
            notices=self.notifier.published,
            audit=self.entrance.published,
            find_unsaved=find_unsaved,
        )
        self.clients = Clients(self.entrance, self.core, self.writers)
        self.monitor = ServerMonitor(
            plan.data,
            self.version,
            self.core.states,
            self.clients.__len__,
            lambda: [*self.core.problems(), *self.notifier.problems()],
            subscriptions=self.core.subscriptions,
            metrics=self.core.metrics.total,
        )
        self.reviews = ReviewCommands(self.core)
        self.runs = RunCommands(self.core, self.blobs)
        self.files = FileCommands(self.core, plan.privacy, plan.limits.confinement)
        self.histories = HistoryCommands(self.core)
        commands = ServerCommands(
            self.core,
            self.files,
            self.reviews,
            self.histories,
            self.blobs,
            self.entrance,
            self.clients,
            version=self.version,
            roots=plan.roots,
            agents=self.agents,
            scopes=scopes_of(rows),
            health=self.monitor.health,
            push=self.notifier.subscriptions,
            push_test=self.notifier.test,
            with_image_input=with_image_input(known),
            with_forks=with_forks(known),
            devices=devices,
            addresses=lambda: pages(plan, port),
            machine=host,
            programs=lambda: programs(plan.agents),
        )
        owners = (self.core, self.runs, self.reviews, self.files, self.histories, commands)
        self.dispatch = Dispatch(rows, self.core, owners, self.entrance)
        self.site = ServerSite(
            self.entrance,
            self.clients,
            self.dispatch,
            lambda: certificate.authority if certificate is not None else None,
        )

    async def open(self) -> None:
        """Loads the projects and terminal sessions."""
        await self.core.open()

    def repeat(self, tasks: BackgroundTasks) -> None:
        """Starts the server's periodic work."""
        tasks.repeat(partial(self.monitor.report, self.clients), EVERY_SECONDS, "measuring the server", at_once=True)
        tasks.repeat(self.core.maintenance.round, MAINTENANCE_SECONDS, "maintenance", at_once=True)
        tasks.repeat(self.histories.searching.round, INDEXING_SECONDS, "indexing the histories", at_once=True)
        tasks.repeat(self.clients.check, CHECK_SECONDS, "checking which clients may stay connected")

    async def close(self, reason: str) -> None:
        """Ends the runs and the agent processes, and sends what is waiting to be sent to clients. Their connections
        stay open. Takes at most about ``ENDING_SECONDS``.
        """
        self.dispatch.end()
        self.notifier.end()
        try:
            await asyncio.wait_for(self._close(reason), ENDING_SECONDS)
        except TimeoutError:
            logger.error("some runs and processes did not end within %g s", ENDING_SECONDS)
        self.writers.flush()

    async def _close(self, reason: str) -> None:
        await self.files.close()
        await self.histories.close()
        await self.core.close(reason)
