"""The server's end of the socket to an agent's supervisor. When it closes, also because the server died, the agent ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drawbridge.agents import supervisor
from drawbridge.agents.base import Confinement

START_SECONDS: Final = 10.0
"""A supervisor starts in 15 ms, and in a few hundred where it is read from a slow disk."""


class SupervisorPipe:
    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._heard = b""

    def command(self, confinement: Confinement, agent: Sequence[str]) -> list[str]:
        """The command line of a supervisor of ``agent``."""
        limits = (confinement.open_files or 0, confinement.nice, int(confinement.confined))
        own = [sys.executable, "-I", "-S", str(Path(supervisor.__file__)), str(self.descriptor)]
        return [*own, *map(str, limits), *agent]

    @property
    def descriptor(self) -> int:
        """The supervisor inherits it under the same number."""
        return self._theirs.fileno()

    async def agent_pid(self) -> int | None:
        """Once the supervisor runs. None if it has died, or is too slow."""
        self._theirs.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                while b"\n" not in self._heard:
                    more = await asyncio.get_running_loop().sock_recv(self._ours, 64)
                    if not more:
                        break
                    self._heard += more
        pid = self._heard.partition(b"\n")[0]
        return int(pid) if pid.isdigit() else None

    def signal(self, number: int) -> None:
        """To the agent's group; SIGKILL to everything it has started. Too late changes nothing."""
        with contextlib.suppress(OSError):
            os.write(self._ours.fileno(), bytes([number]))

    def all_gone(self) -> bool:
        """After the supervisor's end: whether it reported that no process is left."""
        with contextlib.suppress(OSError):
            self._heard += self._ours.recv(64)
        return self._heard.endswith(b"gone\n")

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
