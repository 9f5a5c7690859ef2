"""Runs the real Codex in a terminal, with a stub of its model's API."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import programs
from tests.rigs.responses_stub import ResponsesStub
from tests.rigs.tmux import Pane, Tmux, wait_until
from tests.setup.headless import TRUSTED
from tests.waiting import PATIENCE

DIALOG = r"1\. Yes, proceed"
NO = "3"

KEY_IS_SEEN = 3.0
"""Seconds after which a key counts as ignored."""

MODEL = "gpt-5.5"
"""A model for which Codex offers its patch tool."""


def prepare_home(model: ResponsesStub, project: Path) -> None:
    """Writes Codex's settings into the home directory: the stub as the model's provider, a trusted project, a sandbox in
    which nothing can be written, and answers to the questions at the first start."""
    folder = Path.home() / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(
        f"""
model_provider = "stub"
model = "{MODEL}"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.stub]
name = "stub"
base_url = "{model.url}"
wire_api = "responses"
env_key = "KEY"
[projects."{project}"]
trust_level = "trusted"
[notice.model_migrations]
"{MODEL}" = "gpt-6-sol"
"""
    )


def environment() -> dict[str, str]:
    kept = ("PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"KEY": "for-nobody"}


class Codex:
    """One interactive session of Codex. ``pane`` is its terminal."""

    def __init__(self, pane: Pane) -> None:
        self.pane = pane

    @classmethod
    def start(cls, tmux: Tmux, *words: str, project: Path) -> Codex:
        """Starts Codex in ``project``. Its hooks count as trusted."""
        command = [str(programs.codex()), TRUSTED, *words]
        codex = cls(tmux.start("codex", command, cwd=project, environment=environment()))
        codex.pane.wait_for("Ask Codex to do anything")
        return codex

    def prompt(self, words: str) -> None:
        """Types a prompt and sends it. Codex takes an Enter right after fast typing for a part of a pasted text, so it is
        pressed again while the prompt is still in the field."""
        self.pane.type(words)
        self.pane.wait_for(r"(?m)^› " + re.escape(words))
        press_at = 0.0

        def sent() -> bool | None:
            nonlocal press_at
            field = [line for line in self.pane.screen.splitlines() if line.startswith("› ")][-1:]
            if not field or not field[0].startswith(f"› {words}"):
                return True
            if time.monotonic() >= press_at:
                self.pane.press("Enter")
                press_at = time.monotonic() + KEY_IS_SEEN
            return None

        wait_until(sent)

    def leave(self) -> None:
        """Ends Codex. Ctrl-C may only interrupt a turn that is just ending, so it is pressed again while Codex is still
        running."""
        self.pane.wait_for("Ask Codex to do anything")
        press_at = 0.0

        def ended() -> bool | None:
            nonlocal press_at
            if "To continue this session" in self.pane.screen:
                return True
            if time.monotonic() >= press_at:
                self.pane.press("C-c")
                press_at = time.monotonic() + KEY_IS_SEEN
            return None

        wait_until(ended)


class Workstation:
    """A terminal in which Codex runs with Drawbridge's hooks."""

    def __init__(self, tmux: Tmux, model: ResponsesStub, project: Path) -> None:
        self.tmux = tmux
        self.model = model
        self.project = project
        self.poem = project / "poem.txt"
        self.poem.write_text("one\ntwo\n")

    def codex(self, *words: str) -> Codex:
        return Codex.start(self.tmux, *words, project=self.project)


@contextlib.contextmanager
def workstation(project: Path) -> Iterator[Workstation]:
    """Runs ``drawbridge setup codex``, and yields a workstation with this project."""
    programs.tmux()
    programs.codex()
    command = [sys.executable, "-m", "drawbridge", "setup", "codex", "--yes"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    with ResponsesStub() as model, Tmux.server() as tmux:
        project.mkdir()
        prepare_home(model, project)
        yield Workstation(tmux, model, project)
