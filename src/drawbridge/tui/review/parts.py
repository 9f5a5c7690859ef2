"""The parts of a review that the user decides on, as numbered lines and with the web UI's wording. Does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, NamedTuple

from drawbridge.text.review_words import File, Hunk, end_words, lines_of
from drawbridge.tui.difference import Difference, Line, Mark, marked_words

CONTEXT: Final = 3
"""The number of unchanged lines that are shown on each side of a hunk."""

MARKED: Final = 200
"""The maximum number of pairs of lines in a hunk in which words are compared."""

VIEW_ONLY: Final = "View only. Decide from another device."


COMMENTS_ONLY: Final = "You can comment here. Decide from another device."


class Part(NamedTuple):
    """A unit that the user decides on: a hunk, or a file with hunks that were too large for the message (``hunk`` is
    None).

    ``draft``: None if the part is still in the review; otherwise the user's own text, which is still shown, and
    ``hunk`` is None as well. The text is empty if the user has only begun a comment there.
    """

    key: str
    file: File
    hunk: Hunk | None = None
    draft: str | None = None

    @property
    def path(self) -> str:
        return str(self.file["path"])

    @property
    def is_gone(self) -> bool:
        return self.draft is not None


class Context(NamedTuple):
    """Unchanged lines around a hunk."""

    before: Sequence[str] = ()
    after: Sequence[str] = ()


class HunkLines(NamedTuple):
    """A hunk with the lines around it. ``texts``: the parts of the old and the new text that are shown. ``above``: the
    numbers of lines of the old and the new file that precede them. ``end``: the change to the newline at the end of the
    file, in words; empty if it does not change.
    """

    lines: list[Line]
    texts: tuple[str, str]
    above: tuple[int, int]
    end: str = ""


def file_key(path: str) -> str:
    """The key of the only part of a file without hunks."""
    return f"file {path}"


def parts(files: Iterable[File]) -> list[Part]:
    """The parts of the files, in the order in which they are shown."""
    return [
        part
        for file in files
        for part in (
            [Part(str(hunk["id"]), file, hunk) for hunk in file["hunks"]] or [Part(file_key(str(file["path"])), file)]
        )
    ]


def follow(before: Sequence[str], now: Sequence[str], key: str | None) -> str | None:
    """The key of the part to go to: ``key`` if it is still there, otherwise the next remaining part after it, otherwise
    the last; the first if ``key`` was not in ``before``. None if ``now`` is empty."""
    if key in now or not now:
        return key if now else None
    if key not in before:
        return now[0]
    left = set(now)
    return next((one for one in before[before.index(key) + 1 :] if one in left), now[-1])


def _span(hunk: Hunk) -> tuple[int, int]:
    """The lines of the current file that the hunk covers, from 0; the end is exclusive."""
    count = len(lines_of(hunk["added"]))
    start = int(hunk["new_start"]) - (1 if count else 0)
    return start, start + count


def contexts(text: str, file: File, count: int = CONTEXT) -> dict[str, Context]:
    """The lines around each hunk, up to its neighbors; empty if ``text`` is not the file that the hunks are about."""
    lines = lines_of(text)
    hunks = [one for one in file["hunks"] if one["kind"] == "lines"]
    spans = [_span(one) for one in hunks]
    if any(lines[start:end] != lines_of(one["added"]) for one, (start, end) in zip(hunks, spans, strict=True)):
        return {}
    found = {}
    for at, (one, (start, end)) in enumerate(zip(hunks, spans, strict=True)):
        first = spans[at - 1][1] if at else 0
        last = spans[at + 1][0] if at + 1 < len(spans) else len(lines)
        around = lines[max(first, start - count) : start], lines[end : min(last, end + count)]
        found[str(one["id"])] = Context(*map(tuple, around))
    return found


def hunk_lines(hunk: Hunk, file: File, around: Context = Context(), *, marked: bool = True) -> HunkLines:  # noqa: B008  # immutable
    """The lines of a hunk with the lines around it. Removed lines come first, as in ``git diff``. "\\r" is shown only
    if the line endings are mixed or changed.

    ``marked``: whether to find the words in which lines differ, which takes longer than everything else.
    """
    texts = hunk["removed"], hunk["added"]
    is_plain = any(texts) and all(not text or _is_crlf(text) for text in texts)

    def plain(lines: Iterable[str]) -> list[str]:
        return [line.removesuffix("\r") for line in lines] if is_plain else list(lines)

    (old, new), before, after = (plain(lines_of(text)) for text in texts), plain(around.before), plain(around.after)
    marks = _marks(old, new) if marked else {}
    lead = len(before)
    lines = [Line("context", text, number) for number, text in enumerate(before, 1)]
    sides: tuple[tuple[Literal["removed", "added"], list[str]], ...] = (("removed", old), ("added", new))
    lines += [
        Line(kind, text, lead + number + 1, marks.get((kind, number), ()))
        for kind, side in sides
        for number, text in enumerate(side)
    ]
    lines += [Line("context", text, number) for number, text in enumerate(after, lead + len(new) + 1)]
    above = (
        int(hunk["old_start"]) - (1 if texts[0] else 0) - lead,
        int(hunk["new_start"]) - (1 if texts[1] else 0) - lead,
    )
    shown = "\n".join([*before, *old, *after]), "\n".join([*before, *new, *after])
    return HunkLines(lines, shown, above, end_words(*texts) if file["change"] == "changed" else "")


def _marks(old: Sequence[str], new: Sequence[str]) -> dict[tuple[str, int], tuple[Mark, ...]]:
    found = {}
    for at, pair in enumerate(zip(old[:MARKED], new[:MARKED], strict=False)):
        found["removed", at], found["added", at] = marked_words(*pair)
    return found


def _is_crlf(text: str) -> bool:
    return "\r\n" in text and text.count("\r\n") == text.count("\n")


def difference(found: HunkLines) -> Difference:
    """A hunk's lines in the form that ``DiffLines`` accepts."""
    return Difference(found.lines, added=0, removed=0, notes=[])


