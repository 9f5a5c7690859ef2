"""The surfaces on which sessions appear and users decide."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from drawbridge.server.approvals.editors import Editors
from drawbridge.server.checkpoints.unsaved import FindUnsaved
from drawbridge.server.events import Announced
from drawbridge.server.sessions.audience import Audience


class Surfaces(Struct, frozen=True):
    """The surfaces of all sessions of one server. ``publish`` passes an event to its receivers. ``audience``: the
    clients that have joined a session or follow a topic. ``find_unsaved`` finds files with unsaved changes in
    editors."""

    publish: Callable[[Announced], None]
    audience: Audience
    editors: Editors
    find_unsaved: FindUnsaved
