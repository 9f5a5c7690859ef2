"""Whether the guard stands where agents look for it, and really answers; and whether Claude Code asks at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from drawbridge.errors import DrawbridgeError
from drawbridge.setup import hooks, installed
from drawbridge.setup.agents import AGENTS, Agent
from drawbridge.setup.jsonc import Document

Scope: TypeAlias = Literal["user", "project"]

RUN_SECONDS: Final = 5.0

SAMPLES: Final = {
    "claude": ("PreToolUse", "Edit", {"file_path": "/nonexistent/drawbridge", "old_string": "", "new_string": ""}),
    "gemini": ("BeforeTool", "replace", {"file_path": "/nonexistent/drawbridge", "old_string": "", "new_string": ""}),
    "codex": ("PreToolUse", "apply_patch", {"command": "*** Update File: /nonexistent/drawbridge"}),
}
"""Edits of a file that nobody can have open: event, tool, its input."""

ASKING_MODES: Final = (hooks.ASKING, "plan")

COPY: Final = re.compile(r"^sys\.path\.insert\(0, (['\"])(.+)\1\)$", re.MULTILINE)
"""In a stub: which copy of the guard it runs."""


@dataclass(frozen=True)
class Guard:
    """The guard in one settings file of one agent. ``state`` "absent": not installed there; "off": the settings switch all
    hooks off; "broken": what is installed can't run, so it guards nothing; "unreadable": the file is not valid.
    ``milliseconds``: how long a sample call took, 0 where none was made.
    """

    agent: str
    scope: Scope
    file: str
    state: Literal["works", "broken", "off", "absent", "unreadable"]
    command: list[str]
    events: list[str]
    problem: str = ""
    milliseconds: float = 0


@dataclass(frozen=True)
class Permissions:
    """Claude Code's ``permissions.defaultMode`` as the settings files have it, and which file it is from ("" for none)."""

    mode: str
    file: str
    asks: bool


def look(directory: str) -> list[Guard]:
    """One for each settings file that has the guard or can't be read, and one for each agent without any."""
    found = [_guard(agent, scope, path, directory) for agent, scope, path in _settings_files(directory)]
    there = [guard for guard in found if guard.state != "absent"]
    absent = {guard.agent: guard for guard in reversed(found) if guard.agent not in {other.agent for other in there}}
    order = list(AGENTS)
    return sorted([*there, *absent.values()], key=lambda guard: (order.index(guard.agent), guard.scope == "project"))


def permissions(directory: str) -> Permissions:
    """Which mode a ``claude`` in the directory starts in, as far as its settings say."""
    for agent, _, path in reversed(list(_settings_files(directory))):
        if agent.name == "claude" and isinstance(mode := _get(_read(path, agent), *hooks.MODE), str):
            return Permissions(mode, str(path), mode in ASKING_MODES)
    return Permissions("", "", asks=False)


def _settings_files(directory: str) -> Iterator[tuple[Agent, Scope, Path]]:
    """Every file that hooks can stand in, each once; of Claude Code's, a later one goes before those above it."""
    project = Path(directory)
    for agent in AGENTS.values():
        of_user, of_project = agent.settings_file(None), [agent.settings_file(project)]
        if agent.name == "claude":
            of_project = list(dict.fromkeys([project / ".claude" / "settings.json", *of_project]))
        yield agent, "user", of_user
        yield from ((agent, "project", path) for path in of_project if not _same(path, of_user))


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _guard(agent: Agent, scope: Scope, path: Path, directory: str) -> Guard:
    content = _read(path, agent)
    if isinstance(content, str):
        return Guard(agent.name, scope, str(path), "unreadable", [], [], content)
    handlers = list(_handlers(content, agent.name))
    if not handlers:
        return Guard(agent.name, scope, str(path), "absent", [], [])
    events = sorted({event for event, _ in handlers})
    if switch := _switched_off(agent, content, path):
        return Guard(agent.name, scope, str(path), "off", handlers[0][1], events, switch)
    for words in {tuple(words): words for _, words in handlers}.values():
        problem, milliseconds = _tried(agent.name, words, None if scope == "user" else directory)
        if problem:
            return Guard(agent.name, scope, str(path), "broken", words, events, problem)
    lacking = [event for event in agent.events if event not in events]
    problem = f"it is not called for {', '.join(lacking)}" if lacking else ""
    return Guard(agent.name, scope, str(path), "works", words, events, problem, milliseconds)


