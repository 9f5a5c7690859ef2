"""``drawbridge serve``: starts a server, prints its addresses, and shuts it down cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from drawbridge.agents.registry import missing
from drawbridge.core.errors import DrawbridgeError, NoPort, NotWritable, ServerRunning
from drawbridge.core.private_files import make_private_directory
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server import logs, upgrade
from drawbridge.server.app.stats import METRICS_HOST, serving_metrics
from drawbridge.server.auth.access import EVERYWHERE, OwnNames, is_loopback, served
from drawbridge.server.auth.audit import ServerAuditLog
from drawbridge.server.auth.devices import Devices, new_code
from drawbridge.server.auth.entrance import Entrance
from drawbridge.server.auth.tls import Certificate, own_certificate
from drawbridge.server.checkpoints.unsaved import FindUnsaved
from drawbridge.server.composition import Server
from drawbridge.server.plan import Plan
from drawbridge.server.protocol import messages
from drawbridge.server.screen import address, announced, page, show
from drawbridge.server.terminal_sessions.socket import private_socket
from drawbridge.settings.serve import ServeSettings
from drawbridge.transport.http_server import BACKLOG, HttpServer, ServerOptions

RENEWAL_SECONDS: Final = 3600.0

SPARE_CONNECTIONS: Final = 288
"""The number of connections that are possible in addition to the clients: for peers that have not sent a request or a
token yet, and for plain requests, such as for the web UI and /health."""

WAITING_CONNECTIONS: Final = 128
"""The number of connections, from all addresses together, that may wait for their peers (for the rest of a request, the
next request, or the end of a closing handshake). Above it, each new connection replaces one of them, if possible.
Recent ones are replaced only if their address has many. Over TLS, a connection may use 120 kB of memory."""

logger = logging.getLogger("drawbridge.server")


def run(settings: ServeSettings, find_unsaved: FindUnsaved) -> int:
    """Runs the server until a signal ends it. Returns the exit code. Raises ``DrawbridgeError`` if it can't start."""
    logs.configure(settings.log_level, settings.log_format, settings.log_file)
    plan = Plan(settings)
    upgrade.check(plan.data)
    with _own_data(plan.data):
        upgrade.mark(plan.data)
        Devices(plan.data).open()
        names = OwnNames(plan.public_hosts)
        certificate = plan.certificate
        if plan.tls and certificate is None:
            certificate = own_certificate(plan.data / "tls", _served(plan, names))
        listening, running = _listen(plan.host, plan.port), asyncio.Runner(loop_factory=_fast_loop())
        with contextlib.closing(listening) as listener, running as runner:
            return runner.run(_serve(plan, listener, names, certificate, find_unsaved))


async def _serve(
    plan: Plan, listener: socket.socket, names: OwnNames, certificate: Certificate | None, find_unsaved: FindUnsaved
) -> int:
    stop = _stop_at_signals()
    metered = None if plan.metrics_port is None else _listen(METRICS_HOST, plan.metrics_port, "--metrics-port")
    port = listener.getsockname()[1]
    server = Server(plan, port, names=names, certificate=certificate, find_unsaved=find_unsaved)
    core = server.core
    await server.open()
    tls = certificate.context() if certificate is not None else None
    async with (
        _closing(server.audit),  # after the connections, whose ends are in the log
        serving_metrics(metered, core.metrics.total, server.monitor.health) as metrics,
        private_socket(core.terminal_sessions, core.context.editors, core, server.reviews),
        HttpServer(server.site, listener, terms(plan.clients), tls),
    ):
        with announced(plan, port, certificate):
            lacking = missing(plan.agents)
            for name, program in lacking.items():
                if program != name:  # set by the owner; a missing built-in agent needs no warning
                    where = "was not found or is not executable" if os.sep in program else "is not on PATH"
                    logger.warning(
                        "%s can't run: its program %s %s. Install it, or correct --acp-agent or --command-agent.",
                        name,
                        program,
                        where,
                    )
            link = _sign_in_link(plan, port, server.entrance)
            show(plan, port, certificate, server.version, server.agents, len(core.projects), metrics, lacking, link)
            tasks = BackgroundTasks(logger)
            try:
                server.repeat(tasks)
                if certificate is not None:
                    renew = partial(_renew, plan, names, certificate, tls)
                    tasks.repeat(renew, RENEWAL_SECONDS, "checking the certificate")
                await stop.wait()
            finally:
                await tasks.close()
        await server.close("the server is shutting down")  # the connections are closed after this
    return 0


@contextlib.asynccontextmanager
async def _closing(audit: ServerAuditLog) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.to_thread(audit.close)


