"""Interprets Codex's tool calls, as its hooks report them. An answer can't change their input. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from drawbridge.agents.base import Form
from drawbridge.agents.codex.transcript import HOOKED_SHELL, PATCH
from drawbridge.agents.tool_calls import (
    Act,
    Kind,
    ToolCall,
    Tools,
    command_directory,
    command_field,
    shown_name,
    unknown,
)

KINDS: Final[Mapping[str, Kind]] = {PATCH: "edit", HOOKED_SHELL: "command"}

ACTS: Final[Mapping[str, Act]] = {PATCH: "edit", HOOKED_SHELL: "command"}

CHANGED: Final[Mapping[str, Kind]] = {"add": "create", "update": "edit", "move_to": "edit", "delete": "delete"}
"""Maps a field of a patch's input (see ``transcript.patch_input``) to what a request is about if only this field
contains paths."""


class CodexTools(Tools):
    acts = ACTS

    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        kind, paths = _change(given) if name == PATCH else (KINDS.get(name, "tool"), _file(given))
        return ToolCall(
            kind=kind,
            name=shown_name(name),
            paths=paths,
            command=command_field(given) if kind in ("command", "tool") else "",
            directory=command_directory(given),
            is_only_command=name == HOOKED_SHELL and not given.keys() - {"command", "description"},
            grants=unknown(suggestions),
        )


TOOLS: Final = CodexTools()


def _change(given: Mapping[str, Any]) -> tuple[Kind, tuple[str, ...]]:
    fields = {name: paths for name in CHANGED if isinstance(paths := given.get(name), str) and paths}
    kinds = {CHANGED[name] for name in fields}
    paths = [path for named in fields.values() for path in named.split("\n")]
    return kinds.pop() if len(kinds) == 1 else "edit", tuple(paths)


def _file(given: Mapping[str, Any]) -> tuple[str, ...]:
    path = given.get("file_path")
    return (path,) if isinstance(path, str) else ()
