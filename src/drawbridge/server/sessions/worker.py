"""Starts a project's agent process, keeps it for the next prompt, watches it and ends it.

The process's events are reported to its project, in order. Once the worker has detached a process in order to end it,
that process's events are ignored.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from drawbridge.agents import base
from drawbridge.agents.results import exit_words
from drawbridge.agents.shortage import shortage
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.checkpoints.errors import GitFailed, NoCheckpoint
from drawbridge.server.checkpoints.snapshotter import Snapshotter
from drawbridge.server.events import Outcome
from drawbridge.server.sessions import conversations as sessions
from drawbridge.server.sessions.memory import Memory
from drawbridge.server.sessions.places import identity
from drawbridge.server.sessions.processes import AgentProcesses
from drawbridge.server.sessions.run import Run, State
from drawbridge.server.sessions.scheduled import Scheduled
from drawbridge.text.counts import counted

logger = logging.getLogger("drawbridge.server")

LOOK_BACK_SECONDS: Final = 5.0
"""The maximum number of seconds that ``Worker.close`` waits for the last checkpoint."""

LONGEST_ERROR = 2_000

LOOK_SECONDS: Final = 60.0
"""The maximum number of seconds between two checks of the schedule: the clock may be adjusted, and the machine may be
suspended."""

DEFECT: Final = "The run was stopped because of an internal server error. The server's log has the details."

NOBODY_ASKED = "Approvals are not possible between runs. Continue without this call, or wait for the next prompt."


class ModeSet(Struct, frozen=True):
    """The mode that the process was given; None if the process has ended or is being ended."""

    mode: str | None


class AskerGone(Struct, frozen=True):
    """The process can no longer receive answers. The run, if there is one, continues with another process."""


class PromptGiven(Struct, frozen=True):
    """The process is given the prompt of ``run`` now."""

    run: Run


class RunEnded(Struct, frozen=True):
    """``run`` is over. ``error``: ``code`` and ``message`` of the error that ended it, perhaps with ``retry_at``."""

    run: Run
    outcome: Outcome
    cost_usd: float | None = None
    error: dict[str, Any] | None = None
    tokens: base.Tokens | None = None


Report: TypeAlias = (
    AskerGone
    | base.AgentLine
    | base.SessionIdentified
    | base.ModeChanged
    | base.StateReported
    | base.OffersReported
    | base.ScheduleChanged
    | base.DirectoryChanged
    | base.Question
    | base.QuestionCancelled
    | base.TurnBegun
    | ModeSet
    | PromptGiven
    | RunEnded
)
"""What a worker reports to its project: a ``Question`` only during a run, a ``TurnBegun`` only between runs."""


class _Listener:
    """Receives the events of one process. ``worker`` is set to None once the events are to be ignored. ``forget`` is
    called when the process has exited, even if its events are ignored."""

    def __init__(self, worker: Worker, forget: Callable[[], None]) -> None:
        self.worker: Worker | None = worker
        self._forget = forget
        self.exited: base.Exited | None = None

    def receive(self, event: base.Event) -> None:
        if isinstance(event, base.Exited):
            self.exited = event
            self._forget()
        if self.worker is not None:
            self.worker.receive(event)


def _last_words(code: int, stderr: str) -> str:
    return stderr.strip()[-LONGEST_ERROR:] or f"It {exit_words(code)} without output."


class _Continued(Struct, frozen=True):
    """What a run continues: the conversation of ``memory``, or a copy of ``fork_from``. ``state``: what the agent has
    reported about the conversation."""

    memory: Memory
    fork_from: str | None
    state: base.AgentState


class Worker:
    """The agent process of a project: at most one at a time."""

    def __init__(
        self,
        project_id: str,
        directory: str,
        processes: AgentProcesses,
        snapshotter: Snapshotter,
        files: Path,
        open_in_terminal: Callable[[str], bool],
        report: Callable[[Report], None],
    ) -> None:
        """``files``: the directory of the files that were sent with prompts. ``open_in_terminal`` returns whether a
        terminal session has a conversation open now. ``report`` receives the events, in order."""
        self.id = project_id
        self._directory = directory
        self._files = files
        self._processes = processes
        self._open_in_terminal = open_in_terminal
        self._report = report
        self._process: base.AgentProcess | None = None
        self.agent = ""
        """The name of the agent that the latest process runs."""
        self._kind: tuple[str, base.Options] | None = None
        self._place: tuple[int, int] | None = None
        """The identity of the directory that the process was started in: its path may lead to another directory by
        now."""
        self._had_files = False
        """Whether ``_files`` existed when the process was started: some agents can read there only if it did."""
        self._listener: _Listener | None = None
        self._leaving: list[base.AgentProcess] = []
        self._run: Run | None = None
        self._given: Run | None = None
        """The last run whose prompt the process was given, or whose turn the agent began itself; None if there is no
        such run."""
        self._last_output = 0.0
        self._asked_since: float | None = None
        self._asked_seconds = 0.0
        self._scheduled = Scheduled()
        self._schedule_timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self.tasks = BackgroundTasks(logger)
        self._snapshotter = snapshotter
        self._last_checkpoint: asyncio.Task[None] | None = None
        """The last checkpoint in the background: after a run, or before a run that the agent began without a prompt.
        The next checkpoint waits for it."""
        self._changing = asyncio.Lock()
        """Held while a run is begun or an idle process is ended: one of these at a time, however long it takes."""

    def begin(
        self,
        run: Run,
        agent: str,
        options: base.Options,
        memory: Memory,
        fork_from: str | None,
        state: base.AgentState,
    ) -> None:
        """Gives ``run``'s prompt to the agent, in the conversation of ``memory`` or in a copy of ``fork_from``. The end
        of the run is reported as ``RunEnded``, whatever happens. ``state``: what the agent has reported about the
        conversation so far."""
        self._take(run)
        beginning = self._begin(run, agent, options, _Continued(memory, fork_from, state))
        self.spawn(beginning, "beginning a run", lambda _: self._begin_failed(run))

    def _take(self, run: Run) -> None:
        self._processes.idle.forget(self)
        self._run = run
        self._asked_since, self._asked_seconds = None, 0.0

    async def _begin(self, run: Run, agent: str, options: base.Options, continued: _Continued) -> None:
        examined = False
        try:
            async with self._changing:
                await self._processes.check_directories(self._directory, options)
                examined = True
                await self._checkpoint(run.id, "before", self._last_checkpoint)
                if self._run is not run:  # it has ended in the meantime, for example because it was killed
                    return None
                # Claude Code counts a budget from the start of its process (2.1.329): each run needs its own process.
                budgeted = options.max_budget_usd is not None
                place = await asyncio.to_thread(identity, self._directory)
                same = self._kind == (agent, options) and self._place == place
                if self._process is not None and not self._had_files and not self._process.busy:
                    same = same and not await asyncio.to_thread(self._files.is_dir)
                if self._process is None or not same or continued.fork_from or budgeted:
                    self._warn_of_schedule()
                    await self._leave(self._let_go())
                    self._place = place
                    await self._start(agent, options, continued)
                else:
                    await self._check_unused(agent, continued.memory.session_id)
                if self._run is not run:  # it has ended in the meantime
                    return await self._leave(self._let_go())
        except base.AgentUnusable as error:
            # A directory that may not be used may be a link to one that the server must not touch: no checkpoint there.
            return self._ended(run, "failed", error={"code": error.code, "message": str(error)}, checkpoint=examined)
        except Exception as error:  # the run ends, the server continues
            return self._ended(run, "failed", error=self._not_started(error), checkpoint=examined)
        if run.state is State.STOPPING and self._kind is not None:  # ``stop_run`` clears it to kill the process
            self._ended(run, "interrupted")
        elif run.state in (State.RUNNING, State.ASKING) and self._process is not None:
            self._last_output = time.monotonic()
            self._look(run)
            self._given = run
            self._report(PromptGiven(run))
            self._process.prompt(run.order.prompt, run.order.attachments)
        return None

    async def _check_unused(self, agent: str, session_id: str) -> None:
        """Raises ``AgentUnusable`` if another process, for example in a terminal, has opened the idle process's
        conversation: both would write to the same file. When a process is started, the agent's driver
        does this check, if it can."""
        found = self._processes.agents.get(agent)
        if found is None or found.sessions is None:
            return
        users = await asyncio.to_thread(sessions.used_by, found, session_id, self.pids)
        if users or self._open_in_terminal(session_id):
            raise base.AgentUnusable("SESSION_IN_USE", sessions.IN_USE)

    async def _conversation(self, agent: str, memory: Memory) -> str:
        """The id of the conversation to resume; empty if there is no conversation, or if the agent ended before it
        stored the one that it had begun."""
        found = self._processes.agents.get(agent)
        if not memory.unproven or found is None or found.sessions is None:
            return memory.session_id
        is_kept = await asyncio.to_thread(found.sessions.known, Path(self._directory), memory.session_id)
        return memory.session_id if is_kept else ""

    def _not_started(self, error: Exception) -> dict[str, Any]:
        limit = shortage(error) if isinstance(error, OSError) else None
        if limit is not None:
            logger.error("%s: %s", self.id, limit)
            return {"code": limit.code, "message": str(limit)}
        logger.error("%s: the agent could not be started: internal error", self.id, exc_info=error)
        return {
            "code": "INTERNAL_ERROR",
            "message": "The agent could not be started because of an internal error. The server's log has the details.",
        }

    async def is_lost(self, agent: str, memory: Memory) -> bool:
        """Whether the agent ended before it stored the conversation of ``memory``, so that no process can continue
        it."""
        return self._process is None and bool(memory.session_id) and not await self._conversation(agent, memory)

    async def _start(self, agent: str, options: base.Options, continued: _Continued) -> None:
        session_id = await self._conversation(agent, continued.memory)
        resume = bool(session_id) and continued.fork_from is None
        # What was in progress has ended with its process.
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
        )
        self._had_files = had_files
        if agent not in self._processes.agents:
            raise base.AgentUnusable("AGENT_NOT_FOUND", f"The server has no agent named {agent}.")
        self.agent = agent
        self._listener = listener = _Listener(self, partial(self._processes.running.ended, launch.mark))
        self._process = await self._processes.start(agent, launch, listener.receive)
        if listener.exited is not None:
            self._process = self._listener = None
            text = _last_words(listener.exited.code, listener.exited.stderr)
            raise base.AgentUnusable("EXECUTION_FAILED", text)
        self._kind = (agent, options)

    def receive(self, event: base.Event) -> None:
        """Handles an event of the process; ``Exited`` is the last one."""
        self._last_output = time.monotonic()
        run = self._run
        match event:
            case base.AgentLine() | base.SessionIdentified() | base.ModeChanged() | base.QuestionCancelled():
                self._report(event)
            case base.StateReported() | base.OffersReported() | base.DirectoryChanged():
                self._report(event)
            case base.ScheduleChanged(until):
                self._scheduled.changed(until)
                self._report(event)
                self._look_at_schedule()
            case base.Question() if run is not None:
                self._report(event)
            case base.Question(question_id):  # in a turn that the agent began without reporting it
                self.answer(question_id, base.Decision(allow=False, message=NOBODY_ASKED))
            case base.TurnBegun() if run is None:
                self._report(event)
            case base.TurnEnded() if run is not None and run is self._given:
                outcome: Outcome = "interrupted" if event.interrupted else "completed" if event.ok else "failed"
                error = (
                    None
                    if event.ok
                    else {
                        "code": event.code or "EXECUTION_FAILED",
                        "message": (event.error or "")[:LONGEST_ERROR],
                        "retry_at": event.retry_at,
                    }
                )
                self._ended(run, outcome, event.cost_usd, error, event.tokens)
            case base.Exited(code, stderr):
                self._gone(code, stderr)
            case _:
                logger.info("%s: sent %s between two runs", self.id, type(event).__name__)

    def take_over(self, run: Run) -> None:
        """Makes ``run`` the run of the turn that the agent has begun without a prompt. The checkpoint before it is
        taken while the agent waits for the first answer of its model, which precedes its first change."""
        self._take(run)
        self._given = run
        self._look(run)
        self._start_checkpoint(run.id, "before")

    def _gone(self, code: int, stderr: str) -> None:
        self._process = self._kind = self._listener = None
        self._unscheduled()
        self._report(ModeSet(None))
        self._processes.idle.forget(self)
        run, self._given = self._given, None
        if run is None:  # a run that was not given its prompt yet gets another process
            self._report(AskerGone())
        else:
            self._ended(run, "failed", error={"code": "EXECUTION_FAILED", "message": _last_words(code, stderr)})

    def _ended(
        self,
        run: Run,
        outcome: Outcome,
        cost_usd: float | None = None,
        error: dict[str, Any] | None = None,
        tokens: base.Tokens | None = None,
        *,
        checkpoint: bool = True,
    ) -> None:
        if self._run is not run:
            return
        self._run = None
        if self._watch is not None:
            self._watch.cancel()
        now = time.time()
        self._scheduled.run_ended(now - (time.monotonic() - run.started_at), now)
        self._look_at_schedule()
        if self._process is not None:
            self._processes.idle.keep(self)
        if checkpoint:
            self._start_checkpoint(run.id, "after")
        self._report(RunEnded(run, outcome, cost_usd, error, tokens))

    def _start_checkpoint(self, run_id: str, when: Literal["before", "after"]) -> None:
        taken = self._checkpoint(run_id, when, self._last_checkpoint)
        self._last_checkpoint = self.spawn(taken, f"the checkpoint {when} a run")

    async def _checkpoint(
        self, run_id: str, when: Literal["before", "after"], previous: asyncio.Task[None] | None
    ) -> None:
        """Takes a checkpoint, unless the owner has disabled checkpoints; a failure is logged. First waits for the
        ``previous`` one, so that checkpoints are taken in order, and the one after a run contains nothing that the next
        run changes."""
        if not self._processes.limits.checkpoints:
            return
        if previous is not None:
            await asyncio.wait([previous])
        try:
            if when == "before":
                await self._snapshotter.begin(run_id)
            else:
                await self._snapshotter.create(run_id, when)
        except (GitFailed, NoCheckpoint, OSError) as error:
            logger.warning("%s: the checkpoint %s run %s was not taken: %s", self.id, when, run_id, error)

    # Called by the project.

    @property
    def pids(self) -> list[int]:
        """The PIDs of its processes: the current one, and any that are ending."""
        return [process.pid for process in (self._process, *self._leaving) if process is not None]

    def answer(self, question_id: str, decision: base.Decision) -> None:
        if self._process is not None:
            self._process.answer(question_id, decision)

    def asking(self, waits: bool) -> None:
        """Notes whether a person is being asked. As long as that is the case, the time limits are suspended."""
        now = time.monotonic()
        if waits and self._asked_since is None:
            self._asked_since = now
        elif not waits and self._asked_since is not None:
            self._asked_seconds += now - self._asked_since
            self._asked_since, self._last_output = None, now
            if self._run is not None:
                self._look(self._run)

    def interrupt(self) -> None:
        if self._process is not None:
            self._process.interrupt()

    def steer(self, text: str, attachments: tuple[base.Attachment, ...], record: Callable[[], None]) -> None:
        """Adds a message to the turn of the active run with ``AgentProcess.steer``, and raises the same errors. Also
        raises ``NotAtWork`` if the agent does not have the run's prompt yet, or its process has ended.
        """
        if self._process is None or self._run is None or self._run is not self._given:
            raise base.NotAtWork("its process is being started, or has ended")
        self._process.steer(text, attachments, record)

    async def change(
        self, *, permission_mode: str | None = None, model: str | None = None, effort: str | None = None
    ) -> None:
        """Sets the mode, the model and the effort of the current process, if there is one; None for those that do not
        change. The mode is sent even if it has not changed: an agent may have left it on its own or because of a
        decision. Raises ``AgentRefused``.
        """
        async with self._changing:
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

    def mode_changed(self, mode: str) -> None:
        """Notes that the process has changed its mode, so that it is reused for a run with this mode."""
        if self._kind is not None:
            agent, options = self._kind
            self._kind = (agent, msgspec.structs.replace(options, permission_mode=mode))

    async def set_mode(self, mode: str) -> None:
        """Sets the mode of the current process only. Raises ``AgentRefused``."""
        async with self._changing:
            process = self._process
        if process is not None:
            await process.set_mode(mode)
            if self._process is process:
                self.mode_changed(mode)
                self._report(ModeSet(mode))

    async def stop_run(self, run: Run) -> None:
        """Ends the process of a run. The end of the run has been reported when this returns."""
        if self._run is not run:
            return
        process = self._process
        if process is not None:
            self._kind = None  # no other run is begun with it
            await process.kill()
        self._ended(run, "killed")

    async def end(self) -> None:
        """Ends an idle process, if there is one, and waits until it has exited; its events are ignored from now on.

        Does not wait for a process that is still starting for a killed run: that process is ended once it has started.
        """
        self._warn_of_schedule()
        await self._end(self._let_go())

    def end_soon(self) -> None:
        """Like ``end``, but logs no warning about a schedule, and does not wait until the process has exited. A turn
        that the process begins now is ignored."""
        self.spawn(self._end(self._let_go()), "ending an idle process")

    async def _end_if_idle(self) -> None:
        """Ends the process unless a run has begun in the meantime."""
        if self._run is None:
            await self.end()

    async def _end(self, process: base.AgentProcess | None) -> None:
        if process is not None:
            async with self._changing:
                await self._leave(process)

    def _let_go(self) -> base.AgentProcess | None:
        """Detaches the process, if there is one, and returns it, for the caller to end with ``_leave``. Its events are
        ignored from now on."""
        process = self._process
        if process is not None:
            self._leaving.append(process)
        self._processes.idle.forget(self)
        if self._listener is not None:
            self._listener.worker = None
        self._report(AskerGone())
        self._process = self._kind = self._listener = None
        self._unscheduled()
        self._report(ModeSet(None))
        return process

    def _look_at_schedule(self) -> None:
        """Once the last scheduled turn is more than ``scheduled.LATE_SECONDS`` late, reports that nothing is scheduled
        anymore; during a run, only after the run."""
        if self._schedule_timer is not None:
            self._schedule_timer.cancel()
        left = self._scheduled.seconds_left(time.time())
        if left is None or self._run is not None:
            return
        if left <= 0:
            self._unscheduled()
        else:
            loop = asyncio.get_running_loop()
            self._schedule_timer = loop.call_later(min(left, LOOK_SECONDS), self._look_at_schedule)

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

    async def _leave(self, process: base.AgentProcess | None) -> None:
        if process is not None:
            try:
                await process.stop()
            finally:
                self._leaving.remove(process)

    @property
    def scheduled_until(self) -> float | None:
        """The earliest time at which the last turn that the agent has scheduled can begin, in seconds since 1970. It
        may have passed less than ``scheduled.LATE_SECONDS`` ago. None if it passed earlier, or if nothing is
        scheduled."""
        return self._scheduled.until if self.is_scheduled else None

    @property
    def is_scheduled(self) -> bool:
        """Whether the process is needed for a turn that the agent has scheduled, which may be due at this moment."""
        left = self._scheduled.seconds_left(time.time())
        return left is not None and left > 0

    def cool(self) -> None:
        """Ends the idle process, or keeps it if it is working in the background."""
        if self._process is not None and self._process.busy:
            self._processes.idle.retain(self)
            return
        self.spawn(self._end_if_idle(), "ending an idle process")

    async def close(self) -> None:
        """Ends the processes, including those that are already ending, because the server is shutting down or the
        project is being deleted."""
        living = [*self._leaving, *([] if self._process is None else [self._process])]
        await asyncio.gather(*(process.kill() for process in living))
        if self._last_checkpoint is not None:  # so that the last run can be reverted even after a restart
            await asyncio.wait([self._last_checkpoint], timeout=LOOK_BACK_SECONDS)
        await self.tasks.close()
        for timer in (self._watch, self._schedule_timer):
            if timer is not None:
                timer.cancel()

    def spawn(
        self, work: Coroutine[Any, Any, None], what: str, failed: Callable[[Exception], None] | None = None
    ) -> asyncio.Task[None]:
        """Starts one of this worker's tasks with ``BackgroundTasks.start``, and returns it."""
        return self.tasks.start(work, f"{self.id}: {what}", failed)

    def stop_soon(self, run: Run) -> None:
        """Runs ``stop_run`` in the background. Even if that fails unexpectedly, the end of the run is reported, and its
        process is not used for another run."""
        error = {"code": "INTERNAL_ERROR", "message": DEFECT}
        self.spawn(self.stop_run(run), "ending a run", lambda _: self._ended(run, "failed", error=error))

    def _begin_failed(self, run: Run) -> None:
        """Stops the run after an unexpected error: the process may have been given the prompt."""
        run.stop("failed", {"code": "INTERNAL_ERROR", "message": DEFECT})
        self.stop_soon(run)

    # Time limits.

    def _look(self, run: Run) -> None:
        """Stops the run if it has been silent or active for too long; otherwise, checks again at the earliest time when
        that can be the case. Checks nothing while a person is being asked, or if the run has ended."""
        if self._watch is not None:
            self._watch.cancel()
        if self._run is not run or self._asked_since is not None:
            return
        now = time.monotonic()
        idle, total = self._processes.limits.idle_seconds, self._processes.limits.total_seconds
        left, why = (
            idle - (now - self._last_output),
            f"The agent produced no output for {counted(idle, 'second')} and was stopped.",
        )
        if total is not None and (rest := total - (now - run.started_at - self._asked_seconds)) < left:
            left, why = rest, f"The run reached its limit of {counted(total, 'second')} and was stopped."
        if left <= 0:
            run.stop("timeout", {"code": "EXECUTION_TIMEOUT", "message": why})
            self.stop_soon(run)
        else:
            self._watch = asyncio.get_running_loop().call_later(left, self._look, run)
