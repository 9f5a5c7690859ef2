"""Processes what hooks and the conversation's file report about a terminal session, in the right order, and checks the
agent's process, whose end may not be reported.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from drawbridge.agents.terminal import NotItsFile, ProcessState
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.terminal_sessions.processes import Process
from drawbridge.server.terminal_sessions.session import TerminalSession
from drawbridge.server.terminal_sessions.transcript_file import TranscriptFile

logger = logging.getLogger("drawbridge.server")

WORKING_SECONDS: Final = 0.3
RESTING_SECONDS: Final = 3.0
"""Seconds between two checks of a conversation's file and of the agent's process while no hook reports anything: the
first during a run or while an approval request is open, the second otherwise. An ended session is not checked."""

RECORD_SECONDS: Final = 3.0
"""Seconds by which a transcript may be late (0.1 to 1 s with Claude Code 2.1.329, more on a busy machine)."""

PROMPT_SECONDS: Final = 1.0
"""Seconds by which a run's prompt may be late in the transcript when its agent asks something. This limit is shorter
because a person may be waiting for the question."""

LOOKS: Final = 3
"""The number of checks that wait for the successor of a session that was moved to the background. After these checks,
the session ends without naming its successor."""


_Condition = Callable[[], bool]


def _now() -> bool:
    return True


class Reports:
    """Processes the reports about one session in order of arrival, each after the lines that the conversation's file
    contains by then. Also checks whether the agent is still running, because its end may not be reported.
    """

    def __init__(self, session: TerminalSession, beginning_with: Callable[[str], str | None]) -> None:
        """``beginning_with``: returns the id of the terminal session whose agent's own session id begins with the given
        prefix, if any."""
        self.session = session
        self._beginning_with = beginning_with
        self._moved = ("", 0)
        """The beginning of the id of the session that the conversation was moved to, and the number of checks that have
        found it."""
        self._calls: asyncio.Queue[tuple[Callable[[], None], _Condition, float]] = asyncio.Queue()
        self._call: Callable[[], None] | None = None
        """The next call, which is made once the lines that precede it in the file have been read; None if no call is
        due."""
        self._file: TranscriptFile | None = None
        self._processes: dict[int, ProcessState] = {}
        """What the agent's own files about its processes contained at the last check."""
        self._path = ""
        """The path of the transcript, as the agent's process reported it when the transcript was last opened."""
        self._seen = False
        self._is_up_to_date = False
        """Whether the file has been read to its end since the server was started."""
        self._finding: asyncio.Task[None] | None = None
        """The search for the mode in which the agent's process was started."""
        self._tasks = BackgroundTasks(logger)
        self._open_file()
        self._task = self._tasks.start(self._follow(), f"{session.id}: following the session")

    def add(self, call: Callable[[], None]) -> None:
        """Adds a call, which is made after the calls that were added before."""
        self._calls.put_nowait((call, _now, 0.0))

    def add_after_text(self, call: Callable[[], None], text: str) -> None:
        """Like ``add``, but if possible after the agent's text ``text``, which the transcript may not contain yet."""
        self._calls.put_nowait((call, lambda: self.session.last_text.strip() == text.strip(), RECORD_SECONDS))

    def add_after_prompt(self, call: Callable[[], None]) -> None:
        """Like ``add``, but if possible after the prompt of the run, which the transcript may not contain yet."""
        self._calls.put_nowait((call, self._has_prompt, PROMPT_SECONDS))

    def _has_prompt(self) -> bool:
        """Whether the prompt of the run was found in the transcript, or is not expected there any longer: the prompt of
        a custom command is not recorded. Also true between runs."""
        turn = self.session.turn
        return turn is None or turn.recorded or time.monotonic() - turn.began > PROMPT_SECONDS

    def set_process(self, process: Process, path: str) -> None:
        """Sets the agent's process and the path of its transcript, as a hook has reported them. The CLI moves the file
        when the agent enters a worktree (2.1.329): lines that have not been read yet are read from the new path."""
        if self.session.processes.reported(process, path, is_ended=self.session.ended):
            if self._file is None:  # otherwise ``_read`` opens it, once the read in progress has ended
                self._open_file()
            self.session.save()

    def find_mode(self, pid: int) -> None:
        """Starts a search for the mode in which the agent's process was started: the process reports its mode only with
        its first prompt."""
        self._finding = self._tasks.start(self._find_mode(pid), f"{self.session.id}: finding its permission mode")

    async def _find_mode(self, pid: int) -> None:
        agent = self.session.terminal_agent
        mode = await asyncio.to_thread(agent.start_mode, pid, self.session.path) if agent is not None else None
        self.session.started_in(pid, mode)

    async def processed(self) -> None:
        """Returns when all reports until now have been processed, or the processing has ended because the session was
        closed. Also waits for the search that ``find_mode`` has started."""
        done = asyncio.get_running_loop().create_future()
        self.add(lambda: done.set_result(None))
        await asyncio.wait([done, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._finding is not None:
            await asyncio.wait([self._finding])

    def _open_file(self) -> None:
        path, agent = self.session.processes.latest.transcript, self.session.terminal_agent
        self._file, self._path = None, path
        if not path or agent is None:
            return
        session_id = self.session.data.memory.session_id
        try:
            path = agent.checked(path, session_id, self.session.processes.latest.config)
        except NotItsFile:
            logger.warning(
                "%s: its conversation can't be read: this is not the path of its agent's transcript", self.session.id
            )
            return
        after = self._last_entry()
        self._seen = bool(after)
        self._file = TranscriptFile(agent, path, after)

    def _last_entry(self) -> str:
        page = self.session.history.read(before_seq=self.session.history.last_seq + 1, limit=200)
        for record in reversed(page.records):
            if uuid := _uuid_of(record.line):
                return uuid
        return ""

    async def _follow(self) -> None:
        while True:
            interval = WORKING_SECONDS if self.session.turn or self.session.approvals else RESTING_SECONDS
            try:
                async with asyncio.timeout(None if self.session.ended else interval):
                    call, is_recorded, patience = await self._calls.get()
            except TimeoutError:
                call, is_recorded, patience = self._look, _now, 0.0
            self._call = call
            try:
                if call == self._look:
                    self._processes = await self._read_processes()
                await self._read_until(is_recorded, patience)
            except Exception:
                logger.exception("%s: internal error", self.session.id)
            self._do(call)

    def _do(self, call: Callable[[], None]) -> None:
        self._call = None
        try:
            call()
        except Exception:  # this session may be shown wrongly; the others are not affected
            logger.exception("%s: internal error", self.session.id)

    def _look(self) -> None:
        """Checks whether the agent is still running and still has this conversation open: hooks do not always report
        that it has ended, or has left the conversation."""
        session = self.session
        if session.pid is None or session.ended:
            return
        gone = session.processes.gone
        for pid in gone:
            session.leave(pid)
        if gone:
            session.save()
            return
        turn = session.turn
        working = self._processes.get(turn.process) if turn is not None and turn.process is not None else None
        session.tick(working.idle_since if working is not None else None)
        if session.resting and not session.in_background:
            for pid, process in self._processes.items():
                self._look_for_successor(pid, process)

    async def _read_processes(self) -> dict[int, ProcessState]:
        """What the agent's own files contain, by PID, about the process that is working and the process that reported
        last, which receives prompts. Empty while an approval request is open, or if no transcript is read."""
        session, file = self.session, self._file
        if file is None or session.approvals:
            return {}
        pids = {session.pid, session.turn.process if session.turn is not None else None} - {None}
        id = session.data.memory.session_id
        return {pid: await asyncio.to_thread(file.agent.process, file.path, pid, id) for pid in pids if pid is not None}

    def _look_for_successor(self, pid: int, process: ProcessState) -> None:
        job = process.moved_to
        former, looks = self._moved
        if job is None or (job == former and looks > LOOKS):
            return
        self._moved = (job, looks + 1 if job == former else 1)
        successor = self._beginning_with(job)
        if successor is not None or self._moved[1] > LOOKS:
            self._moved = (job, LOOKS + 1)
            self.session.move(pid, successor)

    async def _read_until(self, is_recorded: _Condition, seconds: float) -> None:
        """Reads all new lines. The CLI writes lines a moment after it has shown them, so this waits up to ``seconds``
        for ``is_recorded`` to return true."""
        until = time.monotonic() + seconds
        await self._read()
        while self._file is not None and not is_recorded() and time.monotonic() < until:
            await asyncio.sleep(seconds / 20)
            await self._read()

    async def _read(self) -> None:
        await self.session.look_back()
        more = self._file is not None
        if self._file is not None and not self.session.memory.title:
            # The title may precede what is read below, which is only the end of a long conversation.
            title = await asyncio.to_thread(self._file.agent.title, Path(self._file.path))
            self.session.learn_title(title or "")
        while True:
            if self._path != self.session.processes.latest.transcript:
                # The file has moved, or the process that had it open has left. The new file is opened only now, because
                # reading continues after the last entry in the history.
                self._open_file()
                more = True
            if not more or self._file is None:
                break
            try:
                agent = self._file.agent
                lines, more = await asyncio.to_thread(self._file.read)
            except OSError as error:
                logger.warning("%s: its conversation can't be read: %s", self.session.id, error)
                self._file = None
                return
            entries = [agent.entry(line, self.session.data.memory.session_id) for line in lines]
            self.session.expect_prompt(entries)
            for line, entry in zip(lines, entries, strict=True):
                if entry is not None:
                    self.session.add_entry(entry, quiet=not self._seen, late=not self._is_up_to_date)
                self.session.add_report(line)
            if lines:
                self.session.publish_reports()
        if not self._is_up_to_date:
            self.session.publish_reports()  # with the tasks from before a restart
        self._seen = self._is_up_to_date = True

    def process_all(self) -> None:
        """Makes all calls now, without reading the lines that precede them in the file."""
        if self._call is not None:
            self._do(self._call)
        while not self._calls.empty():
            self._do(self._calls.get_nowait()[0])

    def close(self) -> asyncio.Task[None]:
        """Stops processing reports. Returns the task, which ends soon."""
        self._tasks.cancel()
        return self._task


class _Message(Struct):
    uuid: str = ""


class _Record(Struct):
    message: _Message


def _uuid_of(record: bytes) -> str:
    """The ``uuid`` of the entry from which the history line ``record`` was made; "" if it does not contain one."""
    try:
        return msgspec.json.decode(record, type=_Record).message.uuid
    except msgspec.MsgspecError:
        return ""
