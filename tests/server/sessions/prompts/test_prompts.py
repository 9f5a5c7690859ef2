"""Every client that has joined a project sees its queue, and those with the ``run`` scope can change it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drawbridge.agents import base
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.limits import Limits
from tests.server.core_rig import Client, Process, Server, records, serving, settled


class Queued(NamedTuple):
    """The phone has sent "first", which runs, and "second" and "third", which are queued. The web UI has joined the
    project.
    """

    server: Server
    project: str
    phone: Client
    page: Client
    process: Process
    ids: list[str]

    async def does(self, client: Client, type: str, **data: Any) -> dict[str, Any]:
        return await self.server.does(client, type, self.project, **data)

    @property
    def shown(self) -> list[str]:
        """The prompts in the queue, which must be the same for both clients."""
        [*_, known], [*_, same] = (client.updates("queue_changed") for client in (self.phone, self.page))
        assert known == same
        return [run["prompt"] for run in known["queue"]]


@contextlib.asynccontextmanager
async def queued(folder: Path) -> AsyncIterator[Queued]:
    phone, page = Client("phone"), Client("page")
    async with serving(folder) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        process = await server.running(phone, project, "first")
        ids = [phone.updates("run_started")[0]["run_id"]]
        for prompt in ("second", "third"):
            answer = await server.does(phone, "execute", project, prompt=prompt, request_id=prompt)
            ids.append(answer["data"]["run_id"])
        yield Queued(server, project, phone, page, process, ids)


async def test_a_prompt_names_the_client_that_sent_it(tmp_path: Path) -> None:
    """Clients of one user have the same name, so the name alone does not identify the client."""
    async with queued(tmp_path) as one:
        sent = [
            line
            for frame in one.page.received
            if frame["type"] == "agent_message"
            for line in frame["data"]["messages"]
        ]
        by = [(line["by"], line["client_id"]) for line in sent if line["type"] == "user"]
        assert by == [("phone", one.phone.id)] * 3
        one.process.ends()


async def test_every_client_sees_the_queue(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        assert one.shown == ["second", "third"]
        [second, third] = one.page.updates("queue_changed")[-1]["queue"]
        assert (second["run_id"], second["position"], third["position"]) == (one.ids[1], 1, 2)
        assert (second["by"], second["client_id"], second["request_id"]) == ("phone", one.phone.id, "second")
        late = Client("late")
        joined = (await one.does(late, "project_join"))["data"]["data"]
        assert [run["prompt"] for run in joined["queue"]] == ["second", "third"]
        one.process.ends()
        await settled(lambda: one.process.prompts == ["first", "second"])
        assert one.shown == ["third"]


async def test_a_prompt_that_begins_immediately_is_never_queued(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.running(phone, project)
        assert phone.updates("queue_changed") == []


async def test_the_record_of_a_long_prompt_is_complete(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        await one.does(one.page, "execute", prompt="x" * 501)
        [*_, last] = one.phone.updates("queue_changed")[-1]["queue"]
        assert (len(last["prompt"]), last["cut"]) == (500, True)
        record = records(one.server, one.project)[last["seq"] - 1]
        assert record["message"]["message"]["prompt"] == "x" * 501


async def test_a_removed_prompt_ends_without_a_start(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        await one.does(one.page, "queue_remove", run_id=one.ids[1])
        assert one.shown == ["third"]
        for client in (one.phone, one.page):
            [ended] = client.updates("run_finished")
            assert (ended["run_id"], ended["outcome"]) == (one.ids[1], "interrupted")
            assert (ended["removed_by"], ended["client_id"]) == ("page", one.page.id)
        one.process.ends()
        await settled(lambda: one.process.prompts == ["first", "third"])
        assert one.ids[1] not in [run["run_id"] for run in one.phone.updates("run_started")]
        again = await one.does(one.phone, "execute", prompt="second", request_id="second")
        assert again["data"]["run_id"] == one.ids[1], "a repeated request does not begin it either"
        assert one.server.core.metrics.of(one.project).runs["interrupted"] == 0


async def test_a_removed_prompt_does_not_hide_a_failed_run(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        one.process.ends()
        await settled(lambda: len(one.process.prompts) == 2)
        one.process.ends(ok=False)
        await settled(lambda: len(one.process.prompts) == 3)
        fourth = (await one.does(one.phone, "execute", prompt="fourth"))["data"]["run_id"]
        one.process.ends(ok=False)
        await settled(lambda: len(one.process.prompts) == 4)
        await one.does(one.phone, "execute", prompt="fifth")
        [run] = one.phone.updates("queue_changed")[-1]["queue"]
        await one.does(one.phone, "queue_remove", run_id=run["run_id"])
        session = one.server.core.projects.get(one.project)
        assert session.recorded.last_outcome == "failed"
        assert list(session.recorded.unfinished) == [fourth]


async def test_the_agent_gets_the_edited_prompt(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        await one.does(one.page, "queue_edit", run_id=one.ids[1], prompt="second, and tests")
        assert one.shown == ["second, and tests", "third"]
        [edited] = one.phone.updates("prompt_edited")
        expected = {"run_id": one.ids[1], "prompt": "second, and tests", "by": "page", "client_id": one.page.id}
        assert edited == expected
        [kept] = [
            each for each in records(one.server, one.project) if each["message"].get("subtype") == "prompt_edited"
        ]
        assert kept["message"]["message"] == expected
        assert one.phone.updates("queue_changed")[-1]["queue"][0]["seq"] == kept["seq"]
        one.process.ends()
        await settled(lambda: len(one.process.prompts) == 2)
        assert one.process.prompts == ["first", "second, and tests"]


async def test_a_prompt_moves_before_another_or_to_the_end(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        await one.does(one.page, "queue_move", run_id=one.ids[2], before=one.ids[1])
        assert one.shown == ["third", "second"]
        await one.does(one.page, "queue_move", run_id=one.ids[2])
        assert one.shown == ["second", "third"]
        count = len(one.page.updates("queue_changed"))
        await one.does(one.page, "queue_move", run_id=one.ids[2], before=one.ids[2])
        assert len(one.page.updates("queue_changed")) == count, "nothing has changed"


async def test_a_prompt_that_is_sent_now_interrupts_the_run(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        await one.does(one.page, "queue_send_now", run_id=one.ids[2])
        assert one.process.interrupts == 1
        one.process.ends(ok=False, interrupted=True)
        await settled(lambda: len(one.process.prompts) == 2)
        assert one.process.prompts == ["first", "third"]
        assert one.shown == ["second"]


async def test_a_prompt_sent_now_replaces_one_that_waits_for_a_slot(tmp_path: Path) -> None:
    """The other prompt returns to the queue, and runs later."""
    phone = Client()
    async with serving(tmp_path, Limits(runs_at_once=1, checkpoints=False)) as server:
        busy = await server.project(phone, "busy")
        blocking = await server.running(phone, busy)
        project = await server.project(phone, "two")
        first = (await server.does(phone, "execute", project, prompt="first"))["data"]["run_id"]
        second = (await server.does(phone, "execute", project, prompt="second"))["data"]["run_id"]
        await server.does(phone, "queue_send_now", project, run_id=second)
        assert phone.updates("run_finished") == []
        blocking.ends()
        await settled(lambda: len(server.agent.processes) == 2 and bool(server.agent.latest.prompts))
        assert server.agent.latest.prompts == ["second"]
        assert [run["run_id"] for run in phone.updates("queue_changed")[-1]["queue"]] == [first]
        server.agent.latest.ends()
        await settled(lambda: len(server.agent.latest.prompts) == 2)
        assert server.agent.latest.prompts == ["second", "first"]


async def test_stop_all_empties_the_queue(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        await one.does(one.page, "agent_interrupt", all=True)
        assert one.shown == []
        assert one.process.interrupts == 1
        one.process.ends(ok=False, interrupted=True)
        await settled()
        assert one.process.prompts == ["first"]
        ended = {run["run_id"]: run.get("removed_by") for run in one.phone.updates("run_finished")}
        assert ended == {one.ids[0]: None, one.ids[1]: "page", one.ids[2]: "page"}


async def test_stopping_only_the_run_begins_the_next_prompt(tmp_path: Path) -> None:
    async with queued(tmp_path) as one:
        await one.does(one.page, "agent_interrupt")
        one.process.ends(ok=False, interrupted=True)
        await settled(lambda: len(one.process.prompts) == 2)
        assert one.process.prompts == ["first", "second"]


@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("queue_remove", {}),
        ("queue_edit", {"prompt": "other"}),
        ("queue_move", {}),
        ("queue_send_now", {}),
    ],
)
async def test_a_run_that_has_begun_is_not_in_the_queue(tmp_path: Path, type: str, data: dict[str, Any]) -> None:
    async with queued(tmp_path) as one:
        before = records(one.server, one.project)
        for run_id in (one.ids[0], "run_of_nobody"):
            with pytest.raises(ClientError) as refused:
                await one.does(one.page, type, run_id=run_id, **data)
            assert (refused.value.code, refused.value.field) == ("PROMPT_NOT_QUEUED", "data.run_id")
        with pytest.raises(ClientError):
            await one.does(one.page, "queue_move", run_id=one.ids[1], before=one.ids[0])
        assert records(one.server, one.project) == before
        assert one.shown == ["second", "third"]
        assert one.process.interrupts == 0


async def test_a_turn_without_a_prompt_requeues_the_next_one(tmp_path: Path) -> None:
    """The next prompt had already left the queue and was waiting for its slot."""
    phone = Client()
    async with serving(tmp_path, Limits(checkpoints=False, runs_at_once=1)) as server:
        project, other = await server.project(phone, "one"), await server.project(phone, "two")
        process = await server.running(phone, project, "first")
        process.ends()
        await settled()
        await server.running(phone, other, "takes the slot")
        await server.does(phone, "execute", project, prompt="waits for a slot")
        assert phone.updates("queue_changed") == []
        process.emit(base.TurnBegun())
        await settled()
        [waiting] = phone.updates("queue_changed")[-1]["queue"]
        assert (waiting["prompt"], waiting["position"]) == ("waits for a slot", 1)
