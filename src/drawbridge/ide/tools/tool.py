"""The definition of a tool, and the context that its function receives. Does no I/O."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.core.errors import BadArgument
from drawbridge.editors.port import Accepted, Decision
from drawbridge.ide.workspace import Workspace
from drawbridge.protocols import jsonrpc

Content: TypeAlias = Sequence[str]
"""The text items of a tool's result."""


class ToolContext(Protocol):
    """The operations that a tool may use on behalf of one client. All I/O is done here or by the editor, so that the
    tools do none."""

    workspace: Workspace

    async def check_readable(self, path: str) -> None:
        """Raises ``UnusableFile`` if ``path`` is not a text file that can be opened."""
        ...

    async def review(self, path: str, new_text: str, title: str) -> Decision:
        """Proposes a change, waits for the decision without a time limit, and returns it."""
        ...

    async def review_code(self, code: str) -> Accepted | None:
        """Asks the user whether ``code`` may be run. Returns the code with the user's edits; None if it may not be
        run.
        """
        ...

    async def run_code(self, code: str) -> str:
        """Runs code in the first workspace folder. Returns its output."""
        ...

    async def close_review(self, title: str) -> None:
        """Withdraws this client's proposal with that title. An unknown title is ignored."""
        ...

    async def close_reviews(self) -> int:
        """Withdraws all proposals of this client. Returns their number."""
        ...


class Arguments(Struct, frozen=True, rename="camel"):
    """The base class of the tools' arguments. Unknown arguments are ignored, because a newer agent may send more."""


class NoArguments(Arguments, frozen=True):
    pass


class Tool(Struct, frozen=True):
    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Any, Any], Awaitable[Content]]
    """The tool's function. It receives the tool context of the connection and the tool's arguments."""

    def entry(self) -> dict[str, Any]:
        """The tool's entry in ``tools/list``, in the shape of the official extension's schemas."""
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
        """Returns the arguments as a struct. Raises ``BadArgument`` with the name of an argument that is missing or has
        the wrong type.
        """
        try:
            return msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            problem = str(error)
            missing = re.search(r"required field `([^`]+)`", problem)
            if missing:
                raise BadArgument(missing[1], f"{self.name} requires this argument.") from None
            place = re.search(r" - at `\$\.([^`]+)`", problem)
            raise BadArgument(place[1] if place else "arguments", problem.partition(" - at ")[0] + ".") from None
        except UnicodeEncodeError:
            raise BadArgument("arguments", "They contain an unpaired surrogate, which is not valid Unicode.") from None


def _plain(property: dict[str, Any]) -> dict[str, Any]:
    """Removes null from a schema. Null means "not given", and is accepted but not advertised."""
    alternatives = property.get("anyOf")
    return alternatives[0] if alternatives else property


def json_text(value: object) -> Content:
    """Structured data as JSON in one text item."""
    return [jsonrpc.encode(value).decode()]
