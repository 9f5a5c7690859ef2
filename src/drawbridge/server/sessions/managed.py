"""The session of a project, whose agent the server starts: its queue, its runs, its checkpoints, and what people do
with it.

One thing happens at a time, on the event loop's thread. Events that belong to the history are written to it before they
are published. Apart from writing to the history and the metadata, and examining a directory that the agent has changed
to, only methods that are documented as blocking block: what takes time is done in tasks and threads.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.agents import base
from drawbridge.agents.attached import is_text
from drawbridge.core.errors import BadArgument, DrawbridgeError
from drawbridge.server import events
from drawbridge.server.approvals.pending import AgentSurface, PendingApproval, Surface
from drawbridge.server.checkpoints.checkpoints import Changed, Checkpoints, When
from drawbridge.server.checkpoints.git import Git
from drawbridge.server.checkpoints.unsaved import UnsavedChanges, not_written_over
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.client_errors import ClientError, not_written
from drawbridge.server.protocol.messages import Answer, Subscriber
from drawbridge.server.protocol.replies import Accepted
from drawbridge.server.protocol.replies import Review as ReviewReply
from drawbridge.server.reviews.commenting import submission_key
from drawbridge.server.reviews.remembered import Remembered
from drawbridge.server.reviews.reviewing import Reviewing
from drawbridge.server.reviews.reviews import Review, Wish
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.ceilings import usual_mode
from drawbridge.server.sessions.continuing import Continuing
from drawbridge.server.sessions.current_conversation import CurrentConversation
from drawbridge.server.sessions.current_offers import CurrentOffers
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.grants import Grants
from drawbridge.server.sessions.metadata import instant, instant_of, now
from drawbridge.server.sessions.processes import AgentProcesses
from drawbridge.server.sessions.prompt_files import PromptFiles
from drawbridge.server.sessions.prompt_images import PromptImages
from drawbridge.server.sessions.records import titled
from drawbridge.server.sessions.run import Order, Outcome, Run, RunQueue, State
from drawbridge.server.sessions.runs import Runs
from drawbridge.server.sessions.session import SHOWN_PROMPT, Session, SessionStore
from drawbridge.server.sessions.surfaces import Surfaces
from drawbridge.server.sessions.work_trees import is_elsewhere
from drawbridge.server.sessions.worker import (
    DEFECT,
    NOBODY_ASKED,
    AskerGone,
    ModeSet,
    PromptGiven,
    Report,
    RunEnded,
    Worker,
)
from drawbridge.server.store.log import History
from drawbridge.server.store.search import Part

logger = logging.getLogger("drawbridge.server")

ASKER_GONE: Final = "the agent was restarted before the request was answered"

LONGEST_REPORT = 200_000
"""The maximum size of what an agent reports about itself (its state, or what it offers), in bytes. Both are in each
client's snapshot."""


MOST_RESETS = 20
"""How many times a process is reset to an allowed mode before it is ended."""


