"""Checks whether the guard is installed in the agents' settings and responds, and whether Claude Code asks before it
writes."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from drawbridge.agents.hook_settings import AgentHooks, Scope, Switch, value_at
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.own_command import own_command
from drawbridge.core.subprocesses import run_blocking
from drawbridge.setup import hooks, installed
from drawbridge.setup.agents import AGENTS
from drawbridge.setup.jsonc import Document

State: TypeAlias = Literal["works", "broken", "off", "absent", "unreadable"]

RUN_SECONDS: Final = 5.0

COPY: Final = re.compile(r"^sys\.path\.insert\(0, (['\"])(.+)\1\)$", re.MULTILINE)
"""The line in a stub that names the copy of the guard to run."""


@dataclass(frozen=True)
class Guard:
    """The guard in one settings file of an agent. ``state`` "absent": not installed there; "off": the settings switch
    off all hooks, or the guard's; "broken": the installed guard does not work, so nothing is protected; "unreadable":
    the file can't be read, or is not valid. ``milliseconds``: the duration of a sample call; 0 if none was made, or if
    it failed.
    """

    agent: str
    title: str
    scope: Scope
    file: str
    state: State
    command: list[str]
    events: list[str]
    problem: str = ""
    milliseconds: float = 0


@dataclass(frozen=True)
class Permissions:
    """Claude Code's ``permissions.defaultMode`` in the settings files, and the file that sets it; both "" if none does.
    ``asks``: whether Claude Code asks before it writes in that mode."""

    mode: str
    file: str
    asks: bool


def inspect(directory: str) -> list[Guard]:
    """One entry for each settings file that contains the guard or can't be read, and one for each agent without such a
    file. Managed settings are left out."""
    return [guard for agent in AGENTS.values() for guard in of_agent(agent, directory)]


def of_agent(agent: AgentHooks, directory: str, *, call: bool = True) -> list[Guard]:
    """The entries of one agent. Without ``call``, "works" means only that none of the guard's files is missing."""
    files = _settings_files(agent, directory)
    off = next((f"{switch.name} in {switch.path}" for switch in _switches(agent, files)), "")
    usable = [file for file in files if file.scope != "managed"]
    with ThreadPoolExecutor() as pool:
        guards = list(pool.map(lambda file: _guard(agent, file, off, directory, call=call), usable))
    return [guard for guard in guards if guard.state != "absent"] or guards[:1]


def switches(agent: AgentHooks, directory: str) -> list[Switch]:
    """The settings that switch off all of the agent's hooks, or the guard's, in the directory."""
    return list(_switches(agent, _settings_files(agent, directory)))


ASK_MODE: Final = {name: agent.ask_mode for name, agent in AGENTS.items() if agent.ask_mode}
"""The names of the agents that can start in a mode in which they don't ask, and the settings that make them ask."""


def permissions(name: str, directory: str) -> Permissions:
    """The mode in which an agent of ``ASK_MODE`` starts in the directory: from the settings file with the highest
    precedence that sets one. If none does, the agent counts as not asking."""
    mode = ASK_MODE[name]
    for file in reversed(_settings_files(AGENTS[name], directory)):
        if isinstance(found := value_at(file.content, *mode.mode), str):
            return Permissions(found, str(file.path), mode.asks_in(found))
    return Permissions("", "", asks=False)


def how_to_make_it_ask(name: str, found: Permissions, directory: str) -> str:
    """What to do so that an agent of ``ASK_MODE`` asks before it writes, given the mode that is set."""
    scope = AGENTS[name].settings_files(Path(directory)).get(Path(found.file)) if found.file else "user"
    if scope == "managed":
        return f"Ask your administrator to change {found.file}."
    return f"`{_setup(name, scope)} --ask-mode` makes it ask first."


def is_in_setups_file(guard: Guard, directory: str) -> bool:
    """Whether setup writes the guard's settings file. It does not write the file that a project's users share."""
    project = Path(directory) if guard.scope == "project" else None
    return Path(guard.file) == AGENTS[guard.agent].settings_file(project)


def how_to_reinstall(guard: Guard, directory: str) -> str:
    """What to do to install the guard's hooks again, as a sentence without a period."""
    command = f"`{_setup(guard.agent, guard.scope)}`"
    if is_in_setups_file(guard, directory):
        return f"Run {command}"
    return f"Remove the guard's hooks from {guard.file}, then run {command}"


def how_to_remove(guard: Guard, directory: str) -> str:
    """What to do to remove the guard's hooks, as the end of a sentence without a period."""
    if is_in_setups_file(guard, directory):
        return f"run `{_setup(guard.agent, guard.scope)} --remove`"
    return f"remove the guard's hooks from {guard.file}"


