"""What happens while a request is still being handled: other requests, other runs, and the end of the server."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import TurnEnded
from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.app.outbox import Writers
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.directories.allowed_directories import AllowedDirectories
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.sessions.projects import Projects
from drawbridge.server.sessions.runs import continuing
from drawbridge.server.store.log import History
from tests.server.core_rig import Client, Process, Server, records, serving, settled
from tests.waiting import PATIENCE, until


async def at_rest(server: Server, phone: Client, project: str) -> Process:
    """An idle process whose first run has ended."""
    process = await server.running(phone, project)
    process.ends()
    await settled(lambda: not server.core.projects.get(project).controller.busy)
    return process


def answers_late(process: Process, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Makes the agent confirm a change of its mode or model only once the returned event is set."""
    answer = asyncio.Event()

    def slow(name: str) -> None:
        tell = getattr(process, name)

        async def slowly(value: str) -> None:
            await answer.wait()
            await tell(value)

        monkeypatch.setattr(process, name, slowly)

    slow("set_mode")
    slow("set_model")
    return answer


def outcomes(server: Server, project: str) -> list[str]:
    """The outcomes of all runs in the history."""
    messages = [one["message"] for one in records(server, project) if one["direction"] == "server"]
    return [one["message"]["outcome"] for one in messages if one["subtype"] == "run_finished"]


# an agent's options


async def test_a_mode_and_a_model_chosen_together_both_apply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await at_rest(server, phone, project)
        answer = answers_late(process, monkeypatch)
        mode = asyncio.create_task(server.does(phone, "set_mode", project, mode="plan"))
        model = asyncio.create_task(server.does(page, "set_model", project, model="haiku"))
        await settled()
        answer.set()
        await asyncio.gather(mode, model)
        assert process.modes == ["plan", "haiku"]
        await server.does(phone, "agent_new_session", project)
        options = (await server.running(phone, project)).launch.options
        assert (options.permission_mode, options.model) == ("plan", "haiku")


async def test_a_late_choice_applies_only_to_later_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice applies to the processes that start after the request was answered."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.does(phone, "set_model", project, model="haiku")
        await server.does(phone, "execute", project, prompt="go", options={"model": "opus"})
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        process = server.agent.latest
        process.ends()
        answer = answers_late(process, monkeypatch)
        mode = asyncio.create_task(server.does(phone, "set_mode", project, mode="plan"))
        await settled()
        await server.does(phone, "agent_new_session", project)
        later = await server.running(phone, project, "later")
        answer.set()
        await mode
        assert later.launch.options.permission_mode is None
        later.ends()
        last = await server.running(phone, project, "last")
        assert (last.launch.options.permission_mode, last.launch.options.model) == ("plan", "haiku")


