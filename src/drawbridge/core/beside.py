"""Runs blocking calls in parallel, for a limited time, even if they hang."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def each(function: Callable[[Item], Result], items: Sequence[Item], seconds: float) -> list[Result | None]:
    """Calls ``function`` for each item in a separate thread. Returns the results in the order of the items; None for a
    call that takes longer than ``seconds``. The thread of such a call keeps running, but does not keep the process from
    exiting. With a ``ThreadPoolExecutor``, it would. Raises the first exception that a call raises in this time."""
    done: SimpleQueue[tuple[int, Result | None, Exception | None]] = SimpleQueue()

    def call(number: int, item: Item) -> None:
        try:
            done.put((number, function(item), None))
        except Exception as error:
            done.put((number, None, error))

    for number, item in enumerate(items):
        threading.Thread(target=call, args=(number, item), daemon=True).start()
    results: list[Result | None] = [None] * len(items)
    until = time.monotonic() + seconds
    for _ in items:
        try:
            number, result, error = done.get(timeout=max(0, until - time.monotonic()))
        except Empty:
            break
        if error is not None:
            raise error
        results[number] = result
    return results
