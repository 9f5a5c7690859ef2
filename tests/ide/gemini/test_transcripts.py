"""Replays what the real Gemini CLI has sent. The bridge answers as it did when the session was recorded.

What the user did and what the editor knew are derived from the lines that the bridge sent. Where it sent
ide/diffAccepted, for example, the user had accepted the change. To record the sessions again:
``DRAWBRIDGE_TEST_RECORD=tests/transcripts/gemini-ide pytest -m "" tests/e2e/gemini``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.port import Accepted, Position, Range, Rejected
from tests.editors.memory import MemoryEditor
from tests.ide.bridge_rig import BridgeRig
from tests.ide.gemini.rig import Answer, Connection, Stream, open_gemini_bridge
from tests.waiting import PATIENCE

TRANSCRIPTS = sorted((Path(__file__).parents[2] / "transcripts" / "gemini-ide").glob("*.jsonl"))
FILES = {"poem.txt": "one\ntwo\nthree\nfour\n", "notes.txt": "a note\n"}
"""The files of the recorded sessions, in the folder that the transcripts call /project."""

Said = dict[str, Any]


class Person:
    """Does in the in-memory editor what the user in the transcript did, so that the bridge sends the same messages."""

    def __init__(self, rig: BridgeRig) -> None:
        self._house = rig
        self._editor: MemoryEditor = rig.editor

    async def cause(self, message: Said) -> None:
        params = message["params"]
        match message["method"]:
            case "ide/contextUpdate":
                for file in params["workspaceState"]["openFiles"][:1]:
                    self._look_at(file)
            case "ide/diffAccepted":
                self._editor.decide(await self._shown(), Accepted(params["content"]))
            case "ide/diffRejected":
                self._editor.decide(await self._shown(), Rejected())

    async def edit(self, text: str) -> None:
        """Edits the proposed text and leaves the proposal undecided."""
        self._editor.edit(await self._shown(), text)

    async def _shown(self) -> str:
        [id] = await self._house.shown()
        return id

    def _look_at(self, file: Said) -> None:
        """Selects in the editor what the context update contains. The cursor is at the end of the selection."""
        Path(file["path"]).touch()
        end = Position(file["cursor"]["line"] - 1, file["cursor"]["character"] - 1)
        first, *others = file.get("selectedText", "").split("\n")
        start = Position(end.line - len(others), 0 if others else end.character - len(first))
        self._editor.select(file["path"], Range(start, end))


class Replay:
    """Sends the CLI's requests, each on its own connection, and receives the answers and events."""

    def __init__(self, rig: BridgeRig) -> None:
        self._house = rig
        self._answers: dict[int, asyncio.Task[Answer]] = {}
        self._streams: dict[int, Stream] = {}
        self._session = ""
        self._ids: dict[str, str] = {}  # IDs of events: recorded ID → current ID

    async def send(self, exchange: int, request: Said) -> None:
        body = json.dumps(request["body"]).encode() if "body" in request else b""
        headers = {name: self._filled(name, value) for name, value in request["headers"].items()}
        if body:
            headers["content-length"] = str(len(body))
        if request["method"] == "GET":
            connection = await Connection(self._house.port).__aenter__()
            await connection.send("GET", request["path"], headers)
            self._streams[exchange] = Stream(connection)
            self._answers[exchange] = asyncio.create_task(connection.head())
        else:
            self._answers[exchange] = asyncio.create_task(self._ask(request, headers, body))

    async def answer(self, exchange: int) -> Answer:
        answer = await self._answers.pop(exchange)
        self._session = answer.headers.get("mcp-session-id", self._session)
        return answer

    async def receive(self, exchange: int, like: Said, recorded_id: int) -> Said:
        """Waits for the next message with the method of ``like``, and returns it. Context updates before the recorded
        one are skipped.
        """
        stream, message = self._streams[exchange], None
        async with asyncio.timeout(PATIENCE):
            while message is None or message["method"] != like["method"] or is_on_the_way(message, like):
                message = await stream.message()
                assert message is not None, f"the stream ended before {like}"
        assert stream.last_id
        self._ids[str(recorded_id)] = stream.last_id
        return dict(message)

    async def close(self, exchange: int) -> None:
        if stream := self._streams.pop(exchange, None):
            await stream.__aexit__(None, None, None)

    async def close_all(self) -> None:
        for exchange in list(self._streams):
            await self.close(exchange)

    def _filled(self, name: str, value: str) -> str:
        if name == "last-event-id":
            return self._ids[value]
        places = {"TOKEN": self._house.token, "PORT": str(self._house.port), "SESSION": self._session}
        for placeholder, real in places.items():
            value = value.replace(placeholder, real)
        return value

    async def _ask(self, request: Said, headers: dict[str, str], body: bytes) -> Answer:
        async with Connection(self._house.port) as connection:
            return await connection.ask(request["method"], request["path"], headers, body)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[BridgeRig]:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    async with open_gemini_bridge(tmp_path) as rig:
        yield rig


