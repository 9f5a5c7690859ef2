"""The comments on a review as the server stores them: by id, in the order in which they were written. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.server.events import ReviewComment

MOST_COMMENTS: Final = 200

COMMENTS_BYTES: Final = 200_000
"""The maximum size of all comments on a review as JSON, in bytes. The message with the review contains them."""


class RememberedComment(Struct, frozen=True):
    """A comment in the review. ``seq``: the number of the record that added it or, for a terminal session, whose
    directory's review is shared, the number of the change that added it. ``changes``: how often it has changed,
    including when it was added. ``begun``: whether the run that it was sent with has begun; ``steered``: whether it was
    sent into a run that had already begun.
    """

    comment: ReviewComment
    seq: int = 0
    changes: int = 0
    begun: bool = False
    steered: bool = False

    @property
    def size(self) -> int:
        """The comment's size as JSON, in bytes."""
        return len(msgspec.json.encode(self.comment)) + 1

    def now(self, *, begun: bool = False, steered: bool = False, **changed: object) -> RememberedComment:
        """The comment after a change. ``changed``: the fields that change, with their new values."""
        comment = msgspec.structs.replace(self.comment, **changed)
        return RememberedComment(comment, self.seq, self.changes + 1, begun, steered)


def sized(comments: Mapping[str, RememberedComment], comment: ReviewComment) -> tuple[int, int]:
    """The number of all comments that are not resolved, including this one, and their size in bytes."""
    kept = [one for id, one in comments.items() if id != comment.comment_id and one.comment.state != "resolved"]
    return len(kept) + 1, sum(one.size for one in kept) + RememberedComment(comment).size


def change(comments: dict[str, RememberedComment], id: str, comment: ReviewComment | None, seq: int) -> None:
    """Stores a comment that was written or changed; None removes it. ``seq``: as in ``RememberedComment``, if the
    comment is new. If there are too many comments, or they are too large, drops the oldest resolved ones."""
    if comment is None:
        comments.pop(id, None)
        return
    known = comments.get(id, RememberedComment(comment, seq))
    comments[id] = msgspec.structs.replace(known, comment=comment, changes=known.changes + 1)
    room = COMMENTS_BYTES - sum(one.size for one in comments.values())
    for old, one in list(comments.items()):
        if (len(comments) > MOST_COMMENTS or room < 0) and one.comment.state == "resolved" and old != id:
            del comments[old]
            room += one.size


def send(
    comments: dict[str, RememberedComment],
    ids: Iterable[str],
    run_id: str,
    *,
    begun: bool = False,
    steered: bool = False,
) -> None:
    """Marks the comments with these ids, if they exist, as sent with this run. ``begun``, ``steered``: as in
    ``RememberedComment``."""
    for id in ids:
        if id in comments:
            comments[id] = comments[id].now(begun=begun, steered=steered, state="sent", run_id=run_id)
