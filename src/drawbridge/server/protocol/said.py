"""Which ``type`` and ``update_type`` a message of the server has, and what is in it: for the schema and the tests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw, Struct

from drawbridge.server.protocol import messages as say
from drawbridge.server.protocol import replies


class ProjectList(Struct, frozen=True):
    projects: list[say.ProjectInfo]


class ProjectDeleted(Struct, frozen=True):
    """The answer to who has deleted it; the others hear ``update/project_deleted``."""

    project_id: str
    success: bool


class SessionList(Struct, frozen=True):
    sessions: list[say.SessionInfo]


class Record(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A line of a project's history. ``truncated``: ``message`` is a preview."""

    seq: int
    timestamp: str
    direction: say.Direction
    message: Raw
    truncated: say.Truncated | None = None


class HistoryPage(Struct, frozen=True, omit_defaults=True):
    """``next``: the ``after_seq`` (or ``before_seq``) of the next page; null where ``has_more`` is false. ``first_seq``: the
    first record that there still is.
    """

    messages: list[Record]
    next: int | None
    has_more: bool
    first_seq: int = 1


class Nothing(Struct, frozen=True):
    """For requests that have nothing to tell; sent only where there is a ``request_id``."""


TYPES: Final[Mapping[str, Any]] = {
    "accepted": say.Accepted,
    "agent_message": say.AgentMessage,
    "auth": replies.Authenticated,
    "blob": replies.BlobPiece,
    "blob_stored": replies.BlobStored,
    "dir_list": replies.Directories,
    "push_key": replies.PushKey,
    "error": say.Error,
    "health": replies.Health,
    "hello": replies.Hello,
    "message_history": list[Record] | HistoryPage,
    "ok": Nothing,
    "paired": replies.Paired,
    "permission_request": say.PermissionRequest,
    "project_deleted": ProjectDeleted,
    "project_list": ProjectList,
    "run_changes": say.RunChanges,
    "session_list": SessionList,
    "ssh_challenge": replies.SshChallenge,
    "subscribed": replies.Topics,
}
"""``type`` → ``data``, but for ``update``."""

UPDATES: Final[Mapping[str, Any]] = {
    "disk_warning": replies.DiskWarning,
    "execution_killed": say.ExecutionKilled,
    "permission_resolved": say.PermissionResolved,
    "permission_withdrawn": say.PermissionWithdrawn,
    "project_created": say.ProjectInfo,
    "project_deleted": say.ProjectGone,
    "project_joined": say.ProjectJoined,
    "project_state": say.ProjectState,
    "run_finished": say.RunFinished,
    "run_reverted": say.RunReverted,
    "run_started": say.RunStarted,
    "session_changed": say.SessionChanged,
    "session_reset": say.SessionReset,
    "stats": replies.Stats,
}
"""``update_type`` → ``data.data`` of an ``update``."""
