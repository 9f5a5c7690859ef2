"""Lets tests whose programs need a whole processor (a browser, VS Code, or two agents at once) run only one at a time.

If two such tests ran in parallel on two processors, the programs would answer too slowly, and the tests would fail.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

CROWDING = frozenset({"browser", "vscode"})
"""Fixtures whose tests take turns, like tests with the ``turns`` marker."""


def takes_turns(node: pytest.Item) -> bool:
    names = getattr(node, "fixturenames", ())
    return not CROWDING.isdisjoint(names) or node.get_closest_marker("turns") is not None


@contextlib.contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Waits until no other process that uses ``directory`` has a turn, and takes the turn until the context exits.

    A process that is already waiting goes first. Otherwise, its test could time out while this process runs many such
    tests.
    """
    with (directory / "turn.lock").open("w") as held:
        with (directory / "next.lock").open("w") as waiting:
            fcntl.flock(waiting, fcntl.LOCK_EX)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