def highest(file: File) -> int:
    """A line number with at least as many digits as any in the file's hunks."""
    ends = (
        int(hunk[start]) + len(lines_of(hunk[side])) + CONTEXT
        for hunk in file["hunks"]
        for start, side in (("old_start", "removed"), ("new_start", "added"))
    )
    return max(ends, default=1)


def why_not_all(shown: Collection[Part], more: int, drafts: Collection[str], what: str = "all changes at once") -> str:
    """The reason why these parts can't be decided on together; empty if they can. ``more``: the number of files that
    were not sent. ``what``: the parts in words, after "decide on"."""
    if more or any(part.hunk is None for part in shown):
        return f"You can’t decide on {what}: some changes are not shown here."
    if any(part.key in drafts for part in shown):
        return f"Finish or discard your edit to decide on {what}."
    return ""


def may_edit(part: Part) -> bool:
    """Whether the user can replace the part's new lines."""
    hunk, file = part.hunk, part.file
    if hunk is None or part.is_gone:
        return False
    return hunk["kind"] == "lines" or (hunk["kind"] == "file" and file["change"] == "added" and not file.get("binary"))


def field_text(hunk: Hunk) -> str:
    """The new lines for a text field: with "\\n" as the only line ending, and without the final one."""
    return str(hunk["added"]).replace("\r\n", "\n").removesuffix("\n")


def edited_text(hunk: Hunk, field: str) -> str:
    """The text to send for the content of the field that began with ``field_text``, with the hunk's line endings."""
    model = str(hunk["added"] or hunk["removed"])
    text = f"{field}\n" if field and model.endswith("\n") else field
    return text.replace("\n", "\r\n") if model.count("\r\n") * 2 > model.count("\n") else text
