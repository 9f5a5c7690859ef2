"""Metrics since the server started: the outcomes, the durations and the costs of runs. Pure."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from drawbridge.server.events import Announced, RunFinished
from drawbridge.server.protocol.replies import Runs

BOUNDS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)
"""The upper bounds of the buckets for the durations of runs, in seconds. One more bucket is for longer runs."""

LATEST: Final = 1_000
"""The number of latest runs, of a project or of all projects together, from which the median and the 95th percentile
are computed."""


class Metrics:
    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()
        """The number of runs by outcome."""
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.cost_usd = 0.0
        self._latest: deque[float] = deque(maxlen=LATEST)

    def run_ended(self, outcome: str, seconds: float, cost_usd: float | None) -> None:
        """Counts a run that has ended. ``seconds``: the time since its start; 0 if it never started."""
        self.runs[outcome] += 1
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds
        self.cost_usd += cost_usd or 0.0
        self._latest.append(seconds)

    def shown(self) -> Runs:
        return summary([self])


class RunMetrics:
    """The "metrics" receiver of the event bus: the metrics of each project, and of all projects together, since the
    server started."""

    def __init__(self) -> None:
        self.total = Metrics()
        self._of_projects: dict[str, Metrics] = {}

    def add(self, project_id: str) -> None:
        """Counts the runs of this project from now on. Runs of sessions that were not added, such as terminal sessions,
        are not counted."""
        self._of_projects[project_id] = Metrics()

    def remove(self, project_id: str) -> None:
        """Removes a project that was deleted. Its runs stay in the total."""
        self._of_projects.pop(project_id, None)

    def of(self, project_id: str) -> Metrics:
        return self._of_projects[project_id]

    def published(self, announced: Announced) -> None:
        event, of_project = announced.event, self._of_projects.get(announced.project_id or "")
        if of_project is None or not isinstance(event, RunFinished) or event.removed_by is not None:
            return
        for metrics in (of_project, self.total):
            metrics.run_ended(event.outcome, event.duration_ms / 1000, event.cost_usd)


def summary(several: Iterable[Metrics]) -> Runs:
    """The metrics of several projects together, for clients."""
    several = list(several)
    runs = sum((one.runs for one in several), Counter[str]())
    latest = sorted(seconds for one in several for seconds in one._latest)
    ended = runs.total()
    return Runs(
        ended=dict(runs),
        success_rate=round(runs["completed"] / ended, 4) if ended else None,
        median_seconds=round(statistics.median(latest), 3) if latest else None,
        p95_seconds=round(latest[math.ceil(0.95 * len(latest)) - 1], 3) if latest else None,
        cost_usd=round(sum(one.cost_usd for one in several), 6),
    )
