"""Tests whose programs need several processors run one at a time, and not in parallel with a test that uses a browser."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests import turns
from tests.waiting import PATIENCE


class OtherTest:
    """A test in another process, here in a thread, that takes its turn until ``end`` is called."""

    def __init__(self, directory: Path, *, alone: bool) -> None:
        self.has_turn = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(directory, alone))
        self._thread.start()

    def _run(self, directory: Path, alone: bool) -> None:
        with turns.turn(directory, alone=alone):
            self.has_turn.set()
            self._is_over.wait(PATIENCE)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE)


def test_tests_with_a_browser_run_in_parallel(tmp_path: Path) -> None:
    first = OtherTest(tmp_path, alone=False)
    assert first.has_turn.wait(PATIENCE)
    second = OtherTest(tmp_path, alone=False)
    assert second.has_turn.wait(PATIENCE)
    first.end()
    second.end()


@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_a_test_that_runs_alone_shares_no_turn(tmp_path: Path, before: bool, after: bool) -> None:
    """``before``, ``after``: whether the first and the second test run alone."""
    first = OtherTest(tmp_path, alone=before)
    assert first.has_turn.wait(PATIENCE)
    second = OtherTest(tmp_path, alone=after)
    assert not second.has_turn.wait(0.05)
    first.end()
    assert second.has_turn.wait(PATIENCE)
    second.end()
