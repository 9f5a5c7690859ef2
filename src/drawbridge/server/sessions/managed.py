"""The session of a project with an agent that the server starts: its queue, its runs, its checkpoints, and the actions
of users.

One thing happens at a time, on the event loop's thread. Events that belong to the history are written to it before they
are published. Apart from writing to the history and the metadata, no method blocks unless its docstring states that it
does. Everything else that takes time is done in tasks and threads.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.agents import base
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server import events
from drawbridge.server.approvals.pending import Asker, AskingProcess, PendingApproval
from drawbridge.server.approvals.service import look_at
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.checkpoints.git.git import Git
from drawbridge.server.checkpoints.refs import When
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError, not_written
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.protocol.replies import Review as ReviewReply
from drawbridge.server.reviews.commenting import submission_key
from drawbridge.server.reviews.decisions import RequestedDecision
from drawbridge.server.reviews.remembered import RememberedComment
from drawbridge.server.reviews.reverting import Reverting
from drawbridge.server.reviews.reviewing import Reviewing
from drawbridge.server.reviews.reviews import Review
from drawbridge.server.reviews.writing import Writing
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import SessionContext
from drawbridge.server.sessions.conversations.current_conversation import CurrentConversation
from drawbridge.server.sessions.directories.allowed_directories import SILENT
from drawbridge.server.sessions.directories.work_trees import is_elsewhere
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.metadata import instant_of, now
from drawbridge.server.sessions.options.chosen_options import ChosenOptions
from drawbridge.server.sessions.options.current_offers import CurrentOffers
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.processes.processes import AgentProcesses
from drawbridge.server.sessions.processes.session_process import AskerGone, ContinuedConversation, ModeSet
from drawbridge.server.sessions.prompts.attachments import PromptAttachments
from drawbridge.server.sessions.prompts.prompts import Prompts
from drawbridge.server.sessions.prompts.queue import PromptQueue, run_info
from drawbridge.server.sessions.recorded_state import titled
from drawbridge.server.sessions.runs.background import BackgroundWork
from drawbridge.server.sessions.runs.checkpointing import RunCheckpoints
from drawbridge.server.sessions.runs.continuing import Continuing
from drawbridge.server.sessions.runs.controller import (
    NOBODY_ASKED,
    PromptGiven,
    Report,
    RunBegun,
    RunController,
    RunEnded,
)
from drawbridge.server.sessions.runs.run import Order, Run
from drawbridge.server.sessions.runs.runs import Runs
from drawbridge.server.sessions.session import Session, SessionStore, working_here
from drawbridge.server.store.log import History
from drawbridge.server.store.search import Part
from drawbridge.server.updates import answered

logger = logging.getLogger("drawbridge.server")

WITHDRAWN: Final[Mapping[events.Outcome, str]] = {
    "completed": "the run finished",
    "failed": "the run failed",
    "killed": "the run was killed",
    "timeout": "the run timed out",
    "interrupted": "the run was interrupted",
}
"""Maps the outcome of a run to the reason why its open approval requests are withdrawn when it ends."""

LONGEST_REPORT = 200_000
"""The maximum size of what an agent reports about itself (its state, or what it offers), in bytes. Both are in each
client's snapshot."""


