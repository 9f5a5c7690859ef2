"""Unsaved changes in editors: a file that has some is not written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from drawbridge.server.protocol.client_errors import ClientError

FindUnsaved: TypeAlias = Callable[[Sequence[str]], Mapping[str, str]]
"""Returns those of these files (absolute paths) that have unsaved changes in an editor, and the editor's name. An editor
that does not answer is ignored. Blocking."""


def no_editors(paths: Sequence[str]) -> Mapping[str, str]:
    """Stands for a machine on which no editor runs."""
    return {}


class UnsavedChanges(Exception):
    """Files that were to be written have unsaved changes in an editor. Nothing was written. ``found``: the paths,
    relative to the project, and the editors' names."""

    def __init__(self, found: Mapping[str, str]) -> None:
        super().__init__(", ".join(found))
        self.found = found


def not_written_over(error: UnsavedChanges) -> ClientError:
    path, editor = next(iter(error.found.items()))
    more = len(error.found) - 1
    what = f"{path} has" if not more else f"{path} and {more} other file{'s' if more > 1 else ''} have"
    text = f"No file was changed: {what} unsaved changes in {editor}. Save or discard them first."
    return ClientError("UNSAVED_CHANGES", text, details={"paths": list(error.found)})
