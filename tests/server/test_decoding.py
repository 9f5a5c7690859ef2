"""An agent's line is decoded once on its way from the agent's process to the sockets: by its driver."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from drawbridge.agents.base import AgentLine
from drawbridge.agents.claude.conversation import ClaudeConversation
from tests.server.twin import Client, Server

LINE = b'{"type":"assistant","message":{"content":[{"type":"text","text":"hi"}]},"session_id":"s","uuid":"u"}'
NESTED = b'{"type":"user","message":' + b"[" * 300 + b"]" * 300 + b',"n":[' + b"[]," * 300 + b'[]],"session_id":"s"}'


def decodes(work: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where JSON is decoded while ``work`` runs: the names of the functions."""
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
    server = Server(tmp_path, broadcast=lambda audience, frame: frames.extend(frame.data for _ in audience))
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
    """Else the test above could not fail."""
    decoder = msgspec.json.Decoder()
    work = [lambda: decoder.decode(b"1"), lambda: msgspec.json.decode(b"1"), lambda: json.loads("1")]
    for one in work:
        assert len(decodes(one, monkeypatch)) == 1