class RecordedComments:
    """The comments on the review, as reconstructed from the records."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    @property
    def known(self) -> Mapping[str, RememberedComment]:
        return self._store.recorded.comments

    @property
    def handover(self) -> None:
        """Returns None, because comments wait only for agents in terminals. A managed agent receives its comments in a
        prompt."""

    def write(self, event: events.ReviewCommented, session: str, sender: Subscriber) -> int | None:
        return self._store.write(event, sender)

    def forget(self, deleted: Sequence[range], sender: Subscriber) -> None:
        """Removes the comments with records that were ``deleted``."""
        for id, one in list(self.known.items()):
            if any(one.seq in some for some in deleted):
                self._store.record(events.ReviewCommented(comment_id=id, by=sender.name))


class ManagedSession(Session):
    """A session with an agent that the server starts."""

    def __init__(
        self,
        directory: Path,
        data: metadata.Metadata,
        history: History,
        offers: CurrentOffers,
        context: SessionContext,
        disk: Disk,
        grants: Grants,
        runs: Runs,
        processes: AgentProcesses,
        open_in_terminal: Callable[[str], bool],
        works_here: Callable[[], bool],
        writing: Writing,
    ) -> None:
        """``open_in_terminal`` returns whether a terminal session has a conversation open now; ``works_here``, whether
        any agent is working in the project's directory or inside it. ``writing``: that of all sessions."""
        super().__init__(directory, data, history, context, disk, grants)
        self._runs = runs
        limits = processes.limits
        self.tasks = BackgroundTasks(logger)
        self._queue = PromptQueue(self.store.announce)
        review = Review(data.id, directory)
        folder = directory if limits.checkpoints else None
        self.checkpoints = Checkpoints(
            self.path,
            data.id,
            limits.confinement,
            processes.memory,
            folder,
            self._extend_review,
            review.miss,
            find_unsaved=context.find_unsaved,
            largest=limits.largest,
        )
        self._comments = RecordedComments(self.store)
        self._reviewing = Reviewing(
            data.id,
            review,
            self.checkpoints,
            self._comments,
            {data.id: self.store},
            lambda: grants.ceilings,
            directory,
            self._check_files_at_rest,
            lambda: writing.at(self._real_path),
        )
        self._works_here = works_here
        self.recovery = self._reviewing.recovery
        self._reverter = Reverting(self.checkpoints.reverter, self.recovery, data.id, self.store)
        self.attachments = PromptAttachments(directory, data.id, self.tasks)
        run_checkpoints = RunCheckpoints(
            data.id,
            self.checkpoints.snapshotter,
            self.tasks,
            lambda: writing.settled(self._real_path),
            review.end,
            wanted=limits.checkpoints,
        )
        self.controller = RunController(
            data.id,
            data.path,
            self.attachments.files.directory,
            self._queue,
            runs,
            processes,
            run_checkpoints,
            self.tasks,
            open_in_terminal,
            self._reported,
            self._look_at,
        )
        self._background = BackgroundWork(
            data.id,
            self._reviewing,
            self.tasks,
            lambda: self.controller.run is not None,
            run_checkpoints.taken,
            wanted=limits.checkpoints,
        )
        self._process = self.controller.process
        self._asker = AskingProcess(self._process.answer)
        self._elsewhere: str | None = None
        """The directory in which the agent works, if changes in it are not changes to the project."""
        self._known_problem: str | None = None
        """The reason why agents can't run in the project's directory, as last published; None if they can."""
        self.offers = offers
        self._choosing = asyncio.Lock()
        """Held while options are changed, so that the changes are made in the order in which they were requested."""
        self.continuing = Continuing(data, limits.continue_limited, self._continue, lambda: self.controller.busy)
        self._changing = asyncio.Lock()
        """Held while a run is reverted, a decision on a review is applied, kept changes are committed, or a
        conversation is deleted."""
        self._conversation = CurrentConversation(
            self.store, self.index, self.attachments, self._process, self._forget_state
        )
        self.options = ChosenOptions(
            self.store,
            grants,
            offers,
            self._conversation,
            self._queue,
            self.controller,
            self.tasks,
            self.publish_state,
        )
        self.prompts = Prompts(
            self.store,
            disk,
            grants,
            limits.queue,
            self._queue,
            self.attachments,
            self._conversation,
            self.continuing,
            self.controller,
            self._show_agent,
            self.publish_state,
        )

    @property
    def state(self) -> messages.State:
        if self.controller.run is not None:
            return "EXECUTING"
        return "ERROR" if self.recorded.last_outcome in ("failed", "timeout") else "IDLE"

    @property
    def pids(self) -> list[int]:
        """The PIDs of its agent's processes, including those that are ending."""
        return self._process.pids

    @property
    def _real_path(self) -> Path:
        return self._grants.directories.leads_to(self.path)

    def is_using(self, session_id: str) -> bool:
        return bool(self.pids) and self.recorded.session_id == session_id

    def _details(self) -> dict[str, Any]:
        return {
            **self.options.shown(),
            "asks": self._grants.asks(self.data.agent),
            "first_seq": self.history.first_seq,
            "cost_usd": self.recorded.cost_usd,
            "continues_at": instant_of(self.continuing.at),
            "scheduled_until": instant_of(self._process.scheduled_until),
            "problem": self._grants.directories.last_problem(self.path),
        }

    def _changes_silently(self) -> tuple[object, ...]:
        """Also contains what depends on the time, and what ``directory_examined`` found last."""
        scheduled = self._process.scheduled_until
        return (self.history.count, self.data.recorded.title, scheduled, self._known_problem)

    def directory_examined(self) -> None:
        """Publishes the project's state if agents can no longer run in its directory, or can again, and then also how
        much is left to review."""
        problem, before = self._grants.directories.last_problem(self.path), self._known_problem
        if problem == before:
            return
        self._known_problem = problem
        if problem is None:
            self.tasks.start(self._reviewing.refresh(), f"{self.id}: updating the review of a usable directory")
        elif problem != SILENT:
            self.review_is_gone()
        self.publish_state()

    def _of_agent(self) -> dict[str, Any]:
        offers = self.offers.known
        return {**super()._of_agent(), "agent_offers": offers if offers != base.AgentOffers() else None}

    def _last_state(self, lines: Sequence[bytes], session_id: str) -> base.AgentState:
        agent: object = self._grants.agents.get(self.recorded.agent or self.data.agent)
        return agent.last_state(lines, session_id) if isinstance(agent, base.Reconstructs) else base.AgentState()

    def _current_run(self) -> events.RunInfo | None:
        run = self.controller.run
        return None if run is None else run_info(run, 0)

    def _waiting_runs(self) -> list[events.RunInfo]:
        return self._queue.shown(behind_a_run=self.controller.run is not None)

    # User actions.

    def _continue(self, order: Order) -> None:
        """Continues a run that a limit had stopped. Raises ``ClientError`` or ``DrawbridgeError``."""
        self._check_kept()  # if this raises, the run is retried later
        self.prompts.accept(order, None, queue=True)
        self.store.audit(events.RunContinued(order.run_id, order.by))
        self.controller.next()

    def _approval_closed(self, approval: PendingApproval, asked_by: Asker | None = None) -> None:
        self._asking()

    def _asking(self) -> None:
        """Suspends the run's time limits if a person is being asked, and otherwise resumes them."""
        self.controller.asking(bool(self.approvals))

    def interrupt(self) -> None:
        """Asks the agent to stop this turn. Its process keeps running, and what it has scheduled stays scheduled. A run
        that still waits for a slot ends immediately. Without a run, cancels one that waits for a limit to reset. Raises
        ``ClientError`` if no run waits for that either."""
        if self.controller.run is None and self.continuing.forget():
            self.store.save()
            return self.publish_state()
        return self.controller.interrupt()

    def interrupt_all(self, sender: Subscriber) -> None:
        """Like ``interrupt``, but the prompts in the queue are removed first, so that nothing follows."""
        removed = self.prompts.remove_all(sender)
        if self.controller.run is not None or not removed:
            self.interrupt()

    def cancel_schedule(self) -> None:
        """Ends the idle process, with everything that its agent has scheduled or is running in the background. Raises
        ``ClientError`` if nothing is scheduled, and during a run, which may be the scheduled one."""
        if self.controller.run is not None:
            raise self._at_work()
        if not self._process.is_scheduled:
            raise ClientError("PROCESS_NOT_FOUND", "The agent has not scheduled anything.")
        self._process.end_soon()

    async def kill(self, sender: Subscriber) -> Answer[messages.ExecutionKilled]:
        """Ends the run with its process, and returns when both have ended. The record is written only then, so that the
        answer, which replaces the record for ``sender``, arrives in the order of the records. Raises ``ClientError`` if
        no run is active.
        """
        run = self.controller.current
        fields = events.ExecutionKilled(self.id, "IDLE", run.id)
        # A second request waits until the same run has ended.
        is_first = run.ending is None or run.ending.outcome != "killed"
        await self.controller.kill()
        seq = self.store.record(fields, sender) if is_first and not self.history.closed else None
        return answered(fields, messages.ExecutionKilled, self.id, seq)

    async def new_session(self, sender: Subscriber) -> Answer[messages.SessionReset]:
        """Makes the next prompt begin a new conversation. Raises ``ClientError`` like ``check_at_rest``."""
        self.check_at_rest()
        self.continuing.forget()
        fields, seq = self._conversation.reset(sender)
        self.store.save()
        self._holds_state = True  # in the specification, the state follows the reply
        try:
            # The next prompt waits until the process has ended, but the answer, which replaces a record, does not wait.
            self._process.end_soon()
        finally:
            self._holds_state = False
        answer = answered(fields, messages.SessionReset, self.id, seq)
        return msgspec.structs.replace(answer, then=self.publish_state)

    def _forget_state(self) -> None:
        """Forgets what the agent reported, except for its model and its effort, because another conversation has its
        own context, to-do list and tasks."""
        self._report_state(base.AgentState(model=self._agent_state.model, effort=self._agent_state.effort))

    async def revert(self, run_id: str, sender: Subscriber) -> Answer[messages.RunReverted]:
        """Reverts everything that a run changed, or nothing. The revert is recorded and published like every event.
        Raises ``ClientError``, ``NoCheckpoint``, ``GitFailed`` or OSError."""
        self.check_at_rest()
        async with self._changing:
            answer = await self._reverter.revert(run_id, sender, self._check_files_at_rest)
            await self._reviewing.refresh()
        return answer

    async def _extend_review(self, git: Git, run_id: str, when: When, commit: str) -> None:
        """Extends the review with a checkpoint that was just stored before or after a run."""
        await self._reviewing.extend(git, run_id, when, commit, stays_open=self._background.keeps_open)

    async def review(self) -> Answer[ReviewReply]:
        return await self._reviewing.get(self.id)

    def review_is_gone(self) -> None:
        self._reviewing.publish_gone()

    async def refresh_review(self) -> None:
        await self._reviewing.refresh()

    async def review_image(self, blob: str, largest: int) -> bytes:
        return await self._reviewing.image(blob, largest)

    async def comment(self, command: commands.ReviewComment, sender: Subscriber) -> Answer[messages.ReviewCommented]:
        self._disk.check(self.id)
        return await self._reviewing.commenting.comment(command, self.id, sender)

    async def submit_review(
        self, order: Order, drafts: str, text: str, sender: Subscriber, *, steer: bool
    ) -> Answer[Accepted]:
        """Sends all drafts as one prompt, like ``Prompts.send`` or, with ``steer``, like ``Prompts.steer``. ``order``:
        the order without its prompt; ``drafts``: the version of the drafts that the user has seen; ``text``: the
        beginning of the prompt. Raises the same errors as these methods and ``comment``."""
        key = submission_key(drafts, text)
        known = self.prompts.accepted_before(order.request_id, key)
        if known is not None:
            return known
        located = await self._reviewing.located(drafts)
        if not steer:
            await self.settle()
        # From here on, nothing may be awaited until the prompt is accepted.
        known = self.prompts.accepted_before(order.request_id, key)
        if known is not None:
            return known
        prompt, submission = self._reviewing.commenting.submission(located, drafts, text)
        order = msgspec.structs.replace(order, prompt=prompt, review=submission)
        # The sender receives the record, too, because the reply does not contain the prompt.
        sent = self.prompts.steer(order, None) if steer else self.prompts.send(order, None, queue=True)
        self.store.audit(events.SubmittedReview(sender.audited, sent.data.run_id, steer))
        return msgspec.structs.replace(sent, seq=None)

    async def decide_review(self, wanted: RequestedDecision, sender: Subscriber) -> Answer[ReviewReply]:
        async with self._changing:
            return await self._reviewing.decide(wanted, self.id, sender)

    def _check_idle(self) -> None:
        """Raises ``ClientError`` while a run is active or queued."""
        if self.controller.busy:
            raise self._at_work()

    def _check_files_at_rest(self) -> None:
        """Like ``_check_idle``, and also raises ``ClientError`` while an agent in a terminal is working in the
        project's directory or inside it."""
        self._check_idle()
        if self._works_here():
            raise working_here()

    async def commit_review(
        self, command: commands.ReviewCommit, sender: Subscriber
    ) -> Answer[messages.ReviewCommitted]:
        self.check_at_rest()
        async with self._changing:
            return await self._reviewing.publishing.commit(command, self.id, sender, self._check_files_at_rest)

    async def push_review(self, command: commands.ReviewPush, sender: Subscriber) -> Answer[messages.ReviewPushed]:
        return await self._reviewing.publishing.push(command, self.id, sender)

    async def delete_session(
        self, parts: Sequence[Part], sender: Subscriber, trash: Path, *, is_current: bool, agent_copy: bool
    ) -> Answer[messages.SessionDeleted]:
        """Moves the records of one conversation into the new file ``trash``. The rest of the history does not change.
        If the current conversation is deleted, the next prompt begins a new one (see ``settle``).

        If this raises ``ClientError`` or ``DrawbridgeError``, the conversation can still be continued.
        """
        self.check_at_rest()
        key = parts[0].key
        if is_current:
            self.controller.hold()  # the conversation must not be continued in the meantime
        try:
            async with self._changing:
                await self._conversation.delete(parts, trash, is_current=is_current)
                self._comments.forget([range(part.first_seq, part.last_seq + 1) for part in parts], sender)
                if is_current:
                    self.continuing.forget()
                deleted = events.SessionDeleted(key, sender.name, agent_copy)
                seq = self.store.record(deleted, sender)
                self.store.save()
                self.store.save()  # the copy is the previous version, which still contains the session's name and title
        except BaseException:
            self._deleted()
            raise
        answer = answered(deleted, messages.SessionDeleted, self.id, seq)
        return msgspec.structs.replace(answer, then=self._deleted)

    def _deleted(self) -> None:
        self.publish_state()
        self.controller.resume()

    async def resume(self, session_id: str, title: str | None, *, fork: bool) -> None:
        """Makes the next prompt continue the conversation ``session_id`` or, with ``fork``, a copy of it. ``title``:
        the conversation's title, if known. Raises ``ClientError`` like ``check_at_rest``."""
        self.check_at_rest()
        self.continuing.forget()
        self._conversation.resume(session_id, title, self.data.agent, fork=fork)
        self.store.save()
        self.publish_state()
        await self._process.end()

    async def set_options(self, **chosen: str) -> None:
        """Changes options as ``ChosenOptions.choose`` does, and publishes the change."""
        async with self._choosing:
            await self.restore_agent_state()
            await self.options.choose(**chosen)
            self.publish_state()
            if self.controller.run is None:  # during a run, the process itself reports what has changed
                self._report_state(self._with_choices(self._agent_state))

    def _with_choices(self, state: base.AgentState) -> base.AgentState:
        """``state`` with the model and the effort that were chosen for the next run of the project's agent."""
        if self.offers.agent != self.data.agent:
            return state
        return self.offers.with_choices(state, self.data.options)

    def check_at_rest(self) -> None:
        """Raises ``ClientError`` while a run is active or queued, and while something is reverted, reviewed, committed
        or deleted."""
        self._check_idle()
        self._check_kept()

    def _at_work(self) -> ClientError:
        text = "The agent is working in this project. Try again when it has finished."
        return ClientError("PROCESS_ACTIVE", text, retryable=True)

    def _check_kept(self) -> None:
        """Raises ``ClientError`` while a run is reverted, a decision on a review is applied, kept changes are
        committed, or a conversation is deleted."""
        if self._changing.locked():
            raise ClientError(
                "PROCESS_ACTIVE",
                "Changes are being kept, undone, edited or committed, or a session is being deleted. "
                "Try again in a moment.",
                retryable=True,
            )

    # Reports from the controller and the process.

    def _reported(self, report: Report) -> None:
        """Handles a report. Reports arrive in the order in which things happened."""
        match report:
            case base.AgentLine():
                self._line(report)
            case base.SessionIdentified(session_id):
                run = self.controller.run
                self._conversation.identified(session_id, run.order.prompt if run is not None else "")
            case base.ModeChanged():
                self.options.mode_reported(report)
            case base.StateReported() | base.OffersReported():
                self._about_itself(report)
            case base.ScheduleChanged():
                self.publish_state()
            case base.DirectoryChanged():
                self._works_in(report)
            case base.Question():
                self._question(report)
            case base.QuestionCancelled(question_id, reason):
                self._question_gone(question_id, reason)
            case AskerGone(reason):
                self.withdraw_all(reason)
            case base.TurnBegun():
                self._turn_begun()
            case ModeSet(mode):
                self.options.mode_set(mode)
                if mode is None:
                    self._process_left()
            case RunBegun(run):
                self._run_begun(run)
            case PromptGiven(run):
                run.worked_in(self._elsewhere)
            case RunEnded(run):
                self._run_ended(run)

    def _run_begun(self, run: Run) -> None:
        agent = self._agent_of(run.order)
        if self._conversation.is_of_another(agent):
            # The prompt was accepted while the previous agent was working, so it precedes this record in the history.
            self._conversation.change_agent(titled(run.order.prompt))
            self._show_agent(agent)
        self.store.record(events.RunStarted(run.id, self.recorded.session_id, agent))
        self.publish_state()
        options = run.order.options or self.options.usual(agent)
        try:
            self._disk.check(self.id)
            options = self._grants.granted(str(self.path), self._grants.still_within(options, agent))
        except ClientError as error:
            # The run was allowed when its prompt was accepted, but it has waited since. A run that continues
            # automatically has the options that were allowed before, perhaps by an earlier server.
            return self.controller.refuse(run, error)
        continued = ContinuedConversation(self.recorded, self._conversation.fork_from, self._agent_state)
        return self.controller.launch(run, agent, options, continued)

    def _turn_begun(self) -> None:
        """Begins a run for a turn that the agent began without a prompt, so that users can follow and stop it like any
        other.
        """
        agent = self.recorded.agent or self.data.agent
        run = self.controller.adopt(Order(f"run_{uuid.uuid4().hex[:16]}", "", by=agent, agent=agent, unprompted=True))
        self.store.record(events.RunStarted(run.id, self.recorded.session_id, agent, unprompted=True))
        self.controller.publish_queue()
        self.publish_state()
        run.worked_in(self._elsewhere)
        try:
            self._grants.granted(str(self.path), base.Options())
        except ClientError as error:  # for example, because the budget is used up
            self.controller.stop(error)

    def _run_ended(self, run: Run) -> None:
        """Records the end of a run. No run is current at this moment."""
        self._background.run_ended()
        finished = _run_finished(run)
        # An agent that still waits for an answer would hang without one, for example an agent that does not report its
        # subagents.
        for approval in self.approvals:
            self._process.answer(approval.question_id, base.Decision(allow=False, message=NOBODY_ASKED))
        self.withdraw_all(WITHDRAWN[finished.outcome])
        if finished.code == "SESSION_NOT_FOUND" and self.recorded.unproven:
            self._conversation.lose()
        self.data.last_active = now()
        error = run.ending.error if run.ending is not None and finished.code else None
        why_not = self.continuing.plan(run, finished, error.get("retry_at") if error else None)
        if why_not:
            failure = (finished.error or "").rstrip()
            end = "" if failure.endswith((".", "!", "?")) else "."
            finished = msgspec.structs.replace(finished, error=f"{failure}{end} {why_not}")
        self.store.record(finished)
        self.continuing.check_schedule()
        self.store.save()
        self.publish_state()
        seconds = finished.duration_ms / 1000
        logger.info("%s: %s ended after %.1f s: %s", self.id, finished.run_id, seconds, finished.outcome)
        used_up = self._grants.spend(str(self.path), finished.cost_usd or 0.0)
        if used_up is not None:
            self._runs.stop_all(used_up)

    def _agent_of(self, order: Order) -> str:
        return order.agent or self.data.agent

    def _show_agent(self, agent: str) -> None:
        """Replaces what clients know about the previous agent (state, offers and modes), because ``agent`` executes the
        next run."""
        self._report_state(base.AgentState())
        self.offers.change_agent(agent)
        self.store.announce(base.OffersReported(self.offers.known))
        self.publish_state()

    async def settle(self) -> None:
        """Abandons a conversation that its agent did not store. If a conversation is being deleted, waits until that
        is done. The next prompt is therefore not recorded in a lost or deleted conversation."""
        controller = self.controller
        is_lost = not controller.busy and await self._conversation.is_lost(self.data.agent)
        if is_lost and not controller.busy and not controller.is_held:
            self._conversation.lose()
        while controller.is_held and self._changing.locked():
            async with self._changing:
                pass

    def _look_at(self, agent: str, event: base.LookedAt) -> events.ApprovalRequested | bool:
        """See ``Launch.look``: what a question depends on that is on the disk, or whether a directory is elsewhere.
        Blocking."""
        if isinstance(event, base.Question):
            return look_at(event, agent, self.data.path)
        return is_elsewhere(event.directory, self.path)

    def _works_in(self, changed: base.DirectoryChanged) -> None:
        is_there = Path(changed.directory).is_relative_to(self.path)
        is_there = not changed.look if isinstance(changed.look, bool) else is_there
        self._elsewhere = None if is_there else changed.directory
        if self.controller.run is not None:
            self.controller.run.worked_in(self._elsewhere)

    def _about_itself(self, report: base.StateReported | base.OffersReported) -> None:
        """Publishes what the agent reports about itself. Drops a report that is too large for a client's snapshot."""
        if len(msgspec.json.encode(report)) > LONGEST_REPORT:
            logger.warning("%s: ignored %s from the agent, because it is too large", self.id, type(report).__name__)
            return
        if isinstance(report, base.StateReported):
            self._report_state(report.state)
            self._background.reported(report.state.tasks)
        elif self.offers.report(self._process.agent, report.offers):
            self.store.announce(report)
            if not self.store.closed:
                self.offers.store()

    def _line(self, line: base.AgentLine) -> None:
        if not line.durable:
            return self.store.announce(msgspec.structs.replace(line, session_id=self.recorded.session_id))
        full = self._disk.refusal(self.id, len(line.raw))
        if full is not None:
            return self.controller.stop(full)
        try:
            self.store.write(line)
        except DrawbridgeError as error:
            # What can't be recorded is not shown either, and the agent must not continue without being seen.
            logger.error("%s: a line from the agent can't be recorded: %s", self.id, error)
            self.controller.stop(not_written(error))
        return None

    def _process_left(self) -> None:
        """Forgets what was known about the agent's process, because it has ended or is being ended."""
        self._elsewhere = None
        self._background.reported(())
        self._report_state(msgspec.structs.replace(self._agent_state, tasks=(), retry=None, compacting=False))

    def _question(self, question: base.Question) -> None:
        run = self.controller.current
        agent = run.order.agent or self.data.agent
        look = question.look if isinstance(question.look, events.ApprovalRequested) else None
        self.approvals.request(PendingApproval.new(question, run.id, now(), look=look), agent, self._asker)
        self._asking()

    def _question_gone(self, question_id: str, reason: str) -> None:
        for approval in self.approvals:
            if approval.question_id == question_id:
                self.withdraw(approval, reason)

    async def close(self, reason: str) -> None:
        """Shuts down the session: stops the runs, ends the processes and closes the history. ``reason``: why open
        approval requests are withdrawn."""
        waiting = self._queue.clear()
        self.continuing.close()
        self.withdraw_all(reason)
        await self.controller.close()
        await self._background.close()
        await self.checkpoints.close()
        async with self._changing:
            pass  # git must not be ended while it writes files, because then only some files would be reverted
        for run in waiting:
            self.controller.drop(run)
            self._run_ended(run)
        self.store.save()
        await self.offers.close()
        await asyncio.to_thread(self.history.close)  # waits for the disk


def _run_finished(run: Run) -> events.RunFinished:
    """The event for the end of ``run``."""
    ending = run.ending
    assert ending is not None
    failed = ending.error if ending.outcome in ("failed", "timeout") else None
    return events.RunFinished(
        run_id=run.id,
        outcome=ending.outcome,
        duration_ms=int((time.monotonic() - run.started_at) * 1000) if run.started_at else 0,
        cost_usd=ending.cost_usd,
        input_tokens=ending.tokens.input if ending.tokens else None,
        output_tokens=ending.tokens.output if ending.tokens else None,
        error=failed["message"] if failed else None,
        code=failed["code"] if failed else None,
        directory=run.elsewhere,
        retry_at=instant_of(failed.get("retry_at")) if failed else None,
    )
