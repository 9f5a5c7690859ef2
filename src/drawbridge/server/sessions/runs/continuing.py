"""Continues a run that was stopped by a limit of its agent's account once the limit resets, if the owner has enabled
this.

The plan is stored in the project's metadata, so that it outlives the server. It is canceled by a new prompt, by an
interrupt, by a change to another session, and when its session is deleted.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from typing import Final

import msgspec

from drawbridge.core.errors import DrawbridgeError
from drawbridge.server.events import RunFinished
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.recorded_state import CONTINUE
from drawbridge.server.sessions.runs.run import Order, Run

LIMITED: Final = "AGENT_RATE_LIMITED"

LONGEST_SECONDS: Final = 8 * 86_400.0
"""The longest delay, in seconds. The longest known limit resets after a week."""

TIMES = 5
"""The maximum number of times in a row that a run continues automatically."""

PAUSE_SECONDS = 60.0
"""The shortest delay before a run continues for the second time in a row, in seconds. Each further time adds the
same delay."""

AGAIN: Final = "Send a prompt to continue."

CHECK_SECONDS: Final = 60.0
"""The maximum number of seconds between two checks of the time, because the clock may be adjusted and the machine may
be suspended.
"""

REFUSED_SECONDS: Final = 600.0
"""Seconds until the next attempt after a refusal, for example because no disk space is left, a budget is used up, or no
run may begin at this hour."""

logger = logging.getLogger("drawbridge.server")


class Continuing:
    """The plan of one project. ``data``: the project's metadata. ``wanted``: whether the owner has enabled continuing.
    ``execute`` accepts a prompt, or raises ``ClientError`` or ``DrawbridgeError``. ``is_busy`` returns whether a run is
    active or waiting.
    """

    def __init__(
        self,
        data: metadata.Metadata,
        wanted: bool,
        execute: Callable[[Order], object],
        is_busy: Callable[[], bool],
    ) -> None:
        self._data = data
        self._wanted = wanted
        self._execute = execute
        self._is_busy = is_busy
        self._timer: asyncio.TimerHandle | None = None
        self._begun: str | None = None
        """The id of the last run that continued automatically. ``_times``: the number of such runs in a row."""
        self._times = 0

    @property
    def at(self) -> float | None:
        """The planned time, in seconds since 1970; None if no run waits to continue, or the owner no longer allows
        it."""
        waiting = self._data.waiting
        return waiting.at if waiting is not None and self._wanted else None

    def plan(self, run: Run, finished: RunFinished, retry_at: float | None) -> str:
        """Plans to continue the run if a limit has stopped it, and no other run is active or waiting. Once the run's
        end is recorded, ``check_schedule`` has to be called.

        Returns the reason why the run does not continue although the owner has enabled that, as sentences for the user,
        who would otherwise wait for it. Empty if it continues, or if the user has nothing to wait for."""
        self._times = self._times + 1 if run.id == self._begun else 0
        now = time.time()
        if not self._wanted or finished.code != LIMITED or retry_at is None or self._is_busy():
            return ""
        if run.order.unprompted:  # there is no prompt to send again
            return ""
        if self._times >= TIMES:
            logger.warning("%s: not resumed automatically: already resumed %d times in a row", self._data.id, TIMES)
            return f"The run was resumed automatically {TIMES} times in a row and will not be resumed again. {AGAIN}"
        if retry_at - now > LONGEST_SECONDS:
            days = LONGEST_SECONDS / 86_400
            text = "%s: not resumed automatically: the limit resets in more than %g days"
            logger.warning(text, self._data.id, days)
            return f"The run will not be resumed automatically: the limit resets in more than {days:g} days. {AGAIN}"
        order = run.order
        self._data.waiting = metadata.Waiting(
            at=max(retry_at, now + PAUSE_SECONDS * self._times),
            prompt=order.prompt.removeprefix(CONTINUE),
            by=order.by,
            agent=order.agent,
            options=order.options,
        )
        return ""

    def forget(self) -> bool:
        """Cancels the plan, because a prompt was accepted, or because a user interrupted the waiting run, chose another
        conversation, or deleted this one. Returns whether a run was waiting to continue.
        """
        waited = self._data.waiting is not None
        self._data.waiting = None
        self.close()
        return waited

    def check_schedule(self) -> None:
        """Continues the run if its time has come. Otherwise checks again later. Must be called on the event loop's
        thread. After a restart, the first check has to be started by calling this."""
        self.close()
        if self.at is None:
            return
        left = self.at - time.time()
        if left <= 0:
            self._continue()
        else:
            self._schedule_check(min(left, CHECK_SECONDS))

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule_check(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self.check_schedule)

    def _continue(self) -> None:
        waiting = self._data.waiting
        assert waiting is not None
        order = Order(
            run_id=f"run_{uuid.uuid4().hex[:16]}",
            prompt=CONTINUE + waiting.prompt,
            by=waiting.by,
            agent=waiting.agent,
            options=waiting.options,
        )
        try:
            self._execute(order)
        except (ClientError, DrawbridgeError) as error:
            logger.warning("%s: the run can't be resumed yet: %s", self._data.id, error)
            self._data.waiting = msgspec.structs.replace(waiting, at=time.time() + REFUSED_SECONDS)
            self._schedule_check(CHECK_SECONDS)
            return
        self._begun = order.run_id
