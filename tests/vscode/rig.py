"""A real VS Code (code-server) with the extension installed as users install it, and its windows in a headless browser.

It takes seconds to start, so all tests of a process share one, and each test has its own files in the folders of the
window. Keys are typed through the browser. The state of a window is read through ``probe``, an extension that only this
rig installs.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from drawbridge.setup import vsix
from tests import programs
from tests.rigs.browser import BrowserProcess
from tests.waiting import PATIENCE

T = TypeVar("T")
HERE = Path(__file__).resolve().parent
EXTENSION = HERE.parent.parent / "extensions" / "vscode"

SETTINGS = {
    "chat.disableAIFeatures": True,
    "extensions.autoCheckUpdates": False,
    "extensions.ignoreRecommendations": True,
    "files.autoSave": "off",  # code-server's default would save automatically
    "git.enabled": False,
    "npm.autoDetect": "off",
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "typescript.disableAutomaticTypeAcquisition": True,
    "update.mode": "none",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}


def wait_until(condition: Callable[[], T | None], what: str, *, timeout: float = PATIENCE) -> T:
    """Calls ``condition`` until it returns a truthy value, and returns that value. ``timeout`` is in seconds."""
    end = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not appear within {timeout:g} s"
        time.sleep(0.01)
    return found


class Lines:
    """A connection over a Unix socket with one JSON object on each line, as the extension and the probe use it."""

    def __init__(self, address: Path, *, timeout: float = PATIENCE) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        try:
            self.socket.connect(str(address))
        except OSError:
            self.socket.close()
            raise
        self._answers = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> Any:
        """Waits for the next object and returns it. Raises ``EOFError`` if the other side has disconnected."""
        line = self._answers.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def ask(self, **message: Any) -> Any:
        self.send(json.dumps(message).encode() + b"\n")
        return self.receive()

    def close(self) -> None:
        self._answers.close()
        self.socket.close()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Window:
    """One window, with its page in the browser, its extension host, and our extension's sockets."""

    def __init__(self, browser: BrowserProcess, name: str, probe: Lines, pid: int, sockets: Path) -> None:
        self.browser = browser
        self.name = name
        self.pid = pid
        """The process ID of the extension host."""
        self._probe = probe
        self._sockets = sockets

    def run(self, code: str, argument: Any = None) -> Any:
        """Runs the body of an async function with the parameters that ``probe.js`` lists. Returns its result. Fails if
        it throws.
        """
        answer = self._probe.ask(id=1, code=code, argument=argument)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def until(self, code: str, argument: Any = None, *, timeout: float = PATIENCE) -> Any:
        return wait_until(lambda: self.run(code, argument), code, timeout=timeout)

    def types(self, text: str) -> None:
        self.browser.send(page=self.name, type=text)

    def presses(self, key: str) -> None:
        self.browser.send(page=self.name, press=key)

    def sees(self, css: str) -> list[str]:
        """Returns the visible texts of all elements that match ``css``."""
        found: list[str] = self.browser.send(page=self.name, text=css)
        return found

    def clicks(self, css: str) -> None:
        self.browser.send(page=self.name, click=css)

    def sockets(self) -> list[Path]:
        return sorted(self._sockets.glob(f"*-vscode-{self.pid}.sock"))

    def close(self) -> None:
        self._probe.close()
        self.browser.send(page=self.name, close=True)


class VSCode:
    """The code-server, a browser, and the directory that contains all their files."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.home, self.sockets, self._probes = directory / "home", directory / "s", directory / "p"
        for place in (self.home, self.sockets, self._probes):
            place.mkdir()
        self._environment = os.environ | {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(directory / "state"),  # where the extension finds an agent server
            "DRAWBRIDGE_SOCKET_DIR": str(self.sockets),
            "DRAWBRIDGE_TEST_PROBES": str(self._probes),
        } | dict(environment or {})  # fmt: skip
        user = directory / "user" / "User"
        user.mkdir(parents=True)
        (user / "settings.json").write_text(json.dumps(SETTINGS))
        self._names = (f"w{number}" for number in itertools.count(1))
        self._everything = contextlib.ExitStack()
        try:
            self._install(EXTENSION, HERE / "probe")
            self._url = self._start()
            self.browser = BrowserProcess(HERE / "page.mjs", HOME=str(self.home))
            self._everything.callback(self.browser.close)
        except BaseException:
            self.close()
            raise

    def _command(self, *arguments: str) -> list[str]:
        places = ["--user-data-dir", str(self.directory / "user"), "--extensions-dir", str(self.directory / "ext")]
        return [str(programs.code_server()), *places, *arguments]

    def _install(self, *folders: Path) -> None:
        arguments = []
        for folder in folders:
            packed = self.directory / f"{folder.name}.vsix"
            vsix.pack(folder, packed)
            arguments += ["--install-extension", str(packed)]
        done = subprocess.run(
            self._command(*arguments), env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _start(self) -> str:
        log = self.directory / "server.log"
        flags = ["--auth", "none", "--bind-addr", "127.0.0.1:0", "--disable-telemetry", "--disable-update-check"]
        # On a busy machine, the message that a window is closing may be lost. Then the server ends the window's
        # connection after this many seconds. The default is three hours.
        flags += ["--disable-getting-started-override", "--reconnection-grace-time", "15"]
        with log.open("wb") as out:
            process = subprocess.Popen(
                self._command(*flags), env=self._environment, stdout=out, stderr=out, start_new_session=True
            )
        self._everything.callback(end_group, process)

        def url() -> str | None:
            assert process.poll() is None, log.read_text()
            found = re.search(r"HTTP server listening on (http://127\.0\.0\.1:\d+)", log.read_text())
            return found and found[1]

        return wait_until(url, "code-server")

    def window(self, *folders: Path) -> Window:
        """Opens a window that shows these folders, or none, and waits until it is ready."""
        name = next(self._names)
        query = "ew=true"
        if len(folders) == 1:
            query = f"folder={quote(str(folders[0]))}"
        elif folders:
            workspace = self.directory / f"{name}.code-workspace"
            workspace.write_text(json.dumps({"folders": [{"path": str(folder)} for folder in folders]}))
            query = f"workspace={quote(str(workspace))}"
        known = set(self._probes.iterdir())
        self.browser.send(open=f"{self._url}/?{query}", page=name)
        fresh = wait_until(lambda: set(self._probes.iterdir()) - known, "the probe")
        (address,) = fresh
        probe = self._everything.enter_context(wait_until(lambda: _connected(address), "the probe"))
        window = Window(self.browser, name, probe, int(address.stem), self.sockets)
        expected = max(1, len({os.path.realpath(folder) for folder in folders}))
        wait_until(lambda: len(window.sockets()) == expected, "the extension's socket")
        return window

    def close(self) -> None:
        self._everything.close()


def _connected(address: Path) -> Lines | None:
    """Connects to a socket. Returns None if it exists but no process listens on it yet."""
    with contextlib.suppress(ConnectionRefusedError):
        return Lines(address)
    return None


@contextlib.contextmanager
def running() -> Iterator[VSCode]:
    directory = Path(tempfile.mkdtemp(prefix="db-vs-", dir="/tmp"))  # a socket's path may have at most 107 bytes
    try:
        with contextlib.closing(VSCode(directory)) as vscode:
            yield vscode
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that leads its own process group, and everything in that group."""
    for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            process.poll()  # a zombie would keep its group
            try:
                os.killpg(process.pid, number if number == signal.SIGKILL or process.returncode is None else 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