def _setup(name: str, scope: Scope | None) -> str:
    return f"{own_command()} setup {name}{' --scope project' if scope == 'project' else ''}"


class _File(NamedTuple):
    """A settings file of an agent. ``content``: what ``_read`` returns for it."""

    scope: Scope
    path: Path
    content: Any


def _settings_files(agent: AgentHooks, directory: str) -> list[_File]:
    """The settings files that apply in the directory, from the lowest precedence (the user's) to the highest."""
    places = agent.settings_files(Path(directory))
    return [_File(scope, path, _read(path, agent)) for path, scope in places.items()]


def _switches(agent: AgentHooks, files: Iterable[_File]) -> Iterator[Switch]:
    """The settings that switch off all hooks, or the guard's, in any of the files."""
    for file in files:
        yield from agent.switches(file.path, file.content)


def _guard(agent: AgentHooks, file: _File, off: str, directory: str, *, call: bool) -> Guard:
    def guard(state: State, words: list[str], problem: str = "", milliseconds: float = 0) -> Guard:
        return Guard(agent.name, agent.title, file.scope, str(file.path), state, words, events, problem, milliseconds)

    handlers = [] if isinstance(file.content, str) else list(_handlers(file.content, agent))
    events = sorted({event for event, _ in handlers})
    if isinstance(file.content, str):
        return guard("unreadable", [], file.content)
    if not handlers:
        return guard("absent", [])
    if off:
        return guard("off", handlers[0][1], f"{off} turns off hooks")
    for words in {tuple(words): words for _, words in handlers}.values():
        project = directory if file.scope == "project" else None
        problem, milliseconds = _tried(agent, words, project) if call else (missing(words), 0)
        if problem:
            return guard("broken", words, problem)
    lacking = [event for event in agent.events if event not in events]
    return guard("works", words, f"the guard is not called for {', '.join(lacking)}" if lacking else "", milliseconds)


def _read(path: Path, agent: AgentHooks) -> Any:
    """The settings; {} if the file does not exist; a description of the problem if it can't be used."""
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


def _handlers(content: Any, agent: AgentHooks) -> Iterator[tuple[str, list[str]]]:
    """The event and the command's words of each of Drawbridge's handlers. Values that are not hooks are ignored."""
    events = value_at(content, "hooks")
    for event, groups in events.items() if isinstance(events, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            handlers = value_at(group, "hooks")
            for handler in handlers if isinstance(handlers, list) else ():
                if hooks.is_guard_hook(handler, agent.name):
                    command, arguments = handler["command"], handler.get("args")
                    by_shell = not isinstance(arguments, list)
                    yield event, shlex.split(command.removesuffix(agent.or_else)) if by_shell else [command, *arguments]


def _tried(agent: AgentHooks, words: list[str], project: str | None) -> tuple[str, float]:
    """The problem with the command ("" for none), and the milliseconds until the command ended (0 if it was not run or
    did not end in time)."""
    if gone := missing(words):
        return gone, 0
    if project is not None and not _is_setups_own(agent.name, words, project):
        return "", 0  # a project's own command, which may do anything, is not run here
    event, tool, given = agent.sample
    sample = {"session_id": "drawbridge-info", "transcript_path": "", "cwd": "/", "hook_event_name": event}
    began = time.monotonic()
    given_to_it = json.dumps(sample | {"tool_name": tool, "tool_input": given}).encode()
    try:
        ended = run_blocking(words, seconds=RUN_SECONDS, input=given_to_it)
    except OSError as error:
        return f"the hook can't be run: {(error.strerror or 'unknown reason').lower()}", 0
    took = round((time.monotonic() - began) * 1000, 1)
    if ended.status is None:
        return f"the hook did not answer within {RUN_SECONDS:g} seconds", 0
    last = ended.errors.decode(errors="replace").strip().rpartition("\n")[2]
    if ended.status != 0:
        return f"the hook exited with code {ended.status}{f': {last}' if last else ''}", took
    try:
        answer = json.loads(ended.output)
    except ValueError:
        return "the hook's answer is not JSON", took
    if not isinstance(answer, dict):
        return "the hook's answer is not a JSON object", took
    return last, took  # a working guard prints nothing to stderr


def missing(words: list[str]) -> str:
    """The problem ("" for none) with the first unusable file: the interpreter, the stub or the copy that it names."""
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
    """Whether this is exactly the command that setup would write now."""
    try:
        return words in [installed.fast_command(agent), installed.fast_command(agent, Path(project))]
    except DrawbridgeError:
        return False
