"""What Gemini CLI is told of the workspace: the files that the person had in front, the newest first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from drawbridge.editors.port import Selection

FILES_LIMIT: Final = 10
SELECTION_LIMIT: Final = 16_384
"""Characters of the selected text; the real CLI cuts there too."""


class Context(Struct, frozen=True):
    """``files``: (path, when it was in front last in ms), newest first. ``selection``: of the first of them, if any."""

    files: tuple[tuple[str, int], ...]
    selection: Selection | None

    def params(self) -> dict[str, Any]:
        """Of ``ide/contextUpdate``: 1-based cursor, nothing that is null, only the newest file active."""
        return {"workspaceState": {"openFiles": [self._file(path, at) for path, at in self.files]}}

    def _file(self, path: str, at: int) -> dict[str, Any]:
        file: dict[str, Any] = {"path": path, "timestamp": at}
        selection = self.selection
        if selection is not None and selection.path == path:
            end = selection.range.end
            file |= {"isActive": True, "cursor": {"line": end.line + 1, "character": end.character + 1}}
            if selection.text:
                file["selectedText"] = selection.text[:SELECTION_LIMIT]
        return file


class Recent:
    """Remembers which files were in front, in which order."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._last = 0

    def saw(self, path: str, now_ms: int) -> None:
        """Times only grow: the CLI orders by them, and two files at one time would be ordered by chance."""
        self._last = max(self._last + 1, now_ms)
        self._seen.pop(path, None)
        self._seen[path] = self._last

    def context(self, selection: Selection | None, open_paths: Iterable[str]) -> Context:
        """Files that were closed since are left out."""
        still_open = set(open_paths)
        newest = [(path, at) for path, at in reversed(self._seen.items()) if path in still_open][:FILES_LIMIT]
        active = selection if selection is not None and newest and newest[0][0] == selection.path else None
        return Context(tuple(newest), active)
