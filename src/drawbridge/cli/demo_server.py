"""Runs the server of ``drawbridge demo``, with a sample project and, for the scripted agent, a first approval request.
Everything is deleted at the end.
"""

from __future__ import annotations

import contextlib
import html
import json
import signal
import sys
import tempfile
import webbrowser
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from websockets.sync.client import connect

from drawbridge.agents import catalog
from drawbridge.cli.own_server import own_server
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
"""The names and the contents of the sample project's files."""

PROMPT: Final = "Add a welcome to README.md"

ANSWER_SECONDS: Final = 10.0


def run(agent: str, *, browse: bool) -> int:
    """Blocks until Ctrl-C, a signal or the end of the server, then deletes the sample project and the server's data.
    Returns the exit code. ``browse``: whether to open the web UI in the browser."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGHUP, _stop)
    with tempfile.TemporaryDirectory(prefix="drawbridge-demo-") as place:
        directory = Path(place).resolve() / "toll-house"
        directory.mkdir()
        for name, text in FILES.items():
            (directory / name).write_text(text)
        arguments = ["--no-tls", "--data-dir", str(Path(place) / "data"), "--allow", str(directory)]
        with (
            contextlib.suppress(KeyboardInterrupt),
            own_server(*arguments, failure="The demo did not start") as (server, ready),
        ):
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


def _begin(url: str, token: str, directory: Path, agent: str) -> str:
    """Creates the project and sends the scripted agent its first prompt. Returns the project's ID. Raises ``NoProgram``
    if the server refuses that."""
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

        ask("hello", client="drawbridge demo")  # the name that is shown next to the first prompt
        project: str = ask("project_create", path=str(directory), agent=agent)["project_id"]
        if not catalog.AGENTS[agent].program:  # a real agent costs money, so the user sends its first prompt
            ask("execute", project_id=project, prompt=PROMPT, options={"partial_messages": True})
        return project


def _browse(address: str, place: Path) -> None:
    """Opens the browser through a private file, because every user of the machine could read a token in the browser's
    arguments."""
    leads = place / "open.html"
    leads.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(address)}">')
    webbrowser.open(leads.as_uri())


def _show(address: str, directory: Path, agent: str) -> None:
    terminal = Terminal(sys.stdout)
    waits = (
        "A scripted agent, which needs no account or model, is waiting there for your first decision: accept its\n"
        "change, edit it first, or reject it with a reason. Then send it a prompt; /help lists what it understands."
        if not catalog.AGENTS[agent].program
        else f"{catalog.title(agent)} runs with your own account: send it a prompt, and decide what it may do."
    )
    terminal.write(
        f"{terminal.paint('The web UI is ready:', 'agent')}\n\n  {terminal.paint(address, 'path')}\n\n{waits}\n"
        f"The project in {directory} is deleted when the demo ends. Press Ctrl-C to end it.\n"
    )
