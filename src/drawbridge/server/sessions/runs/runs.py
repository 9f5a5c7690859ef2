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
        """Releases the slot, or withdraws the request. Has no effect if that was done before."""
        if not self._is_released:
            self._is_released = True
            self._runs.release(self)


class Runs:
    """The active runs. At most ``slots`` of them are executed at the same time. Slots are assigned in the order of the
    requests. A run that an agent has begun without a prompt is active without a slot."""

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
        """Gives the slot to the next request, or withdraws the slot's own request. Called by the slot, once."""
        if slot in self._waiting:
            self._waiting.remove(slot)
        elif self._waiting:
            self._waiting.popleft().begin()
        else:
            self._free += 1

    def add(self, owner: Stoppable) -> None:
        """Adds the owner of an active run."""
        self._active[owner.id] = owner

    def remove(self, owner: Stoppable) -> None:
        """Removes the owner of a run that is no longer active. Has no effect if the owner was not added."""
        self._active.pop(owner.id, None)

    def stop_all(self, error: ClientError) -> None:
        """Stops all active runs with this error."""
        for owner in list(self._active.values()):
            owner.stop(error)
