"""One bridge: an editor on one side, agents on the other, and how the one finds the other. Opened and closed here."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from importlib.metadata import version
from typing import Any

from drawbridge.core import allocator
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.log_text import HarmlessFormatter
from drawbridge.core.privacy import DEFAULT_PATTERNS, Privacy
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.editors.port import (
    BridgeState,
    Decided,
    Editor,
    EditorEvent,
    FoldersChanged,
    Gone,
    Level,
    Mentioned,
    SelectionChanged,
    TerminalsChanged,
)
from drawbridge.ide.claude import ClaudeClients
from drawbridge.ide.context_watch import ContextWatch
from drawbridge.ide.desk import Workspace
from drawbridge.ide.discovery import has_company, lock_directory
from drawbridge.ide.gemini_site import GeminiSessions
from drawbridge.ide.launched import SIGNALS, Launched
from drawbridge.ide.reviewer import Reviewer
from drawbridge.ide.site import Agents
from drawbridge.ide.tools import Toolbox
from drawbridge.protocols import local_ipc as wire
from drawbridge.protocols.gate import LOOPBACK_HOSTS
from drawbridge.transport.http_server import Door

logger = logging.getLogger("drawbridge.bridge")


def run(launched: Launched, folders: list[str], folder: str | None) -> int:
    """Blocks until the editor or a signal ends the bridge."""
    values = launched.values
    log = logging.FileHandler(values["log_file"]) if values["log_file"] else logging.StreamHandler(sys.stderr)
    log.setFormatter(HarmlessFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=values["log_level"].upper(), handlers=[log])
    allocator.return_large_blocks()
    return asyncio.run(_serve(launched, folders, folder))


async def _serve(launched: Launched, folders: list[str], folder: str | None) -> int:
    stop = asyncio.Event()
    editor = await _editor(launched.values, folder)
    bridge = Bridge(launched, editor, folders, stop)
    try:
        await bridge.open()
        # Until now a signal ended the program where it stood: an editor that hangs must not hold it up.
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        async with Door(bridge.agents, launched.listener):
            await stop.wait()
            launched.remove_files()
            bridge.gemini.close()
        return 0
    finally:
        await bridge.close()


async def _editor(values: dict[str, Any], folder: str | None) -> Editor:
    if folder is not None:
        from drawbridge.editors.folder import Folder

        return Folder(folder, decide=values["decide"])
    from drawbridge.editors.neovim import Neovim

    return await (Neovim.stdio() if values["nvim"] == "stdio" else Neovim.connect(values["nvim"]))


class Bridge:
    """Passes on what the editor reports: to the agents, to discovery, to the reviews."""

    def __init__(self, launched: Launched, editor: Editor, folders: list[str], stop: asyncio.Event) -> None:
        values = launched.values
        self._launched = launched
        self._editor = editor
        self._stop = stop
        self._ide_name = editor.name
        self._fixed_folders = bool(values["workspace"])
        self._terminals: tuple[int, ...] = ()
        patterns = DEFAULT_PATTERNS if values["ignore"] is None else values["ignore"]
        self.workspace = Workspace(editor, folders, Privacy(patterns, context=values["context"]))
        hosts = LOOPBACK_HOSTS.union(name.lower() for name in values["host"])
        self.claude = ClaudeClients(
            self.workspace,
            Toolbox(execute_code=values["execute_code"]),
            launched.token,
            version("drawbridge"),
            hosts=hosts,
            single_client=values["single_client"],
            mention=values["mention"],
            reject=values["reject"],
        )
        self.gemini = GeminiSessions(self.workspace, launched.token, version("drawbridge"), self._tell, hosts=hosts)
        self.agents = Agents(self.claude, self.gemini, tuple(values["agent"]))
        self.claude.on_change = self.gemini.on_change = self._agents_changed
        # Who decides every proposal of itself would decide those of other agents too.
        folders_offered = values["decide"] is None
        self._reviewer = Reviewer(
            self.workspace.reviews,
            lambda: wire.Bridge(
                editor.name,
                tuple(self.workspace.folders) if folders_offered else (),
                tuple(self.claude.pids),
                self._terminals,
            ),
            lambda owner: (getattr(owner, "pid", None), getattr(owner, "id", "")),
            editor.type_prompt,
        )
        self.workspace.reviews.arbiter = self._reviewer
        self._context = ContextWatch(self.workspace, self.gemini.update)
        self._tasks = BackgroundTasks(logger)
        self._unannounced: deque[BridgeState] = deque()
        self._announcing = False

    async def open(self) -> None:
        await self._editor.start(self._on_event)
        if not self._fixed_folders:
            self.workspace.folders = await self._editor.folders() or self.workspace.folders
        selection = await self._editor.selection()
        if selection is not None and not self.workspace.privacy.hides(selection.path):
            self.workspace.selection = selection
        self._ide_name = self._distinct_name()
        self._write_files()
        self._context.changed()
        self._agents_changed()
        self._tasks.start(self._reviewer.run(), "connecting to the agent server")

    async def close(self) -> None:
        self._context.stop()
        await self._tasks.close()
        await self.workspace.unasked.stop()
        await self.workspace.reviews.stop()
        await self._editor.close()

    def _on_event(self, event: EditorEvent) -> None:
        match event:
            case SelectionChanged(selection):
                if not self.workspace.privacy.hides(selection.path):
                    self.workspace.selection = selection
                    self.claude.select(selection)
                    self._context.changed()
            case Mentioned():
                self._mention(event)
            case FoldersChanged(folders):
                if not self._fixed_folders and folders:
                    self.workspace.folders = folders
                    self._write_files()
                    self._reviewer.changed()
            case TerminalsChanged(pids):
                self._terminals = pids
                self._reviewer.changed()
            case Decided():
                self.workspace.reviews.decided(event)
            case Gone():
                self._stop.set()

    def _mention(self, event: Mentioned) -> None:
        if not self.claude.mention(event):
            self._tell("No Claude is connected yet; it is delivered when one connects.")

    def _distinct_name(self) -> str:
        """The name by which agents list this editor. A second editor in a folder adds its file, else its process id."""
        name, port = self._editor.name, self._launched.port
        if not has_company(lock_directory(), port, self.workspace.folders, name):
            return name
        selection = self.workspace.selection
        return f"{name} ({os.path.basename(selection.path) if selection else self._editor.pid})"

    def _write_files(self) -> None:
        try:
            problems = self._launched.write_files(self._editor.pid, self._ide_name, self.workspace.folders)
        except DrawbridgeError as error:
            problems = [str(error)]
        for problem in problems:
            logger.error("%s", problem)
            self._tell(problem)

    def _agents_changed(self) -> None:
        self._reviewer.changed()
        if self._stop.is_set():
            return  # the bridge itself closes the connections
        state = BridgeState(
            self._launched.port, self._launched.token, self.agents.names, self.claude.pids, self.claude.unasked
        )
        # A newer state replaces one that waits, except where an agent connected or left in between: that is reported.
        if self._unannounced and self._unannounced[-1].agents == state.agents:
            self._unannounced.pop()
        self._unannounced.append(state)
        if not self._announcing:
            self._announcing = True
            self._tasks.start(self._announce(), "announcing the agents")

    async def _announce(self) -> None:
        try:
            while self._unannounced:
                try:
                    await self._editor.announce(self._unannounced.popleft())
                except DrawbridgeError as error:
                    logger.warning("%s", error)
        finally:
            self._announcing = False

    def _tell(self, message: str, level: Level = "warn") -> None:
        self._tasks.start(self._editor.tell(message, level), "telling the editor")
