"""Frames: messages as they are sent, and the clients that receive them. Pure.

A message is ``{"type", "project_id"?, "seq"?, "data", "request_id"?}``. Whatever belongs to a project's history has its
``seq`` at the top level. An agent's own JSON is embedded unchanged, without being decoded and encoded again; only if it
is too large is it decoded, for a preview.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
from msgspec import Raw, Struct

from drawbridge.core.json_text import UNDECODABLE
from drawbridge.server.protocol.answers import Answer, updated
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import FRAME_BYTES, AgentMessage, Direction, Error, Truncated

ROOM: Final = 2_000
"""The bytes of a message that are reserved for everything except the one part that may be large."""


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


class Frame(Struct, frozen=True):
    """One message for one or more clients, as it is sent.

    ``ephemeral``: the message is useless later (partial text, statistics), so it is dropped first if a client is slow.
    ``seq``: the number of the message's record in the history of its project, if it has one.
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
    """The client's name, for other clients and the history: the name of its device or SSH key, the name that the
    owner's client chose, or its address.
    """

    @property
    def decides(self) -> bool:
        """Whether the client may decide on approval requests."""
        ...

    @property
    def runs(self) -> bool:
        """Whether the client may start runs, and see the conversations that an agent itself stores."""
        ...

    @property
    def owns(self) -> bool:
        """Whether the client may do everything, including changing what other clients have written."""
        ...

    @property
    def device(self) -> str | None:
        """The id of the client's device, or the fingerprint of its SSH key; None for any other client, such as one with
        the owner's token."""
        ...

    @property
    def audited(self) -> Mapping[str, Any]:
        """The fields of an audit log entry that identify the client."""
        ...

    def sees(self, path: Path) -> bool:
        """Whether the client may see a project in this directory."""
        ...

    def send(self, frame: Frame) -> None:
        """Queues a frame. Never waits, and never raises an error. The client receives frames in the order of the
        calls.
        """
        ...

    async def room(self) -> None:
        """Returns once most of what was queued is sent, or the client is gone. Used between the pages of a long
        history."""
        ...


_encoder: Final = msgspec.json.Encoder()


def encode(answer: Answer[Any], request_id: str | None = None) -> bytes:
    """Encodes a message."""
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
    timestamp: str | None = None,
    seq: int | None = None,
    limit: int = FRAME_BYTES,
) -> bytes:
    """An ``agent_message`` with a line of an agent's output, or with a user's prompt in the same form (JSON, valid
    UTF-8). A line over the limit is sent as a preview."""
    truncated = None
    if len(line) > limit - ROOM:
        truncated = Truncated(history_blob(project_id, seq), len(line)) if seq is not None else None
        line = shortened(line, limit - ROOM)
    data = AgentMessage(
        messages=(Raw(line),),
        session_id=session_id,
        direction=direction,
        timestamp=timestamp,
        truncated=truncated,
    )
    return _encoder.encode(Message(type="agent_message", project_id=project_id, seq=seq, data=data))


def history_record(record: bytes, project_id: str, seq: int, limit: int = FRAME_BYTES) -> Raw:
    """A line of the history for ``message_history``; a line over the limit becomes a preview with ``truncated``."""
    if len(record) <= limit - ROOM:
        return Raw(record)
    smaller = shortened(record, limit - ROOM)
    blob = _encoder.encode(Truncated(history_blob(project_id, seq), len(record)))
    return Raw(smaller[:-1] + b',"truncated":' + blob + b"}")


def history_blob(project_id: str, seq: int) -> str:
    """The ``blob_id`` of a record's whole line, which is available for as long as the history contains it."""
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


# Previews of what is too large.

CUT: Final = "…"
_TEXTS: Final = (4_000, 400, 40)
_ITEMS: Final = (200, 20, 5)
_DEPTHS: Final = (20, 8, 4)


def shortened(data: bytes, limit: int) -> bytes:
    """JSON of at most ``limit`` bytes that shows what ``data`` contains; ``data`` itself if it is small enough.

    Long texts are cut and end in "…"; the last items of long lists and objects are left out, and lists and objects that
    are nested too deeply are empty. If the result is still too large, or ``data`` can't be decoded, it is JSON with the
    first bytes: ``{"preview": "…"}``.
    """
    if len(data) <= limit:
        return data
    try:
        whole = msgspec.json.decode(data)
        for text, items, depth in zip(_TEXTS, _ITEMS, _DEPTHS, strict=True):
            smaller = msgspec.json.encode(_cut(whole, text, items, depth))
            if len(smaller) <= limit:
                return smaller
    except UNDECODABLE:
        pass
    return msgspec.json.encode({"preview": data[: limit // 8].decode(errors="replace") + CUT})


def _cut(value: Any, text: int, items: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= text else value[:text] + CUT
    if isinstance(value, dict):
        kept = list(value.items())[:items] if depth else []
        return {key[:text]: _cut(item, text, items, depth - 1) for key, item in kept}
    if isinstance(value, list):
        return [_cut(item, text, items, depth - 1) for item in value[:items]] if depth else []
    return value
