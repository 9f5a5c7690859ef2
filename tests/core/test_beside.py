"""Blocking calls in parallel: results are in order, and no call extends the time limit."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from drawbridge.core import beside
from tests.waiting import PATIENCE


def test_results_are_in_the_order_of_the_items() -> None:
    both = threading.Barrier(2)

    def waits_for_the_other(item: int) -> int:
        both.wait(PATIENCE)
        return item * 2

    assert beside.each(waits_for_the_other, [1, 2], 30) == [2, 4]


def test_a_call_that_hangs_has_no_result() -> None:
    over = threading.Event()

    def hangs_for_zero(item: int) -> bool:
        return item > 0 or over.wait(PATIENCE)

    for seconds in (0.5, 5, 20):  # on a busy machine the other thread may begin late
        found = beside.each(hangs_for_zero, [0, 1], seconds)
        if found[1]:
            break
    assert found == [None, True]
    over.set()


def test_an_error_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        beside.each(lambda item: 1 // item, [0], 30)


def test_a_call_that_hangs_does_not_keep_the_process_running() -> None:
    code = "import threading; from drawbridge.core import beside; beside.each(threading.Event().wait, [None], 0.1)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
