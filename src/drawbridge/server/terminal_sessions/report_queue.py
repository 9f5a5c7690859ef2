"""Processes what is reported about a terminal session in the right order. Before each report, the lines that the
conversation's file contains at that time are processed. ``ReportQueue._begins_turn`` describes the only exception.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.terminal_sessions.conversation_file import ConversationFile
from drawbridge.server.terminal_sessions.processes import Process
from drawbridge.server.terminal_sessions.reports import AfterText, Barrier, Condition, HookReport, ProcessCheck, Report
from drawbridge.server.terminal_sessions.session import TerminalSession

logger = logging.getLogger("drawbridge.server")

WORKING_SECONDS: Final = 0.3
RESTING_SECONDS: Final = 3.0
"""Seconds between two checks of a conversation's file and of the agent's process while no hook reports anything: the
first during a run or while an approval request is open, the second otherwise. An ended session is not checked.

A check takes 0.4 ms of processor time. No event can replace it, because no hook reports the agent's texts between two
tool calls, a prompt that the user withdrew, or a process that was moved to the background or killed. Only the agent's
files and its process show that. Python can't watch files. The interfaces of the operating systems differ, and report
nothing on network disks. Only Linux has an event for the end of any process (``pidfd_open``), and the files would still
have to be checked."""


class ReportQueue:
    """The reports about ``session``, in order of arrival. Between reports, the agent is checked, because its end may
    not be reported."""

    def __init__(self, session: TerminalSession) -> None:
        self.session = session
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._next: Report | None = None
        """The report that is processed once the lines that precede it in the file have been read; None if none is
        due."""
        self._file = ConversationFile(
            session.id, session.terminal_agent, session.processes, session.history, session.recorded
        )
        self._finding: asyncio.Task[None] | None = None
        """The search for the mode in which the agent's process was started."""
        self._tasks = BackgroundTasks(logger)
        self._task = self._tasks.start(self._run(), f"{session.id}: following the session")

    @property
    def waiting(self) -> int:
        """The number of reports that wait behind the next one."""
        return self._reports.qsize()

    def add(self, report: Report) -> None:
        self._reports.put_nowait(report)

    def set_process(self, process: Process, path: str) -> None:
        """Sets the agent's process and the path of its transcript, as reported by a hook. If the transcript has
        moved, lines that have not been read yet are read from the new path."""
        if self.session.processes.reported(process, path, is_ended=self.session.ended):
            if not self._file.is_open:
                self._file.open_again()
            self.session.save()

    async def processed(self) -> None:
        """Returns when all reports until now have been processed, or the processing has ended because the session was
        closed. Also waits for the search for a process's mode."""
        done = asyncio.get_running_loop().create_future()
        self.add(Barrier(done))
        await asyncio.wait([done, self._task], return_when=asyncio.FIRST_COMPLETED)
        if self._finding is not None:
            await asyncio.wait([self._finding])

    async def _run(self) -> None:
        session = self.session
        while True:
            interval = WORKING_SECONDS if session.turns.current or session.approvals else RESTING_SECONDS
            try:
                async with asyncio.timeout(None if session.ended else interval):
                    self._next = await self._reports.get()
            except TimeoutError:
                self._next = ProcessCheck({})
            try:
                if isinstance(self._next, ProcessCheck):
                    await self._file.open()
                    self._next = ProcessCheck(await self._file.states(session.checked_processes))
                if not self._begins_turn(self._next):
                    await self._read_until(self._next.after)
                if isinstance(self._next, HookReport):
                    await session.examine_place(self._next.event)
                    if self._next.ends_call:
                        await session.read_decided()
            except Exception:
                logger.exception("%s: internal error", session.id)
            self._process_next()

    def _begins_turn(self, report: Report) -> bool:
        """Whether only this report begins the turn of a prompt that the file may already contain. It is then processed
        first, because otherwise the prompt in the file would not belong to any turn. Lines from before the session are
        always read first."""
        if not isinstance(report, HookReport) or self.session.agent.names_turns:
            return False
        return report.event.name == "UserPromptSubmit" and self._file.is_up_to_date

    def _process_next(self) -> None:
        report, self._next = self._next, None
        if report is not None:
            self._process(report)

    def _process(self, report: Report) -> None:
        try:
            self.session.process(report)
            if isinstance(report, HookReport) and report.starts_process:
                self._finding = self._tasks.start(
                    self._find_mode(report.pid), f"{self.session.id}: finding its permission mode"
                )
        except Exception:  # this session may be shown incorrectly, but the others are not affected
            logger.exception("%s: internal error", self.session.id)

    async def _find_mode(self, pid: int) -> None:
        """Finds the mode in which the agent's process was started, because the process reports its mode only with its
        first prompt."""
        self.session.started_in(pid, await self._file.start_mode(pid, self.session.path))

    async def _read_until(self, condition: Condition | None) -> None:
        """Reads all new lines. The CLI writes lines a moment after it shows them, so this waits for ``condition`` as
        long as its report may wait. No event reports that the file has changed."""
        seconds = condition.seconds if condition is not None else 0.0
        until = time.monotonic() + seconds
        await self._read()
        while self._file.is_open and not self._is_met(condition) and time.monotonic() < until:
            await asyncio.sleep(seconds / 20)
            await self._read()

    def _is_met(self, condition: Condition | None) -> bool:
        """Whether the transcript was read so far that a report with this condition can be processed."""
        if condition is None:
            return True
        if isinstance(condition, AfterText):
            return self.session.turns.last_text.strip() == condition.text.strip()
        turn = self.session.turns.current
        # The prompt of a custom command is not recorded.
        return turn is None or turn.recorded or time.monotonic() - turn.began > condition.seconds

    async def _read(self) -> None:
        session, file = self.session, self._file
        await session.restore_agent_state()
        await file.open()
        if file.is_open and not session.recorded.title:
            # The title may precede what is read below, which is only the end of a long conversation.
            session.learn_title(await file.title())
        has_more = True
        while has_more or file.has_moved:
            try:
                portion = await file.read()
            except OSError as error:
                logger.warning("%s: its conversation can't be read: %s", session.id, error)
                return
            if portion is None:
                break
            if portion.has_results:
                await session.read_decided()
            session.read(portion)
            has_more = portion.has_more
        if not file.is_up_to_date:
            session.publish_reports()  # including the tasks from before a restart
        file.was_read()

    def process_all(self) -> None:
        """Processes all reports now, without reading the lines that precede them in the file."""
        self._process_next()
        while not self._reports.empty():
            self._process(self._reports.get_nowait())

    def close(self) -> asyncio.Task[None]:
        """Stops processing reports. Returns the task, which ends soon."""
        self._tasks.cancel()
        return self._task
