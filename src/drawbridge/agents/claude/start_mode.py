"""The permission mode in which ``claude`` starts in a terminal. No hook reports it before a prompt (2.1.329)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from drawbridge.agents.claude.hook_settings import ASK_MODE, SETTINGS
from drawbridge.agents.hook_settings import value_at
from drawbridge.agents.modes import BYPASS

USUAL: Final = "auto"
"""The mode if neither the command line nor a settings file names one."""

BYPASSES: Final = "--dangerously-skip-permissions"
"""The flag that overrides every mode. ``--allow-dangerously-skip-permissions`` only makes the mode available
(2.1.332).
"""

MODE: Final = "--permission-mode"
OTHER_SETTINGS: Final = ("--settings", "--setting-sources", "--managed-settings")

RUNTIMES: Final = ("node", "bun", "deno")
"""Programs that run Claude Code as a script, which may replace its command line with a title."""


def of_process(pid: int, directory: Path) -> str | None:
    """The mode in which the process ``pid`` started, given that it started in ``directory``; None if it can't be
    determined. Blocking."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline()[1:]
        is_script = Path(process.exe()).name in RUNTIMES
    except (psutil.Error, OSError, ValueError, OverflowError):
        return None
    return None if is_script else start_mode(words, directory)


def start_mode(words: Sequence[str], directory: Path) -> str | None:
    """The mode in which a ``claude`` with the arguments ``words`` starts in ``directory``. None if no argument names
    the mode and one of them selects other settings, or a settings file can't be read. Blocking."""
    flags = [word.partition("=") for word in words]
    names = {name for name, _, _ in flags}
    if BYPASSES in names:
        return BYPASS
    if MODE in names:
        # If the flag is repeated, its last value counts.
        index, value = [(index, value) for index, (name, _, value) in enumerate(flags) if name == MODE][-1]
        mode = value or next(iter(words[index + 1 :]), None)
        return "default" if mode == "manual" else mode
    if not names.isdisjoint(OTHER_SETTINGS):
        return None
    return _of_settings(directory)


def _of_settings(directory: Path) -> str | None:
    """The mode in the settings file with the highest precedence that contains one; ``USUAL`` if none does. None if a
    file that has to be read exists but can't be read. Blocking."""
    for path in reversed(SETTINGS.settings_files(directory)):
        try:
            mode = value_at(json.loads(path.read_bytes()), *ASK_MODE.mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, RecursionError):
            return None
        if isinstance(mode, str):
            return mode
    return USUAL
