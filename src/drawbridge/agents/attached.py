"""Files attached to a prompt: embedded in it if the agent can read them there, otherwise referred to by path. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drawbridge.agents.base import Attachment
from drawbridge.agents.output import valid
from drawbridge.text.counts import size

LONGEST_TEXT: Final = 1_000_000
"""The maximum size of a text file inside a prompt, in bytes. A larger one would fill an agent's context, and the
agent's tools can read a file in parts."""

LARGEST: Final = 10_000_000
"""The maximum size of any other file inside a prompt, in bytes."""

EMBEDDED: Final = 20_000_000
"""The maximum total size of the files inside one prompt, in bytes. In base64 they still fit into a request to Claude's
API (32 MB, according to its documentation)."""


def media_type(attachment: Attachment) -> str:
    """The media type of a file, in lower case and without parameters."""
    return attachment.media_type.partition(";")[0].strip().lower()


def text_of(attachment: Attachment) -> str | None:
    """The text of a file that can be embedded in a prompt. None if the file is larger than ``LONGEST_TEXT``, contains a
    NUL byte or is not valid UTF-8."""
    if len(attachment.data) > LONGEST_TEXT or b"\0" in attachment.data:
        return None
    try:
        return attachment.data.decode()
    except UnicodeDecodeError:
        return None


def is_text(attachment: Attachment) -> bool:
    return text_of(attachment) is not None


def with_paths(text: str, attachments: Sequence[Attachment]) -> str:
    """The prompt ``text``, followed by the paths and sizes of the ``attachments``, which are not embedded in it."""
    lines = [f"Attached file: {one.path} ({size(len(one.data))})" for one in attachments]
    return valid("\n\n".join([text, "\n".join(lines)]) if lines else text)
