"""The shell that runs the git commands of one operation.

One shell under one supervisor (``agents/supervisor.py``) runs all of them, because starting a supervisor takes 15 ms.
Therefore, git has no more permissions than an agent, ends with the server and leaves no process behind. git writes
files while a run is reverted. The shell and git therefore ignore SIGTERM. If the server dies, git has 3 seconds to
finish before the supervisor kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from drawbridge.agents import process_tree
from drawbridge.agents.base import Confinement
from drawbridge.agents.environment import MARK
from drawbridge.agents.memory import MemoryWatch
from drawbridge.agents.supervisor_pipe import SupervisorPipe
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.errors import GitFailed, TookTooLong

LEAVE_SECONDS: Final = 5.0
"""Seconds for the shell to end after its last command or after it was killed, and for a program to end after
SIGTERM."""


class Shell:
    """A running shell, in which commands are run one after another. After a command that did not end in time, or whose
    wait was canceled, it runs no other, because the next reply would still be to that command."""

    def __init__(
        self, input: asyncio.StreamWriter, output: asyncio.StreamReader, signal: Callable[[int], None]
    ) -> None:
        """``signal``: sends a signal to the shell's process group, or SIGKILL to everything that the shell started. The
        shell itself ignores SIGTERM."""
        self._input = input
        self._output = output
        self._signal = signal
        self._owes_reply = False
        """Whether the reply to a command has not been read yet."""

    async def run(self, line: str, seconds: float, what: str, *, terminates: bool = False) -> int:
        """Runs a line. Returns its exit code. ``what``: how an error refers to the line. ``terminates``: whether a
        program that has not ended after ``seconds`` gets SIGTERM and some more time. Raises ``TookTooLong`` if the line
        does not end in time, ``GitFailed`` if the shell was killed or an earlier line has not ended."""
        if self._owes_reply:
            raise GitFailed(f"git was not started for: {what}. An earlier command in the same shell has not ended.")
        self._owes_reply = True
        try:
            self._input.write(os.fsencode(f"{line}; echo $?\n"))
            code = await self._reply(seconds)
            if code is None and terminates:
                self._signal(signal.SIGTERM)
                code = await self._reply(LEAVE_SECONDS)
        except OSError:
            code = b""
        program = "a program" if terminates else "git"  # a script also runs programs other than git
        if code is None:
            raise TookTooLong(f"{program} took more than {seconds:g} s for: {what}")
        self._owes_reply = False
        if not code.strip().isdigit():
            raise GitFailed(f"{program} was killed by a signal during: {what}")
        return int(code)

    async def _reply(self, seconds: float) -> bytes | None:
        """The next line that the shell prints; None if it prints none in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._input.drain()
                return await self._output.readline()
        except TimeoutError:
            return None


@contextlib.asynccontextmanager
async def started(
    directory: Path, confinement: Confinement, memory: MemoryWatch, endings: BackgroundTasks, mark: str
) -> AsyncIterator[Shell]:
    """A shell in ``directory``. ``endings``: the tasks in which its processes are ended, so that this is completed even
    if the operation is canceled. These tasks must not be canceled. ``mark``: identifies its processes in their
    environment.

    When the context ends, every process that was started in it has ended, unless the wait for that was canceled.
    """
    near, far = socket.socketpair()
    try:
        pipe = SupervisorPipe()
    except OSError:  # too many open files
        near.close()
        far.close()
        raise
    # The shell may also be started in a directory on a disk that does not respond.
    starting = asyncio.get_running_loop().run_in_executor(None, _start, directory, confinement, mark, pipe, far)
    pid, input = 0, None
    try:
        process = await asyncio.shield(starting)
        pid = await pipe.agent_pid() or process.pid
        output, input = await asyncio.open_unix_connection(sock=near)
        input.write(b"trap '' TERM\n")
        with memory.watching(pid):
            yield Shell(input, output, pipe.signal)
            with contextlib.suppress(OSError):  # the shell was killed
                input.write_eof()
    except BaseException:
        pipe.signal(signal.SIGKILL)
        raise
    finally:
        await asyncio.shield(endings.start(_ended(starting, pipe, input or near, pid, mark), "waiting for git to exit"))


def _start(
    directory: Path, confinement: Confinement, mark: str, pipe: SupervisorPipe, shell: socket.socket
) -> subprocess.Popen[bytes]:
    """Starts the shell with its end of a socket. This uses vfork. uvloop would fork the server instead, which takes
    longer the more memory the server uses. Blocking. Raises OSError."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    with shell:
        return subprocess.Popen(
            pipe.command(confinement, ["/bin/sh"]),
            cwd=str(directory),
            env=inherited | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", MARK: mark},
            stdin=shell.fileno(),
            stdout=shell.fileno(),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(pipe.descriptor,),
        )


async def _ended(
    starting: asyncio.Future[subprocess.Popen[bytes]],
    pipe: SupervisorPipe,
    connection: asyncio.StreamWriter | socket.socket,
    pid: int,
    mark: str,
) -> None:
    """Waits until every process has ended, and kills those that do not end in time. Then closes ``pipe``, and
    ``connection``, which leads to the shell."""
    with contextlib.closing(pipe), contextlib.closing(connection):
        try:
            process = await starting
        except OSError:
            return
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await pipe.ended()
        except TimeoutError:
            pipe.signal(signal.SIGKILL)
            await pipe.ended()
        await asyncio.to_thread(process.wait)
        if not pipe.tree_is_empty():
            await asyncio.to_thread(process_tree.end, pid or process.pid, f"{MARK}={mark}")
