"""The format of records, in which events are written to a history and read back. Pure.

A record is a line with ``seq``, ``timestamp``, ``direction`` and ``message``. The direction ``client`` is a user's
prompt, ``claude`` an agent's line, unchanged (the name comes from the specification), and ``server`` an event of the
server: ``{"type": "system", "subtype": <kind>, "message": {…}}``.

The structures in this module are this format, and nothing else uses them. Records are never rewritten, so every version
must read the records of all earlier ones. A field can be added if it has a default, but none can be removed, renamed or
moved. Where earlier versions did not write a field that is always written now, a second structure is read (``…Read``).
A change that earlier versions can't read also needs a new format of data directories (``upgrade``), so that they refuse
the directory instead of misreading it. Records of format 0 have only some kinds and fields. Those of format 1 have had
all of today's kinds since reviews were added, and fields with defaults were added over time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from drawbridge.agents.base import AgentLine
from drawbridge.agents.output import session_id_of
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.server import events
from drawbridge.server.events import PromptAccepted, Recorded
from drawbridge.server.store.lines import Direction

NOT_OURS: Final = (*UNDECODABLE, AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""The exceptions that reading a record can raise if it is damaged, or Drawbridge did not write it."""


class HistoryLine(Struct):
    """A line of a history."""

    seq: int
    timestamp: str
    direction: str
    message: Raw


class OfServer(Struct):
    """The ``message`` of a record that the server wrote."""

    subtype: str
    message: Raw


class OfAgent(Struct):
    """The id of the conversation in an agent's line, in the format of Claude Code or of the Agent Client Protocol."""

    session_id: Any = None
    params: Any = None

    @property
    def id(self) -> str:
        return session_id_of(self.params.get("sessionId") if isinstance(self.params, dict) else self.session_id)


# Prompts.


class _Image(Struct, frozen=True, omit_defaults=True):
    id: str
    media_type: str
    bytes: int
    name: str | None = None


class _File(Struct, frozen=True, omit_defaults=True):
    id: str
    bytes: int
    name: str | None = None


class _Submission(Struct, frozen=True):
    key: str
    comments: tuple[str, ...]


class _Text(Struct, frozen=True):
    prompt: str


class _Prompt(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="user"):
    """A user's prompt. The specification requires it in ``message.prompt``."""

    message: _Text
    run_id: str
    by: str
    uuid: str = ""
    request_id: str | None = None
    attachments: tuple[str, ...] = ()
    steer: bool = False
    images: tuple[_Image, ...] = ()
    files: tuple[_File, ...] = ()
    review: _Submission | None = None
    client_id: str | None = None


class _PromptRead(Struct, frozen=True):
    message: _Text
    run_id: str
    by: str = ""
    uuid: str = ""
    request_id: str | None = None
    attachments: tuple[str, ...] = ()
    steer: bool = False
    images: tuple[_Image, ...] = ()
    files: tuple[_File, ...] = ()
    review: _Submission | None = None
    client_id: str | None = None


class _PromptEdited(Struct, frozen=True):
    run_id: str
    prompt: str
    by: str
    client_id: str


# Runs.


class _RunStarted(Struct, frozen=True, omit_defaults=True):
    run_id: str
    session_id: str
    agent: str
    unprompted: bool = False


class _RunStartedRead(_RunStarted, frozen=True, kw_only=True):
    run_id: str = ""
    session_id: str = ""


class _RunFinished(Struct, frozen=True, omit_defaults=True, kw_only=True):
    run_id: str
    outcome: Literal["completed", "failed", "killed", "timeout", "interrupted"]
    duration_ms: int
    cost_usd: float | None = None
    error: str | None = None
    code: str | None = None
    retry_at: str | None = None
    removed_by: str | None = None
    client_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    directory: str | None = None


class _RunFinishedRead(_RunFinished, frozen=True, kw_only=True):
    """The end of a run, as it is read. Numbers are bounded, because values derived from them are stored and must be
    readable later."""

    duration_ms: int = 0
    cost_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    input_tokens: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    output_tokens: Annotated[int, Meta(ge=0, le=10**12)] | None = None


class _ExecutionKilled(Struct, frozen=True):
    project_id: str
    state: Literal["IDLE", "EXECUTING", "ERROR"]
    run_id: str


class _ChangedFile(Struct, frozen=True):
    path: str
    change: Literal["added", "changed", "deleted"]


class _RunReverted(Struct, frozen=True, omit_defaults=True):
    run_id: str
    by: str
    files: tuple[_ChangedFile, ...]
    client_id: str | None = None


# Reviews.


class _ReviewDecided(Struct, frozen=True, omit_defaults=True, kw_only=True):
    files: int
    hunks: int
    left: int
    by: str | None = None
    decision: Literal["keep", "undo", "edit"] | None = None
    client_id: str | None = None
    interrupted: bool = False
    paths: tuple[str, ...] = ()
    diff: str = ""
    diff_truncated: bool = False


