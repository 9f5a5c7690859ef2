"""Comments on lines of a review: the lines that can be chosen, where a comment is shown, and its text. Does no I/O.

The web UI follows the same rules (``web/src/review/comments.ts``).
"""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from drawbridge.text import review_words
from drawbridge.text.review_words import Comment, Hunk, Side, lines_of
from drawbridge.tui.review.parts import Context, Part

FARTHEST: Final = 10**9
"""A distance in lines that is greater than the distance to any hunk with lines."""


class Row(NamedTuple):
    """A line of a part as it is in the file, without the line feed. ``number``: its number in the old or the new file,
    depending on ``side``, from 1."""

    side: Side
    number: int
    text: str


class Place(NamedTuple):
    """The lines ``first`` to ``last``, from 1, of the old or the new file (``side``)."""

    side: Side
    first: int
    last: int

    @property
    def words(self) -> str:
        return review_words.lines_words(self.side, self.first, self.last)


def start_of(hunk: Hunk, side: Side) -> int:
    """The number of a hunk's first line on a side; if it has no lines there, the number of the line after it."""
    start, text = ("new_start", "added") if side == "new" else ("old_start", "removed")
    return int(hunk[start]) + (0 if hunk[text] else 1)


def rows(hunk: Hunk, around: Context = Context()) -> list[Row]:  # noqa: B008  # immutable
    """The lines of a hunk and the lines around it, in the order in which they are shown. Unchanged lines are listed on
    the new side."""
    if hunk["kind"] in review_words.ASIDE:
        return []
    old, new = start_of(hunk, "old"), start_of(hunk, "new")
    added = lines_of(hunk["added"])
    sides: tuple[tuple[Side, int, Sequence[str]], ...] = (
        ("new", new - len(around.before), around.before),
        ("old", old, lines_of(hunk["removed"])),
        ("new", new, added),
        ("new", new + len(added), around.after),
    )
    return [Row(side, number, text) for side, first, lines in sides for number, text in enumerate(lines, first)]


def quote_of(shown: Iterable[Row], place: Place) -> str | None:
    """The text of these lines; None if not all of them are shown."""
    found = [row.text for row in shown if row.side == place.side and place.first <= row.number <= place.last]
    return "".join(f"{line}\n" for line in found) if found and len(found) == place.last - place.first + 1 else None


def whole(hunk: Hunk) -> Place | None:
    """The new lines of a hunk or, without new lines, the removed ones; None if it has no lines."""
    side: Side = "new" if hunk["added"] else "old"
    count = (
        len(lines_of(hunk["added" if side == "new" else "removed"])) if hunk["kind"] not in review_words.ASIDE else 0
    )
    start = start_of(hunk, side)
    return Place(side, start, start + count - 1) if count else None


class Choice(NamedTuple):
    """The lines that the user chose: from ``anchor`` to ``end``, both included, in either order. ``is_whole``:
    whether no key has changed the initial choice yet."""

    key: str
    side: Side
    anchor: int
    end: int
    is_whole: bool = False

    @property
    def place(self) -> Place:
        return Place(self.side, min(self.anchor, self.end), max(self.anchor, self.end))

    def has(self, row: Row) -> bool:
        return row.side == self.side and self.place.first <= row.number <= self.place.last


def chosen(part: Part) -> Choice | None:
    """The initial choice: ``whole`` for the part's hunk. None if the part has no hunk, or if the hunk has no lines."""
    place = whole(part.hunk) if part.hunk is not None else None
    return Choice(part.key, place.side, place.first, place.last, is_whole=True) if place is not None else None


def stepped(choice: Choice, shown: Sequence[Row], by: int) -> Choice:
    """The choice of the next line (``by`` is 1) or the previous one (-1); from the initial choice, of the hunk's first
    line (1) or its last one (-1)."""
    at = {(row.side, row.number): index for index, row in enumerate(shown)}
    if choice.is_whole:
        number = choice.anchor if by > 0 else choice.end
        return Choice(choice.key, choice.side, number, number)
    row = shown[max(0, min(len(shown) - 1, at[choice.side, choice.end] + by))]
    return Choice(choice.key, row.side, row.number, row.number)


def stretched(choice: Choice, shown: Iterable[Row], by: int) -> Choice:
    """The choice with its moving end one line further down (1) or up (-1) on the same side. If no such line is shown,
    the choice is unchanged."""
    end = choice.end + by
    there = any(row.side == choice.side and row.number == end for row in shown)
    return Choice(choice.key, choice.side, choice.anchor, end) if there else choice


