"""The conversations that a project's agent has stored, including those begun in a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import psutil

from drawbridge.agents.base import Agent, ListsConversations, StoredConversation


async def listed(agent: Agent | None, path: Path, limit: int) -> list[StoredConversation]:
    """The conversations, at most ``limit``, most recently active first; empty if the agent can't list them. Raises
    ``AgentUnusable``."""
    if agent is not None and agent.sessions is not None:
        return await asyncio.to_thread(agent.sessions.listed, path, limit)
    asked: object = agent
    return await asked.list_conversations(path, limit) if isinstance(asked, ListsConversations) else []


def directories(agents: Iterable[Agent], limit: int) -> list[tuple[Path, str]]:
    """The directories in which the agents have worked, with or without Drawbridge, each with the time of its last
    activity (RFC 3339 in UTC); at most ``limit`` per agent. Blocking."""
    kept = [agent.sessions.directories(limit) for agent in agents if agent.sessions is not None]
    return [(path, time_of(seconds)) for found in kept for path, seconds in found]


def known(agent: Agent | None, path: Path, session_id: str) -> bool:
    """Whether the conversation can be resumed, judged by the agent's files, without asking the agent. Blocking."""
    if agent is None or agent.sessions is None:
        return bool(session_id)
    return agent.sessions.known(path, session_id)


def stored(agent: Agent | None, path: Path, session_id: str) -> bool:
    """Whether the agent's files include a transcript of the conversation. Blocking."""
    return agent is not None and agent.sessions is not None and agent.sessions.known(path, session_id)


def title(agent: Agent | None, path: Path, session_id: str) -> str | None:
    """The conversation's title in the agent's own transcript; None if it is not known. Blocking."""
    return None if agent is None or agent.sessions is None else agent.sessions.title(path, session_id)


def used_by(agent: Agent | None, session_id: str, own: Iterable[int]) -> list[int]:
    """The PIDs of the processes that have a conversation open, except those in the process trees of ``own``.
    Blocking."""
    if agent is None or agent.sessions is None:
        return []
    ours = set(own)
    return [pid for pid in agent.sessions.used_by(session_id) if not ours & _ancestors(pid)]


def in_use(agent: Agent | None, where: str, remedy: str = "Close it there") -> str:
    """The error text for a conversation that is open elsewhere. Two processes would write to the same file, and neither
    would see what the other does. ``where``: such as "in a terminal"; ``remedy``: how to close it, without a period."""
    forks = ", or fork the conversation" if agent is None or agent.forks else ""
    return f"This conversation is open {where}. {remedy}{forks}."


def _ancestors(pid: int) -> set[int]:
    """``pid`` itself, and the PIDs of all its ancestors."""
    try:
        return {pid, *(parent.pid for parent in psutil.Process(pid).parents())}
    except psutil.Error:
        return {pid}


def time_of(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
