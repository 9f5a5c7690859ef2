"""Files that can't be part of the agent's prompt are stored next to the history, and the prompt contains their paths."""

from __future__ import annotations

import asyncio
import errno
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import Attachment
from drawbridge.agents.claude import prompts
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.projects import Maintenance, Retention
from drawbridge.server.sessions.prompts import files as prompt_files
from drawbridge.server.sessions.prompts.files import PromptFiles, file_name
from drawbridge.server.store import log
from tests.server.core_rig import Client, Server, records, serving, settled
from tests.waiting import until

ZIP = b"PK\x03\x04" + bytes(range(256))
TEXT = "application/octet-stream", b"plain words\n"


async def attached(server: Server, *files: tuple[str, bytes], named: str = "report.zip") -> list[dict[str, str]]:
    blobs = [f"blob-{uuid.uuid4().hex}" for _ in files]
    for blob, (_, data) in zip(blobs, files, strict=True):
        await server.upload(blob, data)
    return [
        {"blob_id": blob, "media_type": media_type, "name": named}
        for blob, (media_type, _) in zip(blobs, files, strict=True)
    ]


async def zipped(server: Server) -> list[dict[str, str]]:
    return await attached(server, ("application/zip", ZIP))


def folder(server: Server, project: str) -> Path:
    return server.folder / "data" / "projects" / project / "files"


def stored(server: Server, project: str) -> list[str]:
    return sorted(path.name for path in folder(server, project).glob("*"))


def of_last_prompt(server: Server, project: str) -> dict[str, Any]:
    prompts: list[dict[str, Any]] = [
        record["message"] for record in records(server, project) if record["direction"] == "client"
    ]
    return prompts[-1]


async def with_a_file(server: Server, phone: Client, project: str) -> str:
    """Runs a prompt with an attached file to its end. Returns the file's id."""
    (await server.running(phone, project, "Look", attachments=await zipped(server))).ends()
    await settled()
    id: str = of_last_prompt(server, project)["files"][0]["id"]
    return id


async def test_a_file_is_stored_and_given_to_the_agent_by_its_path(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project, "Look", attachments=await zipped(server))
        (given,) = process.attachments
        assert given.path is not None
        path = Path(given.path)
        assert path.read_bytes() == ZIP
        assert (path.name, path.parents[1]) == ("report.zip", folder(server, project).resolve())
        assert process.launch.files == str(path.parents[1])
        modes = [one.stat().st_mode & 0o777 for one in (path, path.parent, path.parents[1])]
        assert modes == [0o600, 0o700, 0o700]
        process.ends()
        await settled()


