"""What all sessions of one server have in common: where their events go, and the editors that they ask."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from drawbridge.server.approvals.editors import Editors
from drawbridge.server.checkpoints.unsaved import FindUnsaved
from drawbridge.server.events import Announced
from drawbridge.server.sessions.audience import Audience


class SessionContext(Struct, frozen=True):
    """``publish`` passes an event to its receivers. ``audience``: the clients that have joined a session or follow a
    topic. ``editors``: the connected editors, which show proposals. ``find_unsaved`` finds files with unsaved changes
    in editors."""

    publish: Callable[[Announced], None]
    audience: Audience
    editors: Editors
    find_unsaved: FindUnsaved
