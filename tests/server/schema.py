"""Checks every message of the tests, in both directions, against docs/protocols/client.schema.json. A field of a
server's message that the schema doesn't name is an error.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from drawbridge.server.app.command_table import COMMANDS

REPLIES = {row.name: row.reply for row in COMMANDS}
FILE = Path(__file__).resolve().parent.parent.parent / "docs" / "protocols" / "client.schema.json"


def check_sent(message: Any) -> None:
    """Checks a message that the server sent."""
    kind = f"server.{message['type']}"
    if message["type"] == "update":
        kind += f".{message['data']['update_type']}"
    _check(kind, message)


def check_request(message: Any) -> None:
    """Checks a message that a client sends."""
    _check(f"client.{message['type']}", message)


def check_answer(type: str, answer: Any) -> None:
    """Checks that the answer to a request of this type is the reply in the command's row, or an error."""
    reply = REPLIES[type]
    kind = (answer["type"], answer["data"]["update_type"] if answer["type"] == "update" else None)
    assert answer["type"] == "error" or kind == (reply.name, reply.update_type), f"{type} is answered by {kind}"


def _check(kind: str, message: Any) -> None:
    error = next(iter(_validator(kind).iter_errors(message)), None)
    assert error is None, f"{kind}: {error.json_path}: {error.message}"


@cache
def _validator(kind: str) -> Draft202012Validator:
    definitions = _definitions()
    assert kind in definitions, f"the schema has no {kind}"
    return Draft202012Validator({"$ref": f"#/$defs/{kind}", "$defs": definitions})


@cache
def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = json.loads(FILE.read_text())["$defs"]
    return {
        name: definition if name.startswith("client") else _closed(definition)
        for name, definition in definitions.items()
    }


def _closed(schema: Any) -> Any:
    """A copy of the schema that allows no properties other than those it names."""
    if isinstance(schema, dict):
        closed = {key: _closed(value) for key, value in schema.items()}
        if "properties" in closed and "additionalProperties" not in closed:
            closed["additionalProperties"] = False
        return closed
    return [_closed(item) for item in schema] if isinstance(schema, list) else schema
