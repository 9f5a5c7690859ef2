"""An agent that a person started reports to the agent server of this machine, and its question waits there for an answer.

Only where a server listens. What is reported is sent and forgotten. While a question of the main agent waits, the CLI's own
dialog stays usable and the first answer decides; while one of a subagent waits, the terminal shows no dialog, so that wait is
bounded (both measured on 2.1.329). A question outlives its server: it is sent again to the next one, as the same question.
The lines are those of ``protocols.local_ipc``.
"""

import posix
from _socket import AF_UNIX, SOCK_STREAM, socket
from select import POLLIN, poll
from time import monotonic

from drawbridge.guard import calls, find, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from drawbridge.guard.settings import Settings

MARK = b"DRAWBRIDGE_AGENT"
"""In the environment of everything that an agent of a server starts: the agent itself reports that to the server."""

PATIENCE = 0.3
"""Seconds for a server to receive a message."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between two searches for a server, once the one that had the question has ended; each wait is twice the last."""

SUBAGENT_SECONDS = 60.0
"""The longest wait for an answer to a subagent's question, since its dialog appears only after the hook has ended. The server
ends the wait earlier; this limit is for a server that hangs or has ended."""

PORTION = 262_144
LARGEST_ANSWER = 64 * 1024 * 1024

LEFT_OUT = ("tool_response", "session_crons")
"""Parts of a payload that nobody needs there, and that may be large."""

STANDARD_OUTPUT = 1


def report(
    call: "calls.Call", servers: "Iterable[str]", settings: "Settings", environ: "Mapping[bytes, bytes]"
) -> "bytes | None":
    """The answer of a client to a question. None: there is none, and the guard goes on. Never raises."""
    process = call.dialect.session(environ) if call.dialect.session and MARK not in environ else None
    if process is None:
        return None
    try:
        connected = _connect(servers)
        decision = _told(connected, call, process, environ) if connected is not None else None
    except TimeoutError:
        return None  # it hangs
    except Exception as error:
        from drawbridge.guard import state

        state.log(settings, environ, f"{call.event_name}: the agent server: {type(error).__name__}: {error}")
        return None
    return calls.decide(call, decision) if isinstance(decision, dict) else None


def _told(
    connected: "socket", call: "calls.Call", process: "Mapping[str, Any]", environ: "Mapping[bytes, bytes]"
) -> "Any":
    """The decision. None: there is none."""
    line, waits = _line(call, process), call.event == calls.ASKS
    parent, pause = posix.getppid(), FIRST_PAUSE
    until = monotonic() + SUBAGENT_SECONDS if call.input.get("agent_id") else None
    heard = _talk(connected, line, until, waits=waits)
    while heard == b"":
        if _left_alone(pause) or posix.getppid() != parent or (until is not None and monotonic() > until):
            return None
        pause = min(2 * pause, LONGEST_PAUSE)
        try:
            again = _connect(find.servers(environ))
            heard = heard if again is None else _talk(again, line, until, waits=waits)
        except OSError:
            continue  # it is gone already, or not ready to listen
    answer = json_text.parse(heard) if heard else None
    return answer.get("decision") if isinstance(answer, dict) else None


def _talk(connected: "socket", line: bytes, until: "float | None", *, waits: bool) -> "bytes | None":
    """The server's answer. ``b""``: the server has ended. None: there is nothing to wait for, the agent has gone, or it is
    later than ``until``."""
    try:
        connected.sendall(line)
        return _wait(connected, until) if waits else None
    finally:
        connected.close()


def _connect(servers: "Iterable[str]") -> "socket | None":
    for path in servers:
        connected = socket(AF_UNIX, SOCK_STREAM)
        connected.settimeout(PATIENCE)
        try:
            connected.connect(path)
        except OSError:
            connected.close()
        else:
            return connected
    return None


def _line(call: "calls.Call", process: "Mapping[str, Any]") -> bytes:
    payload = {name: value for name, value in call.input.items() if name not in LEFT_OUT}
    said = {"type": "hook", "pid": posix.getppid(), **process, "payload": payload}
    if call.event == calls.ASKS:
        said["question"] = posix.urandom(16).hex()
    return json_text.dump(said).encode() + b"\n"


def _wait(connected: "socket", until: "float | None") -> "bytes | None":
    """Reads a line, without a limit or until ``until``; see ``_talk``."""
    waiting, received = poll(), b""
    waiting.register(connected.fileno(), POLLIN)
    waiting.register(STANDARD_OUTPUT, 0)  # it reports only that nobody reads there any more
    while True:
        left = None if until is None else max(0, int((until - monotonic()) * 1000))
        ready = [number for number, _ in waiting.poll(left)]
        if not ready or STANDARD_OUTPUT in ready:
            return None
        try:
            data = connected.recv(PORTION)
        except ConnectionError:
            data = b""
        received += data
        if len(received) > LARGEST_ANSWER:
            return None
        if received.endswith(b"\n"):
            return received
        if not data:
            return b""


def _left_alone(seconds: float) -> bool:
    """Whether the agent goes within that time."""
    reader = poll()
    reader.register(STANDARD_OUTPUT, 0)
    return bool(reader.poll(int(seconds * 1000)))
