"""Lines of JSON that an agent writes: checked once, repaired where they are not valid, and passed on as bytes. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

Kind = TypeVar("Kind")


def parsed(line: bytes, decoder: msgspec.json.Decoder[Kind]) -> tuple[Kind, bytes] | None:
    """The decoded line, and the bytes to pass on: the line's own if they are valid, else repaired ones.

    None if the line is not a JSON object.
    """
    if not line.startswith(b"{"):
        return None
    try:
        message = decoder.decode(line)
        if line.isascii() or line.decode():
            return message, line.replace(b"\r", b" ")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    repaired = _repaired(line)
    return None if repaired is None else (decoder.decode(repaired), repaired)


def _repaired(line: bytes) -> bytes | None:
    """The line as Python's ``json`` reads it: invalid bytes and unpaired surrogates become U+FFFD."""
    try:
        value = json.loads(line.decode("utf-8", "replace"), strict=False, parse_constant=_null, parse_float=_finite)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None
    return valid(text).encode()


def valid(text: str) -> str:
    """The text with U+FFFD for each unpaired surrogate, so that it can be encoded."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _null(_: str) -> None:
    """Replaces NaN and Infinity, which JSON does not have."""


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def json_object(data: Raw | bytes) -> dict[str, Any]:
    """Raises ``ValueError`` if the data is not a JSON object."""
    value = json.loads(bytes(data))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value
