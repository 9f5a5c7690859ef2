"""A plain ``claude`` tells the agent server of this machine what it does, and a question of its waits there for an answer.

Only where a server listens. It never holds the agent up: what is told is sent and forgotten, and while a question waits the
CLI's own dialog stays as it is; who answers first decides (measured on 2.1.329). The lines are those of ``wire.desk``.
"""

from __future__ import annotations

import posix
from _socket import AF_UNIX, SOCK_STREAM, socket
from select import POLLIN, poll

from drawbridge.guard import agents, json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

MARK = b"DRAWBRIDGE_AGENT"
"""In the environment of whatever an agent of a server starts: the server hears of that from the agent itself."""

PATIENCE = 0.3
"""Seconds for a server to take what it is told."""

PORTION = 262_144
LARGEST_ANSWER = 64 * 1024 * 1024

LEFT_OUT = ("tool_response", "background_tasks", "session_crons")
"""Parts of a payload that nobody needs there, and that may be large."""

STANDARD_OUTPUT = 1


def report(
    call: agents.Call, servers: Iterable[str], settings: Mapping[str, Any], environ: Mapping[bytes, bytes]
) -> bytes | None:
    """The answer of a client to a question. None: there is none, and the guard goes on. Never raises."""
    if MARK in environ or not _attended(environ):
        return None
    try:
        connected = _connect(servers)
        decision = _told(connected, call, environ) if connected is not None else None
    except TimeoutError:
        return None  # it hangs
    except Exception as error:
        from drawbridge.guard import state

        state.log(settings, environ, f"{call.event_name}: the agent server: {type(error).__name__}: {error}")
        return None
    return agents.decide(call, decision) if isinstance(decision, dict) else None


def _told(connected: socket, call: agents.Call, environ: Mapping[bytes, bytes]) -> Any:
    try:
        connected.sendall(_line(call, environ))
        return _wait(connected) if call.event == agents.ASKS else None
    finally:
        connected.close()


def _attended(environ: Mapping[bytes, bytes]) -> bool:
    """Whether a person sits before it. ``claude -p`` would wait for an answer that it never had to wait for before."""
    if environ.get(b"CLAUDE_CODE_SESSION_ATTENDED") == b"0":
        return False
    return not environ.get(b"CLAUDE_CODE_ENTRYPOINT", b"").startswith(b"sdk")


def _connect(servers: Iterable[str]) -> socket | None:
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


def _line(call: agents.Call, environ: Mapping[bytes, bytes]) -> bytes:
    process = environ.get(b"CLAUDE_PID", b"")
    pid = int(process) if process.isdigit() else posix.getppid()
    payload = {name: value for name, value in call.input.items() if name not in LEFT_OUT}
    return json_text.dump({"type": "hook", "pid": pid, "payload": payload}).encode() + b"\n"


def _wait(connected: socket) -> Any:
    """The decision, for as long as it takes. None: it was settled at the desk, or the server or the agent has gone."""
    waiting, received = poll(), b""
    waiting.register(connected.fileno(), POLLIN)
    waiting.register(STANDARD_OUTPUT, 0)  # it reports only that nobody reads there any more
    while True:
        ready = [number for number, _ in waiting.poll()]
        if STANDARD_OUTPUT in ready:
            return None
        data = connected.recv(PORTION)
        received += data
        if not data or len(received) > LARGEST_ANSWER:
            return None
        if received.endswith(b"\n"):
            answer = json_text.parse(received)
            return answer.get("decision") if isinstance(answer, dict) else None
