"""On its way from the agent's process to the sockets, a line is decoded once and passes through few modules."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import pytest

from drawbridge.agents.base import AgentLine
from drawbridge.agents.claude.conversation import ClaudeConversation
from drawbridge.agents.process import STDOUT, Process
from drawbridge.server.app.outbox import Writers
from drawbridge.server.protocol.messages import Frame, Subscriber
from tests.server.core_rig import Client, Server

LINE = b'{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]},"session_id":"s","uuid":"u"}'
NESTED = b'{"type":"user","message":' + b"[" * 300 + b"]" * 300 + b',"n":[' + b"[]," * 300 + b'[]],"session_id":"s"}'


MODULES_CALLED = 14
MODULES_THAT_HAND_ON = 7
"""How many modules are called for a line, including helpers, and how many of them pass the line on. Both numbers are
also in docs/internals/architecture.md.
"""


def decodes(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that decode JSON while ``work`` runs."""
    found: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and isinstance(getattr(argument, "__self__", None), msgspec.json.Decoder):
            found.append(frame.f_code.co_qualname)

    for module in (msgspec.json, json):
        for function in ("decode", "loads"):
            if real := getattr(module, function, None):
                monkeypatch.setattr(module, function, counted(real, found))
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        monkeypatch.undo()
    return found


def counted(real: Callable[..., Any], found: list[str]) -> Callable[..., Any]:
    def decode(*given: Any, **options: Any) -> Any:
        found.append(sys._getframe(1).f_code.co_qualname)
        return real(*given, **options)

    return decode


@pytest.mark.parametrize("line", [LINE, NESTED], ids=["plain", "nested"])
async def test_a_line_is_decoded_once(line: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[bytes] = []

    class Listed(Writers):
        def broadcast(self, audience: Sequence[Subscriber], frame: Frame) -> None:
            frames.extend(frame.data for _ in audience)

    server = Server(tmp_path, writers=Listed())
    phone = Client()
    await server.core.open()
    try:
        project = await server.project(phone)
        process = await server.running(phone, project)
        driver = ClaudeConversation("claude", Path.read_text, resumed=True)  # type: ignore[arg-type]  # nothing is read here
        frames.clear()

        def arrive() -> None:
            for event in driver.received(line):
                assert isinstance(event, AgentLine)
                process.heard(event)

        assert decodes(arrive, monkeypatch) == ["parsed"]
        assert line in frames[0]
    finally:
        await server.core.close("the server is ending")


def test_decoding_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the test above could miss that a line is decoded twice."""
    decoder = msgspec.json.Decoder()
    work = [lambda: decoder.decode(b"1"), lambda: msgspec.json.decode(b"1"), lambda: json.loads("1")]
    for one in work:
        assert len(decodes(one, monkeypatch)) == 1


class Quiet:
    """Stands in for the standard input of an agent that is sent nothing."""

    def is_closing(self) -> bool:
        return False


class Way(NamedTuple):
    """The modules that a line passes through, as names relative to ``drawbridge``."""

    called: set[str]
    """Modules in which a function was called."""
    handed_on_by: list[str]
    """The modules on the call stack when the frame reached the outbox, outermost first; those that had returned are not
    included.
    """


def way(work: Callable[[], Any]) -> Way:
    """Runs ``work``. Returns the modules that are called meanwhile and those that pass the line on to the outbox."""
    called: set[str] = set()
    handed_on_by: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (name := module(frame)):
            called.add(name)
            if name == "server.app.outbox":
                handed_on_by[:] = stack(frame)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Way(called, handed_on_by)


def module(frame: FrameType) -> str:
    """The name of the module that the frame runs in, relative to ``drawbridge``; empty if it is in another package."""
    package, _, name = frame.f_globals.get("__name__", "").partition(".")
    return name if package == "drawbridge" else ""


def stack(frame: FrameType | None) -> list[str]:
    """Drawbridge's modules on the call stack up to ``frame``, outermost first, each once."""
    found: dict[str, None] = {}
    while frame is not None:
        if name := module(frame):
            found[name] = None
        frame = frame.f_back
    return list(found)[::-1]


async def test_a_line_calls_few_modules(tmp_path: Path) -> None:
    """The path leads from the bytes in the pipe to the frame that waits for the sockets. Some modules pass the line on;
    others help.
    """
    frames: list[bytes] = []

    class Waiting(Writers):
        def flush(self) -> None:
            frames.extend(frame.data for frame, _ in self._collected)
            self._collected.clear()

    server = Server(tmp_path, writers=Waiting())
    phone = Client()
    await server.core.open()
    try:
        project = await server.project(phone)
        agent = await server.running(phone, project)
        driver = ClaudeConversation("claude", Path.read_text, resumed=True)  # type: ignore[arg-type]  # nothing is read here
        process = Process("claude", "", None, driver, agent.heard)  # type: ignore[arg-type]  # it is not ended here
        process._stdin = Quiet()  # type: ignore[assignment]
        process.pipe_data_received(STDOUT, LINE + b"\n")  # the first line also opens the log
        called, handed_on_by = way(lambda: process.pipe_data_received(STDOUT, LINE + b"\n"))
        await asyncio.sleep(0)
        assert sum(LINE in frame for frame in frames) == 2
        assert len(called) == MODULES_CALLED, sorted(called)
        assert (handed_on_by[0], handed_on_by[-1]) == ("agents.process", "server.app.outbox")
        assert len(handed_on_by) == MODULES_THAT_HAND_ON, handed_on_by
    finally:
        await server.core.close("the server is ending")


def test_the_architecture_page_has_the_current_numbers() -> None:
    page = (Path(__file__).parents[2] / "docs" / "internals" / "architecture.md").read_text()
    rows = {cells[1].strip(): cells[3].strip() for line in page.splitlines() if len(cells := line.split("|")) == 6}
    assert rows["modules called on this path, including helpers"] == str(MODULES_CALLED)
    assert rows["modules that pass the line on"] == str(MODULES_THAT_HAND_ON)
