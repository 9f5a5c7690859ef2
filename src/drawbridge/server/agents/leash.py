"""The server's end of the socket to an agent's keeper. When it closes, with the server's death too, the agent ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drawbridge.server.agents import keeper
from drawbridge.server.agents.port import Confinement

START_SECONDS: Final = 10.0
"""A keeper starts in 15 ms; on a machine that has to read it from a slow disk in a few hundred."""


class Leash:
    def __init__(self) -> None:
        self._ours, self._keepers = socket.socketpair()
        self._ours.setblocking(False)
        self._heard = b""

    def command(self, confinement: Confinement, agent: Sequence[str]) -> list[str]:
        """What a keeper of ``agent`` is started with."""
        limits = (confinement.open_files or 0, confinement.nice, int(confinement.confined))
        own = [sys.executable, "-I", "-S", str(Path(keeper.__file__)), str(self.descriptor)]
        return [*own, *map(str, limits), *agent]

    @property
    def descriptor(self) -> int:
        """The keeper inherits it under the same number."""
        return self._keepers.fileno()

    async def agent_pid(self) -> int | None:
        """Once the keeper runs. None where it has died, or does not get to it."""
        self._keepers.close()
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
        """After the keeper's end: whether it has seen the end of everything."""
        with contextlib.suppress(OSError):
            self._heard += self._ours.recv(64)
        return self._heard.endswith(b"gone\n")

    def close(self) -> None:
        self._ours.close()
        self._keepers.close()
