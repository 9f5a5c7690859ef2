"""Runs the real ``claude`` CLI in a terminal, in the test's own home directory and with the stub as its model."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path

from tests.waiting import PATIENCE

from .messages_stub import MessagesStub
from .tmux import Pane, Tmux, wait_until

KEY = "sk-ant-a-key-for-nobody-0123456789"
"""An API key that is sent to the stub only."""

EDIT_DIALOG = r"Do you want to (make this edit|create|overwrite)"
"""What the CLI's own dialog asks about a change to a file, as a regular expression."""

TOOL_DIALOG = "Do you want to proceed"
YES, NO = "1", "3"

DIALOG_SETTLES = 0.6
"""Seconds to wait before pressing a key, since a new dialog of the CLI ignores keys (2.1.329: for half a second)."""

ANSWER_IS_SEEN = 5.0
"""Seconds after which a key counts as ignored if the dialog is still shown."""

PLACES = ("PATH", "HOME", "TMPDIR", "CLAUDE_CONFIG_DIR")
QUIET = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
"""Environment variables that keep the CLI from connecting to anything but the stub."""


def prepare_home(project: Path) -> None:
    """Sets up the CLI's own directory as if onboarding were complete, ``project`` trusted and the API key approved."""
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(project): {"hasTrustDialogAccepted": True}},
    }
    folder = Path(os.environ["CLAUDE_CONFIG_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".claude.json").write_text(json.dumps(state))


def environment(stub: MessagesStub) -> dict[str, str]:
    """Returns an environment that confines a program to the test's home directory. A CLI that the program starts sends
    its API requests to ``stub``.
    """
    places = {name: value for name, value in os.environ.items() if name in PLACES or name.startswith("XDG_")}
    return places | QUIET | {"ANTHROPIC_BASE_URL": stub.url, "ANTHROPIC_API_KEY": KEY}


def wait_for_lock(*, timeout: float = PATIENCE) -> Path:
    """Waits until exactly one bridge has announced itself in the test's home directory, and returns its lock file."""
    folder = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "ide"

    def announced() -> Path | None:
        locks = list(folder.glob("*.lock"))
        return locks[0] if len(locks) == 1 else None

    try:
        return wait_until(announced, timeout=timeout)
    except TimeoutError:
        found = [lock.name for lock in folder.glob("*")]
        raise AssertionError(f"expected one bridge within {timeout} s, found {found} in {folder}") from None


class Claude:
    """One interactive session of the CLI. ``pane`` is its terminal."""

    def __init__(self, pane: Pane) -> None:
        self.pane = pane

    @classmethod
    def start(
        cls,
        tmux: Tmux,
        program: Path,
        *flags: str,
        project: Path,
        environment: Mapping[str, str],
        port: int | None = None,
    ) -> Claude:
        """Starts the CLI in ``project``. With ``port``, it connects to the bridge that listens on that port."""
        bridge = {} if port is None else {"CLAUDE_CODE_SSE_PORT": str(port)}
        command = [str(program), "--permission-mode", "default", *flags]
        claude = cls(tmux.start("claude", command, cwd=project, environment={**environment, **bridge}))
        claude.pane.wait_for(r"(?m)^❯")
        return claude

    def prompt(self, words: str) -> None:
        """Types a prompt and sends it."""
        self.pane.type(words)
        self.pane.wait_for(r"\s+".join(map(re.escape, words.split())))  # the terminal may wrap the prompt
        self.pane.press("Enter")

    def answer_dialog(self, question: str, key: str) -> None:
        """Answers a dialog of the CLI. A new dialog ignores keys for half a second, so that a key that was meant for
        something else does not answer it. The key is pressed again only if the dialog is still shown after
        ``ANSWER_IS_SEEN`` seconds: pressed any earlier, it could go to the prompt box.
        """
        self.pane.wait_for(question)
        press_at = time.monotonic() + DIALOG_SETTLES

        def answered() -> bool | None:
            nonlocal press_at
            if not re.search(question, self.pane.screen):
                return True
            if time.monotonic() >= press_at:
                self.pane.press(key)
                press_at = time.monotonic() + ANSWER_IS_SEEN
            return None

        try:
            wait_until(answered)
        except TimeoutError:
            raise AssertionError(f"the dialog ignored {key!r}") from None
