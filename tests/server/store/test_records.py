"""The format of records: it stays as it is, and records of earlier versions are read."""

from __future__ import annotations

import msgspec
import pytest

from drawbridge.server.events import RunFinished
from drawbridge.server.store import records
from drawbridge.server.store.lines import compose
from tests.server.store.rig import NOON


def test_records_of_older_versions_can_be_read() -> None:
    finished = b'{"type":"system","subtype":"run_finished","message":{"run_id":"r","outcome":"completed","cost_usd":1}}'
    found = records.read(compose(1, NOON, "server", finished).line).event
    assert isinstance(found, RunFinished)
    assert (found.run_id, found.cost_usd) == ("r", 1.0)


@pytest.mark.parametrize("cost", ["-1", "1e300", '"1"'])
def test_a_record_with_an_impossible_cost_is_invalid(cost: str) -> None:
    fields = f'{{"run_id":"r","outcome":"completed","cost_usd":{cost}}}'
    record = f'{{"type":"system","subtype":"run_finished","message":{fields}}}'.encode()
    with pytest.raises(msgspec.ValidationError):
        records.read(compose(1, NOON, "server", record).line)
