"""Finds out which tests used a Neovim, because only those depend on its version.

A test used one if it, or one of its fixtures, looked it up in ``tests/programs.py``, or if a Neovim is its parameter.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests import programs

PROPERTY = ("uses", "nvim")
"""The property of the report about a test that used a Neovim."""

_BEFORE = pytest.StashKey[int]()
_fixtures: set[pytest.FixtureDef[object]] = set()
"""The fixtures that looked one up. Of those for a whole module, only the first test sees the lookup."""


def begin(item: pytest.Item) -> None:
    """Must be called before the set-up of each test."""
    item.stash[_BEFORE] = programs.nvim_lookups()


@contextlib.contextmanager
def observed(fixture: pytest.FixtureDef[object]) -> Iterator[None]:
    before = programs.nvim_lookups()
    yield
    if programs.nvim_lookups() > before:
        _fixtures.add(fixture)


def used(item: pytest.Item) -> bool:
    if programs.nvim_lookups() > item.stash[_BEFORE]:
        return True
    if not isinstance(item, pytest.Function):
        return False
    fixtures = (one for found in item._fixtureinfo.name2fixturedefs.values() for one in found)
    parameters = item.callspec.id if hasattr(item, "callspec") else ""
    return "nvim-" in parameters or not _fixtures.isdisjoint(fixtures)