def _read(path: Path, agent: Agent) -> Any:
    """The settings; {} where there is no file; a text that says what is wrong with it."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            text = file.read().decode("utf-8-sig" if agent.byte_order_mark else "utf-8")
        return Document(text, comments=agent.comments).value if text.strip() else {}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except UnicodeDecodeError:
        return "it is not UTF-8"
    except OSError as error:
        return (error.strerror or "it can't be read").lower()


def _get(content: Any, *keys: str) -> Any:
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content


def _handlers(content: Any, agent: str) -> Iterator[tuple[str, list[str]]]:
    """Event and words of every handler of ours. What has not the shape of hooks is passed over."""
    events = _get(content, "hooks")
    for event, groups in events.items() if isinstance(events, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            handlers = _get(group, "hooks")
            for handler in handlers if isinstance(handlers, list) else ():
                if hooks.is_ours(handler, agent):
                    command, arguments = handler["command"], handler.get("args")
                    yield event, [command, *arguments] if isinstance(arguments, list) else shlex.split(command)


def _switched_off(agent: Agent, content: Any, path: Path) -> str:
    """What in the settings switches every hook off; "" for nothing."""
    if agent.name == "claude" and _get(content, "disableAllHooks") is True:
        return "disableAllHooks switches it off"
    if agent.name == "gemini" and _get(content, "hooksConfig", "enabled") is False:
        return "hooksConfig.enabled switches it off"
    if agent.name == "codex":
        try:
            with open(path.with_name("config.toml"), "rb") as file:
                features = tomllib.load(file).get("features", {})
        except (OSError, ValueError):
            return ""
        return "features.hooks in config.toml switches it off" if _get(features, "hooks") is False else ""
    return ""


def _tried(agent: str, words: list[str], project: str | None) -> tuple[str, float]:
    """What is wrong with the command ("" for nothing), and the milliseconds that it took to answer."""
    if missing := _missing(words):
        return missing, 0
    if project is not None and not _is_setups_own(agent, words, project):
        return "", 0  # the project's words, which need not be what they seem: they are not run here
    event, tool, given = SAMPLES[agent]
    call = {"session_id": "drawbridge-info", "transcript_path": "", "cwd": "/", "hook_event_name": event}
    began = time.monotonic()
    try:
        ended = subprocess.run(
            words,
            input=json.dumps(call | {"tool_name": tool, "tool_input": given}).encode(),
            capture_output=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it gave no answer within {RUN_SECONDS:g} seconds", 0
    except OSError as error:
        return f"it can't be run: {(error.strerror or 'unknown reason').lower()}", 0
    took = (time.monotonic() - began) * 1000
    last = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    if ended.returncode != 0:
        return f"it ended with code {ended.returncode}{f': {last}' if last else ''}", took
    try:
        json.loads(ended.stdout)
    except ValueError:
        return "its answer is not JSON", took
    return "", took


def _missing(words: list[str]) -> str:
    """The interpreter, the stub and the copy that the stub names must all be there."""
    if not os.access(words[0], os.X_OK):
        return f"{words[0]} is gone" if not os.path.exists(words[0]) else f"{words[0]} can't be run"
    for stub in (word for word in words[1:] if word.endswith(".py")):
        try:
            with open(stub, encoding="utf-8", errors="replace") as file:
                copy = COPY.search(file.read())
        except OSError as error:
            return f"{stub} is gone" if isinstance(error, FileNotFoundError) else f"{stub} can't be read"
        if copy and not os.path.isdir(os.path.join(copy[2], "drawbridge", "guard")):
            return f"{copy[2]} is gone"
    return ""


def _is_setups_own(agent: str, words: list[str], project: str) -> bool:
    """Whether these are the very words that setup would write today."""
    try:
        return words in [installed.fast_command(agent), installed.fast_command(agent, Path(project))]
    except DrawbridgeError:
        return False
