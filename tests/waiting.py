"""Waits for a condition with a time limit, instead of sleeping for a fixed time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""The time limit for anything a test waits for, in seconds. It costs nothing when the test passes. Tests that measure how
long something takes have their own, shorter limits."""

TEST_PATIENCE = 300.0
"""The time limit for one test with its fixtures, in seconds. A test that needs more has a ``timeout`` marker."""


async def until(condition: Callable[[], Any], what: str = "what was waited for") -> None:
    """Returns as soon as ``condition`` is true. Fails with a message about ``what`` after ``PATIENCE`` seconds."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while not condition():
        assert asyncio.get_running_loop().time() < end, f"{what} did not happen within {PATIENCE:g} s"
        await asyncio.sleep(0.002)
