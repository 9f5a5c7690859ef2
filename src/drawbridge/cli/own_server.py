"""A server that runs for one command, and ends with it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from drawbridge.core.errors import NoProgram

ENDING_SECONDS: Final = 20.0


class OwnServer(NamedTuple):
    """A running server. ``ready``: its ready line."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]


@contextlib.contextmanager
def own_server(*arguments: str, failure: str, quiet: bool = False) -> Iterator[OwnServer]:
    """Runs ``drawbridge serve`` with ``arguments`` on a free port. Stops it, with its agents, at the end of the block.
    ``quiet``: does not print its output, because the command draws on the terminal. Raises ``NoProgram``, with a text
    that begins with ``failure``, if the server does not start.
    """
    given = ["--json", "--port", "0", "--log-level", "warning", *arguments]
    command = [sys.executable, "-P", "-m", "drawbridge", "serve", *given]
    with tempfile.TemporaryFile("w+", errors="replace") as reports:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=reports if quiet else None,
            text=True,
        )
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            if not line:
                server.wait(ENDING_SECONDS)
                reports.seek(0)
                unknown = "the server ended without an error message." if quiet else "the server's error is above."
                why = reports.read().strip().removeprefix("drawbridge serve: ") or unknown
                raise NoProgram(f"{failure}: {why}")
            yield OwnServer(server, json.loads(line))
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C has reached the server as well
            if server.poll() is None:
                server.terminate()
            try:
                server.wait(ENDING_SECONDS)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            server.stdout.close()
