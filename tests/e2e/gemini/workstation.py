"""A user's workstation with Gemini CLI: a project, an editor, the CLI next to it, and a model scripted by the test."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests import programs
from tests.rigs import claude_rig, gemini_rig
from tests.rigs.claude_rig import Claude
from tests.rigs.gemini_rig import Gemini
from tests.rigs.gemini_stub import GeminiStub
from tests.rigs.messages_stub import MessagesStub
from tests.rigs.neovim_rig import Neovim
from tests.rigs.tmux import Pane, Tmux

from .proxy import CuttingProxy
from .transcript import Transcript

RECORD_INTO = os.environ.get("DRAWBRIDGE_TEST_RECORD")
"""The directory for transcripts of the sessions that tests named; None to record nothing."""


class Workstation(contextlib.ExitStack):
    """Starts programs in the test's own home, and ends them with the test. The test scripts ``model`` and checks its
    requests.
    """

    def __init__(self, project: Path, model: GeminiStub, tmux: Tmux) -> None:
        super().__init__()
        self.project = project
        self.model = model
        self.tmux = tmux
        self.environment = gemini_rig.environment(model)
        self._agents = 0
        self._wait_for_agents: Callable[[int], object] = lambda number: None
        project.mkdir()
        gemini_rig.prepare_home()

    def file(self, name: str, content: str | bytes) -> Path:
        """Writes a file with exactly this content into the project."""
        path = self.project / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def neovim(self, *files: Path, options: str = "{}", program: Path | None = None) -> Neovim:
        """Starts Neovim with the plugin, and waits for its bridge. ``program`` defaults to the newest Neovim."""
        environment = self.environment
        neovim = Neovim.start(
            self.tmux, program or programs.nvim(), *files, cwd=self.project, environment=environment, options=options
        )
        gemini_rig.wait_for_discovery()
        self._wait_for_agents = neovim.wait_for_agents
        return neovim

    def folder(self, *flags: str, environment: Mapping[str, str] | None = None) -> Pane:
        """Starts a bridge without an editor on its own terminal. ``environment`` is added to the usual variables."""
        command = [sys.executable, "-m", "drawbridge", "ide", "--folder", str(self.project), *flags]
        everything = self.environment | dict(environment or {})
        pane = self.tmux.start("bridge", command, cwd=self.project, environment=everything)
        gemini_rig.wait_for_discovery()
        self._wait_for_agents = lambda number: pane.wait_for("is connected")
        return pane

    def gemini(self, *, recorded_as: tuple[str, str] | None = None) -> Gemini:
        """Starts the CLI in another terminal and connects it. ``recorded_as``: a transcript's name and description."""
        if RECORD_INTO and recorded_as:
            return self.gemini_through(self.proxy(*recorded_as))
        gemini = self.unconnected_gemini()
        self._wait_for_one_more()
        return gemini

    def unconnected_gemini(self, *, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Gemini:
        """Starts the CLI in another terminal, without waiting for it to connect."""
        everything = self.environment | dict(environment or {})
        return Gemini.start(self.tmux, programs.gemini(), project=cwd or self.project, environment=everything)

    def proxy(self, name: str, what: str) -> CuttingProxy:
        """Starts a proxy between the bridge and a CLI. It records their messages if ``RECORD_INTO`` is set."""
        transcript = None
        if RECORD_INTO:
            transcript = Transcript(Path(RECORD_INTO), name, what, {str(self.project): "/project"})
        return self.enter_context(CuttingProxy(gemini_rig.wait_for_discovery(), transcript=transcript))

    def gemini_through(self, proxy: CuttingProxy) -> Gemini:
        """Starts the CLI and connects it to the bridge through the proxy."""
        gemini = self.unconnected_gemini(environment={"GEMINI_CLI_IDE_SERVER_PORT": str(proxy.port)})
        self._wait_for_one_more()
        return gemini

    @functools.cached_property
    def claude_model(self) -> MessagesStub:
        """Claude Code's model, started when it is first used."""
        return self.enter_context(MessagesStub())

    def claude(self) -> Claude:
        """Starts Claude Code as the second agent, and connects it to the bridge."""
        claude_rig.prepare_home(self.project)
        environment = claude_rig.environment(self.claude_model)
        port = int(claude_rig.wait_for_lock().stem)
        claude = Claude.start(self.tmux, programs.claude(), project=self.project, environment=environment, port=port)
        self._wait_for_one_more()
        return claude

    def _wait_for_one_more(self) -> None:
        self._agents += 1
        self._wait_for_agents(self._agents)
