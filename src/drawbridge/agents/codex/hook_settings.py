"""Codex's hooks in its settings: strict JSON that may contain only the keys that setup writes (0.169.0)."""

from __future__ import annotations

import contextlib
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from drawbridge.agents.hook_settings import AgentHooks, Switch

OR_TWO = "|| exit 2"
"""Shell code that makes a failed command exit with 2, the only exit code that Codex (0.169.0) treats as a denial.
Otherwise, Codex would continue if the interpreter or the guard is missing."""


def handler(command: Sequence[str], timeout: int, holds: bool) -> dict[str, Any]:
    line = shlex.join(command)
    line = f"{line} {OR_TWO}" if holds else line
    return {"type": "command", "command": line, "timeout": timeout}


def switches(path: Path, content: Any) -> Iterator[Switch]:
    """Yields the switches in ``config.toml``, which is in the same directory as ``path`` and contains all settings
    except the hooks."""
    path = path.with_name("config.toml")
    with contextlib.suppress(OSError, ValueError):
        features = tomllib.loads(path.read_text("utf-8")).get("features")
        name = "hooks" if isinstance(features, dict) and "hooks" in features else "codex_hooks"
        if isinstance(features, dict) and features.get(name) is False:
            note = (
                f"{path} sets [features] {name} = false: no hooks run, and nothing is protected, until that setting is "
                "removed."
            )
            yield Switch(path, f"features.{name}", note)


SETTINGS = AgentHooks(
    name="codex",
    home=("CODEX_HOME", "~/.codex"),
    user_file="hooks.json",
    project_file=".codex/hooks.json",
    events={
        "PreToolUse": "apply_patch|Bash",
        "PostToolUse": "apply_patch|Bash",
        "UserPromptSubmit": None,
        "SessionStart": None,
        "PermissionRequest": None,
        "Stop": None,
        "SubagentStart": None,
        "SubagentStop": None,
        "Interrupt": None,
        "SessionEnd": None,
    },
    sample=("PreToolUse", "apply_patch", {"command": "*** Update File: /nonexistent/drawbridge"}),
    handler=handler,
    switches=switches,
    takes_effect="Codex runs a hook only after you have trusted it: start `codex` and confirm it there (or type /hooks).",
    or_else=OR_TWO,
    asks_person=("PermissionRequest",),
)
