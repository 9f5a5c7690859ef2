"""Starts Claude Code for the server: finds the program and checks its version."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from drawbridge.agents import catalog, process
from drawbridge.agents.base import AgentState, AgentUnusable, Event, Launch, StoredConversations
from drawbridge.agents.claude import command_line, earlier, open_sessions, prompts, reports
from drawbridge.agents.claude.conversation import ClaudeConversation
from drawbridge.agents.output import readable
from drawbridge.agents.proposals import read_file
from drawbridge.core import subprocesses

ROW: Final = catalog.AGENTS["claude"]

VERSION_SECONDS: Final = 20.0
"""The maximum number of seconds to wait for the version. 2.1.329 prints it after 0.02 s or, the first time on a
machine, after 3 s."""

ANSWER_LIMIT: Final = 4096


class Claude:
    name, asks, own_modes, sees, forks = ROW.name, ROW.asks, ROW.own_modes, ROW.sees, ROW.forks
    sessions: StoredConversations = open_sessions.ClaudeSessions()
    embeds = staticmethod(prompts.embeds)

    def __init__(self, path: str | None = None, environment: Mapping[str, str] = os.environ) -> None:
        """``path``: the program. If it is None, PATH and the usual places are searched at each start."""
        self._path = path
        self._environment = environment
        self._proven: tuple[str, int, int] | None = None

    async def start(self, launch: Launch, emit: Callable[[Event], None]) -> process.Process:
        arguments = command_line.arguments(launch)
        program = await self._program()
        if launch.resume:
            users = await asyncio.to_thread(self.sessions.used_by, launch.session_id)
            if users:
                raise AgentUnusable("SESSION_IN_USE", in_use(users))
        environment = command_line.environment(self._environment, launch.directory, launch.mark)
        environment |= command_line.STATES
        resumed = launch.resume or launch.fork_from is not None
        jobs = await asyncio.to_thread(earlier.jobs, Path(launch.directory), launch.session_id) if launch.resume else {}
        conversation = ClaudeConversation(ROW.title, read_file, resumed=resumed, state=launch.state, jobs=jobs)
        conversation.initialize()
        command = [program, *arguments]
        return await process.start(
            ROW.title, command, launch.directory, environment, conversation, emit, launch.confinement, look=launch.look
        )

    def last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        return reports.last_state(lines, session_id)

    async def probe(self) -> str:
        """The program's version, such as "2.1.329". Raises ``AgentUnusable`` with a text that explains the problem."""
        return await self._version(await asyncio.to_thread(self._find))

    async def _program(self) -> str:
        """The path of the program, which is new enough. Its version is checked again only if the file has changed.
        Raises ``AgentUnusable``."""
        path = await asyncio.to_thread(self._find)
        with contextlib.suppress(OSError):
            status = await asyncio.to_thread(os.stat, path)
            seen = (path, status.st_mtime_ns, status.st_size)
            if self._proven != seen:
                await self._version(path)
                self._proven = seen
        return path

    def _find(self) -> str:
        """The absolute path of the program. Blocking. Raises ``AgentUnusable``."""
        places = ROW.places if self._path is None else ()
        named = shutil.which(self._path or ROW.program, path=self._environment.get("PATH")) or self._path
        found = next(
            (place for place in (named, *map(os.path.expanduser, places)) if place and os.path.isfile(place)), None
        )
        if found is None:
            where, remedy = "on PATH or in the usual places", "start the server with --agent-path claude=PATH"
            if self._path:
                where, remedy = "at the path given with --agent-path", "correct --agent-path"
            raise AgentUnusable(
                "AGENT_NOT_FOUND",
                f"The `claude` program was not found {where} on the server's machine. Install Claude Code there, or "
                f"{remedy}.",
            )
        return os.path.abspath(found)

    async def _version(self, path: str) -> str:
        environment = command_line.environment(self._environment, "/", uuid.uuid4().hex)
        try:
            finished = await subprocesses.run(
                [path, "--version"], directory="/", seconds=VERSION_SECONDS, limit=ANSWER_LIMIT, environment=environment
            )
        except OSError as error:
            name = os.path.basename(path)
            raise AgentUnusable("EXECUTION_FAILED", f"`{name}` can't be run: {error.strerror}.") from None
        answer = readable(finished.output.decode("utf-8", "replace"))
        numbers = command_line.version(answer)
        if numbers is None:
            problem = f"`{Path(path).name} --version` did not print a version"
            if finished.status is None and not finished.dropped:
                problem += f" within {VERSION_SECONDS:g} s"
            printed = f": {answer[:200]!r}" if answer else ""
            raise AgentUnusable("EXECUTION_FAILED", f"{problem}{printed}. Run it on the server's machine to see why.")
        if numbers < command_line.OLDEST:
            oldest = ".".join(map(str, command_line.OLDEST))
            shown = ".".join(map(str, numbers))
            raise AgentUnusable(
                "AGENT_TOO_OLD",
                f"Claude Code {shown} is too old; {oldest} or newer is required. Run `claude update` on the server's machine.",
            )
        return ".".join(map(str, numbers))


def agent(path: str | None) -> Claude:
    return Claude(path)


def in_use(users: Sequence[int]) -> str:
    """The error text if a conversation can't be resumed because the processes ``users`` have it open. Two processes
    would write to the same file without coordination."""
    shown = ", ".join([*map(str, users[:3]), *(["…"] if len(users) > 3 else [])])
    one = f"another Claude Code process (PID {shown})"
    where = one if len(users) == 1 else f"other Claude Code processes (PIDs {shown})"
    text = f"This conversation is open in {where}, perhaps in a terminal."
    return f"{text} Close it there, or fork the conversation."
