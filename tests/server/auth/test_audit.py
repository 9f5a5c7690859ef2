"""The audit log records who connected, who was refused, and who ran and approved what. No client can change it, and it
contains no secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import multiprocessing
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw
from websockets.asyncio.client import connect

from drawbridge.agents.base import Proposal
from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.approvals.editors import Person
from drawbridge.server.auth import audit as audit_module
from drawbridge.server.auth.access import Access, OwnNames
from drawbridge.server.auth.audit import FILE, AuditLog
from drawbridge.server.auth.devices import TOKEN, Devices, new_code
from drawbridge.server.auth.entrance import CHANGES, CONNECTS, DENIALS, LIMITED_SECONDS, ClientLimits, Entrance
from drawbridge.server.events import Announced, Answered, ApprovalRequested, DecidedOnReview, RunContinued
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.replies import OK
from tests.server.auth import rig
from tests.server.auth.rig import Server
from tests.server.auth.test_command import drawbridge, made
from tests.server.auth.test_scopes import asking
from tests.server.processes import serving
from tests.server.wire_client import WireClient, connected
from tests.waiting import PATIENCE, until


def read(data: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (data / FILE).read_text().splitlines()]


def events(data: Path, *names: str) -> list[dict[str, Any]]:
    return [line for line in read(data) if line["event"] in names]


# what it contains


async def test_runs_and_approvals_are_audited_with_their_device(server: Server, owner: WireClient) -> None:
    async with asking(server, owner, "please change") as question, server.client(server.token("phone")) as phone:
        given = {"approval_id": question["data"]["approval_id"], "decision": "allow", "message": "a private word"}
        await phone.ask("permission_response", given, question["project_id"])
        await owner.receive("update", "run_finished")
    [ran] = events(server.data, "ran")
    assert ran["project_id"] == question["project_id"]
    assert ran["run_id"] == question["data"]["run_id"]
    [answered] = events(server.data, "answered")
    assert (answered["by"], answered["decision"]) == ("phone", "allow")
    assert answered["tool"] == question["data"]["tool_name"]
    assert answered["path"] == question["data"]["proposal"]["path"]
    assert answered["address"] == "127.0.0.1"
    assert answered["device_id"] == next(iter(server.devices)).id
    text = (server.data / FILE).read_text()
    for content in ("please change", "a private word", question["data"]["proposal"]["new_text"].strip()[-20:]):
        assert content not in text


async def test_changes_to_a_session_are_audited_with_its_id(server: Server, owner: WireClient) -> None:
    project = await server.project(owner)
    await owner.ask("project_join", project_id=project)
    await owner.ask("execute", {"prompt": "/quick"}, project)
    await owner.receive("update", "run_finished")
    [entry] = (await owner.ask("sessions", project_id=project))["data"]["sessions"]
    id = {"session_id": entry["session_id"]}
    for command in ("session_fork", "session_resume"):
        assert (await owner.ask(command, id, project))["type"] == "ok"
    for command, more in (("session_rename", {"name": "a private name"}), ("session_delete", {})):
        assert (await owner.ask(command, id | more, project))["type"] == "update"
    kinds = ("session_forked", "session_resumed", "session_renamed", "session_deleted")
    assert [[line["session_id"] for line in events(server.data, kind)] for kind in kinds] == [[entry["session_id"]]] * 4
    assert "a private name" not in (server.data / FILE).read_text()


def test_a_run_that_resumes_automatically_is_audited(tmp_path: Path) -> None:
    entrance = Entrance(Access(None, OwnNames(), secure=False), ClientLimits(), AuditLog(tmp_path))
    entrance.published(Announced("proj_1", Path("/code"), RunContinued("run_1", "phone")))
    [line] = events(tmp_path, "continued")
    assert (line["project_id"], line["run_id"], line["by"]) == ("proj_1", "run_1", "phone")


def test_a_decision_in_an_editor_is_audited(tmp_path: Path) -> None:
    """The line is like one for a client's decision, but has the editor's name. It contains no file contents."""
    entrance = Entrance(Access(None, OwnNames(), secure=False), ClientLimits(), AuditLog(tmp_path))
    asked = ApprovalRequested("perm_1", "run_1", "Write", Raw(b"{}"), Raw(b"[]"), Proposal("/code/a.py", "", "secret"))
    for done in (
        Answered(Person("Neovim").audited, asked, "allow", changed=True),
        DecidedOnReview(Person("VS Code").audited, "keep", hunks=2, files=1),
    ):
        entrance.published(Announced("proj_1", Path("/code"), done))
    first, second = read(tmp_path)
    assert first | {"time": ""} == {
        "time": "",
        "event": "answered",
        "by": "Neovim",
        "project_id": "proj_1",
        "approval_id": "perm_1",
        "decision": "allow",
        "changed": True,
        "tool": "Write",
        "path": "/code/a.py",
    }
    assert (second["event"], second["by"], second["decision"], second["hunks"]) == (
        "review_decided",
        "VS Code",
        "keep",
        2,
    )


async def test_connections_and_refusals_are_in_the_audit_log(server: Server) -> None:
    """Each entry contains the address and, if it is known, the device."""
    token = server.token("lost")
    async with server.client(token) as phone:
        await phone.ask("project_create", {"path": "/x"})
        server.devices.revoke("lost")
        await phone.close_code()
    for wrong in (token, "x" * 40):
        async with connect(server.url, proxy=None) as stranger:
            await stranger.send(json.dumps({"type": "auth", "data": {"token": wrong}}))
            await stranger.wait_closed()
    await until(lambda: events(server.data, "gone"))
    kept = [
        {name: line.get(name) for name in ("event", "by", "device", "code", "address")} for line in read(server.data)
    ]
    here = {"address": "127.0.0.1"}
    assert kept == [
        {"event": "connected", "by": "lost", "device": None, "code": None, **here},
        {"event": "denied", "by": "lost", "device": None, "code": "OUT_OF_SCOPE", **here},
        {"event": "dismissed", "by": "lost", "device": None, "code": "TOKEN_REVOKED", **here},
        {"event": "gone", "by": "lost", "device": None, "code": None, **here},
        {"event": "refused", "by": None, "device": "lost", "code": "TOKEN_REVOKED", **here},
        {"event": "refused", "by": None, "device": None, "code": "UNAUTHORIZED", **here},
    ]


async def test_a_client_is_dismissed_once_while_its_request_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request may take minutes, for example if it pushes a branch."""
    caplog.set_level("INFO", "drawbridge.server")
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waiting(*_: Any) -> Answer[Any]:
        begun.set()
        await go_on.wait()
        return OK

    rows = [msgspec.structs.replace(row, handler=waiting) if row.name == "health_check" else row for row in COMMANDS]
    async with rig.serving(tmp_path, rows=rows) as server:
        async with server.client(server.token("lost")) as phone:
            await phone.send("health_check", request_id="slow")
            async with asyncio.timeout(PATIENCE):
                await begun.wait()
            server.devices.revoke("lost")
            await phone.close_code()
            for _ in range(3):
                await server.clients.check()
            assert len(events(server.data, "dismissed")) == 1
            assert caplog.text.count("TOKEN_REVOKED") == 1
            go_on.set()
        await until(lambda: events(server.data, "gone"))


