"""Our test agents that speak the Agent Client Protocol, and functions that read their messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from drawbridge.agents.acp.driver import Acp
from drawbridge.agents.base import AgentLine
from tests.agents.rig import ReceivedEvents, blocks

HERE = Path(__file__).parent
OFFICIAL = HERE / "official_agent.py"


def official(*flags: str) -> Acp:
    """Returns the agent that uses the official library. ``flags``: see ``official_agent``."""
    return Acp("official", [sys.executable, str(OFFICIAL), *flags], "The official agent")


def bad(what: str) -> Acp:
    return Acp("bad", [sys.executable, str(HERE / "bad_agent.py"), what], "The bad agent")


def words(received: ReceivedEvents, *, durable: bool = True) -> list[str]:
    """Returns the agent's texts: the messages in the history or, if not ``durable``, the pieces sent before them."""
    if durable:
        return said(received.all(AgentLine))
    lines = [json.loads(line.raw) for line in received.all(AgentLine) if not line.durable]
    events = [line["event"] for line in lines if line.get("type") == "stream_event"]
    return [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]


def said(lines: Iterable[AgentLine]) -> list[str]:
    return [block["text"] for block in blocks(lines) if block["type"] == "text"]
