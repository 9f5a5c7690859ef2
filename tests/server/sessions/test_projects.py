"""Projects are created, found again after a restart, and deleted. Invalid ones are refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.store import index
from drawbridge.server.store.log import History
from tests.server.core_rig import Client, Server, records, serving, settled
from tests.server.examples import EXAMPLES
from tests.waiting import PATIENCE, until


async def refused(server: Server, client: Client, **data: Any) -> ClientError:
    with pytest.raises(ClientError) as error:
        await server.does(client, "project_create", **data)
    return error.value


async def test_projects_are_restored_after_a_restart(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await settled()
        before = (await server.does(phone, "project_list"))["data"]["projects"]
    async with serving(tmp_path) as server:
        after = (await server.does(phone, "project_list"))["data"]["projects"]
    assert after == before
    assert after[0]["state"] == "IDLE"
    assert after[0]["message_count"] == after[0]["last_seq"] > 0


@pytest.mark.parametrize(
    "path", ["one", "../one", "/etc", "/nowhere/at/all", "{root}/../x", "{root}/one\n", "{root}/file"]
)
async def test_an_invalid_path_cannot_be_a_project(path: str, tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        (server.root / "one").mkdir()
        (server.root / "file").write_text("")
        error = await refused(server, phone, path=path.format(root=server.root))
        assert (error.code, error.field) == ("INVALID_PATH", "data.path")
        assert (await server.does(phone, "project_list"))["data"]["projects"] == []
        assert list((tmp_path / "data" / "projects").iterdir()) == []


async def test_missing_and_forbidden_paths_get_the_same_error(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        missing = await refused(server, phone, path="/etc/nothing-of-that-name")
        there = await refused(server, phone, path="/etc")
        assert missing.text == there.text


async def test_two_simultaneous_requests_create_one_project(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        (server.root / "one").mkdir()
        asked = (server.does(Client(), "project_create", path=str(server.root / "one")) for _ in range(2))
        made, error = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(error, ClientError)
        assert error.code == "PROJECT_EXISTS"
        assert [session.id for session in server.core.projects] == [made["project_id"]]  # type: ignore[index]
        assert len(list((tmp_path / "data" / "projects").iterdir())) == 1


async def test_a_project_being_created_is_closed_with_the_server(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        (server.root / "one").mkdir()
        creating = asyncio.create_task(server.does(Client(), "project_create", path=str(server.root / "one")))
        await asyncio.sleep(0)
        await server.core.projects.close("the server is ending")
        [session] = server.core.projects
        assert session.history.closed
        await creating


async def test_projects_cannot_repeat_or_contain_one_another(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        (server.root / "a" / "b" / "c").mkdir(parents=True)
        os.symlink(server.root / "a" / "b", server.root / "link")
        await server.does(phone, "project_create", path=str(server.root / "a" / "b"))
        assert (await refused(server, phone, path=str(server.root / "a" / "b"))).code == "PROJECT_EXISTS"
        assert (await refused(server, phone, path=str(server.root / "link"))).code == "PROJECT_EXISTS"
        for nested in ("a", "a/b/c", "link/c"):
            error = await refused(server, phone, path=str(server.root / nested))
            assert error.code == "PROJECT_NESTING"
            assert str(server.root / "a" / "b") not in error.text.replace(str(server.root / nested), "")


async def test_projects_ignore_case_where_the_disk_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "samefile", lambda one, other: str(one).lower() == str(other).lower())
    phone = Client()
    async with serving(tmp_path) as server:
        for name in ("Blog", "blog/inner"):
            (server.root / name).mkdir(parents=True)
        await server.does(phone, "project_create", path=str(server.root / "Blog"))
        assert (await refused(server, phone, path=str(server.root / "blog"))).code == "PROJECT_EXISTS"
        assert (await refused(server, phone, path=str(server.root / "blog" / "inner"))).code == "PROJECT_NESTING"


async def test_a_link_out_of_the_allowed_directories_is_refused(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        os.symlink("/etc", server.root / "out")
        assert (await refused(server, phone, path=str(server.root / "out"))).code == "INVALID_PATH"


@pytest.mark.parametrize("name", ["bad\udcff", "two\nlines"])
async def test_a_link_to_a_name_that_is_not_text_is_refused(tmp_path: Path, name: str) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        (server.root / name).mkdir()
        os.symlink(server.root / name, server.root / "link")
        error = await refused(server, phone, path=str(server.root / "link"))
        assert (error.code, error.field) == ("INVALID_PATH", "data.path")
        assert (await server.does(phone, "project_list"))["data"]["projects"] == []
        assert list((tmp_path / "data" / "projects").iterdir()) == []
        (server.root / "👩‍💻 ü").mkdir()
        await server.does(phone, "project_create", path=str(server.root / "👩‍💻 ü"))


async def test_a_hundred_projects_are_restored_after_a_restart(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        made = [await server.project(phone, f"p{number}") for number in range(100)]
        (server.root / "one more").mkdir()
        assert (await refused(server, phone, path=str(server.root / "one more"))).code == "RESOURCE_LIMIT"
        (await server.running(phone, made[50])).ends()
        await settled()
        before = (await server.does(phone, "project_list"))["data"]["projects"]
    async with serving(tmp_path) as server:
        after = (await server.does(phone, "project_list"))["data"]["projects"]
        assert sorted(after, key=str) == sorted(before, key=str)
        assert [one["created_at"] for one in after] == [one["created_at"] for one in before], "in the same order"
        assert [one["id"] for one in after if one["session_id"]] == [made[50]]


async def test_projects_are_listed_before_indexes_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of projects is sent before any history whose index is missing has been read completely. The rest is read
    in the background.
    """
    phone = Client()
    async with serving(tmp_path) as server:
        made = [await server.project(phone, f"p{number}") for number in range(3)]
        for project in made:
            process = await server.running(phone, project)
            for number in range(20):
                process.says({"type": "assistant", "text": number})
            process.ends()
            await settled()
        before = (await server.does(phone, "project_list"))["data"]["projects"]
        pages = [(await server.does(phone, "get_messages", project))["data"] for project in made]
    for file in tmp_path.rglob("index.json"):
        file.unlink()
    monkeypatch.setattr(index, "SCANNED_AT_OPENING", 0)
    read: list[str] = []
    may_read, scan = threading.Event(), index.scan

    def held(path: str, segment: index.Segment, report: index.Report) -> int:
        assert may_read.wait(PATIENCE)
        read.append(path)
        return scan(path, segment, report)

    monkeypatch.setattr(index, "scan", held)
    async with serving(tmp_path) as server:
        after = (await server.does(phone, "project_list"))["data"]["projects"]
        assert sorted(after, key=str) == sorted(before, key=str)
        assert [one["created_at"] for one in after] == [one["created_at"] for one in before], "in the same order"
        assert read == []
        may_read.set()
        assert [(await server.does(phone, "get_messages", project))["data"] for project in made] == pages
        await until(lambda: len(list(tmp_path.rglob("index.json"))) == len(made), "the indexes")
        assert len(read) == len(made), "each file once"


