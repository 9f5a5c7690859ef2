"""A client that joins, leaves and returns gets every record once and in order, whatever happens in the meantime."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from drawbridge.agents import base
from drawbridge.core.errors import HistoryUnreadable
from drawbridge.server.app import joining
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import FRAME_BYTES
from drawbridge.server.store.log import History, Page
from tests.server.core_rig import Client, Server, records, serving, settled
from tests.server.schema import check_sent
from tests.waiting import PATIENCE, until


async def test_no_record_is_missing_after_the_snapshot(tmp_path: Path) -> None:
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.says({"type": "assistant", "n": 1})
        joined = (await server.does(page, "project_join", project))["data"]["data"]
        process.says({"type": "assistant", "n": 2})
        process.ends()
        await settled()
        assert joined["state"] == "EXECUTING"
        assert joined["run"]["position"] == 0
        assert page.seqs == list(range(joined["last_seq"] + 1, page.seqs[-1] + 1))


async def test_a_client_that_reconnects_gets_missed_records_once(tmp_path: Path) -> None:
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(page, "project_join", project)
        process.says({"type": "assistant", "n": 1})
        server.core.remove_client(page)
        process.says({"type": "assistant", "n": 2})
        back = Client()
        await server.does(back, "project_join", project, after_seq=page.seqs[-1])
        process.says({"type": "assistant", "n": 3})
        process.ends()
        await until_quiet(back, records(server, project)[-1]["seq"])
        assert page.seqs + back.seqs == list(range(page.seqs[0], records(server, project)[-1]["seq"] + 1))


async def test_a_replay_has_the_same_frames_as_the_live_stream(tmp_path: Path) -> None:
    phone, live = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(live, "project_join", project)
        process = await server.running(phone, project)
        process.says({"type": "assistant", "session_id": process.launch.session_id})
        process.asks("q1")
        process.ends()
        await settled()
        replay = Client()
        await server.does(replay, "project_join", project, after_seq=0)
        await until_quiet(replay, live.seqs[-1])
        assert [one for one in live.frames if one.seq is not None] == replay.frames


class SlowReader(Client):
    """Reads the first page of the history, and the rest once the test sets ``reads_on``."""

    def __init__(self) -> None:
        super().__init__("slow")
        self.reads_on = asyncio.Event()

    async def room(self) -> None:
        await asyncio.wait_for(self.reads_on.wait(), PATIENCE)


async def test_a_client_that_catches_up_gets_nothing_out_of_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client gets no later record through a topic that it follows or as the reply to its own request, since its
    cursor would then skip the earlier ones.
    """
    monkeypatch.setattr(joining, "PAGE", 3)
    phone, slow = Client(), SlowReader()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        for _ in range(10):
            process.says({"type": "assistant"})
        server.core.follow(("approvals", "projects"), slow)
        await server.does(slow, "project_join", project, after_seq=0)
        await until(lambda: slow.seqs == [1, 2, 3])

        process.asks("q1")
        process.asks("q2")
        [first, second] = [one["data"]["approval_id"] for one in phone.of_type("permission_request")]
        await server.does(slow, "permission_response", project, approval_id=first, decision="allow")
        await server.does(phone, "permission_response", project, approval_id=second, decision="allow")
        await server.does(slow, "execute", project, prompt="and then", request_id="r1")
        await server.does(slow, "agent_kill", project)
        await settled(lambda: server.agent.latest.prompts == ["and then"])
        server.agent.latest.ends()
        await until(lambda: server.core.projects.get(project).state == "IDLE")
        assert slow.seqs == [1, 2, 3]

        slow.reads_on.set()
        await until_quiet(slow, records(server, project)[-1]["seq"])
        assert slow.seqs == phone.seqs == list(range(1, phone.seqs[-1] + 1))
        own = [one["data"]["messages"][0] for one in slow.of_type("agent_message") if "client" in str(one["data"])]
        assert [one["message"]["prompt"] for one in own] == ["go", "and then"]
        now = phone.updates("project_state")[-1]
        await until(lambda: slow.updates("project_state") == [now], "the current state, once")


