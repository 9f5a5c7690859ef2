"""The texts around a review: what can still be done, what the keys do now, and how much there is."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from drawbridge.text import review_words
from drawbridge.text.counts import counted
from drawbridge.tui import wording
from drawbridge.tui.review import parts as review_parts
from drawbridge.tui.review.comments import Choice
from drawbridge.tui.review.contents import ReviewContents
from drawbridge.tui.review.parts import Part

WRITTEN: Final = "Your comment is kept here until you add it: c continues, d discards it."
CHANGED: Final = "Your change to the comment is kept here until you save it: c continues, d discards it."
NOT_THERE: Final = "This change no longer needs a decision."


def ways_on(contents: ReviewContents) -> str:
    """The hints about what can still be done when there are no undecided changes left."""
    count = len(contents.commenting.all)
    found = f"{counted(count, 'comment')}: C shows {'it' if count == 1 else 'them'}.\n" if count else ""
    kept = len(contents.committing.kept) if contents.committing.is_allowed else 0
    found += f"M commits what was kept: {counted(kept, 'file')}.\n" if kept else ""
    return found + ("P pushes the branch.\n" if contents.pushing.is_waiting else "")


def about(contents: ReviewContents, part: Part | None, choice: Choice | None, editing: str | None) -> str:
    """What the keys do to the current part; empty if that needs no words. ``choice``: the lines that the user chooses
    for a comment; ``editing``: the key of the part that is being edited."""
    if contents.version is None:
        return "Loading the review…"
    if choice is not None:
        return f"Comment on {choice.place.words}: Enter starts writing. j k: another line, J K: more lines, Esc: back."
    commenting, drafts, has_parts = contents.commenting, contents.drafts, bool(contents.parts)
    if not contents.may_decide and not commenting.may_write:
        return review_parts.VIEW_ONLY if has_parts else ""
    written = commenting.at(part.key) if part is not None else None
    kept = CHANGED if written is not None and commenting.draft_of(written) is not None else WRITTEN
    if part is not None and part.is_gone and written is not None:
        return f"{NOT_THERE} {kept}"
    if part is not None and part.is_gone:
        keys = "Esc, then d" if editing == part.key else "d"
        return f"{NOT_THERE} What you wrote is kept here until you discard it ({keys})."
    if editing is not None:
        return contents.why_not_written or "What you write replaces the new lines. Esc keeps it as a draft."
    if part is not None and part.key in drafts:
        return "Your edit is kept as a draft: e continues, d discards it. Keep accepts the change without it."
    if written is not None:
        return kept
    if not contents.may_decide:
        return review_parts.COMMENTS_ONLY if has_parts else ""
    return contents.why_not_written if has_parts else ""


def status(contents: ReviewContents, part: Part | None, *, needs_user: bool) -> Content:
    """The status line: how much is in the review, and the file of the current part. ``needs_user``: whether an approval
    request is open in the conversation."""
    pieces: list[tuple[str, str]] = [("● Needs you (Esc) · ", "$wait")] if needs_user else []
    if contents.version is not None:
        found = review_words.numbers({"files": contents.files, "more": contents.more})
        count = len([one for one in contents.every if not one.is_gone])
        if part is not None and len(contents.parts) > 1:
            pieces.append((f"{contents.parts.index(part) + 1} of {len(contents.parts)} · ", "$ink"))
        new = len(contents.visiting.new)
        if contents.visiting.hides_others:
            pieces.append((review_words.only_new_words(new, count), "$wait"))
        else:
            pieces.append((f"{counted(found.files, 'file')} · {review_words.changes(count)}", "$soft"))
            pieces += [(f" +{found.added}", "$yes"), (f" −{found.removed}", "$no")]
            if new:
                pieces.append((f" · {new} {review_words.NEW}", "$wait"))
        if drafts := len(contents.commenting.drafts):
            pieces.append((f" · {counted(drafts, 'draft')}", "$wait"))
    if part is not None:
        pieces.append((f"  {wording.one_line(part.path)}", "$accent"))
    return Content.assemble(*pieces)