class _ReviewInterrupted(Struct, frozen=True, omit_defaults=True, kw_only=True):
    by: str
    decision: Literal["keep", "undo", "edit", "revert", "commit"]
    files: int
    hunks: int
    result: Literal["not_done", "unknown"]
    changed: tuple[str, ...] = ()
    client_id: str | None = None


class _Comment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    comment_id: str
    by: str
    path: str
    side: Literal["new", "old"]
    line: int
    end_line: int
    quote: str
    blob: str
    text: str
    suggestion: str | None = None
    state: Literal["draft", "waiting", "sent", "resolved"] = "draft"
    run_id: str | None = None
    resolved_by: str | None = None
    outdated: bool = False


class _ReviewCommented(Struct, frozen=True, omit_defaults=True, kw_only=True):
    comment_id: str
    by: str
    comment: _Comment | None = None
    client_id: str | None = None


class _ReviewCommitted(Struct, frozen=True, omit_defaults=True, kw_only=True):
    commit: str
    branch: str
    files: tuple[str, ...]
    output: str
    by: str
    client_id: str | None = None
    created: bool = False


class _ReviewPushed(Struct, frozen=True, omit_defaults=True, kw_only=True):
    commit: str
    remote: str
    branch: str
    output: str
    by: str
    client_id: str | None = None
    pull_request: str | None = None
    problem: str = ""


# Approval requests.


class _Proposal(Struct, frozen=True):
    path: str
    old_text: str
    new_text: str


class _AskedBy(Struct, frozen=True, omit_defaults=True):
    agent_id: str
    agent_type: str | None = None


class _Title(Struct, frozen=True, omit_defaults=True):
    text: str
    path: str | None = None


class _Risk(Struct, frozen=True):
    code: str
    text: str
    field: str = ""
    start: int = 0
    end: int = 0


class _Always(Struct, frozen=True, omit_defaults=True):
    text: str
    suggestion: int
    saved_in: str = ""


_RequestKind: TypeAlias = Literal[
    "edit",
    "create",
    "overwrite",
    "notebook",
    "command",
    "plan",
    "question",
    "fetch",
    "search",
    "read",
    "delete",
    "move",
    "tool",
]


class _ApprovalRequested(Struct, frozen=True, omit_defaults=True):
    """An approval request. Format 0 has the fields up to ``proposal``."""

    approval_id: str
    run_id: str
    tool_name: str
    input: Raw
    suggestions: Raw
    proposal: _Proposal | None = None
    changeable: bool = True
    known_as: str = ""
    link_targets: dict[str, str] = {}
    asked_by: _AskedBy | None = None
    reason: str | None = None
    blocked_path: str | None = None
    kind: _RequestKind | None = None
    title: _Title | None = None
    risks: tuple[_Risk, ...] = ()
    always: tuple[_Always, ...] = ()
    editable: tuple[str, ...] = ()
    summary: str = ""
    form: Literal["fields", "acp"] = "fields"
    shown_fields: tuple[str, ...] = ()


class _ApprovalResolved(Struct, frozen=True, omit_defaults=True):
    approval_id: str
    by: str
    decision: Literal["allow", "deny"]
    message: str | None = None
    updated_input: dict[str, Any] | None = None
    remember: bool = False
    client_id: str | None = None
    edited: bool = False
    new_text: str | None = None


class _PermissionWithdrawn(Struct, frozen=True):
    approval_id: str
    reason: str


# Sessions.


class _SessionChanged(Struct, frozen=True, omit_defaults=True):
    session_id: str
    fork_from: str | None = None
    agent: str | None = None
    title: str | None = None


class _SessionChangedRead(_SessionChanged, frozen=True, kw_only=True):
    session_id: str = ""


class _SessionRenamed(Struct, frozen=True):
    session_id: str
    name: str
    by: str


class _SessionDeleted(Struct, frozen=True):
    session_id: str
    by: str
    agent_copy: bool = False


class _SessionReset(Struct, frozen=True):
    old_session_id: str
    new_session_id: str
    project_id: str


class _SessionResetRead(_SessionReset, frozen=True, kw_only=True):
    old_session_id: str = ""
    new_session_id: str = ""
    project_id: str = ""


class _Kind(NamedTuple):
    """One kind of the server's records. ``subtype``: its name in the record. ``written`` and ``read``: the structures
    that are written now, and read."""

    subtype: str
    event: type[Recorded]
    written: type[Struct]
    read: type[Struct]


