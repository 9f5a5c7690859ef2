"""The session of a project, whose agent the server starts: its queue, its runs, its checkpoints, and what people do with it.

One thing happens at a time, on the event loop's thread. Every event is written into the history first and published then.
Nothing here blocks: what takes time is the worker's task.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from drawbridge.agents import base
from drawbridge.core.errors import DrawbridgeError
from drawbridge.server import events
from drawbridge.server.approvals.pending import AgentSurface, PendingApproval, Surface
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.client_errors import ClientError, not_written
from drawbridge.server.protocol.messages import Answer, Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.ceilings import usual_mode
from drawbridge.server.sessions.checkpoints import Changed, Checkpoints
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.continuing import Continuing
from drawbridge.server.sessions.metadata import instant, instant_of, now
from drawbridge.server.sessions.run import Order, Outcome, Run, State
from drawbridge.server.sessions.session import SHOWN_PROMPT, Session
from drawbridge.server.sessions.worker import DEFECT, NOBODY_ASKED, ModeSet, Report, RunEnded, Worker
from drawbridge.server.store.log import History

logger = logging.getLogger("drawbridge.server")

MOST_RESETS = 20
"""How often one process is reset to an allowed mode before it is ended."""


class ManagedSession(Session):
    """A session whose agent the server starts."""

    def __init__(
        self,
        directory: Path,
        data: metadata.Metadata,
        history: History,
        context: Context,
        open_in_terminal: Callable[[str], bool],
    ) -> None:
        """``open_in_terminal``: whether a conversation is open in a terminal of this machine."""
        super().__init__(directory, data, history, context)
        self.run: Run | None = None
        self.queue: deque[Run] = deque()
        self.checkpoints = Checkpoints(self.path, data.id, context.limits.confinement, context.memory, directory)
        self._worker = Worker(data.id, data.path, context, self.checkpoints, open_in_terminal, self._reported)
        self._agent_surface = AgentSurface(
            lambda approval, decision: self._worker.answer(approval.question_id, decision)
        )
        self._fork_from: str | None = None
        self._mode: str | None = None
        """The mode of the running agent, as far as it has reported it."""
        self._resets = 0
        """How often the agent's process was reset to an allowed mode."""
        self._modes: tuple[str, ...] = ()
        """The modes that it offers, if they differ from Claude Code's."""
        self._reverting = asyncio.Lock()
        self._choosing = asyncio.Lock()
        """One choice of options after the other, in the order in which they were made."""
        self._give_up_slot: Callable[[], None] = lambda: None
        self.continuing = Continuing(data, context.limits.continue_limited, self._continue, lambda: self.busy)
        context.metrics.add(self.id)

    @property
    def state(self) -> messages.State:
        if self.run is not None:
            return "EXECUTING"
        return "ERROR" if self.memory.last_outcome in ("failed", "timeout") else "IDLE"

    @property
    def permission_mode(self) -> str:
        """The mode that the running agent reports; without one, that of the next run."""
        return self._mode or self.data.options.permission_mode or usual_mode(self._context.ceilings)

    @property
    def busy(self) -> bool:
        return self.run is not None or bool(self.queue)

    @property
    def pids(self) -> list[int]:
        """The ids of its agent's processes."""
        return self._worker.pids

    def is_using(self, session_id: str) -> bool:
        return bool(self.pids) and self.memory.session_id == session_id

    def _details(self) -> dict[str, Any]:
        return {
            "permission_mode": self.permission_mode,
            "modes": [mode for mode in self._modes if self._context.offers(mode, self._agent)],
            "asks": self._context.asks(self.data.agent),
            "first_seq": self.history.first_seq,
            "cost_usd": self.memory.cost_usd,
            "continues_at": instant_of(self.continuing.at),
            "problem": self._context.places.problem(self.path),
        }

    def _current_run(self) -> messages.RunInfo | None:
        return _run_info(self.run, 0) if self.run else None

    def _waiting_runs(self) -> list[messages.RunInfo]:
        return [_run_info(run, position) for position, run in enumerate(self.queue, 1 if self.run else 0)]

    # Actions of people.

    def execute(self, order: Order, asker: Subscriber, *, queue: bool) -> Answer[Accepted]:
        """Accepts a prompt: it is in the history when this returns, and its run begins after the reply. A repeated
        ``request_id`` gets the same reply and is not run again. Raises ``ClientError`` or ``DrawbridgeError``.
        """
        known = self.accepted_before(order.request_id, order.prompt)
        if known is not None:
            return known
        seq = self._accept(order, asker, queue=queue)
        return msgspec.structs.replace(self._accepted(order.run_id, seq), then=self._next)

    def _continue(self, order: Order) -> None:
        """A run that a limit had stopped continues by itself. Raises ``ClientError`` or ``DrawbridgeError``."""
        self._accept(order, None, queue=True)
        self.store.announce(events.RunContinued(order.run_id, order.by))
        self._next()

    def _accept(self, order: Order, asker: Subscriber | None, *, queue: bool) -> int | None:
        """Adds the prompt to the history and to the queue; ``_next`` must follow. Returns the number of its record for the
        reply to ``asker``. Raises ``ClientError`` or ``DrawbridgeError``; nothing has changed then.
        """
        if self.busy and not queue:
            raise ClientError(
                "PROCESS_ACTIVE", "The agent is already working in this project. Nothing was started.", retryable=True
            )
        if len(self.queue) >= self._context.limits.queue:
            raise ClientError(
                "RESOURCE_LIMIT",
                "The queue of this project is full. Nothing was added. Try again after the next run.",
                retryable=True,
            )
        self._context.disk.check(self.id)
        self._context.granted(str(self.path), base.Options())
        names = tuple(attachment.name or attachment.media_type for attachment in order.attachments)
        accepted = events.PromptAccepted(order.run_id, order.prompt, order.by, order.request_id, names)
        seq = self.store.write(accepted, asker)
        self.continuing.forget()
        self.queue.append(Run(order))
        self.store.save()
        return seq

    def accepted_before(self, request_id: str | None, prompt: str) -> Answer[Accepted] | None:
        """The reply to a request that has already begun its run: that run was allowed, whatever is allowed now."""
        known = self.memory.run_of(request_id or "", prompt)
        return None if known is None else self._accepted(known)

    def _accepted(self, run_id: str, seq: int | None = None) -> Answer[Accepted]:
        waiting = [run.id for run in self.queue]
        position = waiting.index(run_id) + (1 if self.run else 0) if run_id in waiting else 0
        return Answer(type="accepted", project_id=self.id, seq=seq, data=Accepted(run_id, position))

    def _approval_closed(self, approval: PendingApproval, asked_by: Surface | None = None) -> None:
        self._asking()

    def _asking(self) -> None:
        """The agent's time limits are not counted while a person is asked."""
        self._worker.asking(bool(self.approvals))
        if not self.approvals and self.run is not None:
            self.run.answered()

    def interrupt(self) -> None:
        """Asks the agent to stop this turn; its process stays. A run that would continue by itself does not."""
        if self.run is None and self.continuing.forget():
            self.store.save()
            return self.publish_state()
        run = self._running()
        if run.state is State.QUEUED:
            self._give_up_slot()
            self.ended(run, "interrupted", None, None)
        elif run.stop("interrupted"):
            self.withdraw_all("interrupted")
            self._worker.interrupt()
        return None

    async def kill(self, asker: Subscriber) -> Answer[messages.ExecutionKilled]:
        """Ends the run with its process; returns when both are over. It is written down then, so that the answer, which stands
        for the record, comes in its place among the others.
        """
        run = self._running()
        fields = messages.ExecutionKilled(self.id, "IDLE", run.id)
        is_first = run.stopped_as != "killed"  # a second request waits for the same end
        if run.state is State.QUEUED:
            self._give_up_slot()
            self.ended(run, "killed", None, None)
        else:
            run.stop("killed")
            self.withdraw_all("killed")
            await self._worker.stop_run(run)
        seq = self.store.record(fields, asker) if is_first and not self.history.closed else None
        return messages.updated("execution_killed", fields, self.id, seq)

    async def new_session(self, asker: Subscriber) -> Answer[messages.SessionReset]:
        """The next prompt begins a new conversation."""
        self.check_at_rest()
        self.continuing.forget()
        fields = messages.SessionReset(self.memory.session_id, "", self.id)
        self._fork_from = None
        seq = self.store.record(fields, asker)
        self.store.save()
        # The next prompt waits until it has gone; the answer, which stands for a record, waits for nothing.
        self._worker.spawn(self._worker.end(), "ending the process of the former session")
        # The specification has the state after the reply.
        return msgspec.structs.replace(messages.updated("session_reset", fields, self.id, seq), then=self.publish_state)

    async def revert(self, run_id: str, asker: Subscriber) -> Answer[messages.RunReverted]:
        """Reverts what a run changed, all of it or nothing; recorded and published like every event."""
        self.check_at_rest()
        async with self._reverting:
            try:
                changes = await self.checkpoints.revert(run_id)
            except Changed as error:
                text = f"The same lines have changed since the run, in {error}. Nothing was reverted."
                details = {"paths": error.paths, "lines": error.lines}
                raise ClientError("CHANGED_SINCE", text, details=details) from None
            reverted = messages.RunReverted(run_id, asker.name, changes.files)
            seq = self.store.record(reverted, asker)
        return messages.updated("run_reverted", reverted, self.id, seq)

    async def resume(self, session_id: str, *, fork: bool) -> None:
        """The next prompt continues that conversation, or a copy of it."""
        self.check_at_rest()
        self.continuing.forget()
        self._fork_from = session_id if fork else None
        changed = messages.SessionChanged("" if fork else session_id, self._fork_from, self.data.agent)
        self.store.record(changed)
        self.store.save()
        self.publish_state()
        await self._worker.end()

    async def set_options(self, **chosen: str) -> None:
        """Sets the ``permission_mode`` or ``model`` of later runs and of the active one."""
        async with self._choosing:
            try:
                await self._worker.change(**chosen)
            except base.AgentRefused as error:
                text = f"The agent rejected the change: {error}. It continues as before."
                raise ClientError("NOT_SUPPORTED", text) from None
            self.store.check_there()
            self.data.options = msgspec.structs.replace(self.data.options, **chosen)
            self.store.save()
            self.publish_state()

    def _running(self) -> Run:
        if self.run is None:
            raise ClientError("PROCESS_NOT_FOUND", "No agent is working in this project.")
        return self.run

    def check_at_rest(self) -> None:
        """Raises ``ClientError`` unless it is."""
        if self.busy:
            raise ClientError(
                "PROCESS_ACTIVE", "The agent is working in this project. Nothing was changed.", retryable=True
            )
        if self._reverting.locked():
            raise ClientError(
                "PROCESS_ACTIVE",
                "A run of this project is being reverted. Nothing was changed. Try again in a moment.",
                retryable=True,
            )

    # The states of a run, as the worker reports them.

    def _next(self) -> None:
        if self.run is None and self.queue:
            run = self.run = self.queue.popleft()
            self._give_up_slot = self._context.slots.take(lambda: self._begin(run))

    def _begin(self, run: Run) -> None:
        run.start(time.monotonic())
        self._context.at_work[self.id] = self.stop_for
        agent, options = run.order.agent or self.data.agent, run.order.options or self.data.options
        if self.memory.session_id and self.memory.agent not in ("", agent):  # one agent's conversation is not another's
            self._fork_from = None
            self.store.record(messages.SessionChanged(""))
        self.store.record(messages.RunStarted(run.id, self.memory.session_id, agent))
        self.publish_state()
        try:
            self._context.disk.check(self.id)
            options = self._context.granted(str(self.path), self._context.within(options, agent))
        except ClientError as error:
            # It was allowed when it was accepted, and has waited since, perhaps over a restart. In a task: the end of this run
            # begins the next one, and this one is still being given its slot.
            self._worker.spawn(self._refuse(run, error), "ending a run that was refused")
            return
        self._worker.begin(run, agent, options, self.memory, self._fork_from)

    async def _refuse(self, run: Run, error: ClientError) -> None:
        self.ended(run, "failed", None, {"code": error.code, "message": error.text})

    def _begun_alone(self) -> None:
        """The agent has begun a turn without a prompt: a run of its own, which people can follow and stop like any other.
        Where a prompt is on its way, the turn is part of that run.
        """
        if self.run is not None and self.run.state is State.QUEUED:  # for its slot; this turn needs none, and may ask
            self._give_up_slot()
            self.queue.appendleft(self.run)
        elif self.run is not None:
            return
        agent = self.memory.agent or self.data.agent
        run = self.run = Run(Order(f"run_{uuid.uuid4().hex[:16]}", "", by=agent, agent=agent, unprompted=True))
        run.start(time.monotonic())
        self._context.at_work[self.id] = self.stop_for
        self.store.record(messages.RunStarted(run.id, self.memory.session_id, agent, unprompted=True))
        self.publish_state()
        self._worker.take_over(run)
        try:
            self._context.granted(str(self.path), base.Options())
        except ClientError as error:  # out of hours, or out of budget
            self.stop_for(error)

    def stop_for(self, error: ClientError) -> None:
        """Stops the active run with this error."""
        run = self.run
        if run is not None and run.stop("failed", {"code": error.code, "message": error.text}):
            self.withdraw_all("the run was stopped")
            self._worker.stop_soon(run)

    def _reported(self, report: Report) -> None:
        """What the agent's process reports, in the order in which that happened."""
        match report:
            case base.AgentLine():
                self._line(report)
            case base.SessionIdentified(session_id):
                self._session_known(session_id)
            case base.ModeChanged(mode, offered):
                self._mode_known(mode, offered)
            case base.Question():
                self._question(report)
            case base.QuestionCancelled(question_id, reason):
                self._question_gone(question_id, reason)
            case base.TurnBegun():
                self._begun_alone()
            case ModeSet(set_mode):
                self._mode_known(set_mode)
            case RunEnded(run, outcome, cost_usd, error):
                self.ended(run, outcome, cost_usd, error)

    def _line(self, line: base.AgentLine) -> None:
        if not line.durable:
            return self.store.announce(msgspec.structs.replace(line, session_id=self.memory.session_id))
        full = self._context.disk.refusal(self.id, len(line.raw))
        if full is not None:
            return self.stop_for(full)
        try:
            self.store.write(line)
        except DrawbridgeError as error:
            # What can't be recorded is not shown either, and the agent must not continue unseen.
            logger.error("%s: a line of the agent can't be recorded: %s", self.id, error)
            self.stop_for(not_written(error))
        return None

    def _session_known(self, session_id: str) -> None:
        self._fork_from = None
        if session_id != self.memory.session_id:
            self.store.record(messages.SessionChanged(session_id))

    @property
    def _agent(self) -> str:
        """The name of the current agent."""
        return (self.run and self.run.order.agent) or self.memory.agent or self.data.agent

    def _mode_known(self, mode: str | None, offered: tuple[str, ...] | None = None) -> None:
        """``mode``: None if the process has ended. ``offered``: None if nothing new is known."""
        before = self.permission_mode, self._modes
        self._mode = mode
        self._modes = self._modes if offered is None else offered
        if (self.permission_mode, self._modes) != before:
            self.publish_state()
        if mode is None:
            self._resets = 0
        elif not self._context.allows(mode, self._agent):
            # After an unexpected error the agent may still be in that mode.
            failure = ClientError("INTERNAL_ERROR", DEFECT)
            self._worker.spawn(self._reset_mode(mode), "resetting the agent's mode", lambda _: self.stop_for(failure))

    async def _reset_mode(self, mode: str) -> None:
        """The agent is in a mode that the owner does not allow: by its own settings, or by a decision of its own."""
        usual = usual_mode(self._context.ceilings)
        logger.warning("%s: the agent is in mode %s, which is not allowed; reset to %s", self.id, mode, usual)
        self._resets += 1
        try:
            if self._resets > MOST_RESETS:
                raise base.AgentRefused("it was reset too often")
            await self._worker.set_mode(usual)
        except base.AgentRefused as error:
            text = f"The agent is in mode {mode[:100]}, which the owner does not allow, and it could not be changed: {error}"
            self.stop_for(ClientError("PERMISSION_DENIED", text))
            if self.run is None:
                await self._worker.end()

    def _question(self, question: base.Question) -> None:
        run = self._running()
        run.ask()
        agent = run.order.agent or self.data.agent
        self.approvals.request(PendingApproval.new(question, run.id, now()), agent, self._agent_surface)
        self._asking()

    def _question_gone(self, question_id: str, reason: str) -> None:
        for approval in self.approvals:
            if approval.question_id == question_id:
                self.withdraw(approval, reason)

    def ended(self, run: Run, outcome: Outcome, cost_usd: float | None, error: dict[str, Any] | None) -> None:
        has_slot = run.state is not State.QUEUED and not run.order.unprompted
        if not run.finish(outcome):
            return
        # An agent that still waits, as one that does not report its subagents, would hang.
        for approval in self.approvals:
            self._worker.answer(approval.question_id, base.Decision(allow=False, message=NOBODY_ASKED))
        self.withdraw_all(f"the run has {run.outcome}" if run.outcome == "failed" else f"run {run.outcome}")
        error = run.stopped_for or error
        finished = _run_finished(run, cost_usd, error)
        if finished.code == "SESSION_NOT_FOUND" and self.memory.unproven:  # so that the next prompt begins one
            self.store.record(messages.SessionChanged(""))
        self.run = None
        self._context.at_work.pop(self.id, None)
        self.data.last_active = now()
        self.store.record(finished)
        self.continuing.ended(run, finished, error.get("retry_at") if error and finished.code else None)
        self.store.save()
        self.publish_state()
        seconds = finished.duration_ms / 1000
        logger.info("%s: %s has ended after %.1f s: %s", self.id, finished.run_id, seconds, finished.outcome)
        self._context.spend(str(self.path), finished.cost_usd or 0.0)
        if has_slot:
            self._context.slots.give_back()
        self._next()

    async def close(self, reason: str) -> None:
        """Shuts down: stops the runs, ends the processes and closes the history."""
        waiting, self.queue = list(self.queue), deque()
        self.continuing.close()
        if self.run is not None and not self.run.stop("interrupted"):
            self._give_up_slot()  # else the end of another one's run would begin it
        self.withdraw_all(reason)
        await self._worker.close()
        await self.checkpoints.close()
        async with self._reverting:
            pass  # ended in the midst of it, git would leave some files as they were and some not
        for run in [*([self.run] if self.run else []), *waiting]:
            self.ended(run, "interrupted", None, None)
        self.store.save()
        await asyncio.to_thread(self.history.close)  # waits for the disk


def _run_info(run: Run, position: int) -> messages.RunInfo:
    order = run.order
    began = datetime.now(UTC) - timedelta(seconds=time.monotonic() - run.started_at) if run.started_at else None
    return messages.RunInfo(
        run_id=order.run_id,
        position=position,
        prompt=order.prompt[:SHOWN_PROMPT],
        started_at=instant(began),
        request_id=order.request_id,
    )


def _run_finished(run: Run, cost_usd: float | None, error: dict[str, Any] | None) -> messages.RunFinished:
    """``error``: ``code`` and ``message`` of what the run failed for, perhaps ``retry_at``."""
    assert run.outcome is not None
    failed = error if run.outcome in ("failed", "timeout") else None
    return messages.RunFinished(
        run_id=run.id,
        outcome=run.outcome,
        duration_ms=int((time.monotonic() - run.started_at) * 1000) if run.started_at else 0,
        cost_usd=cost_usd,
        error=failed["message"] if failed else None,
        code=failed["code"] if failed else None,
        retry_at=instant_of(failed.get("retry_at")) if failed else None,
    )
