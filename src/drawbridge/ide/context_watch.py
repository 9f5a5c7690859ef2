"""Keeps the context that Gemini CLI receives up to date."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable

from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.ide.context import Context, Recent
from drawbridge.ide.workspace import Workspace

logger = logging.getLogger("drawbridge.context")


class ContextWatch:
    """Asks the editor for its open files after each change of the selection, one call at a time, and passes the new
    context to ``update``."""

    def __init__(self, workspace: Workspace, update: Callable[[Context], None]) -> None:
        self._workspace = workspace
        self._update = update
        self._recent = Recent()
        self._tasks = BackgroundTasks(logger)
        self._asking: asyncio.Task[None] | None = None
        self._outdated = False

    def changed(self) -> None:
        self._outdated = True
        if self._asking is None or self._asking.done():
            self._asking = self._tasks.start(self._ask(), "asking the editor for its open files")

    async def close(self) -> None:
        await self._tasks.close()

    async def _ask(self) -> None:
        while self._outdated:
            self._outdated = False
            selection = self._workspace.selection
            if selection is not None:
                self._recent.saw(selection.path, time.time_ns() // 1_000_000)
            try:
                tabs = await self._workspace.editor.tabs()
            except DrawbridgeError as error:
                logger.info("the editor did not list its open files: %s", error)
                continue
            shown = [tab.path for tab in tabs if not self._workspace.privacy.hides(tab.path)]
            self._update(self._recent.context(selection, await asyncio.to_thread(_files_among, shown)))


def _files_among(paths: list[str]) -> list[str]:
    """The paths of files on disk, because an agent cannot read a new file that was never saved."""
    return [path for path in paths if os.path.isfile(path)]