async def test_the_number_of_projects_is_limited(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(projects=1, checkpoints=False)) as server:
        await server.project(phone, "one")
        (server.root / "two").mkdir()
        assert (await refused(server, phone, path=str(server.root / "two"))).code == "RESOURCE_LIMIT"


async def test_delete_moves_project_to_trash_and_notifies_clients(tmp_path: Path) -> None:
    phone, page, watch = Client(), Client(), Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        server.core.follow(("projects",), watch)
        answer = await server.does(phone, "project_delete", project)
        assert answer["type"] == "project_deleted"
        assert answer["data"] == {"project_id": project, "success": True}
        for other in (page, watch):
            assert other.updates("project_deleted")[0]["project_id"] == project
        assert [one.name.startswith(project) for one in (tmp_path / "data" / "trash").iterdir()] == [True]
    async with serving(tmp_path) as server:
        assert (await server.does(phone, "project_list"))["data"]["projects"] == []


async def test_data_that_cannot_be_moved_to_the_trash_is_kept(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(page, "project_join", project)
        (await server.running(phone, project)).ends()
        await settled()
        kept = records(server, project)
        (tmp_path / "data" / "trash").rmdir()
        (tmp_path / "data" / "trash").write_text("in the way")
        with pytest.raises(ClientError) as error:
            await server.does(phone, "project_delete", project)
        assert error.value.code == "FILE_OPERATION"
        assert str(tmp_path) not in error.value.text
        assert (await server.does(phone, "project_list"))["data"]["projects"] == []
        assert [one["project_id"] for one in page.updates("project_deleted")] == [project], (
            "clients that have joined know"
        )
        assert records(server, project) == kept
        (tmp_path / "data" / "trash").unlink()
    async with serving(tmp_path) as server:
        [info] = (await server.does(phone, "project_list"))["data"]["projects"]
        assert (info["id"], info["last_seq"]) == (project, len(kept))


async def test_followers_are_notified_of_projects_they_have_not_joined(tmp_path: Path) -> None:
    phone, watch = Client("phone"), Client("watch")
    async with serving(tmp_path) as server:
        server.core.follow(("projects", "approvals"), watch)
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.says({"type": "assistant"})
        for question in ("q1", "q2"):
            process.asks(question)
        first = watch.of_type("permission_request")[0]["data"]["approval_id"]
        await server.does(phone, "permission_response", project, approval_id=first, decision="allow")
        process.ends()
        await settled()
        await server.does(phone, "project_delete", project)
        received = [one["data"].get("update_type") or one["type"] for one in watch.received]
        assert [what for what in received if what != "project_state"] == [
            "project_created",
            "permission_request",
            "permission_request",
            "permission_resolved",
            "permission_withdrawn",
            "run_finished",
            "project_deleted",
        ]
        assert watch.updates("project_created")[0]["id"] == project
        assert [one["state"] for one in watch.updates("project_state")] == ["EXECUTING", "IDLE"]
        before = len(watch.received)
        server.core.unfollow(("projects", "approvals"), watch)
        await server.project(phone, "another")
        assert len(watch.received) == before


async def test_deleted_projects_are_removed_after_seven_days(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        made = [await server.project(phone, name) for name in ("new", "old", "older")]
        for project in made:
            await server.does(phone, "project_delete", project)
        for one in (tmp_path / "data" / "trash").iterdir():
            days = {made[0]: 0.0, made[1]: 6.9, made[2]: 7.1}[one.name.rpartition("-")[0]]
            os.utime(one, (0, time.time() - days * 24 * 60 * 60))
        await server.core.maintenance.clean()
        left = {one.name.rpartition("-")[0] for one in (tmp_path / "data" / "trash").iterdir()}
        assert left == {made[0], made[1]}
        for one in (tmp_path / "data" / "trash").iterdir():
            os.utime(one, (0, time.time() - 8 * 24 * 60 * 60))
    async with serving(tmp_path) as server:
        await server.core.maintenance.round()  # a server runs its first round right after its start
        assert list((tmp_path / "data" / "trash").iterdir()) == [], "at a start too"


async def test_a_project_is_not_deleted_while_its_agent_works(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        with pytest.raises(ClientError) as error:
            await server.does(phone, "project_delete", project)
        assert error.value.code == "PROCESS_ACTIVE"
        assert not process.ended
        process.ends()


ABOUT_A_PROJECT = {
    row.name: EXAMPLES.get(row.name, {}) for row in COMMANDS if "project_id" in row.request.__struct_fields__
}


@pytest.mark.parametrize("what", ABOUT_A_PROJECT)
async def test_a_request_during_a_deletion_is_executed_or_refused(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However the two overlap, there is no internal error, and no message about the project after its deletion."""
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        server.core.follow(["projects"], page)
        for turns in range(-3, 6):
            project = await server.project(phone)
            process = await server.running(phone, project)
            process.ends()
            await settled(lambda project=project: not server.core.projects.get(project).controller.busy)  # type: ignore[misc]
            asked = [("project_delete", {}), (what, ABOUT_A_PROJECT[what])][:: -1 if turns < 0 else 1]
            tasks = []
            for type, data in asked:
                tasks.append(asyncio.create_task(server.does(phone, type, project, **data)))
                await settled(turns=abs(turns))
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(result, dict | ClientError), result
            received = [one["data"]["update_type"] for one in page.received if one.get("project_id") == project]
            # The deletion was refused if the project's agent was working.
            if any(one.id == project for one in server.core.projects):
                with contextlib.suppress(ClientError):
                    await server.does(phone, "agent_kill", project)
                await server.does(phone, "project_delete", project)
            else:
                await settled()
                assert received[-1] == "project_deleted"
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("what", ["session_resume", "session_fork"])
async def test_no_session_is_resumed_in_a_project_being_deleted(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone, deleted = Client(), threading.Event()
    monkeypatch.setattr(
        "drawbridge.server.sessions.conversations.conversations.known", lambda *_: deleted.wait(PATIENCE)
    )
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        asked = asyncio.create_task(server.does(phone, what, project, session_id="s"))
        await settled()
        await server.does(phone, "project_delete", project)
        deleted.set()
        with pytest.raises(ClientError) as error:
            await asked
        assert error.value.code == "PROJECT_NOT_FOUND"
        assert phone.updates("session_changed") == []


async def test_a_history_deleted_during_a_read_is_not_a_disk_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone, deleted, read = Client(), threading.Event(), History.read

    def slowly(history: History, **where: Any) -> Any:
        deleted.wait(PATIENCE)
        return read(history, **where)

    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.running(phone, project)
        await server.does(phone, "agent_kill", project)
        monkeypatch.setattr(History, "read", slowly)
        asked = asyncio.create_task(server.does(phone, "get_messages", project, after_seq=0))
        await settled()
        await server.does(phone, "project_delete", project)
        deleted.set()
        with pytest.raises(ClientError) as error:
            await asked
        assert error.value.code == "PROJECT_NOT_FOUND"


async def test_a_mode_set_during_a_deletion_is_not_confirmed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone, deleted = Client(), asyncio.Event()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()

        async def slowly(mode: str) -> None:
            await deleted.wait()

        monkeypatch.setattr(process, "set_mode", slowly)
        asked = asyncio.create_task(server.does(phone, "set_mode", project, mode="plan"))
        await settled()
        await server.does(phone, "project_delete", project)
        deleted.set()
        with pytest.raises(ClientError) as error:
            await asked
        assert error.value.code == "PROJECT_NOT_FOUND"
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"id": 1}', b"null", b"\xff"])
async def test_damaged_metadata_is_read_from_its_copy(damage: bytes, tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        session = process.launch.session_id
        process.ends()
        await settled()
    directory = tmp_path / "data" / "projects" / project
    (directory / "metadata.json").write_bytes(damage)
    async with serving(tmp_path) as server:
        (info,) = (await server.does(phone, "project_list"))["data"]["projects"]
        assert (info["id"], info["session_id"]) == (project, session)


async def test_an_unreadable_project_is_quarantined_and_reported(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone, "one")
        await server.project(phone, "two")
    directory = tmp_path / "data" / "projects" / project
    (directory / "metadata.json").write_text("{")
    (directory / "metadata.json.bak").unlink(missing_ok=True)
    async with serving(tmp_path) as server:
        assert server.core.projects.quarantined == [project]
        assert server.core.problems() == [
            f"The project in {project} can't be used and was quarantined. The server's log has the reason."
        ]
        assert len((await server.does(phone, "project_list"))["data"]["projects"]) == 1
    assert [one.name.startswith(project) for one in (tmp_path / "data" / "quarantine").iterdir()] == [True]


async def test_a_project_with_anothers_metadata_is_quarantined(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
    directory = tmp_path / "data" / "projects" / project
    for name in ("metadata.json", "metadata.json.bak"):
        if (directory / name).exists():
            data = json.loads((directory / name).read_text()) | {"id": "proj_other"}
            (directory / name).write_text(json.dumps(data))
    async with serving(tmp_path) as server:
        assert server.core.projects.quarantined == [project]


async def test_one_of_two_projects_with_the_same_path_is_quarantined(tmp_path: Path) -> None:
    """Two projects have the same path if a user has copied a project's data, for example."""
    async with serving(tmp_path) as server:
        project = await server.project(Client())
    original = tmp_path / "data" / "projects" / project
    copied = shutil.copytree(original, original.with_name(f"{project}_copy"))
    metadata = json.loads((copied / "metadata.json").read_text())
    (copied / "metadata.json").write_text(json.dumps({**metadata, "id": copied.name}))
    async with serving(tmp_path) as server:
        assert [one.id for one in server.core.projects] == [project]
        assert server.core.projects.quarantined == [copied.name]


async def test_foreign_records_in_a_log_are_harmless(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        (await server.running(phone, project)).ends()
        await settled()
        last = records(server, project)[-1]
    [log] = (tmp_path / "data" / "projects" / project / "logs").glob("messages_*.jsonl")
    strange = [("client", {}), ("client", 5), ("server", 5), ("server", {"subtype": 5, "message": 5})]
    with log.open("a") as file:
        for seq, (direction, message) in enumerate(strange, last["seq"] + 1):
            file.write(json.dumps({**last, "seq": seq, "direction": direction, "message": message}) + "\n")
    async with serving(tmp_path) as server:
        (await server.running(phone, project)).ends()
        await settled()
        back = Client()
        await server.does(back, "project_join", project, after_seq=0)
        await until(lambda: back.seqs[-1:] == [len(records(server, project))])
        missing = set(range(1, len(records(server, project)) + 1)) - set(back.seqs)
        assert missing <= set(range(last["seq"] + 1, last["seq"] + 5))


async def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.ends()
        await settled()
        for path in [tmp_path / "data" / "projects" / project, *(tmp_path / "data" / "projects" / project).rglob("*")]:
            if not path.is_symlink():
                assert path.stat().st_mode & 0o077 == 0, path.name
