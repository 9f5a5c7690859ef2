"""Determines which changes of a review are new to the user of one client. Does no I/O.

The web UI has the same rules (``web/src/review/open-review.ts``): a visit begins when the user opens the review, and
when a run ends while it is open. A change is new if the user had not seen it before the current visit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class ReviewVisits:
    """The user's visits to one review."""

    def __init__(self, seen: Iterable[str] = ()) -> None:
        """``seen``: the ids of the hunks that the user has seen, on earlier visits or in another client."""
        self._seen = dict.fromkeys(seen)
        self._before = frozenset[str]()
        self.only_new = False
        """Whether the user wants to see only what is new."""

    @property
    def seen(self) -> list[str]:
        """The ids of all hunks that the user has seen, in the order in which they were first seen."""
        return list(self._seen)

    def begin(self) -> None:
        """Begins a visit. Changes that the user has already seen do not count as new in it."""
        self._before = frozenset(self._seen)

    def saw(self, hunks: Iterable[str]) -> None:
        self._seen.update(dict.fromkeys(hunks))

    def show_only_new(self, only_new: bool) -> None:
        self.only_new = only_new

    def has_new(self, hunks: Iterable[str]) -> bool:
        """Whether any of the review's hunks is new, even if all of them are."""
        return not self._before.issuperset(hunks)

    def new(self, hunks: Collection[str]) -> frozenset[str]:
        """The review's hunks that are new. Empty if all of them are, because then there is nothing to distinguish."""
        found = frozenset(hunks) - self._before
        return found if len(found) < len(set(hunks)) else frozenset()
