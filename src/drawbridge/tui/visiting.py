"""The user's visit to one review: which changes are new since the last one, and whether only these are shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from drawbridge.core.review_memory import review_key
from drawbridge.text.review_visits import ReviewVisits
from drawbridge.tui.client import Client
from drawbridge.tui.review.parts import Part


class Visiting:
    """One visit to the review of a project. Reads what the user has seen from this machine, and begins the
    visit."""

    def __init__(self, client: Client, project: str) -> None:
        self._memory = client.memory
        path, machine = str(client.projects.all.get(project, {}).get("path", "")), client.connection.machine
        # The same path is another directory on another machine.
        self._directory = f"{machine}:{path}" if machine else path
        self._key = review_key(self._directory, project)
        self._visits = client.reviews.visits.setdefault(project, ReviewVisits())
        self._visits.saw(self._memory.of(self._key).seen)
        self._visits.begin()
        self._all: Sequence[Part] = ()
        self.new = frozenset[str]()
        """The keys of the parts that are new."""

    def update(self, parts: Sequence[Part]) -> bool:
        """Stores all parts of the review. Returns whether the set of new parts has changed."""
        before, self._all = self.new, parts
        self.new = self._visits.new([part.key for part in parts if part.hunk is not None])
        return self.new != before

    @property
    def hides_others(self) -> bool:
        """Whether only the new changes are shown."""
        return self._visits.only_new and bool(self.new)

    def switch(self) -> None:
        """Shows only the new changes, or all of them again."""
        self._visits.show_only_new(not self.hides_others)

    def shown(self, kept: Collection[str | None]) -> list[Part]:
        """The parts to show. ``kept``: the keys of parts for which the user wrote something. Files that are too large
        to be shown are never hidden, because it is not known what in them is new.
        """
        keys = {part.key for part in self._all if part.is_gone or part.hunk is None} | self.new | set(kept)
        return [part for part in self._all if not self.hides_others or part.key in keys]

    def saw(self, keys: Iterable[str]) -> None:
        hunks = {part.key for part in self._all if part.hunk is not None}
        self._visits.saw(key for key in keys if key in hunks)

    def saw_notice(self) -> bool:
        """Records that the user is shown the notice about the directory. Returns whether this is the first time."""
        return self._memory.saw_notice(self._directory)

    def end(self) -> None:
        """Stores what the user has seen, unless no review was shown."""
        if self._all:
            self._memory.saw(self._key, self._visits.seen, {part.key for part in self._all})