class RecordedComments:
    """The comments on the review, as reconstructed from the records."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    @property
    def known(self) -> Mapping[str, Remembered]:
        return self._store.memory.comments

    @property
    def handover(self) -> None:
        """Always None: drafts are left only with terminal sessions. A managed agent receives them in a prompt."""

    def write(self, event: messages.ReviewCommented, session: str, asker: Subscriber) -> int | None:
        return self._store.write(event, asker)

    def forget(self, deleted: Sequence[range], asker: Subscriber) -> None:
        """Removes the comments whose records were ``deleted``."""
        for id, one in list(self.known.items()):
            if any(one.seq in some for some in deleted):
                self._store.record(messages.ReviewCommented(comment_id=id, by=asker.name))


class ManagedSession(Session):
    """A session whose agent the server starts."""

    def __init__(
        self,
        directory: Path,
        data: metadata.Metadata,
        history: History,
        offers: CurrentOffers,
        surfaces: Surfaces,
        disk: Disk,
        grants: Grants,
        runs: Runs,
        processes: AgentProcesses,
        open_in_terminal: Callable[[str], bool],
    ) -> None:
        """``open_in_terminal`` returns whether a terminal session has a conversation open now."""
        super().__init__(directory, data, history, surfaces, disk)
        self._grants = grants
        self._runs = runs
        self._limits = limits = processes.limits
        self.run: Run | None = None
        self.queue = RunQueue()
        self.images = PromptImages(directory / "images")
        self.files = PromptFiles(directory / "files")
        self.storing = asyncio.Lock()
        """Held from storing a prompt's files until the prompt is accepted or refused: the size limit is for all files
        together."""
        self._shown_queue: tuple[messages.RunInfo, ...] = ()
        """The queue as clients last received it."""
        review = Review(data.id)
        folder = directory if limits.checkpoints else None
        self.checkpoints = Checkpoints(
            self.path,
            data.id,
            limits.confinement,
            processes.memory,
            folder,
            self._extend_review,
            find_unsaved=surfaces.find_unsaved,
        )
        self._comments = RecordedComments(self.store)
        self._reviewing = Reviewing(
            data.id, review, self.checkpoints, self._comments, {data.id: self.store}, lambda: grants.ceilings, directory
        )
        self.recovery = self._reviewing.recovery
        self._worker = Worker(
            data.id, data.path, processes, self.checkpoints, self.files.directory, open_in_terminal, self._reported
        )
        self._agent_surface = AgentSurface(
            lambda approval, decision: self._worker.answer(approval.question_id, decision)
        )
        self._mode: str | None = None
        """The mode that the agent's process has reported or was set to; None if that is not known, or there is no
        process."""
        self._resets = 0
        """How many times the agent's process has been reset to an allowed mode."""
        self._elsewhere: str | None = None
        self._known_problem = grants.places.last_problem(self.path)
        """Why agents can't run in the project's directory, as last published; None if they can. ``_elsewhere``: the
        directory in which the agent works, if changes in it are not changes to the project."""
        self.offers = offers
        self._choosing = asyncio.Lock()
        """Held while options are changed: one change after the other, in the order in which they were requested."""
        self._give_up_slot: Callable[[], None] = lambda: None
        self.continuing = Continuing(data, limits.continue_limited, self._continue, lambda: self.busy)
        self._reverting = asyncio.Lock()
        """Held while a run is reverted, a decision on a review is applied, kept changes are committed, or a
        conversation is deleted."""
        self._conversation = CurrentConversation(
            self.store, self.index, self.images, self.files, self._worker, self._forget_state
        )

    @property
    def state(self) -> messages.State:
        if self.run is not None:
            return "EXECUTING"
        return "ERROR" if self.memory.last_outcome in ("failed", "timeout") else "IDLE"

    @property
    def permission_mode(self) -> str:
        """The mode that the agent's process has reported or was set to, or else the mode of the next run."""
        next_mode = self.usual_options(self.data.agent).permission_mode
        return self._mode or next_mode or usual_mode(self._grants.ceilings)

    def usual_options(self, agent: str) -> base.Options:
        """The options of a run with this agent if its prompt chooses none: the project's options. If the agent has
        changed its mode in this conversation, they have that mode, provided that clients may choose it."""
        options, changed = self.data.options, self.data.session_mode
        if changed is None or changed.session_id != self.memory.session_id or self._conversation.is_of_another(agent):
            return options
        if not self._grants.offers(changed.mode, agent):  # the owner has changed what is allowed
            return options
        return msgspec.structs.replace(options, permission_mode=changed.mode)

    @property
    def busy(self) -> bool:
        return self.run is not None or bool(self.queue)

    @property
    def pids(self) -> list[int]:
        """The PIDs of its agent's processes, including those that are ending."""
        return self._worker.pids

    def is_using(self, session_id: str) -> bool:
        return bool(self.pids) and self.memory.session_id == session_id

    def _details(self) -> dict[str, Any]:
        return {
            "permission_mode": self.permission_mode,
            "modes": [mode for mode in self.offers.modes if self._grants.offers(mode, self._agent)],
            "own_modes": [mode for mode in self.offers.own_modes if self._grants.offers(mode.name, self._agent)],
            "asks": self._grants.asks(self.data.agent),
            "first_seq": self.history.first_seq,
            "cost_usd": self.memory.cost_usd,
            "continues_at": instant_of(self.continuing.at),
            "scheduled_until": instant_of(self._worker.scheduled_until),
            "problem": self._grants.places.last_problem(self.path),
        }

    def place_examined(self) -> None:
        """Publishes the project's state if agents can no longer run in its directory, or can again."""
        problem = self._grants.places.last_problem(self.path)
        if problem != self._known_problem:
            self._known_problem = problem
            self.publish_state()

    def _of_agent(self) -> dict[str, Any]:
        offers = self.offers.known
        return {**super()._of_agent(), "agent_offers": offers if offers != base.AgentOffers() else None}

    def _last_state(self, lines: Sequence[bytes], session_id: str) -> base.AgentState:
        agent: object = self._grants.agents.get(self.memory.agent or self.data.agent)
        return agent.last_state(lines, session_id) if isinstance(agent, base.Reconstructs) else base.AgentState()

    def _current_run(self) -> messages.RunInfo | None:
        return _run_info(self.run, 0) if self.run else None

    def _waiting_runs(self) -> list[messages.RunInfo]:
        return [_run_info(run, position) for position, run in enumerate(self.queue, 1 if self.run else 0)]

    # User actions.

    def execute(self, order: Order, asker: Subscriber | None, *, queue: bool) -> Answer[Accepted]:
        """Accepts a prompt: it is in the history when this returns. Its run begins after the reply, or later if it has
        to wait. A request with the same ``request_id`` and prompt as an earlier one is not run again: the reply names
        the earlier run. Raises ``ClientError`` or ``DrawbridgeError``.
        """
        known = self.accepted_before(order.request_id, order.prompt)
        if known is not None:
            return known
        seq = self._accept(order, asker, queue=queue)
        return msgspec.structs.replace(self._accepted(order.run_id, seq, order), then=self._next)

    def steer(self, order: Order, asker: Subscriber) -> Answer[Accepted]:
        """Adds a message to the active run. It is in the history when this returns. A repeated request is not sent
        again. Raises ``ClientError`` or ``DrawbridgeError`` without changing anything."""
        known = self.memory.run_of(order.request_id or "", order.prompt)
        run = self.run
        if known is not None:
            return self._accepted(known)
        if run is None or run.state not in (State.RUNNING, State.ASKING):
            text = "There is no active run to add the message to. Send it as a prompt."
            raise ClientError("PROCESS_NOT_FOUND", text)
        self._disk.check(self.id)
        names = tuple(attachment.name or attachment.media_type for attachment in order.attachments)
        accepted = events.PromptAccepted(
            run.id, order.prompt, order.by, order.request_id, names, steer=True, images=order.images, files=order.files
        )
        answer: list[Answer[Accepted]] = []

        def record() -> None:
            answer.append(self._accepted(run.id, self.store.write(accepted, asker), order))

        try:
            self._worker.steer(order.prompt, order.attachments, record)
        except base.NotAtWork:
            text = "The agent is not working. Try again in a moment, or queue the message."
            raise ClientError("PROCESS_NOT_FOUND", text, retryable=True) from None
        except base.AgentRefused as error:
            text = f"The message could not be added to the current run: {error}. Queue it instead."
            raise ClientError("NOT_SUPPORTED", text, field="data.steer") from None
        except BadArgument as error:
            raise ClientError("VALIDATION_FAILED", str(error), field="data.attachments") from None
        self._stored_were_used(order)
        return answer[0]

    def with_stored(self, order: Order, in_use: Collection[str], *, steer: bool) -> Order:
        """Stores the order's attachments that are kept as files or images. Returns the order with them.
        ``in_use``: what ``files_in_use`` returned. Raises ``ClientError`` without storing anything. Blocking."""
        agent = self._grants.agents.get(self._agent if steer else self._agent_of(order))
        embeds = agent.embeds if agent is not None else is_text
        attachments, files = self.files.store(order.attachments, embeds, in_use)
        images = self.images.store(attachments)
        return msgspec.structs.replace(order, attachments=attachments, files=files, images=images)

    def remove_stored(self, order: Order) -> None:
        """Removes what ``with_stored`` has stored, because the prompt was not accepted. Blocking."""
        self.images.remove(image.id for image in order.images)
        self.files.remove(file.id for file in order.files)

    def files_in_use(self) -> set[str]:
        """The ids of files that belong to waiting or running prompts."""
        runs = [*([self.run] if self.run else []), *self.queue]
        return {file.id for run in runs for file in run.order.files}

    def _stored_were_used(self, order: Order) -> None:
        if order.images:
            self._worker.spawn(asyncio.to_thread(self.images.make_room), "making room for images of prompts")
        if order.files:
            in_use = self.files_in_use() | {file.id for file in order.files}
            self._worker.spawn(asyncio.to_thread(self.files.make_room, in_use), "making room for files of prompts")

    def _continue(self, order: Order) -> None:
        """Continues a run that a limit had stopped. Raises ``ClientError`` or ``DrawbridgeError``."""
        self._check_kept()  # if this raises, the run is retried later
        self._accept(order, None, queue=True)
        self.store.announce(events.RunContinued(order.run_id, order.by))
        self._next()

    def _accept(self, order: Order, asker: Subscriber | None, *, queue: bool) -> int | None:
        """Adds the prompt to the history and to the queue; the caller has to call ``_next`` afterwards. Returns what
        ``SessionStore.write`` returns for the reply to ``asker``. If this raises ``ClientError`` or
        ``DrawbridgeError``, the prompt is neither in the history nor in the queue.
        """
        if self.busy and not queue:
            raise ClientError("PROCESS_ACTIVE", "The agent is already working in this project.", retryable=True)
        if len(self.queue) >= self._limits.queue:
            raise ClientError(
                "RESOURCE_LIMIT",
                "The queue of this project is full. Try again after the next run.",
                retryable=True,
            )
        self._disk.check(self.id)
        self._grants.granted(str(self.path), base.Options())
        names = tuple(attachment.name or attachment.media_type for attachment in order.attachments)
        accepted = events.PromptAccepted(
            order.run_id,
            order.prompt,
            order.by,
            order.request_id,
            names,
            images=order.images,
            files=order.files,
            review=order.review,
        )
        conversation = self._conversation
        former = conversation.snapshot(self.title)
        changes = not self.busy and not conversation.is_held and conversation.is_of_another(self._agent_of(order))
        if changes:
            conversation.change_agent(None)
        try:
            seq = self.store.write(accepted, asker)
        except (ClientError, DrawbridgeError):
            if changes:
                conversation.restore(former)
            raise
        if changes:
            self._show_agent(self._agent_of(order))
        self._stored_were_used(order)
        self.continuing.forget()
        self.queue.add(Run(order, self.history.last_seq))
        self.store.save()
        return seq

    def accepted_before(self, request_id: str | None, prompt: str) -> Answer[Accepted] | None:
        """The reply to a repeated request, which is not checked again; None if the request is new."""
        known = self.memory.run_of(request_id or "", prompt)
        return None if known is None else self._accepted(known)

    def _accepted(self, run_id: str, seq: int | None = None, order: Order | None = None) -> Answer[Accepted]:
        """The reply to an accepted prompt. ``order``: its order if the prompt was accepted just now, otherwise None."""
        waiting = [run.id for run in self.queue]
        position = waiting.index(run_id) + (1 if self.run else 0) if run_id in waiting else 0
        accepted = Accepted(run_id, position, order.images, order.files) if order else Accepted(run_id, position)
        return Answer(type="accepted", project_id=self.id, seq=seq, data=accepted)

    def _approval_closed(self, approval: PendingApproval, asked_by: Surface | None = None) -> None:
        self._asking()

    def _asking(self) -> None:
        """Notes whether a person is being asked. As long as that is the case, the run's time limits are suspended."""
        self._worker.asking(bool(self.approvals))
        if not self.approvals and self.run is not None:
            self.run.answered()

    def interrupt(self) -> None:
        """Asks the agent to stop this turn; its process keeps running, and what it has scheduled stays scheduled. A run
        that still waits for a slot ends immediately. If there is no run, cancels one that waits for a limit to reset.
        Raises ``ClientError`` if no run waits for that either."""
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

    def interrupt_all(self, asker: Subscriber) -> None:
        """Like ``interrupt``, but the prompts in the queue are removed first, so that nothing follows."""
        waiting = self.queue.clear()
        for run in waiting:
            self._removed(run, asker)
        self._queue_changed()
        if self.run is not None or not waiting:
            self.interrupt()

    def cancel_schedule(self) -> None:
        """Ends the idle process, with everything that its agent has scheduled or is running in the background. Raises
        ``ClientError`` if nothing is scheduled, and during a run, which may be the scheduled one."""
        if self.run is not None:
            raise self._at_work()
        if not self._worker.is_scheduled:
            raise ClientError("PROCESS_NOT_FOUND", "The agent has not scheduled anything.")
        self._worker.end_soon()

    def remove_prompt(self, run_id: str, asker: Subscriber) -> None:
        """Removes a prompt from the queue. Raises ``ClientError`` if it is not in the queue, like the other queue
        methods."""
        run = self.queue.find(run_id)
        title = self.title
        self.queue.remove(run)
        self._removed(run, asker)
        self._queue_changed()
        self._retitled(title)

    def _removed(self, run: Run, asker: Subscriber) -> None:
        """Ends a run that has not started. All clients are notified, including ``asker``."""
        run.finish("interrupted")
        ended = messages.RunFinished(
            run_id=run.id, outcome="interrupted", duration_ms=0, removed_by=asker.name, client_id=asker.id
        )
        self.store.record(ended)

    def edit_prompt(self, run_id: str, prompt: str, asker: Subscriber) -> None:
        """Changes the text of a prompt in the queue. The new text is in the history when this returns. Raises
        ``ClientError`` or ``DrawbridgeError`` without changing anything."""
        run = self.queue.find(run_id)
        self._disk.check(self.id)
        title = self.title
        self.store.write(messages.PromptEdited(run_id, prompt, asker.name, asker.id))
        self.queue.edit(run, prompt, self.history.last_seq)
        self._queue_changed()
        self._retitled(title)

    def _retitled(self, before: str) -> None:
        if self.title != before:
            self.publish_state()

    def move_prompt(self, run_id: str, before: str | None) -> None:
        self.queue.move(self.queue.find(run_id), None if before is None else self.queue.find(before))
        self._queue_changed()

    def send_now(self, run_id: str) -> None:
        """Moves the prompt to the front of the queue, and interrupts the active run for it."""
        run = self.queue.find(run_id)
        self.queue.remove(run)
        active, begun = self.run, self.run is not None and self.run.state is not State.QUEUED
        if active is not None and not begun:  # it still waits for a slot, so it returns to the queue
            self._give_up_slot()
            self.queue.add(active, first=True)
            self.run = None
        self.queue.add(run, first=True)
        if begun:
            self.interrupt()
        self._next()

    async def kill(self, asker: Subscriber) -> Answer[messages.ExecutionKilled]:
        """Ends the run with its process; returns when both have ended. The record is written only then, so that the
        answer, which replaces the record for ``asker``, arrives in the order of the records. Raises ``ClientError`` if
        no run is active.
        """
        run = self._running()
        fields = messages.ExecutionKilled(self.id, "IDLE", run.id)
        is_first = run.stopped_as != "killed"  # a second request waits until the same run has ended
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
        """Makes the next prompt begin a new conversation. Raises ``ClientError`` like ``check_at_rest``."""
        self.check_at_rest()
        self.continuing.forget()
        fields, seq = self._conversation.reset(asker)
        self.store.save()
        self._holds_state = True  # in the specification, the state follows the reply
        try:
            # The next prompt waits until the process has ended; the answer, which replaces a record, does not wait.
            self._worker.end_soon()
        finally:
            self._holds_state = False
        return msgspec.structs.replace(messages.updated("session_reset", fields, self.id, seq), then=self.publish_state)

    def _forget_state(self) -> None:
        """Forgets what the agent has reported, except for its model and its effort: another conversation has its own
        context, to-do list and tasks."""
        self._report_state(base.AgentState(model=self._agent_state.model, effort=self._agent_state.effort))

    async def revert(self, run_id: str, asker: Subscriber) -> Answer[messages.RunReverted]:
        """Reverts everything that a run changed, or nothing. The revert is recorded and published like every event.
        Raises ``ClientError``, ``NoCheckpoint``, ``GitFailed`` or OSError."""
        self.check_at_rest()
        async with self._reverting:
            try:
                changes = await self.checkpoints.revert(run_id)
            except Changed as error:
                text = f"The same lines have changed since the run, in {error}. Nothing was undone."
                details = {"paths": error.paths, "lines": error.lines}
                raise ClientError("CHANGED_SINCE", text, details=details) from None
            except UnsavedChanges as error:
                raise not_written_over(error) from None
            reverted = messages.RunReverted(run_id, asker.name, changes.files)
            seq = self.store.record(reverted, asker)
            await self._reviewing.look()
        return messages.updated("run_reverted", reverted, self.id, seq)

    async def _extend_review(self, git: Git, run_id: str, when: When, commit: str) -> None:
        """Extends the review with a checkpoint that was just stored before or after a run."""
        await self._reviewing.extend(git, run_id, when, commit)

    async def review(self) -> Answer[ReviewReply]:
        return await self._reviewing.get(self.id)

    def review_is_gone(self) -> None:
        self._reviewing.publish_gone()

    async def review_image(self, blob: str, largest: int) -> bytes:
        return await self._reviewing.image(blob, largest)

    async def comment(self, command: commands.ReviewComment, asker: Subscriber) -> Answer[messages.ReviewCommented]:
        self._disk.check(self.id)
        return await self._reviewing.commenting.comment(command, self.id, asker)

    async def submit_review(self, order: Order, drafts: str, text: str, asker: Subscriber) -> Answer[Accepted]:
        """Sends all drafts as one prompt, like ``execute``. ``order``: the order without its prompt; ``drafts``: the
        version of the drafts that the user has seen; ``text``: the beginning of the prompt. Raises the same errors as
        ``comment``."""
        key = submission_key(drafts, text)
        known = self.accepted_before(order.request_id, key)
        if known is not None:
            return known
        placed = await self._reviewing.placed(drafts)
        await self.settle()  # from here on, nothing may be awaited until the prompt is accepted
        known = self.accepted_before(order.request_id, key)
        if known is not None:
            return known
        prompt, submission = self._reviewing.commenting.submission(placed, drafts, text)
        order = msgspec.structs.replace(order, prompt=prompt, review=submission)
        # The asker receives the record, too: the reply does not contain the prompt.
        return msgspec.structs.replace(self.execute(order, None, queue=True), seq=None)

    async def decide_review(self, wish: Wish, asker: Subscriber) -> Answer[ReviewReply]:
        async with self._reverting:
            return await self._reviewing.decide(wish, self.id, asker, self._check_idle)

    def _check_idle(self) -> None:
        """Raises ``ClientError`` while a run is active or queued."""
        if self.busy:
            raise self._at_work()

    async def commit_review(
        self, command: commands.ReviewCommit, asker: Subscriber
    ) -> Answer[messages.ReviewCommitted]:
        self.check_at_rest()
        async with self._reverting:
            return await self._reviewing.publishing.commit(command, self.id, asker, self._check_idle)

    async def push_review(self, command: commands.ReviewPush, asker: Subscriber) -> Answer[messages.ReviewPushed]:
        return await self._reviewing.publishing.push(command, self.id, asker)

    async def delete_session(
        self, parts: Sequence[Part], asker: Subscriber, trash: Path, *, is_current: bool, agent_copy: bool
    ) -> Answer[messages.SessionDeleted]:
        """Moves the records of one conversation into the new file ``trash``; the rest of the history does not change.
        If the current conversation is deleted, the next prompt begins a new one (see ``settle``).

        If this raises ``ClientError`` or ``DrawbridgeError``, the conversation can still be continued.
        """
        self.check_at_rest()
        conversation, key = self._conversation, parts[0].key
        if is_current:
            conversation.hold()
        try:
            async with self._reverting:
                await conversation.delete(parts, trash, is_current=is_current)
                self._comments.forget([range(part.first_seq, part.last_seq + 1) for part in parts], asker)
                if is_current:
                    self.continuing.forget()
                seq = self.store.record(messages.SessionDeleted(key, asker.name, agent_copy), asker)
                self.store.save()
                self.store.save()  # the copy is the previous version, which still contains the session's name and title
        except BaseException:
            self._deleted()
            raise
        answer = messages.updated("session_deleted", messages.SessionDeleted(key, asker.name, agent_copy), self.id, seq)
        return msgspec.structs.replace(answer, then=self._deleted)

    def _deleted(self) -> None:
        self._conversation.release()
        self.publish_state()
        self._next()

    async def resume(self, session_id: str, title: str | None, *, fork: bool) -> None:
        """Makes the next prompt continue the conversation ``session_id`` or, with ``fork``, a copy of it. ``title``:
        the conversation's title, if known. Raises ``ClientError`` like ``check_at_rest``."""
        self.check_at_rest()
        self.continuing.forget()
        self._conversation.resume(session_id, title, self.data.agent, fork=fork)
        self.store.save()
        self.publish_state()
        await self._worker.end()

    async def set_options(self, **chosen: str) -> None:
        """Sets the ``permission_mode``, ``model`` or ``effort`` of later runs, including those that wait, and of the
        active one as far as the agent can change it. Raises ``ClientError`` if the agent refuses."""
        async with self._choosing:
            await self.look_back()
            try:
                await self._worker.change(**chosen)
            except base.AgentRefused as error:
                reason = str(error).removesuffix(".")
                text = f"The agent rejected the change: {reason}. The previous setting is still in effect."
                raise ClientError("NOT_SUPPORTED", text) from None
            self.store.check_there()
            self.data.options = msgspec.structs.replace(self.data.options, **chosen)
            self.queue.choose(self.data.agent, chosen)
            if "permission_mode" in chosen:
                self.data.session_mode = None
            self.store.save()
            self.publish_state()
            if self.run is None:  # otherwise, the process reports what has changed in this run
                self._report_state(self._with_choices(self._agent_state))

    def _with_choices(self, state: base.AgentState) -> base.AgentState:
        """``state`` with the model and the effort that were chosen for the next run of the project's agent."""
        if self.offers.agent != self.data.agent:
            return state
        return self.offers.with_choices(state, self.data.options)

    def _running(self) -> Run:
        if self.run is None:
            raise ClientError("PROCESS_NOT_FOUND", "No agent is working in this project.")
        return self.run

    def check_at_rest(self) -> None:
        """Raises ``ClientError`` while a run is active or queued, and while something is reverted, reviewed, committed
        or deleted."""
        self._check_idle()
        self._check_kept()

    def _at_work(self) -> ClientError:
        text = "The agent is working in this project."
        return ClientError("PROCESS_ACTIVE", text, retryable=True)

    def _check_kept(self) -> None:
        """Raises ``ClientError`` while a run is reverted, a decision on a review is applied, kept changes are
        committed, or a conversation is deleted."""
        if self._reverting.locked():
            raise ClientError(
                "PROCESS_ACTIVE",
                "Changes are being undone or reviewed, or a session is being deleted. Try again in a moment.",
                retryable=True,
            )

    # The states of a run, as the worker reports them.

    def _next(self) -> None:
        if self.run is None and self.queue and not self._conversation.is_held:
            run = self.run = self.queue.take()
            self._give_up_slot = self._runs.take_slot(lambda: self._begin(run))
        self._queue_changed()

    def _queue_changed(self) -> None:
        """Publishes the queue, if it has changed since clients last received it."""
        queue = tuple(self._waiting_runs())
        if queue != self._shown_queue:
            self._shown_queue = queue
            self.store.announce(messages.QueueChanged(queue))

    def _begin(self, run: Run) -> None:
        run.start(time.monotonic())
        self._runs.begun(self)
        agent = self._agent_of(run.order)
        if self._conversation.is_of_another(agent):
            # The prompt was accepted while the previous agent was working, so it precedes this record in the history.
            self._conversation.change_agent(titled(run.order.prompt))
            self._show_agent(agent)
        self.store.record(messages.RunStarted(run.id, self.memory.session_id, agent))
        self.publish_state()
        options = run.order.options or self.usual_options(agent)
        try:
            self._disk.check(self.id)
            options = self._grants.granted(str(self.path), self._grants.still_within(options, agent))
        except ClientError as error:
            # The run was allowed when its prompt was accepted, but it has waited since. A run that continues
            # automatically has the options that were allowed before, perhaps by an earlier server. The run is ended in
            # a task: its end begins the next run, and this one is still being given its slot.
            self._worker.spawn(self._refuse(run, error), "ending a run that was refused")
            return
        self._worker.begin(run, agent, options, self.memory, self._conversation.fork_from, self._agent_state)

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
        """Gives up a conversation that its agent has not stored. If a conversation is being deleted, waits until that
        is done. The next prompt is therefore not recorded in a lost or deleted conversation."""
        if not self.busy and await self._conversation.is_lost(self.data.agent) and not self.busy:
            self._conversation.lose()
        while self._conversation.is_held and self._reverting.locked():
            async with self._reverting:
                pass

    async def _refuse(self, run: Run, error: ClientError) -> None:
        self.ended(run, "failed", None, {"code": error.code, "message": error.text})

    def _begun_alone(self) -> None:
        """Begins a run for a turn that the agent has begun without a prompt, so that people can follow and stop it like
        any other. If a prompt is on its way, the turn is part of that prompt's run.
        """
        # A queued run waits for its slot; the agent's turn needs none, and may ask for approval immediately.
        if self.run is not None and self.run.state is State.QUEUED:
            self._give_up_slot()
            self.queue.add(self.run, first=True)
        elif self.run is not None:
            return
        agent = self.memory.agent or self.data.agent
        run = self.run = Run(Order(f"run_{uuid.uuid4().hex[:16]}", "", by=agent, agent=agent, unprompted=True))
        run.start(time.monotonic())
        self._runs.begun(self)
        self.store.record(messages.RunStarted(run.id, self.memory.session_id, agent, unprompted=True))
        self._queue_changed()
        self.publish_state()
        run.worked_in(self._elsewhere)
        self._worker.take_over(run)
        try:
            self._grants.granted(str(self.path), base.Options())
        except ClientError as error:  # for example, because the budget is used up
            self.stop_for(error)

    def stop_for(self, error: ClientError) -> None:
        """Stops the active run with this error."""
        run = self.run
        if run is not None and run.stop("failed", {"code": error.code, "message": error.text}):
            self.withdraw_all("the run was stopped")
            self._worker.stop_soon(run)

    def _reported(self, report: Report) -> None:
        """Handles a report from the worker. Reports arrive in the order in which things happened."""
        match report:
            case base.AgentLine():
                self._line(report)
            case base.SessionIdentified(session_id):
                self._conversation.identified(session_id, self.run.order.prompt if self.run is not None else "")
            case base.ModeChanged(mode):
                self._keep_mode(mode)
                self._mode_known(mode, report)
            case base.StateReported() | base.OffersReported():
                self._about_itself(report)
            case base.ScheduleChanged():
                self.publish_state()
            case base.DirectoryChanged(directory):
                self._works_in(directory)
            case base.Question():
                self._question(report)
            case base.QuestionCancelled(question_id, reason):
                self._question_gone(question_id, reason)
            case AskerGone():
                self.withdraw_all(ASKER_GONE)
            case base.TurnBegun():
                self._begun_alone()
            case ModeSet(set_mode):
                self._mode_known(set_mode)
            case PromptGiven(given):
                given.worked_in(self._elsewhere)
            case RunEnded(run, outcome, cost_usd, error, tokens):
                self.ended(run, outcome, cost_usd, error, tokens)

    def _works_in(self, directory: str) -> None:
        self._elsewhere = directory if is_elsewhere(directory, self.path) else None
        if self.run is not None:
            self.run.worked_in(self._elsewhere)

    def _about_itself(self, report: base.StateReported | base.OffersReported) -> None:
        """Publishes what the agent reports about itself. Drops a report that is too large for a client's snapshot."""
        if len(msgspec.json.encode(report)) > LONGEST_REPORT:
            logger.warning("%s: the agent's %s is too large and is not shown", self.id, type(report).__name__)
            return
        if isinstance(report, base.StateReported):
            self._report_state(report.state)
        elif self.offers.report(self._worker.agent, report.offers):
            self.store.announce(report)
            if not self.store.closed:
                self.offers.store()

    def _line(self, line: base.AgentLine) -> None:
        if not line.durable:
            return self.store.announce(msgspec.structs.replace(line, session_id=self.memory.session_id))
        full = self._disk.refusal(self.id, len(line.raw))
        if full is not None:
            return self.stop_for(full)
        try:
            self.store.write(line)
        except DrawbridgeError as error:
            # What can't be recorded is not shown either, and the agent must not continue unseen.
            logger.error("%s: a line from the agent can't be recorded: %s", self.id, error)
            self.stop_for(not_written(error))
        return None

    @property
    def _agent(self) -> str:
        """The name of the current agent."""
        return (self.run and self.run.order.agent) or self.memory.agent or self.data.agent

    def _keep_mode(self, mode: str) -> None:
        """Keeps a mode that the agent has changed to, on its own or because of a decision: its next process continues
        this conversation in that mode, if clients may choose it; other conversations are not affected. The first mode
        that a process reports is the one that it was started in, perhaps for one prompt only, so it is not kept."""
        if self._mode is None or mode == self._mode or not self._grants.allows(mode, self._agent):
            return
        self._worker.mode_changed(mode)
        session_id = self.memory.session_id
        if session_id and self._grants.offers(mode, self._agent):
            self.data.session_mode = metadata.SessionMode(session_id, mode)
            self.store.save()

    def _mode_known(self, mode: str | None, report: base.ModeChanged | None = None) -> None:
        """Notes the agent's mode (None if its process has ended) and, from its report, its available modes."""
        offers = self.offers
        before = self.permission_mode, offers.modes, offers.own_modes
        self._mode = mode
        if report is not None:
            offers.report_modes(report)
        if (self.permission_mode, offers.modes, offers.own_modes) != before:
            self.publish_state()
        if mode is None:
            self._resets, self._elsewhere = 0, None
            self._report_state(msgspec.structs.replace(self._agent_state, tasks=(), retry=None, compacting=False))
        elif not self._grants.allows(mode, self._agent):
            # After an unexpected error the agent may still be in that mode.
            failure = ClientError("INTERNAL_ERROR", DEFECT)
            self._worker.spawn(self._reset_mode(mode), "resetting the agent's mode", lambda _: self.stop_for(failure))

    async def _reset_mode(self, mode: str) -> None:
        """Resets a mode that the owner does not allow, which came from the agent's own settings or its own decision."""
        usual = usual_mode(self._grants.ceilings)
        logger.warning("%s: the agent is in mode %s, which is not allowed; reset to %s", self.id, mode, usual)
        self._resets += 1
        try:
            if self._resets > MOST_RESETS:
                raise base.AgentRefused("it was reset too many times")
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

    def ended(
        self,
        run: Run,
        outcome: Outcome,
        cost_usd: float | None,
        error: dict[str, Any] | None,
        tokens: base.Tokens | None = None,
    ) -> None:
        has_slot = run.state is not State.QUEUED and not run.order.unprompted
        if not run.finish(outcome):
            return
        # Without an answer, an agent that still waits for one would hang, such as an agent that does not report its
        # subagents.
        for approval in self.approvals:
            self._worker.answer(approval.question_id, base.Decision(allow=False, message=NOBODY_ASKED))
        self.withdraw_all("the run failed" if run.outcome == "failed" else f"run {run.outcome}")
        error = run.stopped_for or error
        finished = _run_finished(run, cost_usd, error, tokens)
        if finished.code == "SESSION_NOT_FOUND" and self.memory.unproven:
            self._conversation.lose()
        self.run = None
        self._runs.ended(self)
        self.data.last_active = now()
        why_not = self.continuing.ended(run, finished, error.get("retry_at") if error and finished.code else None)
        if why_not:
            finished = msgspec.structs.replace(finished, error=f"{finished.error} {why_not}")
        self.store.record(finished)
        self.continuing.look()
        self.store.save()
        self.publish_state()
        seconds = finished.duration_ms / 1000
        logger.info("%s: %s ended after %.1f s: %s", self.id, finished.run_id, seconds, finished.outcome)
        used_up = self._grants.spend(str(self.path), finished.cost_usd or 0.0)
        if used_up is not None:
            self._runs.stop_all(used_up)
        if has_slot:
            self._runs.give_slot_back()
        self._next()

    async def close(self, reason: str) -> None:
        """Shuts down the session: stops the runs, ends the processes and closes the history. ``reason``: why open
        approval requests are withdrawn."""
        waiting = self.queue.clear()
        self.continuing.close()
        if self.run is not None and not self.run.stop("interrupted"):
            self._give_up_slot()  # otherwise, this run would begin when another session's run ends
        self.withdraw_all(reason)
        await self._worker.close()
        await self.checkpoints.close()
        async with self._reverting:
            pass  # git must not be ended while it writes files: some would be reverted and some not
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
        cut=len(order.prompt) > SHOWN_PROMPT,
        by=order.by,
        client_id=order.client_id,
        attachments=len(order.attachments),
        seq=run.seq,
    )


def _run_finished(
    run: Run, cost_usd: float | None, error: dict[str, Any] | None, tokens: base.Tokens | None
) -> messages.RunFinished:
    """The event for the end of ``run``. ``error``: an error's ``code`` and ``message``, perhaps with ``retry_at``."""
    assert run.outcome is not None
    failed = error if run.outcome in ("failed", "timeout") else None
    return messages.RunFinished(
        run_id=run.id,
        outcome=run.outcome,
        duration_ms=int((time.monotonic() - run.started_at) * 1000) if run.started_at else 0,
        cost_usd=cost_usd,
        input_tokens=tokens.input if tokens else None,
        output_tokens=tokens.output if tokens else None,
        error=failed["message"] if failed else None,
        code=failed["code"] if failed else None,
        directory=run.elsewhere,
        retry_at=instant_of(failed.get("retry_at")) if failed else None,
    )
