"""Sends all editors the same request at the same time, within one deadline: non-blocking sockets and a poll."""

import posix
from _socket import AF_UNIX, SOCK_STREAM, socket
from select import POLLERR, POLLHUP, POLLIN, POLLOUT, poll
from time import monotonic

from drawbridge.guard import find, json_text, neovim, vscode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

BLOCKED_GRACE = 0.06
"""Seconds to wait for a Neovim at a prompt. It answers during a pending operator or input(), but not at "Press ENTER"
(measured)."""

PORTION = 262_144
LARGEST_ANSWER = 64 * 1024 * 1024

PARTS = dict.fromkeys(("buffer_text", "merge_buffer", "refresh_buffer", "save_buffer"), ("change",))
"""The Lua files that a method needs besides ``files`` and its own file; a ``snapshot`` with a selection also needs
``selection``."""

HERE = __file__.rpartition("/")[0]


class Answer:
    """One editor's answer. ``result`` is None if no valid answer arrived in time; ``problem`` is the reason."""

    __slots__ = ("kind", "path", "problem", "result")

    def __init__(self, path: str, kind: str) -> None:
        self.path = path
        self.kind = kind
        self.result: Any = None
        self.problem = ""


class _Connection:
    __slots__ = ("answer", "latest", "out", "reader", "received", "sent_lua", "socket", "until")

    def __init__(
        self, connected: "socket", answer: "Answer", reader: "Any", out: bytes, until: float, latest: float
    ) -> None:
        self.socket = connected
        self.answer = answer
        self.reader = reader
        self.out = memoryview(out)
        self.received = 0
        self.sent_lua = False
        self.until = until if reader.blocked is None else latest
        self.latest = latest


def ask(
    sockets: "Iterable[tuple[str, str]]",
    method: str,
    params: "dict[str, Any]",
    milliseconds: int,
    busy_milliseconds: int = 0,
) -> "list[Answer]":
    """The answer of each running editor. A socket on which nothing listens is left out, and removed if Drawbridge
    named it and its process has ended.

    ``milliseconds``: the deadline for all editors together. ``busy_milliseconds``: the deadline for an editor that is
    working on its answer. A Neovim must first report that it is not waiting at a prompt.
    """
    until = monotonic() + milliseconds / 1000
    latest = until + max(0, busy_milliseconds - milliseconds) / 1000
    question = _Request(method, params)
    answers, waiting, poller = [], {}, poll()
    for path, kind in sockets:
        answer = Answer(path, kind)
        connected = _connect(path, answer)
        if connected is None and not answer.problem:
            continue
        answers.append(answer)
        if connected is not None:
            reader = neovim.AnswerReader() if kind == find.NEOVIM else vscode.AnswerReader()
            out = question.bytes_for(kind)
            waiting[connected.fileno()] = _Connection(connected, answer, reader, out, until, latest)
            poller.register(connected.fileno(), POLLIN | POLLOUT)
    while waiting:
        now = monotonic()
        for number, late in [(number, found) for number, found in waiting.items() if found.until <= now]:
            late.answer.problem = "is waiting at a prompt" if late.reader.blocked else "did not answer in time"
            _close(waiting, poller, number)
        if waiting:
            next_deadline = min(found.until for found in waiting.values())
            for number, event in poller.poll(max(0, int((next_deadline - now) * 1000) + 1)):
                if _exchange(waiting[number], event, poller, question):
                    _close(waiting, poller, number)
    return answers


class _Request:
    """One request as bytes, encoded once for each kind of editor. The Lua code is sent only to a Neovim that does not
    have it."""

    __slots__ = ("_made", "_method", "_parts", "_text")

    def __init__(self, method: str, params: "dict[str, Any]") -> None:
        self._method = method
        self._text = json_text.dump(params)
        selection = ("selection",) if "selection" in params.get("want", ()) else ()
        self._parts = ("files", *selection, *PARTS.get(method, ()), method)
        self._made: dict[str, bytes] = {}

    def bytes_for(self, kind: str) -> bytes:
        if kind not in self._made:
            if kind == find.VSCODE:
                self._made[kind] = vscode.request(self._method, self._text)
            else:
                self._made[kind] = neovim.request(self._key(), self._method, self._text)
        return self._made[kind]

    def with_lua(self) -> bytes:
        return neovim.full_request("".join(map(_read, self._parts)), self._key(), self._method, self._text)

    def _key(self) -> str:
        """A key for the current version of the Lua files, from their times and sizes."""
        stats = [posix.stat(f"{HERE}/lua/{part}.lua") for part in self._parts]
        return " ".join([self._method, *(f"{stat.st_mtime_ns}-{stat.st_size}" for stat in stats)])


def _read(name: str) -> str:
    with open(f"{HERE}/lua/{name}.lua", encoding="utf-8") as file:
        return file.read()


def _connect(path: str, answer: "Answer") -> "socket | None":
    connected = socket(AF_UNIX, SOCK_STREAM)
    connected.setblocking(False)
    try:
        connected.connect(path)
    except BlockingIOError:
        answer.problem = "does not accept connections"  # its queue of connections is full, so the process hangs
    except OSError as error:
        if isinstance(error, ConnectionRefusedError):
            _sweep(path)
    else:
        return connected
    connected.close()
    return None


def _sweep(path: str) -> None:
    """Removes the socket of a killed editor if Drawbridge named it. If the editor's process is still running, the
    socket is kept, since the process may be about to listen."""
    pid = find.pid_in(path.rpartition("/")[2])
    if pid:
        try:
            posix.kill(pid, 0)
        except ProcessLookupError:
            try:
                posix.unlink(path)
            except OSError:
                pass
        except OSError:
            pass


def _exchange(found: "_Connection", event: int, poller: "poll", question: "_Request") -> bool:
    """Sends and receives what is possible without blocking. Returns whether the exchange has ended."""
    try:
        if event & POLLOUT and found.out:
            found.out = found.out[found.socket.send(found.out) :]
            if not found.out:
                poller.modify(found.socket.fileno(), POLLIN)
        if event & (POLLIN | POLLHUP | POLLERR):
            data = found.socket.recv(PORTION)
            found.received += len(data)
            if not data:
                found.answer.problem = "closed the connection"
                return True
            if found.received > LARGEST_ANSWER:
                raise ValueError("too large")
            if found.reader.receive(data):
                found.answer.result = found.reader.answer
                return True
            if found.reader.lacks and not found.sent_lua:
                found.sent_lua = True
                found.out = memoryview(question.with_lua())
                poller.modify(found.socket.fileno(), POLLIN | POLLOUT)
            if found.reader.blocked:
                found.until = min(found.until, monotonic() + BLOCKED_GRACE)
            elif found.reader.blocked is False:
                found.until = found.latest
    except BlockingIOError:
        return False
    except OSError:
        found.answer.problem = "closed the connection"
        return True
    except ValueError as error:
        found.answer.problem = f"sent an invalid answer ({error})"
        return True
    return False


def _close(waiting: "dict[int, _Connection]", poller: "poll", number: int) -> None:
    poller.unregister(number)
    waiting.pop(number).socket.close()
