"""A call from an agent to the hook: parsed from the agent's own format, and answered in it. Does no I/O.

The differences between agents are in ``agents/NAME/hook.py``, the agent's *dialect*.
"""

import posix

from drawbridge.guard import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol, TypeAlias

    Ancestors: TypeAlias = Iterable[tuple[int, Sequence[bytes]]]
    """The ancestors of a process, nearest first: the PID, and the words of the command line, at least one."""

    class Dialect(Protocol):
        """The module ``agents/NAME/hook.py``. It describes events and tools with the constants below."""

        @property
        def EVENTS(self) -> Mapping[str, str]:  # noqa: N802 - a module's constant, like the others in capitals
            """Maps the agent's event names to the constants below, such as ``BEFORE``."""

        @property
        def TOOLS(self) -> Mapping[str, tuple[str, tuple[str, ...]]]:  # noqa: N802
            """Maps a tool to what it does, and to the names that its path (for a shell: its command) may have in its
            input."""

        @property
        def ASKS(self) -> bool:  # noqa: N802
            """Whether an answer can make the agent ask the user in its own dialog."""

        @property
        def WATCHES(self) -> bool:  # noqa: N802
            """Whether an answer can name files for the agent to watch."""

        @property
        def RESOLVES_DOTS(self) -> bool:  # noqa: N802
            """Whether the agent resolves ".." in a path before it opens the file, without following links."""

        @property
        def CALLED_BY_CLIENT(self) -> bool:  # noqa: N802
            """Whether the process that calls the hook is the one that is connected to an editor's bridge."""

        @property
        def WAKES(self) -> str:  # noqa: N802
            """The text with which a hook starts the idle agent when a watched file has changed; "" if no hook can."""

        @property
        def NO_CONTEXT(self) -> tuple[str, ...]:  # noqa: N802
            """The events with answers that cannot contain context for the model."""

        @property
        def session(self) -> Callable[[Mapping[bytes, bytes], Ancestors], dict[str, Any] | None] | None:
            """A function that determines what is reported to an agent server about the agent's process, from the
            environment and the ancestors of the hook's process. It returns "background", "config", and "pid" unless
            that is the hook's parent, or None if nothing is reported about this process. None instead of a function if
            nothing is ever reported for this agent."""

        def paths(self, value: str) -> list[str]:
            """The files that an edit or a read touches, from the value in the tool's input; empty if it names none."""

        def deny(self, event: str, reason: str) -> dict[str, Any]: ...

        def ask(self, event: str, reason: str) -> dict[str, Any]:
            """The answer that makes the agent ask in its own dialog; a denial if a hook can't make it ask."""

        @property
        def continue_with(self) -> Callable[[str, str], dict[str, Any]] | None:
            """A function that returns, for an event and a text, the answer that makes an agent that has stopped
            continue with the text. None if the agent can't continue in this way."""

        @property
        def hides_dialog(self) -> Callable[[Mapping[str, Any]], bool] | None:
            """A function that returns, for a question's payload, whether the agent's own dialog about it appears only
            after the hook has ended. None if the agent's hooks report no questions."""


MARK = b"DRAWBRIDGE_AGENT"
"""The variable that is set in the environment of everything that a managed agent starts. Its hooks report nothing,
since the server runs the agent itself."""

# The kinds of events for which a hook is called.
BEFORE, AFTER, FAILED, PROMPT, START, MOVED, CHANGED = (
    "before",
    "after",
    "failed",
    "prompt",
    "start",
    "moved",
    "changed",
)
ASKS, NOTICE, STOP, END = "asks", "notice", "stop", "end"

FOR_SERVER = (ASKS, NOTICE, STOP, END, START, PROMPT, AFTER, FAILED)
"""The events that are reported to an agent server whatever the tool is. The guard itself ignores the first four."""

# The kinds of tools.
EDIT, READ, SHELL, OTHER = "edit", "read", "shell", "other"


WRITES = (EDIT, SHELL)
"""The kinds of tools before which the server completes its checkpoint of the files."""


class Unusable(Exception):
    """The input is not what this agent sends. The text gives the reason."""


class Wake(bytes):
    """An answer that starts the idle agent with this text."""


class Call:
    """One call to the hook. ``paths`` are absolute; ``event_name`` is the agent's own; ``input`` is the whole payload.
    ``handed``: text that an agent server has handed over for the model, such as review comments; often empty.
    ``watched``: a file that the agent must watch besides the user's open files; often empty.
    """

    __slots__ = (
        "agent",
        "command",
        "cwd",
        "dialect",
        "event",
        "event_name",
        "handed",
        "input",
        "kind",
        "paths",
        "session",
        "tool",
        "watched",
    )

    def __init__(self, agent: str, event: str, payload: "dict[str, Any]") -> None:
        self.agent = agent
        self.dialect = dialect(agent)
        self.event = event
        self.event_name: str = payload["hook_event_name"]
        self.input = payload
        self.cwd = _directory(payload.get("cwd"))
        self.session = _text(payload.get("session_id"))
        self.kind = self.tool = self.command = self.handed = self.watched = ""
        self.paths: list[str] = []


def dialect(agent: str) -> "Dialect":
    """The dialect of an agent that has hooks. Only this agent's module is loaded, since each one costs time."""
    found: Dialect = __import__(f"drawbridge.agents.{agent}.hook", None, None, ("EVENTS",))
    return found


