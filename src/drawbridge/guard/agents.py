"""The agents' words: what their hooks are told, and how they want their answer. Pure.

Sources: Claude Code's hooks reference and what 2.1.329 was seen to send and obey; Gemini CLI's
``docs/hooks/reference.md`` of 0.61.0 (``ask`` is in its program, not in that page); Codex' hooks page and JSON
schemas, which forbid every other key.
"""

from __future__ import annotations

import posix

from drawbridge.guard import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What a hook is called for.
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
"""What an agent server wants to know; of the first four the guard itself thinks nothing."""

# What a tool does.
EDIT, READ, SHELL, OTHER = "edit", "read", "shell", "other"

EVENTS = {
    "claude": {
        "PreToolUse": BEFORE,
        "PostToolUse": AFTER,
        "PostToolUseFailure": FAILED,
        "UserPromptSubmit": PROMPT,
        "SessionStart": START,
        "CwdChanged": MOVED,
        "FileChanged": CHANGED,
        "PermissionRequest": ASKS,
        "Notification": NOTICE,
        "Stop": STOP,
        "StopFailure": STOP,
        "SubagentStop": STOP,
        "SessionEnd": END,
    },
    "gemini": {"BeforeTool": BEFORE, "AfterTool": AFTER, "BeforeAgent": PROMPT, "SessionStart": START},
    "codex": {"PreToolUse": BEFORE, "PostToolUse": AFTER, "UserPromptSubmit": PROMPT, "SessionStart": START},
}

TOOLS = {
    "Edit": (EDIT, ("file_path",)),
    "Write": (EDIT, ("file_path",)),
    "MultiEdit": (EDIT, ("file_path",)),
    "NotebookEdit": (EDIT, ("notebook_path", "file_path")),
    "Read": (READ, ("file_path",)),
    "Bash": (SHELL, ("command",)),
    "replace": (EDIT, ("file_path",)),
    "write_file": (EDIT, ("file_path",)),
    "read_file": (READ, ("file_path", "absolute_path")),
    "run_shell_command": (SHELL, ("command",)),
    "apply_patch": (EDIT, ("command", "input", "patchText")),
    "shell": (SHELL, ("command",)),
}
"""Tool → what it does, and the names that its path (of a shell: its command; of a patch: its text) may have in its input."""

ASKING_TOOLS = ("AskUserQuestion", "ExitPlanMode", "WebFetch")
"""Others of Claude Code that ask a person first; what they did says that the question is settled."""

PATCH_TOOL = "apply_patch"
PATCH_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")

CAN_NOT_BE_TOLD = {("gemini", BEFORE), ("claude", MOVED), ("claude", CHANGED)}
"""Agent and event whose answer has no place for context."""

NAMES = {"claude": "Claude Code", "gemini": "Gemini CLI", "codex": "Codex"}


class Unusable(Exception):
    """The input is none that this agent sends; the text says why."""


class Call:
    """One call of the hook. ``paths`` are absolute; ``event_name`` is the agent's own; ``input`` is the whole payload."""

    __slots__ = ("agent", "command", "cwd", "event", "event_name", "input", "kind", "paths", "session", "tool")

    def __init__(self, agent: str, event: str, payload: dict[str, Any]) -> None:
        self.agent = agent
        self.event = event
        self.event_name: str = payload["hook_event_name"]
        self.input = payload
        self.cwd = _directory(payload.get("cwd"))
        self.session = _text(payload.get("session_id"))
        self.kind = self.tool = self.command = ""
        self.paths: list[str] = []


