"""A workstation with the guard: editors started by ``drawbridge nvim``, and agents set up by ``drawbridge setup``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

from drawbridge.core.launcher import socket_prefix
from tests import programs
from tests.e2e.claude.workstation import Workstation
from tests.rigs import claude_rig
from tests.rigs.claude_rig import Claude
from tests.rigs.messages_stub import Block, MessagesStub, ModelRequest
from tests.rigs.neovim_rig import Neovim
from tests.rigs.tmux import Pane, Tmux, wait_until
from tests.setup import headless
from tests.waiting import PATIENCE

STUCK = "Press ENTER"


class GuardedWorkstation(Workstation):
    """Editors listen in ``sockets``, and the guard searches no other directory unless a test sets it up with others."""

    def __init__(self, project: Path, model: MessagesStub, tmux: Tmux) -> None:
        super().__init__(project, model, tmux)
        self.sockets = Path(os.environ["XDG_RUNTIME_DIR"]) / "sockets"
        self.sockets.mkdir(mode=0o700)
        self.guards: dict[str, list[str]] = {}
        """The command that starts the guard, by agent."""

    def set_up(self, agent: str = "claude", *flags: str | Path) -> None:
        """Runs ``drawbridge setup``. Editors have more time than usual to answer, because the machine may be busy."""
        words = [
            "setup",
            agent,
            "--json",
            "--yes",
            "--socket-dir",
            str(self.sockets),
            "--deadline",
            "5000",
            *map(str, flags),
        ]
        self.guards[agent] = json.loads(self.drawbridge(*words))["command"]

    def drawbridge(self, *words: str) -> str:
        """Runs a ``drawbridge`` command and returns its output. Does not check its exit code."""
        return self.attempt(*words).stdout

    def attempt(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "drawbridge", *words]
        environment = claude_rig.environment(self.model) | {"DRAWBRIDGE_HOOK_SOCKET_DIR": str(self.sockets)}
        return subprocess.run(
            command, cwd=self.project, env=environment, text=True, capture_output=True, timeout=PATIENCE, check=False
        )

    def nvim(self, *files: Path, program: Path | None = None, plugin: bool = False, cwd: Path | None = None) -> Neovim:
        """Starts ``drawbridge nvim``. Waits for the bridge if ``plugin``. ``program`` defaults to the newest Neovim."""
        directory = cwd or self.project
        environment = claude_rig.environment(self.model) | {
            "DRAWBRIDGE_SOCKET_DIR": str(self.sockets),
            "DRAWBRIDGE_NVIM_PROGRAM": str(program or programs.nvim()),
        }
        command = [sys.executable, "-m", "drawbridge", "nvim", "-n", "-i", "NONE", *programs.WITHOUT_PYTHON]
        command += [] if plugin else ["--noplugin"]
        pane = self.tmux.start("nvim", [*command, *map(str, files)], cwd=directory, environment=environment)
        socket = Path(f"{socket_prefix(str(directory), environment)}{pane.pid}.sock")
        neovim = Neovim(pane, socket)
        neovim.wait_for("return vim.v.vim_did_enter == 1", what="did not start")
        if plugin:
            neovim.wait_for("return require('drawbridge.link').state() ~= nil", what="got no bridge")
            self._wait_for_connection = lambda claude: claude.pane.wait_for("⧉")
        return neovim

    def plain_nvim(self, *files: Path) -> Neovim:
        """Starts ``nvim`` without naming a socket, so it creates one in the runtime directory."""
        folder = Path(os.environ["XDG_RUNTIME_DIR"])
        command = [str(programs.nvim()), "-n", "-i", "NONE", "-u", "NONE", *map(str, files)]
        environment = claude_rig.environment(self.model) | {"TMPDIR": str(folder)}  # where Neovim 0.7 creates it
        pane = self.tmux.start("nvim", command, cwd=self.project, environment=environment)
        socket = wait_until(lambda: next(chain(folder.glob("nvim.*.0"), folder.glob("nvim??????/0")), None))
        return Neovim(pane, socket)

    def ask_claude(self, *turns: Block | list[Block], flags: tuple[str, ...] = (), cwd: Path | None = None) -> str:
        """Runs one prompt with ``claude -p`` until the CLI ends. Returns all text that it sent to the model."""
        before = len(self.model.requests)
        pane = self.start_claude(*turns, flags=flags, cwd=cwd)
        assert pane.wait_for_exit() == 0
        return "\n".join(request.new_text for request in self.model.requests[before:])

    def start_claude(self, *turns: Block | list[Block], flags: tuple[str, ...] = (), cwd: Path | None = None) -> Pane:
        """Starts ``claude -p`` like ``ask_claude``, but does not wait for it to end."""
        self.model.will_say(*turns)
        environment = claude_rig.environment(self.model)
        return self.tmux.start(
            "claude -p", headless.claude_command(*flags), cwd=cwd or self.project, environment=environment
        )

    def unconnected_claude(self, *flags: str) -> Claude:
        """Starts the CLI in a terminal, without an editor connection. Unless ``flags`` change that, it asks before it
        writes.
        """
        environment = claude_rig.environment(self.model)
        return Claude.start(self.tmux, programs.claude(), *flags, project=self.project, environment=environment)

    def hook(self, agent: str = "claude", **payload: Any) -> tuple[dict[str, Any], float]:
        """Calls the installed guard as the agent would. Returns its answer, and the seconds that it took."""
        call = {"session_id": "s", "transcript_path": "/t", "cwd": str(self.project), **payload}
        environment = claude_rig.environment(self.model)
        before = time.monotonic()
        result = subprocess.run(
            self.guards[agent], input=json.dumps(call).encode(), env=environment, capture_output=True, timeout=PATIENCE
        )
        took = time.monotonic() - before
        assert (result.returncode, result.stderr) == (0, b"")
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer, took

    @property
    def log(self) -> str:
        """The content of the guard's log; "" if there is no log yet."""
        file = Path(os.environ["XDG_STATE_HOME"], "drawbridge", "guard.log")
        return file.read_text() if file.exists() else ""


def edit_call(file: Path, old: str = "two", new: str = "TWO") -> dict[str, Any]:
    """Returns what Claude Code sends to its hook before an edit, without the fields that ``hook`` adds."""
    given = {"file_path": str(file), "old_string": old, "new_string": new, "replace_all": False}
    return {"hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_input": given, "tool_use_id": "toolu_1"}


def results(requests: list[ModelRequest]) -> list[str]:
    """Returns all tool results in the requests, in order."""
    return [result for request in requests for result in request.tool_results]


def is_notified_in_one_line(neovim: Neovim, words: str) -> None:
    """Waits for a notice with these words, and checks that it does not keep the user from typing."""
    screen = neovim.pane.wait_for(words)
    assert STUCK not in screen
    neovim.wait_for("return not vim.api.nvim_get_mode().blocking", what="waits for the user")


def wait_for_text(file: Path, content: str) -> None:
    try:
        wait_until(lambda: True if file.read_text() == content else None)
    except TimeoutError:
        raise AssertionError(f"{file.name} is {file.read_text()!r}, not {content!r}") from None
