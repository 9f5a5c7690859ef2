"""The context that Gemini CLI receives: the files that the user looked at, latest first. Does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET, Struct

from drawbridge.editors.port import Selection
from drawbridge.ide.gemini.notices import FILES_LIMIT, ContextUpdate, Cursor, OpenFile, WorkspaceState, cut

MEMORY: Final = 1_000
"""The maximum number of files for which the last use is remembered, open or not."""


class Context(Struct, frozen=True):
    """The context at one moment. ``files``: pairs of a path and the time at which the user last switched to it (in
    milliseconds since 1970), latest first. ``selection``: the selection in the first file, if any.
    """

    files: tuple[tuple[str, int], ...] = ()
    selection: Selection | None = None

    def notice(self) -> ContextUpdate:
        """The context as a notification. Only the latest file can be active, as the CLI expects."""
        return ContextUpdate(WorkspaceState(tuple(self._file(path, at) for path, at in self.files)))

    def _file(self, path: str, at: int) -> OpenFile:
        selection = self.selection
        if selection is None or selection.path != path:
            return OpenFile(path, at)
        end = selection.range.end
        return OpenFile(path, at, True, Cursor(end.line + 1, end.character + 1), cut(selection.text) or UNSET)


class Recent:
    """Remembers which files the user looked at, and in which order."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._last = 0

    def saw(self, path: str, now_ms: int) -> None:
        """Records that the user looks at ``path``. Times always increase, because the CLI sorts by them, and the order
        of equal times would be arbitrary.

        A file that remains the current one does not get a new time, so that an unchanged context is not sent again.
        """
        if next(reversed(self._seen), None) == path:
            return
        self._last = max(self._last + 1, now_ms)
        self._seen.pop(path, None)
        self._seen[path] = self._last
        if len(self._seen) > MEMORY:
            del self._seen[next(iter(self._seen))]

    def context(self, selection: Selection | None, open_paths: Iterable[str]) -> Context:
        """The context: the files that the user looked at and that are still open, at most ``FILES_LIMIT``, and the
        selection if it is in the latest one.
        """
        still_open = set(open_paths)
        newest = [(path, at) for path, at in reversed(self._seen.items()) if path in still_open][:FILES_LIMIT]
        active = selection if selection is not None and newest and newest[0][0] == selection.path else None
        return Context(tuple(newest), active)
