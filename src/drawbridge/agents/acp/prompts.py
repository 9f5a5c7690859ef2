"""Prompts as content blocks of the Agent Client Protocol. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from drawbridge.agents.base import Attachment
from drawbridge.agents.output import valid
from drawbridge.core.errors import BadArgument


def content(text: str, attachments: tuple[Attachment, ...], abilities: Mapping[str, Any]) -> list[dict[str, Any]]:
    """``abilities``: the agent's ``promptCapabilities``. Raises ``BadArgument`` for an attachment that it can't read."""
    return [*(_block(one, abilities) for one in attachments), {"type": "text", "text": valid(text)}]


def _block(attachment: Attachment, abilities: Mapping[str, Any]) -> dict[str, Any]:
    media_type = attachment.media_type.partition(";")[0].strip().lower()
    kind = media_type.partition("/")[0]
    name = valid(attachment.name or "attachment")
    if kind in ("image", "audio") and abilities.get(kind) is True:
        return {"type": kind, "mimeType": media_type, "data": base64.b64encode(attachment.data).decode()}
    try:
        text = attachment.data.decode()
    except UnicodeDecodeError:
        problem = f"{name} ({media_type}) can't be read by this agent."
        raise BadArgument("attachments", f"{problem} Nothing was sent to the agent.") from None
    if abilities.get("embeddedContext") is not True:
        return {"type": "text", "text": f"{name}:\n\n{text}"}
    resource = {"uri": f"attachment:///{quote(name)}", "mimeType": "text/plain", "text": text}
    return {"type": "resource", "resource": resource}
