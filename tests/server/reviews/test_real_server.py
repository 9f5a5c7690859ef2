"""The review of a real server, with the demo agent and the real git, across ``kill -9``."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from drawbridge.core import launcher
from drawbridge.server.auth.audit import FILE
from tests import programs
from tests.nvim.rig import headless
from tests.server.checkpoints.rig import everything, git, make_project
from tests.server.processes import Server, serving
from tests.server.terminal_sessions.test_editor_reviews import asks, bridge
from tests.server.wire_client import WireClient
from tests.waiting import PATIENCE, until


async def a_run(client: WireClient, project: str) -> None:
    """Runs the demo agent and allows its request to change a file. Returns once the review is open."""
    await client.send("execute", {"prompt": "hello"}, project)
    asked = await client.receive("permission_request")
    answer = {"approval_id": asked["data"]["approval_id"], "decision": "allow"}
    await client.ask("permission_response", answer, project)
    await client.receive("update", "run_finished")
    changed = await client.receive("update", "review_changed")
    assert changed["data"]["data"]["state"] == "open"


async def killed(server: Server, client: WireClient) -> None:
    server.process.send_signal(signal.SIGKILL)
    await client.connection.wait_closed()
    await server.ended()


async def test_a_run_is_undone_after_the_server_was_killed(tmp_path: Path) -> None:
    directory = make_project(tmp_path / "code")
    before = everything(directory)
    options = ("--allow", directory, "--no-tls")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        project = created["project_id"]
        assert (await client.ask("review_get", {}, project))["data"]["state"] == "none"
        await a_run(client, project)
        review = (await client.ask("review_get", {}, project))["data"]
        assert review["state"] == "open"
        assert everything(directory) != before
        await killed(server, client)
    async with serving(tmp_path / "data", *options) as server, server.client() as client, server.client() as page:
        await page.ask("project_join", {}, project)
        assert (await client.ask("review_get", {}, project))["data"] == review
        (directory / "letter.txt").write_text("by a person\n")
        ids = [hunk["id"] for file in review["files"] for hunk in file["hunks"]]
        left = await client.ask("review_decide", {"hunks": ids, "decision": "undo"}, project)
        assert left["data"]["state"] == "none"
        decided = (await page.receive("update", "review_decided"))["data"]["data"]
        assert (decided["decision"], decided["hunks"], decided["left"]) == ("undo", len(ids), 0)
        assert (await page.receive("update", "review_changed", state="decided"))["data"]["data"]["by"] == decided["by"]
        refused = await page.ask("review_decide", {"hunks": ids[:1], "decision": "keep"}, project)
        assert refused["data"]["code"] == "HUNK_GONE"
        assert everything(directory) == before | {"letter.txt": b"by a person\n"}
        audit = (tmp_path / "data" / FILE).read_text()
        assert '"review_decided"' in audit


@pytest.mark.thorough
async def test_lists_show_what_a_run_changed_before_the_kill(tmp_path: Path) -> None:
    """Nobody has to open the review of a run that the end of the server interrupted."""
    directory = make_project(tmp_path / "code")
    options = ("--allow", directory, "--no-tls")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        project = created["project_id"]
        await client.send("execute", {"prompt": "hello"}, project)
        await client.receive("permission_request")
        (directory / "letter.txt").write_text("by the agent\n")
        await killed(server, client)
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        async with asyncio.timeout(PATIENCE):
            listed: dict[str, Any] = {}
            while (listed.get("review") or {}).get("files") != 1:
                await asyncio.sleep(0.05)
                [listed] = (await client.ask("project_list", {}))["data"]["projects"]


async def test_a_decision_in_an_editor_is_in_the_audit_log(tmp_path: Path) -> None:
    directory = make_project(tmp_path / "code")
    async with serving(tmp_path / "data", "--allow", directory, "--no-tls") as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        project = created["project_id"]
        await a_run(client, project)
        async with bridge() as neovim:
            hunk = (await asks(neovim, project=project))["review"]["files"][0]["hunks"][0]["id"]
            await asks(neovim, "review_decide", project=project, decision="keep", hunk=hunk)
        last = json.loads((server.data / FILE).read_text().splitlines()[-1])
        assert (last["event"], last["by"], last["project_id"]) == ("review_decided", "Neovim", project)


async def history(client: WireClient, project: str) -> list[dict[str, Any]]:
    """The messages of the project's first 1,000 records."""
    page = await client.ask("get_messages", {"after_seq": 0, "limit": 1000}, project)
    return [item["message"] for item in page["data"]["messages"]]


