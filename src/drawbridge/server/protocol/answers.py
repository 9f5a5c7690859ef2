"""The answers to commands. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Answer(Struct, Generic[T], frozen=True, kw_only=True):
    """The reply to a command, before it has its ``request_id``. ``update_type``: set only if ``type`` is "update".

    ``seq``: the number of the reply's record in the project's history, if it has one.

    ``then``: does what follows from the command, such as starting an accepted run. It is called exactly once, after the
    reply was sent, so that the client gets its reply before the events that follow. It is also called if no reply can
    be sent, for example because the client has disconnected, since the command was carried out.
    """

    type: str
    data: T
    update_type: str | None = None
    project_id: str | None = None
    seq: int | None = None
    then: Callable[[], None] | None = None


def updated(update_type: str, data: T, project_id: str | None = None, seq: int | None = None) -> Answer[T]:
    """An ``update`` as the reply to a command."""
    return Answer(type="update", update_type=update_type, data=data, project_id=project_id, seq=seq)
