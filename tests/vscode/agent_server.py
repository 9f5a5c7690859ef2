"""Starts a real ``drawbridge serve`` and simulates runs of an agent in a terminal, by sending what its hooks report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

from .rig import Lines, VSCode


class AgentServer:
    """The agent server. ``data`` is its data directory, from which the next server restores open reviews."""

    def __init__(self, vscode: VSCode, data: Path) -> None:
        self._environment = os.environ | {"HOME": str(vscode.home), "XDG_STATE_HOME": str(vscode.directory / "state")}
        self._sockets = vscode.directory / "state" / "drawbridge" / "serve"
        self._data = data
        self._allowed = vscode.directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **variables: str) -> None:
        """Starts the server, with these environment variables."""
        flags = ["--json", "--port", "0", "--no-tls", "--data-dir", str(self._data), "--allow", str(self._allowed)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "drawbridge", "serve", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment | variables,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "drawbridge serve has ended"

    def end(self) -> None:
        """Ends the server, even if a test that failed has left it stopped."""
        if self._process is not None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)
            try:
                assert self._process.wait(PATIENCE) == 0
            finally:
                self.kill()

    def stop(self) -> None:
        """Stops the process of the server. Its socket still accepts connections and requests."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(PATIENCE)
        self._process.stdout.close()
        self._process = None

    def connects(self) -> Lines:
        (address,) = self._sockets.glob("*.sock")
        return Lines(address)

    def run(self, directory: Path, work: Callable[[], object]) -> None:
        """Simulates a run in ``directory`` in which the agent does ``work``."""
        known = {"session_id": str(uuid.uuid4()), "cwd": str(directory), "transcript_path": "/nowhere.jsonl"}
        known |= {"permission_mode": "default", "prompt_id": str(uuid.uuid4())}
        self._reports(known, "UserPromptSubmit", prompt="Go")
        self._reports(known, "PreToolUse", tool_name="Bash", tool_input={"command": "make"})
        work()
        self._reports(known, "Stop")

    def _reports(self, known: dict[str, Any], event: str, **more: Any) -> None:
        payload = {**known, "hook_event_name": event, **more}
        with self.connects() as lines:
            lines.send(json.dumps({"type": "hook", "pid": os.getpid(), "payload": payload}).encode() + b"\n")
            try:
                while True:  # before a tool, the server disconnects only after the checkpoint
                    lines.receive()
            except EOFError:
                pass

    def decides_elsewhere(self, directory: Path, **decision: Any) -> None:
        """Decides on all changes in this directory, as another editor would."""
        with self.connects() as lines:
            lines.ask(type="bridge", editor="Neovim", folders=[], reviews=True)
            found = self._asks(lines, type="review_get", folder=str(directory))
            about = {"project": found["project"], "version": found["review"]["version"], "all": True}
            self._asks(lines, type="review_decide", **about, **decision)

    def refused_elsewhere(self, directory: Path, **decision: Any) -> str:
        """Decides on all changes in this directory, as another editor would. Returns the reason of the refusal."""
        with self.connects() as lines:
            lines.ask(type="bridge", editor="Neovim", folders=[], reviews=True)
            found = self._asks(lines, type="review_get", folder=str(directory))
            about = {"project": found["project"], "version": found["review"]["version"], "all": True}
            answer = lines.ask(id="2", type="review_decide", **about, **decision)
            while answer["type"] != "review":
                answer = lines.receive()
            return str(answer["text"])

    @contextmanager
    def deciding_elsewhere(self, directory: Path, **decision: Any) -> Iterator[None]:
        """In the context, another editor waits for the answer to a decision on all changes in this directory."""
        with self.connects() as lines:
            lines.ask(type="bridge", editor="Neovim", folders=[], reviews=True)
            found = self._asks(lines, type="review_get", folder=str(directory))
            about = {"project": found["project"], "version": found["review"]["version"], "all": True}
            lines.send(json.dumps({"type": "review_decide", "id": "2", **about, **decision}).encode() + b"\n")
            yield

    def hunks(self, directory: Path) -> list[str]:
        """The ids of all changes in the review of this directory."""
        with self.connects() as lines:
            lines.ask(type="bridge", editor="Neovim", folders=[], reviews=True)
            found = self._asks(lines, type="review_get", folder=str(directory))
        return [hunk["id"] for file in found["review"]["files"] for hunk in file["hunks"]]

    def _asks(self, lines: Lines, **message: Any) -> dict[str, Any]:
        """Sends a request and returns its answer, skipping other messages from the server. Fails if the server refuses
        the request.
        """
        answer: dict[str, Any] = lines.ask(id="1", **message)
        while answer["type"] != "review":
            answer = lines.receive()
        assert not answer["code"], answer
        return answer


@contextmanager
def agent_server(vscode: VSCode) -> Iterator[AgentServer]:
    server = AgentServer(vscode, vscode.directory / f"data-{uuid.uuid4().hex[:8]}")
    server.start()
    try:
        yield server
    finally:
        server.end()
