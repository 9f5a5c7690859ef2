"""The server continues to watch the agents' memory after an internal error."""

from __future__ import annotations

import os
from collections.abc import Collection

import pytest

from drawbridge.agents import memory
from tests.waiting import until


async def test_a_failing_check_is_logged_and_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = 0

    def fails_once(agents: Collection[int]) -> dict[int, int]:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("odd")
        return {}

    monkeypatch.setattr(memory, "resident", fails_once)
    watch = memory.MemoryWatch(memory.MB, every=0.001)
    with watch.watching(os.getpid()):
        await until(lambda: looks > 1)
    assert [record.getMessage() for record in caplog.records] == ["measuring the memory of agents failed"]
