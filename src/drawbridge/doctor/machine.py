"""Checks of the machine: Python, git, free disk space, Drawbridge's settings, and whether `drawbridge` on PATH is this
one."""

from __future__ import annotations

import importlib
import os
import platform
import shlex
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

import platformdirs

from drawbridge import settings
from drawbridge.core.errors import BadSetting
from drawbridge.core.subprocesses import run_blocking
from drawbridge.doctor.finding import Check, Finding, finding

SECONDS: Final = 6.0

MB: Final = 1024 * 1024
"""The number of bytes in a megabyte, as in the server's settings and messages."""

LOW_DISK: Final = 500 * MB
"""The number of free bytes below which a disk is reported. The server warns below the same limit."""

COMMANDS: Final = ("ide", "hook", "serve", "attach")
"""The commands that have their own settings."""


def checks() -> list[Check]:
    return [
        Check("git", git),
        Check("the disk", disk),
        Check("the settings", known_settings),
        Check("drawbridge on PATH", other_drawbridge),
    ]


def git() -> list[Finding]:
    path = shutil.which("git")
    why = "Without it, a server takes no checkpoints, so runs can't be reviewed."
    if path is None:
        return [finding("git-missing", "git was not found on PATH.", why, "Install git.")]
    try:
        ended = run_blocking([path, "--version"], seconds=SECONDS)
    except OSError as error:
        title = f"{path} can't be run: {(error.strerror or 'unknown reason').lower()}."
        return [finding("git-missing", title, why, "Install git again.")]
    if ended.status != 0:
        todo = f"Run `{shlex.quote(path)} --version` to see why."
        return [finding("git-missing", f"{path} does not work.", why, todo)]
    shown = ended.output.decode(errors="replace").strip()
    python = f"Python {platform.python_version()} ({sys.executable})"
    return [finding("machine-works", f"{shown} ({path})."), finding("machine-works", f"{python}.")]


def disk(low: int = LOW_DISK) -> list[Finding]:
    """The finding about the free space for the server's default data directory, which may not exist yet. ``low``: in
    bytes."""
    place = Path(platformdirs.user_data_dir("drawbridge", appauthor=False)).absolute()
    return disk_of(place, low)


def disk_of(place: Path, low: int = LOW_DISK) -> list[Finding]:
    there = next(folder for folder in [place, *place.parents] if folder.exists())
    free = shutil.disk_usage(there).free
    if free >= low:
        return [finding("machine-works", f"{free / (1024 * MB):.1f} GB is free for {place}.")]
    why = "A server stops accepting prompts when its disk is full, and nothing more is stored."
    title = f"Only {free // MB} MB is free for {place}."
    return [finding("disk-full", title, why, f"Free up space on the disk that contains {there}.")]


def known_settings() -> list[Finding]:
    found = []
    for command in COMMANDS:
        module = importlib.import_module(f"drawbridge.settings.{command}")
        try:
            settings.load(command, getattr(module, f"{command.title()}Settings"), {})
        except BadSetting as error:
            why = f"`drawbridge {command}` does not start, or uses different settings than you expect."
            title = f"The settings of `drawbridge {command}` can't be used: {str(error).removesuffix('.')}."
            todo = f"Correct them in {settings.config_file()} or in the environment variables."
            found.append(finding("settings-invalid", title, why, todo))
    return found


def other_drawbridge() -> list[Finding]:
    path, mine = shutil.which("drawbridge"), f"drawbridge {version('drawbridge')}"
    if path is None or os.path.dirname(os.path.realpath(path)) == os.path.dirname(os.path.realpath(sys.executable)):
        return []
    try:
        ended = run_blocking([path, "--version"], seconds=SECONDS)
        shown = ended.output.decode(errors="replace").strip()
        if shown == mine:
            return []
        other = f"it is {shown}" if shown else "it did not print a version"
    except OSError as error:
        other = f"it can't be run ({(error.strerror or 'unknown reason').lower()})"
    why = "Editors and terminals start that one, and different versions may not work together."
    title = f"`drawbridge` on PATH ({path}) is not this one ({mine}): {other}."
    todo = f"Uninstall one of them. `{shlex.quote(sys.executable)} -m drawbridge` starts this one."
    return [finding("other-drawbridge", title, why, todo)]
