"""Writes docs/protocols/client.schema.json from the command table and the messages. A test checks that it is up to
date."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.app.dispatch import AnyRow
from drawbridge.server.protocol import commands, messages, replies

FILE = Path(__file__).resolve().parent.parent / "docs" / "protocols" / "client.schema.json"

REFERENCE = "#/$defs/{name}"
TEXT = {"type": "string"}
IDENTIFIER = {"type": "string", "minLength": 1, "maxLength": 200}


def sent(rows: Iterable[AnyRow] = COMMANDS) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the server sends: ``type`` → ``data``, and ``update_type`` → ``data.data`` of an ``update``."""
    types: dict[str, Any] = dict(messages.TYPES)
    updates: dict[str, Any] = dict(messages.UPDATES)
    for row in rows:
        known, name = (types, row.reply.name) if row.reply.update_type is None else (updates, row.reply.update_type)
        assert known.setdefault(name, row.reply.data) == row.reply.data, f"{row.name}: {name} is another message"
    return dict(sorted(types.items())), dict(sorted(updates.items()))


def schema(rows: Iterable[AnyRow] = COMMANDS) -> dict[str, Any]:
    """The JSON Schema. Its ``$defs/client_message`` and ``$defs/server_message`` are the two directions."""
    rows = list(rows)
    requests = {row.name: row.request for row in rows}
    types_sent, updates_sent = sent(rows)
    asked, asks_of = _components(requests)
    said, says_of = _components(types_sent, replies.Record)
    updated, updates_of = _components(updates_sent)
    asks = {f"client.{name}": _ask(name, requests[name], asked, ref) for name, ref in asks_of.items()}
    says = {f"server.{name}": _say({"const": name}, ref) for name, ref in says_of.items()}
    updates = {f"server.update.{name}": _update(name, ref) for name, ref in updates_of.items()}
    names = {request.__name__ for request in requests.values()}
    shared = {name: kind for name, kind in asked.items() if name not in names}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Messages between clients and the Drawbridge agent server",
        "anyOf": [{"$ref": "#/$defs/client_message"}, {"$ref": "#/$defs/server_message"}],
        "$defs": {
            "client_message": {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in asks]},
            "server_message": {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in (*says, *updates)]},
            **asks,
            **says,
            **updates,
            **shared,
            **said,
            **updated,
        },
    }


def _components(kinds: Mapping[str, Any], *more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The definitions that ``kinds`` and ``more`` need, and for each of the ``kinds`` a schema that refers to them."""
    refs, components = msgspec.json.schema_components([*kinds.values(), *more], ref_template=REFERENCE)
    return _tidy(components), dict(zip(kinds, _tidy(refs), strict=False))


def _ask(name: str, kind: type[commands.Command], defs: Mapping[str, Any], ref: Any) -> dict[str, Any]:
    data = dict(defs[ref["$ref"].rpartition("/")[2]])
    data["properties"] = {key: value for key, value in data["properties"].items() if key != "request_id"}
    data.pop("title", None)
    description = data.pop("description", None)
    needed = ["type", *(["data"] if data.get("required") else [])]
    allowed = data if data.get("required") else {"anyOf": [data, {"type": "null"}]}
    message: dict[str, Any] = {
        "type": "object",
        "required": needed,
        "properties": {
            "type": {"const": name},
            "project_id": TEXT | {"minLength": 1},
            "data": allowed,
            "request_id": IDENTIFIER,
        },
    }
    if issubclass(kind, commands.ProjectCommand):
        data["properties"]["project_id"] = TEXT | {"minLength": 1}
        inside = {"required": ["data"], "properties": {"data": {"type": "object", "required": ["project_id"]}}}
        message["anyOf"] = [{"required": ["project_id"]}, inside]
    return ({"description": description} if description else {}) | message


def _say(kind: dict[str, Any], data: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", "data"],
        "properties": {
            "type": kind,
            "project_id": TEXT,
            "seq": {"type": "integer", "minimum": 1},
            "data": data,
            "request_id": IDENTIFIER,
        },
    }


def _update(name: str, data: Any) -> dict[str, Any]:
    inner = {"update_type": {"const": name}, "data": data}
    return _say({"const": "update"}, {"type": "object", "required": ["update_type", "data"], "properties": inner})


def _tidy(value: Any) -> Any:
    """``value`` without the indentation of docstrings, and without defaults that are null."""
    if isinstance(value, dict):
        return {
            key: " ".join(item.split()) if key == "description" and isinstance(item, str) else _tidy(item)
            for key, item in value.items()
            if not (key == "default" and item is None)
        }
    return [_tidy(item) for item in value] if isinstance(value, list | tuple) else value


def text() -> str:
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
