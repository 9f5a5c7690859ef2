"""The allowed directories are checked at every run, not only when a project is created."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.directories.allowed_directories import GONE, IN_DATA, SILENT, AllowedDirectories
from drawbridge.server.sessions.directories.work_trees import is_elsewhere
from tests.server import processes
from tests.server.core_rig import Client, Server, records, serving, settled
from tests.waiting import PATIENCE, until


@contextlib.asynccontextmanager
async def narrowed(folder: Path) -> AsyncIterator[tuple[Server, str]]:
    """A server that allows only ``work/inside``, and a project of an earlier server that allowed all of ``work``."""
    async with serving(folder) as before:
        project = await before.project(Client(), "outside")
    async with serving(folder, root=folder / "work" / "inside") as server:
        yield server, project


async def problem_of(server: Server) -> str | None:
    """The problem that the list shows for its only project. None if it shows none."""
    [project] = (await server.does(Client(), "project_list"))["data"]["projects"]
    found: str | None = project.get("problem")
    return found


async def test_a_project_outside_the_allowed_directories_runs_nothing(tmp_path: Path) -> None:
    phone = Client()
    async with narrowed(tmp_path) as (server, project):
        with pytest.raises(ClientError, match="outside the directories") as refused:
            await server.does(phone, "execute", project, prompt="go")
        assert refused.value.code == "INVALID_PATH"
        assert server.agent.processes == []
        assert [one for one in records(server, project) if one["direction"] == "client"] == []


async def test_a_project_that_is_not_allowed_lists_its_problem(tmp_path: Path) -> None:
    """Clients see the problem in the list, when they join, and in the server's health. The history stays readable."""
    async with narrowed(tmp_path) as (server, project):
        assert "outside" in (await problem_of(server) or "")
        joined = await server.does(Client(), "project_join", project)
        assert "outside" in joined["data"]["data"]["problem"]
        assert [project in line for line in server.core.problems()] == [True]
        assert str(tmp_path) not in str(server.core.problems())
        assert (await server.does(Client(), "get_messages", project))["type"] == "message_history"
    async with serving(tmp_path) as again:
        assert await problem_of(again) is None
        (await again.running(Client(), project)).ends()


@pytest.mark.parametrize(
    ("command", "data"),
    [
        ("run_changes", {"run_id": "run_1"}),
        ("run_revert", {"run_id": "run_1"}),
        ("review_get", {}),
        ("review_decide", {"hunks": ["h"], "decision": "keep"}),
        ("review_comment", {"path": "a", "line": 1, "quote": "a", "text": "Why?"}),
        ("review_submit", {"drafts": "none"}),
        ("review_commit", {"message": "m"}),
        ("review_push", {"version": "v"}),
        ("session_list", {}),
        ("session_resume", {"session_id": "s"}),
        ("session_fork", {"session_id": "s"}),
        ("file_list", {}),
        ("file_read", {"path": "a"}),
        ("file_changes", {"path": "a"}),
    ],
)
async def test_nothing_is_read_or_changed_outside_the_roots(tmp_path: Path, command: str, data: dict[str, str]) -> None:
    async with narrowed(tmp_path) as (server, project):
        with pytest.raises(ClientError) as refused:
            await server.does(Client(), command, project, **data)
        assert refused.value.code == "INVALID_PATH"


async def test_a_directory_that_becomes_a_link_runs_nothing(tmp_path: Path) -> None:
    """No prompt is sent, even if the process of the previous run is still warm."""
    phone = Client()
    (tmp_path / "elsewhere").mkdir()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        (await server.running(phone, project)).ends()
        os.rename(server.root / "one", server.root / "moved")
        (server.root / "one").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(ClientError, match="outside the directories"):
            await server.does(phone, "execute", project, prompt="again")
        assert server.agent.latest.prompts == ["go"]
        assert len(server.agent.processes) == 1


async def test_a_waiting_run_fails_if_its_directory_becomes_a_link(tmp_path: Path) -> None:
    phone = Client()
    (tmp_path / "elsewhere").mkdir()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await server.running(phone, project)
        await server.does(phone, "execute", project, prompt="second")
        os.rename(server.root / "one", server.root / "moved")
        (server.root / "one").symlink_to(tmp_path / "elsewhere")
        first.ends()
        await settled(lambda: len(phone.updates("run_finished")) == 2)
        assert phone.updates("run_finished")[1]["code"] == "INVALID_PATH"
        assert len(server.agent.processes) == 1


async def test_a_run_that_starts_fails_if_its_directory_becomes_a_link(tmp_path: Path) -> None:
    phone = Client()
    (tmp_path / "elsewhere").mkdir()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(phone, "execute", project, prompt="go")  # the run has begun, but its process has not started
        assert next(iter(server.core.projects)).controller.run is not None
        os.rename(server.root / "one", server.root / "moved")
        (server.root / "one").symlink_to(tmp_path / "elsewhere")
        await settled(lambda: bool(phone.updates("run_finished")))
        assert phone.updates("run_finished")[0]["code"] == "INVALID_PATH"
        assert server.agent.processes == []


