"""When a run has to be stopped because it was silent, or active, for too long."""

from __future__ import annotations

import pytest

from drawbridge.server.sessions.runs.clock import RunClock

SILENT = "The agent produced no output for 60 seconds and was stopped."
TOO_LONG = "The run reached its limit of 100 seconds and was stopped."


def begun(total: float | None = None) -> RunClock:
    """The clock of a run that began at 1,000 seconds, whose agent got the prompt 5 seconds later."""
    clock = RunClock(60.0, total, began=1_000.0)
    clock.prompted(1_005.0)
    return clock


@pytest.mark.parametrize(
    ("now", "last_output", "left"),
    [
        (1_005.0, 0.0, 60.0),
        (1_065.0, 0.0, 0.0),
        (1_065.0, 900.0, 0.0),
        (1_065.0, 1_050.0, 45.0),
        (1_200.0, 1_050.0, -90.0),
    ],
)
def test_silence_counts_from_the_prompt_or_the_last_output(now: float, last_output: float, left: float) -> None:
    assert begun().left(now, last_output) == (left, SILENT)


def test_the_limit_that_is_reached_first_counts() -> None:
    clock = begun(total=100.0)
    assert clock.left(1_010.0, 1_010.0) == (60.0, SILENT)
    assert clock.left(1_060.0, 1_060.0) == (40.0, TOO_LONG), "it counts from the beginning of the run"


def test_time_spent_waiting_for_a_user_does_not_count() -> None:
    clock = begun(total=100.0)
    clock.asking(1_010.0)
    clock.asking(1_500.0)
    assert clock.left(9_000.0, 1_010.0) is None
    assert clock.answered(2_010.0)
    assert clock.left(2_010.0, 1_010.0) == (60.0, SILENT), "the agent's silence counts from the answer"
    assert clock.left(2_060.0, 2_060.0) == (40.0, TOO_LONG)


def test_an_answer_without_a_question_changes_nothing() -> None:
    clock = begun()
    assert not clock.answered(1_050.0)
    assert clock.left(1_065.0, 0.0) == (0.0, SILENT)
