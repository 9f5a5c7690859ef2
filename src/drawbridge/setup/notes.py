"""What stands in the guard's way though its hooks are set up well: read from the agents' other settings."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from drawbridge.core.own_command import own_command
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import hooks
from drawbridge.setup.agents import AGENTS, Agent
from drawbridge.setup.jsonc import Document

BLOCKING_SINCE = (2, 1, 295)
"""The first Claude Code that knows ``onFailure``."""

MANAGED = {
    "claude": (
        "/etc/claude-code/managed-settings.json",
        "/Library/Application Support/ClaudeCode/managed-settings.json",
    ),
    "gemini": ("/etc/gemini-cli/settings.json", "/Library/Application Support/GeminiCli/settings.json"),
}
"""An administrator's settings: elsewhere, and on macOS."""

NO_MODE = "Claude Code starts in auto mode and writes without asking, so you never see a change first."

NOT_KEPT = (
    'At its next start Claude Code asks whether to make auto mode the default, with "Yes" chosen, and stops asking before it '
    'writes if you press Enter. --ask-mode prevents that: it also sets permissions.disableAutoMode to "disable".'
)


def of(agent: Agent, project: Path | None, settings: HookSettings, document: Document) -> Iterator[str]:
    """``document``: the settings file as it will be."""
    here = agent.settings_file(project)
    others = {path: other for path, other in _settings(agent).items() if path != here}
    for path, other in others.items():
        if hooks.has_ours(other, agent.name):
            yield f"{path} calls the guard too, so it runs twice for each call: take one of them away with --remove."
    if agent.name == "claude":
        yield from _of_claude(others | {here: document}, settings)
        if document.get(hooks.MODE) != hooks.ASKING and not asks(project):
            yield f"{NO_MODE} `{own_command()} setup claude --ask-mode` makes it ask."
        elif not _without_auto(others | {here: document}):
            yield NOT_KEPT
    elif agent.name == "gemini":
        yield from _of_gemini(others | {here: document})
    else:
        yield from _of_codex(project)
    if project and agent.name != "claude":
        yield f"{here} names the Python of this machine: it is not for others, so keep it out of version control."


def _without_auto(found: Mapping[Path, Document]) -> bool:
    """Whether some of these settings disable auto mode; 2.1.329 reads both places."""
    return any(
        "disable" in (document.get(hooks.NO_AUTO), document.get(hooks.NO_AUTO[1:])) for document in found.values()
    )


def asks(project: Path | None) -> bool:
    """Whether Claude Code is told to ask before it writes. What is nearer to the project wins."""
    found = _settings(AGENTS["claude"])
    if project is None:
        found = {path: document for path, document in found.items() if path == AGENTS["claude"].settings_file(None)}
    modes = [document.get(hooks.MODE) for document in found.values() if hooks.MODE in document]
    return bool(modes) and modes[-1] == hooks.ASKING


@functools.cache
def claude_version() -> tuple[int, ...]:
    """(2, 1, 329); empty where no ``claude`` says which it is."""
    program = shutil.which("claude")
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [program or "", "--version"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL)
        if found := re.match(r"(\d+)\.(\d+)\.(\d+)", said.stdout):
            return tuple(map(int, found.groups()))
    return ()


def _of_claude(found: Mapping[Path, Document], settings: HookSettings) -> Iterator[str]:
    for path, document in found.items():
        if document.get(("disableAllHooks",)) is True:
            yield f"{path} has disableAllHooks: no hook runs, and nothing is guarded, until that is gone."
        if document.get(("allowManagedHooksOnly",)) is True:
            yield f"{path} has allowManagedHooksOnly: only hooks of your administrator run, so nothing is guarded."
    if settings.fail == "closed" and claude_version() < BLOCKING_SINCE:
        known = ".".join(map(str, claude_version())) or "of an unknown version"
        yield (
            f"Claude Code is {known}: from 2.1.295 on it can also hold an edit back when the guard can't be started at "
            "all. Run this again after an update."
        )


def _of_gemini(found: Mapping[Path, Document]) -> Iterator[str]:
    for path, document in found.items():
        if document.get(("hooksConfig", "enabled")) is False:
            yield f"{path} has hooksConfig.enabled = false: no hook runs, and nothing is guarded, until that is gone."
        disabled = document.get(("hooksConfig", "disabled"))
        if isinstance(disabled, list) and "drawbridge" in disabled:
            yield f"{path} has drawbridge in hooksConfig.disabled: type /hooks enable drawbridge in Gemini CLI."


def _of_codex(project: Path | None) -> Iterator[str]:
    for path in {AGENTS["codex"].settings_file(place).with_name("config.toml") for place in (None, project)}:
        with contextlib.suppress(OSError, ValueError):
            features = tomllib.loads(path.read_text()).get("features")
            if isinstance(features, dict) and features.get("hooks", features.get("codex_hooks")) is False:
                yield f"{path} has [features] hooks = false: no hook runs, and nothing is guarded, until that is gone."


def _settings(agent: Agent) -> dict[Path, Document]:
    """The settings files that count here and can be read, the weakest first."""
    here = Path.cwd()
    paths = [agent.settings_file(None), agent.settings_file(here)]
    if agent.name == "claude":
        paths.insert(1, here / ".claude" / "settings.json")
    if agent.name in MANAGED:
        paths.append(Path(MANAGED[agent.name][sys.platform == "darwin"]))
    found = {}
    for path in dict.fromkeys(paths):
        with contextlib.suppress(OSError, ValueError):
            found[path] = Document(path.read_text("utf-8-sig"), comments=agent.comments)
    return found