def parse(data: bytes, agent: str) -> "Call":
    """The call that ``data`` describes. Raises ``Unusable`` with the reason if the agent does not send such input."""
    try:
        payload = json_text.parse(data)
    except ValueError as error:
        raise Unusable(f"not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise Unusable("not a JSON object")
    name, events = payload.get("hook_event_name"), dialect(agent).EVENTS
    if not isinstance(name, str) or name not in events:
        raise Unusable(f"unknown event {_shown(name)}")
    call = Call(agent, events[name], payload)
    if call.event in (BEFORE, AFTER, FAILED):
        _read_tool(call)
    elif call.event == CHANGED:
        call.paths = [_absolute(_required(payload, ("file_path",)), call.cwd)]
    return call


def _read_tool(call: "Call") -> None:
    tool, given, known = call.input.get("tool_name"), call.input.get("tool_input"), call.dialect.TOOLS
    if not isinstance(tool, str) or tool not in known or (call.event == BEFORE and known[tool][0] == OTHER):
        raise Unusable(f"unknown tool {_shown(tool)}")
    call.tool = tool
    call.kind, keys = known[tool]
    if call.kind == OTHER:
        return
    if not isinstance(given, dict):
        raise Unusable("tool_input is not an object")
    if call.kind == SHELL:
        words = given.get("command")
        call.command = " ".join(map(str, words)) if isinstance(words, list) else _required(given, keys)
        call.cwd = _directory(given.get("dir_path") or given.get("workdir"), call.cwd)
        return
    named = call.dialect.paths(_required(given, keys))
    if not named:
        raise Unusable("the patch does not name a file")
    call.paths = [_absolute(path, call.cwd) for path in named]
    if call.dialect.RESOLVES_DOTS:
        call.paths = [_without_dots(path) if "/.." in path else path for path in call.paths]


def _required(given: "dict[str, Any]", keys: "tuple[str, ...]") -> str:
    for key in keys:
        value = given.get(key)
        if isinstance(value, str) and value:
            return value
    raise Unusable(f"{keys[0]} is missing")


def _text(value: "Any") -> str:
    return value if isinstance(value, str) else ""


def _shown(value: "Any") -> str:
    return json_text.dump(value)[:60] if isinstance(value, str) else "(none)"


def _directory(value: "Any", base: str = "") -> str:
    """``value`` as an absolute path, resolved against ``base`` (default: the working directory); without a value,
    ``base`` itself."""
    directory = _text(value)
    if directory.startswith("/"):
        return directory
    base = base or posix.getcwd()
    return _absolute(directory, base) if directory else base


def _absolute(path: str, directory: str) -> str:
    return path if path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def _without_dots(path: str) -> str:
    """Resolves each ".." as ``path.resolve`` of Node.js does: removes the name before the dots, even if that is a link.

    Claude Code does this before it opens a path (its payload never contains "..", measured on 2.1.329), and so does
    Gemini CLI (``path.resolve`` in its source). Codex opens the path as it is.
    """
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return "/" + "/".join(steps)


def deny(call: "Call", reason: str) -> bytes:
    """The answer that denies the call. The agent receives ``reason``. Only a call before a tool can be denied."""
    return _bytes(call.dialect.deny(call.event_name, _without_surrogates(reason)))


def ask(call: "Call", reason: str) -> bytes:
    """The answer that makes the agent ask the user in its own dialog; a denial if a hook can't make it ask."""
    return _bytes(call.dialect.ask(call.event_name, _without_surrogates(reason)))


def decide(call: "Call", decision: "dict[str, Any]") -> bytes:
    """The answer with a person's decision, in the agent's own format: ``{"behavior": "allow" | "deny", …}``."""
    return _bytes({"hookSpecificOutput": {"hookEventName": call.event_name, "decision": decision}})


def _without_surrogates(text: str) -> str:
    """Replaces lone surrogates, which stand for bytes that are not UTF-8. Codex ignores an answer that contains one, even a
    denial.
    """
    return text.encode(errors="replace").decode()


def add_context(call: "Call", context: str = "", watch: "list[str] | None" = None) -> bytes:
    """An answer without a decision: the text that was ``handed`` over and, if both fit, ``context`` for the model, and
    files for the agent to ``watch`` if it can. An agent that has stopped gets only the text that was handed over, and
    continues with it."""
    if call.handed and call.event == STOP and call.dialect.continue_with:
        return _bytes(call.dialect.continue_with(call.event_name, _without_surrogates(call.handed)))
    specific: dict[str, Any] = {"hookEventName": call.event_name}
    if call.handed:
        has_room = context and len(call.handed) + len(context) < LONGEST_CONTEXT
        context = f"{call.handed}\n\n{context}" if has_room else call.handed
    if context and call.event not in call.dialect.NO_CONTEXT:
        specific["additionalContext"] = _without_surrogates(context)
    if (watch is not None or call.watched) and call.dialect.WATCHES:
        specific["watchPaths"] = [*filter(None, [call.watched]), *(watch or ())]
    return _bytes({"hookSpecificOutput": specific}) if len(specific) > 1 else NO_OPINION


NO_OPINION = b"{}"

LONGEST_CONTEXT = 9_900
"""The maximum length of the text that was handed over and the guard's own context together, in characters. Claude Code
moves a context of more than 10,000 to a file, and the model reads only the beginning of that file."""


def _bytes(answer: "dict[str, Any]") -> bytes:
    return json_text.dump(answer).encode()
