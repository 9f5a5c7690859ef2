"""The owner of a managed session's current run, of its slot and of the session's agent process.

Only the ``RunController`` begins and ends runs. Each event about a run is a step in the table of ``run.py``. This class
carries out the actions that the table requires.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct

from drawbridge.agents import base
from drawbridge.agents.shortage import shortage
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.events import Outcome
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.sessions.processes.processes import AgentProcesses
from drawbridge.server.sessions.processes.session_process import (
    LONGEST_ERROR,
    AskerGone,
    ContinuedConversation,
    ProcessReport,
    SessionProcess,
    TurnEvent,
    last_words,
)
from drawbridge.server.sessions.prompts.queue import PromptQueue
from drawbridge.server.sessions.runs.checkpointing import RunCheckpoints
from drawbridge.server.sessions.runs.clock import RunClock
from drawbridge.server.sessions.runs.run import Do, Ending, Event, Order, Run, State
from drawbridge.server.sessions.runs.runs import Runs, Slot

logger = logging.getLogger("drawbridge.server")

DEFECT: Final = "The run was stopped because of an internal server error. The server's log has the details."

NOBODY_ASKED: Final = (
    "Requests can't be approved between runs. Continue without this call, or wait for the next prompt."
)


class RunBegun(Struct, frozen=True):
    """The run has its slot. The session has to call ``launch`` or ``refuse`` now."""

    run: Run


class PromptGiven(Struct, frozen=True):
    """The process is given the prompt of the run now."""

    run: Run


class RunEnded(Struct, frozen=True):
    """The run is over. ``run.ending`` is its result."""

    run: Run


Report: TypeAlias = ProcessReport | base.Question | base.TurnBegun | RunBegun | PromptGiven | RunEnded
"""The reports of the controller and the process to their session: a ``Question`` only during a run, a ``TurnBegun``
only between runs. The session has to call ``adopt`` for a ``TurnBegun``."""


class RunController:
    """The controller of a session's runs. These methods end a run:

    - ``interrupt``: a person ends the turn; the process is kept.
    - ``kill``: a person ends the run with its process, and waits for that.
    - ``stop``: the server ends the run with its process, because the run may not continue.
    - ``close``: the session is closed.
    - ``drop``: the run was removed from the queue.

    In addition, the run ends with its turn, with its process, or if a time limit is reached.
    """

    def __init__(
        self,
        session_id: str,
        directory: str,
        files: Path,
        queue: PromptQueue,
        runs: Runs,
        processes: AgentProcesses,
        checkpoints: RunCheckpoints,
        tasks: BackgroundTasks,
        open_in_terminal: Callable[[str], bool],
        report: Callable[[Report], None],
        look: Callable[[str, base.LookedAt], object],
    ) -> None:
        """``files``: the directory of the files that were sent with prompts. ``tasks``: the session's background tasks,
        which ``close`` ends. ``open_in_terminal`` returns whether a terminal session has a conversation open now.
        ``report`` receives the events, in order. ``look``: as in ``SessionProcess``."""
        self.id = session_id
        self.run: Run | None = None
        self.is_held = False
        """Whether no run of the queue may begin now."""
        self.process = SessionProcess(
            session_id, directory, files, processes, tasks, open_in_terminal, report, self._about_turn, look
        )
        self._queue = queue
        self._runs = runs
        self._slot: Slot | None = None
        self._checkpoints = checkpoints
        self._tasks = tasks
        self._report = report
        self._processes = processes
        self._clock: RunClock | None = None
        """The clock of the current run, from when it uses the process."""
        self._limit_timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether a run is active or waits."""
        return self.run is not None or bool(self._queue)

    @property
    def current(self) -> Run:
        """The run that is active or waits for its slot. Raises ``ClientError`` if no run is active or waits for its
        slot."""
        if self.run is None:
            raise ClientError("PROCESS_NOT_FOUND", "No agent is working in this project.")
        return self.run

    def publish_queue(self) -> None:
        """Sends the queue to the clients, if it has changed since they last received it."""
        self._queue.publish(behind_a_run=self.run is not None)

    def drop(self, run: Run) -> None:
        """Ends a run that the caller has removed from the queue. Reports nothing."""
        run.step(Event.DROP, Ending("interrupted"))

    # Beginning a run.

    def next(self) -> None:
        """Begins the next run of the queue, once a slot is free. Has no effect if a run is active, or the queue is empty
        or held."""
        if self.run is None and self._queue and not self.is_held:
            run = self.run = self._queue.pop()
            if run.step(Event.NEXT) is Do.REQUEST_SLOT:
                self._slot = Slot(self._runs, lambda: self._has_slot(run))
                self._runs.request(self._slot)
        self.publish_queue()

    def put_back(self) -> None:
        """Puts a run that waits for its slot back into the queue, because something else precedes it. Has no effect if
        no run waits for a slot."""
        run = self.run
        if run is not None and run.step(Event.PUT_BACK) is Do.GIVE_UP_SLOT:
            self.run = None
            self._release_slot()
            self._queue.add(run, first=True)

    def hold(self) -> None:
        """Prevents runs in the queue from beginning until ``resume`` is called."""
        self.is_held = True

    def resume(self) -> None:
        self.is_held = False
        self.next()

    def _has_slot(self, run: Run) -> None:
        if run.step(Event.SLOT) is Do.PREPARE:
            run.start(time.monotonic())
            self._runs.add(self)
            self._report(RunBegun(run))

    def refuse(self, run: Run, error: ClientError) -> None:
        """Ends a run that is not allowed to begin."""

        async def end() -> None:
            self._over(run, Event.UNUSABLE, Ending("failed", error={"code": error.code, "message": error.text}))

        # This is done in a task, because the end of the run begins the next one, and this one is still being given its
        # slot.
        self._start_task(end(), "ending a run that was refused")

    def launch(self, run: Run, agent: str, options: base.Options, continued: ContinuedConversation) -> None:
        """Prepares a process for the run and gives it the prompt."""
        self._use_process(run)
        preparing = self._prepare(run, agent, options, continued)
        self._start_task(preparing, "beginning a run", lambda _: self._give_up(run, "failed", "INTERNAL_ERROR", DEFECT))

    def adopt(self, order: Order) -> Run:
        """Makes the turn that the agent has just begun without a prompt the current run. It needs no slot, and precedes
        a run that waits for one, because the agent may ask for approval immediately.

        The checkpoint before it is taken while the agent waits for the first answer of its model, which precedes its
        first change."""
        self.put_back()
        run = self.run = Run(order)
        run.start(time.monotonic())
        if run.step(Event.TURN_BEGUN) is Do.USE:
            self._runs.add(self)
            self._use_process(run)
            self._check_limits(run)
            self._checkpoints.begin(run.id, "before")
        return run

    def _use_process(self, run: Run) -> None:
        self.process.use()
        limits = self._processes.limits
        self._clock = RunClock(limits.idle_seconds, limits.total_seconds, run.started_at)

    async def _prepare(self, run: Run, agent: str, options: base.Options, continued: ContinuedConversation) -> None:
        examined = False
        try:
            async with self.process.changing:
                await self.process.check_directories(options)
                examined = True
                await self._checkpoints.before(run.id)
                if run.state in (State.ENDING, State.FINISHED):  # the run was killed in the meantime, for example
                    return
                await self.process.prepare(agent, options, continued)
                do = run.step(Event.READY, Ending("interrupted"))
                if do is Do.LEAVE:
                    await self.process.leave()
        except base.AgentUnusable as error:
            # A directory that may not be used may be a link to one that the server must not touch, so no checkpoint is
            # taken there.
            failed = Ending("failed", error={"code": error.code, "message": str(error)})
            self._over(run, Event.UNUSABLE, failed, checkpoint=examined)
        except Exception as error:  # the run ends, but the server continues
            failed = Ending("failed", error=self._not_started(error))
            self._over(run, Event.UNUSABLE, failed, checkpoint=examined)
        else:
            if do is Do.PROMPT:
                self._give_prompt(run)
            elif do is Do.FINISH:
                self._finish(run)

    def _give_prompt(self, run: Run) -> None:
        if self._clock is not None:
            self._clock.prompted(time.monotonic())
        self._check_limits(run)
        self._report(PromptGiven(run))
        self.process.prompt(run.order.prompt, run.order.attachments)

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

    # During a run.

    def _about_turn(self, event: TurnEvent) -> None:
        run = self.run if self.process.in_use else None
        match event:
            case base.Question() if run is not None:
                self._report(event)
            case base.Question(question_id):  # the agent began this question's turn without reporting it
                self.process.answer(question_id, base.Decision(allow=False, message=NOBODY_ASKED))
            case base.TurnBegun() if self.run is None or self.run.state is State.WAITING:
                self._report(event)
            case base.TurnEnded() if run is not None:
                self._over(run, Event.TURN_ENDED, _end_of_turn(event))
            case base.Exited():
                error = {"code": "EXECUTION_FAILED", "message": last_words(event)}
                if run is None or not self._over(run, Event.EXITED, Ending("failed", error=error)):
                    self._report(AskerGone())
            case _:
                logger.info("%s: ignored an unexpected %s from the agent", self.id, type(event).__name__)

    def steer(self, text: str, attachments: tuple[base.Attachment, ...], record: Callable[[], None]) -> None:
        """Adds a message to the turn of the active run with ``AgentProcess.steer``, and raises the same errors. Also
        raises ``NotAtWork`` if the agent does not have the run's prompt yet, or its process has ended.
        """
        if self.run is None or self.run.state is not State.RUNNING:
            raise base.NotAtWork("its process is being started, or has ended")
        self.process.steer(text, attachments, record)

    def asking(self, waits: bool) -> None:
        """Suspends the run's time limits if a person is being asked (``waits``), and otherwise resumes them."""
        run, clock, now = self.run, self._clock, time.monotonic()
        if run is None or clock is None:
            return
        if waits:
            clock.asking(now)
        elif clock.answered(now):
            self._check_limits(run)

    def _check_limits(self, run: Run) -> None:
        """Gives up the run if it has been silent or active for too long. Otherwise, checks again at the earliest time
        at which that can be the case. Checks nothing while a person is being asked, or if the run has ended.
        """
        if self.run is not run or self._clock is None:
            return
        if self._limit_timer is not None:
            self._limit_timer.cancel()
        left = self._clock.left(time.monotonic(), self.process.last_output)
        if left is None:
            return
        seconds, why = left
        if seconds <= 0:
            self._give_up(run, "timeout", "EXECUTION_TIMEOUT", why)
        else:
            self._limit_timer = asyncio.get_running_loop().call_later(seconds, self._check_limits, run)

    # Ending a run.

    def interrupt(self) -> None:
        """Asks the agent to end the turn of the current run. Its process is kept, with what it has scheduled. A run
        that still waits for a slot ends immediately. Raises ``ClientError`` like ``current``."""
        run = self.current
        match run.step(Event.INTERRUPT, Ending("interrupted")):
            case Do.FINISH:
                self._finish(run)
            case Do.INTERRUPT:
                self._report(AskerGone("the run was interrupted"))
                self.process.interrupt()

    async def kill(self) -> None:
        """Ends the current run with its process, and returns when both have ended. Raises ``ClientError`` like
        ``current``."""
        run = self.current
        match run.step(Event.KILL, Ending("killed")):
            case Do.FINISH:
                self._finish(run)
            case Do.END_PROCESS:
                self._report(AskerGone("the run was killed"))
                await self._end_process(run)

    def stop(self, error: ClientError) -> None:
        """Ends the current run, if any, with this error."""
        run = self.run
        ending = Ending("failed", error={"code": error.code, "message": error.text})
        if run is not None and run.step(Event.STOP, ending) is Do.END_PROCESS:
            self._report(AskerGone("the run was stopped"))
            self._start_task(self._end_process(run), "ending a run")

    def _give_up(self, run: Run, outcome: Outcome, code: str, message: str) -> None:
        if run.step(Event.GIVE_UP, Ending(outcome, error={"code": code, "message": message})) is Do.END_PROCESS:
            self._start_task(self._end_process(run), "ending a run")

    async def close(self) -> None:
        """Ends the current run, all processes and the session's background tasks."""
        run = self.run
        if run is not None and run.step(Event.INTERRUPT, Ending("interrupted")) is Do.FINISH:
            self._finish(run)
        await self.process.kill_all()
        await self._checkpoints.finish()
        await self._tasks.close()
        if self.run is not None:
            self._over(self.run, Event.DROP, Ending("interrupted"), checkpoint=False)
        self.process.close()

    async def _end_process(self, run: Run) -> None:
        """Ends the process of a run, and then the run, even if the process can't be ended. Has no effect if the run has
        ended in the meantime."""
        if run.state is not State.ENDING:
            return
        try:
            if self.process.in_use:
                await self.process.kill()
        finally:
            self._over(run, Event.PROCESS_ENDED, Ending("killed"))

    def _over(self, run: Run, event: Event, ending: Ending, *, checkpoint: bool = True) -> bool:
        """Ends the run if this event ends it. Returns whether it does."""
        is_over = run.step(event, ending) is Do.FINISH
        if is_over:
            self._finish(run, checkpoint=checkpoint)
        return is_over

    def _finish(self, run: Run, *, checkpoint: bool = True) -> None:
        """Releases the process and the slot of a run that is FINISHED, reports its end, and begins the next one.
        ``checkpoint``: whether a checkpoint is taken after the run, if it has used the process."""
        if self._limit_timer is not None:
            self._limit_timer.cancel()
        used_process = self.process.in_use
        self.process.release(run.started_at)
        if used_process and checkpoint:
            self._checkpoints.begin(run.id, "after")
        slot, self._slot, self.run, self._clock = self._slot, None, None, None
        self._runs.remove(self)
        try:
            self._report(RunEnded(run))
        finally:
            if slot is not None:
                slot.release()
        self.next()

    def _release_slot(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.release()

    def _start_task(
        self, work: Coroutine[Any, Any, None], what: str, failed: Callable[[Exception], None] | None = None
    ) -> None:
        self._tasks.start(work, f"{self.id}: {what}", failed)


def _end_of_turn(event: base.TurnEnded) -> Ending:
    if event.ok:
        return Ending("interrupted" if event.interrupted else "completed", event.cost_usd, None, event.tokens)
    error = {
        "code": event.code or "EXECUTION_FAILED",
        "message": (event.error or "")[:LONGEST_ERROR],
        "retry_at": event.retry_at,
    }
    return Ending("interrupted" if event.interrupted else "failed", event.cost_usd, error, event.tokens)