async def test_a_client_that_catches_up_is_notified_of_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "PAGE", 3)
    phone, slow = Client(), SlowReader()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        (await server.running(phone, project)).ends()
        await settled()
        await server.does(slow, "project_join", project, after_seq=0)
        await until(lambda: bool(slow.seqs))
        await server.does(phone, "project_delete", project)
        slow.reads_on.set()
        await settled(turns=20)
        assert len(slow.updates("project_deleted")) == 1
        assert slow.of_type("error") == []


async def test_catching_up_does_not_join_a_deleted_project(tmp_path: Path) -> None:
    """The project is deleted after the client has received all records, just before it would join."""
    phone, slow = Client(), SlowReader()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        (await server.running(phone, project)).ends()
        await settled()
        await server.does(slow, "project_join", project, after_seq=0)
        await until(lambda: bool(slow.seqs))
        await server.does(phone, "project_delete", project)
        received = len(slow.received)
        slow.reads_on.set()
        await settled(turns=20)
        assert slow.received[received:] == []
        assert server.core.audience.all_joined(project) == {}


async def test_a_record_written_during_an_empty_page_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page after the cursor is empty, as if its records were damaged. Meanwhile, another record is written."""
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        last = records(server, project)[-1]["seq"]
        reading, written = threading.Event(), threading.Event()
        read = History.read

        def empty_once(history: History, **where: Any) -> Page:
            if reading.is_set():
                return read(history, **where)
            reading.set()
            assert written.wait(PATIENCE)
            return Page((), has_more=False)

        monkeypatch.setattr(History, "read", empty_once)
        await server.does(page, "project_join", project, after_seq=last - 1)
        await until(reading.is_set)
        process.says({"type": "assistant"})
        written.set()
        await until(lambda: last + 1 in page.seqs)
        process.ends()


async def test_a_snapshot_with_long_approvals_fits_in_one_message(tmp_path: Path) -> None:
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        for number in range(4):
            process.asks(f"q{number}", given={"file_path": "/p/a.py", "content": "x" * 400_000})
        joined = await server.does(page, "project_join", project)
        assert len(json.dumps(joined)) <= FRAME_BYTES
        check_sent(joined)
        asked = phone.of_type("permission_request")
        for shown, whole in zip(joined["data"]["data"]["open_approvals"], asked, strict=True):
            assert shown["approval_id"] == whole["data"]["approval_id"]
            assert "truncated" not in whole["data"]
            assert shown["input"]["content"].endswith("…")
            line = await server.built.histories.record(project, whole["seq"])
            assert shown["truncated"]["blob_id"] == f"{project}:{whole['seq']}"
            assert json.loads(line)["message"]["message"]["input"] == whole["data"]["input"]
        process.ends()


async def test_messages_with_large_agent_output_fit_the_limit(tmp_path: Path) -> None:
    phone, back = Client(), Client()
    huge = "x" * 900_000
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.says({"type": "assistant", "session_id": huge})
        process.says({"type": "stream_event", "text": 2 * huge}, durable=False)
        process.says({huge: huge})
        for question in ("q1", "q2"):
            process.asks(question, tool=huge, given={"content": huge})
        listed = await server.does(Client(), "project_list")
        joined = await server.does(back, "project_join", project, after_seq=0)
        process.ends(ok=False, error=3 * huge)
        await until_quiet(back, records(server, project)[-1]["seq"])
        page = await server.does(phone, "get_messages", project, limit=1_000)
        assert all(len(frame.data) <= FRAME_BYTES for frame in [*phone.frames, *back.frames])
        assert max(len(json.dumps(sent)) for sent in (listed, joined, page)) <= FRAME_BYTES


async def test_a_client_receives_nothing_after_it_has_left(tmp_path: Path) -> None:
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(page, "project_join", project)
        await server.does(page, "project_leave", project)
        received = len(page.received)
        process.says({"type": "assistant"})
        process.ends()
        await settled()
        assert len(page.received) == received


@pytest.mark.parametrize(
    "cursor", [{"since": "2020-01-01T00:00:00Z"}, {"after_seq": 0, "limit": 3}, {"before_seq": 5, "limit": 3}]
)
async def test_history_is_read_with_every_kind_of_cursor(cursor: dict[str, object], tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        for number in range(5):
            process.says({"type": "assistant", "n": number})
        process.ends()
        await settled()
        answer = await server.does(phone, "get_messages", project, **cursor)
        everything = records(server, project)
        if "since" in cursor:
            assert answer["data"] == everything
        elif "after_seq" in cursor:
            assert answer["data"] == {"messages": everything[:3], "next": 3, "has_more": True}
        else:
            assert [one["seq"] for one in answer["data"]["messages"]] == [2, 3, 4]
            assert (answer["data"]["next"], answer["data"]["has_more"]) == (2, True)


async def test_a_large_history_is_sent_in_pages(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        for number in range(8):
            process.says({"type": "assistant", "n": number, "text": "x" * 200_000})
        process.ends()
        await settled()
        found = []
        answer = (await server.does(phone, "get_messages", project, since="2020-01-01T00:00:00Z"))["data"]
        while answer["has_more"]:
            assert len(json.dumps(answer)) <= 1_000_000
            found += answer["messages"]
            answer = (await server.does(phone, "get_messages", project, after_seq=answer["next"]))["data"]
        assert found + answer["messages"] == records(server, project)


async def until_quiet(client: Client, seq: int) -> None:
    await until(lambda: client.seqs and client.seqs[-1] >= seq, f"record {seq}")


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (HistoryUnreadable("The disk fails."), "FILE_OPERATION"),
        (OSError("no such device"), "FILE_OPERATION"),
        (RuntimeError("a defect"), "INTERNAL_ERROR"),
    ],
)
async def test_an_unreadable_history_is_reported_and_not_skipped(
    failure: Exception, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise failure

    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        with monkeypatch.context() as broken:
            broken.setattr(History, "read", unreadable)
            await server.does(page, "project_join", project, after_seq=0)
            await until(lambda: bool(page.received))
        process.says({"type": "assistant"})
        assert [message["data"]["code"] for message in page.received] == [code]
        await server.does(page, "project_join", project, after_seq=0)
        process.ends()
        await until_quiet(page, records(server, project)[-1]["seq"])
        assert page.seqs == list(range(1, page.seqs[-1] + 1))


async def test_a_cursor_of_another_history_gets_the_snapshot(tmp_path: Path) -> None:
    """For example, the data was restored from an older copy. The client sees that ``last_seq`` is below its cursor."""
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        joined = (await server.does(page, "project_join", project, after_seq=1_000))["data"]["data"]
        process.ends()
        await settled()
        assert joined["last_seq"] < 1_000
        assert page.seqs == list(range(joined["last_seq"] + 1, records(server, project)[-1]["seq"] + 1))


WANDERING = "line|line|partial|join|join|leave|drop|turn|ask|page|prompt|answer|kill|new session|turn ends"
STEPS = st.lists(st.sampled_from(WANDERING.split("|")), max_size=40)


@settings(max_examples=40)
@example(steps=["join", "prompt"])
@example(steps=["join", "page", "new session", "turn ends", "new session", "prompt", "drop", "join", "kill"])
@given(steps=STEPS)
def test_a_client_gets_each_record_once_whatever_it_does(
    steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(_wander(steps, tmp_path_factory.mktemp("wander")))


async def _wander(steps: list[str], folder: Path) -> None:
    """Lets a client join, leave and send commands while an agent works. Checks that the client gets every record once
    and in order.
    """
    owner = Client("owner")
    async with serving(folder) as server:
        project = await server.project(owner)
        await server.running(owner, project)
        cursor = 0
        got: list[int] = []
        client: Client | None = None
        for step in steps:
            process = server.agent.latest
            match step:
                case "line" | "partial" | "ask" | "turn ends" if not process.turn_open:
                    await settled(turns=3)
                case "line":
                    process.says({"type": "assistant"})
                case "turn ends":
                    process.ends()
                case "prompt" | "answer" | "kill" | "new session" if client is not None:
                    await _acts(step, server, client, project)
                case "partial":
                    process.says({"type": "stream_event"}, durable=False)
                case "ask":
                    process.asks(f"q{len(got)}")
                case "join":
                    client = client or Client("wanderer")
                    cursor = client.seqs[-1] if client.seqs else cursor
                    got += client.seqs
                    client.received.clear()
                    await server.does(client, "project_join", project, after_seq=cursor)
                case "leave" | "drop" if client is not None:
                    server.core.remove_client(client)
                    cursor = client.seqs[-1] if client.seqs else cursor
                    got += client.seqs
                    client = None
                case "page":
                    await asyncio.sleep(0.001)
                case _:
                    await settled(turns=3)
        if client is not None:
            server.core.remove_client(client)
            cursor = client.seqs[-1] if client.seqs else cursor
            got += client.seqs
        last = Client("last")
        await server.does(last, "project_join", project, after_seq=cursor)
        await _comes_to_rest(server, project)
        end = records(server, project)[-1]["seq"]
        if cursor < end:
            await until_quiet(last, end)
        assert got + last.seqs == list(range(1, end + 1))


async def _acts(what: str, server: Server, client: Client, project: str) -> None:
    types = {"prompt": "execute", "answer": "permission_response", "kill": "agent_kill"}
    waiting = server.core.projects.get(project).approvals.waiting()
    data = {
        "prompt": {"prompt": "mine"},
        "answer": {"approval_id": waiting[0].approval_id if waiting else "none", "decision": "allow"},
    }
    with contextlib.suppress(ClientError):  # a step may be refused, for example if nothing runs
        await server.does(client, types.get(what, "agent_new_session"), project, **data.get(what, {}))


async def _comes_to_rest(server: Server, project: str) -> None:
    def has_ended() -> bool:
        if server.agent.latest.turn_open:
            server.agent.latest.ends()
        return not server.core.projects.get(project).controller.busy

    await until(has_ended, "the end of all runs")
    await settled()


async def test_a_client_that_catches_up_gets_the_latest_state(tmp_path: Path) -> None:
    """The queue changes, and so does what the agent reports about itself. Neither is in the history."""
    phone, late = Client(), Client("late")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        ids = [(await server.does(phone, "execute", project, prompt=prompt))["data"]["run_id"] for prompt in ("A", "B")]
        joined = await server.does(late, "project_join", project, after_seq=0)
        assert [one["prompt"] for one in joined["data"]["data"]["queue"]] == ["A", "B"]
        assert late.updates("queue_changed") == []
        await server.does(phone, "queue_move", project, run_id=ids[1], before=ids[0])
        process.emit(base.StateReported(base.AgentState(model="opus")))
        process.emit(base.OffersReported(base.AgentOffers(steer=True)))
        await until(lambda: late.updates("agent_offers"), "what the agent offers")
        assert [[one["prompt"] for one in data["queue"]] for data in late.updates("queue_changed")] == [["B", "A"]]
        assert (late.updates("agent_state"), late.updates("agent_offers")) == ([{"model": "opus"}], [{"steer": True}])
        again = Client("again")
        await server.does(again, "project_join", project, after_seq=0)
        last_seq = server.core.projects.get(project).history.last_seq
        await until(lambda: last_seq in again.seqs, "the history")
        await settled()
        assert [*again.updates("queue_changed"), *again.updates("agent_state")] == [], "nothing has changed since"
        process.ends()
        await settled()
