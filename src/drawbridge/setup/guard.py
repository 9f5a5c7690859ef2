"""The guard in an agent's settings: ``drawbridge setup AGENT``."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from drawbridge.agents.hook_settings import AgentHooks
from drawbridge.core.errors import DrawbridgeError, UnusableFile
from drawbridge.settings.hook import HookSettings
from drawbridge.setup import files, hooks, installed, jsonc, notes, record
from drawbridge.setup.agents import AGENTS
from drawbridge.setup.files import Change, Step
from drawbridge.setup.jsonc import Document
from drawbridge.setup.plan import Plan
from drawbridge.setup.record import Record


@dataclass(frozen=True)
class Copy:
    """The step that installs the copy of the guard."""

    path: Path
    kind: str = "create"

    def lines(self) -> list[str]:
        return [f"+++ {self.path}{os.sep}", "+ a copy of the guard, with its bytecode"]

    def apply(self) -> None:
        installed.install_copy()


@dataclass(frozen=True)
class SettingsFile:
    """A settings file as it is on disk. ``prefix``: its byte order mark, if it has one. ``blank``: see ``Record``."""

    path: Path
    content: bytes | None
    document: Document
    prefix: bytes = b""
    blank: str | None = None

    def with_(self, document: Document) -> bytes | None:
        """The new content of the file; None if it does not exist and does not change."""
        if document.text == self.document.text:
            return self.content
        return self.prefix + document.text.encode()


def load(agent: AgentHooks, path: Path) -> SettingsFile:
    """Loads a settings file. Raises ``UnusableFile``, which names the line and the column of invalid content."""
    content = files.read(path)
    prefix = codecs.BOM_UTF8 if agent.byte_order_mark and (content or b"").startswith(codecs.BOM_UTF8) else b""
    try:
        text = (content or b"").removeprefix(prefix).decode()
        if not text.strip():
            return SettingsFile(path, content, Document("{}\n"), prefix, None if content is None else text)
        document = Document(text, comments=agent.comments)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        column = error.start - error.object.rfind(b"\n", 0, error.start)
        raise _unfit(path, f"line {line}, column {column}: a byte that is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise _unfit(path, f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    if not isinstance(document.value, dict):
        raise _unfit(path, "a JSON object was expected")
    return SettingsFile(path, content, document, prefix)


@dataclass(frozen=True)
class SettingsChange(Change):
    """The change of a settings file, which is recorded before the file is written: if setup is interrupted afterwards,
    ``--remove`` can still revert it. ``previous``: the record until then; ``new``: the record after the change."""

    previous: Record | None = field(kw_only=True)
    new: Record = field(kw_only=True)

    def apply(self) -> Path | None:
        record.save(self.path, record.merged(self.previous, self.new) if self.previous else self.new)
        try:
            return super().apply()
        except DrawbridgeError:  # the file is unchanged
            record.save(self.path, self.previous)
            raise


def plan_setup(name: str, project: Path | None, settings: HookSettings, ask_mode: bool | None) -> Plan:
    """The plan that installs the guard for this agent and scope. ``ask_mode``: True makes the agent ask before it
    writes, False undoes this if setup did it, and None leaves it as it is. Raises ``UnusableFile`` or ``NotWritable``
    if the settings file can't be changed, and ``NoProgram`` if no Python can run the guard."""
    agent = AGENTS[name]
    loaded = load(agent, agent.settings_file(project))
    made = record.load(loaded.path)
    command = installed.fast_command(name, project)
    can_block = bool(agent.blocks_since) and notes.version(agent.program) >= agent.blocks_since
    groups = agent.groups(command, settings, can_block=can_block)
    former = _former(agent, made)
    asked_before = any(value is not None for value in former.values())
    try:
        document = hooks.add(loaded.document, groups, name, made.containers if made else ())
        if ask_mode and agent.ask_mode:
            for path, value in agent.ask_mode.values.items():
                if document.get(path) != value:
                    former[path] = (document.source(path),) if path in document else ()
                    document = hooks.set_value(document, path, value)
        elif ask_mode is False and made:
            document, former = _without_ask_mode(agent, document, made), _former(agent, None)
    except hooks.Unfit as error:
        raise _unfit(loaded.path, str(error)) from None
    new = _record(agent, loaded, document, made, former)
    change = SettingsChange(loaded.path, loaded.content, loaded.with_(document), previous=made, new=new)
    copy, stub = installed.copy_path(), installed.stub_path(name, project)
    stub_change = Change(stub, files.read(stub), installed.stub_text(name, settings, copy), keep=False)
    steps: list[Step] = [] if installed.is_whole(copy) else [Copy(copy)]
    steps += [step for step in (stub_change, change) if step.before != step.after]
    if change in steps:
        change.check()

    def finish() -> None:
        installed.install_copy()  # adds the bytecode if the interpreter has changed
        record.save(loaded.path, new)
        installed.remove_old()

    return Plan(
        steps,
        done=f"Done: the guard is set up for {agent.title}. {agent.takes_effect}",
        nothing=f"Already set up: {loaded.path} contains the guard's hooks.",
        notes=list(notes.of(agent, project, settings, document)),
        about={
            loaded.path: f"{len(groups)} hooks that call the guard, and report sessions to `drawbridge serve` if it runs "
            + f"({', '.join(groups)})"
            + (f", and settings that make {agent.title} ask before it writes" if ask_mode else "")
            + (f", without the settings that made {agent.title} ask" if asked_before and ask_mode is False else "")
            + ("; its other content stays as it is" if loaded.content else ""),
            stub: "the program that the hooks run, with your settings",
            copy: "a copy of the guard, which keeps working if Drawbridge is moved",
        },
        finish=finish,
        command=command,
    )