async def test_the_record_has_the_name_and_size_but_no_path(tmp_path: Path) -> None:
    """The reply to the sender doesn't contain a path either."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        files = await attached(server, ("application/zip", ZIP), TEXT)
        answer = await server.does(phone, "execute", project, prompt="Look", attachments=files)
        prompt = of_last_prompt(server, project)
        [file] = prompt["files"]
        assert {**file, "id": ""} == {"id": "", "bytes": len(ZIP), "name": "report.zip"}
        assert prompt["attachments"] == ["report.zip", "report.zip"]
        assert answer["data"]["files"] == [file]
        assert str(server.folder / "data") not in str([*records(server, project), answer])
        await until(lambda: server.agent.processes and server.agent.latest.prompts)
        server.agent.latest.ends()
        await settled()


@pytest.mark.parametrize(
    ("media_type", "data", "is_stored"),
    [
        ("application/zip", ZIP, True),
        ("", b"\x7fELF\x00\x01", True),
        ("text/csv", "größe;stück\n".encode("latin-1"), True),
        ("text/plain", b"words\0and more", True),
        ("video/mp4", b"\x00\x00\x00\x18ftypmp42", True),
        ("text/plain", b"x" * 1_000_001, True),
        ("application/pdf", b"%PDF" + bytes(10_000_000), True),
        ("text/plain", b"x" * 1_000_000, False),
        ("application/x-yaml", "größe: 1\n".encode(), False),
        ("image/png", b"\x89PNG\r\n\x1a\n", False),
        ("application/pdf", b"%PDF\xff", False),
    ],
)
def test_files_that_claude_cannot_read_in_a_prompt_are_stored(
    tmp_path: Path, media_type: str, data: bytes, is_stored: bool
) -> None:
    (given,), files = PromptFiles(tmp_path / "files").store([Attachment(media_type, data, "a")], prompts.embeds, ())
    assert (given.path is not None, len(files)) == (is_stored, int(is_stored))


def test_images_that_are_too_large_together_are_stored(tmp_path: Path) -> None:
    """An image is stored if it would exceed the limit for one prompt together with the embedded ones before it."""
    images = [Attachment("image/png", bytes(size * 1_000_000), "a") for size in (10, 8, 10, 1, 2)]
    given, files = PromptFiles(tmp_path / "files").store(images, prompts.embeds, ())
    assert [one.path is not None for one in given] == [False, False, True, False, True]
    assert [file.bytes for file in files] == [10_000_000, 2_000_000]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("report.xlsx", "report.xlsx"),
        ("Übersicht (2025) – Entwurf.docx", "Übersicht _2025_ _ Entwurf.docx"),
        ("../../.ssh/authorized_keys", "_.._.ssh_authorized_keys"),
        ("/etc/passwd", "_etc_passwd"),
        ("..\\..\\evil.exe", "_.._evil.exe"),
        ("..", "file"),
        (".bashrc", "bashrc"),
        ("--force.zip", "force.zip"),
        ("~", "file"),
        ("", "file"),
        (None, "file"),
        ("a\nb\x00c\x1b[31m.txt", "a_b_c__31m.txt"),
        ("invoice\u202efdp.exe", "invoice_fdp.exe"),
        ("zero\u200bwidth.zip", "zero_width.zip"),
        ("$(touch made);`id`.zip", "__touch made___id_.zip"),
        ("\ud800.bin", "_.bin"),
        ("x" * 300 + ".tar.gz", "x" * 117 + ".gz"),
        ("ü" * 200, "ü" * 60),
    ],
)
def test_a_files_name_is_made_safe(name: str | None, expected: str) -> None:
    assert file_name(name) == expected


def test_a_second_file_of_the_same_name_does_not_replace_it(tmp_path: Path) -> None:
    given, _ = PromptFiles(tmp_path / "files").store(
        [Attachment("application/zip", ZIP, "a.zip"), Attachment("application/zip", ZIP[:9], "a.zip")],
        prompts.embeds,
        (),
    )
    assert [Path(one.path or "").name for one in given] == ["a.zip", "a.zip"]
    assert [Path(one.path or "").read_bytes() for one in given] == [ZIP, ZIP[:9]]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(errno.ENOSPC, "the server's disk is full"), (errno.EDQUOT, "the disk quota of the server's user is used up")],
)
async def test_on_a_full_disk_the_prompt_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    """The disk is full when the second file is stored. Nothing remains of the first one, and nothing reaches the agent."""
    phone = Client()
    written: list[str] = []
    mkdir = Path.mkdir

    def full_at_the_second(path: Path, *arguments: Any, **more: Any) -> None:
        if path.name.startswith("file_"):
            written.append(path.name)
            if len(written) > 1:
                raise OSError(number, "No space left on device")
        mkdir(path, *arguments, **more)

    async with serving(tmp_path) as server:
        project = await server.project(phone)
        monkeypatch.setattr(Path, "mkdir", full_at_the_second)
        files = await attached(server, ("application/zip", ZIP), ("application/zip", ZIP))
        with pytest.raises(ClientError, match=f"{reason}. Free some space there.") as refused:
            await server.does(phone, "execute", project, prompt="Look", attachments=files)
        assert refused.value.code == "DISK_SPACE_LOW"
        assert str(server.folder) not in refused.value.text
        assert (len(written), stored(server, project)) == (2, [])
        assert records(server, project) == []
        assert server.agent.processes == []


async def test_a_prompt_is_refused_if_its_files_cannot_be_stored(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        folder(server, project).write_text("not a directory")
        with pytest.raises(ClientError, match=r"can't be stored in the server's data directory") as refused:
            await server.does(phone, "execute", project, prompt="Look", attachments=await zipped(server))
        assert refused.value.code == "FILE_OPERATION"
        assert str(server.folder) not in refused.value.text
        assert records(server, project) == []


async def test_more_than_20_attachments_are_refused(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="x", attachments=await attached(server, *[TEXT] * 21))
        assert (refused.value.code, records(server, project)) == ("VALIDATION_FAILED", [])


async def test_a_refused_prompt_leaves_no_file(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        with pytest.raises(ClientError, match="already working"):
            await server.does(phone, "execute", project, prompt="x", queue=False, attachments=await zipped(server))
        assert stored(server, project) == []
        process.ends()
        await settled()


async def test_a_request_that_arrives_twice_stores_its_file_once(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        more = {"prompt": "Look", "attachments": await zipped(server), "request_id": "r1"}
        one, other = await asyncio.gather(*(server.does(phone, "execute", project, **more) for _ in range(2)))
        assert one["data"]["run_id"] == other["data"]["run_id"]
        assert stored(server, project) == [file["id"] for file in of_last_prompt(server, project)["files"]]
        await until(lambda: server.agent.processes and server.agent.latest.prompts)
        server.agent.latest.ends()
        await settled()


async def test_a_file_can_be_sent_during_a_run(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        await server.does(phone, "execute", project, prompt="And this", steer=True, attachments=await zipped(server))
        prompt = of_last_prompt(server, project)
        assert prompt["steer"] is True
        assert [file["id"] for file in prompt["files"]] == stored(server, project)
        process.ends()
        await settled()


async def test_the_first_file_reaches_a_process_that_may_read_it(tmp_path: Path) -> None:
    """Some agents are given their directories only when they start, so the process is replaced, unless it works in the
    background.
    """
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        (first := await server.running(phone, project)).ends()
        await settled()
        first.busy = True
        again = await server.running(phone, project, "Look", attachments=await zipped(server))
        assert again is first
        first.ends()
        first.busy = False
        await settled()
        (second := await server.running(phone, project, "Look", attachments=await zipped(server))).ends()
        await settled()
        assert second is not first
        assert second.launch.resume
        third = await server.running(phone, project, "Look", attachments=await zipped(server))
        assert third is second
        third.ends()
        await settled()


async def test_files_of_a_deleted_session_are_removed(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await with_a_file(server, phone, project)
        await server.does(phone, "agent_new_session", project)
        await settled(lambda: server.agent.latest.ended)
        second = await with_a_file(server, phone, project)
        listed = (await server.does(phone, "sessions", project))["data"]["sessions"]
        (older,) = [one["session_id"] for one in listed if not one.get("current")]
        await server.does(phone, "session_delete", project, session_id=older)
        assert stored(server, project) == [second] != [first]


async def test_files_are_removed_with_the_old_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_RECORDS", 4)
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        old = await with_a_file(server, phone, project)
        os.utime(folder(server, project) / old, (1, 1))
        new = await with_a_file(server, phone, project)
        core = server.core
        await Maintenance(core.disk, core.all_sessions, core.projects, Retention(bytes=1)).clean()
        assert records(server, project)[0]["seq"] > 1
        assert stored(server, project) == [new]


async def test_the_data_limit_removes_the_files_of_deleted_projects(tmp_path: Path) -> None:
    """The files of other projects are kept."""
    phone = Client()
    async with serving(tmp_path) as server:
        project, other = await server.project(phone), await server.project(phone, "other")
        await with_a_file(server, phone, project)
        kept = await with_a_file(server, phone, other)
        await server.does(phone, "project_delete", project)
        [deleted] = (tmp_path / "data" / "trash").iterdir()
        assert (deleted / "files").exists()
        server.core.projects.make_room()
        assert not (deleted / "files").exists()
        assert stored(server, other) == [kept]


async def test_files_are_kept_after_a_restart(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        id = await with_a_file(server, phone, project)
    async with serving(tmp_path) as server:
        assert [path.read_bytes() for path in (folder(server, project) / id).iterdir()] == [ZIP]
        process = await server.running(phone, project, "And now?")
        assert process.launch.files == str(folder(server, project).resolve())
        process.ends()
        await settled()


async def test_a_new_file_removes_the_oldest_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a queued or running prompt is not removed. The new prompt is refused instead."""
    monkeypatch.setattr(prompt_files, "ALTOGETHER", 2 * len(ZIP))
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await with_a_file(server, phone, project)
        os.utime(folder(server, project) / first, (1, 1))
        process = await server.running(phone, project, "Again", attachments=await zipped(server))
        second = of_last_prompt(server, project)["files"][0]["id"]
        assert stored(server, project) == sorted([first, second])
        os.utime(folder(server, project) / second, (0, 0))
        await server.does(phone, "execute", project, prompt="Next", attachments=await zipped(server))
        third = of_last_prompt(server, project)["files"][0]["id"]
        await until(lambda: stored(server, project) == sorted([second, third]))
        before = records(server, project)
        with pytest.raises(
            ClientError, match=r"in addition to the .* of queued and running prompts: a project can store"
        ) as full:
            await server.does(phone, "execute", project, prompt="Too much", attachments=await zipped(server))
        assert full.value.code == "RESOURCE_LIMIT"
        assert (records(server, project), stored(server, project)) == (before, sorted([second, third]))
        process.ends()
        await until(lambda: len(server.agent.latest.prompts) == 2)
        server.agent.latest.ends()
        await settled()


def test_a_deleted_project_gets_no_file(tmp_path: Path) -> None:
    with pytest.raises(ClientError):
        PromptFiles(tmp_path / "gone" / "files").store([Attachment("application/zip", ZIP)], prompts.embeds, ())
    assert not (tmp_path / "gone").exists()
