"""Codex's hooks: what they send, and how they are answered. Loaded at every guard call, so it imports nothing that has to
be loaded.

Source: Codex's documentation of hooks, its JSON schemas, which forbid any key that they do not define, and the measured
behavior of 0.169.0.
"""

import posix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

EVENTS = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "UserPromptSubmit": "prompt",
    "SessionStart": "start",
    "PermissionRequest": "asks",
    "Stop": "stop",
    "SubagentStop": "stop",
    "Interrupt": "stop",
    "SessionEnd": "end",
}

TOOLS = {
    "apply_patch": ("edit", ("command", "input", "patchText")),
    "Bash": ("shell", ("command",)),
    "shell": ("shell", ("command",)),
}

PATCH_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")

ASKS = WATCHES = RESOLVES_DOTS = False
CALLED_BY_CLIENT = True
NO_CONTEXT = ()

UNATTENDED = {b"exec", b"e", b"review", b"app-server", b"mcp-server", b"exec-server"}
"""Codex's commands that run without its own user interface."""

SHELLS = 2
"""The maximum number of processes between Codex and the hook: the shell that runs the hook's command may be one."""


def paths(value: str) -> "list[str]":
    """The paths of the files that a patch in the V4A format touches."""
    lines = (line.strip() for line in value.split("\n"))
    named = (line[len(mark) :].strip() for line in lines for mark in PATCH_MARKS if line.startswith(mark))
    return list(dict.fromkeys(filter(None, named)))


def deny(event: str, reason: str) -> "dict[str, Any]":
    specific = {"hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": specific}


def ask(event: str, reason: str) -> "dict[str, Any]":
    """Returns a denial, since Codex can't ask."""
    return deny(event, reason)


def continue_with(event: str, text: str) -> "dict[str, Any]":
    return {"decision": "block", "reason": text}


def hides_dialog(payload: "Mapping[str, Any]") -> bool:
    return True


def session(environ: "Mapping[bytes, bytes]") -> "dict[str, Any] | None":
    """What is reported to the server about the session that calls the hook. None if Codex runs without its own user
    interface (as far as /proc exists). Such a run never asks."""
    said: dict[str, Any] = {}
    if config := environ.get(b"CODEX_HOME"):
        said["config"] = config.decode("utf-8", "replace")
    process = posix.getppid()
    for _ in range(SHELLS + 1):
        words = _read(process, "cmdline").split(b"\0")
        if words[0].rpartition(b"/")[2] == b"codex":
            return None if UNATTENDED.intersection(words[1:]) else {"pid": process, **said}
        parent = _read(process, "stat").rpartition(b")")[2].split()[1:2]
        if not parent:
            break
        process = int(parent[0])
    return said


def _read(process: int, name: str) -> bytes:
    """The beginning of a file in /proc; empty if it can't be read."""
    try:
        file = posix.open(f"/proc/{process}/{name}", posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(file, 65_536)
    except OSError:
        return b""
    finally:
        posix.close(file)
