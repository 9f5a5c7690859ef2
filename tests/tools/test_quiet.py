"""``make quiet`` reports other programs that keep the processors busy, and waits for them for a limited time."""

from __future__ import annotations

import os
import threading

import pytest

import flaky
import quiet

pytestmark = pytest.mark.skipif(not quiet.PROC.exists(), reason="there is no /proc here")


@pytest.fixture(autouse=True)
def any_use_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the slightest use of a processor count, because a test's busy process shares the processors with other
    tests."""
    monkeypatch.setattr(quiet, "BUSY", 0.01)


def test_a_busy_program_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with flaky.busy(1) as (process,):
        busy = quiet.wait(patience=0.0, sample=1.0)
    assert [line for line in busy if line.startswith(f"{process.pid} ")]
    assert "continuing alongside other programs" in capsys.readouterr().err


def test_it_waits_for_a_program_that_ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with flaky.busy(1) as (process,):
        seen = threading.Event()
        look = quiet.others

        def others(sample: float) -> list[str]:
            found = [line for line in look(sample) if line.startswith(f"{process.pid} ")]
            if seen.is_set():
                process.kill()
            seen.set()
            return found

        monkeypatch.setattr(quiet, "others", others)
        assert quiet.wait(sample=1.0) == []
    assert capsys.readouterr().err.count(str(process.pid)) == 1, "reported once"


def test_this_process_and_its_parent_do_not_count() -> None:
    assert {os.getpid(), os.getppid()} <= quiet._own()
