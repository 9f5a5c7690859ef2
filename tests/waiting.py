"""Waits for what happens beside the test: with a limit, and never for a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Seconds after which something that should have happened has not: a bound costs nothing when things work. Shorter ones are
in a test that asserts how short something takes, beside what it is compared with."""

TEST_PATIENCE = 300.0
"""Seconds for one test as a whole, with its fixtures; a test that needs more has the marker ``timeout``."""


async def until(condition: Callable[[], Any], what: str = "what was waited for") -> None:
    """Returns as soon as ``condition`` is true."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"{what} did not happen within {PATIENCE:g} s"
        await asyncio.sleep(0.002)
