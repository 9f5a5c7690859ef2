"""Only one decision at a time writes into a directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.server.reviews.writing import Writing

PLACE = Path("/code/site")


@pytest.mark.parametrize("other", ["/code/site", "/code/site/pages", "/code", "/"])
async def test_overlapping_directories_take_turns(other: str) -> None:
    writing, events = Writing(), list[str]()

    async def second() -> None:
        async with writing.at(Path(other)):
            events.append("second")

    async with writing.at(PLACE):
        task = asyncio.create_task(second())
        waiting = asyncio.create_task(writing.settled(Path(other)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not waiting.done()
        events.append("first")
    await asyncio.gather(task, waiting)
    assert events == ["first", "second"]


async def test_other_directories_do_not_wait() -> None:
    writing = Writing()
    async with writing.at(PLACE), writing.at(Path("/code/site2")):
        await writing.settled(Path("/code/other"))


async def test_a_failure_frees_the_directory() -> None:
    writing = Writing()
    with pytest.raises(OSError, match="full"):
        async with writing.at(PLACE):
            raise OSError("full")
    async with writing.at(PLACE):
        pass
