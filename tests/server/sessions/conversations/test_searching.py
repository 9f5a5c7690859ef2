"""Search, the list of sessions, export, names and deletion, as clients see them."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drawbridge.agents import base
from drawbridge.core.errors import HistoryNotWritten, HistoryUnreadable
from drawbridge.server.events import (
    ChangedFile,
    PromptAccepted,
    Recorded,
    ReviewDecided,
    ReviewInterrupted,
    RunFinished,
    RunReverted,
)
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import FRAME_BYTES
from drawbridge.server.sessions.conversations import exporting
from drawbridge.server.store import search
from tests.server.core_rig import Client, Server, exported, records, serving, settled
from tests.waiting import PATIENCE, until


async def run(server: Server, client: Client, project: str, prompt: str, *answers: str) -> None:
    process = await server.running(client, project, prompt)
    for text in answers:
        content = [{"type": "text", "text": text}]
        process.says({"type": "assistant", "message": {"content": content}, "session_id": process.launch.session_id})
    process.ends()
    await settled()


async def test_a_word_that_was_just_written_is_found(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "Rename the bridge", "The drawbridge is renamed.")
        found = (await server.does(phone, "search", query="bridge"))["data"]
        assert [(one["kind"], one["snippet"]) for one in found["results"]] == [
            ("prompt", ["Rename the ", "bridge", ""]),
        ]
        by_beginning = (await server.does(phone, "search", query="drawb"))["data"]["results"]
        assert [one["seq"] for one in by_beginning] == [
            record["seq"] for record in records(server, project) if record["direction"] == "claude"
        ]


async def test_sessions_have_titles_and_last_lines(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "First\nthing", "One.\nDone.")
        await server.does(phone, "agent_new_session", project)
        await run(server, phone, project, "Second thing", "Two.")
        found = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert [(one["title"], one["last_line"], one.get("current", False)) for one in found] == [
            ("Second thing", "Two.", True),
            ("First thing", "Done.", False),
        ]


async def test_any_query_is_answered(tmp_path: Path) -> None:
    phone, dice = Client(), random.Random(1)
    signs = [
        *"abc \"'*^()-+:{}[]<>|&~!\\/%_\0\n\t",
        "NEAR",
        "AND",
        "OR",
        "NOT",
        "é",
        "漢字",
        "🜁",
        "\u202e",
        "\u0300",
        "\ufeff",
    ]
    async with serving(tmp_path) as server:
        await run(server, phone, await server.project(phone), "abc NEAR 漢字", "é is \u202e here")
        for _ in range(300):
            query = "".join(dice.choices(signs, k=dice.randrange(1, 30)))
            found = (await server.does(phone, "search", query=query))["data"]
            assert isinstance(found["results"], list), query


async def test_results_of_all_histories_are_sorted_together(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        one, two = await server.project(phone, "one"), await server.project(phone, "two")
        for number in range(6):
            await run(server, phone, (one, two)[number % 2], f"walnut {number}")
        whole = (await server.does(phone, "search", query="walnut"))["data"]["results"]
        assert ["".join(hit["snippet"]) for hit in whole] == [f"walnut {number}" for number in range(5, -1, -1)]
        found: list[dict[str, Any]] = []
        before: dict[str, Any] = {}
        for _ in range(6):
            page = (await server.does(phone, "search", query="walnut", limit=1, **before))["data"]
            found += page["results"]
            before = {"before": page.get("next")}
        assert found == whole
        assert before == {"before": None}
        with pytest.raises(ClientError, match=r"is not valid\. Use the `next`"):
            await server.does(phone, "search", query="walnut", before="x.y.z")


async def test_results_of_the_same_moment_appear_on_one_page(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        projects = [server.core.projects.get(await server.project(phone, name)) for name in ("one", "two", "three")]
        moment = datetime.now(UTC)
        for session in projects * 2:
            session.history.append("client", b'{"message":{"prompt":"walnuts"},"run_id":"r"}', moment)
        found: list[tuple[str, int]] = []
        before = None
        for _ in range(6):
            page = (await server.does(phone, "search", query="walnuts", limit=1, before=before))["data"]
            found += [(one["project_id"], one["seq"]) for one in page["results"]]
            before = page.get("next")
        assert sorted(found) == sorted((session.id, seq) for session in projects for seq in (1, 2))
        assert before is None


async def test_the_outline_of_a_session_lists_its_prompts(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "First", "Answer.")
        await run(server, phone, project, "Second")
        await server.does(phone, "agent_new_session", project)
        await run(server, phone, project, "Third")
        [third, first] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        outline = await server.does(phone, "search", project, kinds=["prompt"], session_id=first["session_id"])
        assert [one["snippet"] for one in outline["data"]["results"]] == [["Second"], ["First"]]
        assert [one["session_id"] for one in outline["data"]["results"]] == [first["session_id"]] * 2
        nothing = await server.does(phone, "search", project, kinds=["prompt"], session_id="unknown")
        assert nothing["data"]["results"] == []
        assert third["prompts"] == 1


async def test_the_outline_of_a_fork_begins_with_that_of_its_original(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "First", "Answer.")
        [original] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        await server.does(phone, "session_fork", project, session_id=original["session_id"])
        await run(server, phone, project, "Second", "Answer.")
        [fork, _] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        for session, prompts in ((fork, ["Second", "First"]), (original, ["First"])):
            outline = await server.does(phone, "search", project, kinds=["prompt"], session_id=session["session_id"])
            assert ["".join(one["snippet"]) for one in outline["data"]["results"]] == prompts


async def test_a_client_finds_only_what_it_may_see(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        for name in ("one", "two"):
            await run(server, phone, await server.project(phone, name), "walnuts")
        confined = Client()
        confined.sees = lambda path: path.name == "two"  # type: ignore[method-assign]
        for sender, count in ((phone, 2), (confined, 1)):
            assert len((await server.does(sender, "search", query="walnuts"))["data"]["results"]) == count
            assert len((await server.does(sender, "sessions"))["data"]["sessions"]) == count


async def test_no_records_of_a_deleted_project_are_found(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        assert (await server.does(phone, "search", query="walnuts"))["data"]["results"]
        await server.does(phone, "project_delete", project)
        assert (await server.does(phone, "search", query="walnuts"))["data"]["results"] == []
        with pytest.raises(ClientError):
            await server.does(phone, "search", project, query="walnuts")
        assert list((server.folder / "data").rglob("search.sqlite*")) == []


async def test_a_removed_terminal_session_is_not_found(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        sessions = server.core.terminal_sessions
        session = sessions.begin(sessions.new_id(), str(server.root), "claude", str(uuid.uuid4()))
        assert session is not None
        session.store.write(PromptAccepted("r", "Walnuts,\nplease", "desk"))
        assert session.info().title == "Walnuts, please"
        [entry] = (await server.does(phone, "sessions"))["data"]["sessions"]
        assert (entry["title"], entry["terminal"], entry["project_id"]) == ("Walnuts, please", True, session.id)
        assert (await server.does(phone, "search", query="walnuts"))["data"]["results"]
        await server.does(phone, "project_delete", session.id)
        assert (await server.does(phone, "search", query="walnuts"))["data"]["results"] == []


async def test_a_missing_full_text_search_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "has_full_text", lambda: False)
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        with pytest.raises(ClientError, match="FTS5") as refused:
            await server.does(phone, "search", query="walnuts")
        assert refused.value.code == "NOT_SUPPORTED"
        assert (await server.does(phone, "search", kinds=["prompt"]))["data"]["results"]
        assert (await server.does(phone, "sessions"))["data"]["sessions"]


async def test_a_session_has_the_state_of_its_project(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)

        async def state() -> tuple[str, int]:
            [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
            return entry["state"], entry.get("approvals", 0)

        process = await server.running(phone, project, "walnuts")
        assert await state() == ("working", 0)
        process.asks("q1")
        assert await state() == ("waiting", 1)
        process.ends(ok=False)
        await settled()
        assert await state() == ("failed", 0)


async def test_current_sessions_are_left_out_last(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        one, two = await server.project(phone, "one"), await server.project(phone, "two")
        await run(server, phone, one, "Oldest", "Done.")
        for number in range(3):
            await server.does(phone, "agent_new_session", two)
            await run(server, phone, two, f"Prompt {number}", "Done.")
        found = (await server.does(phone, "sessions", limit=3))["data"]
        assert [entry["title"] for entry in found["sessions"]] == ["Prompt 2", "Prompt 1", "Oldest"]
        assert found["more"]


async def test_long_lists_are_cut_to_fit_into_a_message(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        session = server.core.projects.get(await server.project(phone, "p" * 200))
        for number in range(1_000):
            prompt = f"walnuts {number} " + '漢 \\"' * 200
            session.history.append("client", json.dumps({"message": {"prompt": prompt}, "run_id": "r"}).encode())
            answer = {"type": "text", "text": '字"' * 300}
            session.history.append(
                "claude", json.dumps({"type": "assistant", "message": {"content": [answer]}}).encode()
            )
            session.history.append("server", b'{"type":"system","subtype":"session_reset","message":{}}')
        await server.built.histories.searching.round()
        for what, wanted in (("sessions", {"limit": 1_000}), ("search", {"query": "walnuts", "limit": 200})):
            found = await server.does(phone, what, **wanted)
            assert len(msgspec.json.encode(found)) <= FRAME_BYTES
        listed = (await server.does(phone, "sessions", limit=1_000))["data"]
        assert 500 < len(listed["sessions"]) < 1_000
        assert listed["more"]


async def test_a_name_replaces_the_first_prompt(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        about = {"session_id": entry["session_id"]}
        answer = await server.does(phone, "session_rename", project, name=" The\nnuts ", **about)
        assert answer["data"]["data"] == {**about, "name": "The nuts", "by": "phone"}
        assert server.core.projects.get(project).info().title == "The nuts"
        assert phone.updates("project_state")[-1]["title"] == "The nuts"
        with pytest.raises(ClientError) as unknown:
            await server.does(phone, "session_rename", project, session_id="unknown", name="x")
        assert unknown.value.code == "SESSION_NOT_FOUND"
    async with serving(tmp_path) as server:  # after a restart
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert (entry["title"], entry["named"]) == ("The nuts", True)
        await server.does(phone, "session_rename", project, name="", **about)
        assert server.core.projects.get(project).info().title == "walnuts"


async def test_a_name_stays_when_the_agent_reports_its_session(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.says_sessions = False
        project = await server.project(phone)
        process = await server.running(phone, project, "walnuts")
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert entry["session_id"].startswith("log_")
        await server.does(phone, "session_rename", project, session_id=entry["session_id"], name="nuts")
        process.emit(base.SessionIdentified("s-1"))
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert (entry["session_id"], entry["title"]) == ("s-1", "nuts")


async def test_a_session_can_be_named_before_its_first_record(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.agent.says_sessions = False
        project = await server.project(phone)
        session = server.core.projects.get(project)
        key = session.recorded.session_key
        await server.does(phone, "session_rename", project, session_id=key, name="nuts")
        assert session.info().title == "nuts"
        await run(server, phone, project, "walnuts")
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert (entry["session_id"], entry["title"]) == (key, "nuts")


async def test_a_deleted_session_is_only_in_the_trash(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts", "Two walnuts.")
        await server.does(phone, "agent_new_session", project)
        await run(server, phone, project, "pears")
        last_seq = server.core.projects.get(project).history.last_seq
        [_, first] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        await server.does(phone, "session_rename", project, session_id=first["session_id"], name="The walnuts")
        last_seq += 1
        answer = await server.does(phone, "session_delete", project, session_id=first["session_id"])
        assert answer["data"]["update_type"] == "session_deleted"
        assert answer["seq"] == last_seq + 1
        [left] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert left["title"] == "pears"
        assert (await server.does(phone, "search", query="walnuts"))["data"]["results"] == []
        data = server.folder / "data"
        holding = [file for file in data.rglob("*") if file.is_file() and b"walnuts" in file.read_bytes()]
        assert [file.name for file in holding if "trash" not in file.parts] == []
        assert [file.name for file in holding] == ["messages.jsonl"]
        assert [one["seq"] for one in records(server, project)] == list(range(1, last_seq + 2))
        late = Client()
        await server.does(late, "project_join", project, after_seq=0)
        await until(lambda: len(late.seqs) > last_seq, "the history")
        assert late.seqs == list(range(1, last_seq + 2))
        assert late.updates("record_removed")
    async with serving(tmp_path) as server:  # after a restart
        assert [one["title"] for one in (await server.does(phone, "sessions"))["data"]["sessions"]] == ["pears"]
        await asyncio.to_thread(server.core.projects.make_room)
        assert not [
            file for file in (tmp_path / "data").rglob("*") if file.is_file() and b"walnuts" in file.read_bytes()
        ]


async def test_after_the_current_session_was_deleted_another_begins(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        await server.does(phone, "session_delete", project, session_id=entry["session_id"])
        assert server.core.projects.get(project).info().title == ""
        process = await server.running(phone, project, "pears")
        assert not process.launch.resume
        process.ends()
        await settled()
        assert [one["title"] for one in (await server.does(phone, "sessions", project))["data"]["sessions"]] == [
            "pears"
        ]


async def test_a_deletion_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        last_seq = server.core.projects.get(project).history.last_seq
        trash = server.folder / "data" / "trash"
        monkeypatch.setattr(server.core.projects, "trash_file", lambda _: trash / "none" / "messages.jsonl")
        with pytest.raises(HistoryNotWritten):
            await server.does(phone, "session_delete", project, session_id=entry["session_id"])
        assert server.core.projects.get(project).history.last_seq == last_seq
        assert (await server.does(phone, "search", query="walnuts"))["data"]["results"]
        process = await server.running(phone, project, "pears")
        assert process.launch.resume, "the conversation continues"
        assert process.launch.session_id == entry["session_id"]
        process.ends()
        await settled()


async def test_a_prompt_during_a_deletion_begins_another_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    begun, may_end = threading.Event(), threading.Event()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "apples")
        await server.does(phone, "agent_new_session", project)
        await run(server, phone, project, "walnuts")
        [entry, _] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert entry["title"] == "walnuts"
        history = server.core.projects.get(project).history
        remove = history.remove

        def slow(ranges: Any, copy: str) -> int:
            begun.set()
            assert may_end.wait(PATIENCE)
            return remove(ranges, copy)

        monkeypatch.setattr(history, "remove", slow)
        deletion = asyncio.create_task(server.does(phone, "session_delete", project, session_id=entry["session_id"]))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        prompt = asyncio.create_task(server.does(phone, "execute", project, prompt="pears"))
        before = len(server.agent.processes)
        may_end.set()
        await deletion
        assert (await prompt)["type"] == "accepted"
        await until(lambda: len(server.agent.processes) > before and server.agent.processes[-1].prompts, "the next run")
        process = server.agent.processes[-1]
        assert not process.launch.resume
        process.ends()
        await settled()
        left = (await server.does(phone, "sessions", project))["data"]["sessions"]
        assert [(one["title"], one["prompts"]) for one in left] == [("pears", 1), ("apples", 1)]


async def test_a_search_for_thousands_of_kinds_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with pytest.raises(ClientError, match="kinds"):
            await server.does(Client(), "search", kinds=["prompt"] * 40_000)


async def test_all_histories_share_one_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        for name in ("one", "two", "three"):
            await run(server, phone, await server.project(phone, name), "walnuts")
        (await server.does(phone, "search", query="walnuts"))["data"]["results"]
        asked: list[search.Deadline | None] = []
        real = search.Index.search

        def noted(index: search.Index, wanted: search.Wanted, deadline: search.Deadline | None = None) -> Any:
            asked.append(deadline)
            return real(index, wanted, deadline)

        monkeypatch.setattr(search.Index, "search", noted)
        await server.does(phone, "search", query="walnuts")
        assert len(asked) == 3
        assert len(set(map(id, asked))) == 1
        assert asked[0] is not None
        assert asked[0].is_over, "a thread that is still running stops"


async def test_a_session_list_reports_that_the_index_is_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        with monkeypatch.context() as hurried:
            hurried.setattr(search, "SEARCH_SECONDS", -1.0)
            found = (await server.does(phone, "sessions"))["data"]
            assert (found["sessions"], found["building"]) == ([], True)
        found = (await server.does(phone, "sessions"))["data"]
        assert ([one["title"] for one in found["sessions"]], "building" in found) == (["walnuts"], False)


@pytest.mark.parametrize(("is_deleted", "code"), [(True, "PROJECT_NOT_FOUND"), (False, "SHUTTING_DOWN")])
async def test_an_export_reports_why_its_history_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_deleted: bool, code: str
) -> None:
    """The project is deleted, or the server shuts down, while the history is being read."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        session = server.core.projects.get(project)
        history = session.history

        def read(**wanted: Any) -> None:
            if is_deleted:
                session.store.removed()
            history.close()
            raise HistoryUnreadable("the file is gone")

        monkeypatch.setattr(history, "read", read)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "session_export", project, format="jsonl")
        assert refused.value.code == code


