"""The files of a terminal session are shown only if its agent works in an allowed directory, because an agent in a
terminal may run anywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .socket_rig import Session, SocketRig, socket_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


async def test_files_are_shown_in_an_allowed_directory(rig: SocketRig) -> None:
    (rig.folder / "a.txt").write_text("text")
    session = Session(rig)
    await session.reports("SessionStart", source="startup")
    listed = (await rig.does("file_list", session.project))["data"]["entries"]
    assert [entry["path"] for entry in listed] == ["a.txt"]
    assert (await rig.does("file_read", session.project, path="a.txt"))["data"]["text"] == "text"


async def test_no_files_are_shown_elsewhere(rig: SocketRig, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.txt").write_text("text")
    session = Session(rig, tmp_path / "elsewhere")
    await session.reports("SessionStart", source="startup")
    a_file = {"path": "a.txt"}
    for name, data in (
        ("file_list", {}),
        ("file_list", {"query": ""}),
        ("file_read", a_file),
        ("file_changes", a_file),
    ):
        assert (await rig.refusal(name, session.project, **data)).code == "INVALID_PATH"