@pytest.mark.parametrize("as_what", ["nothing", "a file"])
async def test_a_deleted_directory_is_reported_at_the_next_run(tmp_path: Path, as_what: str) -> None:
    """The process of the previous run is still warm, in a directory that no longer exists."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        shutil.rmtree(server.root / "one")
        if as_what == "a file":
            (server.root / "one").write_text("")
        process.ends()
        await settled(turns=20)
        with pytest.raises(ClientError, match="does not exist") as refused:
            await server.does(phone, "execute", project, prompt="again")
        assert refused.value.code == "INVALID_PATH"
        assert process.prompts == ["go"]
        assert "does not exist" in phone.updates("project_state")[-1]["problem"]


async def test_a_recreated_directory_gets_a_new_process(tmp_path: Path) -> None:
    """The warm process still works in the original directory, which was renamed."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await server.running(phone, project)
        os.rename(server.root / "one", server.root / "old")
        (server.root / "one").mkdir()
        first.ends()
        await settled(turns=20)
        second = await server.running(phone, project, "again")
        assert (first.prompts, second.prompts) == (["go"], ["again"])
        assert second.launch.resume
        second.ends()


async def test_a_link_in_add_dirs_is_resolved_at_the_request(tmp_path: Path) -> None:
    """Pointing the link to another allowed directory while the run is queued has no effect."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        for name in ("first", "second"):
            (server.root / name).mkdir()
        link = server.root / "link"
        link.symlink_to(server.root / "first")
        before = await server.running(phone, project)
        await server.does(phone, "execute", project, prompt="waits", options={"add_dirs": [str(link)]})
        link.unlink()
        link.symlink_to(server.root / "second")
        before.ends()
        await settled(lambda: len(server.agent.processes) == 2)
        assert server.agent.latest.launch.options.add_dirs == (str((server.root / "first").resolve()),)
        await settled(lambda: bool(server.agent.latest.prompts))
        server.agent.latest.ends()


async def test_a_restart_with_narrower_roots_runs_nothing_outside(tmp_path: Path) -> None:
    """Uses the real server, and checks its messages to the owner and to a client."""
    (tmp_path / "work" / "inside").mkdir(parents=True)
    (tmp_path / "work" / "outside").mkdir()
    data = tmp_path / "data"
    async with processes.serving(data, "--no-tls", "--allow", tmp_path / "work") as server, server.client() as client:
        made = await client.ask("project_create", {"path": str(tmp_path / "work" / "outside"), "agent": "demo"})
    project = made["project_id"]
    async with processes.serving(data, "--no-tls", "--allow", tmp_path / "work" / "inside") as server:
        assert "outside the directories that the owner allows" in server.errors
        async with server.client() as client:
            answer = await client.ask("execute", {"prompt": "/quick"}, project)
            assert (answer["type"], answer["data"]["code"]) == ("error", "INVALID_PATH")
            health = (await client.ask("health_check"))["data"]
            assert health["status"] == "degraded"
            assert any(project in problem for problem in health["problems"])
            [listed] = (await client.ask("project_list"))["data"]["projects"]
            assert "--allow" in listed["problem"]
    assert (data / "projects" / project).is_dir()


def test_a_directorys_target_is_remembered_until_the_next_check(tmp_path: Path) -> None:
    directories = AllowedDirectories([tmp_path.resolve()], tmp_path / "data")
    at, elsewhere = tmp_path.resolve() / "at", tmp_path.resolve() / "elsewhere"
    at.mkdir()
    elsewhere.mkdir()
    assert (directories.leads_to(at), directories.last_problem(at)) == (at, None)
    at.rmdir()
    at.symlink_to(elsewhere)
    assert directories.leads_to(at) == at
    assert directories.problem(at) is None
    assert directories.leads_to(at) == elsewhere
    elsewhere.rmdir()
    assert directories.last_problem(at) is None
    assert directories.problem(at) == directories.last_problem(at) == GONE
    at.unlink()
    at.symlink_to(at)
    assert directories.problem(at) == GONE


async def test_an_unresponsive_disk_does_not_hide_other_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second project's directory is on such a disk."""
    monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", 0.5)  # long enough for the first project's disk
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4))
    asked, may_respond = threading.Event(), threading.Event()
    phone = Client()
    async with serving(tmp_path) as server:
        first = await server.project(phone)
        second = await server.project(phone, "two")
        silent, problem = server.root / "two", AllowedDirectories.problem

        def examined(directories: AllowedDirectories, path: Path) -> str | None:
            if path == silent:
                asked.set()
                may_respond.wait(PATIENCE)
            return problem(directories, path)

        monkeypatch.setattr(AllowedDirectories, "problem", examined)
        try:
            for _ in range(6):  # more often than there are threads
                listed = (await server.does(phone, "project_list"))["data"]["projects"]
                assert {one["id"]: one.get("problem") for one in listed} == {first: None, second: SILENT}
                with pytest.raises(ClientError, match="does not respond"):
                    await server.does(phone, "execute", second, prompt="go")
            with pytest.raises(ClientError, match="does not respond"):
                await server.does(phone, "review_get", second)
            assert phone.updates("review_changed") == []
            assert asked.is_set()
            (await server.running(phone, first)).ends()
        finally:
            may_respond.set()
        (await server.running(phone, second)).ends()


