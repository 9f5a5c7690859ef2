"""The state that all agents of one bridge share."""

from __future__ import annotations

import os
from collections.abc import Sequence

from drawbridge.core.privacy import Privacy
from drawbridge.editors import files
from drawbridge.editors.port import Editor, Selection


class Workspace:
    """The editor and its folders, what is hidden from agents, and the last selection that the editor reported in a file
    that is not hidden.
    """

    def __init__(self, editor: Editor, folders: Sequence[str], privacy: Privacy) -> None:
        self.editor = editor
        self.folders = tuple(folders)
        self.privacy = privacy
        self.selection: Selection | None = None

    def open_folders(self, folders: Sequence[str]) -> None:
        """Takes over the editor's folders. There is always at least one, so without any, the previous ones are kept."""
        self.folders = tuple(folders) or self.folders

    def select(self, selection: Selection) -> bool:
        """Takes over the editor's selection. Returns False without doing so if its file is hidden from agents."""
        if self.privacy.hides(selection.path):
            return False
        self.selection = selection
        return True

    def resolve(self, path_or_uri: str) -> str:
        """The absolute path. A relative path is resolved against the first folder. Raises ``UnusableFile`` if the path
        is empty, or for a URI that is not a local file.

        The real CLI puts ``file://`` before a bare path (2.1.329), so a URI means the file with its undecoded path, if
        that exists.
        """
        bare = path_or_uri.removeprefix("file://")
        if bare != path_or_uri and "%" in bare and os.path.exists(bare):
            return bare
        return files.absolute(files.from_uri(path_or_uri), self.folders[0])