@pytest.fixture
async def replay(rig: BridgeRig) -> AsyncIterator[Replay]:
    replay = Replay(rig)
    yield replay
    await replay.close_all()


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_the_bridge_answers_as_recorded(transcript: Path, rig: BridgeRig, replay: Replay) -> None:
    lines = load(transcript, rig.folder)
    answers = {line["exchange"]: line["answer"] for line in lines if "answer" in line}
    person = Person(rig)
    caused: set[int] = set()
    for at, line in enumerate(lines):
        match line:
            case {"exchange": exchange, "request": request}:
                if edited := text_handed_back(request, answers[exchange]):
                    await person.edit(edited)
                await replay.send(exchange, request)
            case {"exchange": exchange, "answer": recorded}:
                answer = await replay.answer(exchange)
                assert answer.status == recorded["status"]
                assert answer.headers["content-type"] == recorded["headers"]["content-type"]
                assert (answer.headers.get("mcp-session-id") is None) is ("mcp-session-id" not in recorded["headers"])
                if "json" in answer.headers["content-type"]:
                    assert comparable(answer.json) == comparable(recorded["body"])
            case {"exchange": exchange, "event": {"id": id, "data": message}}:
                if id not in caused:
                    await person.cause(message)
                assert comparable(await replay.receive(exchange, message, id)) == comparable(message)
                write_as_the_cli_does(message)
            case {"exchange": exchange, "closed": True}:
                await replay.close(exchange)
                # What the first event of the next stream reports happened before that stream was opened.
                for event in [later["event"] for later in lines[at:] if "event" in later][:1]:
                    await person.cause(event["data"])
                    caused.add(event["id"])


def test_every_kind_of_session_has_a_transcript() -> None:
    kinds = {path.stem.partition("-")[2] for path in TRANSCRIPTS}
    assert kinds >= {"accept", "accept-edited", "reject", "close", "new-file", "two-changes"}
    assert kinds >= {"terminal-yes", "terminal-yes-edited", "terminal-no", "context", "gap"}


def load(transcript: Path, project: Path) -> list[Said]:
    """Returns all lines but the first, as if they had been recorded in ``project``."""
    _, *lines = transcript.read_text().replace("/project", str(project)).splitlines()
    return [json.loads(line) for line in lines]


def text_handed_back(request: Said, answer: Said) -> str | None:
    """Returns the user's edited text that a ``closeDiff`` returned, or None if there was none or for other requests."""
    params = request.get("body", {}).get("params", {})
    if params.get("name") != "closeDiff":
        return None
    text: str | None = json.loads(answer["body"]["result"]["content"][0]["text"]).get("content")
    return text


def write_as_the_cli_does(message: Said) -> None:
    if message["method"] == "ide/diffAccepted":
        Path(message["params"]["filePath"]).write_text(message["params"]["content"])


def is_on_the_way(message: Said, wanted: Said) -> bool:
    return bool(message["method"] == "ide/contextUpdate" and comparable(message) != comparable(wanted))


def comparable(message: Said) -> Said:
    """Returns the message without what may differ from the recording: our version, tools' descriptions and times."""
    match message:
        case {"result": {"serverInfo": dict(), **result}}:
            return {**message, "result": result}
        case {"result": {"tools": tools}}:
            return {**message, "result": {tool["name"]: sorted(tool["inputSchema"]["properties"]) for tool in tools}}
        case {"params": {"workspaceState": {"openFiles": files}}}:
            times = [file["timestamp"] for file in files]
            assert times == sorted(times, reverse=True)
            return {**message, "params": [{**file, "timestamp": None} for file in files]}
        case _:
            return message
