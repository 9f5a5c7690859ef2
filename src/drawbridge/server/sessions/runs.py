"""The active runs of all managed sessions, and the slots in which they are executed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from drawbridge.server.protocol.client_errors import ClientError


class Stoppable(Protocol):
    """A session with an active run."""

    id: str

    def stop_for(self, error: ClientError) -> None:
        """Stops the active run with this error."""
        ...


class Runs:
    """At most ``slots`` runs are executed at the same time; slots are assigned in the order of the requests. A run that
    an agent has begun without a prompt is active without a slot."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: deque[Callable[[], None]] = deque()
        self._active: dict[str, Stoppable] = {}

    def take_slot(self, go: Callable[[], None]) -> Callable[[], None]:
        """Calls ``go`` once a slot is free (now or later). Returns a function that withdraws the request; it does
        nothing once ``go`` has been called."""
        if self._free:
            self._free -= 1
            go()
            return lambda: None
        self._waiting.append(go)
        return lambda: self._waiting.remove(go) if go in self._waiting else None

    def give_slot_back(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1

    def begun(self, session: Stoppable) -> None:
        """Notes that a run of the session is active."""
        self._active[session.id] = session

    def ended(self, session: Stoppable) -> None:
        """Notes that the session no longer has an active run. Has no effect if it had none."""
        self._active.pop(session.id, None)

    def stop_all(self, error: ClientError) -> None:
        """Stops all active runs with this error."""
        for session in list(self._active.values()):
            session.stop_for(error)
