"""Reports the hook events of a terminal session to the agent server on this machine, and waits for decisions on
approval requests.

Nothing happens unless a server is running. An approval request waits for its decision. Before a tool that may write,
the hook waits until the server has a checkpoint of the files, which usually exists already. While a request waits, the
agent's own dialog usually stays usable, and the first decision counts. If the dialog appears only after the hook has
ended, the wait is bounded. If the server ends, the request is sent again to the next one, with the same id.
``protocols.local_ipc`` defines the format of the lines.
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

SEND_TIMEOUT = 0.3
"""Seconds that a server has to accept a report."""

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""The first and the longest pause between attempts to find another server after a server has ended, in seconds. Each
pause is twice the one before, up to the longest."""

HIDDEN_SECONDS = 60.0
"""The maximum number of seconds to wait for the decision on a request if its dialog appears only after the hook has
ended. The server ends the wait earlier. This limit is for a server that hangs or has ended."""

HANDOVER_SECONDS = 1.0
"""The maximum number of seconds to wait for the text that the server stored for the agent. If the server hangs, the
text stays with the server."""

HANDS_OVER = (calls.STOP, calls.PROMPT)
"""The events with answers that can contain the text that the server stored."""

WAKE = b"wake"
"""The content of the file with the extension ``find.WAITING`` if the agent was idle when the server stored the text."""

CHECKPOINT_SECONDS = 6.0
"""The maximum number of seconds to wait before a tool that may write. The server ends the wait as soon as it has a
checkpoint of the files, and after 5 s in any case."""

REPLY_SECONDS = 1.0
"""Seconds within which the server has to report that it has no checkpoint yet, or to close the connection. If it does
neither, it hangs, and the hook stops waiting.
"""

PORTION = 262_144
LARGEST_ANSWER = 64 * 1024 * 1024

OMITTED = ("tool_response", "session_crons", "details")
"""Parts of a payload that the server does not need and that may be large."""

STANDARD_OUTPUT = 1

NEAREST = 3
"""The maximum number of ancestors that are inspected. A shell that runs the hook's command may be one of them."""

COMMAND_BYTES = 65_536
"""The number of bytes of an ancestor's command that are read."""


def to_server(
    call: "calls.Call", servers: "list[str]", settings: "Settings", environ: "Mapping[bytes, bytes]"
) -> "bytes | None":
    """Reports the call. Returns a person's decision in the agent's format; None if the server sends none, so that the
    guard continues. Stores the text that the server hands over, if any, in ``call.handed``. Never raises.
    """
    process = (
        call.dialect.session(environ, _ancestors()) if call.dialect.session and calls.MARK not in environ else None
    )
    if process is None:
        return None
    try:
        connected = _connect(servers)
        if connected is not None and call.event in HANDS_OVER and _is_waiting(call, servers):
            call.handed = _receive_handover(connected, _line(call, process | {"takes": True}))
            return None
        decision = _decision(connected, call, process, environ) if connected is not None else None
    except TimeoutError:
        return None  # the server hangs
    except Exception as error:
        from drawbridge.guard import state

        state.log(settings, environ, f"{call.event_name}: the agent server: {type(error).__name__}: {error}")
        return None
    return calls.decide(call, decision) if isinstance(decision, dict) else None


