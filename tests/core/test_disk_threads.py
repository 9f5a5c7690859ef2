"""Functions that may wait for a silent disk run in their own threads."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from drawbridge.core.disk_threads import DiskThreads, in_thread
from tests.waiting import PATIENCE


async def test_more_calls_than_threads_all_get_a_result() -> None:
    threads = DiskThreads(2)
    calls = [threads.run(partial(str, number), PATIENCE) for number in range(6)]
    assert await asyncio.gather(*calls) == ["0", "1", "2", "3", "4", "5"]


async def test_a_silent_disk_is_waited_for_only_briefly() -> None:
    """A call that finds no free thread waits as briefly. Once the disk responds, its thread is free again."""
    threads, responds = DiskThreads(1), threading.Event()
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await threads.run(partial(responds.wait, PATIENCE), 0.05)
    finally:
        responds.set()
    assert await threads.run(lambda: "read", PATIENCE) == "read"


async def test_silent_disks_occupy_no_thread_of_the_executor() -> None:
    responds = threading.Event()
    waiting = [in_thread(partial(responds.wait, PATIENCE)) for _ in range(50)]
    try:
        assert await asyncio.to_thread(str, 1) == "1"
    finally:
        responds.set()
    assert await asyncio.gather(*waiting) == [True] * 50


async def test_an_error_in_the_thread_is_raised() -> None:
    def fail() -> None:
        raise OSError("the disk reports an error")

    with pytest.raises(OSError, match="the disk reports"):
        await DiskThreads(1).run(fail, PATIENCE)
