"""Hooks in an agent's settings: recognizes, adds and removes Drawbridge's own. Does no I/O.

All agents use the same shape: ``{"hooks": {EVENT: [{"matcher": …, "hooks": [HANDLER, …]}, …]}}``. New groups are added
at the end of a list, so that the user's groups keep their positions, which Codex uses to remember the hooks that it
trusts.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any, TypeAlias

from drawbridge.setup.jsonc import Document, Path

Group: TypeAlias = Mapping[str, Any]

HOOKS = ("hooks",)


class Unfit(Exception):
    """The settings contain a value of the wrong type where setup adds hooks or values. The text describes it."""


def is_guard_hook(handler: Any, agent: str) -> bool:
    """Whether the handler calls a guard that setup installed for ``agent``, in any scope and in any directory."""
    if not isinstance(handler, dict):
        return False
    words, command = handler.get("args"), handler.get("command")
    words = words if isinstance(words, list) else []
    if isinstance(command, str):
        try:
            words = [*words, *shlex.split(command)]
        except ValueError:  # an unclosed quote
            return False
    return any(isinstance(word, str) and _is_stub(PurePath(word), agent) for word in words)


def _is_stub(path: PurePath, agent: str) -> bool:
    name = path.stem.partition("-")[0]
    return path.suffix == ".py" and name == agent and path.parts[-3:-1] == ("drawbridge", "guard")


def add(document: Document, wanted: Mapping[str, Group], agent: str, made: Collection[Path]) -> Document:
    """The settings with one Drawbridge hook for each event in ``wanted``, and no other Drawbridge hooks. ``made``: the
    lists and objects that setup created, which are removed if they become empty. Raises ``Unfit``."""
    _check(document, wanted)
    for event in [event for event, _, _ in _guard_hooks(document, agent) if event not in wanted]:
        document = remove(document, agent, made, only=event)
    if HOOKS not in document:
        return document.insert(HOOKS, {event: [group] for event, group in wanted.items()})
    for event, group in wanted.items():
        if (*HOOKS, event) not in document:
            document = document.insert((*HOOKS, event), [group])
        else:
            document = _add_to_list(document, event, group, agent)
    return document


def _add_to_list(document: Document, event: str, group: Group, agent: str) -> Document:
    places = [(g, h) for where, g, h in _guard_hooks(document, agent) if where == event]
    if not places:
        return document.insert((*HOOKS, event, -1), group)
    for number, handler in reversed(places[1:]):
        document = _without(document, event, number, handler)
    number, handler = places[0]
    path: Path = (*HOOKS, event, number)
    if len(document.get((*path, "hooks"))) > 1:  # the user added other hooks to the group, so its matcher stays
        path, group = (*path, "hooks", handler), group["hooks"][0]
    return document if document.get(path) == group else document.replace(path, group)


def remove(document: Document, agent: str, made: Collection[Path] | None, only: str | None = None) -> Document:
    """The settings without Drawbridge's hooks. ``only``: the only event whose hooks are removed. Lists and objects that
    become empty are removed if setup ``made`` them. If that is not known (None), all of them are."""
    places = [place for place in _guard_hooks(document, agent) if only in (None, place[0])]
    for event, number, handler in reversed(places):
        document = _without(document, event, number, handler)
    emptied: list[Path] = [(*HOOKS, event) for event in reversed(dict.fromkeys(event for event, _, _ in places))]
    for path in [*emptied, HOOKS] if places else []:
        if not document.get(path) and (made is None or path in made):
            document = document.delete(path)
    return document


def set_value(document: Document, path: Path, value: str) -> Document:
    """The settings with a string at ``path``. Raises ``Unfit`` if its container is not an object."""
    container = path[:-1]
    if not isinstance(document.get(container, {}), dict):
        raise Unfit(f"{container[0]} is {_kind(document.get(container))}, not an object")
    if path in document:
        return document.replace(path, value)
    if container in document:
        return document.insert(path, value)
    return document.insert(container, {path[-1]: value})


def restore_value(document: Document, path: Path, value: str, former: str | None, made: Collection[Path]) -> Document:
    """Undoes ``set_value(document, path, value)``. ``former``: the previous source text; None if the value was new. In
    that case, the value's object is also removed if it becomes empty and setup ``made`` it. A value that has been
    changed since then is kept."""
    container = path[:-1]
    if document.get(path) != value:
        return document
    if former is not None:
        return document.replace_source(path, former)
    document = document.delete(path)
    return document.delete(container) if not document.get(container) and container in made else document


def has_guard_hooks(document: Document, agent: str) -> bool:
    return any(True for _ in _guard_hooks(document, agent))


def containers(document: Document, values: Iterable[Path] = ()) -> set[Path]:
    """The paths of the existing lists and objects that contain hooks, or could contain ``values``."""
    events = document.get(HOOKS, {})
    lists = ((*HOOKS, event) for event in (events if isinstance(events, dict) else ()))
    paths = {HOOKS, *(value[:-1] for value in values), *lists}
    return {path for path in paths if path in document}


def _check(document: Document, events: Collection[str]) -> None:
    if not isinstance(document.get(HOOKS, {}), dict):
        raise Unfit(f"hooks is {_kind(document.get(HOOKS))}, not an object")
    for event in events:
        if not isinstance(document.get((*HOOKS, event), []), list):
            raise Unfit(f"hooks.{event} is {_kind(document.get((*HOOKS, event)))}, not a list")


def _guard_hooks(document: Document, agent: str) -> Iterator[tuple[str, int, int]]:
    """The event of each of Drawbridge's hooks, and the indices of its group and handler, in the order of the text.
    Values that do not have the form of hooks are ignored."""
    events = document.get(HOOKS, {})
    for event, groups in events.items() if isinstance(events, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for place, handler in enumerate(handlers if isinstance(handlers, list) else ()):
                if is_guard_hook(handler, agent):
                    yield event, number, place


def _without(document: Document, event: str, number: int, handler: int) -> Document:
    """The settings without one handler, and without its group if it was the only one."""
    group = (*HOOKS, event, number)
    if len(document.get((*group, "hooks"))) == 1:
        return document.delete(group)
    return document.delete((*group, "hooks", handler))


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
