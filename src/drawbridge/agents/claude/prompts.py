"""Messages to ``claude``: prompts with attachments, and decisions on its questions. Pure."""

from __future__ import annotations

import base64
from typing import Any, Final

from msgspec import Raw

from drawbridge.agents.attached import LARGEST, LONGEST_TEXT, media_type, text_of, with_paths
from drawbridge.agents.base import LEAVING_PLAN, Attachment, Decision
from drawbridge.agents.claude.suggestions import ASKING, remembered
from drawbridge.agents.output import valid
from drawbridge.core.errors import BadArgument
from drawbridge.text.counts import size

PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
DOCUMENT: Final = "application/pdf"

LONGEST_NAME: Final = 200
LONGEST_REASON: Final = 2_000
LONGEST_PATH: Final = 4_096

DENIED: Final = "The user rejected this. Do not try it in another way; ask what to do instead."


def words(value: object, longest: int) -> str | None:
    """``value`` without unpaired surrogates, truncated to ``longest`` characters. None if it is empty or not a
    string."""
    return valid(value)[:longest] if isinstance(value, str) and value else None


def content(text: str, attachments: tuple[Attachment, ...]) -> str | list[dict[str, Any]]:
    """The content of a user message. Attachments with a ``path`` are referred to by it. The others are embedded. Raises
    ``BadArgument`` if an embedded attachment is not an image, a PDF or text."""
    parts = [one for one in attachments if one.path is None]
    text = with_paths(text, [one for one in attachments if one.path is not None])
    return [*map(_block, parts), {"type": "text", "text": text}] if parts else text


def embeds(attachment: Attachment) -> bool:
    """See ``Agent.embeds``."""
    if media_type(attachment) in (*PICTURES, DOCUMENT):
        return len(attachment.data) <= LARGEST
    return text_of(attachment) is not None


def verdict(decision: Decision, tool_name: str, given: Raw, suggestions: Raw) -> dict[str, Any]:
    """The answer to a question about a tool call with the input ``given``."""
    if not decision.allow:
        return {"behavior": "deny", "message": valid(decision.message or DENIED)}
    wanted = given if decision.updated_input is None else decision.updated_input
    rules = remembered(suggestions) if decision.remember else [ASKING] if tool_name == LEAVING_PLAN else []
    return {"behavior": "allow", "updatedInput": wanted} | ({"updatedPermissions": rules} if rules else {})


def _block(attachment: Attachment) -> dict[str, Any]:
    kind = media_type(attachment)
    if kind in PICTURES or kind == DOCUMENT:
        data = base64.b64encode(attachment.data).decode()
        shown_as = "document" if kind == DOCUMENT else "image"
        return {"type": shown_as, "source": {"type": "base64", "media_type": kind, "data": data}}
    text = text_of(attachment)
    if text is None:
        shown = valid(attachment.name or "An attached file")
        text_limit = f"UTF-8 text of up to {size(LONGEST_TEXT)}"
        problem = f"{shown} ({kind}) is neither an image (PNG, JPEG, GIF, WebP), nor a PDF, nor {text_limit}."
        raise BadArgument("attachments", f"{problem} The prompt was not sent.")
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, "title": valid(attachment.name or "attachment")}