def parse(data: bytes, agent: str) -> Call:
    """Raises ``Unusable``, with what is wrong."""
    try:
        payload = json_text.parse(data)
    except ValueError as error:
        raise Unusable(f"not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise Unusable("not a JSON object")
    name = payload.get("hook_event_name")
    if not isinstance(name, str) or name not in EVENTS[agent]:
        raise Unusable(f"unknown event {_shown(name)}")
    call = Call(agent, EVENTS[agent][name], payload)
    if call.event in (BEFORE, AFTER, FAILED):
        _read_tool(call)
    elif call.event == CHANGED:
        call.paths = [_absolute(_required(payload, ("file_path",)), call.cwd)]
    return call


def _read_tool(call: Call) -> None:
    tool, given = call.input.get("tool_name"), call.input.get("tool_input")
    if not isinstance(tool, str) or tool not in TOOLS:
        if call.event != BEFORE and tool in ASKING_TOOLS:
            call.tool, call.kind = tool, OTHER
            return
        raise Unusable(f"unknown tool {_shown(tool)}")
    if not isinstance(given, dict):
        raise Unusable("tool_input is no object")
    call.tool = tool
    call.kind, keys = TOOLS[tool]
    if call.kind == SHELL:
        words = given.get("command")
        call.command = " ".join(map(str, words)) if isinstance(words, list) else _required(given, keys)
        call.cwd = _directory(given.get("dir_path") or given.get("workdir"), call.cwd)
    elif tool == PATCH_TOOL:
        call.paths = [_absolute(path, call.cwd) for path in patched(_required(given, keys))]
    else:
        path = _absolute(_required(given, keys), call.cwd)
        call.paths = [_struck_out(path) if "/.." in path else path]


def patched(text: str) -> list[str]:
    """The files that a patch in Codex' V4A form touches."""
    lines = (line.strip() for line in text.split("\n"))
    named = (line[len(mark) :].strip() for line in lines for mark in PATCH_MARKS if line.startswith(mark))
    paths = list(dict.fromkeys(filter(None, named)))
    if not paths:
        raise Unusable("a patch that names no file")
    return paths


def _required(given: dict[str, Any], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = given.get(key)
        if isinstance(value, str) and value:
            return value
    raise Unusable(f"{keys[0]} is missing")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _shown(value: Any) -> str:
    return json_text.dump(value)[:60] if isinstance(value, str) else "(none)"


def _directory(value: Any, base: str = "") -> str:
    """An absolute directory: ``value``, seen from ``base``; without a value ``base``, and that without one the process's."""
    directory = _text(value)
    if directory.startswith("/"):
        return directory
    base = base or posix.getcwd()
    return _absolute(directory, base) if directory else base


def _absolute(path: str, directory: str) -> str:
    return path if path.startswith("/") else f"{directory.rstrip('/')}/{path}"


def _struck_out(path: str) -> str:
    """Without "..": each takes away the name before it (what says "here" is none), also that of a link, as Node.js reads a
    path before it opens it.

    So do Claude Code (its payload comes without them, measured on 2.1.329) and Gemini CLI (`path.resolve` in its source);
    Codex opens what it is given.
    """
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return "/" + "/".join(steps)


def deny(call: Call, reason: str) -> bytes:
    """The agent is told ``reason``; only before a tool is there something to deny."""
    reason = _whole(reason)
    if call.agent == "gemini":
        return _bytes({"decision": "deny", "reason": reason})
    return _decision(call, "deny", reason)


def ask(call: Call, reason: str) -> bytes:
    """The person is asked in the agent's own dialog. Codex can't ask; there it is a denial."""
    reason = _whole(reason)
    if call.agent == "gemini":
        return _bytes({"decision": "ask", "reason": reason, "systemMessage": reason})
    return _decision(call, "deny" if call.agent == "codex" else "ask", reason)


def decide(call: Call, decision: dict[str, Any]) -> bytes:
    """A person's answer to a question: ``{"behavior": "allow" | "deny", …}`` in Claude Code's own words."""
    return _bytes({"hookSpecificOutput": {"hookEventName": call.event_name, "decision": decision}})


def _whole(text: str) -> str:
    """Without halves of characters, as bytes that are no UTF-8 are read. Codex takes no answer with one, nor its denial."""
    return text.encode(errors="replace").decode()


def _decision(call: Call, decision: str, reason: str) -> bytes:
    specific = {
        "hookEventName": call.event_name,
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
    return _bytes({"hookSpecificOutput": specific})


def tell(call: Call, context: str = "", watch: list[str] | None = None) -> bytes:
    """No opinion, but something that the agent should know, and (Claude Code) files that it should watch."""
    specific: dict[str, Any] = {"hookEventName": call.event_name}
    if context and (call.agent, call.event) not in CAN_NOT_BE_TOLD:
        specific["additionalContext"] = _whole(context)
    if watch is not None and call.agent == "claude":
        specific["watchPaths"] = watch
    return _bytes({"hookSpecificOutput": specific}) if len(specific) > 1 else NO_OPINION


NO_OPINION = b"{}"


def _bytes(answer: dict[str, Any]) -> bytes:
    return json_text.dump(answer).encode()
