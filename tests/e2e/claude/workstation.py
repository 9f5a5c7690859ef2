"""A user's workstation: a project, an editor, the CLI next to it, and a model that the test scripts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.claude_rig import Claude
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.neovim_rig import ROOT, Neovim
from tests.rigs.tmux import Pane, Tmux
from tests.waiting import PATIENCE

RECORD_INTO = os.environ.get("DRAWBRIDGE_TEST_RECORD")
"""The directory into which ``tools/record_ide.py`` records the sessions that tests named; None to record nothing."""


class Workstation(contextlib.ExitStack):
    """Starts programs in the test's own home, and ends them with the test. The test sets the
    answers of ``model``, and checks the requests that it receives.
    """

    def __init__(self, project: Path, model: MessagesStub, tmux: Tmux) -> None:
        super().__init__()
        self.project = project
        self.model = model
        self.tmux = tmux
        self._wait_for_connection: Callable[[Claude], object] = lambda claude: None
        project.mkdir()
        claude_rig.prepare_home(project)

    def file(self, name: str, content: str | bytes) -> Path:
        """Writes a file with exactly this content into the project."""
        path = self.project / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def neovim(self, *files: Path, program: Path | None = None, options: str = "{}") -> Neovim:
        """Starts Neovim with the plugin, and waits for its bridge. ``program`` defaults to the newest Neovim."""
        neovim = Neovim.start(
            self.tmux,
            program or programs.nvim(),
            *files,
            cwd=self.project,
            environment=claude_rig.environment(self.model),
            options=options,
        )
        neovim.wait_for("return require('drawbridge.link').state() ~= nil", what="got no bridge")
        # Once the CLI shows which file is open, it is connected and handles notifications.
        self._wait_for_connection = lambda claude: claude.pane.wait_for("⧉")
        return neovim

    def folder(self, *flags: str, environment: Mapping[str, str] | None = None) -> Pane:
        """Starts a bridge without an editor on its own terminal. ``environment`` is added to the usual variables."""
        command = [sys.executable, "-m", "drawbridge", "ide", "--folder", str(self.project), *flags]
        everything = claude_rig.environment(self.model) | dict(environment or {})
        pane = self.tmux.start("bridge", command, cwd=self.project, environment=everything)
        pane.wait_for("can connect")
        self._wait_for_connection = lambda claude: pane.wait_for("is connected")
        return pane

    def claude(self, *, recorded_as: tuple[str, str] | None = None) -> Claude:
        """Starts the CLI and connects it to the bridge. ``recorded_as``: the transcript's name and description."""
        lock = claude_rig.wait_for_lock()
        port = int(lock.stem)
        if RECORD_INTO and recorded_as:
            port = self._recorder(lock, *recorded_as)
        claude = Claude.start(
            self.tmux,
            programs.claude(),
            project=self.project,
            environment=claude_rig.environment(self.model),
            port=port,
        )
        self._wait_for_connection(claude)
        return claude

    def _recorder(self, lock: Path, name: str, what: str) -> int:
        """Starts a recorder in front of the bridge of ``lock``. Returns the port on which it listens."""
        result = subprocess.run(
            [programs.claude(), "--version"], capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        transcript = Path(RECORD_INTO or ".") / f"{result.stdout.split()[0]}-{name}.jsonl"
        script = str(ROOT / "tools" / "record_ide.py")
        shown = ("--what", what, "--replace", f"{self.project}=/project")
        command = [sys.executable, script, str(lock), str(transcript), *shown]
        recorder = self.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
        self.callback(recorder.terminate)
        assert recorder.stdout is not None
        return int(json.loads(recorder.stdout.readline())["port"])
