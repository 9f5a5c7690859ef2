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
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from drawbridge.agents import process_tree
from drawbridge.agents.base import Confinement
from drawbridge.agents.environment import MARK
from drawbridge.agents.memory import MemoryWatch
from drawbridge.agents.supervisor_pipe import SupervisorPipe
from drawbridge.core.subprocesses import check_descriptors
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.errors import GitFailed, TookTooLong

LEAVE_SECONDS: Final = 5.0
"""Seconds for the shell to end after its last command or after it was killed, and for a program to end after
SIGTERM."""


class Shell:
    """A running shell, in which commands are run one after another."""

    def __init__(self, process: asyncio.subprocess.Process, signal: Callable[[int], None]) -> None:
        """``signal``: sends a signal to the shell's process group, or SIGKILL to everything that the shell started. The
        shell itself ignores SIGTERM."""
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = process.stdout
        self._signal = signal

    async def run(self, line: str, seconds: float, what: str, *, terminates: bool = False) -> int:
        """Runs a line. Returns its exit code. ``what``: how an error refers to the line. ``terminates``: whether a
        program that has not ended after ``seconds`` gets SIGTERM and some more time. Raises ``TookTooLong`` if the line
        does not end in time, ``GitFailed`` if the shell was killed."""
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
    with contextlib.closing(SupervisorPipe()) as pipe:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        check_descriptors()
        process = await asyncio.create_subprocess_exec(
            *pipe.command(confinement, ["/bin/sh"]),
            cwd=str(directory), env=inherited | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", MARK: mark},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, pass_fds=(pipe.descriptor,),
        )  # fmt: skip
        pid = process.pid
        try:
            pid = await pipe.agent_pid() or pid
            assert process.stdin is not None
            process.stdin.write(b"trap '' TERM\n")
            with memory.watching(pid):
                yield Shell(process, pipe.signal)
                process.stdin.close()
        except BaseException:
            pipe.signal(signal.SIGKILL)
            raise
        finally:
            await asyncio.shield(endings.start(_ended(process, pipe, pid, mark), "waiting for git to exit"))


async def _ended(process: asyncio.subprocess.Process, pipe: SupervisorPipe, pid: int, mark: str) -> None:
    """Waits until every process has ended, and kills those that do not end in time."""
    try:
        async with asyncio.timeout(LEAVE_SECONDS):
            await process.wait()
    except TimeoutError:
        pipe.signal(signal.SIGKILL)
        await process.wait()
    if not pipe.tree_is_empty():
        await asyncio.to_thread(process_tree.end, pid, f"{MARK}={mark}")
