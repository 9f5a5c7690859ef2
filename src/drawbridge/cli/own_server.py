"""A server that runs for one command, and ends with it."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from drawbridge.core.errors import BadSetting, NoProgram

ENDING_SECONDS: Final = 20.0


class OwnServer(NamedTuple):
    """A running server. ``ready``: its ready line."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]


class NotStarted(NoProgram):
    """The server ended before it was ready. The command fails with the server's own code and exit code. ``report``: what the
    server printed."""

    def __init__(self, failure: str, report: str, exit_code: int) -> None:
        found = re.fullmatch(r"(?s)(.*?)(?: \[([A-Z_]+)\])?", report)
        assert found is not None
        super().__init__(f"{failure}: {found[1] or 'the server ended without an error message.'}")
        self.exit_code = exit_code if exit_code in (2, 3) else NoProgram.exit_code
        # The server prints no code for a setting that can't be used.
        self.code = found[2] or (BadSetting.code if self.exit_code == BadSetting.exit_code else NoProgram.code)


@contextlib.contextmanager
def own_server(*arguments: str, failure: str, quiet: bool = False) -> Iterator[OwnServer]:
    """Runs ``drawbridge serve`` with ``arguments`` on a free port. Stops it, with its agents, at the end of the block.
    ``quiet``: does not print its output, because the command draws on the terminal. Raises ``NotStarted``, with a
    text that begins with ``failure``, if the server does not start.
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
                ended = server.wait(ENDING_SECONDS)
                if not quiet and ended > 0:
                    raise SystemExit(ended)  # the server has printed its error
                reports.seek(0)
                raise NotStarted(failure, reports.read().strip().removeprefix("drawbridge serve: "), ended)
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
