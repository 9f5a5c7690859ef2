"""The input of Codex's hooks, and the answers to them. Loaded at every guard call, so it imports nothing.

Source: Codex's documentation of hooks, its JSON schemas, which forbid any key that they do not define, and the measured
behavior of 0.169.0.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

EVENTS = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "UserPromptSubmit": "prompt",
    "SessionStart": "start",
    "PermissionRequest": "asks",
    "Stop": "stop",
    "SubagentStart": "notice",
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
WAKES = ""
NO_CONTEXT = ()

PROGRAMS = (b"codex", b"codex-x86_64", b"codex-aarch64")
"""The program's name, or its beginning. In a release, the name of the platform may follow."""

UNATTENDED = {b"exec", b"e", b"review", b"app-server", b"mcp-server", b"exec-server"}
"""Codex's commands that run without its own user interface."""


def paths(value: str) -> "list[str]":
    """The paths of the files that a patch in the V4A format touches."""
    lines = (line.strip() for line in value.split("\n"))
    named = (line[len(mark) :].strip() for line in lines for mark in PATCH_MARKS if line.startswith(mark))
    return list(dict.fromkeys(filter(None, named)))


def deny(event: str, reason: str) -> "dict[str, Any]":
    specific = {"hookEventName": event, "permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": specific}


def ask(event: str, reason: str) -> "dict[str, Any]":
    """Returns a denial, since a hook can't make Codex ask."""
    return deny(event, reason)


def continue_with(event: str, text: str) -> "dict[str, Any]":
    return {"decision": "block", "reason": text}


def hides_dialog(payload: "Mapping[str, Any]") -> bool:
    return True


def session(
    environ: "Mapping[bytes, bytes]", ancestors: "Iterable[tuple[int, Sequence[bytes]]]"
) -> "dict[str, Any] | None":
    """The report to the server about the session that calls the hook. None if ``ancestors`` shows that Codex runs
    without its own user interface, because nobody could answer in its dialog."""
    config = environ.get(b"CODEX_HOME")
    facts: dict[str, Any] = {"config": config.decode("utf-8", "replace")} if config else {}
    for process, (program, *words) in ancestors:
        name = program.rpartition(b"/")[2]
        if name == PROGRAMS[0] or name.startswith(PROGRAMS[1:]):
            return None if UNATTENDED.intersection(words) else {"pid": process, **facts}
    return facts
