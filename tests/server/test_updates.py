"""Messages to clients have their own structures. Every event has a message, and no file contains a structure of the
protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from msgspec import Struct, inspect

from client_schema import sent
from drawbridge.agents.base import AgentLine, AgentOffers, OffersReported, Options, StateReported
from drawbridge.server import events
from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.bus import RECEIVERS
from drawbridge.server.events import (
    Announced,
    ApprovalRequested,
    ApprovalResolved,
    Event,
    ProjectCreated,
    PromptAccepted,
    StateChanged,
)
from drawbridge.server.protocol import commands, messages
from drawbridge.server.reviews.remembered import RememberedComment
from drawbridge.server.sessions import audience
from drawbridge.server.sessions.metadata import Metadata
from drawbridge.server.store import records
from drawbridge.server.terminal_sessions.facts import Facts
from drawbridge.server.terminal_sessions.shared_comments import LeftComments
from drawbridge.server.updates import UPDATES
from tests.server.test_events import ANNOUNCED, PATH, RECORDED, name

OTHER_FIELDS = {AgentLine, PromptAccepted, ApprovalRequested, ApprovalResolved, StateChanged, ProjectCreated}
OTHER_FIELDS |= {StateReported, OffersReported}
"""The events whose messages do not simply have their fields."""

FOR_CLIENTS = [event for event in [*RECORDED, *ANNOUNCED] if "clients" in RECEIVERS[type(event)]]


def test_every_event_for_clients_has_a_message() -> None:
    for_clients = {kind for kind, receivers in RECEIVERS.items() if "clients" in receivers}
    assert for_clients == {*UPDATES, *OTHER_FIELDS}


@pytest.mark.parametrize("event", FOR_CLIENTS, ids=name)
def test_every_message_is_described_by_the_protocol(event: Event) -> None:
    types, updates = sent()
    message = json.loads(audience.frame(Announced("p1", PATH, event)).data)
    kind, data = types.get(message["type"]), message["data"]
    if message["type"] == "update":
        kind, data = updates[data["update_type"]], data["data"]
    assert kind is not None
    assert set(data) <= set(kind.__struct_fields__)


@pytest.mark.parametrize("event", UPDATES, ids=lambda event: event.__name__)
def test_an_update_has_the_fields_of_its_event(event: type[Struct]) -> None:
    """A field that only one of them has would be lost without an error."""
    update_type, kind = UPDATES[event]
    assert set(kind.__struct_fields__) == set(event.__struct_fields__)
    assert sent()[1][update_type] is kind


def test_a_project_has_the_fields_of_its_summary() -> None:
    fields = {"desk" if field == "terminal" else field for field in events.SessionSummary.__struct_fields__}
    assert set(messages.ProjectState.__struct_fields__) == fields


DERIVED = {"call"}
"""The fields of events that follow from the others: they are neither stored nor sent."""


def test_a_request_has_the_fields_of_its_event() -> None:
    own = {"created_at", "seq", "truncated"}
    fields = set(ApprovalRequested.__struct_fields__) - DERIVED - {"known_as"}
    assert set(messages.PermissionRequest.__struct_fields__) - own == fields


def structures(roots: Iterable[Any]) -> set[type]:
    """The structures in these types."""
    return {found for root in roots for found in _structures(inspect.type_info(root))}


def _structures(info: Any, known: frozenset[type] = frozenset()) -> Iterator[type]:
    if isinstance(info, inspect.StructType):
        if info.cls in known:
            return
        yield info.cls
        known |= {info.cls}
        for field in info.fields:
            yield from _structures(field.type, known)
    elif isinstance(info, inspect.Type):
        for part in vars_of(info):
            yield from _structures(part, known)


def vars_of(info: inspect.Type) -> Iterator[Any]:
    for field in info.__struct_fields__:
        value = getattr(info, field)
        yield from value if isinstance(value, tuple) else (value,)


def on_the_wire() -> set[type]:
    types, updates = sent()
    requests = [row.request for row in COMMANDS]
    replies = [root for root in (*types.values(), *updates.values()) if root is not None]
    return structures([*requests, *replies, messages.Prompt])


def in_records() -> list[type[Struct]]:
    """The structures of the format of records."""
    defined = [one for one in vars(records).values() if isinstance(one, type) and issubclass(one, Struct)]
    return [one for one in defined if one.__module__ == records.__name__]


def on_disk() -> set[type]:
    """The structures in histories, and in the other files that contain something that clients can see."""
    return structures([*in_records(), Metadata, Facts, RememberedComment, LeftComments, AgentOffers])


def test_no_structure_is_both_in_a_message_and_in_a_file() -> None:
    """Otherwise, a change of the protocol could change a file, or the other way around."""
    assert on_the_wire() & on_disk() == set()
    assert {messages.RunFinished, messages.ReviewComment, messages.AgentOffers, commands.Options} <= on_the_wire()
    assert {events.ReviewComment, events.Submission, events.ReviewNumbers, Options} <= on_disk()


def test_the_format_of_records_has_its_own_structures() -> None:
    assert {one.__module__ for one in structures(in_records())} == {records.__name__}


@pytest.mark.parametrize("kind", records.KINDS.values(), ids=lambda kind: kind.subtype)
def test_a_record_has_the_fields_of_its_event(kind: Any) -> None:
    fields = set(kind.event.__struct_fields__) - DERIVED
    assert set(kind.written.__struct_fields__) == fields == set(kind.read.__struct_fields__)
