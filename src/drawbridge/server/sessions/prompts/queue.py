"""The accepted prompts of a session that wait for their runs, also as clients see them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from drawbridge.server.events import QueueChanged, RunInfo
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.metadata import instant
from drawbridge.server.sessions.runs.run import Run
from drawbridge.server.sessions.session import SHOWN_PROMPT


class PromptQueue:
    """The queue of a session's runs. Iterates over them, the next one first."""

    def __init__(self, announce: Callable[[QueueChanged], None]) -> None:
        """``announce`` sends the queue to the session's clients."""
        self._announce = announce
        self._runs: list[Run] = []
        self._published: tuple[RunInfo, ...] = ()
        """The queue as clients last received it."""

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs))

    def __len__(self) -> int:
        return len(self._runs)

    def shown(self, *, behind_a_run: bool) -> list[RunInfo]:
        """The queue as clients see it. ``behind_a_run``: whether a run is active, which the queue follows."""
        return [run_info(run, position) for position, run in enumerate(self._runs, int(behind_a_run))]

    def publish(self, *, behind_a_run: bool) -> None:
        """Sends the queue to the clients, if it has changed since they last received it."""
        shown = tuple(self.shown(behind_a_run=behind_a_run))
        if shown != self._published:
            self._published = shown
            self._announce(QueueChanged(shown))

    def find(self, run_id: str) -> Run:
        """The run with this id. Raises ``ClientError`` (PROMPT_NOT_QUEUED) if it is not in the queue."""
        for run in self._runs:
            if run.id == run_id:
                return run
        text = "This prompt is not in the queue: its run has begun or ended, or it was removed."
        raise ClientError("PROMPT_NOT_QUEUED", text, field="data.run_id")

    def position(self, run_id: str, *, behind_a_run: bool) -> int:
        """The run's position as clients see it; 0 if the run is not in the queue."""
        ids = [run.id for run in self._runs]
        return ids.index(run_id) + int(behind_a_run) if run_id in ids else 0

    def add(self, run: Run, *, first: bool = False) -> None:
        self._runs.insert(0 if first else len(self._runs), run)

    def pop(self) -> Run:
        """Removes and returns the next run."""
        return self._runs.pop(0)

    def remove(self, run: Run) -> None:
        self._runs.remove(run)

    def move(self, run: Run, before: Run | None) -> None:
        """Moves a run. ``before``: the run that follows it afterwards, or None to make it the last one."""
        if run is before:
            return
        self._runs.remove(run)
        self._runs.insert(len(self._runs) if before is None else self._runs.index(before), run)

    def edit(self, run: Run, prompt: str, seq: int) -> None:
        """Gives the run another prompt, which is in the record ``seq``. Its options and attachments stay."""
        edited = Run(msgspec.structs.replace(run.order, prompt=prompt), seq)
        self._runs[self._runs.index(run)] = edited

    def choose(self, agent: str, chosen: Mapping[str, str]) -> None:
        """Changes options of the runs for which this agent, or no agent, was chosen. Options that were chosen for one
        prompt alone stay."""
        for index, run in enumerate(self._runs):
            order = run.order
            given = {name: value for name, value in chosen.items() if name not in order.wishes}
            if given and order.options is not None and order.agent in (None, agent):
                options = msgspec.structs.replace(order.options, **given)
                self._runs[index] = Run(msgspec.structs.replace(order, options=options), run.seq)

    def clear(self) -> list[Run]:
        """Removes and returns all runs."""
        runs, self._runs = self._runs, []
        return runs


def run_info(run: Run, position: int) -> RunInfo:
    """The run as clients see it. ``position``: 0 for the active run, and for the next one if no run is active."""
    order = run.order
    began = datetime.now(UTC) - timedelta(seconds=time.monotonic() - run.started_at) if run.started_at else None
    return RunInfo(
        run_id=order.run_id,
        position=position,
        prompt=order.prompt[:SHOWN_PROMPT],
        started_at=instant(began),
        request_id=order.request_id,
        cut=len(order.prompt) > SHOWN_PROMPT,
        by=order.by,
        client_id=order.client_id,
        attachments=len(order.attachments),
        seq=run.seq,
    )
