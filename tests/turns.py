"""Lets tests whose programs need several processors (VS Code, or two agents at once) run only one at a time, and not in
parallel with a test that uses a browser.

If such tests ran in parallel on two processors, the programs would answer too slowly, and the tests would fail. A test
with a browser keeps one processor busy half of the time, so tests with a browser may run in parallel.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest


def takes_turns(node: pytest.Item) -> bool:
    return runs_alone(node) or "browser" in _fixtures(node)


def runs_alone(node: pytest.Item) -> bool:
    """Whether no other test that takes turns may run at the same time."""
    return "vscode" in _fixtures(node) or node.get_closest_marker("turns") is not None


def _fixtures(node: pytest.Item) -> Collection[str]:
    names: Collection[str] = getattr(node, "fixturenames", ())
    return names


@contextlib.contextmanager
def turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """Takes a turn among the processes that use ``directory``, until the context exits. First waits until no other
    process has a turn or, if ``alone`` is false, until none has a turn alone.

    A process that is already waiting goes first. Otherwise, its test could time out while this process runs many such
    tests.
    """
    with (directory / "turn.lock").open("w") as held:
        with (directory / "next.lock").open("w") as waiting:
            fcntl.flock(waiting, fcntl.LOCK_EX)
            fcntl.flock(held, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
