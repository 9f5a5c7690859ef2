"""A person's workstation with Gemini CLI: a project, an editor, the CLI beside it, and a model that a test scripts."""

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
"""A directory: sessions that a test names are recorded there."""


class Workstation(contextlib.ExitStack):
    """Everything runs in the test's own home and ends with the test, which scripts ``model`` and inspects its requests."""

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
        """A file of the project with exactly this content."""
        path = self.project / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def neovim(self, *files: Path, options: str = "{}", program: Path | None = None) -> Neovim:
        """The newest Neovim with the plugin, or ``program``, and a bridge that has announced itself."""
        environment = self.environment
        neovim = Neovim.start(
            self.tmux, program or programs.nvim(), *files, cwd=self.project, environment=environment, options=options
        )
        gemini_rig.wait_for_discovery()
        self._wait_for_agents = neovim.wait_for_agents
        return neovim

    def folder(self, *flags: str, environment: Mapping[str, str] | None = None) -> Pane:
        """The bridge without an editor, on a terminal of its own; ``environment`` comes on top of the usual."""
        command = [sys.executable, "-m", "drawbridge", "ide", "--folder", str(self.project), *flags]
        everything = self.environment | dict(environment or {})
        pane = self.tmux.start("bridge", command, cwd=self.project, environment=everything)
        gemini_rig.wait_for_discovery()
        self._wait_for_agents = lambda number: pane.wait_for("is connected")
        return pane

    def gemini(self, *, recorded_as: tuple[str, str] | None = None) -> Gemini:
        """The CLI in another terminal, connected. ``recorded_as``: a name for the transcript and a sentence about it."""
        if RECORD_INTO and recorded_as:
            return self.gemini_through(self.proxy(*recorded_as))
        gemini = self.lonely_gemini()
        self._wait_for_one_more()
        return gemini

    def lonely_gemini(self, *, cwd: Path | None = None, environment: Mapping[str, str] | None = None) -> Gemini:
        """The CLI in another terminal, whatever it finds there."""
        everything = self.environment | dict(environment or {})
        return Gemini.start(self.tmux, programs.gemini(), project=cwd or self.project, environment=everything)

    def proxy(self, name: str, what: str) -> CuttingProxy:
        """A proxy between the bridge and a CLI. It records their messages if sessions are recorded."""
        transcript = None
        if RECORD_INTO:
            transcript = Transcript(Path(RECORD_INTO), name, what, {str(self.project): "/project"})
        return self.enter_context(CuttingProxy(gemini_rig.wait_for_discovery(), transcript=transcript))

    def gemini_through(self, proxy: CuttingProxy) -> Gemini:
        """The CLI, connected to the bridge through the proxy."""
        gemini = self.lonely_gemini(environment={"GEMINI_CLI_IDE_SERVER_PORT": str(proxy.port)})
        self._wait_for_one_more()
        return gemini

    @functools.cached_property
    def claude_model(self) -> MessagesStub:
        """The model of the other agent."""
        return self.enter_context(MessagesStub())

    def claude(self) -> Claude:
        """The other agent, connected."""
        claude_rig.prepare_home(self.project)
        environment = claude_rig.environment(self.claude_model)
        port = int(claude_rig.wait_for_lock().stem)
        claude = Claude.start(self.tmux, programs.claude(), project=self.project, environment=environment, port=port)
        self._wait_for_one_more()
        return claude

    def _wait_for_one_more(self) -> None:
        self._agents += 1
        self._wait_for_agents(self._agents)
