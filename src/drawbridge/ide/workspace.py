"""What all agents of one bridge share. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence

from drawbridge.core.privacy import Privacy
from drawbridge.editors import files
from drawbridge.editors.port import Editor, Selection


class Workspace:
    """The editor and its folders, the last selection that the editor has reported, and what is hidden from agents."""

    def __init__(self, editor: Editor, folders: Sequence[str], privacy: Privacy) -> None:
        self.editor = editor
        self.folders = tuple(folders)
        self.privacy = privacy
        self.selection: Selection | None = None

    def resolve(self, path_or_uri: str) -> str:
        """The absolute path; a relative one is relative to the first folder.

        The real CLI puts ``file://`` before a bare path (2.1.329), so a URI whose undecoded path exists means that file.
        """
        bare = path_or_uri.removeprefix("file://")
        if bare != path_or_uri and "%" in bare and os.path.exists(bare):
            return bare
        return files.absolute(files.from_uri(path_or_uri), self.folders[0])
