"""One line of ``claude``: the fields that decide its routing, and its bytes as they are passed on. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents import json_lines

EPHEMERAL: Final = ("stream_event", "command_lifecycle", "tool_progress")
EPHEMERAL_SYSTEM: Final = ("status", "task_progress", "hook_progress", "session_state_changed")
"""Ephemeral lines; anything permanent in them is repeated in a later line."""


class Message(Struct):
    """The fields that decide what a line is. Their values may be anything; the rest is only checked to be JSON."""

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
    """See ``json_lines.parsed``."""
    return json_lines.parsed(line, _message)
