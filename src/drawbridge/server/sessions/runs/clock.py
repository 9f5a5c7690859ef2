"""Measures how much longer the agent may be silent, and how much longer the run may take. Pure. Times are in seconds on
the monotonic clock.
"""

from __future__ import annotations

from drawbridge.text.counts import counted


class RunClock:
    """Measures one run. Time in which a person is being asked does not count."""

    def __init__(self, idle: float, total: float | None, began: float) -> None:
        """``idle``: the maximum number of seconds without output. ``total``: the maximum duration of the run in seconds;
        None for no limit. ``began``: when the run began."""
        self._idle = idle
        self._total = total
        self._began = began
        self._silent_since = began
        self._asked_since: float | None = None
        self._asked_seconds = 0.0

    def prompted(self, now: float) -> None:
        """Restarts the limit for silence, because the agent has received the prompt."""
        self._silent_since = now

    def asking(self, now: float) -> None:
        """Suspends the limits, because a person is being asked. Has no effect if they are already suspended."""
        if self._asked_since is None:
            self._asked_since = now

    def answered(self, now: float) -> bool:
        """Resumes the limits, because no person is being asked any longer. Returns whether they were suspended."""
        if self._asked_since is None:
            return False
        self._asked_seconds += now - self._asked_since
        self._asked_since, self._silent_since = None, now
        return True

    def left(self, now: float, last_output: float) -> tuple[float, str] | None:
        """The number of seconds until the run has to be stopped (0 or less if it has to be stopped now), and the reason
        to give the user; None while a person is being asked. ``last_output``: when the agent last produced output."""
        if self._asked_since is not None:
            return None
        silent = self._idle - (now - max(last_output, self._silent_since))
        if self._total is not None:
            rest = self._total - (now - self._began - self._asked_seconds)
            if rest < silent:
                return rest, f"The run reached its limit of {counted(self._total, 'second')} and was stopped."
        return silent, f"The agent produced no output for {counted(self._idle, 'second')} and was stopped."
