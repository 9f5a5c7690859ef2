"""The disk space of histories is limited. The server warns once before the limit, refuses prompts at the limit, and
accepts them again once there is space.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drawbridge.agents.memory import MB
from drawbridge.server.events import Announced, DiskWarning
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.disk import LEAST_FREE, LOW_FREE, Disk, Sizes
from drawbridge.server.sessions.options.limits import Limits
from tests.server.core_rig import Client, records, serving, settled

Warned = list[tuple[DiskWarning, str | None, str]]


def disk(data: Path, project: int = 1_000, all: int = 10_000) -> tuple[Disk, Warned]:
    """A ``Disk`` with limits in bytes, and the list of its warnings."""
    warned: Warned = []

    def publish(announced: Announced) -> None:
        assert isinstance(announced.event, DiskWarning)
        warned.append((announced.event, announced.project_id, str(announced.path)))

    return Disk(data, Sizes(project, all), publish), warned


def free(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    found = SimpleNamespace(f_bavail=size // 4096, f_frsize=4096, f_blocks=2**20)
    monkeypatch.setattr(os, "statvfs", lambda path: found)


@pytest.fixture(autouse=True)
def _much_room(monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 2 * LOW_FREE)


def test_a_warning_is_sent_once_each_time_a_limit_is_crossed(tmp_path: Path) -> None:
    watched, warned = disk(tmp_path)
    for size in (0, 799, 800, 850, 999):
        watched.set_size("p1", "/code", size)
    assert [(warning.scope, id, where) for warning, id, where in warned] == [("project", "p1", "/code")]
    for size in (1_000, 1_200):
        watched.set_size("p1", "/code", size)
    assert len(warned) == 2
    for size in (790, 800, 730, 800):
        watched.set_size("p1", "/code", size)
    assert len(warned) == 2, "the size was never well below the limit"
    for size in (719, 800):
        watched.set_size("p1", "/code", size)
    assert len(warned) == 3
    assert "p1 uses 0 MB of 0 MB: new runs are refused at the limit" in warned[-1][0].message


def test_a_project_at_its_disk_limit_refuses_only_its_own_runs(tmp_path: Path) -> None:
    watched, _ = disk(tmp_path)
    watched.set_size("p1", "/one", 1_000)
    watched.set_size("p2", "/two", 999)
    with pytest.raises(ClientError) as refused:
        watched.check("p1")
    assert (refused.value.code, refused.value.retryable) == ("DISK_LIMIT", True)
    watched.check("p2")
    assert watched.refusal("p2", 2) is not None
    assert watched.problems() == ["The history of p1 has reached its limit: new runs are refused."]
    watched.set_size("p1", "/one", 0)
    watched.check("p1")
    assert watched.problems() == []


def test_all_stored_data_together_has_a_limit(tmp_path: Path) -> None:
    """Deleted projects and blobs count too."""
    watched, warned = disk(tmp_path, all=2_500)
    for name, size in (("trash/p0/logs/old.jsonl", 300), ("blobs/b", 200), ("projects/p1/logs/new.jsonl", 5_000)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"x" * size)
    watched.measure()
    for number in range(3):
        watched.set_size(f"p{number}", f"/code{number}", 650)
    assert [(warning.scope, id, where) for warning, id, where in warned] == [("data", None, str(tmp_path))]
    watched.check("p9")
    watched.set_size("p3", "/code3", 60)
    assert watched.too_much
    with pytest.raises(ClientError) as refused:
        watched.check("p9")
    assert refused.value.code == "DISK_LIMIT"
    assert str(tmp_path) not in refused.value.text
    watched.remove("p3")
    watched.publish_warnings()
    watched.check("p9")


def test_low_disk_space_warns_and_a_full_disk_refuses_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning is not repeated until clearly more space is free."""
    watched, warned = disk(tmp_path)
    for size in (LOW_FREE - 8192, LOW_FREE - 16384, LOW_FREE + 8192, LOW_FREE - 8192):
        free(monkeypatch, size)
        watched.publish_warnings()
    assert [warning.scope for warning, _, _ in warned] == ["disk"]
    watched.check("p1")
    free(monkeypatch, LEAST_FREE - 8192)
    with pytest.raises(ClientError) as refused:
        watched.check("p1")
    assert refused.value.code == "DISK_SPACE_LOW"
    free(monkeypatch, 2 * LOW_FREE)
    watched.check("p1")
    free(monkeypatch, LOW_FREE - 8192)
    watched.publish_warnings()
    assert len(warned) == 2


def test_runs_are_accepted_if_the_free_space_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: object) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "statvfs", fail)
    watched, warned = disk(tmp_path)
    watched.publish_warnings()
    watched.check("p1")
    assert warned == []


def limits(project: int) -> Limits:
    return Limits(checkpoints=False, sizes=Sizes(project, 100 * MB))


async def test_clients_are_warned_before_the_limit_ends_a_run(tmp_path: Path) -> None:
    phone, page = Client("phone"), Client("page")
    async with serving(tmp_path, limits(8_000)) as server:
        server.core.follow(["projects"], page)
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.says({"type": "assistant", "session_id": "s", "text": "x" * 6_500})
        (warning,) = page.updates("disk_warning")
        assert (warning["scope"], warning["limit_mb"]) == ("project", 0)
        process.says({"type": "assistant", "session_id": "s", "text": "y" * 500})
        assert len(page.updates("disk_warning")) == 1
        process.says({"type": "assistant", "session_id": "s", "text": "z" * 5_000})
        await settled(lambda: bool(phone.updates("run_finished")))
        (finished,) = phone.updates("run_finished")
        assert (finished["outcome"], finished["code"]) == ("failed", "DISK_LIMIT")
        await settled(lambda: process.ended)
        assert process.ended
        kept = records(server, project)
        assert not any("zzz" in str(record) for record in kept)
        assert any("yyy" in str(record) for record in kept)
        size = server.core.projects.get(project).history.size
        assert size < 8_000 + 2_000, "the end of the run is stored all the same"
        if size >= 8_000:
            with pytest.raises(ClientError) as refused:
                await server.does(phone, "execute", project, prompt="go")
            assert refused.value.code == "DISK_LIMIT"
            assert records(server, project) == kept
            assert server.core.problems() == [f"The history of {project} has reached its limit: new runs are refused."]


async def test_the_size_is_known_right_after_a_restart(tmp_path: Path) -> None:
    phone = Client()
    async with serving(tmp_path) as server:
        project = await server.project(phone)
        process = await server.running(phone, project)
        process.says({"type": "assistant", "session_id": "s", "text": "x" * 9_000})
        process.ends()
        await settled(lambda: bool(phone.updates("run_finished")))
    async with serving(tmp_path, limits(8_000)) as server:
        with pytest.raises(ClientError) as refused:
            await server.does(phone, "execute", project, prompt="go")
        assert refused.value.code == "DISK_LIMIT"
        await server.does(phone, "project_delete", project)
        other = await server.project(phone, "one")
        process = await server.running(phone, other)
        process.ends()
