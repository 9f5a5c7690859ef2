"""The change that a person decides on: a proposal, merged with the user's unsaved changes or with changes that were
made to the file after the agent proposed it. Does no I/O.
"""

from __future__ import annotations

from msgspec import Struct

from drawbridge import text
from drawbridge.core.errors import Refused, UnusableFile
from drawbridge.editors import files
from drawbridge.text import hunks


class Draft(Struct, frozen=True):
    """The user's text, the text that would be written, and the diff. ``note``: a note for the user, such as that the
    text contains other changes; None for no note. ``lines``: both texts, split into lines."""

    old_text: str
    new_text: str
    hunks: tuple[hunks.Hunk, ...]
    note: str | None
    lines: tuple[text.Split, text.Split]


def draft(seen: str, now: str, unsaved: str | None, new_text: str) -> Draft:
    """The proposal ``new_text``, merged with the user's unsaved changes or, without any, with the changes that were
    made to the file since the agent proposed it.

    ``seen``: the file when the agent made its proposal; ``now``: the current file; ``unsaved``: the editor's text if it
    has unsaved changes, otherwise None. Raises ``Refused`` if the proposal and the other changes change the same or
    adjacent lines in different ways, since no answer to such a diff would preserve both.
    """
    ours = now if unsaved is None else unsaved
    if ours == seen:
        return drafted(ours, new_text, None)
    merged = _merge(seen, ours, new_text, unsaved=unsaved is not None)
    return drafted(ours, merged, "Your unsaved changes are part of this text." if unsaved is not None else CHANGED_NOTE)


def drafted(old_text: str, new_text: str, note: str | None) -> Draft:
    """The change from one text to another, without a merge."""
    lines = text.split(old_text), text.split(new_text)
    return Draft(old_text, new_text, hunks.diff(lines[0].lines, lines[1].lines), note, lines)


CHANGED_NOTE = "The file has changed since the agent proposed this; both changes are in this text."


def _merge(base: str, ours: str, theirs: str, *, unsaved: bool) -> str:
    base_lines, base_form = text.split(base)
    our_lines, our_form = text.split(ours)
    their_lines, their_form = text.split(theirs)
    merged = hunks.merge(base_lines, our_lines, their_lines)
    if isinstance(merged, hunks.Overlap):
        where = f"line {merged.start + 1} of the saved file"
        if unsaved:
            raise Refused(
                f"The proposal conflicts with unsaved changes in the editor ({where}), so it can't be shown there. Save "
                "or undo these changes first, or decide in the agent's own dialog.",
                "{agent}'s change to {file} conflicts with your unsaved changes. "
                "Answer {where}, or reject it there, save, and ask again.",
            )
        raise Refused(
            f"The proposal conflicts with a change that was made to the file in the meantime ({where}), so it can't be "
            "shown in the editor. Decide in the agent's own dialog.",
            "{agent}'s change to {file} conflicts with a newer change to the file. Answer {where}.",
        )
    form = text.Format(
        eol=their_form.eol if their_form.eol != base_form.eol else our_form.eol,
        bom=their_form.bom if their_form.bom != base_form.bom else our_form.bom,
        final_newline=(
            their_form.final_newline if their_form.final_newline != base_form.final_newline else our_form.final_newline
        ),
    )
    return text.join(merged, form)


def check_text(new_text: str) -> None:
    """Raises ``UnusableFile`` for proposed text that can't be shown, because it contains a NUL, is not valid Unicode,
    or is too large."""
    if "\0" in new_text:
        raise UnusableFile("The proposed text contains NUL characters: it is binary and can't be shown.")
    try:
        size = len(new_text) if new_text.isascii() else len(new_text.encode())
    except UnicodeEncodeError:
        raise UnusableFile("The proposed text is not valid Unicode.") from None
    if size > files.FILE_LIMIT:
        raise UnusableFile(f"The proposed text is {size:,} bytes; the limit is {files.FILE_LIMIT:,}.")
