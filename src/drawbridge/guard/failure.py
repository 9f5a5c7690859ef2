"""The answer when the guard itself fails or its input is unusable: no decision, or a denial with ``fail = "closed"``.

Each failure is logged in one line. An internal error is also shown in the user's editors.
"""

from __future__ import annotations

from drawbridge.agents import catalog
from drawbridge.guard import calls, json_text, state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from drawbridge.guard.settings import Settings

CLOSED = (
    "Drawbridge could not check whether this would overwrite unsaved changes ({}), and is set to deny it in that "
    'case (fail = "closed"). Nothing was written. The user can see why in `drawbridge info` and in the guard\'s log.'
)


NOTICE = "Drawbridge's guard failed: see `drawbridge info`"


def answer(
    data: bytes,
    call: calls.Call | None,
    error: Exception,
    settings: Settings,
    environ: Mapping[bytes, bytes],
) -> bytes:
    """The JSON text for the agent. ``call``: None if the input could not be parsed."""
    unusable = isinstance(error, calls.Unusable)
    what = str(error).removesuffix(".") if unusable else f"{type(error).__name__}: {error}"
    begin = data[:80].decode(errors="backslashreplace")
    state.log(settings, environ, f"failed ({settings['fail']}): {what}; input begins {begin!r}")
    if not unusable:
        _notify_editors(settings, environ)
    if settings["fail"] != "closed":
        return calls.NO_OPINION
    reason = CLOSED.format(what if unusable else "an internal error")
    return calls.deny(call or _unread(settings["agent"]), reason) if _may_deny(call, data) else calls.NO_OPINION


def _notify_editors(settings: Settings, environ: Mapping[bytes, bytes]) -> None:
    """Shows ``NOTICE`` in all editors. Errors are only logged, because the same failure may happen here, and the agent
    still needs its answer.
    """
    try:
        from drawbridge.guard import find
        from drawbridge.guard.unsaved import notify

        notify(find.sockets(settings["socket_dir"], environ), NOTICE)
    except Exception as error:
        state.log(settings, environ, f"no editor could be notified: {type(error).__name__}: {error}")


def _may_deny(call: calls.Call | None, data: bytes) -> bool:
    """Whether this is, or might be, a call before a tool. Denying a prompt, for example, would have a different effect."""
    if call is not None:
        return call.event == calls.BEFORE
    known = [calls.dialect(row.name).EVENTS for row in catalog.ROWS if row.hooks]
    try:
        name = json_text.parse(data)["hook_event_name"]
    except (ValueError, TypeError, LookupError):
        name = None
    if isinstance(name, str):
        return any(events.get(name) == calls.BEFORE for events in known)
    later = (name for events in known for name, event in events.items() if event != calls.BEFORE)
    return not any(f'"{name}"'.encode() in data[:4096] for name in later)


def _unread(agent: str) -> calls.Call:
    before = next(name for name, event in calls.dialect(agent).EVENTS.items() if event == calls.BEFORE)
    return calls.Call(agent, calls.BEFORE, {"hook_event_name": before})
