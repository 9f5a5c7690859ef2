"""A disk that does not respond delays only what is about it, and only briefly."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from drawbridge.agents import proposals
from drawbridge.server.sessions.directories import allowed_directories
from drawbridge.server.sessions.options.limits import Limits
from drawbridge.server.terminal_sessions import bridges, socket, texts_read_ahead
from tests.waiting import PATIENCE, until

from .socket_rig import Line, Message, Session, SocketRig, socket_rig

COMMAND: Message = {"command": "touch made"}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


@contextlib.contextmanager
def silent(place: Path) -> Iterator[None]:
    """During the context, the disk of ``place`` does not respond to anything that follows links."""
    responds, realpath = threading.Event(), os.path.realpath

    def held(path: str, **options: bool) -> str:
        if str(place) in str(path):
            responds.wait(PATIENCE)
        return realpath(path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os.path, "realpath", held)
        patch.setattr(allowed_directories, "EXAMINING_SECONDS", 0.1)
        for module in (bridges, socket):
            patch.setattr(module, "READING_SECONDS", 0.1)
        try:
            yield
        finally:
            responds.set()


def edit(file: Path) -> Message:
    return {"file_path": str(file), "old_string": "one", "new_string": "ONE"}


async def test_a_hook_asks_about_a_file_on_a_silent_disk(rig: SocketRig, tmp_path: Path) -> None:
    """Its request is shown without a diff and without the targets of links. Other hooks are served."""
    file = tmp_path / "network" / "a.py"
    file.parent.mkdir()
    file.write_text("one\n")
    session = Session(rig)
    await session.reports("SessionStart", source="startup")
    with silent(file.parent):
        async with session.asks("Edit", **edit(file)) as (hook, question):
            assert "proposal" not in question
            assert [risk["code"] for risk in question["risks"]] == ["outside_project"]
            async with Session(rig).asks(**COMMAND) as (_, other):
                assert other["tool_name"] == "Bash"
            await rig.answers(question)
            assert await hook.receive() == {"decision": {"behavior": "allow"}}


async def test_an_editor_with_a_folder_on_a_silent_disk(rig: SocketRig, tmp_path: Path) -> None:
    """It shows what is in its other folder."""
    file = rig.folder / "a.py"
    file.write_text("one\n")
    with silent(tmp_path / "network"):
        async with Line.open() as editor:
            editor.send(type="bridge", editor="Neovim", folders=[str(tmp_path / "network"), str(rig.folder)], pids=[])
            async with Session(rig).asks("Edit", **edit(file)) as _:
                offer = await editor.receive()
                assert offer is not None
                assert (offer["type"], offer["path"]) == ("offer", str(file))


async def test_a_proposal_of_a_bridge_on_a_silent_disk(rig: SocketRig, tmp_path: Path) -> None:
    file = tmp_path / "network" / "a.py"
    with silent(file.parent):
        async with Line.open() as editor:
            editor.send(type="bridge", editor="Neovim", folders=[], pids=[])
            shown = {"agent": "Gemini CLI", "session": "s", "old_text": "", "new_text": "one\n"}
            editor.send(type="proposed", id="1", path=str(file), **shown)
            await until(lambda: rig.questions, "the question")
            async with Session(rig).asks(**COMMAND) as (_, other):
                assert other["tool_name"] == "Bash"


async def test_hooks_at_the_same_time_all_show_their_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for a free thread."""
    monkeypatch.setattr(socket, "READERS", 2)
    began, may_read = threading.Semaphore(0), threading.Event()

    def read(path: str) -> str | None:
        began.release()
        may_read.wait(PATIENCE)
        return proposals.read_file(path)

    monkeypatch.setattr(socket, "read_file", read)
    async with socket_rig(tmp_path) as rig, contextlib.AsyncExitStack() as later:
        file = rig.folder / "a.py"
        file.write_text("one\n")
        session = Session(rig)
        for _ in range(4):
            line = await later.enter_async_context(Line.open())
            payload = session.payload("PermissionRequest", tool_name="Edit", tool_input=edit(file))
            line.send(type="hook", pid=session.pid, payload=payload)
        await until(lambda: began.acquire(blocking=False), "a reader")
        may_read.set()
        await until(lambda: len(rig.questions) == 4, "the questions")
        assert [question["proposal"]["new_text"] for question in rig.questions] == ["ONE\n"] * 4


async def test_a_file_that_was_decided_on_is_on_a_silent_disk(rig: SocketRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the agent wrote can't be determined, and the session continues."""
    responds, file, session = threading.Event(), rig.folder / "a.py", Session(rig)
    given: Message = {"file_path": str(file), "content": "theirs"}
    monkeypatch.setattr(texts_read_ahead, "READING_SECONDS", 0.1)
    monkeypatch.setattr(texts_read_ahead, "read_file", lambda path: responds.wait(PATIENCE) and "")
    try:
        async with session.asks("Write", **given) as (_, question):
            await rig.answers(question, updated_input={**given, "content": "mine"})
            await session.reports("PostToolUse", tool_name="Write", tool_input=given)
            assert rig.withdrawn(question) == []
            assert not responds.is_set()
    finally:
        responds.set()


async def test_a_restart_with_a_silent_disk_keeps_the_review(tmp_path: Path) -> None:
    """Until the disk responds, it is not known which directory the session's directory leads to."""
    async with socket_rig(tmp_path, Limits(checkpoints=False)) as rig:
        (rig.folder / "one").mkdir()
        link = tmp_path / "link"
        link.symlink_to(rig.folder / "one")
        session = Session(rig, link)
        await session.reports("UserPromptSubmit", prompt="Go")
        found = rig.server.core.terminal_sessions.find(session.project)
        assert found is not None
        folder = found.reviewed.folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "comments.json").write_text("{}")
    with silent(link):
        async with socket_rig(tmp_path, Limits(checkpoints=False)) as rig:
            assert rig.server.core.terminal_sessions.find(session.project) is not None
    assert (folder / "comments.json").exists()
    async with socket_rig(tmp_path, Limits(checkpoints=False)) as rig:
        found = rig.server.core.terminal_sessions.find(session.project)
        assert found is not None
        assert found.reviewed.folder == folder
