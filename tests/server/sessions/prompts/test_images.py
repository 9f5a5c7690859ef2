"""Images that were sent with prompts are stored next to the history, and removed with it."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import Attachment
from drawbridge.core.private_files import write_private
from drawbridge.server.sessions.managed import ManagedSession
from drawbridge.server.sessions.projects import Maintenance, Retention
from drawbridge.server.sessions.prompts import images as prompt_images
from drawbridge.server.sessions.prompts.images import PromptImages
from drawbridge.server.store import log
from tests.server.core_rig import Client, Server, records, serving, settled
from tests.waiting import until

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


async def attached(server: Server, *kinds: tuple[str, bytes]) -> list[dict[str, str]]:
    blobs = [f"blob-{uuid.uuid4().hex}" for _ in kinds]
    for blob, (_, data) in zip(blobs, kinds, strict=True):
        await server.upload(blob, data)
    return [
        {"blob_id": blob, "media_type": media_type, "name": f"{number}.x"}
        for number, (blob, (media_type, _)) in enumerate(zip(blobs, kinds, strict=True))
    ]


def prompts(server: Server, project: str) -> list[dict[str, Any]]:
    return [record["message"] for record in records(server, project) if record["direction"] == "client"]


def stored(server: Server, project: str) -> list[str]:
    directory = server.folder / "data" / "projects" / project / "images"
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


async def with_an_image(server: Server, phone: Client, project: str) -> str:
    """Runs a prompt with an attached image to its end. Returns the image's id."""
    (await server.running(phone, project, "Look", attachments=await attached(server, ("image/png", PNG)))).ends()
    await settled()
    id: str = prompts(server, project)[-1]["images"][0]["id"]
    return id


