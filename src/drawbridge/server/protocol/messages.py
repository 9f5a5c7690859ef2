"""What the agent server sends to clients without a request, if only at times, and how every message becomes bytes. Pure.

A message is ``{"type", "project_id"?, "seq"?, "data", "request_id"?}``. Whatever belongs to a project's history carries
its ``seq`` at the top. An agent's own JSON goes in as it came: it is never decoded and encoded again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AskedBy
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.desk_messages import DeskInfo
from drawbridge.server.protocol.preview import shortened

MESSAGE_BYTES: Final = 1_000_000
"""Of a message of a client, at most: the specification's 1 MB."""

FRAME_BYTES: Final = 1_000_000
"""Of a message of ours, at most. What is larger goes as a preview, all of it by ``blob_get``."""

PIECE_BYTES: Final = 512 * 1024
"""Of a blob in one message: with base64 it fits either limit."""

BLOB_BYTES: Final = 32 * 1024 * 1024
"""Of a blob that is sent up."""

Direction = Literal["client", "claude", "server"]
State = Literal["IDLE", "EXECUTING", "ERROR"]
Outcome = Literal["completed", "failed", "killed", "timeout", "interrupted"]
T = TypeVar("T")


class Truncated(Struct, frozen=True):
    """The message is a preview; ``blob_get`` of ``blob_id`` has all ``bytes`` of it."""

    blob_id: str
    bytes: int


class Message(Struct, frozen=True, omit_defaults=True, kw_only=True):
    type: str
    project_id: str | None = None
    seq: int | None = None
    data: Any
    request_id: str | None = None


class Update(Struct, frozen=True):
    """The ``data`` of an ``update``."""

    update_type: str
    data: Any


class AgentMessage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One JSON object that an agent said, or (``direction`` "client") a person to it. ``timestamp``: as in the history."""

    messages: tuple[Raw, ...]
    session_id: str
    direction: Direction
    run_id: str | None = None
    timestamp: str | None = None
    truncated: Truncated | None = None


class ProposalOf(Struct, frozen=True):
    """The change that a question is about."""

    path: str
    old_text: str
    new_text: str


class PermissionRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An agent's question that waits for a person. ``input`` and ``suggestions`` are the agent's JSON. ``changeable``:
    the answer may hold an ``updated_input``. ``link_targets``: its paths that lead through a symbolic link, with their ends.
    ``asked_by``: the subagent that asks. ``reason``: why it is asked, in the agent's words. ``blocked_path``: the path that it
    may not use unasked.
    """

    approval_id: str
    run_id: str
    tool_name: str
    input: Raw
    suggestions: Raw
    created_at: str
    seq: int
    proposal: ProposalOf | None = None
    changeable: bool = True
    link_targets: dict[str, str] = {}
    asked_by: AskedBy | None = None
    reason: str | None = None
    blocked_path: str | None = None
    truncated: Truncated | None = None


class Waiting(Struct, frozen=True):
    """An open approval in short, as lists have it."""

    approval_id: str
    tool_name: str
    created_at: str


class ProjectInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    path: str
    state: State
    session_id: str
    agent: str
    created_at: str
    last_active: str
    message_count: int
    last_seq: int
    approvals: list[Waiting]
    desk: DeskInfo | None = None
    """Only of an agent that somebody has started in a terminal."""
    first_seq: int = 1
    """The first record that the history still has."""
    cost_usd: float = 0.0
    """Of all its runs, as far as the agent tells."""
    first_message_time: str | None = None
    last_message_time: str | None = None
    permission_mode: str = "default"
    """What the agent at hand asks about, as far as it tells; else as the next one begins. Not of one at a desk."""
    modes: list[str] = []
    """The modes that can be chosen, if the agent has reported others than Claude Code's."""
    asks: bool = True
    """False: this agent can't ask anybody, and does whatever its mode allows. Not used for terminal sessions."""
    continues_at: str | None = None
    """When the last run goes on by itself, which a limit of the agent's account has stopped."""
    problem: str | None = None
    """Why nothing can be run in it, for people: its directory does not exist, or the owner does not allow it any more."""


class RunInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A run that goes on (``position`` 0) or waits in the queue."""

    run_id: str
    position: int
    prompt: str
    started_at: str | None = None
    request_id: str | None = None


class ProjectJoined(ProjectInfo, frozen=True, omit_defaults=True, kw_only=True):
    """The snapshot of ``update/project_joined``: all that is true at ``last_seq``; the stream goes on behind it."""

    run: RunInfo | None
    queue: list[RunInfo]
    open_approvals: list[PermissionRequest]


class ProjectState(ProjectInfo, frozen=True, omit_defaults=True, kw_only=True):
    """``update/project_state``: always all of it. ``queued``: prompts that wait."""

    run_id: str | None = None
    queued: int = 0


class ProjectGone(Struct, frozen=True):
    project_id: str
    path: str


class SessionReset(Struct, frozen=True):
    old_session_id: str
    new_session_id: str
    project_id: str


class SessionChanged(Struct, frozen=True, omit_defaults=True):
    """The conversation that the next run goes on with; with ``fork_from`` a new one that knows that one. ``agent``: whose
    it is, where a client has chosen it.
    """

    session_id: str
    fork_from: str | None = None
    agent: str | None = None


class ExecutionKilled(Struct, frozen=True):
    project_id: str
    state: State
    run_id: str


class RunStarted(Struct, frozen=True, omit_defaults=True):
    """``unprompted``: the agent continues by itself, as when a command in the background has ended."""

    run_id: str
    session_id: str
    agent: str
    unprompted: bool = False


class RunFinished(Struct, frozen=True, omit_defaults=True, kw_only=True):
    run_id: str
    outcome: Outcome
    duration_ms: int
    cost_usd: float | None = None
    error: str | None = None
    code: str | None = None
    retry_at: str | None = None
    """When what the agent's account has used up is there again (AGENT_RATE_LIMITED)."""


class ChangedFile(Struct, frozen=True):
    """``path`` is relative to the project."""

    path: str
    change: Literal["added", "changed", "deleted"]


class RunReverted(Struct, frozen=True):
    """What the run had changed is as it was before."""

    run_id: str
    by: str
    files: tuple[ChangedFile, ...]


