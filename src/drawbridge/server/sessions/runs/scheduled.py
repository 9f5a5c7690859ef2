"""The turns that an agent has scheduled, and the time for which its process is needed for them. Pure.

All times are in seconds since 1970.
"""

from __future__ import annotations

LATE_SECONDS = 60.0
"""The maximum delay of a scheduled turn, in seconds, because a machine that was suspended needs a moment."""


class Scheduled:
    """What is known about the schedule of one process."""

    def __init__(self) -> None:
        self._last: float | None = None
        """The time of the last turn that the agent has scheduled; None if it has scheduled nothing, or if all scheduled
        turns have begun."""
        self._delayed_to: float | None = None
        """The end of the run that was active at the time ``_last``, because the turn can't begin before the run ends.
        None if no run was active."""

    @property
    def until(self) -> float | None:
        """The earliest time at which the last scheduled turn can begin, which may have passed; None if nothing is
        scheduled."""
        return self._last if self._delayed_to is None else self._delayed_to

    def seconds_left(self, now: float) -> float | None:
        """The number of seconds for which the process is still needed: 0 or less if it is no longer needed, None if
        nothing is scheduled.
        """
        return None if self.until is None else self.until + LATE_SECONDS - now

    def changed(self, until: float | None) -> None:
        """Sets the schedule. ``until``: the time of the last scheduled turn; None if nothing is scheduled."""
        self._last, self._delayed_to = until, None

    def run_ended(self, began: float, now: float) -> None:
        """Updates the schedule after a run. If the last turn was scheduled for a time before the run, it has already
        begun. If it was scheduled for a time during the run, it can begin only now."""
        if self._last is None or self._last > now:
            return
        if self._last < began:
            self.changed(None)
        else:
            self._delayed_to = now