async def test_an_option_above_the_ceiling_is_audited(server: Server, owner: WireClient) -> None:
    project = await server.project(owner)
    await owner.ask("execute", {"prompt": "x", "options": {"dangerously_skip_permissions": True}}, project)
    [denied] = events(server.data, "denied")
    assert (denied["code"], denied["command"]) == ("PERMISSION_DENIED", "execute")
    assert denied["field"] == "data.options.dangerously_skip_permissions"


def test_the_owners_commands_are_audited(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made(data, "phone")
    drawbridge("token", "revoke", "phone", "--data-dir", data)
    assert [(line["event"], line["device"]) for line in read(data)] == [
        ("token_made", "phone"),
        ("token_revoked", "phone"),
    ]
    assert (data / FILE).stat().st_mode & 0o777 == 0o600


def test_every_command_that_changes_something_is_audited() -> None:
    only_read = {row.name for row in COMMANDS if row.scope == "view"}
    of_others = {"blob_put", "session_list", "dir_list", "place_list", "device_list"}
    audited = {row.name for row in COMMANDS if row.audit is not None}
    assert audited == {row.name for row in COMMANDS} - only_read - of_others


def test_the_docs_list_the_event_of_each_command() -> None:
    page = (Path(__file__).parents[3] / "docs" / "access.md").read_text()
    audited = {row.audit.event for row in COMMANDS if row.audit is not None}
    assert {event for event in audited if f"`{event}`" not in page} == set()


# the file


def test_a_full_file_is_rotated_and_the_oldest_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "FILE_BYTES", 300)
    monkeypatch.setattr(audit_module, "FILES_KEPT", 3)
    audit = AuditLog(tmp_path)
    for number in range(40):
        audit.write("numbered", number=number)
    files = [tmp_path / FILE, *(tmp_path / f"{FILE}.{number}" for number in (1, 2, 3))]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    kept = [json.loads(line)["number"] for file in reversed(files) for line in file.read_text().splitlines()]
    assert kept == list(range(kept[0], 40))
    assert all(file.stat().st_size <= 300 and file.stat().st_mode & 0o777 == 0o600 for file in files)