@dataclass(slots=True, eq=False)
class Writing:
    """The text that the user is writing: a new comment, or a change to a draft (``comment_id``).

    ``part``: the key of the part at which it was begun; ``offset``: the distance of its first line from the hunk's
    first line on the same side, so that the text follows the hunk. ``suggestion``: the new text for the lines; None
    without a suggestion.
    """

    id: str
    part: str
    path: str
    side: Side
    line: int
    offset: int
    quote: str
    comment_id: str | None = None
    text: str = ""
    suggestion: str | None = None
    is_busy: bool = False
    note: str = ""

    def place(self, hunk: Hunk | None) -> Place:
        """The lines that the text is about. ``hunk``: the hunk as it is now; None if the hunk no longer needs a
        decision."""
        line = self.line if hunk is None else start_of(hunk, self.side) + self.offset
        return Place(self.side, line, line + len(lines_of(self.quote)) - 1)

    @property
    def is_complete(self) -> bool:
        """Whether it contains anything to store. A suggestion that is identical to the quoted lines does not count."""
        return bool(self.text.strip()) or (
            self.suggestion is not None and self.suggestion != review_words.suggested_field(self.quote)
        )

    def is_unsaved(self, draft: Comment | None) -> bool:
        """Whether it contains anything that the server does not have. ``draft``: the draft that it changes; None for a
        new comment."""
        if draft is None:
            return self.is_complete
        return self.text.strip() != draft["text"] or self.suggestion != _field_of(draft)

    def wish(self, place: Place, draft: Comment | None) -> dict[str, Any]:
        """The data of the request that stores the text: as a new comment at ``place`` or, if ``draft`` is not None, as
        a change to that draft."""
        suggestion = None if self.suggestion is None else review_words.suggested_text(self.quote, self.suggestion)
        words = {"text": self.text, **({} if suggestion is None else {"suggestion": suggestion})}
        if draft is not None:
            return {"comment_id": draft["comment_id"], **words}
        where = {"path": self.path, "side": place.side, "line": place.first, "end_line": place.last}
        return {**where, "quote": self.quote, **words}

    def request_id(self, wish: Mapping[str, Any]) -> str:
        """The id of the request that stores the text. It is the same for the same text, so that sending the text again
        after a lost reply does not create a second draft."""
        return str(uuid.uuid5(uuid.UUID(self.id), json.dumps(wish, sort_keys=True)))


def _field_of(draft: Comment) -> str | None:
    suggestion = draft.get("suggestion")
    return review_words.suggested_field(suggestion) if isinstance(suggestion, str) else None


def begun(part: Part, place: Place, quote: str) -> Writing:
    """A new comment on a part with a hunk."""
    assert part.hunk is not None
    offset = place.first - start_of(part.hunk, place.side)
    return Writing(str(uuid.uuid4()), part.key, part.path, place.side, place.first, offset, quote)


def changing(draft: Comment, part: Part | None) -> Writing:
    """A change to a draft. ``part``: the part at which the draft is shown; None if it is not shown at a part."""
    offset = (
        int(draft["line"]) - start_of(part.hunk, draft["side"]) if part is not None and part.hunk is not None else 0
    )
    where = (part.key if part is not None else "", draft["path"], draft["side"], int(draft["line"]), offset)
    return Writing(
        str(uuid.uuid4()), *where, draft["quote"], draft["comment_id"], draft["text"], _field_of(draft)
    )  # fmt: skip


# Comments as they are shown.

Shown: TypeAlias = Literal["text", "hint", "code"]


class Card(NamedTuple):
    """A comment as it is shown. ``state``: as in the protocol, or ``writing`` for text that the server does not have
    yet."""

    state: str
    who: str
    tags: str
    body: tuple[tuple[Shown, str], ...]


class Remark(NamedTuple):
    """A comment on a part. ``place``: its lines; None if they have changed. ``card``: what is shown below the lines;
    ``apart``: what is shown instead if the lines are not shown, with a copy of them."""

    place: Place | None
    card: Card
    apart: Card


class Remarks(NamedTuple):
    """The comments on a part, and text that names the comments that the part answers."""

    answers: str = ""
    all: tuple[Remark, ...] = ()


def place_of(comment: Comment) -> Place:
    return Place(comment["side"], int(comment["line"]), int(comment["end_line"]))


def part_of(comment: Comment, parts: Iterable[Part]) -> Part | None:
    """The part at which a comment is shown: the one with its lines, otherwise the nearest in its file; None if no part
    of the file is left in the review."""
    place = place_of(comment)

    def distance(part: Part) -> int:
        hunk = part.hunk
        if hunk is None or hunk["kind"] in review_words.ASIDE:
            return FARTHEST
        start = start_of(hunk, place.side)
        count = len(lines_of(hunk["added" if place.side == "new" else "removed"]))
        return max(0, start - place.last, place.first - (start + max(1, count) - 1))

    return min(
        (part for part in parts if part.path == comment["path"] and not part.is_gone), key=distance, default=None
    )


