"""A bridge in the test's own process, connected to the in-memory editor."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from drawbridge import settings
from drawbridge.ide.bridge import Bridge
from drawbridge.ide.launched import Launched
from drawbridge.settings.ide import IdeSettings
from drawbridge.transport.http_server import HttpServer
from tests.editors.memory import MemoryEditor
from tests.waiting import until


class BridgeRig:
    """The bridge with its editor. ``flags`` are settings of ``drawbridge ide`` by name."""

    def __init__(self, folder: Path, editor: MemoryEditor, flags: dict[str, Any]) -> None:
        self.folder = folder
        self.editor = editor
        self.launched = Launched(settings.load("ide", IdeSettings, {"folder": str(folder), **flags}))
        self.stop = asyncio.Event()
        folders = [os.path.realpath(path) for path in self.launched.settings.workspace] or [str(folder)]
        self.bridge = Bridge(self.launched, editor, folders, self.stop)

    @property
    def port(self) -> int:
        return self.launched.port

    @property
    def token(self) -> str:
        return self.launched.token

    @property
    def lock(self) -> Any:
        """The lock file's content, parsed."""
        return json.loads(Path(self.launched.files["lock_file"].path).read_bytes())

    def path(self, name: str = "poem.txt") -> str:
        return str(self.folder / name)

    async def shown(self, number: int = 1) -> list[str]:
        """Waits until the editor shows ``number`` proposals, and returns their IDs."""
        await until(lambda: len(self.editor.shown) == number, f"{number} proposals shown")
        return list(self.editor.shown)

    async def settled(self) -> None:
        """Waits until the editor has reported which files are open, and every subscriber has received the report."""
        watch = self.bridge._context
        await until(lambda: watch._asking is None or watch._asking.done(), "the answer to what is open")


@contextlib.asynccontextmanager
async def open_bridge(folder: Path, editor: MemoryEditor | None = None, **flags: Any) -> AsyncIterator[BridgeRig]:
    rig = BridgeRig(folder, editor or MemoryEditor([str(folder)]), flags)
    try:
        await rig.bridge.open()
        async with HttpServer(rig.bridge.app, rig.launched.listener):
            yield rig
    finally:
        await rig.bridge.close()
        rig.launched.remove_files()
        rig.launched.listener.close()
