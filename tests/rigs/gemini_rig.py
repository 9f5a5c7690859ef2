"""Runs the real Gemini CLI in a terminal, in the test's own home directory and with the stub as its model."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.rigs.tmux import Pane, Tmux, wait_until
from tests.waiting import PATIENCE

from .gemini_stub import GeminiStub

KEY = "a-key-for-nobody"
"""An API key that is sent to the stub only."""

EDIT_DIALOG = r"Apply this change\?"
"""What the CLI's own dialog asks about a change to a file, as a regular expression."""

OPEN_FILES = r"\d+ open files? \(F4 to view\)"
"""What the CLI's footer shows once the editor has reported what is open, as a regular expression."""

LOST_SECONDS = 4.0
"""Seconds after which typed keys without an effect count as lost."""

EMPTY = r"> +Type your message[^▀╭]*▀+[^▀╭]*\Z"
"""The CLI's box without any text."""

PLACES = ("PATH", "HOME", "TMPDIR")
QUIET = {
    "GEMINI_CLI_NO_RELAUNCH": "true",  # otherwise, it restarts itself with a larger heap, which takes twice as long
    "REMOTE_CONTAINERS": "1",  # otherwise, in a container, it looks for the editor on the container's host
}

SETTINGS = {
    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ide": {"enabled": True, "hasSeenNudge": True},
}
"""Settings as they are after onboarding and ``/ide enable``, with everything that connects to other machines turned
off.
"""


def prepare_home() -> None:
    """Creates the CLI's own directory, with ``SETTINGS``, in the test's home directory."""
    folder = Path(os.environ["HOME"]) / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(SETTINGS))


def environment(stub: GeminiStub) -> dict[str, str]:
    """Returns an environment that confines a program to the test's home directory. A CLI that the program starts sends
    its API requests to ``stub``.
    """
    places = {name: value for name, value in os.environ.items() if name in PLACES or name.startswith("XDG_")}
    return places | QUIET | {"GOOGLE_GEMINI_BASE_URL": stub.url, "GEMINI_API_KEY": KEY}


def discovery_folder() -> Path:
    return Path(os.environ["TMPDIR"]) / "gemini" / "ide"


def wait_for_discovery(*, timeout: float = PATIENCE) -> Path:
    """Waits until exactly one bridge has announced itself in the test's TMPDIR, and returns its discovery file."""

    def announced() -> Path | None:
        files = list(discovery_folder().glob("gemini-ide-server-*.json"))
        return files[0] if len(files) == 1 else None

    try:
        return wait_until(announced, timeout=timeout)
    except TimeoutError:
        found = [file.name for file in discovery_folder().glob("*")]
        raise AssertionError(f"expected one bridge within {timeout} s, found {found} in {discovery_folder()}") from None


def discovered() -> dict[str, Any]:
    """Waits for the discovery file of the only bridge and returns its content."""
    content: dict[str, Any] = json.loads(wait_for_discovery().read_text())
    return content


class Gemini:
    """One interactive session of the CLI. ``pane`` is its terminal."""

    def __init__(self, pane: Pane) -> None:
        self.pane = pane

    @classmethod
    def start(cls, tmux: Tmux, program: Path, *flags: str, project: Path, environment: Mapping[str, str]) -> Gemini:
        gemini = cls(tmux.start("gemini", [str(program), *flags], cwd=project, environment=environment))
        gemini.pane.wait_for("Type your message")
        return gemini

    def wait_for_editor(self) -> None:
        """Waits until the CLI is connected and knows which files are open."""
        self.pane.wait_for(OPEN_FILES)

    def prompt(self, words: str) -> None:
        """Types a prompt, or one of the CLI's own commands such as ``/ide status``, and sends it."""
        # This matches the line that is being typed and not an earlier prompt, because it is in the last box and no
        # dialog follows it.
        typed = rf"> {re.escape(words)}\s*▀+[^▀╭]*\Z"
        self._type(words, typed)
        self.pane.press("Enter")
        pressed = time.monotonic()
        broken = rf"> {re.escape(words)} *\n\s*\n▀+[^▀╭]*\Z"

        def sent() -> bool | None:
            nonlocal pressed
            screen = self.pane.screen
            # The CLI treats an Enter within 30 ms of the last letter as a line break, and the next Enter sends. While
            # the CLI starts, it may ignore every Enter. One Enter too many would answer the next dialog.
            lost = time.monotonic() - pressed > LOST_SECONDS and re.search(typed, screen)
            if lost or re.search(broken, screen):
                self.pane.press("Enter")
                pressed = time.monotonic()
                return None
            return None if re.search(typed, screen) else True

        wait_until(sent)

    def _type(self, words: str, typed: str) -> None:
        """Types ``words`` until the screen matches ``typed``. Keys can be lost while the CLI redraws its box, for
        example after ``/clear``."""
        began = time.monotonic()
        self.pane.type(words)

        def shown() -> bool | None:
            nonlocal began
            screen = self.pane.screen
            if time.monotonic() - began > LOST_SECONDS and re.search(EMPTY, screen):
                began = time.monotonic()
                self.pane.type(words)
            return True if re.search(typed, screen) else None

        try:
            wait_until(shown)
        except TimeoutError:
            self.pane.wait_for(typed, timeout=0.1)  # its message shows the screen

    def leave(self) -> None:
        """Ends the CLI, and waits until it has ended."""
        self.prompt("/quit")
        self.pane.wait_for_exit()
