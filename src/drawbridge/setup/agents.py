"""Where each agent keeps its hooks, and how they are written there.

Sources: Claude Code's hooks reference, and 2.1.329 itself (a settings file with a comment in it is not loaded at all; a byte
order mark or an empty file is fine; FileChanged without a matcher takes every path that ``watchPaths`` named); Gemini CLI
0.61.0 and its ``docs/hooks`` (comments are fine, a byte order mark is not; matchers are regular expressions that hit
anywhere; milliseconds); Codex 0.169.0 (strict JSON, no key beyond those below).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drawbridge.guard.agents import ASKING_TOOLS, NAMES
from drawbridge.settings.hook import HookSettings
from drawbridge.setup.hooks import Group

SECONDS = 5
"""That a hook may take before its agent goes on without it, beside what the settings let it wait; far more than it needs."""

PERSON_SECONDS = 24 * 60 * 60
"""The longest wait of a hook for a person elsewhere. The CLI's own dialog stays usable, except for subagents, whose
questions wait far less (``guard.desk.SUBAGENT_SECONDS``)."""

OR_ONE = "|| exit 1"
"""For Gemini CLI any other code than 0 and 1 is a denial, also the shell's 127 where the interpreter is gone (0.61.0)."""

CLAUDE_EDITS = "Edit|Write|MultiEdit|NotebookEdit"


class Agent(NamedTuple):
    """``home``: the variable that names its directory, and the directory without it. ``events``: event → matcher; the first
    is the one that may hold an edit back."""

    name: str
    home: tuple[str, str]
    user_file: str
    project_file: str
    events: Mapping[str, str | None]
    comments: bool = False
    byte_order_mark: bool = False
    milliseconds: bool = False
    takes_effect: str = ""
    asks_person: tuple[str, ...] = ()
    """Events whose hook waits for a person."""

    @property
    def title(self) -> str:
        return NAMES[self.name]

    def settings_file(self, project: Path | None) -> Path:
        if project is not None:
            return project / self.project_file
        variable, usual = self.home
        return Path(os.environ.get(variable) or usual).expanduser().absolute() / self.user_file

    def groups(self, command: Sequence[str], settings: HookSettings, *, can_block: bool) -> dict[str, Group]:
        """What goes into its settings: event → one group with one handler. ``settings`` are those of the hook."""
        groups: dict[str, Group] = {}
        for number, (event, matcher) in enumerate(self.events.items()):
            waits = number == 0 and settings.answer == "wait"
            patience = settings.deadline // 1000 + (settings.wait if waits else 0)
            seconds = PERSON_SECONDS if event in self.asks_person else SECONDS + patience
            holds = number == 0 and settings.fail == "closed"
            handler = self._handler(command, seconds * (1000 if self.milliseconds else 1), holds=holds)
            if holds and can_block:
                handler["onFailure"] = "block"
            groups[event] = {**({} if matcher is None else {"matcher": matcher}), "hooks": [handler]}
        return groups

    def _handler(self, command: Sequence[str], timeout: int, *, holds: bool) -> dict[str, Any]:
        """``holds``: the agent is to be held back where the command can't be run."""
        if self.name == "claude":  # without a shell between
            return {"type": "command", "command": command[0], "args": list(command[1:]), "timeout": timeout}
        line = shlex.join(command)
        if self.name == "gemini":
            line = line if holds else f"{line} {OR_ONE}"
            return {"type": "command", "command": line, "timeout": timeout, "name": "drawbridge"}
        return {"type": "command", "command": line, "timeout": timeout}


AGENTS = {
    "claude": Agent(
        "claude",
        ("CLAUDE_CONFIG_DIR", "~/.claude"),
        "settings.json",
        ".claude/settings.local.json",
        {
            "PreToolUse": f"{CLAUDE_EDITS}|Read|Bash",
            "PostToolUse": f"{CLAUDE_EDITS}|Bash|{'|'.join(ASKING_TOOLS)}",
            "PostToolUseFailure": f"Bash|{CLAUDE_EDITS}|{'|'.join(ASKING_TOOLS)}",
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
        asks_person=("PermissionRequest",),
        byte_order_mark=True,
        takes_effect="Sessions that run notice it by themselves.",
    ),
    "gemini": Agent(
        "gemini",
        ("GEMINI_CLI_HOME", "~"),
        ".gemini/settings.json",
        ".gemini/settings.json",
        {
            "BeforeTool": "^(replace|write_file|read_file|run_shell_command)$",
            "AfterTool": "^(replace|write_file|run_shell_command)$",
            "BeforeAgent": None,
            "SessionStart": None,
        },
        comments=True,
        milliseconds=True,
        takes_effect="Gemini CLI reads it when it starts; it runs hooks only in folders that you trust.",
    ),
    "codex": Agent(
        "codex",
        ("CODEX_HOME", "~/.codex"),
        "hooks.json",
        ".codex/hooks.json",
        {
            "PreToolUse": "apply_patch|Bash",
            "PostToolUse": "apply_patch|Bash",
            "UserPromptSubmit": None,
            "SessionStart": None,
        },
        takes_effect="Codex runs a hook only once you have trusted it: start `codex` and say so there (or type /hooks).",
    ),
}
