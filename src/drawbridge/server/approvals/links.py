"""Which paths of an agent's approval lead through a symbolic link, and where they end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeGuard

MOST: Final = 50
"""The largest number of paths of one approval that are followed."""

_FIELDS: Final = ("file_path", "notebook_path", "path", "directory")
"""Fields of a tool's input that contain paths. ACP agents name their files in ``content`` and ``locations``."""

_LISTS: Final = ("content", "locations", "edits")


def link_targets(given: Mapping[str, Any] | None, *named: str | None) -> dict[str, str]:
    """Each absolute path that leads through a symbolic link, with its target. No file is opened.

    ``given``: the tool's input; ``named``: other paths of the approval, such as its proposal's.
    """
    found: dict[str, str] = {}
    paths = dict.fromkeys([*filter(_is_absolute, named), *_paths(given or {})])
    for path in list(paths)[:MOST]:
        end = _end(path)
        if end is not None:
            found[path] = end
    return found


def _is_absolute(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and value.startswith("/")


def _paths(given: Mapping[str, Any]) -> Iterator[str]:
    lists = (given[name] for name in _LISTS if isinstance(given.get(name), list))
    parts = [given, given.get("rawInput"), *(part for each in lists for part in each[:MOST])]
    for part in parts:
        if isinstance(part, dict):
            yield from filter(_is_absolute, (part.get(name) for name in _FIELDS))


def _end(path: str) -> str | None:
    """The target of ``path``, if it differs. A part that does not exist yet stays as it is."""
    try:
        end = os.path.realpath(path)
    except (OSError, ValueError):  # a NUL byte, or a name that can't be encoded
        return None
    if end == os.path.normpath(path):
        return None
    return end.encode("utf-8", "backslashreplace").decode()
