"""The types that each agent's folder uses to describe its hooks: the settings files, and the form of a hook in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from drawbridge.agents import catalog
from drawbridge.settings.hook import HookSettings

SECONDS = 5
"""The number of seconds that an agent waits for a hook, in addition to the deadline and the wait in the guard's
settings."""

PERSON_SECONDS = 24 * 60 * 60
"""The maximum number of seconds that a hook waits for a person on another surface. During this time, the agent's own
dialog usually stays usable. If the dialog appears only after the hook has ended, the hook waits for a much shorter time
(``guard.report.HIDDEN_SECONDS``)."""

Scope: TypeAlias = Literal["user", "project", "managed"]
Keys: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value in a settings file, from the outermost to the innermost."""


class Switch(NamedTuple):
    """A setting that switches off the hooks, and with them the guard. ``note``: one sentence that states this and, if
    the user can change it, what to do."""

    path: Path
    name: str
    note: str


class AskMode(NamedTuple):
    """The settings that make an agent ask before it writes, if it can start in a mode without questions.

    ``mode`` with the value ``asking`` selects a mode in which it asks; it also asks in the modes ``also_asking``.
    ``lasting`` with the value ``disabled`` stops the agent from offering to switch to another mode. The agent also
    reads that setting at ``also_lasting``.
    ``unasked``, ``not_kept``: the consequences without the first and without the second setting, in words for the user.
    """

    mode: Keys
    asking: str
    also_asking: frozenset[str]
    lasting: Keys
    disabled: str
    also_lasting: Keys
    unasked: str
    not_kept: str

    def asks_in(self, mode: object) -> bool:
        """Whether the agent asks before it writes in this mode."""
        return isinstance(mode, str) and (mode == self.asking or mode in self.also_asking)

    @property
    def values(self) -> dict[Keys, str]:
        return {self.mode: self.asking, self.lasting: self.disabled}


class AgentHooks(NamedTuple):
    """The hooks of one agent. ``home``: the environment variable that names its directory, and the default directory.
    ``events`` maps each event to its matcher, or to None for a hook without one. The first event precedes a tool call,
    such as an edit."""

    name: str
    home: tuple[str, str]
    user_file: str
    project_file: str
    events: Mapping[str, str | None]
    sample: tuple[str, str, Mapping[str, str]]
    """A call to the hook about an edit to a file that can't be open in an editor: the event, the tool and the tool's
    input."""
    handler: Callable[[Sequence[str], int, bool], dict[str, Any]]
    """Returns a hook for the settings, given the words of its command, its timeout in the agent's unit, and whether the
    agent must not continue if the command can't be run."""
    switches: Callable[[Path, Any], Iterator[Switch]]
    """Yields the switches that are set in a settings file, given its path and its content."""
    takes_effect: str
    or_else: str = ""
    """Shell code that may follow the words of a command."""
    shared_file: str = ""
    """The project's settings file that is under version control, if ``project_file`` is the user's own."""
    managed: tuple[str, str] | None = None
    """The paths of the administrator's settings file: on every system except macOS, and on macOS. None if the agent
    does not have one."""
    comments: bool = False
    byte_order_mark: bool = False
    milliseconds: bool = False
    asks_person: tuple[str, ...] = ()
    """The events with hooks that wait for a person."""
    wakes: Mapping[str, Mapping[str, Any]] = {}
    """The settings with which the hooks of an event can start the idle agent, by event."""
    blocks_since: tuple[int, ...] = ()
    """The agent's first version that supports ``onFailure``; empty if no version does."""
    ask_mode: AskMode | None = None

    @property
    def title(self) -> str:
        return catalog.title(self.name)

    @property
    def program(self) -> str:
        return catalog.AGENTS[self.name].program

    def settings_file(self, project: Path | None) -> Path:
        """The file that setup writes, for the whole account or for a project."""
        if project is not None:
            return project / self.project_file
        variable, usual = self.home
        return Path(os.environ.get(variable) or usual).expanduser().absolute() / self.user_file

    def settings_files(self, directory: Path) -> dict[Path, Scope]:
        """All settings files that apply in a directory, whether they exist or not, in ascending order of precedence."""
        files: dict[Path, Scope] = {self.settings_file(None): "user"}
        if self.shared_file:
            files.setdefault(directory / self.shared_file, "project")
        files.setdefault(self.settings_file(directory), "project")
        if self.managed is not None:
            files[Path(self.managed[sys.platform == "darwin"])] = "managed"
        return files

    def groups(
        self, command: Sequence[str], settings: HookSettings, *, can_block: bool
    ) -> dict[str, Mapping[str, Any]]:
        """The hooks for the agent's settings: one group with one handler for each event. ``settings``: the guard's.
        ``can_block``: whether the agent's version supports ``onFailure``."""
        groups: dict[str, Mapping[str, Any]] = {}
        for number, (event, matcher) in enumerate(self.events.items()):
            waits = number == 0 and settings.answer == "wait"
            patience = settings.deadline // 1000 + (settings.wait if waits else 0)
            seconds = PERSON_SECONDS if event in self.asks_person else SECONDS + patience
            holds = number == 0 and settings.fail == "closed"
            handler = self.handler(command, seconds * (1000 if self.milliseconds else 1), holds)
            if holds and can_block:
                handler["onFailure"] = "block"
            handler.update(self.wakes.get(event, {}))
            groups[event] = {**({} if matcher is None else {"matcher": matcher}), "hooks": [handler]}
        return groups


def value_at(content: Any, *keys: str | int) -> Any:
    """The value at ``keys`` in the content of a settings file; None if it does not exist."""
    for key in keys:
        content = content.get(key) if isinstance(content, dict) else None
    return content
