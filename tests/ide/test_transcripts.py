"""Replays what the real ``claude`` CLI has sent. The bridge answers as it did when the session was recorded.

What the user did and what the editor knew are derived from the lines that the bridge sent. Where it sent FILE_SAVED,
for example, the user had accepted the change. To record the sessions again:
``DRAWBRIDGE_TEST_RECORD=tests/transcripts/claude-ide pytest -m "" tests/e2e/claude``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect

from drawbridge import settings
from drawbridge.editors.port import Accepted, Diagnostic, Range, Rejected
from drawbridge.ide import claude
from drawbridge.ide.bridge import Bridge
from drawbridge.ide.launched import Launched
from drawbridge.settings.ide import IdeSettings
from drawbridge.transport.http_server import HttpServer
from tests.editors.memory import MemoryEditor
from tests.waiting import PATIENCE, until

TRANSCRIPTS = sorted((Path(__file__).parents[1] / "transcripts" / "claude-ide").glob("*.jsonl"))
POEM = "one\ntwo\nthree\nfour\n"
"""The content of poem.txt, the file of the recorded sessions, in the folder that the transcripts call /project."""

Frame = dict[str, Any]


class Person:
    """Does in the in-memory editor what the user in the transcript did, so that the bridge sends the same frames."""

    def __init__(self, editor: MemoryEditor) -> None:
        self._editor = editor

    def prepare(self, answer: Frame) -> None:
        """Gives the editor the diagnostics that the recorded answer to a call contains."""
        words = [item["text"] for item in answer.get("result", {}).get("content", ())]
        if words and words[0].startswith("[") and words[0] != "[]":
            for file in json.loads(words[0]):
                path = file["uri"].removeprefix("file://")
                self._editor.problems[path] = msgspec.convert(file["diagnostics"], list[Diagnostic])

    def cause(self, frame: Frame) -> None:
        params = frame.get("params", {})
        match frame.get("method"):
            case "selection_changed":
                self._editor.select(params["filePath"], msgspec.convert(params["selection"], Range))
            case "at_mentioned":
                lines = (params["lineStart"], params["lineEnd"]) if "lineStart" in params else None
                self._editor.mention(params["filePath"], lines)
            case None if self._editor.shown:
                self._decide(frame)

    def _decide(self, frame: Frame) -> None:
        match [item["text"] for item in frame["result"].get("content", ())]:
            case ["FILE_SAVED", text]:
                self._editor.decide(next(iter(self._editor.shown)), Accepted(text))
            case ["DIFF_REJECTED", _]:
                self._editor.decide(next(iter(self._editor.shown)), Rejected())


class Bench:
    """A bridge with the in-memory editor, and a connection to it like the CLI's."""

    def __init__(self, editor: MemoryEditor, connection: ClientConnection) -> None:
        self.editor = editor
        self.connection = connection
        self._early: list[Frame] = []

    async def send(self, frame: Frame) -> None:
        shown = len(self.editor.shown)
        await self.connection.send(json.dumps(frame))
        if frame.get("params", {}).get("name") == "openDiff":
            await until(lambda: len(self.editor.shown) > shown, "the proposal's view")

    async def receive(self, like: Frame) -> Frame:
        """Waits for the next frame that answers the same call as ``like``, or is the same kind of notification. Returns
        it.
        """
        wanted = (like.get("id"), like.get("method"))
        while True:
            for frame in self._early:
                if (frame.get("id"), frame.get("method")) == wanted:
                    self._early.remove(frame)
                    return frame
            async with asyncio.timeout(PATIENCE):
                self._early.append(json.loads(await self.connection.recv()))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "poem.txt").write_text(POEM)
    (tmp_path / "notes.txt").write_text("a note")
    return tmp_path


@pytest.fixture
async def bench(project: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(claude, "LISTENS_AFTER_SECONDS", 0.01)  # this client drops no notifications
    launched = Launched(settings.load("ide", IdeSettings, {"folder": str(project)}))
    editor = MemoryEditor([str(project)])
    bridge = Bridge(launched, editor, [str(project)], asyncio.Event())
    await bridge.open()
    headers = {claude.TOKEN_HEADER: launched.token}
    options: dict[str, Any] = {"subprotocols": ["mcp"], "compression": None, "proxy": None}
    async with (
        HttpServer(bridge.app, launched.listener),
        connect(f"ws://127.0.0.1:{launched.port}/", additional_headers=headers, **options) as connection,
    ):
        yield Bench(editor, connection)
    await bridge.close()
    launched.remove_files()


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_the_bridge_answers_as_recorded(transcript: Path, project: Path, bench: Bench) -> None:
    lines = load(transcript, project)
    answers = {line["frame"].get("id"): line["frame"] for line in lines if line["from"] == "bridge" and "frame" in line}
    person = Person(bench.editor)
    for line in lines:
        match line:
            case {"from": "claude", "frame": frame}:
                person.prepare(answers.get(frame.get("id"), {}))
                await bench.send(frame)
            case {"from": "bridge", "frame": frame}:
                person.cause(frame)
                assert comparable(await bench.receive(like=frame)) == comparable(frame)


def test_every_kind_of_session_has_a_transcript() -> None:
    kinds = {path.stem.partition("-")[2] for path in TRANSCRIPTS}
    assert kinds >= {"accept", "accept-edited", "reject", "close", "new-file", "two-edits"}
    assert kinds >= {"terminal-yes", "terminal-no", "selection", "mention", "diagnostics", "new-diagnostics"}


def load(transcript: Path, project: Path) -> list[dict[str, Any]]:
    """Returns all lines but the first, as if they had been recorded in ``project``."""
    _, *lines = transcript.read_text().replace("/project", str(project)).splitlines()
    return [json.loads(line) for line in lines]


def comparable(frame: Frame) -> Frame:
    """Returns the frame without our version and the tools' descriptions, which may differ from the recording."""
    match frame:
        case {"result": {"serverInfo": dict(), **result}}:
            return {**frame, "result": result}
        case {"result": {"tools": tools}}:
            return {**frame, "result": {tool["name"]: sorted(tool["inputSchema"]["properties"]) for tool in tools}}
        case _:
            return frame
