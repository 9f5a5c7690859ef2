"""A client sees what a run changed, and can revert these changes."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import DirectoryChanged, TurnBegun
from drawbridge.server.checkpoints import filters
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.options.ceilings import Ceilings
from drawbridge.server.sessions.options.limits import Limits
from tests import programs
from tests.server.checkpoints.rig import git
from tests.server.core_rig import Client, Process, Server, records, serving, settled
from tests.waiting import until


def make_repository(directory: Path) -> None:
    directory.mkdir()
    subprocess.run([programs.git(), "init", "-q"], cwd=directory, check=True)
    (directory / "poem.txt").write_text("one\n")


async def a_run(server: Server, phone: Client, *, line: str) -> tuple[str, str]:
    """Runs an agent that adds a line to poem.txt. Returns the ids of the project and the run."""
    directory = server.root / "one"
    if not directory.exists():
        make_repository(directory)
        await server.does(phone, "project_create", path=str(directory), join=True)
    (project,) = [one.id for one in server.core.projects]
    ended = len(phone.updates("run_finished"))
    run = (await server.does(phone, "execute", project, prompt="go"))["data"]["run_id"]
    prompts = ended + 1
    await until(lambda: sum(len(process.prompts) for process in server.agent.processes) == prompts, "the prompt")
    with (directory / "poem.txt").open("a") as poem:
        poem.write(line)
    server.agent.latest.ends()
    await until(lambda: len(phone.updates("run_finished")) == prompts, "the end of the run")
    await server.core.projects.get(project).tasks.wait()
    return project, run


async def test_a_run_is_reverted_for_all_clients(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path, Limits()) as server:
        project, run = await a_run(server, phone, line="two\n")
        await server.does(page, "project_join", project)
        changes = (await server.does(page, "run_changes", project, run_id=run))["data"]
        assert changes["files"] == [{"path": "poem.txt", "change": "changed"}]
        assert "+two\n" in changes["diff"]
        await server.does(phone, "run_revert", project, run_id=run)
        assert (server.root / "one" / "poem.txt").read_text() == "one\n"
        (reverted,) = page.updates("run_reverted")
        assert (reverted["run_id"], reverted["by"], reverted["client_id"]) == (run, "phone", phone.id)


async def test_changes_between_runs_are_not_part_of_a_run(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits()) as server:
        project, first = await a_run(server, phone, line="two\n")
        (server.root / "one" / "mine.txt").write_text("mine\n")
        project, second = await a_run(server, phone, line="three\n")
        files = [
            (await server.does(phone, "run_changes", project, run_id=run))["data"]["files"] for run in (first, second)
        ]
        assert files == [[{"path": "poem.txt", "change": "changed"}]] * 2


async def test_lines_changed_since_the_run_are_not_reverted(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits()) as server:
        project, run = await a_run(server, phone, line="two\n")
        (server.root / "one" / "poem.txt").write_text("one\nmine\n")
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "run_revert", project, run_id=run)
        assert (refused.value.code, refused.value.details) == (
            "CHANGED_SINCE",
            {"paths": ("poem.txt",), "lines": {"poem.txt": 2}},
        )
        assert (server.root / "one" / "poem.txt").read_text() == "one\nmine\n"


async def test_nothing_is_reverted_while_the_agent_works(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits()) as server:
        project, run = await a_run(server, phone, line="two\n")
        await server.does(phone, "execute", project, prompt="go")
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "run_revert", project, run_id=run)
        assert refused.value.code == "PROCESS_ACTIVE"
        assert (server.root / "one" / "poem.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("what", ["project_delete", "agent_new_session", "run_revert"])
async def test_a_revert_blocks_other_changes_to_the_project(what: str, tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path, Limits()) as server:
        project, run = await a_run(server, phone, line="two\n")
        taking_back = asyncio.create_task(server.does(phone, "run_revert", project, run_id=run))
        await until(server.core.projects.get(project)._changing.locked, "the revert")
        with pytest.raises(ClientError) as refused:
            await server.does(page, what, project, **({"run_id": run} if what == "run_revert" else {}))
        assert (refused.value.code, refused.value.retryable) == ("PROCESS_ACTIVE", True)
        await taking_back
        assert (server.root / "one" / "poem.txt").read_text() == "one\n"
        assert len(phone.of_type("run_reverted") + phone.updates("run_reverted")) == 1
        await server.does(page, "project_delete", project)


async def test_a_run_ended_by_the_server_can_be_reverted_later(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits()) as server:
        project, _ = await a_run(server, phone, line="two\n")
        last = (await server.does(phone, "execute", project, prompt="go"))["data"]["run_id"]
        await until(lambda: len(server.agent.latest.prompts) == 2, "the prompt")
        with (server.root / "one" / "poem.txt").open("a") as poem:
            poem.write("three\n")
    async with serving(tmp_path, Limits()) as server:
        await server.does(phone, "run_revert", project, run_id=last)
        assert (server.root / "one" / "poem.txt").read_text() == "one\ntwo\n"


async def test_the_server_does_not_stop_during_a_revert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, git would be killed together with the server, and only some of the files would be reverted."""
    phone, begun, run_git = Client(), asyncio.Event(), Git.run

    async def slowly(git: Git, *words: str, **more: Any) -> Any:
        if words[0] == "apply":
            begun.set()
            await settled()
        return await run_git(git, *words, **more)

    async with serving(tmp_path, Limits()) as server:
        project, run = await a_run(server, phone, line="two\n")
        monkeypatch.setattr(Git, "run", slowly)
        taking_back = asyncio.create_task(server.does(phone, "run_revert", project, run_id=run))
        await begun.wait()
        await server.core.close("the server is ending")
        assert (server.root / "one" / "poem.txt").read_text() == "one\n"
        assert (await taking_back)["data"]["update_type"] == "run_reverted"
        assert [one for one in records(server, project) if one["message"].get("subtype") == "run_reverted"]


