"""Files that an agent writes without a proposal. The editor reloads them, and a notice explains why no diff opened.

Claude Code asks for the diagnostics of a file just before it writes it, in every permission mode (2.1.329).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import Editor
from drawbridge.ide.review import Reviews, signature

WRITE_SECONDS: Final = 5.0
"""The maximum number of seconds to wait for the write after a request for diagnostics. The real CLI takes well under
one second."""

CHECK_SECONDS: Final = 0.05
"""Seconds between two checks of a file while its write is awaited."""

SETTLED_SECONDS: Final = 0.2
"""Seconds without a change after which a file is considered to be complete."""

WATCH_LIMIT: Final = 20
"""The maximum number of files that are watched at the same time."""

# Neovim shows only one line of a message, even in `:messages`, so the first sentence has to fit on it.
WHY: Final = (
    "{agent} wrote {file} without asking: no diff. The agent's permission mode or a rule allows "
    "this: Shift+Tab in the agent's terminal changes the mode. {then}"
)
THEN: Final = {
    "reloaded": "The file was reloaded; u undoes that.",
    "unsaved": "Your unsaved changes are kept: compare them with the file before you save.",
}

logger = logging.getLogger("drawbridge.unasked")


class UnaskedWrites:
    def __init__(self, editor: Editor, reviews: Reviews) -> None:
        self._editor = editor
        self._reviews = reviews
        self._watched: set[str] = set()
        self._tasks = BackgroundTasks(logger)

    def may_write(self, path: str, agent: str, found: Callable[[], bool]) -> None:
        """Watches ``path``, which the agent may write now. ``found`` is called once the agent has written the file,
        unless the file is not open in the editor or is already shown with that text. ``found`` returns whether to
        notify the user.

        Does nothing if the write was proposed, the file is already watched or ``WATCH_LIMIT`` is reached.
        """
        if self._reviews.was_asked(path) or path in self._watched or len(self._watched) >= WATCH_LIMIT:
            return
        self._watched.add(path)
        task = self._tasks.start(self._watch(path, signature(path), agent, found), f"watching {path}")
        task.add_done_callback(lambda _: self._watched.discard(path))

    async def close(self) -> None:
        await self._tasks.close()

    async def _watch(self, path: str, before: tuple[int, ...] | None, agent: str, found: Callable[[], bool]) -> None:
        clock = asyncio.get_running_loop().time
        began, seen, seen_at = clock(), before, clock()
        while seen != before or clock() - began < WRITE_SECONDS:
            await asyncio.sleep(CHECK_SECONDS)
            now = await asyncio.to_thread(signature, path)
            if now != seen:
                seen, seen_at = now, clock()
            elif seen != before and clock() - seen_at >= SETTLED_SECONDS:
                await self._written(path, agent, found)
                return

    async def _written(self, path: str, agent: str, found: Callable[[], bool]) -> None:
        done = await self._editor.overwritten(path)
        if done is not None and found():
            words = WHY.format(agent=agent, file=os.path.basename(path), then=THEN[done])
            await self._editor.notify(words, "warn")