def wake(call: "calls.Call") -> bytes:
    """The answer to a change of the file that ``Call.watched`` named: wakes the agent if the server requests that."""
    try:
        file = posix.open(call.paths[0], posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return calls.NO_OPINION  # nothing waits any longer
    try:
        requested = posix.read(file, len(WAKE)) == WAKE
    except OSError:
        requested = False
    finally:
        posix.close(file)
    return calls.Wake(call.dialect.WAKES.encode()) if requested else calls.NO_OPINION


def _decision(
    connected: "socket", call: "calls.Call", process: "Mapping[str, Any]", environ: "Mapping[bytes, bytes]"
) -> "Any":
    """The decision for the agent; None if the server sends none. If the server ends, the request is sent to the next
    one."""
    line, waits = _line(call, process), call.event == calls.ASKS
    if call.event == calls.BEFORE:
        return _await_checkpoint(connected, line)
    parent, pause = posix.getppid(), FIRST_PAUSE
    hidden = waits and call.dialect.hides_dialog is not None and call.dialect.hides_dialog(call.input)
    until = monotonic() + HIDDEN_SECONDS if hidden else None
    answered = _exchange(connected, line, until, waits=waits)
    while answered == b"":
        if _agent_ends_within(pause) or posix.getppid() != parent or (until is not None and monotonic() > until):
            return None
        pause = min(2 * pause, LONGEST_PAUSE)
        try:
            again = _connect(find.servers(environ))
            answered = answered if again is None else _exchange(again, line, until, waits=waits)
        except OSError:
            continue  # the next server has already ended, or is not ready yet
    answer = json_text.parse(answered) if answered else None
    return answer.get("decision") if isinstance(answer, dict) else None


def _is_waiting(call: "calls.Call", servers: "list[str]") -> bool:
    """Whether a server has stored text for this session."""
    place = servers[0].rpartition("/")[0]
    return bool(call.session) and posix.access(f"{place}/{call.session}{find.WAITING}", posix.F_OK)


def _receive_handover(connected: "socket", line: bytes) -> str:
    """The text that the server hands over, or "". Confirms the receipt, because otherwise the server keeps the text."""
    try:
        connected.sendall(line)
        answered = _wait(connected, monotonic() + HANDOVER_SECONDS)
        found = json_text.parse(answered) if answered else None
        handed = found.get("context") if isinstance(found, dict) else None
        if not isinstance(handed, str) or not handed:
            return ""
        connected.sendall(b"\n")
        return handed
    except OSError:
        return ""  # the server has ended, and does not know whether the text was received
    finally:
        connected.close()


def _await_checkpoint(connected: "socket", line: bytes) -> None:
    """Waits until the server closes the connection because it has the checkpoint, or until that takes too long."""
    try:
        connected.sendall(line)
        if _wait(connected, monotonic() + REPLY_SECONDS):
            _wait(connected, monotonic() + CHECKPOINT_SECONDS)
    finally:
        connected.close()


def _exchange(connected: "socket", line: bytes, until: "float | None", *, waits: bool) -> "bytes | None":
    """The server's answer; ``b""`` if the server has ended. None if no answer is awaited, the answer is larger than
    ``LARGEST_ANSWER``, the agent has ended, or ``until`` has passed."""
    try:
        connected.sendall(line)
        return _wait(connected, until) if waits else None
    finally:
        connected.close()


def _connect(servers: "Iterable[str]") -> "socket | None":
    for path in servers:
        connected = socket(AF_UNIX, SOCK_STREAM)
        connected.settimeout(SEND_TIMEOUT)
        try:
            connected.connect(path)
        except OSError:
            connected.close()
        else:
            return connected
    return None


def _line(call: "calls.Call", process: "Mapping[str, Any]") -> bytes:
    omitted = (*OMITTED, "tool_input") if call.event == calls.BEFORE else OMITTED
    payload = {name: value for name, value in call.input.items() if name not in omitted}
    line = {"type": "hook", "agent": call.agent, "pid": posix.getppid(), **process, "payload": payload}
    if call.event == calls.ASKS:
        line["question"] = posix.urandom(16).hex()
    return json_text.dump(line).encode() + b"\n"


def _wait(connected: "socket", until: "float | None") -> "bytes | None":
    """Reads one line, and waits at most until ``until`` if that is set. Returns the same values as ``_exchange``."""
    waiting, received = poll(), b""
    waiting.register(connected.fileno(), POLLIN)
    waiting.register(STANDARD_OUTPUT, 0)  # reports only that the reader closed its end
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


def _agent_ends_within(seconds: float) -> bool:
    """Waits for ``seconds``. Returns True as soon as the agent has ended, otherwise False."""
    reader = poll()
    reader.register(STANDARD_OUTPUT, 0)
    return bool(reader.poll(int(seconds * 1000)))


def _ancestors() -> "calls.Ancestors":
    """The nearest ancestors of this process; none if the system has no /proc."""
    process = posix.getppid()
    for _ in range(NEAREST):
        words = _about(process, "cmdline").split(b"\0")
        parent = _about(process, "stat").rpartition(b")")[2].split()[1:2]
        if not parent:
            return
        yield process, words
        process = int(parent[0])


def _about(process: int, name: str) -> bytes:
    """The beginning of a file about a process; empty if it can't be read."""
    try:
        file = posix.open(f"/proc/{process}/{name}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(file, COMMAND_BYTES)
    except OSError:
        return b""
    finally:
        posix.close(file)
