"""Text as in editors (lines) and as in files (line endings, byte-order mark, final newline). Does no I/O.

A text is a ``str`` in which bytes that were not UTF-8 survive as lone surrogates U+DC80..U+DCFF (``surrogateescape``)
and a byte-order mark is U+FEFF. Only "\\n" ends a line, or "\\r\\n" in a text in which every line ends that way. A lone
"\\r", U+2028, U+0085 or a form feed is an ordinary character, as it is to editors and to ``git``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

BOM = "\ufeff"


class Format(NamedTuple):
    """The format in which lines become a file.

    ``eol`` is "\\n", or "\\r\\n" if *every* line ends that way. Mixed line endings stay in the lines.
    """

    eol: str = "\n"
    bom: bool = False
    final_newline: bool = True


class Split(NamedTuple):
    """A text as ``split`` returns it."""

    lines: list[str]
    form: Format


def split(text: str) -> Split:
    """The lines without their line endings, and what ``join`` needs to restore ``text`` byte for byte.

    An empty text has no lines: ``""`` is ``[]``, while ``"\\n"`` is ``[""]``. Its format is the default one, apart from
    a byte-order mark, so that lines put into an empty file get the usual line endings. (Neovim shows both as one empty
    line, but Drawbridge does not.)
    """
    bom = text.startswith(BOM)
    if bom:
        text = text[1:]
    if not text:
        return Split([], Format(bom=bom))
    # Searching for one character is 40 times faster than counting two, and most texts contain no "\r".
    eol = "\r\n" if "\r" in text and text.count("\r\n") == text.count("\n") > 0 else "\n"
    lines = text.split(eol)
    final_newline = not lines[-1]
    if final_newline:
        lines.pop()
    return Split(lines, Format(eol, bom, final_newline))


def join(lines: Sequence[str], form: Format) -> str:
    """The inverse of ``split``. Without lines, the text is empty apart from a byte-order mark, whatever
    ``form.final_newline`` is."""
    bom = BOM if form.bom else ""
    if not lines:
        return bom
    return bom + form.eol.join(lines) + (form.eol if form.final_newline else "")


def utf16_length(text: str) -> int:
    """The length in UTF-16 code units, in which agents count columns. Each undecodable byte (a lone surrogate here)
    counts as one."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def format_changes(old: Format, new: Format) -> list[str]:
    """The changes to a file's format, in short clauses for the user, because a list of lines can't show them."""
    changes = []
    if old.eol != new.eol:
        # The text does not claim that the line endings change, because Claude Code (2.1.329) proposes an Edit of a CRLF
        # file with LF, but writes CRLF anyway.
        changes.append("proposed with CRLF line endings" if new.eol == "\r\n" else "proposed with LF line endings")
    if old.bom != new.bom:
        changes.append("a byte-order mark is added" if new.bom else "the byte-order mark is removed")
    if old.final_newline != new.final_newline:
        is_added = new.final_newline
        changes.append(f"{'a newline is added at' if is_added else 'the newline is removed from'} the end of the file")
    return changes
