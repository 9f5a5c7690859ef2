"""Gemini CLI's hooks in its settings.

Sources: version 0.61.0 and its ``docs/hooks`` (comments are fine, a byte order mark is not; matchers are regular
expressions that match anywhere in the name of a tool; timeouts are in milliseconds).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drawbridge.agents.hook_settings import AgentHooks, Switch, value_at

OR_ONE = "|| exit 1"
"""Shell code that makes a failed command exit with 1, because Gemini CLI (0.61.0) treats any exit code except 0 and 1
as a denial, including the shell's 127 if the interpreter is missing."""


def handler(command: Sequence[str], timeout: int, holds: bool) -> dict[str, Any]:
    line = shlex.join(command)
    line = line if holds else f"{line} {OR_ONE}"
    return {"type": "command", "command": line, "timeout": timeout, "name": "drawbridge"}


def switches(path: Path, content: Any) -> Iterator[Switch]:
    if value_at(content, "hooksConfig", "enabled") is False:
        note = (
            f"{path} sets hooksConfig.enabled = false: no hooks run, and nothing is protected, until that setting is "
            "removed."
        )
        yield Switch(path, "hooksConfig.enabled", note)
    disabled = value_at(content, "hooksConfig", "disabled")
    if isinstance(disabled, list) and "drawbridge" in disabled:
        note = (
            f"{path} lists drawbridge in hooksConfig.disabled: nothing is protected until you type /hooks enable drawbridge "
            "in Gemini CLI."
        )
        yield Switch(path, "hooksConfig.disabled", note)


SETTINGS = AgentHooks(
    name="gemini",
    home=("GEMINI_CLI_HOME", "~"),
    user_file=".gemini/settings.json",
    project_file=".gemini/settings.json",
    managed=("/etc/gemini-cli/settings.json", "/Library/Application Support/GeminiCli/settings.json"),
    events={
        "BeforeTool": "^(replace|write_file|read_file|run_shell_command)$",
        "AfterTool": "^(replace|write_file|run_shell_command)$",
        "BeforeAgent": None,
        "SessionStart": None,
        "Notification": None,
        "AfterAgent": None,
        "SessionEnd": None,
    },
    sample=("BeforeTool", "replace", {"file_path": "/nonexistent/drawbridge", "old_string": "", "new_string": ""}),
    handler=handler,
    switches=switches,
    takes_effect="Restart running sessions, because Gemini CLI reads its settings when it starts. It runs hooks only in "
    "folders that you trust.",
    or_else=OR_ONE,
    comments=True,
    milliseconds=True,
)