def _write_many(directory: Path, who: int) -> None:
    for number in range(200):
        AuditLog(directory).write("written", who=who, number=number)


def test_no_line_is_lost_or_torn_with_several_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "FILE_BYTES", 20_000)
    monkeypatch.setattr(audit_module, "FILES_KEPT", 100)
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_many, args=(tmp_path, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(PATIENCE)
        assert writer.exitcode == 0
    found = [json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines()]
    assert {(line["who"], line["number"]) for line in found} == {(who, n) for who in range(3) for n in range(200)}
    assert len(found) == 600


def test_a_failed_write_is_logged_and_not_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).mkdir()
    AuditLog(tmp_path).write("connected", by="phone")
    assert "the audit log can't be written" in caplog.text
    assert "phone" in caplog.text


async def test_clients_are_answered_while_the_audit_log_is_locked(tmp_path: Path) -> None:
    """The lock is another process's. Each entry is written in its turn once the lock is released."""
    async with serving(tmp_path / "data", "--allow", tmp_path) as server, server.client() as owner:
        async with locked(server.data / FILE):
            for number in range(3):
                (tmp_path / f"{number}").mkdir()
                await owner.ask("project_create", {"path": str(tmp_path / f"{number}"), "agent": "demo"})
            assert events(server.data, "project_created") == []
        await until(lambda: len(events(server.data, "project_created")) == 3)
        found = await owner.ask("project_list")
        created = [one["id"] for one in sorted(found["data"]["projects"], key=lambda one: str(one["path"]))]
        assert [entry["project_id"] for entry in events(server.data, "project_created")] == created


async def test_a_server_ends_while_the_audit_log_is_locked(tmp_path: Path) -> None:
    """The entries that could not be written are in the server's log."""
    (tmp_path / "code").mkdir()
    async with (
        serving(tmp_path / "data", "--allow", tmp_path) as server,
        server.client() as owner,
        locked(server.data / FILE),
    ):
        await owner.ask("project_create", {"path": str(tmp_path / "code"), "agent": "demo"})
        code, errors = await server.end()
    assert code == 0
    assert "the audit log can't be written (it is locked by another process)" in errors
    assert '"event":"project_created"' in errors


@contextlib.asynccontextmanager
async def locked(path: Path) -> AsyncIterator[None]:
    """Another process holds the lock of the file during the block."""
    code = "import fcntl, sys; held = open(sys.argv[1]); fcntl.flock(held, fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path), stdin=pipe, stdout=pipe)
    assert holder.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            await holder.stdout.readline()
        yield
    finally:
        await holder.communicate(b"")  # which ends it


def test_an_entry_that_no_longer_fits_leaves_no_fragment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk, the first part of a line is written before the write fails."""
    real = os.write
    written: list[int] = []

    def filling(file: int, data: Any) -> int:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(real(file, data[:10]))
        return written[0]

    audit = AuditLog(tmp_path)
    audit.write("connected", by="before")
    with monkeypatch.context() as full:
        full.setattr(os, "write", filling)
        audit.write("connected", by="lost")
    audit.write("connected", by="after")
    assert [line["by"] for line in read(tmp_path)] == ["before", "after"]
    assert "the audit log can't be written" in caplog.text


def test_long_values_of_clients_are_written_as_one_short_line(tmp_path: Path) -> None:
    AuditLog(tmp_path).write("refused", by="x\n" * 1_000)
    assert len((tmp_path / FILE).read_bytes().splitlines()) == 1
    assert len(read(tmp_path)[0]["by"]) == 300


def test_a_device_needs_hours_to_push_out_older_audit_lines(tmp_path: Path) -> None:
    """Even lines with the longest device and file names take hours to fill all of the audit log's files."""
    far = {"by": "\U0001f30d" * 60, "path": "€" * 4_096, "device_id": "f2b7c0cd", "client": "client_12345678_100"}
    ids = {
        "project_id": "proj_1000",
        "approval_id": "appr_1000",
        "decision": "allow",
        "address": "2001:db8::" + "1" * 28,
    }
    AuditLog(tmp_path).write("answered", tool="MultiEdit", **far, **ids)
    longest = (tmp_path / FILE).stat().st_size
    # A connection writes two lines. Commands, prompts, denials and connections are limited, and each limit writes its
    # own line when it is reached.
    lines_a_second = CHANGES[1] + ClientLimits().prompts / 60 + 2 * CONNECTS[1] + DENIALS[1] + 4 / LIMITED_SECONDS
    seconds = (audit_module.FILES_KEPT + 1) * audit_module.FILE_BYTES / (lines_a_second * longest)
    assert seconds > 4 * 3_600


