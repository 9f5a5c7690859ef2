"""One line of ``claude``: what it is routed by, and its bytes as they may be passed on. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

EPHEMERAL: Final = ("stream_event", "command_lifecycle", "tool_progress")
EPHEMERAL_SYSTEM: Final = ("status", "task_progress", "hook_progress", "session_state_changed")
"""Of use only at the moment; what stays is said again by a later line."""


class Message(Struct):
    """What a line is routed by. Anything may stand in it; the rest of the line is only checked for being JSON."""

    type: Any = None
    subtype: Any = None
    session_id: Any = None
    request_id: Any = None
    request: Raw = Raw(b"null")
    response: Raw = Raw(b"null")
    tasks: Raw = Raw(b"null")
    error: Any = None
    state: Any = None
    task_id: Any = None
    subagent_type: Any = None
    command_uuid: Any = None
    mode: Any = msgspec.field(name="permissionMode", default=None)

    @property
    def is_ephemeral(self) -> bool:
        return self.type in EPHEMERAL or (self.type == "system" and self.subtype in EPHEMERAL_SYSTEM)


_message: Final = msgspec.json.Decoder(Message)


def parsed(line: bytes) -> tuple[Message, bytes] | None:
    """A line and its bytes as they may be passed on: untouched where they are valid, else mended. None: no JSON object."""
    if not line.startswith(b"{"):
        return None
    try:
        message = _message.decode(line)
        if line.isascii() or line.decode():
            return message, line.replace(b"\r", b" ")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    mended = _mended(line)
    return None if mended is None else (_message.decode(mended), mended)


def _mended(line: bytes) -> bytes | None:
    """What Python's own reader makes of it: invalid bytes and halves of surrogate pairs become U+FFFD."""
    try:
        value = json.loads(line.decode("utf-8", "replace"), strict=False, parse_constant=_nothing, parse_float=_finite)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None
    return valid(text).encode()


def valid(text: str) -> str:
    """As text that can be encoded: halves of surrogate pairs become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _nothing(_: str) -> None:
    """NaN and Infinity are no JSON."""


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def json_object(data: Raw | bytes) -> dict[str, Any]:
    """Raises ``ValueError`` for what is no JSON object."""
    value = json.loads(bytes(data))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
