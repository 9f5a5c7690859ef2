"""A full, read-only, or inaccessible disk is reported. No operation is left half done, and no restart is needed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from drawbridge.agents.memory import MB
from drawbridge.core.errors import HistoryNotWritten
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.disk import LEAST_FREE
from tests.server.bad_claude import bad_claude
from tests.server.core_rig import Client, records, serving, settled
from tests.server.processes import Server
from tests.server.processes import serving as really_serving
from tests.server.wire_client import WireClient

FAULTS = {
    errno.ENOSPC: "DISK_SPACE_LOW",
    errno.EDQUOT: "DISK_SPACE_LOW",
    errno.EROFS: "FILE_OPERATION",
    errno.EACCES: "FILE_OPERATION",
    errno.EIO: "FILE_OPERATION",
}


@contextlib.contextmanager
def broken_disk(monkeypatch: pytest.MonkeyPatch, number: int) -> Iterator[None]:
    """Makes every ``os.write`` to a regular file fail with the error number ``number``."""
    write = os.write

    def fail(file: int, data: bytes) -> int:
        if stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        return write(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        yield


@pytest.mark.parametrize(("number", "code"), FAULTS.items(), ids=errno.errorcode.get)
async def test_a_run_that_cannot_be_stored_fails_and_the_next_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        id = await server.project(phone)
        process = await server.running(phone, id)
        process.says({"type": "assistant", "session_id": "s", "text": "kept"})
        with broken_disk(monkeypatch, number):
            process.says({"type": "assistant", "session_id": "s", "text": "lost"})
            await settled(lambda: bool(phone.updates("run_finished")))
            (finished,) = phone.updates("run_finished")
            assert (finished["outcome"], finished["code"]) == ("failed", code)
            assert phone.updates("project_state")[-1]["state"] == "ERROR"
            before = records(server, id)
            with pytest.raises(HistoryNotWritten) as refused:
                await server.does(phone, "execute", id, prompt="go")
            assert refused.value.disk_full == (code == "DISK_SPACE_LOW")
            assert records(server, id) == before
            assert phone.updates("project_state")[-1]["state"] == "ERROR", "no prompt waits either"
        process = await server.running(phone, id, "again")
        process.says({"type": "assistant", "session_id": "s", "text": "kept too"})
        process.ends()
        await settled(lambda: len(phone.updates("run_finished")) == 2)
        assert phone.updates("run_finished")[-1]["outcome"] == "completed"
    texts = [record["message"].get("text") for record in records(server, id)]
    assert [text for text in texts if text] == ["kept", "kept too"]
    seqs = [record["seq"] for record in records(server, id)]
    assert seqs == list(range(1, len(seqs) + 1))
    async with serving(tmp_path) as server:
        assert server.core.projects.get(id).state == "IDLE"
        assert not server.core.projects.get(id).recorded.unfinished


async def test_an_approval_request_that_is_not_stored_has_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients need the time to show how long the request has been waiting."""
    phone = Client("phone")
    async with serving(tmp_path) as server:
        id = await server.project(phone)
        process = await server.running(phone, id)
        with broken_disk(monkeypatch, errno.ENOSPC):
            process.asks("q1")
        (request,) = phone.of_type("permission_request")
        assert datetime.fromisoformat(request["data"]["created_at"]).tzinfo is not None
        process.ends()


@pytest.mark.parametrize(("number", "code"), FAULTS.items(), ids=errno.errorcode.get)
async def test_a_decision_that_cannot_be_stored_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    """Neither the agent nor another client gets an answer that is not in the history."""
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        id = await server.project(phone)
        await server.does(page, "project_join", id)
        process = await server.running(phone, id)
        process.asks("q1")
        asked = phone.of_type("permission_request")[0]["data"]["approval_id"]
        with broken_disk(monkeypatch, number):
            for decision in ("allow", "deny"):
                with pytest.raises(ClientError) as refused:
                    await server.does(phone, "permission_response", id, approval_id=asked, decision=decision)
                assert (refused.value.code, refused.value.retryable) == (code, True)
                assert "the request stays open" in refused.value.text
        assert (process.answers, page.updates("permission_resolved")) == ([], [])
        await server.does(page, "permission_response", id, approval_id=asked, decision="deny")
        assert [decision.allow for _, decision in process.answers] == [False]
        kept = [one["message"]["message"] for one in records(server, id) if "by" in str(one["message"])]
        assert [one["decision"] for one in kept if "decision" in one] == ["deny"]
        process.ends()


@pytest.mark.parametrize("what", ["metadata", "history"])
async def test_an_unreadable_project_is_reported_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path) as server:
        id = await server.project(phone)
        process = await server.running(phone, id)
        process.ends()
        await settled(lambda: bool(phone.updates("run_finished")))
        kept = len(records(server, id))
    with monkeypatch.context() as patch:
        lock_up(patch, tmp_path / "data" / "projects" / id / ("logs" if what == "history" else "metadata.json"))
        async with serving(tmp_path) as server:
            server.core.follow(["projects"], page)
            assert server.core.problems() == [
                f"The project in {id} can't be read at the moment; the server will try again."
            ]
            await server.core.maintenance.check()
            assert len(server.core.projects) == 0
            patch.undo()
            await server.core.maintenance.check()
            assert server.core.problems() == []
            (created,) = page.updates("project_created")
            assert (created["id"], created["message_count"]) == (id, kept)
            process = await server.running(phone, id)
            process.ends()


