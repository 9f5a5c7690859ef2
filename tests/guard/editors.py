"""Fake editors: Unix sockets in this process that use Neovim's or VS Code's protocol and behave as a test specifies.

They have only the state that a test gives them, and record the requests that they receive.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import msgpack

from drawbridge.guard import neovim

Params: TypeAlias = dict[str, Any]
File: TypeAlias = dict[str, Any]
Manner: TypeAlias = Callable[[bytes, bytes], Iterator[bytes]]
"""How an editor answers: yields what is sent, piece by piece, given the answer to ``nvim_get_mode`` (empty for VS Code
and a ``fresh`` Neovim) and the answer to the request itself."""

MODE = msgpack.packb([1, 1, None, {"mode": "n", "blocking": False}])
BLOCKED = msgpack.packb([1, 1, None, {"mode": "r", "blocking": True}])
A_NOTIFICATION = msgpack.packb([2, "redraw", [["grid_line", 1, "text", {"a": None, "b": -1.5}]]])
LATE = 0.03
"""A delay in seconds that is shorter than any deadline."""
LONG = 0.25
"""A delay in seconds: longer than a short deadline, but shorter than the wait for an editor that is working on a
request.
"""


def plainly(mode: bytes, answer: bytes) -> Iterator[bytes]:
    yield mode + answer


def byte_by_byte(mode: bytes, answer: bytes) -> Iterator[bytes]:
    for byte in mode + answer:
        yield bytes([byte])


def late(mode: bytes, answer: bytes) -> Iterator[bytes]:
    yield mode
    time.sleep(LATE)
    yield answer


def at_work(mode: bytes, answer: bytes) -> Iterator[bytes]:
    """Carries out the request, but takes longer than a short deadline."""
    yield mode
    time.sleep(LONG)
    yield answer


def between_notifications(mode: bytes, answer: bytes) -> Iterator[bytes]:
    """Sends notifications between its answers, as Neovim may at any time."""
    yield A_NOTIFICATION + mode[:2]
    yield mode[2:] + A_NOTIFICATION[:5]
    yield A_NOTIFICATION[5:] + answer


def at_a_prompt(_mode: bytes, _answer: bytes) -> Iterator[bytes]:
    """Shows a "Press ENTER" prompt, so it answers only ``nvim_get_mode``."""
    yield BLOCKED


def at_a_short_prompt(_mode: bytes, answer: bytes) -> Iterator[bytes]:
    """Has a pending operator. It reports that it is blocked, but answers nevertheless."""
    yield BLOCKED
    time.sleep(LATE)
    yield answer


def silent(_mode: bytes, _answer: bytes) -> Iterator[bytes]:
    """Reads the request but sends nothing, like an editor that computes something."""
    yield from ()


def busy(mode: bytes, _answer: bytes) -> Iterator[bytes]:
    """Is alive, but never finishes what it was asked to do."""
    yield mode


def hanging_up(_mode: bytes, _answer: bytes) -> Iterator[bytes]:
    yield b""
    raise ConnectionAbortedError


def hanging_up_halfway(mode: bytes, answer: bytes) -> Iterator[bytes]:
    yield mode + answer[:-3]
    raise ConnectionAbortedError


def saying(data: bytes) -> Manner:
    """Returns the behavior of an editor that sends ``data``, whatever the request is."""

    def manner(_mode: bytes, _answer: bytes) -> Iterator[bytes]:
        yield data

    return manner


class Editor:
    """One editor behind one socket. A context manager. ``files`` maps the absolute path of each open file to those fields
    of its state in ``snapshot`` that differ from the state of a saved file in the background.

    ``answers`` replace its usual answers: for each method a result, or a function of its parameters. A ``fresh`` Neovim has
    never been asked before, so it must be sent the Lua code first.
    """

    def __init__(
        self,
        path: Path,
        files: dict[str, File] | None = None,
        *,
        manner: Manner = plainly,
        answers: dict[str, Any] | None = None,
        pid: int = 4711,
        name: str | None = None,
        fresh: bool = False,
        folders: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.is_neovim = "-vscode-" not in path.name
        self.name = name or ("Neovim 0.12.4" if self.is_neovim else "VS Code 1.139.1")
        self.pid = pid
        self.files = {path: dict(file) for path, file in (files or {}).items()}
        self.folders = list(folders)
        self.manner = manner
        self.fresh = fresh
        self.answers = answers or {}
        self.asked: list[tuple[str, Params]] = []
        self._connections: list[socket.socket] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, name=f"editor {path.name}")

    def __enter__(self) -> Editor:
        self._listening.bind(str(self.path))
        self._listening.listen(16)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for connection in (self._listening, *self._connections):
            connection.close()
        self.path.unlink(missing_ok=True)

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]

    @property
    def notices(self) -> list[str]:
        """The notices that the editor was asked to show to the user."""
        return [params["message"] for method, params in self.asked if method == "send_message"]

    def params_of(self, method: str) -> list[Params]:
        return [params for asked, params in self.asked if asked == method]

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # the test is over
                return
            self._connections.append(connection)
            if self.manner is not deaf:
                try:
                    self._talk(connection)
                except OSError:
                    connection.close()

    def _talk(self, connection: socket.socket) -> None:
        method, params = (self._asked_as_neovim if self.is_neovim else self._asked_as_vscode)(connection)
        self.asked.append((method, params))
        result = self.answers.get(method, getattr(self, f"_{method}", lambda _: {"success": True}))
        result = result(params) if callable(result) else result
        if self.is_neovim:
            mode, answer = (b"" if self.fresh else MODE), msgpack.packb([1, 2, None, json.dumps(result)])
        else:
            mode, answer = b"", json.dumps({"id": 1, "result": result}).encode() + b"\n"
        for piece in self.manner(mode, answer):
            connection.sendall(piece)

    def _asked_as_neovim(self, connection: socket.socket) -> tuple[str, Params]:
        requests = _requests(connection)
        assert next(requests) == [0, 1, "nvim_get_mode", []]
        *head, (code, (key, method, params)) = next(requests)
        assert head == [0, 2, "nvim_exec_lua"]
        assert (code, method) == (neovim.FIND, key.split()[0])
        if self.fresh:
            connection.sendall(MODE + msgpack.packb([1, 2, None, None]))
            *again, (code, arguments) = next(requests)
            assert (again, arguments) == (head, [key, method, params])
            assert "local params" in code
        return method, json.loads(params)

    def _asked_as_vscode(self, connection: socket.socket) -> tuple[str, Params]:
        line = b""
        while not line.endswith(b"\n"):
            line += _received(connection)
        request = json.loads(line)
        assert set(request) == {"id", "method", "params"}
        return request["method"], request["params"]

    def _snapshot(self, params: Params) -> dict[str, Any]:
        listed = [self._listed(path) for path in self.files]
        parts = {
            "unsaved": [file for file in listed if file and file["modified"]],
            "open": list(self.files),
            "selection": None,
            "connected": [],
        }
        wanted = {part: value for part, value in parts.items() if part in params.get("want", ())}
        if "open" in wanted:
            wanted["folders"] = self.folders
        files = [self._listed(path) for path in params["paths"]]
        return {"editor": self.name, "pid": self.pid, "files": files, **wanted}

    def _listed(self, path: str) -> File | None:
        if path not in self.files:
            return None
        return {"name": path, "modified": False, "current": False, "visible": False, "lines": 3} | self.files[path]

    def _refresh_buffer(self, _params: Params) -> dict[str, Any]:
        return {"success": True, "reloaded": [], "kept": []}

    def _diagnostics(self, _params: Params) -> dict[str, Any]:
        return {"new": [], "pending": False}

    def _save_buffer(self, params: Params) -> dict[str, Any]:
        self.files[params["file_path"]] |= {"modified": False}
        return {"saved": True}

    def _buffer_text(self, _params: Params) -> dict[str, Any]:
        return {"text": None}


def deaf(_mode: bytes, _answer: bytes) -> Iterator[bytes]:
    """Accepts connections but never reads a byte."""
    yield b""


def _requests(connection: socket.socket) -> Iterator[list[Any]]:
    unpacker = msgpack.Unpacker()
    while True:
        yield from unpacker
        unpacker.feed(_received(connection))


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65_536)
    if not data:
        raise ConnectionResetError
    return data
