"""Notes about an agent's settings for the user: why the guard may not work although its hooks are installed, and which
other settings to change."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from drawbridge.agents.hook_settings import AgentHooks
from drawbridge.core.own_command import own_command
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import hooks
from drawbridge.setup.jsonc import Document


def of(agent: AgentHooks, project: Path | None, settings: HookSettings, document: Document) -> Iterator[str]:
    """The notes about one agent's settings. ``document``: the future content of the settings file."""
    here = agent.settings_file(project)
    others = {path: other for path, other in _settings(agent).items() if path != here}
    for path, other in others.items():
        if hooks.has_guard_hooks(other, agent.name):
            removal = {
                agent.settings_file(None): f"`{own_command()} setup {agent.name} --remove` removes them.",
                agent.settings_file(Path.cwd()): f"`{own_command()} setup {agent.name} --scope project --remove` "
                "removes them.",
            }.get(path, "Remove them from one of the two files.")
            yield f"{path} also contains the guard's hooks, so the guard runs twice for each call. {removal}"
    found = others | {here: document}
    for path in dict.fromkeys([*agent.settings_files(Path.cwd()), here]):
        for switch in agent.switches(path, found[path].value if path in found else {}):
            yield switch.note
    known = version(agent.program) if agent.blocks_since and settings.fail == "closed" else agent.blocks_since
    if known < agent.blocks_since:
        now = f"Your version is {_shown(known)}" if known else "Your version could not be determined"
        todo = f"Update {agent.title}" if known else f"If it is new enough, add `{agent.program}` to PATH"
        yield (
            f"{agent.title} {_shown(agent.blocks_since)} or newer can also block an edit if the guard can't be started "
            f"at all. {now}. {todo}, and run this again."
        )
    if mode := agent.ask_mode:
        if not mode.asks_in(document.get(mode.mode)) and not asks(agent, project):
            scope = " --scope project" if project else ""
            yield f"{mode.unasked} `{own_command()} setup {agent.name}{scope} --ask-mode` makes it ask."
        elif not any(mode.disabled in (one.get(mode.lasting), one.get(mode.also_lasting)) for one in found.values()):
            yield mode.not_kept
    if project and not agent.shared_file:
        yield f"{here} contains the path of a Python on this machine, so keep it out of version control."


def asks(agent: AgentHooks, project: Path | None) -> bool:
    """Whether the agent's settings make it ask before it writes. Of the files that set the mode, the one with the
    highest precedence decides, and False is returned if none sets it. Without ``project``, only the account's file
    counts. True if the agent has no ``ask_mode``."""
    if agent.ask_mode is None:
        return True
    keys, found = agent.ask_mode.mode, _settings(agent)
    if project is None:
        found = {path: document for path, document in found.items() if path == agent.settings_file(None)}
    modes = [document.get(keys) for document in found.values() if keys in document]
    return bool(modes) and agent.ask_mode.asks_in(modes[-1])


@functools.cache
def version(program: str) -> tuple[int, ...]:
    """The version of an agent's program on PATH, such as (2, 1, 329); empty if unknown."""
    found_there = shutil.which(program)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = [found_there or "", "--version"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL)
        if found := re.match(r"(\d+)\.(\d+)\.(\d+)", done.stdout):
            return tuple(map(int, found.groups()))
    return ()


def _shown(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def _settings(agent: AgentHooks) -> dict[Path, Document]:
    """The settings files that apply here and can be read, from the lowest precedence to the highest."""
    found = {}
    for path in agent.settings_files(Path.cwd()):
        with contextlib.suppress(OSError, ValueError):
            found[path] = Document(path.read_text("utf-8-sig"), comments=agent.comments)
    return found
