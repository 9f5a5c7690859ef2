"""Prepares the agent process of a managed session for a run, keeps it for the next one, and ends it.

At most one process is current. It belongs to the run that uses it or, without a run, to the pool of idle processes.
When a process is being ended, it belongs to the task that ends it, and its events are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.agents import base
from drawbridge.agents.results import exit_words
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.sessions.conversations import conversations
from drawbridge.server.sessions.directories.allowed_directories import identity
from drawbridge.server.sessions.processes.processes import AgentProcesses
from drawbridge.server.sessions.recorded_state import RecordedState
from drawbridge.server.sessions.runs.scheduled import Scheduled

logger = logging.getLogger("drawbridge.server")

LONGEST_ERROR: Final = 2_000
"""The maximum number of characters of an agent's error that clients see."""

CHECK_SECONDS: Final = 60.0
"""The maximum number of seconds between two checks of the schedule, because the clock may be adjusted, and the machine
may be suspended."""


class ModeSet(Struct, frozen=True):
    """The mode that the process was given; None if the process has ended or is being ended."""

    mode: str | None


class AskerGone(Struct, frozen=True):
    """Open questions no longer need an answer. The event contains the reason, which clients see."""

    reason: str = "the agent's process ended before the request was answered"


ProcessReport: TypeAlias = (
    AskerGone
    | base.AgentLine
    | base.SessionIdentified
    | base.ModeChanged
    | base.StateReported
    | base.OffersReported
    | base.ScheduleChanged
    | base.DirectoryChanged
    | base.QuestionCancelled
    | ModeSet
)
"""The reports of the process to its session, whether or not a run is active."""

TurnEvent: TypeAlias = base.Question | base.TurnBegun | base.TurnEnded | base.Exited
"""The events that concern the run."""


class ContinuedConversation(Struct, frozen=True):
    """What a run continues: the conversation of ``recorded``, or a copy of ``fork_from``. ``state``: what the agent has
    reported about the conversation."""

    recorded: RecordedState
    fork_from: str | None
    state: base.AgentState


class _Listener:
    """Receives the events of one process, until they have to be ignored. ``forget`` is called when the process has
    exited, even if its events are ignored."""

    def __init__(self, receive: Callable[[base.Event], None], forget: Callable[[], None]) -> None:
        self._receive: Callable[[base.Event], None] | None = receive
        self._forget = forget
        self.exited: base.Exited | None = None

    def receive(self, event: base.Event) -> None:
        if isinstance(event, base.Exited):
            self.exited = event
            self._forget()
        if self._receive is not None:
            self._receive(event)

    def ignore(self) -> None:
        self._receive = None


def last_words(exited: base.Exited) -> str:
    """The last output of a process that has exited, as a message for the user."""
    return exited.stderr.strip()[-LONGEST_ERROR:] or f"The agent {exit_words(exited.code)} without an error message."