async def test_an_unreadable_damaged_project_is_quarantined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project cannot be read when the server starts, and the damage is found later."""
    async with serving(tmp_path) as server:
        id = await server.project(Client())
    metadata = tmp_path / "data" / "projects" / id / "metadata.json"
    with monkeypatch.context() as patch:
        lock_up(patch, metadata)
        async with serving(tmp_path) as server:
            patch.undo()
            metadata.write_text("{")
            metadata.with_name("metadata.json.bak").unlink(missing_ok=True)
            for _ in range(3):
                await server.core.maintenance.check()
                assert server.core.problems() == [
                    f"The project in {id} can't be used and was quarantined. The server's log has the reason."
                ]


def lock_up(patch: pytest.MonkeyPatch, path: Path) -> None:
    """Makes everything at or below ``path`` unreadable, as it would be for a user without permission."""
    really_open, scandir, io_open = os.open, os.scandir, Path.read_bytes

    def is_locked(given: object) -> bool:
        return str(given).startswith(str(path))

    def open_(given: str, *arguments: int, **named: int) -> int:
        if is_locked(given):
            raise PermissionError(errno.EACCES, "Permission denied")
        return really_open(given, *arguments, **named)

    def scan(given: str) -> Iterator[os.DirEntry[str]]:
        if is_locked(given):
            raise PermissionError(errno.EACCES, "Permission denied")
        return scandir(given)

    def read(given: Path) -> bytes:
        if is_locked(given):
            raise PermissionError(errno.EACCES, "Permission denied")
        return io_open(given)

    patch.setattr(os, "open", open_)
    patch.setattr(os, "scandir", scan)
    patch.setattr(Path, "read_bytes", read)


async def test_a_project_that_cannot_be_quarantined_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: object, target: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    directory = tmp_path / "data" / "projects" / "proj_1"
    directory.mkdir(parents=True, mode=0o700)
    (directory / "metadata.json").write_text("{")
    monkeypatch.setattr(os, "replace", fail)
    async with serving(tmp_path) as server:
        assert len(server.core.projects) == 0
        assert server.core.problems() == [
            "The project in proj_1 can't be used, and could not be quarantined. The server's log has the reason."
        ]


# a small disk that is really full


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() or not shutil.which("mount"):
        pytest.skip("only root can mount a small disk, on Linux")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "none", place], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(place: Path, leaving: int) -> Path:
    """Fills the disk except for ``leaving`` bytes. Returns the file that fills it."""
    filler = place / "filler"
    found = os.statvfs(place)
    with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:  # the server may also be writing
        file.write(bytes(max(0, found.f_bavail * found.f_frsize - leaving)))
    return filler


async def finished(client: WireClient) -> tuple[str, str | None]:
    data = (await client.receive("update", "run_finished"))["data"]["data"]
    return data["outcome"], data.get("code")


@pytest.mark.thorough
async def test_work_resumes_once_a_full_disk_has_space(tmp_path: Path, small: Path) -> None:
    """Until then, prompts and decisions are refused with ``DISK_SPACE_LOW``, and a run that is already active fails."""
    async with really_serving(small / "data", *bad_claude(tmp_path)) as server, server.client() as client:
        id = await opened(server, client, tmp_path)
        await client.ask("execute", {"prompt": "say hello"}, id)
        assert await finished(client) == ("completed", None)

        filler = fill(small, LEAST_FREE - 2 * MB)
        refused = await client.ask("execute", {"prompt": "say hello"}, id)
        assert (refused["type"], refused["data"]["code"]) == ("error", "DISK_SPACE_LOW")
        assert "MB of the server's disk is free" in refused["data"]["message"]
        assert str(small) not in refused["data"]["message"]
        health = (await client.ask("health_check"))["data"]
        assert health["status"] == "degraded"

        filler.unlink()
        await client.ask("execute", {"prompt": "ask"}, id)
        asked = (await client.receive("permission_request"))["data"]["approval_id"]
        filler = fill(small, 0)
        much = {"command": "x" * 20_000}  # the last block of a file may still have room for a few words
        answer = {"approval_id": asked, "decision": "allow", "updated_input": much}
        refused = await client.ask("permission_response", answer, id)
        assert (refused["type"], refused["data"]["code"]) == ("error", "DISK_SPACE_LOW")
        assert "the request stays open" in refused["data"]["message"]

        filler.unlink()
        assert (await client.ask("permission_response", answer, id))["type"] == "update"
        assert await finished(client) == ("completed", None)
        kept = (await client.ask("get_messages", {"before_seq": 10**9, "limit": 20}, id))["data"]["messages"]
        assert [one["message"]["message"]["updated_input"] for one in kept if "updated_input" in str(one)] == [much]

        await client.ask("execute", {"prompt": "flood"}, id)
        filler = fill(small, 0)
        assert await finished(client) == ("failed", "DISK_SPACE_LOW")
        assert (await client.ask("project_list"))["data"]["projects"][0]["state"] == "ERROR"
        filler.unlink()

        await client.ask("execute", {"prompt": "say hello"}, id)
        assert await finished(client) == ("completed", None)
        last = (await client.ask("get_messages", {"before_seq": 10**9, "limit": 5}, id))["data"]["messages"]
        assert [record["seq"] for record in last] == list(range(last[0]["seq"], last[0]["seq"] + 5))
        assert server.errors.count("The server's disk is nearly full") == 1


async def opened(server: Server, client: WireClient, tmp_path: Path) -> str:
    (tmp_path / "code").mkdir(exist_ok=True)
    created = await client.ask("project_create", {"path": str(tmp_path / "code"), "agent": "claude", "join": True})
    return str(created["project_id"])
