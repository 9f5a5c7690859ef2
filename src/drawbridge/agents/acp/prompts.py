"""Prompts as content blocks of the Agent Client Protocol. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from drawbridge.agents.attached import EMBEDDED, LARGEST, media_type, text_of, with_paths
from drawbridge.agents.base import Attachment
from drawbridge.agents.output import valid
from drawbridge.core.errors import BadArgument


def content(text: str, attachments: tuple[Attachment, ...], abilities: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The content blocks of a prompt. ``abilities``: the agent's ``promptCapabilities``. Raises ``BadArgument`` for an
    attachment that is neither readable in a prompt nor stored. A stored file is not embedded if the files before it have
    not left enough of ``EMBEDDED``."""
    blocks, stored = [], []
    room = EMBEDDED
    for one in attachments:
        # Only a stored file can be left out of the prompt.
        block = _block(one, abilities) if one.path is None or len(one.data) <= room else None
        if block is not None:
            blocks.append(block)
            room -= len(one.data)
        elif one.path is not None:
            stored.append(one)
        else:
            problem = f"{valid(one.name or 'attachment')} ({media_type(one)}) can't be part of a prompt for this agent."
            raise BadArgument("attachments", f"{problem} The prompt was not sent.")
    return [*blocks, {"type": "text", "text": with_paths(text, stored)}]


def _block(attachment: Attachment, abilities: Mapping[str, Any]) -> dict[str, Any] | None:
    """The content block of a file; None if the file can't be part of the prompt."""
    type = media_type(attachment)
    kind = type.partition("/")[0]
    if kind in ("image", "audio") and abilities.get(kind) is True and len(attachment.data) <= LARGEST:
        return {"type": kind, "mimeType": type, "data": base64.b64encode(attachment.data).decode()}
    text = text_of(attachment)
    if text is None:
        return None
    name = valid(attachment.name or "attachment")
    if abilities.get("embeddedContext") is not True:
        return {"type": "text", "text": f"{name}:\n\n{text}"}
    resource = {"uri": f"attachment:///{quote(name)}", "mimeType": "text/plain", "text": text}
    return {"type": "resource", "resource": resource}
