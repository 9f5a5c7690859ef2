"""Unsaved changes in editors. A file that has unsaved changes is not written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from drawbridge.server.protocol.client_errors import ClientError

FindUnsaved: TypeAlias = Callable[[Sequence[str]], Mapping[str, str]]
"""The type of a function that receives absolute paths, and returns the files with unsaved changes in an editor, each
with the editor's name. An editor that does not answer is ignored. Blocking."""


def no_editors(paths: Sequence[str]) -> Mapping[str, str]:
    """A ``FindUnsaved`` for a machine without editors, on which no file has unsaved changes."""
    return {}


class UnsavedChanges(Exception):
    """Some of the files that had to be written have unsaved changes in an editor. Nothing was written. ``found`` maps
    each path, relative to the project, to the editor's name."""

    def __init__(self, found: Mapping[str, str]) -> None:
        super().__init__(", ".join(found))
        self.found = found


def not_written_over(error: UnsavedChanges) -> ClientError:
    path = next(iter(error.found))
    editors = " and ".join(dict.fromkeys(error.found.values()))
    more = len(error.found) - 1
    what = f"{path} has" if not more else f"{path} and {more} other file{'s' if more > 1 else ''} have"
    text = f"The files can't be changed: {what} unsaved changes in {editors}. Save or discard them first."
    return ClientError("UNSAVED_CHANGES", text, details={"paths": list(error.found)})