async def test_a_mode_chosen_during_a_start_reaches_the_agent(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.starting(phone, project)
        mode = asyncio.create_task(server.does(phone, "set_mode", project, mode="plan"))
        await settled()
        server.agent.may_start.set()
        await mode
        assert (server.agent.latest.prompts, server.agent.latest.modes) == (["go"], ["plan"])


async def test_a_mode_chosen_during_the_directory_check_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's process does not exist yet, and its options have been fixed."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        examining, may_end, problem = threading.Event(), threading.Event(), AllowedDirectories.problem

        def examined(own: AllowedDirectories, path: Path) -> str | None:
            if server.core.projects.get(project).controller.run is not None:
                examining.set()
                may_end.wait(PATIENCE)
            return problem(own, path)

        monkeypatch.setattr(allowed_directories, "EXAMINING_SECONDS", PATIENCE)
        monkeypatch.setattr(AllowedDirectories, "problem", examined)
        await server.does(phone, "execute", project, prompt="go")
        await until(examining.is_set)
        mode = asyncio.create_task(server.does(phone, "set_mode", project, mode="plan"))
        await settled()
        may_end.set()
        await mode
        await until(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        assert (server.agent.latest.prompts, server.agent.latest.modes) == (["go"], ["plan"])


# the end of the server


async def test_stopping_the_server_does_not_start_waiting_runs(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(runs_at_once=1, checkpoints=False)) as server:
        first, second, third = [await server.project(phone, name) for name in ("one", "two", "three")]
        for project in (first, second, third):
            await server.starting(phone, project)
    assert [outcomes(server, project) for project in (first, second, third)] == [["interrupted"]] * 3
    assert [one["run_id"] for one in phone.updates("run_started")] == phone_runs(phone)[:1]


def phone_runs(phone: Client) -> list[str]:
    return [one["data"]["run_id"] for one in phone.of_type("accepted")]


async def test_stopping_the_server_interrupts_waiting_and_active_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(runs_at_once=1, checkpoints=False)) as server:
        first, second = await server.project(phone, "one"), await server.project(phone, "two")
        await server.running(phone, first)
        await server.does(phone, "execute", second, prompt="go")
        await settled()
    assert [outcomes(server, project) for project in (first, second)] == [["interrupted"]] * 2
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("how", ["the server ends", "the project is deleted"])
async def test_an_idle_process_that_does_not_stop_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """An idle process is being stopped, but does not end until it is killed."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await at_rest(server, phone, project)
        monkeypatch.setattr(process, "stop", asyncio.Event().wait)
        new_session = asyncio.create_task(server.does(phone, "agent_new_session", project))
        await settled()
        if how == "the server ends":
            await server.core.close("the server is ending")
        else:
            await server.does(phone, "project_delete", project)
        assert process.ended
        new_session.cancel()
        await asyncio.gather(new_session, return_exceptions=True)


# runs that resume automatically


def limited(process: Process, retry_at: float) -> None:
    process.turn_open = False
    process.emit(TurnEnded(ok=False, error="limit reached", code="AGENT_RATE_LIMITED", retry_at=retry_at))


async def test_a_resumed_run_that_cannot_be_stored_is_retried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phone = Client()
    monkeypatch.setattr(continuing, "CHECK_SECONDS", 0.005)
    monkeypatch.setattr(continuing, "REFUSED_SECONDS", 0.005)
    limits = Limits(checkpoints=False, continue_limited=True, runs_at_once=1)
    async with serving(tmp_path, limits) as server:
        project, other = await server.project(phone), await server.project(phone, "two")
        process, append = await server.running(phone, project), History.append
        full = True

        def refused(history: History, direction: Any, *message: Any, **options: Any) -> Any:
            if full and direction == "client":
                raise HistoryNotWritten("The disk is full.", disk_full=True)
            return append(history, direction, *message, **options)

        monkeypatch.setattr(History, "append", refused)
        limited(process, 1.0)
        full = False
        assert await server.running(phone, other), "the slot was given back"
        server.agent.latest.ends()
        await until(lambda: len(process.prompts) == 2, "the run resumes")


# projects that could not be read at the start


@contextlib.asynccontextmanager
async def read_again(
    tmp_path: Path, meanwhile: Callable[[Server], object] = lambda server: None, **waiting: Any
) -> AsyncIterator[tuple[Server, str]]:
    """The server that follows one killed during a run, and the id of the project. The server couldn't read the project
    when it started, but has read it since. ``meanwhile`` is called after the project was read and before it is added;
    ``waiting`` is added to the project's metadata.
    """
    data, phone = tmp_path / "data", Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        await server.running(phone, project)
        shutil.copytree(data, tmp_path / "as-it-was", symlinks=True)
    shutil.rmtree(data)
    (tmp_path / "as-it-was").rename(data)
    path = data / "projects" / project / metadata.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **waiting}))

    # The real `Writers` fail outside of the event loop's thread, where sockets must not be used.
    later = Server(tmp_path, Limits(checkpoints=False, continue_limited=True), writers=Writers())
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(metadata, "load", unreadable)
        await later.core.open()
    assert not list(later.core.projects)
    load = Projects._load

    def loaded(projects: Projects, directory: Path, others: Any) -> Any:
        found = load(projects, directory, others)
        asyncio.run_coroutine_threadsafe(called(lambda: meanwhile(later)), loop).result()
        return found

    try:
        loop = asyncio.get_running_loop()
        with pytest.MonkeyPatch.context() as watched:
            watched.setattr(Projects, "_load", loaded)
            await later.core.maintenance.check()
        yield later, project
    finally:
        await later.core.close("the server is ending")


async def called(act: Callable[[], object]) -> None:
    done = act()
    if inspect.isawaitable(done):
        await done


def unreadable(directory: Path) -> metadata.Metadata:
    raise metadata.Unreadable("permission denied")


async def test_a_project_read_later_interrupts_its_unfinished_run(tmp_path: Path) -> None:
    async with read_again(tmp_path) as (server, project):
        assert server.core.projects.get(project).state == "IDLE"
        assert outcomes(server, project) == ["interrupted"]


async def test_a_project_read_later_resumes_its_waiting_run(tmp_path: Path) -> None:
    async with read_again(tmp_path, waiting={"at": 1.0, "prompt": "go", "by": "phone"}) as (server, _):
        await settled(lambda: bool(server.agent.processes and server.agent.latest.prompts))
        assert server.agent.latest.prompts[0].endswith("go")


async def test_a_project_read_later_does_not_replace_a_new_one(tmp_path: Path) -> None:
    async with read_again(tmp_path, lambda server: server.core.projects.create(str(server.root / "one"), None)) as (
        server,
        project,
    ):
        (made,) = server.core.projects
        assert made.id != project
        assert (server.folder / "data" / "projects" / project).exists(), "its history is left as it is"


@pytest.mark.parametrize("ends", [False, True], ids=["it is replaced", "it ends"])
async def test_a_question_of_an_earlier_process_is_withdrawn_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """An idle process asks while the next run is starting with another process, so no answer could reach the one that
    asked."""
    async with serving(tmp_path) as server:
        phone = Client()
        project = await server.project(phone)
        idle = await at_rest(server, phone, project)
        begins = asyncio.Event()
        check = server.core.processes.check_directories

        async def later(directory: str, options: Any) -> None:
            await begins.wait()
            await check(directory, options)

        monkeypatch.setattr(server.core.processes, "check_directories", later)
        await server.does(phone, "execute", project, prompt="go on", options={"model": "another"})
        idle.asks("q1")
        (question,) = phone.of_type("permission_request")
        if ends:
            idle.exit(1)
        begins.set()
        await until(lambda: server.agent.latest is not idle, "the next process")
        (withdrawn,) = phone.updates("permission_withdrawn")
        assert withdrawn["approval_id"] == question["data"]["approval_id"]
        with pytest.raises(ClientError) as refused:
            await server.does(
                phone, "permission_response", project, approval_id=withdrawn["approval_id"], decision="allow"
            )
        assert refused.value.code == "APPROVAL_RESOLVED"
        assert idle.answers == []