async def test_the_data_directory_cannot_become_a_project(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--allow", tmp_path) as server, server.client() as owner:
        (tmp_path / "code").mkdir()
        (tmp_path / "link").symlink_to(server.data)
        for path in (server.data, server.data / "projects", tmp_path / "link"):
            refused = await owner.ask("project_create", {"path": str(path), "agent": "demo"})
            assert refused["data"]["code"] == "INVALID_PATH"
        project = (await owner.ask("project_create", {"path": str(tmp_path / "code"), "agent": "demo"}))["project_id"]
        beside = {"prompt": "/quick", "options": {"add_dirs": [str(server.data)]}}
        assert (await owner.ask("execute", beside, project))["data"]["code"] == "INVALID_PATH"


# secrets


async def test_no_secret_is_in_the_log_the_audit_log_or_an_error(tmp_path: Path) -> None:
    """Uses known secrets wherever a client or a command needs one, at the most verbose log level. The log, the audit
    log and the errors contain none of them.
    """
    data, code = tmp_path / "data", tmp_path / "roots" / "code"
    code.mkdir(parents=True)
    arguments = ("--allow", code.parent, "--log-level", "debug", "--log-format", "json")
    async with serving(data, *arguments) as server:
        token = await asyncio.to_thread(made, data, "phone", "--scope", "admin")
        pairing_code = new_code(Devices(data), "view")
        received = []
        async with connected(server.url, tls=server.tls) as new:
            paired = (await new.ask("pair", {"code": pairing_code, "name": "pad"}))["data"]["token"]
        for first in (
            {"type": "pair", "data": {"code": pairing_code}},
            {"type": "auth", "data": {"token": token[:-1]}},
        ):
            async with connect(server.url, ssl=server.tls, proxy=None) as stranger:
                await stranger.send(json.dumps(first))
                received.append(str(await stranger.recv()))
        async with server.client() as owner, connected(server.url, token, server.tls) as phone:
            received.append(json.dumps(await owner.ask("auth", {"token": token})))
            await phone.ask("auth", {"token": token})
            project = (await phone.ask("project_create", {"path": str(code), "agent": "demo"}))["project_id"]
            await phone.ask("project_join", project_id=project)
            await phone.ask("execute", {"prompt": "/quick the-prompt-is-mine"}, project)
            await phone.receive("update", "run_finished")
            await asyncio.to_thread(drawbridge, "token", "revoke", "phone", "--data-dir", data)
            await phone.close_code()
        await server.end()
        written = {"log": server.errors, "audit": (data / FILE).read_text(), "errors": "\n".join(received)}
        assert all(written.values())
        secrets = [server.token, token, paired, pairing_code, pairing_code.replace("-", ""), "the-prompt-is-mine"]
        for one in (token, paired):
            parts = TOKEN.fullmatch(one)
            assert parts is not None
            secrets += [parts[2], parts[2][:12], parts[2][-12:]]
        for where, text in written.items():
            assert [secret for secret in secrets if secret in text] == [], where


def test_a_link_instead_of_the_audit_log_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise, anyone who can create a link there could make the server write to any of the owner's files."""
    (tmp_path / "notes").write_text("mine\n")
    (tmp_path / FILE).symlink_to(tmp_path / "notes")
    AuditLog(tmp_path).write("connected", by="Ada")
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).symlink_to(tmp_path / "not-there")
    AuditLog(tmp_path).write("connected", by="Ada")
    assert (tmp_path / "notes").read_text() == "mine\n"
    assert not (tmp_path / "not-there").exists()
    assert caplog.text.count("the audit log can't be written") == 2
    assert '"by":"Ada"' in caplog.text