async def test_an_unexamined_directory_is_waited_for_only_briefly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that does not respond. The result counts as soon as there is one."""
    monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", 0.2)
    may_respond, problem = threading.Event(), AllowedDirectories.problem

    def examined(directories: AllowedDirectories, path: Path) -> str | None:
        may_respond.wait(PATIENCE)
        return problem(directories, path)

    monkeypatch.setattr(AllowedDirectories, "problem", examined)
    directories = AllowedDirectories([tmp_path], tmp_path / "data")
    assert (directories.last_problem(tmp_path), directories.leads_to(tmp_path)) == (SILENT, tmp_path)
    may_respond.set()
    await until(lambda: directories.last_problem(tmp_path) is None, "the disk")


def test_an_overlong_directory_name_does_not_fail_the_check(tmp_path: Path) -> None:
    """The check must not fail for such a name, because an agent may report any directory as its working directory."""
    assert not is_elsewhere(str(tmp_path / ("x" * 300)), tmp_path)
    assert is_elsewhere(str(tmp_path.parent / ("x" * 300)), tmp_path)


async def test_eight_silent_directories_leave_threads_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", 0.1)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(6))  # as on a machine with two cores
    may_respond, problem = threading.Event(), AllowedDirectories.problem

    def examined(directories: AllowedDirectories, path: Path) -> str | None:
        if path != tmp_path:
            may_respond.wait(PATIENCE)
        return problem(directories, path)

    monkeypatch.setattr(AllowedDirectories, "problem", examined)
    directories = AllowedDirectories([tmp_path], tmp_path / "data")
    silent = [tmp_path / str(number) for number in range(8)]
    try:
        assert await asyncio.gather(*map(directories.examine, silent)) == [SILENT] * 8
        await directories.examine_all(silent[:1])
        monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", PATIENCE)
        assert await directories.examine(tmp_path) is None
        async with asyncio.timeout(PATIENCE / 2):
            assert await asyncio.to_thread(str, "read") == "read"
    finally:
        may_respond.set()
    await until(lambda: not directories._examining, "the disks")


async def test_no_agent_runs_in_the_servers_data(tmp_path: Path) -> None:
    """Not even if a link leads there, whether one directory or all of them are examined."""
    data, other = tmp_path / "data", tmp_path / "database"
    for directory in (data / "inside", other):
        directory.mkdir(parents=True)
    (tmp_path / "link").symlink_to(data)
    for named in (data, tmp_path / "link"):
        directories = AllowedDirectories([tmp_path.resolve()], named)
        own = [data, data / "inside", tmp_path / "link", tmp_path / "link" / "inside"]
        await directories.examine_all([*own, other])
        assert [directories.last_problem(path) for path in (*own, other)] == [IN_DATA] * 4 + [None]
        assert [await directories.examine(path) for path in (*own, other)] == [IN_DATA] * 4 + [None]


def test_new_directories_are_examined_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server starts after one time limit, not after one for each directory."""
    monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", PATIENCE)
    together, problem = threading.Barrier(8), AllowedDirectories.problem

    def examined(directories: AllowedDirectories, path: Path) -> str | None:
        together.wait(PATIENCE)
        return problem(directories, path)

    monkeypatch.setattr(AllowedDirectories, "problem", examined)
    directories = AllowedDirectories([tmp_path], tmp_path / "data")
    new = [tmp_path / str(number) for number in range(8)]
    directories.examine_new(new)
    assert [directories.last_problem(path) for path in new] == [GONE] * 8


async def test_a_server_examines_its_projects_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        for name in ("one", "two", "three"):
            await server.project(phone, name)
    together, problem = threading.Barrier(3), AllowedDirectories.problem

    def examined(directories: AllowedDirectories, path: Path) -> str | None:
        together.wait(PATIENCE)
        return problem(directories, path)

    monkeypatch.setattr(AllowedDirectories, "problem", examined)
    monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", PATIENCE)
    async with serving(tmp_path) as server:
        monkeypatch.setattr(AllowedDirectories, "problem", problem)
        assert server.core.problems() == []
