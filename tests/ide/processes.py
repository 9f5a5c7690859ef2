"""``drawbridge ide`` as a real process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from websockets.asyncio.client import connect

from drawbridge.ide.claude import TOKEN_HEADER
from tests.rigs.written import written
from tests.waiting import PATIENCE

COMMAND = [sys.executable, "-m", "drawbridge"]


class Bridge:
    """A running bridge that has printed its ready line."""

    def __init__(self, process: asyncio.subprocess.Process, errors: BinaryIO, ready: dict[str, Any]) -> None:
        self.process = process
        self._errors = errors
        self.ready = ready
        self.port: int = ready["port"]
        self.lock = Path(ready["lock_file"] if "lock_file" in ready else ready["discovery_file"])
        self.token: str = self.content["authToken"]

    @property
    def content(self) -> dict[str, Any]:
        """The content of the lock file, or of Gemini CLI's discovery file if the bridge does not serve Claude Code."""
        content: dict[str, Any] = json.loads(self.lock.read_bytes())
        return content

    def dial(self, **headers: str) -> connect:
        """Returns a WebSocket connection to open, with the headers and subprotocol of the real ``claude`` CLI."""
        return connect(
            f"ws://127.0.0.1:{self.port}/",
            additional_headers={TOKEN_HEADER: self.token, **headers},
            subprotocols=["mcp"],  # type: ignore[list-item]
            compression=None,
            proxy=None,
        )

    @property
    def errors(self) -> str:
        """What the bridge has printed on stderr so far."""
        return written(self._errors)

    async def end(self, number: int = signal.SIGTERM) -> tuple[int | None, str]:
        """Ends the bridge with a signal. Returns its exit code and what it printed on stderr."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE):
            await self.process.communicate()
        return self.process.returncode, written(self._errors)


async def start(errors: BinaryIO, *arguments: str | Path, **variables: str) -> asyncio.subprocess.Process:
    """Starts ``drawbridge``. ``errors`` is a file, not a pipe, so that the process never waits for its reader."""
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *map(str, arguments),
        env={**os.environ, **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
    )


@contextlib.asynccontextmanager
async def bridge(*arguments: str | Path, **variables: str) -> AsyncIterator[Bridge]:
    """Runs ``drawbridge ide`` with these flags and environment variables. Yields it once it has printed its ready line,
    and ends it afterwards.
    """
    with tempfile.TemporaryFile() as errors:
        process = await start(errors, "ide", *arguments, **variables)
        try:
            assert process.stdout is not None
            async with asyncio.timeout(PATIENCE):  # Python starts slowly while many tests run
                line = await process.stdout.readline()
            assert line, f"it ended before it was ready: {written(errors)}"
            yield Bridge(process, errors, json.loads(line))
        finally:
            if process.returncode is None:
                process.terminate()
            try:
                async with asyncio.timeout(PATIENCE):
                    await process.communicate()
            except TimeoutError:
                process.kill()
                await process.communicate()
                raise


async def run(*arguments: str | Path, **variables: str) -> tuple[int | None, str, str]:
    """Runs ``drawbridge`` until it ends. Returns its exit code, stdout and stderr."""
    with tempfile.TemporaryFile() as errors:
        process = await start(errors, *arguments, **variables)
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
        return process.returncode, output.decode(), written(errors)
