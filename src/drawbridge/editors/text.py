"""Text as editors hold it (lines) and as files hold it (line ends, byte-order mark, final newline). Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Format(Struct, frozen=True):
    """How lines become a file. ``eol`` is "\\n", or "\\r\\n" where *every* line ends so; mixed ends stay in the lines."""

    eol: str = "\n"
    bom: bool = False
    final_newline: bool = True


def split(text: str) -> tuple[list[str], Format]:
    """Lines without their ends, and what ``join`` needs to give back ``text`` byte for byte."""
    raise NotImplementedError


def join(lines: Sequence[str], form: Format) -> str:
    """The inverse of ``split``."""
    raise NotImplementedError


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units: the agents' column unit. Undecodable bytes (lone surrogates here) count one each."""
    raise NotImplementedError
