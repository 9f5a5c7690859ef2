"""The active runs of all managed sessions, and the slots in which they are executed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from drawbridge.server.protocol.client_errors import ClientError


class Stoppable(Protocol):
    """The owner of an active run."""

    id: str

    def stop(self, error: ClientError) -> None:
        """Stops the active run with this error."""
        ...


class Slot:
    """A request for a slot, and then the slot itself, until it is released."""

    def __init__(self, runs: Runs, begin: Callable[[], None]) -> None:
        """``begin`` is called once the slot is free."""
        self.begin = begin
        self._runs = runs
        self._is_released = False

    def release(self) -> None:
        """Gives the slot back, or withdraws the request. Has no effect if that was done before."""
        if not self._is_released:
            self._is_released = True
            self._runs.release(self)


class Runs:
    """At most ``slots`` runs are executed at the same time; slots are assigned in the order of the requests. A run that
    an agent has begun without a prompt is active without a slot."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: deque[Slot] = deque()
        self._active: dict[str, Stoppable] = {}

    def request(self, slot: Slot) -> None:
        """Calls ``slot.begin`` once a slot is free, which may be immediately."""
        if self._free:
            self._free -= 1
            slot.begin()
        else:
            self._waiting.append(slot)

    def release(self, slot: Slot) -> None:
        """Called by the slot, once."""
        if slot in self._waiting:
            self._waiting.remove(slot)
        elif self._waiting:
            self._waiting.popleft().begin()
        else:
            self._free += 1

    def add(self, owner: Stoppable) -> None:
        """Notes that a run of this owner is active."""
        self._active[owner.id] = owner

    def remove(self, owner: Stoppable) -> None:
        """Notes that the owner no longer has an active run. Has no effect if it had none."""
        self._active.pop(owner.id, None)

    def stop_all(self, error: ClientError) -> None:
        """Stops all active runs with this error."""
        for owner in list(self._active.values()):
            owner.stop(error)