async def test_the_record_of_a_prompt_names_its_images(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        attachments = await attached(
            server, ("image/png", PNG), ("application/pdf", b"%PDF"), ("image/svg+xml", b"<svg/>")
        )
        process = await server.running(phone, project, "Look", attachments=attachments)
        (prompt,) = prompts(server, project)
        assert prompt["attachments"] == ["0.x", "1.x", "2.x"]
        (image,) = prompt["images"]
        assert {**image, "id": ""} == {"id": "", "media_type": "image/png", "bytes": len(PNG), "name": "0.x"}
        assert phone.of_type("agent_message") == []  # the sender has the reply instead
        assert await server.built.histories.prompt_image(project, image["id"]) == PNG
        assert stored(server, project) == [image["id"]]
        assert os.stat(server.folder / "data" / "projects" / project / "images" / image["id"]).st_mode & 0o077 == 0
        process.ends()
        await settled()


@pytest.mark.parametrize("id", ["img_", "img_" + "0" * 32, "img_../../project.json", "img_" + "A" * 32])
async def test_an_unknown_image_is_not_found(tmp_path: Path, id: str) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        with pytest.raises(Exception, match="does not contain this image") as refused:
            await server.built.histories.prompt_image(project, id)
        assert getattr(refused.value, "code", "") == "BLOB_NOT_FOUND"


async def test_a_refused_prompt_leaves_no_image(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        with pytest.raises(Exception, match="already working"):
            await server.does(
                phone,
                "execute",
                project,
                prompt="x",
                queue=False,
                attachments=await attached(server, ("image/png", PNG)),
            )
        assert stored(server, project) == []
        process.ends()
        await settled()


async def test_images_of_a_deleted_session_are_removed(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await with_an_image(server, phone, project)
        await server.does(phone, "agent_new_session", project)
        await settled(lambda: server.agent.latest.ended)
        second = await with_an_image(server, phone, project)
        listed = (await server.does(phone, "sessions", project))["data"]["sessions"]
        (older,) = [one["session_id"] for one in listed if not one.get("current")]
        await server.does(phone, "session_delete", project, session_id=older)
        assert stored(server, project) == [second] != [first]


async def test_a_new_image_removes_the_oldest_above_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new image's prompt may start a run or be sent during a run."""
    monkeypatch.setattr(prompt_images, "ALTOGETHER", len(PNG))
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        first = await with_an_image(server, phone, project)
        images = server.folder / "data" / "projects" / project / "images"
        os.utime(images / first, (1, 1))
        attachments = await attached(server, ("image/png", PNG))
        process = await server.running(phone, project, "Again", attachments=attachments)
        second = prompts(server, project)[-1]["images"][0]["id"]
        await until(lambda: stored(server, project) == [second])
        os.utime(images / second, (1, 1))
        await server.does(phone, "execute", project, prompt="And this", steer=True, attachments=attachments)
        third = prompts(server, project)[-1]["images"][0]["id"]
        await until(lambda: stored(server, project) == [third])
        process.ends()
        await settled()


async def test_a_request_that_arrives_twice_stores_its_image_once(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        more = {"prompt": "Look", "attachments": await attached(server, ("image/png", PNG)), "request_id": "r1"}
        one, other = await asyncio.gather(*(server.does(phone, "execute", project, **more) for _ in range(2)))
        assert one["data"]["run_id"] == other["data"]["run_id"]
        [prompt] = prompts(server, project)
        assert stored(server, project) == [image["id"] for image in prompt["images"]]
        await until(lambda: server.agent.processes and server.agent.latest.prompts)
        server.agent.latest.ends()
        await settled()


async def test_a_request_that_is_canceled_leaves_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is canceled while its prompt waits, for example until a conversation has been deleted."""
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        calls, waits = itertools.count(), asyncio.Event()

        async def forever(_: ManagedSession) -> None:
            if next(calls):  # the first call comes before the image is stored
                waits.set()
                await asyncio.Event().wait()

        monkeypatch.setattr(ManagedSession, "settle", forever)
        attachments = await attached(server, ("image/png", PNG))
        request = asyncio.create_task(server.does(phone, "execute", project, prompt="x", attachments=attachments))
        await waits.wait()
        assert len(stored(server, project)) == 1
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert stored(server, project) == []


async def test_the_data_limit_removes_the_images_of_deleted_projects(tmp_path: Path) -> None:
    """The project's metadata, which contains its cost, is kept."""
    phone = Client()
    async with serving(tmp_path) as server:
        project, other = await server.project(phone), await server.project(phone, "other")
        await with_an_image(server, phone, project)
        kept = await with_an_image(server, phone, other)
        await server.does(phone, "project_delete", project)
        [deleted] = (tmp_path / "data" / "trash").iterdir()
        assert (deleted / "images").exists()
        server.core.projects.make_room()
        assert not (deleted / "images").exists()
        assert (deleted / "metadata.json").exists()
        assert stored(server, other) == [kept]


async def test_images_are_removed_with_the_old_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_RECORDS", 4)
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        old = await with_an_image(server, phone, project)
        os.utime(server.folder / "data" / "projects" / project / "images" / old, (1, 1))
        new = await with_an_image(server, phone, project)
        core = server.core
        await Maintenance(core.disk, core.all_sessions, core.projects, Retention(bytes=1)).clean()
        assert records(server, project)[0]["seq"] > 1
        assert stored(server, project) == [new]


def test_only_the_newest_images_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_images, "ALTOGETHER", 2 * len(PNG))
    images = PromptImages(tmp_path / "images")
    ids = []
    for moment in (1, 2, 3):
        (image,) = images.store([Attachment("image/png", PNG)])
        os.utime(tmp_path / "images" / image.id, (moment, moment))
        ids.append(image.id)
    assert all(images.read(id) for id in ids), "a prompt that is not accepted costs no older image"
    images.make_room()
    assert [images.read(id) is not None for id in ids] == [False, True, True]


def test_images_older_than_a_time_are_removed(tmp_path: Path) -> None:
    images = PromptImages(tmp_path / "images")
    old, new = (images.store([Attachment("image/png", PNG)])[0].id for _ in range(2))
    os.utime(tmp_path / "images" / old, (1_000, 1_000))
    images.remove_before(2_000)
    assert [images.read(id) is not None for id in (old, new)] == [False, True]


def test_a_prompt_has_all_its_images_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def full_at_the_second(path: str, data: bytes) -> None:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        write_private(path, data)

    monkeypatch.setattr(prompt_images, "write_private", full_at_the_second)
    assert PromptImages(tmp_path / "images").store([Attachment("image/png", PNG)] * 2) == ()
    assert (len(written), list((tmp_path / "images").iterdir())) == (1, [])


def test_a_deleted_project_gets_no_image(tmp_path: Path) -> None:
    assert PromptImages(tmp_path / "gone" / "images").store([Attachment("image/png", PNG)]) == ()
    assert not (tmp_path / "gone").exists()


def test_an_image_that_is_too_large_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_images, "LARGEST", len(PNG) - 1)
    assert PromptImages(tmp_path / "images").store([Attachment("image/png", PNG)]) == ()


def test_images_are_not_stored_if_the_directory_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "images").write_text("not a directory")
    assert PromptImages(tmp_path / "images").store([Attachment("image/png", PNG)]) == ()
