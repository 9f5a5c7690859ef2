"""The shell of a git operation ends with the operation. Its limits and its confinement are tested in
``test_git_program.py`` and ``test_confined.py``."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.checkpoints import shell
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from tests.waiting import PATIENCE, until


async def test_an_operation_canceled_at_its_start_leaves_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell starts only after the operation was canceled. Its processes end without it."""
    checkpoints = Checkpoints(project, "proj_1")
    start, begun, may_start = shell._start, threading.Event(), threading.Event()
    started: list[subprocess.Popen[bytes]] = []

    def slow(*given: Any) -> subprocess.Popen[bytes]:
        begun.set()
        assert may_start.wait(PATIENCE)
        started.append(start(*given))
        return started[0]

    async def operate() -> None:
        async with checkpoints.operations.exclusive():
            raise AssertionError("the operation was canceled")

    monkeypatch.setattr(shell, "_start", slow)
    operation = asyncio.create_task(operate())
    await until(begun.is_set, "the start of the shell")
    operation.cancel()
    may_start.set()
    with contextlib.suppress(asyncio.CancelledError):
        await operation
    await checkpoints.close()
    assert started[0].returncode is not None
