"""On its way from the agent's process to the sockets, a line is decoded once, by the driver. The last test prints which
modules are on this path.
"""

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
from drawbridge.server.protocol.frames import Frame, Subscriber
from tests.server.core_rig import Client, Server

LINE = b'{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]},"session_id":"s","uuid":"u"}'
NESTED = b'{"type":"user","message":' + b"[" * 300 + b"]" * 300 + b',"n":[' + b"[]," * 300 + b'[]],"session_id":"s"}'


def decodes(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that decode JSON while ``work`` runs, with their modules."""
    found: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and isinstance(getattr(argument, "__self__", None), msgspec.json.Decoder):
            found.append(full_name(frame))

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


def full_name(frame: FrameType) -> str:
    return f"{module(frame)}.{frame.f_code.co_qualname}"


def counted(real: Callable[..., Any], found: list[str]) -> Callable[..., Any]:
    def decode(*given: Any, **options: Any) -> Any:
        found.append(full_name(sys._getframe(1)))
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
                process.emit(event)

        assert decodes(arrive, monkeypatch) == ["agents.output.parsed"]
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
    moves: int
    """The number of times that a call or a return led to another module."""


def way(work: Callable[[], Any]) -> Way:
    """Runs ``work``. Returns the modules that are called during this and those that pass the line on to the outbox."""
    called: set[str] = set()
    handed_on_by: list[str] = []
    entered: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and (name := module(frame)):
            called.add(name)
            if name == "server.app.outbox":
                handed_on_by[:] = stack(frame)
        now = frame.f_back if event == "return" else frame
        if now is not None and (name := module(now)) and entered[-1:] != [name]:
            entered.append(name)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Way(called, handed_on_by, len(entered) - 1)


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


async def test_only_the_driver_decodes_a_line_on_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path leads from the bytes in the pipe to the frame that waits for the sockets. Some modules pass the line on,
    and others help. Their numbers are printed, not checked.
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
        process = Process("claude", "", None, driver, agent.emit)  # type: ignore[arg-type]  # it is not ended here
        process._stdin = Quiet()  # type: ignore[assignment]
        process.pipe_data_received(STDOUT, LINE + b"\n")  # the first line also opens the log
        called, handed_on_by, moves = way(lambda: process.pipe_data_received(STDOUT, LINE + b"\n"))
        await asyncio.sleep(0)
        assert sum(LINE in frame for frame in frames) == 2
        assert (handed_on_by[0], handed_on_by[-1]) == ("agents.process", "server.app.outbox")
        assert {"agents.claude.conversation", "agents.output"} <= called - set(handed_on_by), "the driver returns"
        sys.stdout.write(report(called, handed_on_by, moves))
        again = decodes(lambda: process.pipe_data_received(STDOUT, LINE + b"\n"), monkeypatch)
        assert again == ["agents.output.parsed"]
    finally:
        await server.core.close("the server is ending")


def report(called: set[str], handed_on_by: list[str], moves: int) -> str:
    helpers = sorted(called - set(handed_on_by))
    return (
        f"modules called for an agent's line, including helpers: {len(called)}; moves between them: {moves}\n"
        f"modules that pass it on: {len(handed_on_by)}: {', '.join(handed_on_by)}\n"
        f"modules that help and return: {len(helpers)}: {', '.join(helpers)}\n"
    )
