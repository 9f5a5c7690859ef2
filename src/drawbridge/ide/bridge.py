"""A bridge, which connects an editor to agents and writes the files by which agents find it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from importlib.metadata import version

from drawbridge.core import allocator
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.log_text import HarmlessFormatter
from drawbridge.core.privacy import DEFAULT_PATTERNS, Privacy
from drawbridge.core.review_memory import ReviewMemory
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
    ReviewCommented,
    ReviewCommentRemoved,
    ReviewCommentResolved,
    ReviewDecided,
    ReviewOutdated,
    ReviewSeen,
    ReviewSubmitted,
    ReviewWanted,
    SelectionChanged,
    TerminalsChanged,
)
from drawbridge.ide.changes import Changes
from drawbridge.ide.claude import ClaudeClients
from drawbridge.ide.context_watch import ContextWatch
from drawbridge.ide.discovery import lock_directory, shares_a_folder
from drawbridge.ide.gemini.http import GeminiSessions
from drawbridge.ide.http_app import BridgeApp
from drawbridge.ide.launched import SIGNALS, Launched
from drawbridge.ide.review import Reviews
from drawbridge.ide.server_link import ServerLink
from drawbridge.ide.tools import Toolbox
from drawbridge.ide.workspace import Workspace
from drawbridge.protocols import local_ipc as wire
from drawbridge.protocols.gate import LOOPBACK_HOSTS
from drawbridge.settings.ide import IdeSettings
from drawbridge.transport.http_server import HttpServer

logger = logging.getLogger("drawbridge.bridge")


def run(launched: Launched, folders: list[str], folder: str | None) -> int:
    """Runs a bridge, and blocks until its editor or a signal ends it. Returns the exit code."""
    settings = launched.settings
    log = logging.FileHandler(settings.log_file) if settings.log_file else logging.StreamHandler(sys.stderr)
    log.setFormatter(HarmlessFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[log])
    allocator.return_large_blocks()
    return asyncio.run(_serve(launched, folders, folder))


async def _serve(launched: Launched, folders: list[str], folder: str | None) -> int:
    """Runs a bridge until its editor or a signal ends it. A signal that arrives before the bridge is open ends it
    immediately, so that a hung editor does not delay the exit.
    """
    stop, opening = asyncio.Event(), asyncio.current_task()

    def signalled() -> None:
        nonlocal opening
        task, opening = opening, None
        stop.set()
        if task is not None:
            task.cancel()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, signalled)
    try:
        if not launched.is_ending:  # otherwise, the signal arrived before these handlers were set
            editor = await _editor(launched.settings, folder)
            bridge = Bridge(launched, editor, folders, stop)
            try:
                await bridge.open()
                opening = None
                async with HttpServer(bridge.app, launched.listener):
                    await stop.wait()
                    launched.remove_files()
                    await bridge.gemini.close()
            finally:
                await bridge.close()
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
    finally:
        launched.remove_files()  # while the handlers are set: later, a signal would kill the program
    return 0


async def _editor(settings: IdeSettings, folder: str | None) -> Editor:
    if folder is not None:
        from drawbridge.editors.folder.folder import Folder

        return Folder(folder, decide=settings.decide)
    from drawbridge.editors.neovim.neovim import Neovim

    assert settings.nvim is not None, "the command requires an address or a folder"

    return await (Neovim.stdio() if settings.nvim == "stdio" else Neovim.connect(settings.nvim))


class Bridge:
    """Passes the editor's events on to agents and reviews, and keeps the discovery files up to date."""

    def __init__(self, launched: Launched, editor: Editor, folders: list[str], stop: asyncio.Event) -> None:
        settings = launched.settings
        self._launched = launched
        self._editor = editor
        self._stop = stop
        self._ide_name = editor.name
        self._fixed_folders = bool(settings.workspace)
        self._terminals: tuple[int, ...] = ()
        patterns = DEFAULT_PATTERNS if settings.ignore is None else settings.ignore
        self.workspace = Workspace(editor, folders, Privacy(patterns, context=settings.context))
        self.reviews = Reviews(editor)
        hosts = LOOPBACK_HOSTS.union(name.lower() for name in settings.host)
        self.claude = ClaudeClients(
            self.workspace,
            self.reviews,
            Toolbox(execute_code=settings.execute_code),
            launched.token,
            version("drawbridge"),
            hosts=hosts,
            single_client=settings.single_client,
            mention=settings.mention,
            reject=settings.reject,
            on_change=self._agents_changed,
        )
        self.gemini = GeminiSessions(
            self.workspace,
            self.reviews,
            launched.token,
            version("drawbridge"),
            self._notify,
            hosts=hosts,
            on_change=self._agents_changed,
        )
        self.app = BridgeApp(self.claude, self.gemini, tuple(settings.agent))
        # An editor that decides on proposals automatically must not decide on other agents' proposals.
        folders_offered = settings.decide is None
        self._server_link = ServerLink(
            self.reviews,
            lambda: wire.Bridge(
                editor.name,
                tuple(self.workspace.folders) if folders_offered else (),
                tuple(self.claude.pids),
                self._terminals,
                reviews=True,
            ),
            lambda owner: (getattr(owner, "pid", None), getattr(owner, "id", "")),
            editor.type_prompt,
            self._notify,
        )
        self.reviews.use_arbiter(self._server_link)
        self._changes = Changes(editor, self._server_link, ReviewMemory(), self.reviews.accepted)
        self._context = ContextWatch(self.workspace, self.gemini.update)
        self._tasks = BackgroundTasks(logger)
        self._unannounced: deque[BridgeState] = deque()
        self._announcing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._editor.start(self._on_event)
        if not self._fixed_folders:
            self.workspace.open_folders(await self._editor.folders())
        selection = await self._editor.selection()
        if selection is not None:
            self.workspace.select(selection)
        self._ide_name = await asyncio.to_thread(self._distinct_name)
        self._write_files()
        self._context.changed()
        self._agents_changed()
        self._server_link.start(
            self._tasks,
            lambda _: self._notify(
                "The connection to the agent server failed. The bridge will try again; its log has the reason."
            ),
        )

    async def close(self) -> None:
        await self._tasks.close()
        await self._changes.close()
        await self._context.close()
        await self.claude.close()
        await self.gemini.close()
        await self.reviews.stop()
        await self._editor.close()

    def _on_event(self, event: EditorEvent) -> None:
        match event:
            case SelectionChanged(selection):
                if self.workspace.select(selection):
                    self.claude.select(selection)
                    self._context.changed()
            case Mentioned():
                self._mention(event)
            case FoldersChanged(folders):
                if not self._fixed_folders and folders:
                    self.workspace.open_folders(folders)
                    self._write_files()
                    self._server_link.changed()
            case TerminalsChanged(pids):
                self._terminals = pids
                self._server_link.changed()
            case Decided():
                self.reviews.decided(event)
            case ReviewWanted() | ReviewOutdated() | ReviewSeen() | ReviewDecided():
                self._changes.on_event(event)
            case ReviewCommented() | ReviewCommentRemoved() | ReviewCommentResolved() | ReviewSubmitted():
                self._changes.on_event(event)
            case Gone():
                self._stop.set()

    @property
    def agents(self) -> tuple[str, ...]:
        """The names of the agents that are connected."""
        return self.claude.names + self.gemini.names

    def _mention(self, event: Mentioned) -> None:
        if not self.claude.mention(event):
            self._notify("Claude Code is not connected yet. The mention will be sent when it connects.")

    def _distinct_name(self) -> str:
        """The name under which agents list this editor. If another editor with this name shares a folder with this one,
        the name of the current file is added or, if no file is known, the editor's process id."""
        name, port = self._editor.name, self._launched.port
        if not shares_a_folder(lock_directory(), port, self.workspace.folders, name):
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
            self._notify(problem)

    def _agents_changed(self) -> None:
        self._server_link.changed()
        if self._stop.is_set():
            return  # the bridge is closing the connections itself
        state = BridgeState(
            self._launched.port,
            self._launched.token,
            self.claude.names + self.gemini.names,
            self.claude.pids,
            self.claude.unasked,
        )
        # A newer state replaces a pending one, unless an agent connected or disconnected in between, because that must
        # be reported.
        if self._unannounced and self._unannounced[-1].agents == state.agents:
            self._unannounced.pop()
        self._unannounced.append(state)
        if self._announcing is None or self._announcing.done():
            self._announcing = self._tasks.start(self._announce(), "announcing the agents")

    async def _announce(self) -> None:
        while self._unannounced:
            try:
                await self._editor.announce(self._unannounced.popleft())
            except DrawbridgeError as error:
                logger.warning("the editor could not show the state of the bridge: %s", error)

    def _notify(self, message: str, level: Level = "warn") -> None:
        self._tasks.start(self._editor.notify(message, level), "notifying the user")