async def test_no_session_is_deleted_during_a_run(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.running(phone, project, "walnuts")
        [entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "session_delete", project, session_id=entry["session_id"])
        assert refused.value.code == "PROCESS_ACTIVE"
        assert (await server.does(phone, "search", query="walnuts"))["data"]["results"]
        assert list((server.folder / "data" / "trash").iterdir()) == []


async def test_a_session_is_exported_as_readable_text(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project, "Fix the typo")
        command = {"type": "tool_use", "name": "Bash", "input": {"command": "echo ```"}}
        process.says({"type": "assistant", "message": {"content": [command]}})
        process.asks("q1")
        [approval] = server.core.projects.get(project).approvals
        edited = {"file_path": "/p/a.py", "content": "mine\n"}
        answer = {"approval_id": approval.id, "decision": "allow", "updated_input": edited}
        await server.does(phone, "permission_response", project, **answer)
        process.ends()
        await settled()
        found = await exported(server, phone, project)
        assert found.startswith("## phone, 20")
        for part in (
            "Fix the typo",
            "**Bash**\n\n````\necho ```\n````",
            "Asked at",
            "**Write** /p/a.py",
            "Accepted by phone with edits",
        ):
            assert part in found


async def test_an_export_of_records_equals_the_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The export is sent in pieces that are smaller than a record."""
    monkeypatch.setattr(exporting, "PIECE", 70)
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "wälnuts " * 50, "One.", "Two.")
        first = [json.loads(line) for line in (await exported(server, phone, project, format="jsonl")).splitlines()]
        assert first == records(server, project)
        await server.does(phone, "agent_new_session", project)
        await run(server, phone, project, "pears")
        [_, entry] = (await server.does(phone, "sessions", project))["data"]["sessions"]
        own = await exported(server, phone, project, format="jsonl", session_id=entry["session_id"])
        assert [json.loads(line) for line in own.splitlines()] == first
        for after in ("x", "1", "1.0.0", "0.1.x", "0.1.2.3", f"0.{'9' * 30}.0"):
            with pytest.raises(ClientError, match=r"is not valid\. Use the `next`"):
                await server.does(phone, "session_export", project, after=after)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (RunFinished(run_id="r", outcome="failed", duration_ms=5, error="it exited"), "Run failed: it exited"),
        (RunFinished(run_id="r", outcome="interrupted", duration_ms=5), "Run interrupted"),
        (RunFinished(run_id="r", outcome="killed", duration_ms=5), "Run killed"),
        (RunFinished(run_id="r", outcome="timeout", duration_ms=5), "Run timed out"),
        (RunReverted("r", "Ada", (ChangedFile("a.py", "changed"),)), "Ada undid the changes to 1 file"),
        (ReviewDecided(files=1, hunks=2, left=3, by="Ada", decision="keep"), "Ada kept 2 changes in 1 file"),
        (
            ReviewDecided(files=1, hunks=1, left=0, by="Ada", decision="undo", paths=("a.py",), diff="-a\n+b\n"),
            "Ada undid 1 change in a.py\n\n```\n-a\n+b\n```",
        ),
        (
            ReviewDecided(files=1, hunks=1, left=0, by="Ada", decision="undo", diff="-a\n", diff_truncated=True),
            "Ada undid 1 change in 1 file\n\n```\n-a\n```\n\nOnly the beginning of the diff was recorded.",
        ),
        (
            ReviewDecided(files=5, hunks=9, left=0, by="Ada", decision="keep", paths=("a.py", "b.py")),
            "Ada kept 9 changes in 5 files\n>\n> Files: a.py, b.py and 3 more files",
        ),
        (
            ReviewDecided(files=1, hunks=2, left=3, by="Ada", decision="undo", interrupted=True),
            "Ada undid 2 changes in 1 file (the server was restarted in the meantime)",
        ),
        (
            ReviewInterrupted(files=1, hunks=2, by="Ada", decision="undo", result="not_done"),
            "Ada wanted to undo 2 changes in 1 file, but the server was restarted. Nothing was changed.",
        ),
        (
            ReviewInterrupted(files=3, hunks=0, by="Ada", decision="revert", result="not_done"),
            "Ada wanted to undo the changes to 3 files, but the server was restarted. Nothing was changed.",
        ),
        (
            ReviewInterrupted(files=1, hunks=0, by="Ada", decision="commit", result="unknown"),
            "Ada wanted to commit 1 file, but the server was restarted in the meantime, and it is not known whether the "
            "commit was made. Check the branch.",
        ),
        (
            ReviewInterrupted(files=1, hunks=2, by="Ada", decision="edit", result="unknown", changed=("a.py",)),
            "Ada wanted to edit 2 changes in 1 file, but the server was restarted in the meantime, and a.py changed. "
            "Check the review.",
        ),
    ],
    ids=[
        *(
            "failed",
            "interrupted",
            "killed",
            "timed out",
            "undone",
            "reviewed",
            "with diff",
            "with part of a diff",
            "with paths",
        ),
        *("recovered", "not done", "not reverted", "commit unknown", "unknown"),
    ],
)
async def test_an_export_contains_outcomes_and_decisions(tmp_path: Path, message: Recorded, words: str) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
        server.core.projects.get(project).store.write(message)
        assert f"> {words}\n\n" in await exported(server, phone, project)


async def test_prompts_in_the_queue_are_exported_as_they_ran(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project, "walnuts")
        edited, dropped = [
            (await server.does(phone, "execute", project, prompt=prompt))["data"]["run_id"]
            for prompt in ("pears", "plums")
        ]
        await server.does(phone, "queue_edit", project, run_id=edited, prompt="figs")
        await server.does(phone, "queue_remove", project, run_id=dropped)
        process.ends()
        await settled(lambda: len(process.prompts) == 2)
        process.ends()
        await settled()
        found = await exported(server, phone, project)
        assert "pears" not in found
        assert found.count("figs\n\n> Edited in the queue by phone\n") == 1
        assert found.count("plums\n\n> Removed from the queue by phone: it never ran\n") == 1
        assert "Run interrupted" not in found
        assert (await server.does(phone, "search", query="pears"))["data"]["results"] == []
        [hit] = (await server.does(phone, "search", query="figs"))["data"]["results"]
        [prompt] = [
            one["seq"] for one in records(server, project) if one["direction"] == "client" and "pears" in str(one)
        ]
        assert hit["seq"] == prompt, "where the web UI shows it"
        lines = (await exported(server, phone, project, format="jsonl")).splitlines()
        assert [json.loads(line) for line in lines] == records(server, project)


async def test_an_export_reads_only_the_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records are exported in a thread, since a large history would block the event loop for seconds."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        for prompt in ("walnuts", "pears", "plums"):
            await run(server, phone, project, prompt, *(f"{prompt} {number}" for number in range(5)))
            await server.does(phone, "agent_new_session", project)
        _, middle, _ = (await server.does(phone, "sessions", project))["data"]["sessions"]
        written: list[int] = []
        threads: set[str] = set()
        real = exporting.jsonl

        def noted(record: Any) -> str:
            written.append(record.seq)
            threads.add(threading.current_thread().name)
            return real(record)

        monkeypatch.setattr(exporting, "jsonl", noted)
        history = server.core.projects.get(project).history
        read: list[int] = []
        read_page = history.read

        def reading(**where: Any) -> Any:
            page = read_page(**where)
            read.extend(record.seq for record in page.records)
            return page

        monkeypatch.setattr(history, "read", reading)
        found = await exported(server, phone, project, format="jsonl", session_id=middle["session_id"])
        own = list(range(middle["first_seq"], middle["last_seq"] + 1))
        assert [json.loads(line)["seq"] for line in found.splitlines()] == own
        assert written == read == own
        assert threading.main_thread().name not in threads


async def test_titles_from_an_older_version_are_read_from_the_history(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await run(server, phone, project, "walnuts")
    file = tmp_path / "data" / "projects" / project / "metadata.json"
    saved = json.loads(file.read_text())
    del saved["memory"]["title"]
    file.write_text(json.dumps(saved))
    async with serving(tmp_path) as server:
        assert server.core.projects.get(project).info().title == ""
        await server.built.histories.searching.round()
        assert server.core.projects.get(project).info().title == "walnuts"