class SessionProcess:
    """The agent process of one session. These methods end a process:

    - ``end``, ``end_soon``: the idle process, because its conversation is replaced, or a person or the owner wants it.
    - ``end_if_idle``: the idle process, because the pool needs room.
    - ``leave``: the process that was prepared for a run that has ended in the meantime.
    - ``kill``: the process of a run, with its turn.
    - ``close``: all processes, because the session is closed.
    """

    def __init__(
        self,
        session_id: str,
        directory: str,
        files: Path,
        processes: AgentProcesses,
        tasks: BackgroundTasks,
        open_in_terminal: Callable[[str], bool],
        report: Callable[[ProcessReport], None],
        about_turn: Callable[[TurnEvent], None],
        look: Callable[[str, base.LookedAt], object],
    ) -> None:
        """``files``: the directory of the files that were sent with prompts. ``open_in_terminal`` returns whether a
        terminal session has a conversation open now. ``report`` and ``about_turn`` receive the events, in order.
        ``look``: see ``Launch.look``; its first argument is the name of the agent."""
        self.id = session_id
        self._directory = directory
        self._files = files
        self._processes = processes
        self._tasks = tasks
        self._open_in_terminal = open_in_terminal
        self._report = report
        self._about_turn = about_turn
        self._look = look
        self._process: base.AgentProcess | None = None
        self.agent = ""
        """The name of the agent that the latest process runs."""
        self.last_output = 0.0
        """The time at which the process last reported something, in seconds on the monotonic clock."""
        self.in_use = False
        """Whether a run uses the process, or the one that is being prepared for it."""
        self.changing = asyncio.Lock()
        """Held while a run is begun or an idle process is ended, so that only one of these happens at a time, no matter
        how long it takes.
        """
        self._kind: tuple[str, base.Options] | None = None
        """The agent and the options of the process; None if no other run may be begun with it."""
        self._directory_identity: tuple[int, int] | None = None
        """The identity of the directory that the process was started in, because its path may now lead to another
        directory.
        """
        self._had_files = False
        """Whether ``_files`` existed when the process was started, because some agents can read there only if it
        did."""
        self._listener: _Listener | None = None
        self._leaving: list[base.AgentProcess] = []
        self._scheduled = Scheduled()
        self._schedule_timer: asyncio.TimerHandle | None = None

    # The process of a run.

    @property
    def pids(self) -> list[int]:
        """The PIDs of its processes: the current one, and any that are ending."""
        return [process.pid for process in (self._process, *self._leaving) if process is not None]

    def use(self) -> None:
        """Marks the process, or the one that is being prepared, as used by a run."""
        self.in_use = True
        self._processes.idle.forget(self)

    def release(self, began: float) -> None:
        """Keeps the process for the next run, because the run that used it has ended. ``began``: when the run began, in
        seconds on the monotonic clock. Has no effect if no run uses the process."""
        if not self.in_use:
            return
        self.in_use = False
        now = time.time()
        self._scheduled.run_ended(now - (time.monotonic() - began), now)
        self._check_schedule()
        if self._process is not None:
            self._processes.idle.keep(self)

    async def check_directories(self, options: base.Options) -> None:
        """See ``AgentProcesses.check_directories``."""
        await self._processes.check_directories(self._directory, options)

    async def prepare(self, agent: str, options: base.Options, continued: ContinuedConversation) -> None:
        """Makes the current process one that runs ``agent`` with these ``options`` in the conversation to continue:
        keeps it, or ends it and starts another. ``changing`` must be held. Raises ``AgentUnusable``."""
        # Claude Code counts a budget from the start of its process (2.1.329), so each run needs its own process.
        budgeted = options.max_budget_usd is not None
        found = await asyncio.to_thread(identity, self._directory)
        same = self._kind == (agent, options) and self._directory_identity == found
        if self._process is not None and not self._had_files and not self._process.busy:
            same = same and not await asyncio.to_thread(self._files.is_dir)
        if self._process is not None and same and not continued.fork_from and not budgeted:
            await self._check_unused(agent, continued.recorded.session_id)
            if self._process is not None:  # the process may have exited in the meantime
                return
        self._warn_of_schedule()
        await self.leave()
        self._directory_identity = found
        await self._start(agent, options, continued)

    async def _check_unused(self, agent: str, session_id: str) -> None:
        """Raises ``AgentUnusable`` if another process, for example in a terminal, has opened the idle process's
        conversation, because both would write to the same file. When a process is started, the agent's driver does this
        check, if it can."""
        found = self._processes.agents.get(agent)
        if found is None or found.sessions is None:
            return
        users = await asyncio.to_thread(conversations.used_by, found, session_id, self.pids)
        in_terminal = self._open_in_terminal(session_id)
        if users or in_terminal:
            where = "in a terminal" if in_terminal else "in another process"
            raise base.AgentUnusable("SESSION_IN_USE", conversations.in_use(found, where))

    async def _start(self, agent: str, options: base.Options, continued: ContinuedConversation) -> None:
        session_id = await self._conversation(agent, continued.recorded)
        resume = bool(session_id) and continued.fork_from is None
        # Whatever was in progress has ended with its process.
        kept = msgspec.structs.replace(continued.state, tasks=(), retry=None, compacting=False)
        files, had_files = await asyncio.to_thread(lambda: (str(self._files.resolve()), self._files.is_dir()))
        launch = base.Launch(
            directory=self._directory,
            session_id=session_id or str(uuid.uuid4()),
            resume=resume,
            fork_from=continued.fork_from,
            options=options,
            confinement=self._processes.limits.confinement,
            state=kept if resume else None,
            files=files,
            look=partial(self._look, agent),
        )
        self._had_files = had_files
        if agent not in self._processes.agents:
            raise base.AgentUnusable("AGENT_NOT_FOUND", f"The server has no agent named {agent}.")
        self.agent = agent
        self._listener = listener = _Listener(self._receive, partial(self._processes.running.remove, launch.mark))
        self._process = await self._processes.start(agent, launch, listener.receive)
        if listener.exited is not None:
            self._process = self._listener = None
            raise base.AgentUnusable("EXECUTION_FAILED", last_words(listener.exited))
        self._kind = (agent, options)

    async def is_lost(self, agent: str, recorded: RecordedState) -> bool:
        """Whether the agent ended before it stored the conversation of ``recorded``, so that no process can continue
        it."""
        return self._process is None and bool(recorded.session_id) and not await self._conversation(agent, recorded)

    async def _conversation(self, agent: str, recorded: RecordedState) -> str:
        """The id of the conversation to resume; empty if none was begun, or if the agent ended before it stored the one
        that it had begun."""
        found = self._processes.agents.get(agent)
        if not recorded.unproven or found is None or found.sessions is None:
            return recorded.session_id
        is_kept = await asyncio.to_thread(found.sessions.known, Path(self._directory), recorded.session_id)
        return recorded.session_id if is_kept else ""

    def _receive(self, event: base.Event) -> None:
        """Handles an event of the process. ``Exited`` is the last one."""
        self.last_output = time.monotonic()
        match event:
            case base.Question() | base.TurnBegun() | base.TurnEnded():
                self._about_turn(event)
            case base.Exited():
                self._process = self._kind = self._listener = None
                self._unscheduled()
                self._report(ModeSet(None))
                self._processes.idle.forget(self)
                self._about_turn(event)
            case base.ScheduleChanged(until):
                self._scheduled.changed(until)
                self._report(event)
                self._check_schedule()
            case _:
                self._report(event)

    # Messages to the process.

    def prompt(self, text: str, attachments: tuple[base.Attachment, ...]) -> None:
        if self._process is not None:
            self._process.prompt(text, attachments)

    def answer(self, question_id: str, decision: base.Decision) -> None:
        if self._process is not None:
            self._process.answer(question_id, decision)

    def interrupt(self) -> None:
        """Asks the agent to end its turn."""
        if self._process is not None:
            self._process.interrupt()

    def steer(self, text: str, attachments: tuple[base.Attachment, ...], record: Callable[[], None]) -> None:
        """See ``AgentProcess.steer``. Also raises ``NotAtWork`` if the process has ended."""
        if self._process is None:
            raise base.NotAtWork("its process has ended")
        self._process.steer(text, attachments, record)

    async def change(
        self, *, permission_mode: str | None = None, model: str | None = None, effort: str | None = None
    ) -> None:
        """Sets the mode, the model and the effort of the current process, if any; None for those that do not change.
        The mode is sent even if it has not changed, since an agent may have left it on its own or because of a
        decision. Raises ``AgentRefused``.
        """
        async with self.changing:
            process, kind = self._process, self._kind
        if process is None or kind is None:
            return
        agent, before = kind
        if permission_mode:
            await process.set_mode(permission_mode)
            if self._process is process:
                self._report(ModeSet(permission_mode))
        if model and model != before.model:
            await process.set_model(model)
        if effort and effort != before.effort and not await process.set_effort(effort):
            effort = None  # the next run needs a new process for it
        if self._process is process and self._kind is not None:
            mode, model = permission_mode or before.permission_mode, model or before.model
            after = msgspec.structs.replace(before, permission_mode=mode, model=model, effort=effort or before.effort)
            self._kind = (agent, after)

    async def set_mode(self, mode: str) -> None:
        """Sets the mode of the current process only. Raises ``AgentRefused``."""
        async with self.changing:
            process = self._process
        if process is not None:
            await process.set_mode(mode)
            if self._process is process:
                self.mode_changed(mode)
                self._report(ModeSet(mode))

    def mode_changed(self, mode: str) -> None:
        """Stores the mode that the process has changed to, so that it is reused for a run with this mode."""
        if self._kind is not None:
            agent, options = self._kind
            self._kind = (agent, msgspec.structs.replace(options, permission_mode=mode))

    # The agent's schedule.

    @property
    def scheduled_until(self) -> float | None:
        """The earliest time at which the last turn that the agent has scheduled can begin, in seconds since 1970. It
        may have passed less than ``scheduled.LATE_SECONDS`` ago. None if it passed earlier, or if nothing is
        scheduled."""
        until = self._scheduled.until
        return until if until is not None and self.is_scheduled else None

    @property
    def is_scheduled(self) -> bool:
        """Whether the process is needed for a turn that the agent has scheduled, which may be due at this moment."""
        left = self._scheduled.seconds_left(time.time())
        return left is not None and left > 0

    def _check_schedule(self) -> None:
        """Once the last scheduled turn is more than ``scheduled.LATE_SECONDS`` late, reports that nothing is scheduled
        anymore, or, during a run, only after the run."""
        if self._schedule_timer is not None:
            self._schedule_timer.cancel()
        left = self._scheduled.seconds_left(time.time())
        if left is None or self.in_use:
            return
        if left <= 0:
            self._unscheduled()
        else:
            loop = asyncio.get_running_loop()
            self._schedule_timer = loop.call_later(min(left, CHECK_SECONDS), self._check_schedule)

    def _warn_of_schedule(self) -> None:
        """Logs a warning if the process, which is about to be ended, is needed for what its agent has scheduled."""
        if self.is_scheduled:
            logger.warning("%s: stopping an idle process, and with it what its agent has scheduled", self.id)

    def _unscheduled(self) -> None:
        """Forgets the schedule and reports the change, because the process has ended or will end, or the time has
        passed."""
        if self._schedule_timer is not None:
            self._schedule_timer.cancel()
        if self._scheduled.until is not None:
            self._scheduled.changed(None)
            self._report(base.ScheduleChanged(None))

    # Ending processes.

    async def end(self) -> None:
        """Ends the idle process, if any, and waits until it has exited. Its events are ignored from now on.

        Does not wait for a process that is still starting for a killed run. That process is ended once it has started.
        """
        self._warn_of_schedule()
        await self._end(self._detach())

    def end_soon(self) -> None:
        """Like ``end``, but logs no warning about a schedule, and does not wait until the process has exited. A turn
        that the process begins now is ignored."""
        self._tasks.start(self._end(self._detach()), f"{self.id}: ending an idle process")

    def end_if_idle(self) -> None:
        """Ends the process on behalf of the pool, unless a run has begun in the meantime. A process that is working in
        the background is kept."""
        if self._process is not None and self._process.busy:
            self._processes.idle.retain(self)
            return
        self._tasks.start(self._end_unused(), f"{self.id}: ending an idle process")

    async def _end_unused(self) -> None:
        if not self.in_use:
            await self.end()

    async def leave(self) -> None:
        """Ends the current process, if any, and waits until it has exited. ``changing`` must be held."""
        await self._stop(self._detach())

    async def kill(self) -> None:
        """Ends the process of a run with its turn, if any, and waits until it has exited. It is current until then, but
        no other run is begun with it."""
        if self._process is not None:
            self._kind = None
            await self._process.kill()

    async def kill_all(self) -> None:
        """Kills all processes, including those that are already ending, because the session is being closed."""
        living = [*self._leaving, *([] if self._process is None else [self._process])]
        await asyncio.gather(*(process.kill() for process in living))

    def close(self) -> None:
        """Stops watching the schedule."""
        if self._schedule_timer is not None:
            self._schedule_timer.cancel()

    async def _end(self, process: base.AgentProcess | None) -> None:
        if process is not None:
            async with self.changing:
                await self._stop(process)

    def _detach(self) -> base.AgentProcess | None:
        """Marks the current process, if any, as being ended. The caller has to call ``_stop``. Its events are ignored
        from now on."""
        process = self._process
        if process is not None:
            self._leaving.append(process)
        self._processes.idle.forget(self)
        if self._listener is not None:
            self._listener.ignore()
        self._report(AskerGone())
        self._process = self._kind = self._listener = None
        self._unscheduled()
        self._report(ModeSet(None))
        return process

    async def _stop(self, process: base.AgentProcess | None) -> None:
        """Ends a process that ``_detach`` has returned."""
        if process is not None:
            try:
                await process.stop()
            finally:
                self._leaving.remove(process)
