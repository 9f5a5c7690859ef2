"""Frames from the core to clients: one frame for any number of clients. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Frame(Struct, frozen=True):
    """One message for many clients, as it is sent.

    ``ephemeral``: of no use later (partial text, statistics), so the first to be dropped if a client is slow. ``seq``: its
    number in the history of its project, where it has one.
    """

    data: bytes
    ephemeral: bool = False
    project_id: str | None = None
    seq: int | None = None


class Subscriber(Protocol):
    """A connected client, as the core sees it."""

    id: str
    """Unique among the connections of one server process."""

    name: str
    """The client's name, for other clients and the history: a device's name, or an address."""

    @property
    def decides(self) -> bool:
        """Whether it may decide about approvals."""
        ...

    def sees(self, path: Path) -> bool:
        """Whether it may see a project in this directory."""
        ...

    def send(self, frame: Frame) -> None:
        """Queue a frame; never waits, never raises. Frames arrive in the order of the calls."""
        ...

    async def room(self) -> None:
        """Returns once most of what was queued is sent, or the client is gone. Used between the pages of a long history."""
        ...
