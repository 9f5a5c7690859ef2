"""Files that go with a prompt: part of it if the agent can read them there, otherwise named by their paths. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drawbridge.agents.base import Attachment
from drawbridge.agents.output import valid
from drawbridge.text.counts import size

LONGEST_TEXT: Final = 1_000_000
"""The most bytes of a text inside a prompt. More would fill an agent's context; its tools can read part of a file."""

LARGEST: Final = 10_000_000
"""The most bytes of any other file inside a prompt."""


def media_type(attachment: Attachment) -> str:
    """The media type of a file, in lower case and without parameters."""
    return attachment.media_type.partition(";")[0].strip().lower()


def text_of(attachment: Attachment) -> str | None:
    """The text of a file that can be a part of a prompt; None for any other file."""
    if len(attachment.data) > LONGEST_TEXT or b"\0" in attachment.data:
        return None
    try:
        return attachment.data.decode()
    except UnicodeDecodeError:
        return None


def is_text(attachment: Attachment) -> bool:
    return text_of(attachment) is not None


def with_paths(text: str, attachments: Sequence[Attachment]) -> str:
    """The prompt ``text`` with the paths of files that are not in it."""
    lines = [f"Attached file: {one.path} ({size(len(one.data))})" for one in attachments]
    return valid("\n\n".join([text, "\n".join(lines)]) if lines else text)
