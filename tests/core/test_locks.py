"""Urgent callers get the lock before other waiting callers."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as some

from drawbridge.core.locks import UrgentLock
from tests.waiting import PATIENCE


async def held(lock: UrgentLock, name: str, order: list[str], *, urgent: bool = False) -> None:
    async with lock.held(urgent=urgent):
        order.append(name)
        await asyncio.sleep(0)
        order.append(name)


async def test_urgent_callers_are_next() -> None:
    lock, order = UrgentLock(), list[str]()
    names = ("first", "second", "urgent", "urgent too")
    await asyncio.gather(*(held(lock, name, order, urgent=name.startswith("urgent")) for name in names))
    assert order[::2] == order[1::2] == ["first", "urgent", "urgent too", "second"]


@given(some.lists(some.tuples(some.booleans(), some.booleans()), max_size=8), some.randoms())
def test_a_lock_has_one_holder_even_if_callers_give_up(waiting: list[tuple[bool, bool]], random: object) -> None:
    """``waiting``: for each caller, whether it is urgent and whether it gives up."""

    async def run() -> None:
        lock, order = UrgentLock(), list[str]()
        tasks = [
            asyncio.create_task(held(lock, str(number), order, urgent=urgent))
            for number, (urgent, _) in enumerate(waiting)
        ]
        gives_up = [task for task, (_, gives) in zip(tasks, waiting, strict=True) if gives]
        random.shuffle(gives_up)  # type: ignore[attr-defined]
        for task in gives_up:
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert all(not task.cancelled() for task, (_, gives) in zip(tasks, waiting, strict=True) if not gives)
        pairs = list(zip(order[::2], order[1::2], strict=False))
        assert all(one == other or str(one) in order for one, other in pairs)
        async with asyncio.timeout(PATIENCE), lock.held():  # passes only if the lock is free
            pass

    asyncio.run(run())
