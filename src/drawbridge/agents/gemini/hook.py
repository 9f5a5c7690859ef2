"""Gemini CLI's hooks: what they send, and how they are answered. Loaded at every guard call, so it imports nothing.

Source: ``docs/hooks/reference.md`` of version 0.61.0 (``ask`` is not documented there, but the program supports it).
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EVENTS = {"BeforeTool": "before", "AfterTool": "after", "BeforeAgent": "prompt", "SessionStart": "start"}

TOOLS = {
    "replace": ("edit", ("file_path",)),
    "write_file": ("edit", ("file_path",)),
    "read_file": ("read", ("file_path", "absolute_path")),
    "run_shell_command": ("shell", ("command",)),
}

ASKS = RESOLVES_DOTS = True
WATCHES = CALLED_BY_CLIENT = False
NO_CONTEXT = ("before",)
session = continue_with = hides_dialog = None


def paths(value: str) -> "list[str]":
    return [value]


def deny(event: str, reason: str) -> "dict[str, Any]":
    return {"decision": "deny", "reason": reason}


def ask(event: str, reason: str) -> "dict[str, Any]":
    return {"decision": "ask", "reason": reason, "systemMessage": reason}
