"""Runs programs that may hang, flood their output or leave processes behind: with a time limit and, in ``run``, a limit
on the size of the output."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PIECE_BYTES = 65_536

REST_SECONDS = 1.0
"""The maximum number of seconds for which the remaining output is read after a program was killed."""


NEEDED_DESCRIPTORS = 12
"""The file descriptors that starting a program briefly needs: uvloop creates a pair of sockets for each of stdin,
stdout and stderr, and libuv some pipes."""


class Finished(NamedTuple):
    """The result of ``run``. ``output``: stdout and stderr, at most ``limit`` bytes; ``dropped``: the number of bytes
    that were read beyond that limit.

    ``status``: as in ``Popen.returncode``; None if the program was killed at a limit.
    """

    output: bytes
    dropped: int
    status: int | None


class Ended(NamedTuple):
    """The result of ``run_blocking``. ``status``: as in ``Popen.returncode``; None if the program was killed at the
    time limit, in which case ``output`` and ``errors`` are empty."""

    status: int | None
    output: bytes
    errors: bytes


def run_blocking(command: Sequence[str], *, seconds: float, input: bytes = b"") -> Ended:
    """Runs ``command`` until it and its output end. Kills its process group if that takes longer than ``seconds``.
    Raises ``OSError``."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(input, timeout=seconds)
            return Ended(process.returncode, output, errors)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=REST_SECONDS)
            return Ended(None, b"", b"")


def check_descriptors() -> None:
    """Raises ``OSError`` (EMFILE or ENFILE) if too few descriptors are left to start a program.

    Call it before each start in an event loop that may be uvloop: uvloop 0.23 closes none of the sockets that it has
    already created for a program when it can't create the next one, so each such start would leave up to six of them
    open, until no program can be started again.
    """
    taken: list[int] = []
    try:
        taken += os.pipe()
        while len(taken) < NEEDED_DESCRIPTORS:
            taken.append(os.dup(taken[0]))
    finally:
        for descriptor in taken:
            os.close(descriptor)


async def run(
    command: Sequence[str],
    *,
    directory: str,
    seconds: float,
    limit: int,
    environment: Mapping[str, str] | None = None,
    input: bytes | None = None,
    drain: bool = False,
) -> Finished:
    """Runs ``command`` until it and its output end, for at most ``seconds``, then kills what is left of its process
    group. Raises ``OSError``.

    ``limit``: bytes of output that are kept. A program that writes more is killed. With ``drain`` the rest is read and
    dropped instead.
    """
    check_descriptors()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env=environment,
        stdin=DEVNULL if input is None else PIPE,
        stdout=PIPE,
        stderr=STDOUT,
        start_new_session=True,
    )
    output, dropped = bytearray(), 0
    assert process.stdout is not None
    ended = False
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            # A program may wait for its output to be read before it continues to read.
            feeding = None if input is None else group.create_task(_feed(process, input))
            while piece := await process.stdout.read(PIECE_BYTES):
                kept = piece[: limit - len(output)]
                output += kept
                dropped += len(piece) - len(kept)
                if dropped and not drain:
                    break
            else:
                await process.wait()
                ended = True
            if feeding is not None:
                feeding.cancel()
    except TimeoutError:
        pass
    finally:
        # This is needed even if the program has ended, because processes that it started may still run in its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        # asyncio waits for the end of the output too, which it does not see while unread output fills its buffer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                while await process.stdout.read(PIECE_BYTES):
                    pass
        await process.wait()
    return Finished(bytes(output), dropped, process.returncode if ended else None)


async def _feed(process: asyncio.subprocess.Process, input: bytes) -> None:
    """Writes ``input`` to the program. A program that ends before it has read all of it is not an error."""
    assert process.stdin is not None
    try:
        # If the program has already ended, uvloop raises ``RuntimeError`` for a closed pipe.
        with contextlib.suppress(ConnectionError, RuntimeError):
            process.stdin.write(input)
            await process.stdin.drain()
    finally:
        process.stdin.close()