def arranged(
    comments: Iterable[Comment], writings: Iterable[Writing], parts: Sequence[Part], me: str
) -> dict[str, Remarks]:
    """The comments and unsaved texts on each part, by the part's key. ``me``: this client's name."""
    comments = list(comments)
    by_id = {str(one["comment_id"]): one for one in comments}
    changed = {one.comment_id: one for one in writings if one.comment_id in by_id}
    found: defaultdict[str, list[Remark]] = defaultdict(list)
    answering = answers(parts)
    for comment in comments:
        part = part_of(comment, parts)
        if part is not None:
            change = changed.get(comment["comment_id"]) if review_words.is_draft(comment) else None
            found[part.key].append(_remark(comment, change, answering.get(comment["comment_id"], ()), me))
    hunks = {part.key: part.hunk for part in parts}
    for one in writings:
        draft = by_id.get(one.comment_id or "")
        if one.part in hunks and (draft is None or not review_words.is_draft(draft)) and one.is_complete:
            place = one.place(hunks[one.part])
            card = _written(one, place, apart=False)
            found[one.part].append(Remark(place, card, _written(one, place, apart=True)))
    keys = {part.key: _answered_words(part, by_id) for part in parts}
    return {
        key: Remarks(words, tuple(found.get(key, ()))) for key, words in keys.items() if words or key in found
    }  # fmt: skip


def answers(parts: Iterable[Part]) -> dict[str, list[Part]]:
    """The parts that answer each comment, by the comment's id."""
    found: defaultdict[str, list[Part]] = defaultdict(list)
    for part in parts:
        for id in (part.hunk or {}).get("answers", ()):
            found[id].append(part)
    return found


def _answered_words(part: Part, comments: Mapping[str, Comment]) -> str:
    known = [comments[id] for id in (part.hunk or {}).get("answers", ()) if id in comments]
    return review_words.answered_words(known) if not part.is_gone else ""


def _remark(comment: Comment, change: Writing | None, answering: Sequence[Part], me: str) -> Remark:
    place = None if comment.get("outdated") else place_of(comment)
    if change is not None and change.is_unsaved(comment):
        where = place_of(comment)
        cards = (_written(change, where, apart=apart, is_change=True) for apart in (False, True))
        return Remark(place, *cards)
    return Remark(place, card(comment, answering, me), card(comment, answering, me, apart=True))


def _written(one: Writing, place: Place, *, apart: bool, is_change: bool = False) -> Card:
    """Text that the server does not have. ``is_change``: whether it changes a draft that the server has."""
    body: list[tuple[Shown, str]] = [("code", one.quote)] if apart else []
    body += _words(one.text, one.suggestion)
    state = "Not saved yet" if is_change else "Not added yet"
    return Card("writing", "You", f"{state} · {place.words}", tuple(body))


def card(comment: Comment, answering: Sequence[Part], me: str, *, apart: bool = False, is_open: bool = False) -> Card:
    """A comment as it is shown. ``apart``: whether it is not next to its lines, so that it contains a copy of them. A
    resolved comment is one line unless ``is_open``."""
    state = review_words.state_of(comment)
    if state == "resolved" and not is_open:
        by = "you" if comment.get("resolved_by") == me else comment.get("resolved_by") or "somebody"
        return Card(state, "", f"Resolved by {by}: {review_words.short_words(comment)}", ())
    place = place_of(comment)
    tags = [review_words.STATES[state], *(["Outdated"] if comment.get("outdated") else [])]
    if apart or place.last > place.first:
        tags.append(place.words)
    body: list[tuple[Shown, str]] = []
    if apart:
        body += [("hint", review_words.OUTDATED)] if comment.get("outdated") else []
        body.append(("code", str(comment["quote"])))
    body += _words(comment["text"], comment.get("suggestion"))
    if answering:
        words = (review_words.answer_words(part.path, part.hunk, comment["path"]) for part in answering)
        body.append(("hint", f"Answered by: {' · '.join(words)}"))
    return Card(state, "You" if comment["by"] == me else str(comment["by"]), " · ".join(tags), tuple(body))


def _words(text: str, suggestion: str | None) -> list[tuple[Shown, str]]:
    found: list[tuple[Shown, str]] = [("text", text)] if text else []
    if suggestion is not None:
        found.append(("hint", review_words.suggestion_words(suggestion)))
        found += [("code", suggestion)] if suggestion else []
    return found
