"""Tracks what Claude Code has scheduled for itself: wake-ups and jobs, which make its process begin turns without a
prompt. Pure.

Nothing in the stream announces them, so they are read from the tool calls and their results (measured with 2.1.329).
The end of a job is not reported either, so a job counts as ended once its last time has passed.

A process that resumes a conversation also resumes its jobs, again without announcing them. Wake-ups end with their
process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import Output, ScheduleChanged
from drawbridge.agents.reported import MOST, decoded, name_of

WAKE_UP, CREATE, DELETE = "ScheduleWakeup", "CronCreate", "CronDelete"

SCHEDULING: Final = (WAKE_UP.encode(), CREATE.encode(), DELETE.encode())
"""A line of type ``assistant`` is decoded to look for calls only if it contains one of these names of tools."""

CALL_ID: Final = rb"[A-Za-z0-9_-]{1,200}"
"""Matches the id of a tool call. The CLI's ids are ``toolu_`` followed by 24 letters and digits."""

ANSWERED: Final = re.compile(rb'"tool_use_id"\s*:\s*"(' + CALL_ID + rb')"')

RECURS_SECONDS: Final = 7 * 86_400.0
"""The number of seconds between the first and the last time that a recurring job runs."""

LATEST: Final = 32_503_680_000.0
"""The year 3000, the latest plausible time, in seconds since 1970."""


class _Block(Struct):
    type: Any = None
    id: Any = None
    tool_use_id: Any = None
    name: Any = None
    is_error: Any = None


class _Message(Struct):
    content: Raw = Raw(b"[]")


class _Line(Struct):
    message: _Message
    tool_use_result: Any = None
    recorded_result: Any = msgspec.field(name="toolUseResult", default=None)
    """The same as ``tool_use_result``, under the name that it has in the conversation's file."""

    @property
    def result(self) -> Any:
        return self.recorded_result if self.tool_use_result is None else self.tool_use_result


class Schedule:
    """The schedule of one process. ``jobs``: the jobs that the conversation had before, as ``jobs_in`` returns them."""

    def __init__(self, jobs: Mapping[str, float] | None = None) -> None:
        self._calls: dict[str, str] = {}
        """Maps the id of each call that has no result yet to its tool. Only the latest calls are kept."""
        self._wake_up: float | None = None
        """The time of the wake-up, in seconds since 1970; None if none is scheduled. A new one replaces the previous
        one."""
        self._jobs = dict(jobs or {})
        """Maps the id of a job to the last time at which it begins a turn, which may have passed. Only the jobs with
        the latest times are kept."""

        self._is_reported = not jobs

    @property
    def until(self) -> float | None:
        """The time of the last turn that is known to be scheduled, in seconds since 1970. It may have passed. None if
        no turn is scheduled."""
        times = [*self._jobs.values(), *([] if self._wake_up is None else [self._wake_up])]
        return max(times, default=None)

    def begun(self) -> list[Output]:
        """Handles the beginning of a turn. The first call reports the jobs that the conversation had before, if any."""
        found: list[Output] = [] if self._is_reported else [ScheduleChanged(self.until)]
        self._is_reported = True
        return found

    def called(self, data: bytes) -> None:
        """Reads a line of type ``assistant``."""
        for block in _blocks(decoded(data, _Line)):
            if block.type == "tool_use" and block.name in (WAKE_UP, CREATE, DELETE) and _is_call_id(block.id):
                self._calls[block.id] = block.name
                if len(self._calls) > MOST:
                    del self._calls[next(iter(self._calls))]

    def answered(self, data: bytes) -> list[Output]:
        """Reads a line of type ``user``, which may contain the result of a call. Returns the change to ``until``, if
        any."""
        # A call may never get a result. While one waits, the results of other calls, which can be large, must not be
        # decoded.
        if not self._calls or not any(id.decode() in self._calls for id in ANSWERED.findall(data)):
            return []
        line = decoded(data, _Line)
        before = self.until
        for block in _blocks(line):
            tool = self._calls.pop(block.tool_use_id, None) if isinstance(block.tool_use_id, str) else None
            result = line.result if line is not None else None
            if tool is not None and block.is_error is not True and isinstance(result, dict):
                self._changed(tool, result)
        return [] if self.until == before else [ScheduleChanged(self.until)]

    def ended(self) -> list[Output]:
        """Handles the end of the process, which also ends its schedule."""
        if self.until is None:
            return []
        self._wake_up = None
        self._jobs.clear()
        return [ScheduleChanged(None)]

    def _changed(self, tool: str, result: dict[str, Any]) -> None:
        id = name_of(result.get("id"))
        if tool == WAKE_UP:
            self._wake_up = _time(result.get("scheduledFor"))  # 0 once the agent has canceled it
        elif id is not None and tool == DELETE:
            self._jobs.pop(id, None)
        elif id is not None and tool == CREATE:
            first = _time(result.get("nextFireAt"))
            if first is not None:
                self._jobs[id] = first + RECURS_SECONDS if result.get("recurring") is True else first
            if len(self._jobs) > MOST:  # drops the job with the earliest time, which has passed or matters least
                del self._jobs[min(self._jobs, key=self._jobs.__getitem__)]


def jobs_in(lines: Iterable[bytes], now: float) -> dict[str, float]:
    """The jobs that a conversation still has, according to the lines of its file, by id. The value is the last time at
    which the job begins a turn, in seconds since 1970. Only jobs with a last time after ``now`` are included."""
    found = Schedule()
    for line in lines:
        if any(tool in line for tool in SCHEDULING):
            found.called(line)
        found.answered(line)
    return {id: last for id, last in found._jobs.items() if last > now}


def _is_call_id(id: Any) -> bool:
    return isinstance(id, str) and re.fullmatch(CALL_ID, id.encode("utf-8", "replace")) is not None


def _blocks(line: _Line | None) -> list[_Block]:
    return (decoded(line.message.content, list[_Block]) or []) if line is not None else []


def _time(milliseconds: Any) -> float | None:
    """The time in seconds since 1970; None if ``milliseconds`` is not a plausible time."""
    is_time = isinstance(milliseconds, int | float) and 0 < milliseconds < 1000 * LATEST
    return milliseconds / 1000 if is_time else None