async def a_draft(client: WireClient, project: str) -> str:
    """Writes a draft on the first line of the first hunk. Returns its id."""
    review = (await client.ask("review_get", {}, project))["data"]
    file = next(file for file in review["files"] if file["hunks"] and file["hunks"][0]["added"])
    hunk = file["hunks"][0]
    quote = hunk["added"].splitlines(keepends=True)[0]
    about = {"path": file["path"], "line": hunk["new_start"], "quote": quote, "text": "Why?"}
    written = await client.ask("review_comment", about, project)
    return str(written["data"]["data"]["comment_id"])


async def begun_with_comments(client: WireClient, project: str) -> int:
    """The number of runs that were started by sending comments."""
    records = await history(client, project)
    given = {one["run_id"] for one in records if one.get("review")}
    return sum(1 for one in records if one.get("subtype") == "run_started" and one["message"]["run_id"] in given)


async def drafts_of(client: WireClient, project: str) -> str:
    return str((await client.ask("review_get", {}, project))["data"]["drafts"])


async def comment_of(client: WireClient, project: str) -> dict[str, Any]:
    (comment,) = (await client.ask("review_get", {}, project))["data"]["comments"]
    found: dict[str, Any] = comment
    return found


@pytest.mark.thorough
async def test_waiting_comments_are_drafts_after_a_kill(tmp_path: Path) -> None:
    directory = make_project(tmp_path / "code")
    options = ("--allow", directory, "--no-tls")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        project = created["project_id"]
        await a_run(client, project)
        id = await a_draft(client, project)
        await client.ask("execute", {"prompt": "/slow 600"}, project)
        drafts = await drafts_of(client, project)
        answer = await client.ask("review_submit", {"drafts": drafts}, project)
        assert answer["data"]["position"] == 1
        assert (await comment_of(client, project))["state"] == "sent"
        await killed(server, client)
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        comment = await comment_of(client, project)
        assert (comment["comment_id"], comment["text"], "state" in comment) == (id, "Why?", False)
        assert await begun_with_comments(client, project) == 0
        await client.ask("project_join", {}, project)
        await client.ask("review_submit", {"drafts": await drafts_of(client, project)}, project)
        await client.receive("update", "run_started")
        assert (await comment_of(client, project))["state"] == "sent"
        assert await begun_with_comments(client, project) == 1
        assert '"review_submitted"' in (tmp_path / "data" / FILE).read_text()


@pytest.mark.slow_for("0", "150", "2", "60")
@pytest.mark.thorough
@pytest.mark.parametrize("milliseconds", [0, 2, 20, 60, 150])
async def test_comments_are_sent_at_most_once_despite_a_kill(milliseconds: int, tmp_path: Path) -> None:
    """Whenever the server is killed, the comments are either drafts again or belong to the one run that they
    started.
    """
    directory = make_project(tmp_path / "code")
    options = ("--allow", directory, "--no-tls")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        project = created["project_id"]
        await a_run(client, project)
        await a_draft(client, project)
        drafts = await drafts_of(client, project)
        await client.send("review_submit", {"drafts": drafts}, project, "submit-1")
        await asyncio.sleep(milliseconds / 1000)  # the checks do not depend on the moment of the kill
        await killed(server, client)
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        comment = await comment_of(client, project)
        assert await begun_with_comments(client, project) == (1 if comment.get("state") == "sent" else 0)
        if "state" not in comment:
            await client.ask("project_join", {}, project)
            answer = await client.ask("review_submit", {"drafts": await drafts_of(client, project)}, project)
            assert answer["type"] == "accepted"
            await client.receive("update", "run_started")
            assert await begun_with_comments(client, project) == 1


