"""Codex's hooks: what they send, and how they are answered. Loaded at every guard call, so it imports nothing.

Source: Codex's documentation of hooks and its JSON schemas (0.169.0), which forbid any key that they do not define.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EVENTS = {"PreToolUse": "before", "PostToolUse": "after", "UserPromptSubmit": "prompt", "SessionStart": "start"}

TOOLS = {
    "apply_patch": ("edit", ("command", "input", "patchText")),
    "Bash": ("shell", ("command",)),
    "shell": ("shell", ("command",)),
}

PATCH_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")

ASKS = WATCHES = RESOLVES_DOTS = False
CALLED_BY_CLIENT = True
NO_CONTEXT = ()
session = None


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
