"""``drawbridge serve`` as a real process, and its clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import psutil

from tests.rigs.written import written
from tests.server.wire_client import WireClient, connected
from tests.waiting import PATIENCE

COMMAND = [sys.executable, "-m", "drawbridge", "serve"]


class Server:
    """A server that has reported that it is ready."""

    def __init__(
        self, process: asyncio.subprocess.Process, errors: BinaryIO, ready: dict[str, Any], data: Path
    ) -> None:
        self.process = process
        self.ready = ready
        self.data = data
        self.url: str = ready["url"]
        self.token = Path(ready["token_file"]).read_text().strip() if ready["token_file"] else ""
        self._errors = errors

    @property
    def tls(self) -> ssl.SSLContext | None:
        """A context that trusts this server's certificate and no other, or None without TLS."""
        if self.ready["fingerprint"] is None:
            return None
        return ssl.create_default_context(cafile=str(self.data / "tls" / "cert.pem"))

    @contextlib.asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[WireClient]:
        async with connected(self.url, self.token, self.tls, **options) as client:
            yield client

    async def end(self, number: int = signal.SIGTERM, within: float = PATIENCE) -> tuple[int | None, str]:
        """Sends the server a signal unless it has ended, and waits for its end. Returns its exit code and what it has
        written to stderr.
        """
        if self.process.returncode is None:
            self.process.send_signal(number)
        return await self.ended(within)

    async def ended(self, within: float = PATIENCE) -> tuple[int | None, str]:
        """Waits until the server has ended. Returns its exit code and what it wrote to stderr."""
        async with asyncio.timeout(within):
            await self.process.communicate()
        return self.process.returncode, self.errors

    @property
    def errors(self) -> str:
        return written(self._errors)


async def start(
    errors: BinaryIO, *arguments: str | Path, command: Sequence[str] = COMMAND, **variables: str
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        env={**os.environ, **variables},
    )


@contextlib.asynccontextmanager
async def serving(
    data: Path, *arguments: str | Path, command: Sequence[str] = COMMAND, **variables: str
) -> AsyncIterator[Server]:
    """Starts a server on a free port of 127.0.0.1. Unless the test has ended it, stops it with SIGTERM or, if the test
    failed, kills it.
    """
    with tempfile.TemporaryFile() as errors:
        process = await start(
            errors, "--json", "--port", "0", "--data-dir", data, *arguments, command=command, **variables
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE):
                line = await process.stdout.readline()
            assert line, written(errors)
            server = Server(process, errors, json.loads(line), data)
            yield server
            if process.returncode is None:
                code, output = await server.end()
                assert code == 0, output
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()


async def refused(*arguments: str | Path, **variables: str) -> tuple[int, str]:
    """Starts a server that is expected to exit on its own. Returns its exit code and stderr. Fails if anything is on
    stdout.
    """
    with tempfile.TemporaryFile() as errors:
        process = await start(errors, *arguments, **variables)
        try:
            async with asyncio.timeout(PATIENCE):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        assert output == b""
        assert process.returncode is not None
        return process.returncode, written(errors)


@contextlib.contextmanager
def lasting(prefix: str, *arguments: str, command: Sequence[str] = COMMAND) -> Iterator[Server]:
    """Starts a server that many tests share, in its own directory. Projects must be in the ``work`` directory there."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir="/tmp") as place:
        root = Path(place)
        (root / "work").mkdir()
        given = ["--json", "--port", "0", "--no-tls", "--data-dir", str(root / "data"), "--allow", str(root / "work")]
        with (root / "errors").open("w+b") as errors:
            process = subprocess.Popen(
                [*command, *given, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
            )
            out = cast(IO[bytes], process.stdout)
            line = out.readline()
            assert line, (root / "errors").read_text()
            yield Server(None, errors, json.loads(line), root / "data")  # type: ignore[arg-type]  # nobody here ends it
            process.terminate()
            assert process.wait(PATIENCE) == 0, (root / "errors").read_text()
            out.close()


FILES_OF_AN_AGENT = 5
"""The number of files that the server has open for each agent process, even between runs: input, output and errors,
the supervisor's socket, and the newest file of the history.
"""


def files_apart_from_agents(process: psutil.Process) -> int:
    """The number of open files, not counting those for agents, because the number of agents that are kept varies."""
    return int(process.num_fds()) - FILES_OF_AN_AGENT * len(process.children())