class PermissionResolved(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``by`` is a name that several clients may have; ``client_id`` is the connection that answered, as in its ``hello``.

    ``edited``: allowed with another input than the agent's. Then ``new_text`` is what the file becomes, where the approval is
    about a change of a file, else ``updated_input`` is that input; both are left out where they are too large. A ``message``
    that is too large for a frame is cut and ends in "…".
    """

    approval_id: str
    by: str
    decision: Literal["allow", "deny"]
    message: str | None = None
    client_id: str | None = None
    edited: bool = False
    new_text: str | None = None
    updated_input: Raw | None = None


class PermissionWithdrawn(Struct, frozen=True):
    approval_id: str
    reason: str


class DiskWarning(Struct, frozen=True):
    """``update/disk_warning``: of a "project" (its history; ``project_id`` says whose), of all "data" that the server keeps,
    or of the "disk" it lies on. Once at each crossing; ``message`` is for people.
    """

    scope: Literal["project", "data", "disk"]
    used_mb: int
    limit_mb: int
    message: str


class Stats(Struct, frozen=True):
    """``memory_mb`` and ``cpu_percent`` (of one core): the server with all processes it started."""

    projects: int
    active_sessions: int
    project_states: dict[str, State]
    cpu_percent: float
    memory_mb: int


class Error(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``error`` is ``message`` once more, under the specification's name."""

    code: str
    message: str
    error: str
    retryable: bool
    correlation_id: str
    request_id: str | None = None
    field: str | None = None
    details: Any = None


TYPES: Final[Mapping[str, type[Struct]]] = {
    "agent_message": AgentMessage,
    "error": Error,
    "permission_request": PermissionRequest,
}
"""``type`` → ``data`` of the messages that answer no command. The others are in the rows of ``app.command_table``."""

UPDATES: Final[Mapping[str, type[Struct]]] = {
    "disk_warning": DiskWarning,
    "permission_withdrawn": PermissionWithdrawn,
    "project_created": ProjectInfo,
    "project_deleted": ProjectGone,
    "run_finished": RunFinished,
    "run_started": RunStarted,
    "session_changed": SessionChanged,
    "stats": Stats,
}
"""``update_type`` → ``data.data`` of the updates that answer no command."""


class Answer(Struct, Generic[T], frozen=True, kw_only=True):
    """The answer to a command, before it has its ``request_id``. ``update_type``: only of an ``update``.

    ``seq``: of the record in the project's history that this answer is, where it is one.
    """

    type: str
    data: T
    update_type: str | None = None
    project_id: str | None = None
    seq: int | None = None


_encoder: Final = msgspec.json.Encoder()


def updated(update_type: str, data: T, project_id: str | None = None, seq: int | None = None) -> Answer[T]:
    """An ``update`` as the answer to a command."""
    return Answer(type="update", update_type=update_type, data=data, project_id=project_id, seq=seq)


def encode(answer: Answer[Any], request_id: str | None = None) -> bytes:
    """A message's bytes."""
    data = answer.data if answer.update_type is None else Update(answer.update_type, answer.data)
    return _encoder.encode(
        Message(type=answer.type, project_id=answer.project_id, seq=answer.seq, data=data, request_id=request_id)
    )


def update(update_type: str, data: Any, project_id: str | None = None, seq: int | None = None) -> bytes:
    return encode(updated(update_type, data, project_id, seq))


def agent_message(
    line: bytes,
    *,
    project_id: str,
    session_id: str,
    direction: Direction = "claude",
    run_id: str | None = None,
    timestamp: str | None = None,
    seq: int | None = None,
    limit: int = FRAME_BYTES,
) -> bytes:
    """A line of the agent (JSON, valid UTF-8) on its way to the clients. One over the limit goes as a preview."""
    truncated = None
    if len(line) > limit - ROOM:
        truncated = Truncated(history_blob(project_id, seq), len(line)) if seq is not None else None
        line = shortened(line, limit - ROOM)
    data = AgentMessage(
        messages=(Raw(line),),
        session_id=session_id,
        direction=direction,
        run_id=run_id,
        timestamp=timestamp,
        truncated=truncated,
    )
    return _encoder.encode(Message(type="agent_message", project_id=project_id, seq=seq, data=data))


def history_record(record: bytes, project_id: str, seq: int, limit: int = FRAME_BYTES) -> Raw:
    """A line of the history as ``message_history`` has it; one over the limit as a preview with ``truncated``."""
    if len(record) <= limit - ROOM:
        return Raw(record)
    smaller = shortened(record, limit - ROOM)
    blob = _encoder.encode(Truncated(history_blob(project_id, seq), len(record)))
    return Raw(smaller[:-1] + b',"truncated":' + blob + b"}")


def history_blob(project_id: str, seq: int) -> str:
    """The ``blob_id`` of a record of the history: its whole line, for as long as the history keeps it."""
    return f"{project_id}:{seq}"


def error(
    failure: ClientError, correlation_id: str, request_id: str | None = None, project_id: str | None = None
) -> bytes:
    data = Error(
        code=failure.code,
        message=failure.text,
        error=failure.text,
        retryable=failure.retryable,
        correlation_id=correlation_id,
        request_id=request_id,
        field=failure.field,
        details=failure.details,
    )
    return _encoder.encode(Message(type="error", project_id=project_id, data=data, request_id=request_id))


ROOM: Final = 2_000
"""Bytes of a message beside its one large part."""
