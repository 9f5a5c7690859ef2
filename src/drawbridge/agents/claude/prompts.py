"""Messages to ``claude``: prompts with attachments, and decisions about its questions. Pure."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import msgspec
from msgspec import Raw

from drawbridge.agents.base import Attachment, Decision
from drawbridge.agents.output import json_object, valid
from drawbridge.core.errors import BadArgument

PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
DOCUMENT: Final = "application/pdf"

LEAVING_PLAN: Final = "ExitPlanMode"
PLAN_SUGGESTIONS: Final = b'[{"type":"setMode","mode":"acceptEdits","destination":"session"}]'

LONGEST_NAME: Final = 200
LONGEST_REASON: Final = 2_000
LONGEST_PATH: Final = 4_096

DENIED: Final = "The person said no to this. Do not try it another way; ask what to do instead."


def words(told: object, longest: int) -> str | None:
    """The text for people, bounded. None if nothing was reported."""
    return valid(told)[:longest] if isinstance(told, str) and told else None


def content(text: str, attachments: tuple[Attachment, ...]) -> str | list[dict[str, Any]]:
    """The content of a user message. Raises ``BadArgument`` for an attachment that the agent can't read."""
    if not attachments:
        return valid(text)
    return [*map(_block, attachments), {"type": "text", "text": valid(text)}]


def verdict(decision: Decision, given: Raw, suggestions: Raw) -> dict[str, Any]:
    """The answer to a question about a tool's input ``given``. Raises ``BadArgument`` for an invalid changed input."""
    changed = given if decision.updated_input is None else _checked_input(decision.updated_input)
    if not decision.allow:
        return {"behavior": "deny", "message": valid(decision.message or DENIED)}
    rules = remembered(suggestions) if decision.remember else []
    return {"behavior": "allow", "updatedInput": changed} | ({"updatedPermissions": rules} if rules else {})


def suggestions(tool_name: str, given: Raw) -> Raw:
    """The agent's suggestions to remember. For a plan the CLI (2.1.329) suggests nothing, but accepts a mode in the answer."""
    if tool_name == LEAVING_PLAN and bytes(given).replace(b" ", b"") in (b"[]", b"null"):
        return Raw(PLAN_SUGGESTIONS)
    return given


def _checked_input(given: Raw) -> Raw:
    """The client's input as one line of JSON."""
    try:
        return Raw(json.dumps(json_object(given), allow_nan=False).encode())
    except (ValueError, RecursionError):
        raise BadArgument("updated_input", "it is not a JSON object. The approval stays open.") from None


def remembered(suggestions: Raw) -> list[dict[str, Any]]:
    """The suggestions that a decision with ``remember`` accepts: rules and directories if there are any; a mode, which covers
    far more, only if there are none.
    """
    try:
        offered = msgspec.json.decode(suggestions, type=list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return []
    narrow = [suggestion for suggestion in offered if suggestion.get("type") != "setMode"]
    return narrow or offered


def _block(attachment: Attachment) -> dict[str, Any]:
    media_type = attachment.media_type.partition(";")[0].strip().lower()
    if media_type in PICTURES or media_type == DOCUMENT:
        data = base64.b64encode(attachment.data).decode()
        kind = "document" if media_type == DOCUMENT else "image"
        return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}
    try:
        text = attachment.data.decode()
    except UnicodeDecodeError:
        shown = valid(attachment.name or "one of them")
        problem = f"{shown} ({media_type}) is neither a picture (PNG, JPEG, GIF, WebP), nor a PDF, nor UTF-8 text."
        raise BadArgument("attachments", f"{problem} Nothing was sent to the agent.") from None
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, "title": valid(attachment.name or "attachment")}
