"""One test at a time with programs that take a whole processor for themselves: a browser, a VS Code, two agents at once.

Beside another of their kind on two processors, each answers so late that its test measures the machine.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

CROWDING = frozenset({"browser", "vscode"})
"""Fixtures whose tests take turns, as those with the marker ``turns`` do."""


def takes_turns(node: pytest.Item) -> bool:
    names = getattr(node, "fixturenames", ())
    return not CROWDING.isdisjoint(names) or node.get_closest_marker("turns") is not None


@contextlib.contextmanager
def turn(directory: Path) -> Iterator[None]:
    """Waits until no other process that was given the same ``directory`` has its turn. Who has waited is the next one: a
    process with many such tests must not keep another one waiting until its test fails for that."""
    with (directory / "turn.lock").open("w") as held:
        with (directory / "next.lock").open("w") as waiting:
            fcntl.flock(waiting, fcntl.LOCK_EX)
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
