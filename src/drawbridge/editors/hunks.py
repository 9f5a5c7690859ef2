"""Differences between texts, in lines: hunks, and the merge of two changes of one text. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Hunk(Struct, frozen=True):
    """``old[old_start:old_start + old_count]`` became ``new[new_start:new_start + new_count]``; lines, 0-based."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


class Overlap(Struct, frozen=True):
    """Both sides changed the lines ``start``..``end`` (0-based, end exclusive) of the base, in different ways."""

    start: int
    end: int


def diff(old: Sequence[str], new: Sequence[str]) -> tuple[Hunk, ...]:
    """The hunks that turn ``old`` into ``new``, in order, never touching each other."""
    raise NotImplementedError


def merge(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | Overlap:
    """``base`` with both changes; the first ``Overlap`` where they collide. The same change on both sides is no collision."""
    raise NotImplementedError
