"""Splits an agent's output into lines, checks and repairs their JSON, and makes text human-readable. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from drawbridge.core.json_text import UNDECODABLE

Kind = TypeVar("Kind")

LINE_LIMIT: Final = 32 * 1024 * 1024
"""The maximum size of one line, in bytes. Lines of several MB are normal, because they contain files and images that
the agent has read."""

STDERR_LIMIT: Final = 64 * 1024
JUNK_LIMIT: Final = 4 * 1024

# Terminal escape sequences, and all other control characters except tab and newline.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Lines:
    """Splits bytes into complete lines, without their newlines."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.too_long = False
        """Whether a line exceeded the limit. That line and all data that is fed later are dropped."""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that ``data`` completes."""
        if self.too_long:
            return []
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = b"".join([*self._pieces, whole[0]])
            self._pieces, self._size = [], 0
        self._pieces.append(rest)
        self._size += len(rest)
        if self._size > self._limit or (whole and len(whole[0]) > self._limit):
            self.too_long = True
            self._pieces = []
            return [line for line in whole if len(line) <= self._limit]
        return whole

    def rest(self) -> bytes:
        """Returns the bytes after the last newline and forgets them. To be called once the output has ended."""
        rest = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return rest


def parsed(line: bytes, decoder: msgspec.json.Decoder[Kind]) -> tuple[Kind, bytes] | None:
    """The decoded line, and the bytes to pass on. If the line's own bytes are valid, they are passed on with each
    carriage return replaced by a space. Otherwise, repaired bytes are passed on.

    None if the line is not a JSON object. The decoder must accept any value in each field.
    """
    if not line.startswith(b"{"):
        return None
    try:
        message = decoder.decode(line)
        if line.isascii() or line.decode():
            return message, line.replace(b"\r", b" ")
    except UNDECODABLE:
        pass
    repaired = _repaired(line)
    return None if repaired is None else (decoder.decode(repaired), repaired)


def _repaired(line: bytes) -> bytes | None:
    """The line as Python's ``json`` reads it: invalid bytes and unpaired surrogates become U+FFFD. NaN, Infinity and
    numbers that are too large become null. None if it is not JSON."""
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
    """Returns None in place of NaN or Infinity, which are not valid JSON."""


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def json_object(data: Raw | bytes) -> dict[str, Any]:
    """The JSON object in ``data``. Raises ``ValueError`` if ``data`` contains anything else, and ``RecursionError`` if
    it is nested too deeply."""
    value = json.loads(bytes(data))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def text_in(value: object) -> str:
    """``value`` if it is a string, otherwise an empty string."""
    return value if isinstance(value, str) else ""


def objects_in(value: object) -> list[dict[str, Any]]:
    """The JSON objects in the list ``value``; empty if ``value`` is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


LONGEST_SESSION_ID: Final = 200
"""The maximum length of a conversation's id, in characters."""


def session_id_of(value: object) -> str:
    """The id of the conversation that an agent's line names; empty if ``value`` is not a string or is too long."""
    return value if isinstance(value, str) and len(value) <= LONGEST_SESSION_ID else ""


class Tail:
    """Keeps the last ``limit`` bytes that were added."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        self._kept += data[-self._limit :]
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    @property
    def text(self) -> str:
        """The bytes as readable text: valid Unicode without terminal escape sequences, without control characters other
        than tabs and newlines, and without whitespace at either end."""
        return readable(bytes(self._kept[-self._limit :]).decode("utf-8", "replace"))


def readable(text: str) -> str:
    return _CONTROLS.sub("", _ESCAPES.sub("", text)).strip()


def sentence(words: str) -> str:
    """``words`` with a period at the end, unless they end with another mark that ends a sentence."""
    return words if words.endswith((".", "!", "?", "…")) else words + "."