def _sign_in_link(plan: Plan, port: int, entrance: Entrance) -> str | None:
    """A link that makes a browser on this machine a device with the ``admin`` scope; None if such a link can't be
    created, used or shown. It is shown only in a terminal, because text that is written to a file or a log stays
    there."""
    here = plan.host in EVERYWHERE or is_loopback(plan.host)
    if not (here and plan.token_wanted and not plan.json and not plan.public_hosts and sys.stdout.isatty()):
        return None
    try:
        code = new_code(Devices(plan.data), "admin")
    except DrawbridgeError as error:
        logger.warning("a sign-in link could not be created: %s", error)
        return None
    entrance.note("pairing_code_made", device=None, scope="admin")
    return f"{page(address(plan, port))}#sign-in={code.replace('-', '')}"


def terms(clients: int) -> ServerOptions:
    """The limits of the HTTP transport for a server that accepts at most this many clients."""
    return ServerOptions(
        connections=clients + SPARE_CONNECTIONS,
        waiting=WAITING_CONNECTIONS,
        message_bytes=messages.MESSAGE_BYTES,
        binary_as_text=False,
        congested_bytes=64 * 1024,
        kernel_bytes=128 * 1024,
        ping_seconds=30.0,
        farewell="the server is shutting down",
    )


def _stop_at_signals() -> asyncio.Event:
    """An event that the first signal sets. The second signal ends the process immediately."""
    stop = asyncio.Event()

    def signalled(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        logger.info("received %s: shutting down", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, signalled, number)
    return stop


def _served(plan: Plan, names: OwnNames) -> tuple[str, ...]:
    """The names and addresses that clients connect to, for the certificate."""
    return (*names.names, *served(plan.host, plan.public_hosts))


async def _renew(plan: Plan, names: OwnNames, certificate: Certificate, tls: Any) -> None:
    """Renews the server's own certificate before it expires, or when it does not cover an address at which the server
    can now be reached. Reads the owner's certificate again, because it may have been replaced. A failure is only
    logged.
    """

    def renewed() -> str:
        if plan.certificate is None:
            own_certificate(plan.data / "tls", _served(plan, names))
        certificate.check()
        return certificate.fingerprint

    before = certificate.shown
    try:
        fingerprint = await asyncio.to_thread(renewed)
        certificate.load_into(tls)  # not in the thread: the context must not change during a handshake
    except (DrawbridgeError, OSError, ValueError) as error:
        what = "renewed" if plan.certificate is None else "read again"
        logger.error("the certificate could not be %s (new connections get the previous one): %s", what, error)
        return
    if certificate.shown != before:
        logger.warning("new connections get a new certificate, SHA-256 %s", fingerprint)


@contextlib.contextmanager
def _own_data(directory: Path) -> Iterator[None]:
    """Locks the data directory for this process. The kernel releases the lock no matter how the process ends. Raises
    ``ServerRunning`` if another server uses the directory, ``NotPrivate`` if it can't be made private, and
    ``NotWritable`` if its lock file can't be opened, locked or written."""
    make_private_directory(str(directory))
    lock = directory / "server.lock"
    try:
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_writable(lock, error) from None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(file, 32).decode("ascii", "replace").strip()
            raise ServerRunning(
                f"Another server{f' (process {pid})' if pid.isdigit() else ''} is using the data in {directory}. "
                "Stop that one, or choose another directory with --data-dir."
            ) from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            text = f"{directory} can't be locked for this server: {why}. Its file system may not support locks."
            raise NotWritable(f"{text} Choose another directory with --data-dir.") from None
        try:
            os.ftruncate(file, 0)
            os.pwrite(file, str(os.getpid()).encode(), 0)
        except OSError as error:
            raise _not_writable(lock, error) from None
        yield
    finally:
        os.close(file)


def _not_writable(lock: Path, error: OSError) -> NotWritable:
    why = (error.strerror or str(error)).lower()
    return NotWritable(f"{lock} can't be written: {why}. Fix the cause, or choose another directory with --data-dir.")


def _listen(host: str, port: int, flag: str = "--port") -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.create_server(
            address, family=family, backlog=BACKLOG, dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6()
        )
    except OSError as error:
        has_number = error.errno and not isinstance(error, socket.gaierror)
        why = (os.strerror(error.errno or 0) if has_number else error.strerror or str(error)).lower()
        if error.errno == errno.EADDRINUSE:
            remedy = f"Stop the program that is using it, or choose another port with {flag}."
        elif isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            remedy = "Choose an address of this machine with --host."
        else:
            remedy = f"Choose another port with {flag}."
        raise NoPort(f"Port {port} on {host} is not available: {why}. {remedy}") from None
    listener.setblocking(False)
    return listener


def _fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    make: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return make