def plan_removal(name: str, project: Path | None) -> Plan:
    """The plan that undoes what setup did for this agent and scope. Raises ``UnusableFile`` or ``NotWritable`` if the
    settings file can't be changed."""
    agent = AGENTS[name]
    loaded = load(agent, agent.settings_file(project))
    made = record.load(loaded.path)
    document, after = loaded.document, loaded.content
    if made:
        document = _without_ask_mode(agent, document, made)
    document = hooks.remove(document, name, made.containers if made else None)
    if loaded.content is not None:
        after = loaded.with_(document)
        if made and document.value == {} and not document.has_comments:
            after = None if made.created else after if made.blank is None else loaded.prefix + made.blank.encode()
    change = Change(loaded.path, loaded.content, after, keep=after is not None)
    stub = installed.stub_path(name, project)
    stub_change = Change(stub, files.read(stub), None, keep=False)
    steps: list[Step] = [step for step in (change, stub_change) if step.before != step.after]
    if change in steps:
        change.check()

    def finish() -> None:
        record.save(loaded.path, None)
        installed.remove_old()
        for directory in made.directories if made and after is None else ():
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    return Plan(
        steps,
        done=f"Done: the guard was removed from {loaded.path}.",
        nothing=f"Nothing to remove: {loaded.path} "
        + ("does not exist." if loaded.content is None else "contains nothing from setup."),
        about={
            loaded.path: "what setup did is undone" if after is not None else "it contains only what setup added",
            stub: "the program that the hooks run",
        },
        finish=finish,
    )


Former: TypeAlias = dict[jsonc.Path, tuple[str, ...] | None]
"""The previous source text of each setting of the agent's ``AskMode``, by its path. The values are like
``Record.mode``: None if setup did not set it."""


def _former(agent: AgentHooks, made: Record | None) -> Former:
    if agent.ask_mode is None:
        return {}
    return {agent.ask_mode.mode: made.mode if made else None, agent.ask_mode.lasting: made.auto if made else None}


def _without_ask_mode(agent: AgentHooks, document: Document, made: Record) -> Document:
    values = agent.ask_mode.values if agent.ask_mode else {}
    for path, former in reversed(_former(agent, made).items()):
        if former is not None:
            document = hooks.restore_value(document, path, values[path], next(iter(former), None), made.containers)
    return document


def _record(agent: AgentHooks, loaded: SettingsFile, document: Document, made: Record | None, former: Former) -> Record:
    there = hooks.containers(loaded.document, former)
    # Without a record, the lists and objects of the hooks count as created by setup, so they are removed once they are
    # empty.
    known = made.containers if made else frozenset(there if hooks.has_guard_hooks(loaded.document, agent.name) else ())
    containers = frozenset((hooks.containers(document, former) - there) | (known & there))
    if made and loaded.content is not None:
        created, blank, directories = made.created, made.blank, made.directories
    else:
        created, blank = loaded.content is None, loaded.blank
        directories = tuple(map(str, files.missing_directories(loaded.path)))
    mode, auto = former.values() or (None, None)
    return Record(created, blank, containers, directories, mode=mode, auto=auto)


def _unfit(path: Path, problem: str) -> UnusableFile:
    return UnusableFile(f"{path}: {problem}. The file was not changed. Correct it and run this again.")
