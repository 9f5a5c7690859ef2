"""What agents send to a hook: payloads recorded from real agents (``record_hooks.py``), with changed tool arguments."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, TypeAlias

Payload: TypeAlias = dict[str, Any]

TRANSCRIPTS = Path(__file__).resolve().parents[1] / "transcripts" / "hooks"

A = "/ws/a.py"
"""The file that most of the recorded calls are about."""

KEPT = {"modified": True, "current": True, "visible": True}
"""The state of an open file with unsaved work, which an agent must not change."""


@functools.cache
def _sessions() -> dict[str, list[Payload]]:
    """Returns the recorded payloads, by agent."""
    sessions: dict[str, list[Payload]] = {}
    for transcript in sorted(TRANSCRIPTS.glob("*.jsonl")):
        head, *payloads = map(json.loads, transcript.read_text().splitlines())
        sessions.setdefault(head["agent"], []).extend(payloads)
    return sessions


def all_recorded() -> list[tuple[str, Payload]]:
    """Returns every recorded payload with its agent."""
    return [(agent, payload) for agent, session in _sessions().items() for payload in session]


def recorded(agent: str, event: str, tool: str | None = None, **tool_input: Any) -> Payload:
    """Returns a copy of the first recorded payload of that kind, with the tool's arguments changed by ``tool_input``.
    Raises ``LookupError`` if there is no such payload.
    """
    for payload in _sessions()[agent]:
        if payload["hook_event_name"] == event and payload.get("tool_name") == tool:
            copy: Payload = json.loads(json.dumps(payload))
            if tool_input:
                copy["tool_input"] |= tool_input
            return copy
    raise LookupError(f"{agent} {event} {tool}")


def edit(path: str = A) -> Payload:
    """Returns what Claude Code sends when it is about to edit a file."""
    return recorded("claude", "PreToolUse", "Edit", file_path=path)


def edited(path: str = A) -> Payload:
    """Returns what Claude Code sends when it has edited a file."""
    return recorded("claude", "PostToolUse", "Edit", file_path=path)


def bash(command: str) -> Payload:
    """Returns what Claude Code sends when it is about to run a command in /ws."""
    return recorded("claude", "PreToolUse", "Bash", command=command)
