"""The file of a conversation is read where the agent stores it, even after the agent has moved it."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from drawbridge.server.terminal_sessions.transcript_file import TranscriptFile
from tests.waiting import PATIENCE

from .socket_rig import Line, Message, Session, SocketRig, socket_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[SocketRig]:
    async with socket_rig(tmp_path) as rig:
        yield rig


def said(text: str) -> Message:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


async def texts(rig: SocketRig, session: Session) -> list[str]:
    """The agent's texts in the history."""
    answer = await rig.does("get_messages", session.project, after_seq=0)
    messages = [one["message"]["message"] for one in answer["data"]["messages"] if one["direction"] == "claude"]
    return [block["text"] for message in messages for block in message["content"]]


async def test_a_moved_file_continues_to_be_read(rig: SocketRig) -> None:
    """Claude Code's EnterWorktree tool moves the file to the folder of the worktree (2.1.329)."""
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    session.writes(said("one"))
    await session.reports("Notification")
    session.writes(said("two"))
    former, session.transcript = session.transcript, session.transcript.parents[1] / "-wt" / session.transcript.name
    session.transcript.parent.mkdir()
    former.rename(session.transcript)
    await session.reports("PostToolUse", tool_name="EnterWorktree", tool_input={})
    session.writes(said("three"))
    await session.reports("Notification")
    assert await texts(rig, session) == ["one", "two", "three"]


async def test_a_file_that_is_moved_while_it_is_read_is_read_once(
    rig: SocketRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(rig)
    await session.reports("UserPromptSubmit", prompt="Go")
    was_read, goes_on = threading.Event(), threading.Event()
    read = TranscriptFile.read

    def held(file: TranscriptFile) -> tuple[list[bytes], bool]:
        found = read(file)
        if found[0] and not was_read.is_set():
            was_read.set()
            assert goes_on.wait(PATIENCE)
        return found

    monkeypatch.setattr(TranscriptFile, "read", held)
    session.writes(said("one"))
    assert await asyncio.to_thread(was_read.wait, PATIENCE)
    former, session.transcript = session.transcript, session.transcript.parents[1] / "-wt" / session.transcript.name
    session.transcript.parent.mkdir()
    former.rename(session.transcript)
    async with Line.open() as line:
        line.send(type="hook", pid=session.pid, payload=session.payload("PostToolUse", tool_name="EnterWorktree"))
        line.end()
        closed = await line.receive()
    goes_on.set()
    assert closed is None
    session.writes(said("two"))
    await session.reports("Notification")
    assert await texts(rig, session) == ["one", "two"]


async def test_a_file_of_another_account_is_read(rig: SocketRig, tmp_path: Path) -> None:
    """The hook reports the account's directory, which is the value of ``CLAUDE_CONFIG_DIR``."""
    session = Session(rig)
    session.config = str(tmp_path / "work account")
    session.transcript = Path(session.config) / "projects" / "-ws" / f"{session.id}.jsonl"
    session.writes(said("one"))
    await session.reports("UserPromptSubmit", prompt="Go")
    assert await texts(rig, session) == ["one"]


@pytest.mark.parametrize("config", ["", "relative", "/"])
async def test_no_other_file_is_read(rig: SocketRig, tmp_path: Path, config: str) -> None:
    session = Session(rig)
    session.config = config
    session.transcript = tmp_path / "elsewhere" / "projects" / "-ws" / f"{session.id}.jsonl"
    session.writes(said(str(uuid.uuid4())))
    await session.reports("UserPromptSubmit", prompt="Go")
    assert await texts(rig, session) == []
