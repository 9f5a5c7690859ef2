"""What the hooks of Claude Code are told, as far as it says how a session stands. Pure. Seen on 2.1.329."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.server.projects.records import Asked

PATHS: Final = ("file_path", "notebook_path")


class HookEvent(Struct, frozen=True):
    """``prompt_id``: the turn that it belongs to. A question has no id: it is known by its tool and its input."""

    hook_event_name: str
    session_id: str
    cwd: str
    transcript_path: str = ""
    permission_mode: str | None = None
    prompt_id: str = ""
    prompt: str = ""
    source: str = ""
    last_assistant_message: str = ""
    tool_name: str = ""
    tool_input: Raw = Raw(b"{}")
    permission_suggestions: Raw = Raw(b"[]")


_decoder: Final = msgspec.json.Decoder(HookEvent)


def read(payload: Raw) -> HookEvent:
    """Raises ``ValueError`` for what is no such payload."""
    event = _decoder.decode(payload)
    if not event.cwd.startswith("/"):
        raise ValueError("cwd is not absolute")
    return event


def same_call(asked: Asked, tool: str, after: Mapping[str, Any], *, as_run: bool) -> bool:
    """Whether a call with the input ``after`` is the one that was asked about.

    ``as_run``: it is what the call ran with. That may have grown (answers), or changed where a person has edited the text;
    the file is the same then.
    """
    if tool != asked.tool_name:
        return False
    before = json_object(asked.input)
    if all(name in after and after[name] == before[name] for name in before):
        return True
    return as_run and any(name in before and before[name] == after.get(name) for name in PATHS)


def json_object(data: Raw) -> Mapping[str, Any]:
    """Empty for what is no object."""
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
