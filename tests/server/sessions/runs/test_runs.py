"""A run as a project's clients see it, from its accepted prompt to its end, which is reported exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents import base
from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.app import blobs
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.ceilings import Ceilings
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.store.log import History
from tests.server.core_rig import Client, Process, Server, StoredSessions, records, serving, settled
from tests.waiting import PATIENCE, until


async def test_a_prompt_is_accepted_immediately_and_ends_once(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        answer = await server.does(phone, "execute", project, prompt="Create hello world", request_id="r1")
        assert (answer["type"], answer["request_id"], answer["data"]["position"]) == ("accepted", "r1", 0)
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        server.agent.latest.says({"type": "assistant", "session_id": "s"})
        server.agent.latest.ends(cost=0.25)
        await settled()
        (finished,) = phone.updates("run_finished")
        assert (finished["outcome"], finished["cost_usd"], finished["run_id"]) == (
            "completed", 0.25, answer["data"]["run_id"]
        )  # fmt: skip
        assert phone.updates("project_state")[0]["state"] == "EXECUTING"
        assert phone.updates("project_state")[-1]["state"] == "IDLE"
        assert page.updates("run_finished") == [finished]


async def test_a_prompt_is_sent_to_all_clients_but_its_sender(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        await server.does(phone, "execute", project, prompt='quotes " and\nlines')
        (received,) = [one for one in page.of_type("agent_message") if one["data"]["direction"] == "client"]
        assert received["data"]["messages"][0]["message"]["prompt"] == 'quotes " and\nlines'
        assert [one for one in phone.of_type("agent_message") if one["data"]["direction"] == "client"] == []


async def test_an_agents_line_is_passed_on_unchanged(tmp_path: Path) -> None:
    phone = Client()
    line = b'{ "type" : "assistant","session_id":"s","odd": 1.0e3, "text":"\\u00e9\xc3\xa9" }'
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.emit(base.AgentLine(line, "s"))
        assert line in phone.frames[-1].data
        assert phone.received[-1]["data"]["session_id"] == "s"
        process.ends()


async def test_partial_text_is_sent_but_not_kept(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        before = len(records(server, project))
        process.says({"type": "stream_event"}, durable=False)
        assert phone.frames[-1].ephemeral
        assert "seq" not in phone.received[-1]
        assert len(records(server, project)) == before
        process.ends()


async def test_two_prompts_run_in_turn_in_one_process(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project, "first")
        second = await server.does(phone, "execute", project, prompt="second")
        assert second["data"]["position"] == 1
        assert process.prompts == ["first"]
        process.ends()
        await settled(lambda: process.prompts == ["first", "second"])
        process.ends()
        await settled()
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["completed", "completed"]
        assert len(server.agent.processes) == 1


async def test_a_prompt_that_must_not_wait_is_refused_during_a_run(tmp_path: Path) -> None:
    """The refused prompt is not recorded."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        before = records(server, project)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="now", queue=False)
        assert refused.value.code == "PROCESS_ACTIVE"
        assert records(server, project) == before
        process.ends()


