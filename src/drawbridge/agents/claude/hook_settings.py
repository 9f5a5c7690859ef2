"""Claude Code's hooks in its settings.

Sources: Claude Code's hooks reference, and version 2.1.329 itself (a settings file that contains a comment is not
loaded at all; a byte order mark or an empty file is fine; FileChanged without a matcher applies to every path that
``watchPaths`` named), and version 2.1.332 (with ``asyncRewake``, a hook of FileChanged that exits with 2 starts the
idle agent with the hook's output; without ``rewakeSummary`` and ``rewakeMessage``, the terminal and the agent call it an
error of a Stop hook).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drawbridge.agents.hook_settings import AgentHooks, AskMode, Switch, value_at

EDITS = "Edit|Write|MultiEdit|NotebookEdit"
QUESTIONS = "AskUserQuestion|ExitPlanMode|WebFetch"

ASK_MODE = AskMode(
    mode=("permissions", "defaultMode"),
    asking="default",
    also_asking=frozenset({"manual", "plan"}),
    lasting=("permissions", "disableAutoMode"),
    disabled="disable",
    also_lasting=("disableAutoMode",),
    unasked="In its initial mode, Claude Code writes without asking, so you never see a change before it is written.",
    not_kept='The next time it starts, Claude Code asks whether to make auto mode the default, with "Yes" preselected. If you '
    "press Enter, it stops asking before it writes. --ask-mode prevents that: it also sets permissions.disableAutoMode to "
    '"disable".',
)
"""The settings that make Claude Code ask before it writes. Without ``disableAutoMode``, it asks at its next start
whether to make auto mode the default, with Yes preselected, and Enter replaces ``permissions.defaultMode``. Claude Code
reads ``disableAutoMode`` both in ``permissions`` and at the top level (2.1.329)."""


def handler(command: Sequence[str], timeout: int, holds: bool) -> dict[str, Any]:
    """See ``AgentHooks.handler``. The hook runs without a shell."""
    return {"type": "command", "command": command[0], "args": list(command[1:]), "timeout": timeout}


def switches(path: Path, content: Any) -> Iterator[Switch]:
    if value_at(content, "disableAllHooks") is True:
        note = f"{path} sets disableAllHooks: no hooks run, and nothing is protected, until that setting is removed."
        yield Switch(path, "disableAllHooks", note)
    if value_at(content, "allowManagedHooksOnly") is True:
        note = (
            f"{path} sets allowManagedHooksOnly: only your administrator's hooks run, and nothing is protected, until that "
            "setting is removed."
        )
        yield Switch(path, "allowManagedHooksOnly", note)


SETTINGS = AgentHooks(
    name="claude",
    home=("CLAUDE_CONFIG_DIR", "~/.claude"),
    user_file="settings.json",
    project_file=".claude/settings.local.json",
    shared_file=".claude/settings.json",
    managed=(
        "/etc/claude-code/managed-settings.json",
        "/Library/Application Support/ClaudeCode/managed-settings.json",
    ),
    events={
        "PreToolUse": f"{EDITS}|Read|Bash",
        "PostToolUse": f"{EDITS}|Bash|{QUESTIONS}",
        "PostToolUseFailure": f"Bash|{EDITS}|{QUESTIONS}",
        "UserPromptSubmit": None,
        "SessionStart": None,
        "CwdChanged": None,
        "FileChanged": None,
        "PermissionRequest": None,
        "Notification": None,
        "Stop": None,
        "StopFailure": None,
        "SubagentStop": None,
        "SessionEnd": None,
    },
    sample=("PreToolUse", "Edit", {"file_path": "/nonexistent/drawbridge", "old_string": "", "new_string": ""}),
    handler=handler,
    switches=switches,
    takes_effect="Running sessions pick up the change automatically.",
    byte_order_mark=True,
    asks_person=("PermissionRequest",),
    wakes={
        "FileChanged": {"asyncRewake": True, "rewakeSummary": "Comments on the changes", "rewakeMessage": "Drawbridge:"}
    },
    blocks_since=(2, 1, 295),
    ask_mode=ASK_MODE,
)