_KINDS: Final = (
    _Kind("permission_request", events.ApprovalRequested, _ApprovalRequested, _ApprovalRequested),
    _Kind("permission_resolved", events.ApprovalResolved, _ApprovalResolved, _ApprovalResolved),
    _Kind("permission_withdrawn", events.PermissionWithdrawn, _PermissionWithdrawn, _PermissionWithdrawn),
    _Kind("prompt_edited", events.PromptEdited, _PromptEdited, _PromptEdited),
    _Kind("run_started", events.RunStarted, _RunStarted, _RunStartedRead),
    _Kind("run_finished", events.RunFinished, _RunFinished, _RunFinishedRead),
    _Kind("run_reverted", events.RunReverted, _RunReverted, _RunReverted),
    _Kind("execution_killed", events.ExecutionKilled, _ExecutionKilled, _ExecutionKilled),
    _Kind("review_decided", events.ReviewDecided, _ReviewDecided, _ReviewDecided),
    _Kind("review_interrupted", events.ReviewInterrupted, _ReviewInterrupted, _ReviewInterrupted),
    _Kind("review_commented", events.ReviewCommented, _ReviewCommented, _ReviewCommented),
    _Kind("review_committed", events.ReviewCommitted, _ReviewCommitted, _ReviewCommitted),
    _Kind("review_pushed", events.ReviewPushed, _ReviewPushed, _ReviewPushed),
    _Kind("session_changed", events.SessionChanged, _SessionChanged, _SessionChangedRead),
    _Kind("session_deleted", events.SessionDeleted, _SessionDeleted, _SessionDeleted),
    _Kind("session_renamed", events.SessionRenamed, _SessionRenamed, _SessionRenamed),
    _Kind("session_reset", events.SessionReset, _SessionReset, _SessionResetRead),
)


KINDS: Final[Mapping[type, _Kind]] = {kind.event: kind for kind in _KINDS}
"""The kinds of the server's records, by the types of their events."""

_SUBTYPES: Final = {kind.subtype: kind for kind in _KINDS}

_VERBATIM: Final = frozenset(
    kind.event for kind in _KINDS if any(field.type is Raw for field in msgspec.structs.fields(kind.written))
)
"""The events whose records contain an agent's own JSON, unchanged."""

_encode: Final = msgspec.json.Encoder().encode
_written: Final = msgspec.json.Decoder(HistoryLine)
_of_server: Final = msgspec.json.Decoder(OfServer)
_prompt: Final = msgspec.json.Decoder(_PromptRead)


def written(event: Recorded) -> tuple[Direction, bytes]:
    """The direction and the message of an event's record."""
    if isinstance(event, AgentLine):
        return "claude", event.raw
    if isinstance(event, PromptAccepted):
        fields = msgspec.structs.asdict(event)
        return "client", _encode(_as(_Prompt, {"type": "user", **fields, "message": _Text(event.prompt)}))
    kind = KINDS[type(event)]
    return "server", _encode({"type": "system", "subtype": kind.subtype, "message": _as(kind.written, event)})


def is_json(event: Recorded) -> bool:
    """Whether the message of the event's record is certain to be JSON in valid UTF-8, so that it does not need to be
    decoded before it is stored. Agents' lines were parsed by their drivers, and the other messages are encoded here.
    The exceptions contain an agent's own JSON, unchanged."""
    return type(event) not in _VERBATIM


class ReadRecord(NamedTuple):
    """A record that was read back. ``event``: None for an agent's line, and for a kind that is not known."""

    seq: int
    moment: datetime
    event: Recorded | None


def parts(line: bytes) -> HistoryLine:
    """Parses a line of a history. Raises one of ``NOT_OURS``."""
    return _written.decode(line)


def event_of(record: HistoryLine) -> Recorded | None:
    """The event that was recorded; None for an agent's line, and for a kind that is not known, such as one of a newer
    version. Raises one of ``NOT_OURS``."""
    if record.direction == "client":
        prompt = _prompt.decode(record.message)
        accepted: PromptAccepted = _as(
            PromptAccepted, {**msgspec.structs.asdict(prompt), "prompt": prompt.message.prompt}
        )
        return accepted
    if record.direction != "server":
        return None
    given = _of_server.decode(record.message)
    kind = _SUBTYPES.get(given.subtype)
    if kind is None:
        return None
    event: Recorded = _as(kind.event, msgspec.json.decode(given.message, type=kind.read))
    return event


def read(line: bytes) -> ReadRecord:
    """Reads an event back from a line of a history. Raises one of ``NOT_OURS``."""
    found = _written.decode(line)
    return ReadRecord(found.seq, datetime.fromisoformat(found.timestamp), event_of(found))


def agent_lines(lines: Iterable[bytes]) -> list[bytes]:
    """The agent's own lines among these lines of a history. Lines that can't be read are skipped."""
    found = []
    for line in lines:
        with contextlib.suppress(*NOT_OURS):
            written = parts(line)
            if written.direction == "claude":
                found.append(bytes(written.message))
    return found


def _as(kind: Any, value: object) -> Any:
    """The value as another structure with the same fields."""
    return msgspec.convert(value, kind, from_attributes=True)
