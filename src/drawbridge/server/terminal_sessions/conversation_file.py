"""The contents of an agent's own files about a conversation in a terminal: its transcript, its title, and the state of
the processes that have it open.

The agent's program may move the transcript at any time. Claude Code does so when the agent enters a worktree (2.1.329).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.agents.terminal import Entry, Message, NotItsFile, ProcessState, TerminalAgent
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.server.sessions.recorded_state import RecordedState
from drawbridge.server.store.log import History
from drawbridge.server.terminal_sessions.processes import Processes
from drawbridge.server.terminal_sessions.transcript_file import TranscriptFile

logger = logging.getLogger("drawbridge.server")

LOOKED_BACK: Final = 200
LOOKED_BACK_BYTES: Final = 8 * 1024 * 1024
"""The maximum numbers of records, and of bytes, at the end of the history that are searched for the last entry."""


class Portion(Struct, frozen=True):
    """Lines of a transcript that were read together, each with its entries. ``quiet``: whether they are older than the
    session. ``late``: whether they may have been written while no server ran. ``has_more``: whether more lines can be
    read now."""

    lines: list[tuple[bytes, Sequence[Entry]]]
    quiet: bool
    late: bool
    has_more: bool

    @property
    def has_results(self) -> bool:
        """Whether tool calls have ended."""
        return any(isinstance(entry, Message) and entry.results for _, entries in self.lines for entry in entries)


class ConversationFile:
    """The transcript of the session ``id``, and the other files of its agent. ``agent``: None if it has no transcript
    that can be read. ``processes``: what the session's processes have reported, for example the path. Reading begins
    after the last entry in ``history``."""

    def __init__(
        self, id: str, agent: TerminalAgent | None, processes: Processes, history: History, recorded: RecordedState
    ) -> None:
        self._id = id
        self._agent = agent
        self._processes = processes
        self._history = history
        self._recorded = recorded
        self._file: TranscriptFile | None = None
        self._path = ""
        """The path of the transcript, as the agent's process reported it when the transcript was last opened."""
        self._has_begun = False
        """Whether a line of the transcript is in the history, or the transcript has been read to its end."""
        self.is_up_to_date = False
        """Whether the transcript has been read to its end since the server was started."""
        self._opens_again = True
        """Whether the transcript has to be opened before it is read: it has not been opened yet, or a process may have
        reported a new path."""

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def has_moved(self) -> bool:
        """Whether an agent's process has reported another path since the transcript was opened, or the process that had
        it open has ended or closed the conversation.
        """
        return self._opens_again or self._path != self._processes.latest.transcript

    def open_again(self) -> None:
        """Opens the transcript before it is next read."""
        self._opens_again = True

    async def open(self) -> None:
        """If the transcript has moved, opens it at the path that was reported last, unless it can't be there."""
        if not self.has_moved:
            return
        path, agent, config = self._processes.latest.transcript, self._agent, self._processes.latest.config
        self._file, self._path, self._opens_again = None, path, False
        if not path or agent is None:
            return
        try:
            place = await asyncio.to_thread(agent.checked, path, self._recorded.session_id, config)
        except NotItsFile:
            logger.warning(
                "%s: its conversation can't be read: %s is not the path of its agent's transcript", self._id, path
            )
            return
        after = await asyncio.to_thread(self._last_entry)
        self._has_begun = bool(after)
        self._file = TranscriptFile(agent, place, after)

    def _last_entry(self) -> str:
        """The uuid of the last entry in the history; empty if the history contains none. Blocking."""
        before = self._history.last_seq + 1
        page = self._history.read(before_seq=before, limit=LOOKED_BACK, max_bytes=LOOKED_BACK_BYTES)
        for record in reversed(page.records):
            if uuid := _uuid_of(record.line):
                return uuid
        return ""

    async def read(self) -> Portion | None:
        """Reads the next lines; None if no transcript is open. A transcript that has moved is opened only now, because
        reading continues after the last entry in the history. Raises OSError after it has closed the transcript."""
        await self.open()
        file = self._file
        if file is None:
            return None
        try:
            lines, has_more = await asyncio.to_thread(file.read)
        except OSError:
            self._file = None
            raise
        read = [(line, file.agent.entries(line, self._recorded.session_id)) for line in lines]
        return Portion(read, quiet=not self._has_begun, late=not self.is_up_to_date, has_more=has_more)

    def was_read(self) -> None:
        """Marks the transcript as read and processed up to now."""
        self._has_begun = self.is_up_to_date = True

    async def title(self) -> str:
        """The title of the conversation; empty if it is not known."""
        file = self._file
        if file is None:
            return ""
        return await asyncio.to_thread(file.agent.title, Path(file.path)) or ""

    async def states(self, pids: Iterable[int]) -> dict[int, ProcessState]:
        """The states of these processes according to the agent's files, by PID; empty if no transcript is open."""
        file = self._file
        if file is None:
            return {}
        id = self._recorded.session_id
        return {pid: await asyncio.to_thread(file.agent.process, file.path, pid, id) for pid in pids}

    async def start_mode(self, pid: int, directory: Path) -> str | None:
        """The permission mode in which the process ``pid`` was started; None if it can't be determined."""
        return None if self._agent is None else await asyncio.to_thread(self._agent.start_mode, pid, directory)


class _Message(Struct):
    uuid: str = ""


class _Record(Struct):
    message: _Message


def _uuid_of(record: bytes) -> str:
    """The ``uuid`` of the entry from which the history line ``record`` was made; "" if it does not contain one."""
    try:
        return msgspec.json.decode(record, type=_Record).message.uuid
    except UNDECODABLE:
        return ""