async def test_a_ceiling_applies_to_a_clients_options(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        server.core.grants.ceilings = Ceilings(max_turns=3)
        project = await server.project(phone)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="go", options={"dangerously_skip_permissions": True})
        assert (refused.value.code, refused.value.field) == (
            "PERMISSION_DENIED", "data.options.dangerously_skip_permissions"
        )  # fmt: skip
        with pytest.raises(ClientError):
            await server.does(phone, "set_mode", project, mode="bypassPermissions")
        assert server.agent.processes == []
        process = await server.running(phone, project)
        assert process.launch.options.max_turns == 3
        process.ends()


async def test_a_full_disk_is_reported_for_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    phone = Client()
    async with serving(tmp_path, Limits()) as server:
        project, run = await a_run(server, phone, line="two\n")
        monkeypatch.setattr("tempfile.gettempdir", no_room)
        for what in ("run_changes", "run_revert"):
            with pytest.raises(ClientError) as refused:
                await server.does(phone, what, project, run_id=run)
            assert refused.value.code == "CHECKPOINT_NOT_FOUND"
            assert "No space left on device" in caplog.text
        assert (server.root / "one" / "poem.txt").read_text() == "one\ntwo\n"


async def test_a_large_file_with_a_filter_is_named_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "FILTERED_BYTES", 0)
    phone = Client()
    async with serving(tmp_path, Limits()) as server:
        directory = server.root / "one"
        make_repository(directory)
        (directory / ".gitattributes").write_text("*.txt filter=lfs\n")
        os.utime(directory / "poem.txt", (1, 1))
        git(directory, "add", ".")
        await server.does(phone, "project_create", path=str(directory), join=True)
        project, run = await a_run(server, phone, line="two\n")
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "run_revert", project, run_id=run)
        assert (refused.value.code, "poem.txt" in refused.value.text) == ("CHECKPOINT_NOT_FOUND", True)
        assert (directory / "poem.txt").read_text() == "one\ntwo\n"


async def test_a_run_in_another_work_tree_is_marked(tmp_path: Path) -> None:
    """The changes of such a run are not in the project. Without the mark, the run would appear to have made none."""
    phone = Client()
    async with serving(tmp_path, Limits()) as server:
        project, before = await a_run(server, phone, line="two\n")
        worktree = server.root / "one" / ".claude" / "worktrees" / "fix"
        worktree.mkdir(parents=True)
        (worktree / ".git").write_text("gitdir: elsewhere")
        process = server.agent.latest
        process.emit(DirectoryChanged(str(worktree)))
        _, inside = await a_run(server, phone, line="")
        process.emit(DirectoryChanged(str(server.root / "one" / "src")))
        _, after = await a_run(server, phone, line="")

        async def directory(run: str) -> str | None:
            changes = (await server.does(phone, "run_changes", project, run_id=run))["data"]
            found: str | None = changes.get("directory")
            return found

        assert [await directory(run) for run in (before, inside, after)] == [None, str(worktree), None]
        assert [run.get("directory") for run in phone.updates("run_finished")] == [None, str(worktree), None]


async def idle_in_a_worktree(server: Server, client: Client, project: str) -> tuple[Process, str]:
    """Runs an agent that switches to another work tree. Returns its process, which is idle by then, and the directory
    of the work tree.
    """
    worktree = server.root / "one" / ".claude" / "worktrees" / "fix"
    worktree.mkdir(parents=True)
    (worktree / ".git").write_text("gitdir: elsewhere")
    process = await server.running(client, project)
    process.emit(DirectoryChanged(str(worktree)))
    process.ends()
    await settled()
    return process, str(worktree)


@pytest.mark.parametrize("end", ["killed", "crashed", "timed out"])
async def test_a_run_that_fails_in_another_work_tree_is_marked(tmp_path: Path, end: str) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process, worktree = await idle_in_a_worktree(server, phone, project)
        if end == "timed out":
            server.core.processes.limits = Limits(checkpoints=False, idle_seconds=0.01)
        await server.running(phone, project)
        if end == "killed":
            await server.does(phone, "agent_kill", project)
        elif end == "crashed":
            process.exit(1, "Out of memory")
        await until(lambda: len(phone.updates("run_finished")) == 2, "the end of the run")
        assert [run["directory"] for run in phone.updates("run_finished")] == [worktree] * 2


async def test_an_agents_own_run_in_another_work_tree_is_marked(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process, worktree = await idle_in_a_worktree(server, phone, project)
        process.emit(TurnBegun())
        process.exit(1, "Out of memory")
        assert [run["directory"] for run in phone.updates("run_finished")] == [worktree] * 2


async def test_a_refused_run_is_not_marked(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path, Limits(checkpoints=False, runs_at_once=1)) as server:
        project = await server.project(phone)
        await idle_in_a_worktree(server, phone, project)
        other = await server.running(phone, await server.project(phone, "two"))
        await server.does(phone, "execute", project, prompt="go", options={"permission_mode": "acceptEdits"})
        server.core.grants.ceilings = Ceilings(modes=("default",))
        other.ends()
        await until(lambda: len(phone.updates("run_finished")) == 3, "the end of the run that is refused")
        refused = phone.updates("run_finished")[-1]
        assert (refused["code"], refused.get("directory")) == ("PERMISSION_DENIED", None)
