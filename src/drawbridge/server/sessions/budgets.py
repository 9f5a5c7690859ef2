"""The budgets of projects and days, and what runs have cost. Pure. In US dollars, as far as agents report them.

A project's budget is for all its runs, a day's for all projects'; a day begins at local midnight. What a run costs is
known when it ends (Claude Code 2.1.329 does not report it sooner), so each begins with what is left as its own budget:
runs at the same time can each spend that amount, but not more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from drawbridge.server.protocol.client_errors import ClientError

LEAST: Final = 0.01
"""A run is not started with less than this."""

DAYS_KEPT: Final = 3
"""A clock that is set back, or a journey west, must not grant a day's budget twice."""


class Budgets:
    """``project``, ``day``: None for no limit. Spending is counted by directory: a project that is deleted and created
    again does not get a new budget."""

    def __init__(self, project: float | None = None, day: float | None = None) -> None:
        self._project = project
        self._day = day
        self._of_projects: defaultdict[str, float] = defaultdict(float)
        self._of_days: defaultdict[str, float] = defaultdict(float)

    def spent_before(self, directory: str, total: float, days: Mapping[str, float]) -> None:
        """Adds the costs in one project's records, after a start."""
        self._of_projects[directory] += total
        for day, amount in days.items():
            self._of_days[day] += amount

    def spend(self, directory: str, amount: float, now: datetime) -> None:
        self._of_projects[directory] += amount
        self._of_days[day_of(now)] += amount
        forget_old(self._of_days)

    def left(self, directory: str, now: datetime) -> float | None:
        """What a run of this project may still cost; None for no limit. Raises ``ClientError`` (BUDGET_EXCEEDED)."""
        left = None
        for name, limit, spent in (
            ("project", self._project, self._of_projects.get(directory, 0.0)),
            ("day", self._day, self._of_days.get(day_of(now), 0.0)),
        ):
            if limit is None:
                continue
            if limit - spent < LEAST:
                raise _exceeded(name, limit, spent)
            left = limit - spent if left is None else min(left, limit - spent)
        return left

    def today(self, now: datetime) -> float:
        return self._of_days.get(day_of(now), 0.0)


def day_of(moment: datetime) -> str:
    """The local date, such as "2026-11-21"."""
    return moment.astimezone().date().isoformat()


def forget_old(days: dict[str, float]) -> None:
    """Removes all days but the latest."""
    for day in sorted(days)[:-DAYS_KEPT]:
        del days[day]


def _exceeded(name: str, limit: float, spent: float) -> ClientError:
    whose = "this project" if name == "project" else "today"
    again = "" if name == "project" else " Agents run again after midnight, by the server's clock."
    return ClientError(
        "BUDGET_EXCEEDED",
        f"The owner's budget for {whose}, ${limit:g}, is used up. Nothing was started.{again}",
        details={"budget": name, "limit_usd": limit, "spent_usd": round(spent, 6)},
    )
