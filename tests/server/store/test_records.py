"""Records keep their format, and those of earlier versions can be read.

``records_of_1.jsonl`` contains the records of ``tests.server.test_events.RECORDED``, in the same order, as the server
wrote them when events, records and messages were still the same structures. Its lines must never change. When a record
gets a field, add another event and its line.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from drawbridge.agents.base import AgentLine
from drawbridge.agents.results import MOST_USD
from drawbridge.core.errors import BadMessage
from drawbridge.server.events import (
    ApprovalRequested,
    ApprovalResolved,
    Recorded,
    RunFinished,
    RunStarted,
    SessionChanged,
    SessionReset,
)
from drawbridge.server.store import records
from drawbridge.server.store.lines import compose, parse
from tests.server.store.rig import NOON
from tests.server.test_events import NOON as RECORDED_AT
from tests.server.test_events import RECORDED

LINES = Path(__file__).with_name("records_of_1.jsonl").read_bytes().splitlines()
EVERY = [pytest.param(*one, id=type(one[1]).__name__) for one in zip(LINES, RECORDED, strict=True)]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)


def test_every_kind_of_record_has_an_example() -> None:
    kinds = {records.parts(line).direction for line in LINES}
    assert kinds == {"client", "claude", "server"}
    assert {type(event) for event in RECORDED} >= set(records.KINDS)


@pytest.mark.parametrize(("line", "event"), EVERY)
def test_a_record_keeps_its_format(line: bytes, event: Recorded) -> None:
    seq = records.parts(line).seq
    assert compose(seq, RECORDED_AT, *records.written(event)).line == line


@pytest.mark.parametrize(("line", "event"), EVERY)
def test_an_event_is_read_back_from_its_record(line: bytes, event: Recorded) -> None:
    """Agents' lines are not read back."""
    read = records.read(line)
    assert read.moment == RECORDED_AT
    assert read.event == (None if isinstance(event, AgentLine) else event)


@pytest.mark.parametrize(
    ("subtype", "message", "event"),
    [
        ("run_started", '{"agent":"demo"}', RunStarted("", "", "demo")),
        (
            "run_finished",
            '{"run_id":"r","outcome":"completed"}',
            RunFinished(run_id="r", outcome="completed", duration_ms=0),
        ),
        ("session_changed", "{}", SessionChanged("")),
        ("session_reset", "{}", SessionReset("", "", "")),
        ("run_started", '{"run_id":"r","session_id":"s","agent":"demo","new":1}', RunStarted("r", "s", "demo")),
        ("project_archived", "{}", None),
    ],
)
def test_records_of_other_versions_are_read(subtype: str, message: str, event: Recorded | None) -> None:
    """Earlier versions did not write some fields, and later ones may add fields and kinds."""
    record = f'{{"type":"system","subtype":"{subtype}","message":{message}}}'.encode()
    assert records.read(compose(1, NOON, "server", record).line).event == event


def test_records_of_older_versions_can_be_read() -> None:
    finished = b'{"type":"system","subtype":"run_finished","message":{"run_id":"r","outcome":"completed","cost_usd":1}}'
    found = records.read(compose(1, NOON, "server", finished).line).event
    assert isinstance(found, RunFinished)
    assert (found.run_id, found.cost_usd) == ("r", 1.0)


def test_the_largest_cost_that_an_agent_can_report_is_read_back() -> None:
    finished = RunFinished(run_id="r", outcome="completed", duration_ms=0, cost_usd=MOST_USD)
    assert records.read(compose(1, NOON, *records.written(finished)).line).event == finished


@pytest.mark.parametrize("cost", ["-1", "1e300", '"1"'])
def test_a_record_with_an_impossible_cost_is_invalid(cost: str) -> None:
    fields = f'{{"run_id":"r","outcome":"completed","cost_usd":{cost}}}'
    record = f'{{"type":"system","subtype":"run_finished","message":{fields}}}'.encode()
    with pytest.raises(msgspec.ValidationError):
        records.read(compose(1, NOON, "server", record).line)


@given(TEXTS, st.dictionaries(TEXTS, VALUES))
def test_a_decision_is_read_from_a_record_without_decoding(message: str, edited: dict[str, object]) -> None:
    event = ApprovalResolved("appr_1", "phone", "allow", message=message, updated_input=edited, edited=True)
    record = compose(1, NOON, *records.written(event), is_json=records.is_json(event))
    assert records.is_json(event)
    assert parse(record.line) == record
    assert records.read(record.line).event == event


@pytest.mark.parametrize("event", RECORDED, ids=lambda event: type(event).__name__)
def test_only_an_agents_json_is_decoded_before_it_is_stored(event: Recorded) -> None:
    """The other events are encoded from values, so the result is always valid JSON."""
    kind = records.KINDS.get(type(event))
    has_raw = kind is not None and "RawType(" in repr(msgspec.inspect.type_info(kind.written))
    assert records.is_json(event) == (not has_raw)


def test_a_request_with_invalid_json_from_an_agent_is_not_stored() -> None:
    event = ApprovalRequested("appr_1", "run_1", "Bash", Raw(b'{"command": '), Raw(b"[]"))
    with pytest.raises(BadMessage, match="not a single JSON value"):
        compose(1, NOON, *records.written(event), is_json=records.is_json(event))