async def test_the_number_of_queued_prompts_is_limited(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(queue=2, checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        answers = [await server.does(phone, "execute", project, prompt=words) for words in ("second", "third")]
        assert [answer["data"]["position"] for answer in answers] == [1, 2]
        before = records(server, project)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="one more")
        assert (refused.value.code, refused.value.retryable) == ("RESOURCE_LIMIT", True)
        assert records(server, project) == before
        process.ends()
        await settled(lambda: process.prompts == ["go", "second"])
        assert (await server.does(phone, "execute", project, prompt="one more"))["data"]["position"] == 2
        for prompts in (3, 4):
            process.ends()
            await settled(lambda prompts=prompts: len(process.prompts) == prompts)  # type: ignore[misc]
        assert process.prompts == ["go", "second", "third", "one more"]
        process.ends()


async def test_a_line_over_the_limit_is_sent_as_a_preview_with_a_blob(tmp_path: Path) -> None:
    phone, back = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        line = {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x" * 1_200_000}]}}
        process.says(line)
        process.ends()
        await settled()
        [messages] = [one for one in phone.of_type("agent_message") if "truncated" in one["data"]]
        assert messages["data"]["messages"][0]["message"]["content"][0]["content"].endswith("x…")
        assert messages["data"]["truncated"] == {
            "blob_id": f"{project}:{messages['seq']}",
            "bytes": len(json.dumps(line)),
        }
        record = json.loads(await server.built.histories.record(project, messages["seq"]))
        assert (record["seq"], record["message"]) == (messages["seq"], line)
        await server.does(back, "project_join", project, after_seq=0)
        await until(lambda: messages in back.received, "the same preview in a replay")
        page = (await server.does(phone, "get_messages", project, after_seq=messages["seq"] - 1, limit=1))["data"]
        assert page["messages"][0]["truncated"]["blob_id"] == f"{project}:{messages['seq']}"


async def test_a_request_does_not_run_twice_even_after_a_restart(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await server.does(phone, "execute", project, prompt="once", request_id="r1")
        again = await server.does(phone, "execute", project, prompt="once", request_id="r1")
        assert again["data"]["run_id"] == first["data"]["run_id"]
        other = await server.does(Client(), "execute", project, prompt="another one", request_id="r1")
        assert other["data"]["run_id"] != first["data"]["run_id"], "two clients that number their requests"
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        server.agent.latest.ends()
        await settled(lambda: server.agent.latest.prompts == ["once", "another one"])
        server.agent.latest.ends()
        await settled()
    async with serving(tmp_path) as server:
        later = await server.does(phone, "execute", project, prompt="once", request_id="r1")
        await settled()
        assert later["data"]["run_id"] == first["data"]["run_id"]
        assert server.agent.processes == []


async def test_a_repeated_request_is_answered_despite_new_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.upload("b1", b"text")
        asked: dict[str, Any] = {"request_id": "r1", "options": {"model": "opus"}}
        asked["attachments"] = [{"blob_id": "b1", "media_type": "text/plain"}]
        first = await server.does(phone, "execute", project, prompt="once", **asked)
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        monkeypatch.setattr(blobs, "KEPT_SECONDS", 0.0)  # the upload expires
        hour = datetime.now().hour
        for ceilings in (Ceilings(models=("haiku",)), Ceilings(hours=((hour + 2) % 24, (hour + 3) % 24))):
            server.core.grants.ceilings = ceilings
            again = await server.does(phone, "execute", project, prompt="once", **asked)
            assert again["data"]["run_id"] == first["data"]["run_id"]
            with pytest.raises(ClientError):
                await server.does(phone, "execute", project, prompt="another one", **asked)
        server.agent.latest.ends()
        await settled()
        assert server.agent.latest.prompts == ["once"]


async def test_a_kill_ends_the_run_once_and_keeps_the_output(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.says({"type": "assistant", "session_id": "s"})
        answer = await server.does(phone, "agent_kill", project)
        assert answer["data"]["update_type"] == "execution_killed"
        await settled()
        assert process.ended
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["killed"]
        assert any(one["message"].get("type") == "assistant" for one in records(server, project))
        assert phone.updates("project_state")[-1]["state"] == "IDLE"
        assert phone.seqs == list(range(1, len(records(server, project)) + 1)), (
            "the reply to this client is in its place, too"
        )


async def test_a_kill_ends_a_run_that_ignores_an_interrupt(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "agent_interrupt", project)
        answers = await asyncio.gather(
            server.does(phone, "agent_kill", project), server.does(page, "agent_kill", project)
        )
        assert [answer["data"]["update_type"] for answer in answers] == ["execution_killed"] * 2
        assert process.ended
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["killed"]
        assert [one["message"].get("subtype") for one in records(server, project)].count("execution_killed") == 1


async def test_a_kill_without_a_run_is_an_error(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        before = records(server, project)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "agent_kill", project)
        assert refused.value.code == "PROCESS_NOT_FOUND"
        assert records(server, project) == before


async def test_an_interrupted_turn_leaves_the_process_for_the_next(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "agent_interrupt", project)
        assert process.interrupts == 1
        process.ends(ok=False, interrupted=True)
        await settled()
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["interrupted"]
        again = await server.running(phone, project, "go on")
        assert again is process
        process.ends()


async def test_a_failed_project_stays_in_error_until_the_next_run(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends(ok=False)
        await settled()
        (finished,) = phone.updates("run_finished")
        assert (finished["outcome"], finished["error"]) == ("failed", "it went wrong")
        assert phone.updates("project_state")[-1]["state"] == "ERROR"
        process = await server.running(phone, project)
        process.ends()
        await settled()
        assert phone.updates("project_state")[-1]["state"] == "IDLE"


async def test_after_a_restart_a_failed_project_is_idle(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        (await server.running(phone, project)).ends(ok=False)
        await settled()
        assert server.core.projects.get(project).state == "ERROR"
    async with serving(tmp_path) as server:
        assert server.core.projects.get(project).state == "IDLE"


async def test_a_new_session_clears_the_error_state(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        (await server.running(phone, project)).ends(ok=False)
        await settled()
        await server.does(phone, "agent_new_session", project)
        await settled()
        assert phone.updates("project_state")[-1]["state"] == "IDLE"


async def test_a_record_that_is_not_stored_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        process = await server.running(phone, project)
        before = records(server, project)
        with monkeypatch.context() as full:
            full.setattr(History, "append", no_room)
            process.says({"type": "assistant", "secret": "unseen"})
            await settled(lambda: process.ended and bool(page.updates("run_finished")))
            with pytest.raises(HistoryNotWritten):
                await server.does(phone, "execute", project, prompt="more")
        assert records(server, project) == before
        for client in (phone, page):
            assert not any("unseen" in str(message) for message in client.received)
            (finished,) = client.updates("run_finished")
            assert (finished["outcome"], finished["code"]) == ("failed", "DISK_SPACE_LOW")
            assert client.updates("project_state")[-1]["state"] == "ERROR"
        (await server.running(phone, project)).ends()
        await settled()
        assert [one["seq"] for one in records(server, project)] == list(range(1, len(records(server, project)) + 1))
        assert page.seqs == list(range(page.seqs[0], len(records(server, project)) + 1))


def no_room(*_: object, **__: object) -> None:
    raise HistoryNotWritten("The history can't be written: no space left on device. It is unchanged.", disk_full=True)


async def test_a_crashed_agents_last_output_is_in_the_error(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.exit(3, "no login found")
        await settled()
        (finished,) = phone.updates("run_finished")
        assert finished["outcome"] == "failed"
        assert "no login found" in finished["error"]


async def test_an_agent_that_cannot_be_started_is_reported(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        server.agent.unusable = base.AgentUnusable("AGENT_NOT_FOUND", "claude is not installed.")
        await server.does(phone, "execute", project, prompt="go")
        await settled(lambda: bool(phone.updates("run_finished")))
        (finished,) = phone.updates("run_finished")
        assert (finished["outcome"], finished["code"]) == ("failed", "AGENT_NOT_FOUND")


async def test_a_silent_agent_times_out_unless_it_waits_for_a_decision(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(idle_seconds=0.4, checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.asks("q1")
        await settled(turns=5)
        await asyncio.sleep(0.6)  # longer than an agent may be silent
        assert phone.updates("run_finished") == []
        (asked,) = phone.of_type("permission_request")
        await server.does(
            phone, "permission_response", project, approval_id=asked["data"]["approval_id"], decision="allow"
        )
        await until(lambda: phone.updates("run_finished"), "its end")
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["timeout"]
        assert phone.updates("project_state")[-1]["state"] == "ERROR"


async def test_a_runs_time_limit_excludes_waiting_for_a_user(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(total_seconds=0.4, checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.asks("q1")
        await asyncio.sleep(0.6)  # longer than the run may take
        assert phone.updates("run_finished") == []
        (asked,) = phone.of_type("permission_request")
        answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
        await server.does(phone, "permission_response", project, **answer)

        def at_work() -> bool:
            process.says({"type": "assistant"})
            return bool(phone.updates("run_finished"))

        await until(at_work, "the end of a run that is never silent")
        (finished,) = phone.updates("run_finished")
        assert (finished["outcome"], finished["code"]) == ("timeout", "EXECUTION_TIMEOUT")


async def test_uploaded_files_are_attached_to_a_prompt(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.upload("b1", b"a picture")
        attached = [{"blob_id": "b1", "media_type": "image/png", "name": "a.png"}]
        await server.does(phone, "execute", project, prompt="Look", attachments=attached)
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        assert server.agent.latest.attachments == (base.Attachment("image/png", b"a picture", "a.png"),)
        server.agent.latest.ends()
        await settled()
        before = records(server, project)
        assert before[0]["message"]["attachments"] == ["a.png"]
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="Look", attachments=[{"blob_id": "gone"}])
        assert refused.value.code == "BLOB_NOT_FOUND"
        assert records(server, project) == before


async def test_projects_run_in_parallel(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        projects = [await server.project(phone, name) for name in ("one", "two", "three")]
        processes = [await server.running(phone, project) for project in projects]
        assert [process.launch.directory for process in processes] == [
            str(server.root / n) for n in ("one", "two", "three")
        ]
        assert [one.state for one in server.core.projects] == ["EXECUTING"] * 3
        for process in reversed(processes):
            process.ends()
        await settled()
        assert [one.state for one in server.core.projects] == ["IDLE"] * 3


async def test_the_number_of_simultaneous_runs_is_limited(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(runs_at_once=1, checkpoints=False)) as server:
        one, two = await server.project(phone, "one"), await server.project(phone, "two")
        process = await server.running(phone, one)
        await server.does(phone, "execute", two, prompt="later")
        await settled()
        assert len(server.agent.processes) == 1
        process.ends()
        await settled(lambda: len(server.agent.processes) == 2)
        server.agent.latest.ends()
        await settled()
        assert len(phone.updates("run_finished")) == 2


@pytest.mark.parametrize(("how", "outcome"), [("agent_kill", "killed"), ("agent_interrupt", "interrupted")])
async def test_a_run_that_waits_for_its_slot_can_be_ended(tmp_path: Path, how: str, outcome: str) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(runs_at_once=1, checkpoints=False)) as server:
        one, two = await server.project(phone, "one"), await server.project(phone, "two")
        process = await server.running(phone, one)
        await server.does(phone, "execute", two, prompt="later")
        await settled()
        await server.does(phone, how, two)
        process.ends()
        await settled()
        assert len(server.agent.processes) == 1
        assert [one["outcome"] for one in phone.updates("run_finished")] == [outcome, "completed"]
        third = await server.running(phone, two)
        third.ends()


@pytest.mark.parametrize(("how", "outcome"), [("agent_kill", "killed"), ("agent_interrupt", "interrupted")])
async def test_a_run_can_be_ended_while_its_agent_is_being_started(tmp_path: Path, how: str, outcome: str) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.starting(phone, project, "never mind")
        await server.does(phone, how, project)
        await server.does(phone, "execute", project, prompt="go on")
        server.agent.may_start.set()
        await settled(lambda: any(process.prompts for process in server.agent.processes))
        assert [one["outcome"] for one in phone.updates("run_finished")] == [outcome]
        assert [process.prompts for process in server.agent.processes if not process.ended] == [["go on"]]
        server.agent.latest.ends()


async def test_the_prompt_after_a_killed_run_gets_a_new_process(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "execute", project, prompt="next")
        await server.does(phone, "agent_kill", project)
        await settled(lambda: server.agent.latest is not process and bool(server.agent.latest.prompts))
        assert (process.prompts, process.ended) == (["go"], True)
        server.agent.latest.ends()
        await settled()
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["killed", "completed"]


async def test_a_prompt_right_after_a_new_session_belongs_to_it(tmp_path: Path) -> None:
    """The process of the old conversation takes a while to end."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        old = await server.running(phone, project)
        old.ends()
        await settled()
        gone = asyncio.Event()
        old.stop = gone.wait  # type: ignore[assignment,method-assign]
        await asyncio.wait_for(server.does(phone, "agent_new_session", project), PATIENCE)
        await server.does(phone, "execute", project, prompt="fresh")
        await settled()
        assert server.agent.latest is old
        assert phone.seqs == list(range(1, len(records(server, project)) + 1))
        gone.set()
        await settled(lambda: server.agent.latest.prompts == ["fresh"])
        assert not server.agent.latest.launch.resume
        assert server.agent.latest.launch.session_id != old.launch.session_id
        old.exit(0)
        server.agent.latest.ends()


async def test_the_conversation_continues_after_a_restart(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        session = process.launch.session_id
        assert not process.launch.resume
        process.ends()
        await settled()
    async with serving(tmp_path) as server:
        process = await server.running(Client(), project)
        assert (process.launch.session_id, process.launch.resume) == (session, True)
        process.ends()


async def an_agent_that_dies(
    server: Server, client: Client, project: str, *, after_its_session: bool = True
) -> Process:
    server.agent.says_sessions = after_its_session
    process = await server.running(client, project)
    process.exit(-9)
    await until(lambda: client.updates("run_finished"), "the run's end")
    server.agent.says_sessions = True
    return process


async def test_after_an_early_crash_a_new_conversation_begins(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await an_agent_that_dies(server, phone, project, after_its_session=False)
        assert phone.updates("project_state")[-1]["session_id"] == ""
        second = await server.running(phone, project)
        assert not second.launch.resume
        assert second.launch.session_id != first.launch.session_id


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_conversation_that_was_never_stored_is_replaced(restarted: bool, tmp_path: Path) -> None:
    """The agent reports the id of a conversation and is killed before it has stored the conversation, so the next
    prompt begins another one. A conversation that was stored is resumed.
    """
    phone = Client()
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(tmp_path))
        project = await server.project(phone)
        first = await an_agent_that_dies(server, phone, project)
        if restarted:
            await stack.aclose()
            server = await stack.enter_async_context(serving(tmp_path))
        server.agent.sessions = StoredSessions()
        before = len(server.agent.processes)
        await server.does(phone, "execute", project, prompt="go")
        await until(lambda: len(server.agent.processes) > before and server.agent.latest.prompts, "the prompt")
        second = server.agent.latest
        assert (second.launch.resume, second.launch.session_id == first.launch.session_id) == (False, False)
        second.exit(-9)
        server.agent.sessions = StoredSessions(second.launch.session_id)
        await until(lambda: server.core.projects.get(project).state == "ERROR", "the run's end")
        await server.does(phone, "execute", project, prompt="go")
        await until(lambda: server.agent.latest is not second and server.agent.latest.prompts, "the prompt")
        third = server.agent.latest
        assert (third.launch.resume, third.launch.session_id) == (True, second.launch.session_id)
        third.ends()


async def test_a_conversation_that_is_lost_later_is_reported(tmp_path: Path) -> None:
    """A conversation that was once stored is never silently replaced by a new one."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await settled()
        server.agent.sessions = StoredSessions()
        process.exit(0)
        await settled()
        second = await server.running(phone, project)
        assert (second.launch.resume, second.launch.session_id) == (True, process.launch.session_id)
        second.refuses_its_conversation()
        await settled()
        assert phone.updates("run_finished")[-1]["code"] == "SESSION_NOT_FOUND"
        assert phone.updates("project_state")[-1]["session_id"] == process.launch.session_id


async def test_a_conversation_that_the_agent_refuses_is_replaced(tmp_path: Path) -> None:
    """The agent refuses to resume the conversation that it began before it died. The next prompt begins another one."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await an_agent_that_dies(server, phone, project)
        second = await server.running(phone, project)
        assert (second.launch.resume, second.launch.session_id) == (True, first.launch.session_id)
        second.refuses_its_conversation()
        await settled()
        assert phone.updates("project_state")[-1]["session_id"] == ""
        second.exit(1)
        third = await server.running(phone, project)
        assert not third.launch.resume
        third.ends()


async def test_a_fork_that_dies_at_its_start_is_repeated(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        own = await server.running(phone, project)
        own.ends()
        await settled()
        await server.does(phone, "session_fork", project)
        await settled()
        server.agent.says_sessions = False
        copy = await server.running(phone, project)
        copy.exit(-9)
        await settled()
        server.agent.says_sessions = True
        again = await server.running(phone, project)
        assert (copy.launch.fork_from, again.launch.fork_from) == (own.launch.session_id,) * 2
        again.ends()
        await settled()
        again.exit(0)
        await settled()
        last = await server.running(phone, project)
        assert (last.launch.fork_from, last.launch.session_id) == (None, again.launch.session_id)
        last.ends()


async def test_a_new_session_begins_another_conversation(tmp_path: Path) -> None:
    phone, page = Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        process = await server.running(phone, project)
        session = process.launch.session_id
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "agent_new_session", project)
        assert refused.value.code == "PROCESS_ACTIVE"
        process.ends()
        await settled()
        answer = await server.does(phone, "agent_new_session", project)
        assert answer["data"]["data"] == {"old_session_id": session, "new_session_id": "", "project_id": project}
        await settled()
        assert page.updates("session_reset") == [answer["data"]["data"]]
        assert page.updates("project_state")[-1]["session_id"] == ""
        process = await server.running(phone, project)
        assert process.launch.session_id != session
        assert not process.launch.resume
        process.ends()


async def test_stopping_the_server_interrupts_runs(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "execute", project, prompt="waiting")
        process.asks("q1")
        await server.core.close("the server is ending")
        assert process.ended
        assert [one["outcome"] for one in phone.updates("run_finished")] == ["interrupted", "interrupted"]
        assert phone.updates("permission_withdrawn")[0]["reason"] == "the server is ending"


async def test_a_mode_that_the_agent_refuses_is_not_kept(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "set_mode", project, mode="plan")
        assert process.modes == ["plan"]
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "set_mode", project, mode="dontAsk")
        assert refused.value.code == "NOT_SUPPORTED"
        assert refused.value.text.endswith(". The previous setting is still in effect.")
        process.ends()
        await settled()
        again = await server.running(phone, project)
        assert again is process
        process.ends()


def open_runs(server: Server, project: str) -> list[str]:
    return [one["message"]["run_id"] for one in records(server, project) if one["direction"] == "client"]


async def test_the_next_start_interrupts_unfinished_runs(tmp_path: Path) -> None:
    phone = Client()
    server = Server(tmp_path)
    await server.core.open()
    project = await server.project(phone)
    process = await server.running(phone, project)
    await server.does(phone, "execute", project, prompt="waiting")
    process.asks("q1")
    runs = open_runs(server, project)
    server.core.projects.get(project).history.close()  # nothing else is closed, as if the server had died
    async with serving(tmp_path) as after:
        found = [one for one in records(after, project) if one["direction"] == "server"]
        finished = [one["message"]["message"] for one in found if one["message"]["subtype"] == "run_finished"]
        assert {(one["run_id"], one["outcome"]) for one in finished} == {(run, "interrupted") for run in runs}
        assert [one["message"]["subtype"] for one in found].count("permission_withdrawn") == 1
        again = await after.running(phone, project, "resumed")
        again.ends()


async def test_a_turn_without_a_prompt_is_a_run(tmp_path: Path) -> None:
    """Clients can follow and interrupt such a run, and answer its approval requests. Prompts wait until it has ended.
    It takes no slot.
    """
    phone = Client()
    async with serving(tmp_path, Limits(runs_at_once=1, checkpoints=False)) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await settled(turns=20)
        process.emit(base.TurnBegun())
        process.turn_open = True
        process.asks("q1")
        begun = phone.updates("run_started")[-1]
        question = phone.of_type("permission_request")[-1]["data"]
        assert (begun["unprompted"], question["run_id"]) == (True, begun["run_id"])
        await server.does(phone, "execute", project, prompt="next")
        await server.does(phone, "agent_interrupt", project)
        assert process.interrupts == 1
        process.ends(ok=False, interrupted=True)
        assert phone.updates("run_finished")[-1]["outcome"] == "interrupted"
        await settled(lambda: process.prompts == ["go", "next"])
        assert process.prompts == ["go", "next"]
        process.ends()


async def test_a_prompt_is_not_ended_by_the_agents_own_turn(tmp_path: Path) -> None:
    """The agent begins and ends its own turn after a prompt was accepted and before the agent receives that prompt."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await settled(turns=20)
        await server.does(phone, "execute", project, prompt="next")
        process.emit(base.TurnBegun())
        process.ends()
        await settled(lambda: process.prompts == ["go", "next"])
        assert process.prompts == ["go", "next"]
        assert len(phone.updates("run_finished")) == 1
        process.ends()
        assert len(phone.updates("run_finished")) == 2


async def test_a_turn_without_a_prompt_may_ask_while_a_prompt_waits(tmp_path: Path) -> None:
    """The project's next prompt waits for a slot. It runs once, after the turn and as soon as a slot is free."""
    phone = Client()
    async with serving(tmp_path, Limits(runs_at_once=1, checkpoints=False)) as server:
        one, two = await server.project(phone, "one"), await server.project(phone, "two")
        process = await server.running(phone, one)
        process.ends()
        await settled(turns=20)
        elsewhere = await server.running(phone, two)
        await server.does(phone, "execute", one, prompt="next")
        await settled(turns=20)
        process.emit(base.TurnBegun())
        process.turn_open = True
        process.asks("q1")
        begun, question = phone.updates("run_started")[-1], phone.of_type("permission_request")[-1]["data"]
        assert (begun["unprompted"], question["run_id"]) == (True, begun["run_id"])
        assert process.answers == []
        await server.does(phone, "permission_response", one, approval_id=question["approval_id"], decision="allow")
        assert [decision.allow for _, decision in process.answers] == [True]
        process.ends()
        await settled(turns=20)
        assert process.prompts == ["go"], "there is no slot yet"
        elsewhere.ends()
        await settled(lambda: process.prompts == ["go", "next"])
        assert process.prompts == ["go", "next"]
        process.ends()
        assert len(phone.updates("run_finished")) == 4


async def test_a_turn_without_a_prompt_is_stopped_outside_hours(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        process = await server.running(phone, await server.project(phone))
        process.ends()
        await settled(turns=20)
        hour = datetime.now().hour
        server.core.grants.ceilings = Ceilings(hours=((hour + 2) % 24, (hour + 3) % 24))
        process.emit(base.TurnBegun())
        await settled(lambda: process.ended)
        assert phone.updates("run_finished")[-1]["code"] == "PERMISSION_DENIED"


@pytest.mark.parametrize("broken", ["prompt", "kill"])
async def test_an_unexpected_error_fails_the_run_and_not_the_session(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("odd")

    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        with monkeypatch.context() as defect:
            defect.setattr(Process, broken, fails)
            await server.does(phone, "execute", project, prompt="go")
            if broken == "kill":
                await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
                server.core.projects.get(project).controller.stop(ClientError("RESOURCE_LIMIT", "The disk is full."))
            await settled(lambda: bool(phone.updates("run_finished")))
        (finished,) = phone.updates("run_finished")
        code = "INTERNAL_ERROR" if broken == "prompt" else "RESOURCE_LIMIT"
        assert (finished["outcome"], finished["code"]) == ("failed", code)
        assert any(record.exc_info and project in record.getMessage() for record in caplog.records)
        process = await server.running(phone, project, "again")
        process.ends()
        await settled(lambda: len(phone.updates("run_finished")) == 2)
        assert phone.updates("run_finished")[1]["outcome"] == "completed"
