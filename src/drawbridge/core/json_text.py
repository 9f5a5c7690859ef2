"""JSON that another program wrote, or that a file contains."""

from __future__ import annotations

from typing import Any, Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions that ``msgspec.json.decode`` raises for such a text: it is not valid JSON or has another shape, it is
not UTF-8, or it is nested too deeply."""


def object_in(text: bytes) -> dict[str, Any] | None:
    """The JSON object in ``text``; None if it is something else, or can't be decoded (for example because a number is out
    of range)."""
    try:
        found = msgspec.json.decode(text)
    except UNDECODABLE:
        return None
    return found if isinstance(found, dict) else None
