"""``drawbridge hook``: reads one JSON text, writes one, and ends. Internal errors are caught here.

Whatever happens, except for an interrupt, the agent receives JSON and exit code 0, or, to be woken, a text and exit
code 2. After a failure, the JSON is ``{}``
(no decision) or, with ``fail = "closed"``, a denial if the call can be denied. An edit to a file that is known to be
protected is denied in any case. Each of an agent's tool calls pays for the modules that are loaded before the answer,
so all others are imported where they are needed. The modules that are loaded first quote their annotations, because
``from __future__ import annotations`` would load another module, which takes 0.2 ms of each call.
"""

import posix

from drawbridge.guard import calls, find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from drawbridge.guard.settings import Settings

LARGEST_INPUT = 8 * 1024 * 1024
"""The maximum size of the input, in bytes. An agent's own limit for a file that it edits is far below this."""

PORTION = 1_048_576

WAKES = 2
"""The exit code with which a hook that runs in the background starts the idle agent."""

KEPT = "The file has unsaved changes in an editor; the details are not available. Nothing was written."
UNCHECKED = (
    "Drawbridge could not check whether this would overwrite unsaved changes, and is set to deny it in that case. "
    "Nothing was written. `drawbridge doctor` tests the guard."
)
BAD_PATH = (
    "The path contains a line break, a NUL byte or an incomplete character. Nothing was written; use a path without any "
    "of these."
)


def run(settings: "Settings") -> "NoReturn":
    """Answers the call on stdin and ends the process without the interpreter's shutdown, which would take a
    millisecond.
    """
    try:
        _write(answer(_read(), settings, posix.environ))
    except KeyboardInterrupt:
        posix._exit(130)  # a shell's exit code for SIGINT: the agent was interrupted, too, and needs no traceback


def refuse_settings(problem: str, settings: "Settings") -> "NoReturn":
    """Answers the call on stdin although the configured settings are unusable (``problem``), since that must not stop
    the agent, and ends the process. ``settings``: the ones to use instead."""
    _write(_failed(_read(), None, calls.Unusable(problem), settings, posix.environ))


def _write(data: bytes) -> "NoReturn":
    code = WAKES if isinstance(data, calls.Wake) else 0
    data += b"\n"
    try:
        while data:
            data = data[posix.write(1, data) :]
    except OSError:
        pass  # the agent has ended
    posix._exit(code)


def _read() -> bytes:
    """The input, cut a little above ``LARGEST_INPUT``. The rest is read and dropped, because Claude Code ignores the
    answer of a hook that stops reading.
    """
    portions, size = [], 0
    try:
        while portion := posix.read(0, PORTION):
            if size <= LARGEST_INPUT:
                portions.append(portion)
                size += len(portion)
    except OSError:
        pass
    return b"".join(portions)


def answer(data: bytes, settings: "Settings", environ: "Mapping[bytes, bytes]") -> bytes:
    """The JSON text for the agent. Never raises."""
    call = None
    if not data and settings["fail"] != "closed":  # no agent does this, so a person or a script is trying out the hook
        return _not_called(settings, environ)
    try:
        if len(data) > LARGEST_INPUT:
            raise calls.Unusable(f"the input is larger than {LARGEST_INPUT // 1024**2} MB")
        call = calls.parse(data, settings["agent"])
        if call.event == calls.CHANGED and call.paths[0].endswith(f"/{call.session}{find.WAITING}"):
            from drawbridge.guard import report

            return report.wake(call)
        for_server = call.event in calls.FOR_SERVER or (call.event == calls.BEFORE and call.kind in calls.WRITES)
        if call.dialect.session and for_server and (servers := find.servers(environ)):
            from drawbridge.guard import report

            if decision := report.to_server(call, servers, settings, environ):
                return decision
        if call.event in (calls.START, calls.MOVED):
            call.watched = _watched(call, environ)
        answered = _answer(call, settings, environ)
    except Exception as error:
        answered = _failed(data, call, error, settings, environ)
    # The server counts the text that it handed over as received, so it is passed on even without any other answer.
    is_more = call is not None and (call.handed or call.watched)
    return calls.add_context(call) if call is not None and is_more and answered == calls.NO_OPINION else answered


def _watched(call: "calls.Call", environ: "Mapping[bytes, bytes]") -> str:
    """The path of the file that the agent must watch because it appears when comments wait for this session. "" if the
    agent can't be woken, or if no server has ever run."""
    if not call.dialect.WAKES or not call.session or "/" in call.session or calls.MARK in environ:
        return ""
    if call.dialect.session is None or call.dialect.session(environ, ()) is None:
        return ""
    place = find.server_directory(environ)
    return f"{place}/{call.session}{find.WAITING}" if posix.access(place, posix.F_OK) else ""


def _not_called(settings: "Settings", environ: "Mapping[bytes, bytes]") -> bytes:
    """Logs a start without input, which is not a failure."""
    try:
        from drawbridge.guard import state

        state.log(settings, environ, "started without input: nothing was checked")
    except Exception:
        return calls.NO_OPINION  # the log can't be written, but a start without input is not a failure
    return calls.NO_OPINION


def _answer(call: "calls.Call", settings: "Settings", environ: "Mapping[bytes, bytes]") -> bytes:
    for path in call.paths:
        if "\0" in path or "\n" in path or not _can_be_a_name(path):
            if call.event == calls.BEFORE and call.kind == calls.EDIT:
                return calls.deny(call, BAD_PATH)
            return calls.NO_OPINION
    if call.event in calls.FOR_SERVER[:4] or call.kind == calls.OTHER:
        return calls.NO_OPINION
    sockets = find.sockets(settings["socket_dir"], environ)
    if not sockets:
        return calls.NO_OPINION
    if call.event == calls.BEFORE and call.kind == calls.EDIT:
        return _before_edit(call, sockets, settings, environ)
    from drawbridge.guard import events

    return events.answer(call, sockets, settings, environ)


def _can_be_a_name(path: str) -> bool:
    """Whether ``path`` can be the name of a file. It may contain bytes that are not UTF-8, but not half a surrogate
    pair, because no editor could be asked about it.
    """
    try:
        path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _before_edit(
    call: "calls.Call", sockets: "list[tuple[str, str]]", settings: "Settings", environ: "Mapping[bytes, bytes]"
) -> bytes:
    from drawbridge.guard import rule  # not loaded while no editor is open

    mode = rule.permission_mode(call)
    answers = rule.snapshot(sockets, call.paths, settings, remember=settings["diagnostics"], **mode)
    policy = "any" if settings["answer"] == "merge" else rule.policy_for(call.tool, settings)
    for found in answers:
        if found.result is None or any(rule.protects(file, policy) for file in rule.files(found)):
            break
    else:
        return calls.NO_OPINION
    try:
        from drawbridge.guard import protect

        return protect.answer(call, answers, policy, settings, environ)
    except Exception as error:
        if not any(rule.protects(file, policy) for found in answers for file in rule.files(found)):
            raise
        _failed(b"", call, error, settings, environ)
        return calls.deny(call, KEPT)  # a file that is known to be unsaved is protected, whatever else fails


def _failed(
    data: bytes, call: "calls.Call | None", error: "Exception", settings: "Settings", environ: "Mapping[bytes, bytes]"
) -> bytes:
    try:
        from drawbridge.guard import failure

        return failure.answer(data, call, error, settings, environ)
    except Exception:  # the log can't be written either, but the agent needs an answer
        if call is not None and call.event == calls.BEFORE and settings["fail"] == "closed":
            return calls.deny(call, UNCHECKED)
        return calls.NO_OPINION
