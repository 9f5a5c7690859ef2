"""Agents of our own that speak the protocol, and what is read out of what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from drawbridge.agents.acp.driver import Acp
from drawbridge.agents.base import AgentLine
from tests.agents.rig import ReceivedEvents

HERE = Path(__file__).parent
OFFICIAL = HERE / "official_agent.py"


def official(*flags: str) -> Acp:
    """The one that is written with the official library."""
    return Acp("official", [sys.executable, str(OFFICIAL), *flags], "The official agent")


def bad(what: str) -> Acp:
    return Acp("bad", [sys.executable, str(HERE / "bad_agent.py"), what], "The bad agent")


def words(heard: ReceivedEvents, *, durable: bool = True) -> list[str]:
    """What it said for people: as the history keeps it, or the pieces that are shown meanwhile."""
    lines = [json.loads(line.raw) for line in heard.all(AgentLine) if line.durable is durable]
    return said(lines)


def said(lines: list[dict[str, Any]]) -> list[str]:
    told = [line["params"] for line in lines if line.get("method") == "session/update"]
    updates = [one["update"] for one in told if isinstance(one, dict) and isinstance(one.get("update"), dict)]
    return [update["content"]["text"] for update in updates if update.get("sessionUpdate") == "agent_message_chunk"]
