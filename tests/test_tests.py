"""Rules for the tests themselves: their names are short, and their time limits leave a busy machine enough time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

TESTS = Path(__file__).resolve().parent
LONGEST_NAME = 60

MOMENT = 0.5
"""The longest time, in seconds, for which a test waits to see that nothing happens."""


def sources() -> Iterator[tuple[str, str]]:
    """Yields the path and the text of each file of the tests."""
    for file in sorted(TESTS.rglob("*.py")):
        yield str(file.relative_to(TESTS)), file.read_text()


def limits(source: str) -> list[float]:
    """Returns the limits of ``asyncio.timeout`` and ``asyncio.wait_for`` that are written as numbers."""
    if not re.search(r"asyncio\.(timeout|wait_for)\(", source):
        return []
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name("asyncio"), attr="timeout" | "wait_for"),
                args=[*_, ast.Constant(int() | float() as seconds)],
            ):
                found.append(float(seconds))
    return found


def test_the_names_of_tests_are_short() -> None:
    names = (
        (file, name) for file, source in sources() for name in re.findall(r"^ *(?:async )?def (test_\w+)", source, re.M)
    )
    assert [(file, name) for file, name in names if len(name) > LONGEST_NAME] == []


def test_time_limits_are_generous() -> None:
    """A limit is ``PATIENCE`` or longer, unless the test waits for a moment to see that nothing happens."""
    found = [(file, seconds) for file, source in sources() for seconds in limits(source)]
    assert [(file, seconds) for file, seconds in found if MOMENT < seconds < PATIENCE] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("asyncio.timeout(5)", [5]),
        ("asyncio.wait_for(task, 0.3)", [0.3]),
        ("asyncio.timeout(PATIENCE)", []),
        ("wait_for('five', 5)", []),
    ],
)
def test_time_limits_are_found(code: str, found: list[float]) -> None:
    assert limits(code) == found
