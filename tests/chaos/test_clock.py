"""The clock is set back and forward while work continues. This affects neither the order of records nor cursors or
budgets.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.ceilings import Budgets
from tests.server.core_rig import Client, Server, serving

from .rig import on_disk

STEPS = [timedelta(0), timedelta(hours=-3), timedelta(days=-400), timedelta(days=2), timedelta(minutes=-1)]


class Clock(datetime):
    """Replaces ``datetime`` in the server's modules. Its time differs from the real one by ``off``."""

    off = timedelta(0)

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + cls.off


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> type[Clock]:
    Clock.off = timedelta(0)
    for name, module in list(sys.modules.items()):
        if name.startswith("drawbridge.server.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Clock)
    return Clock


async def one_run(server: Server, client: Client, id: str, cost: float = 0.25) -> None:
    process = await server.running(client, id)
    process.says({"type": "assistant", "message": {"content": []}})
    process.ends(cost=cost)


async def all_seqs(server: Server, client: Client, id: str, **wanted: Any) -> list[int]:
    answer = await server.does(client, "get_messages", id, **wanted)
    shown = answer["data"] if isinstance(answer["data"], list) else answer["data"]["messages"]
    return [one["seq"] for one in shown]


async def test_records_stay_in_order_and_cursors_stay_valid(tmp_path: Path, clock: type[Clock]) -> None:
    async with serving(tmp_path) as server:
        phone = Client()
        id = await server.project(phone)
        moments = []
        for step in STEPS:
            clock.off = step
            moments.append((clock.now(UTC), len(on_disk(tmp_path / "data", id))))
            await one_run(server, phone, id)
        seqs = [one["seq"] for one in on_disk(tmp_path / "data", id)]
        assert seqs == phone.seqs == list(range(1, len(seqs) + 1))
        assert await all_seqs(server, phone, id, after_seq=0) == seqs
        ends = [*(count for _, count in moments[1:]), len(seqs)]
        for (moment, first), end in zip(moments, ends, strict=True):
            assert set(await all_seqs(server, phone, id, since=moment.isoformat())) >= set(seqs[first:end])
    clock.off = timedelta(days=-800)
    async with serving(tmp_path) as server:
        late = Client()
        assert await all_seqs(server, late, id, after_seq=0) == seqs
        await server.does(late, "project_join", id, after_seq=3)
        await one_run(server, late, id)
        assert [one["seq"] for one in on_disk(tmp_path / "data", id)][: len(seqs)] == seqs
        assert server.core.projects.get(id).history.last_seq == len(on_disk(tmp_path / "data", id))


async def test_setting_the_clock_back_does_not_renew_a_daily_budget(tmp_path: Path, clock: type[Clock]) -> None:
    async with serving(tmp_path) as server:
        server.core.grants.budgets = Budgets(day=1.0)
        phone = Client()
        id = await server.project(phone)
        await one_run(server, phone, id, cost=1.0)
        clock.off = timedelta(days=1)
        await one_run(server, phone, id, cost=1.0)
        for days in (0, 1):
            clock.off = timedelta(days=days)
            with pytest.raises(ClientError) as refused:
                await server.does(phone, "execute", id, prompt="more")
            assert refused.value.code == "BUDGET_EXCEEDED"
