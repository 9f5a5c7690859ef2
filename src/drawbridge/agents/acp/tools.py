"""Interprets tool calls of the Agent Client Protocol. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Raw

from drawbridge.agents.base import LEAVING_PLAN, Form
from drawbridge.agents.tool_calls import (
    Kind,
    Option,
    ToolCall,
    Tools,
    command_directory,
    command_field,
    decoded,
    shown_name,
)

KINDS: Final[Mapping[str, Kind]] = {
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "search": "search",
    "execute": "command",
    "fetch": "fetch",
    "read": "read",
    LEAVING_PLAN: "plan",
}
"""Maps the protocol's kind of a tool call to what the request is about. ``questions.question`` reports a request to
leave plan mode under the name ``LEAVING_PLAN``."""

UNNAMED: Final = "other"
"""The kind of a tool call that has no other kind. It is not a tool's name."""

ARGUMENTS: Final = "rawInput"


class AcpTools(Tools):
    def call(self, name: str, given: Mapping[str, Any], suggestions: Raw, form: Form) -> ToolCall:
        """See ``Tools.call``. ``name``: the kind of the tool call; ``given``: the tool call; ``suggestions``: the
        options."""
        kind, raw = KINDS.get(name, "tool"), given.get(ARGUMENTS)
        arguments = raw if isinstance(raw, dict) else {}
        command = command_field(arguments) if kind in ("command", "tool") else ""
        if command:
            command = f"{ARGUMENTS}.{command}"
        elif kind == "command" and isinstance(given.get("title"), str):
            command = "title"
        return ToolCall(
            kind=kind,
            name="" if name == UNNAMED else shown_name(name),
            paths=tuple(_paths(given)),
            arguments=ARGUMENTS,
            command=command,
            directory=command_directory(arguments),
            grants=tuple(_option(number, one) for number, one in enumerate(decoded(suggestions))),
        )


TOOLS: Final = AcpTools()


def _paths(given: Mapping[str, Any]) -> Iterator[str]:
    """The files that the call changes or, if it does not name any, those that it is about."""
    for field in ("content", "locations"):
        parts = given.get(field)
        found = [part.get("path") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        if paths := [path for path in found if isinstance(path, str)]:
            yield from paths
            return


def _option(number: int, option: Mapping[str, Any]) -> Option:
    name = option.get("name")
    lasts = option.get("kind") == "allow_always"
    return Option(suggestion=number, name=name if isinstance(name, str) else "", lasts=lasts)