@pytest.mark.thorough
async def test_a_push_ends_with_a_killed_server(tmp_path: Path) -> None:
    directory, remote, hooked = make_project(tmp_path / "code"), tmp_path / "remote.git", tmp_path / "hooked"
    git(directory, "init", "-q", "--bare", str(remote))
    git(directory, "remote", "add", "origin", str(remote))
    hook = directory / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ >{hooked}.new\nmv {hooked}.new {hooked}\nsleep 600\nsleep 600\n")
    hook.chmod(0o755)
    options = ("--allow", directory, "--no-tls", "--allow-push")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        offer = (await client.ask("review_get", {}, created["project_id"]))["data"]["push"]
        await client.send("review_push", {"version": offer["version"]}, created["project_id"])
        await until(hooked.exists, "the hook")
        await killed(server, client)
    process = int(hooked.read_text())
    await until(lambda: not psutil.pid_exists(process), "the end of the hook")
    assert git(remote, "for-each-ref") == ""


@pytest.mark.thorough
async def test_a_kill_during_a_commit_changes_nothing(tmp_path: Path) -> None:
    directory = make_project(tmp_path / "code")
    for name in ("name", "email"):
        git(directory, "config", f"user.{name}", "me@localhost")
    git(directory, "add", "-A")
    git(directory, "commit", "-qm", "mine")
    options = ("--allow", directory, "--no-tls", "--allow-commit")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        project = created["project_id"]
        await a_run(client, project)
        review = (await client.ask("review_get", {}, project))["data"]
        keep = {"all": True, "version": review["version"], "decision": "keep"}
        assert (await client.ask("review_decide", keep, project))["data"]["kept"]
        commit = {"message": "Kept", "branch": "new"}
        hook, begun = directory / ".git" / "hooks" / "pre-commit", tmp_path / "begun"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {begun}\nsleep 600\n")
        hook.chmod(0o755)
        lock = directory / ".git" / "index.lock"
        before = git(directory, "status", "--porcelain=2", "--branch"), git(directory, "branch", "--list")
        await client.send("review_commit", commit, project)
        await until(begun.exists, "the hook")
        assert lock.exists()
        await killed(server, client)
    await until(lambda: not lock.exists() and "new" not in git(directory, "branch", "--list"), "the end of git")
    assert (git(directory, "status", "--porcelain=2", "--branch"), git(directory, "branch", "--list")) == before
    hook.write_text("#!/bin/sh\nexit 0\n")
    async with serving(tmp_path / "data", *options) as server, server.client() as client:
        records = await history(client, project)
        [found] = [one["message"] for one in records if one.get("subtype") == "review_interrupted"]
        assert (found["decision"], found["result"]) == ("commit", "not_done")
        done = await client.ask("review_commit", commit, project)
        assert done["data"]["data"]["created"]
        assert '"review_committed"' in (tmp_path / "data" / FILE).read_text()


@pytest.mark.thorough
async def test_a_file_with_unsaved_changes_in_neovim_is_not_undone(home: Path) -> None:
    directory = make_project(home / "code")
    before = everything(directory)
    options = ("--allow", directory, "--no-tls")
    async with serving(home / "data", *options) as server, server.client() as client:
        created = await client.ask("project_create", {"path": str(directory), "agent": "demo", "join": True})
        project = created["project_id"]
        await a_run(client, project)
        (file,) = (await client.ask("review_get", {}, project))["data"]["files"]
        undo = {"hunks": [hunk["id"] for hunk in file["hunks"]], "decision": "undo"}
        async with headless(programs.nvim(), str(directory / file["path"])) as person:
            await person.lua(f"vim.fn.serverstart('{launcher.socket_prefix(str(directory))}{os.getpid()}.sock')")
            await person.lua("vim.api.nvim_buf_set_lines(0, 0, 0, false, { 'mine' })")
            refused = await client.ask("review_decide", undo, project)
            assert refused["data"]["code"] == "UNSAVED_CHANGES"
            assert "in Neovim." in refused["data"]["message"]
            assert everything(directory) != before
            await person.lua("vim.cmd('undo')")
            assert (await client.ask("review_decide", undo, project))["data"]["state"] == "none"
    assert everything(directory) == before
