"""Tracks the user's visits to the review that an editor shows, and determines which changes are new and whether only
these are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from msgspec.structs import replace

from drawbridge.core.review_memory import ReviewMemory, review_key
from drawbridge.editors.port import Review, ReviewedFile, ReviewedHunk
from drawbridge.text import review_words
from drawbridge.text.review_visits import ReviewVisits


class Visiting:
    """The visits to the review of ``session`` (empty if no server has it) in ``directory``. What the user has seen is
    stored in ``memory``, in a thread."""

    def __init__(self, memory: ReviewMemory, directory: str, session: str) -> None:
        self.directory = directory
        self.key = review_key(directory, session)
        self._memory = memory
        self._visits = ReviewVisits()

    async def begin(self) -> None:
        """Begins a visit. Changes that the user has seen in other programs on this machine do not count as new
        either."""
        remembered = await asyncio.to_thread(self._memory.of, self.key)
        self._visits.saw(remembered.seen)
        self._visits.begin()

    async def saw(self, hunks: Collection[str], review: Review) -> None:
        """Records that the user has seen these hunks of the review."""
        self._visits.saw(id for id in hunks if id in review.hunk_ids)
        await asyncio.to_thread(self._memory.saw, self.key, self._visits.seen, review.hunk_ids)

    def show_only_new(self, only_new: bool) -> None:
        self._visits.show_only_new(only_new)

    def hides_others(self, review: Review) -> bool:
        """Whether only the new changes of the review are shown."""
        return self._visits.only_new and bool(self._visits.new(review.hunk_ids))

    def marked(self, review: Review) -> Review:
        """The review with its new changes marked or, if the others are hidden, with a title that states this."""
        new, only_new = self._visits.new(review.hunk_ids), self.hides_others(review)
        if not new:
            return review

        def hunk_of(hunk: ReviewedHunk) -> ReviewedHunk:
            text = hunk.text if only_new else f"{review_words.NEW}  {hunk.text}"
            return replace(hunk, text=text, is_new=True) if hunk.id in new else hunk

        def file_of(file: ReviewedFile) -> ReviewedFile:
            return replace(file, hunks=tuple(map(hunk_of, file.hunks)))

        title = f"{review.title} · {len(new)} {review_words.NEW}"
        if only_new:
            title = review_words.only_new_words(len(new), review.count)
        return replace(review, title=title, files=tuple(map(file_of, review.files)), only_new=only_new)

    def all_words(self, review: Review) -> str:
        """The reason why all changes are shown to a user who wants to see only what is new."""
        return review_words.all_words(has_new=self._visits.has_new(review.hunk_ids))
