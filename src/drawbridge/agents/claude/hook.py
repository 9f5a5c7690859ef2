"""The input of Claude Code's hooks, and the answers to them. Loaded at every guard call, so it imports nothing.

Source: Claude Code's hooks reference, and the measured behavior of 2.1.329.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

EVENTS = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "failed",
    "UserPromptSubmit": "prompt",
    "SessionStart": "start",
    "CwdChanged": "moved",
    "FileChanged": "changed",
    "PermissionRequest": "asks",
    "Notification": "notice",
    "Stop": "stop",
    "StopFailure": "stop",
    "SubagentStop": "stop",
    "SessionEnd": "end",
}

TOOLS = {
    "Edit": ("edit", ("file_path",)),
    "Write": ("edit", ("file_path",)),
    "MultiEdit": ("edit", ("file_path",)),
    "NotebookEdit": ("edit", ("notebook_path", "file_path")),
    "Read": ("read", ("file_path",)),
    "Bash": ("shell", ("command",)),
    "AskUserQuestion": ("other", ()),
    "ExitPlanMode": ("other", ()),
    "WebFetch": ("other", ()),
}
"""Maps a tool to the kind of its calls, and to the fields of its input that name a file or contain a command. The last
three tools ask a person first, and the hook after their call shows that the question was answered."""

ASKS = WATCHES = RESOLVES_DOTS = CALLED_BY_CLIENT = True
NO_CONTEXT = ("moved", "changed")

WAKES = (
    "The user has sent comments on your changes. They are in the context that was added to this message. If no comments "
    "were added, you already have them, and can stop."
)
"""The text with which the hook starts the idle agent, which reads it as a notification of its own program. The comments
themselves follow as the context of a prompt, because the agent is told not to trust a notification."""

VISIBLE_DIALOG = ("workflow-subagent",)
"""The types of subagents with dialogs that appear while the hook is still running, as the main agent's does
(2.1.329)."""


def paths(value: str) -> "list[str]":
    return [value]


def deny(event: str, reason: str) -> "dict[str, Any]":
    return _decision(event, "deny", reason)


def ask(event: str, reason: str) -> "dict[str, Any]":
    return _decision(event, "ask", reason)


def continue_with(event: str, text: str) -> "dict[str, Any]":
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def hides_dialog(payload: "Mapping[str, Any]") -> bool:
    return bool(payload.get("agent_id")) and payload.get("agent_type") not in VISIBLE_DIALOG


def _decision(event: str, decision: str, reason: str) -> "dict[str, Any]":
    specific = {"hookEventName": event, "permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": specific}


def session(environ: "Mapping[bytes, bytes]", ancestors: object) -> "dict[str, Any] | None":
    """The report to the server about the session that calls the hook. None if nobody can answer in the session's own
    dialog, because the hook would make ``claude -p`` wait for an answer, which it never does on its own.

    The CLI marks a background session (``claude --bg``, or the left arrow key in a session) as unattended, but such a
    session does wait for a person. Only the CLI's daemon sets both CLAUDE_CODE_SESSION_ATTENDED=0 and CLAUDE_JOB_DIR
    (2.1.329). A process that it starts in a terminal inherits only the latter.
    """
    unattended = environ.get(b"CLAUDE_CODE_SESSION_ATTENDED") == b"0"
    background = unattended and bool(environ.get(b"CLAUDE_JOB_DIR"))
    if environ.get(b"CLAUDE_CODE_ENTRYPOINT", b"").startswith(b"sdk") or (unattended and not background):
        return None
    process = environ.get(b"CLAUDE_PID", b"")
    facts: dict[str, Any] = {"pid": int(process)} if process.isdigit() else {}
    if config := environ.get(b"CLAUDE_CONFIG_DIR"):
        facts["config"] = config.decode("utf-8", "replace")
    return facts | {"background": True} if background else facts
