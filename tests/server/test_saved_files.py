"""The files beside the histories keep their format: ``files_of_1`` contains an example of each, in which every field is
set, as the server wrote it with format 1 of data directories (``upgrade.FORMAT``).

If a test fails, a change of a structure has changed a file. A new field with a default needs a new example beside the
old one. Any other change needs a new format of data directories, so that an earlier version refuses the directory, and
code that still reads this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import pytest

from drawbridge.agents.base import AgentOffers
from drawbridge.core.review_memory import SeenReviews
from drawbridge.server.auth import devices
from drawbridge.server.notifications import web_push
from drawbridge.server.reviews import gaps
from drawbridge.server.reviews.intents import Intent
from drawbridge.server.sessions.metadata import Metadata
from drawbridge.server.sessions.processes.processes import Entry
from drawbridge.server.terminal_sessions import shared_comments
from drawbridge.server.terminal_sessions.facts import Facts
from drawbridge.server.upgrade import FORMAT

KEPT = Path(__file__).with_name("files_of_1")

FILES: Final[dict[str, Any]] = {
    "comments.json": shared_comments._File,
    **{f"decision_{kind.__name__}.json": kind for kind in get_args(Intent)},
    "desk.json": Facts,
    "devices.json": devices.File,
    "gaps.json": gaps._Known,
    "metadata.json": Metadata,
    "offers.json": dict[str, AgentOffers],
    "push.json": web_push._File,
    "reviews.json": dict[str, SeenReviews],
    "running.json": list[Entry],
}


def fields(type: msgspec.inspect.Type, found: set[str]) -> set[str]:
    """The names of all fields below ``type`` as they are in a file, with the names of their structures."""
    if isinstance(type, msgspec.inspect.StructType):
        new = {f"{type.cls.__name__}.{field.encode_name}" for field in type.fields} - found
        found |= new
        for field in type.fields if new else ():
            fields(field.type, found)
    for name in ("item_type", "value_type"):
        if hasattr(type, name):
            fields(getattr(type, name), found)
    for one in (*getattr(type, "types", ()), *getattr(type, "item_types", ())):
        fields(one, found)
    return found


def names(value: Any) -> set[str]:
    """The names of all fields in a JSON value."""
    if isinstance(value, dict):
        return {*value, *(name for one in value.values() for name in names(one))}
    return {name for one in value for name in names(one)} if isinstance(value, list) else set()


@pytest.mark.parametrize("name", FILES)
def test_a_saved_file_is_read_and_written_as_before(name: str) -> None:
    kept = (KEPT / name).read_bytes()
    read = msgspec.json.decode(kept, type=FILES[name])
    assert msgspec.json.decode(msgspec.json.encode(read)) == msgspec.json.decode(kept)


@pytest.mark.parametrize("name", FILES)
def test_every_field_of_a_saved_file_is_in_its_example(name: str) -> None:
    known = names(msgspec.json.decode((KEPT / name).read_bytes()))
    lacking = {one for one in fields(msgspec.inspect.type_info(FILES[name]), set()) if one.split(".")[1] not in known}
    assert lacking == set()


def test_the_examples_have_the_current_format() -> None:
    """With a new format, ``files_of_2`` is added, and the examples here are still read."""
    assert KEPT.name == f"files_of_{FORMAT}"
    assert {file.name for file in KEPT.iterdir()} == set(FILES)
