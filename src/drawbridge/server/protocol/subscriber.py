"""What the core says to clients: one frame for however many there are. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Frame(Struct, frozen=True):
    """One message for many clients: the bytes that go onto the wire.

    ``ephemeral``: of no use later (partial text, statistics), so the first to go where a client is slow. ``seq``: its
    number in the history of its project, where it has one.
    """

    data: bytes
    ephemeral: bool = False
    project_id: str | None = None
    seq: int | None = None


class Subscriber(Protocol):
    """A connected client, as the core sees it."""

    id: str
    """Unique among the connections of this server's life."""

    name: str
    """Who decided, for the others and for the history: a device's name, or an address."""

    @property
    def decides(self) -> bool:
        """Whether it may answer questions of agents."""
        ...

    def sees(self, path: Path) -> bool:
        """Whether a project in this directory is any of its business."""
        ...

    def send(self, frame: Frame) -> None:
        """Queue a frame; never waits, never raises. Frames arrive in the order of the calls."""
        ...

    async def room(self) -> None:
        """Returns once what was sent has mostly left, or the client is gone: between the pages of a long history."""
        ...
