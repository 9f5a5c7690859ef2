"""The format of records: how each recorded event is written to a history, and read back. Pure.

A record has one of three directions: ``client`` (a user's prompt), ``claude`` (an ``AgentLine``, unchanged; the name
comes from the specification) and ``server``: ``{"type": "system", "subtype": <kind>, "message": {…}}``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from drawbridge.agents.base import AgentLine
from drawbridge.agents.output import session_id_of
from drawbridge.server.events import (
    KINDS,
    ApprovalRequested,
    ApprovalResolved,
    PermissionWithdrawn,
    PromptAccepted,
    PromptEdited,
    Recorded,
    ReviewCommented,
    RunFinished,
    RunStarted,
    SessionChanged,
    SessionDeleted,
    SessionRenamed,
    SessionReset,
)
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.messages import Submission

_encode: Final = msgspec.json.Encoder().encode


def written(event: Recorded) -> tuple[messages.Direction, bytes]:
    """The direction and the message of an event's record."""
    if isinstance(event, AgentLine):
        return "claude", event.raw
    if isinstance(event, PromptAccepted):
        return "client", _prompt(event)
    return "server", _encode({"type": "system", "subtype": KINDS[type(event)], "message": event})


def _prompt(event: PromptAccepted) -> bytes:
    """The message of a prompt's record. The specification requires the prompt in ``message.prompt``."""
    message: dict[str, Any] = {
        "type": "user",
        "message": {"prompt": event.prompt},
        "run_id": event.run_id,
        "by": event.by,
    }
    optional = {
        "uuid": event.uuid,
        "request_id": event.request_id,
        "attachments": event.attachments,
        "steer": event.steer,
        "images": event.images,
        "files": event.files,
        "review": event.review,
    }
    return _encode(
        message
        | {name: value for name, value in optional.items() if value or (name == "request_id" and value is not None)}
    )


NOT_OURS: Final = (msgspec.MsgspecError, AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""The exceptions that reading a record can raise if it is damaged, or Drawbridge did not write it."""


class Written(Struct):
    """A line of a history."""

    seq: int
    timestamp: str
    direction: str
    message: Raw


class OfServer(Struct):
    """The ``message`` of a record that the server has written."""

    subtype: str
    message: Raw


class OfAgent(Struct):
    """The id of the conversation in an agent's line, in the format of Claude Code or of the Agent Client Protocol."""

    session_id: Any = None
    params: Any = None

    @property
    def id(self) -> str:
        return session_id_of(self.params.get("sessionId") if isinstance(self.params, dict) else self.session_id)


class _OfText(Struct):
    prompt: str


class _OfPrompt(Struct):
    run_id: str
    message: _OfText
    by: str = ""
    request_id: str | None = None
    review: Submission | None = None


# Records of earlier versions lack some of these fields. Numbers are bounded, because values derived from them are
# stored and must be readable later.


class _Started(RunStarted, frozen=True, kw_only=True):
    run_id: str = ""
    session_id: str = ""


class _Finished(RunFinished, frozen=True, kw_only=True):
    duration_ms: int = 0
    cost_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    input_tokens: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    output_tokens: Annotated[int, Meta(ge=0, le=10**12)] | None = None


class _Changed(SessionChanged, frozen=True, kw_only=True):
    session_id: str = ""


class _Reset(SessionReset, frozen=True, kw_only=True):
    old_session_id: str = ""
    new_session_id: str = ""
    project_id: str = ""


_READ: Final[Mapping[str, Any]] = {
    KINDS[PromptEdited]: PromptEdited,
    KINDS[RunStarted]: _Started,
    KINDS[RunFinished]: _Finished,
    KINDS[ApprovalRequested]: ApprovalRequested,
    KINDS[ApprovalResolved]: ApprovalResolved,
    KINDS[PermissionWithdrawn]: PermissionWithdrawn,
    KINDS[ReviewCommented]: ReviewCommented,
    KINDS[SessionChanged]: _Changed,
    KINDS[SessionDeleted]: SessionDeleted,
    KINDS[SessionRenamed]: SessionRenamed,
    KINDS[SessionReset]: _Reset,
}

_written: Final = msgspec.json.Decoder(Written)


class Read(NamedTuple):
    """A record that was read back. ``event``: None if it has no effect on the state, such as an agent's line."""

    seq: int
    moment: datetime
    event: Recorded | None


def parts(line: bytes) -> Written:
    """Parses a line of a history. Raises one of ``NOT_OURS``."""
    return _written.decode(line)


def agent_lines(lines: Iterable[bytes]) -> list[bytes]:
    """The agent's own lines among these lines of a history. Lines that can't be read are skipped."""
    found = []
    for line in lines:
        with contextlib.suppress(*NOT_OURS):
            written = parts(line)
            if written.direction == "claude":
                found.append(bytes(written.message))
    return found


def read(line: bytes) -> Read:
    """Reads an event back from a line of a history. Raises one of ``NOT_OURS``."""
    found = _written.decode(line)
    return Read(found.seq, datetime.fromisoformat(found.timestamp), _event(found))


def _event(found: Written) -> Recorded | None:
    if found.direction == "client":
        given = msgspec.json.decode(found.message, type=_OfPrompt)
        return PromptAccepted(given.run_id, given.message.prompt, given.by, given.request_id, review=given.review)
    if found.direction != "server":
        return None
    given_event = msgspec.json.decode(found.message, type=OfServer)
    kind = _READ.get(given_event.subtype)
    event: Recorded | None = None if kind is None else msgspec.json.decode(given_event.message, type=kind)
    return event
