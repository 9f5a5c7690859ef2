"""What a tool is, and the desk that its function works at. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.core.errors import BadArgument
from drawbridge.editors.port import Accepted, Decision, Editor, Selection
from drawbridge.protocols import jsonrpc

Content: TypeAlias = Sequence[str]
"""The text items of a tool's result."""


class Desk(Protocol):
    """One agent's place at the bridge: what a tool may use on its behalf."""

    @property
    def editor(self) -> Editor: ...

    @property
    def folders(self) -> Sequence[str]:
        """The workspace folders, as discovery announces them."""
        ...

    @property
    def latest_selection(self) -> Selection | None:
        """The last selection reported, also while the focus is elsewhere."""
        ...

    def resolve(self, path_or_uri: str) -> str:
        """The absolute path; a relative one starts at the first workspace folder."""
        ...

    def hides(self, path: str) -> bool:
        """Whether this file is kept from agents (the ignore list, or the switch for all of it)."""
        ...

    async def check_readable(self, path: str) -> None:
        """Raises ``UnusableFile`` when ``path`` is not a text file that can be opened."""
        ...

    async def review(self, path: str, new_text: str, title: str) -> Decision:
        """Propose a change and wait for the decision, however long it takes."""
        ...

    async def review_code(self, code: str) -> Accepted | None:
        """Ask whether ``code`` may be run; None: no."""
        ...

    async def run_code(self, code: str) -> str:
        """Run code in the first workspace folder; its output."""
        ...

    async def close_review(self, title: str) -> None:
        """Take this agent's own proposal of that title back; unknown ones are ignored."""
        ...

    async def close_reviews(self) -> int:
        """Take all of this agent's proposals back; their number."""
        ...


class Arguments(Struct, frozen=True, rename="camel"):
    """Base of the tools' arguments. Unknown ones are ignored: a newer agent may send more."""


class NoArguments(Arguments, frozen=True):
    pass


class Tool(Struct, frozen=True):
    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Any, Any], Awaitable[Content]]
    """Takes the desk of its agent and its arguments."""

    def entry(self) -> dict[str, Any]:
        """Its entry in ``tools/list``, in the shape of the official extension's schemas."""
        (_, components) = msgspec.json.schema_components([self.arguments])
        schema = components[self.arguments.__name__]
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": {name: _plain(property) for name, property in schema["properties"].items()},
                "required": schema["required"],
                "additionalProperties": False,
                "$schema": "http://json-schema.org/draft-07/schema#",
            },
        }

    def parse(self, arguments: dict[str, Any]) -> Arguments:
        """Raises ``BadArgument`` that names the one that is missing or mistyped."""
        try:
            return msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            problem = str(error)
            missing = re.search(r"required field `([^`]+)`", problem)
            if missing:
                raise BadArgument(missing[1], f"{self.name} needs it.") from None
            place = re.search(r" - at `\$\.([^`]+)`", problem)
            raise BadArgument(place[1] if place else "arguments", problem.partition(" - at ")[0] + ".") from None
        except UnicodeEncodeError:
            raise BadArgument("arguments", "Half a character is among their names, or where no text belongs.") from None


def _plain(property: dict[str, Any]) -> dict[str, Any]:
    """Null stands for "not given": it is taken, and not advertised."""
    alternatives = property.get("anyOf")
    return alternatives[0] if alternatives else property


def json_text(value: object) -> Content:
    """Structured data travels as JSON in one text item."""
    return [jsonrpc.encode(value).decode()]
