"""The server of ``drawbridge demo``: a sample project and a first approval, all of it deleted at the end."""

from __future__ import annotations

import contextlib
import html
import json
import signal
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from websockets.sync.client import connect

from drawbridge.agents import catalog
from drawbridge.core.errors import NoProgram
from drawbridge.core.terminal_text import Terminal

FILES: Final = {
    "README.md": "# The toll house\n\nA small program that minds a drawbridge.\n",
    "bridge.py": '''"""What crosses the bridge, and when."""

from datetime import datetime, time

OPENS = time(6, 0)
CLOSES = time(22, 0)


def is_open(now: datetime) -> bool:
    """Whether the bridge is down at this time."""
    return OPENS <= now.time() <= CLOSES
''',
}
"""The sample project."""

PROMPT: Final = "Welcome me in README.md"

ANSWER_SECONDS: Final = 10.0
ENDING_SECONDS: Final = 20.0


def run(agent: str, *, browse: bool) -> int:
    """Blocks until Ctrl-C or a signal, then deletes everything. ``browse``: open the page in the browser."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    with tempfile.TemporaryDirectory(prefix="drawbridge-demo-") as place:
        directory = Path(place).resolve() / "toll-house"
        directory.mkdir()
        for name, text in FILES.items():
            (directory / name).write_text(text)
        with contextlib.suppress(KeyboardInterrupt), _server(Path(place) / "data", directory) as (server, ready):
            token = Path(ready["token_file"]).read_text("ascii").strip()
            project = _begin(ready["url"], token, directory, agent)
            page = ready["url"].replace("ws://", "http://").removesuffix("ws")
            address = f"{page}#token={token}&project={project}"
            _show(address, directory, agent)
            if browse:
                _browse(address, Path(place))
            return server.wait()
    return 0


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _server(data: Path, directory: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A server and its ready line. It is stopped, with all its agents, at the end of the block."""
    arguments = ["--json", "--no-tls", "--port", "0", "--data-dir", str(data), "--allow", str(directory)]
    command = [sys.executable, "-P", "-m", "drawbridge", "serve", *arguments, "--log-level", "warning"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        line = server.stdout.readline()
        if not line:
            raise NoProgram("The demo did not start: the server's error is above.")
        yield server, json.loads(line)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's Ctrl-C has reached the server as well
        if server.poll() is None:
            server.terminate()
        try:
            server.wait(ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


def _begin(url: str, token: str, directory: Path, agent: str) -> str:
    """Creates the project and sends the scripted agent its first prompt; returns the project's ID."""
    headers = {"Authorization": f"Bearer {token}"}
    with connect(url, additional_headers=headers, proxy=None, open_timeout=ANSWER_SECONDS) as socket:

        def ask(kind: str, **data: Any) -> dict[str, Any]:
            socket.send(json.dumps({"type": kind, "data": data, "request_id": kind}))
            while True:
                answer: dict[str, Any] = json.loads(socket.recv(timeout=ANSWER_SECONDS))
                if answer.get("request_id") != kind:
                    continue
                if answer["type"] == "error":
                    raise NoProgram(f"The demo did not start: {answer['data']['message']}")
                return answer

        project: str = ask("project_create", path=str(directory), agent=agent)["project_id"]
        if not catalog.AGENTS[agent].program:  # a real one costs money: the person starts it
            ask("execute", project_id=project, prompt=PROMPT, options={"partial_messages": True})
        return project


def _browse(address: str, place: Path) -> None:
    """Opens the browser through a private file: every user of the machine could read the token in a program's arguments."""
    leads = place / "open.html"
    leads.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">')
    webbrowser.open(leads.as_uri())


def _show(address: str, directory: Path, agent: str) -> None:
    terminal = Terminal(sys.stdout)
    waits = (
        "A scripted agent (no account, no model) waits there for your first decision: accept its\n"
        "change, edit it first, or reject it with a reason. Then send it a prompt; /help lists what it understands."
        if not catalog.AGENTS[agent].program
        else f"{agent} runs there with your own account: send it a prompt, and decide what it may do."
    )
    terminal.write(
        f"{terminal.paint('The page is ready:', 'agent')}\n\n  {terminal.paint(address, 'path')}\n\n{waits}\n"
        f"The project in {directory} is deleted when the demo ends. Press Ctrl-C to end it.\n"
    )
