"""The server's end of the socket to an agent's supervisor. If it closes, or the server dies, the agent is ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

from drawbridge.agents import supervisor
from drawbridge.agents.base import Confinement

START_SECONDS: Final = 10.0
"""The maximum number of seconds to wait for a supervisor to start, which takes 15 ms, or a few hundred milliseconds
from a slow disk.
"""


def _compiled() -> str:
    """The path of the compiled supervisor, if Python has stored it and it is current; otherwise that of its source.
    Compiling the source takes a sixth of the supervisor's start time. Blocking."""
    source, spec = supervisor.__file__, supervisor.__spec__
    with contextlib.suppress(OSError):
        found = os.stat(source)
        current = struct.pack("<3I", 0, int(found.st_mtime) & 0xFFFFFFFF, found.st_size)
        if spec is not None and spec.cached is not None:
            with open(spec.cached, "rb") as file:
                if file.read(16)[4:] == current:
                    return spec.cached
    return source


_SCRIPT: Final = _compiled()


class SupervisorPipe:
    def __init__(self) -> None:
        self._local, self._remote = socket.socketpair()
        self._local.setblocking(False)
        self._received = b""

    def command(self, confinement: Confinement, agent: Sequence[str]) -> list[str]:
        """The command line of a supervisor that runs ``agent``, the agent's own command line."""
        limits = (confinement.open_files or 0, confinement.nice, int(confinement.confined))
        script = _SCRIPT if os.path.isfile(_SCRIPT) else supervisor.__file__  # compiled files may be removed
        own = [sys.executable, "-I", "-S", script, str(self.descriptor)]
        return [*own, *map(str, limits), *agent]

    @property
    def descriptor(self) -> int:
        """The file descriptor of the supervisor's end. The supervisor inherits it with the same number."""
        return self._remote.fileno()

    async def agent_pid(self) -> int | None:
        """Waits for the agent's process id. None if the supervisor has died or takes longer than ``START_SECONDS``."""
        self._remote.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                while b"\n" not in self._received:
                    more = await asyncio.get_running_loop().sock_recv(self._local, 64)
                    if not more:
                        break
                    self._received += more
        pid = self._received.partition(b"\n")[0]
        return int(pid) if pid.isdigit() else None

    def signal(self, number: int) -> None:
        """Sends a signal to the agent's process group. SIGKILL is sent to the agent and everything that it started. Has
        no effect after the supervisor has ended."""
        self._send(number)

    def waits(self, *, for_decision: bool) -> None:
        """Reports whether a question from the agent is open. If the server dies while one is open, the agent is killed
        before it can continue."""
        self._send(supervisor.WAITS if for_decision else supervisor.WAITS_NO_MORE)

    def _send(self, byte: int) -> None:
        with contextlib.suppress(OSError):
            os.write(self._local.fileno(), bytes([byte]))

    async def ended(self) -> None:
        """Returns once the supervisor, which must have been started, has ended."""
        self._remote.close()
        with contextlib.suppress(OSError):
            while more := await asyncio.get_running_loop().sock_recv(self._local, 64):
                self._received += more

    def tree_is_empty(self) -> bool:
        """Whether the supervisor reported that no process is left, which it does only on Linux. Call this after the
        supervisor has ended."""
        with contextlib.suppress(OSError):
            self._received += self._local.recv(64)
        return self._received.endswith(b"gone\n")

    def close(self) -> None:
        self._local.close()
        self._remote.close()
