"""The base class of managed sessions and terminal sessions, and the list of all sessions.

``Session`` contains the identity, the history, the store, the approval requests, and what clients see. A
``ManagedSession`` belongs to a project, and its history contains the project's conversations, one after another. A
``terminal_sessions.session.TerminalSession`` is one conversation. ``Sessions`` is the list of all sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import msgspec

from drawbridge.agents.base import AgentLine, AgentOffers, AgentState, Decision, OffersReported, Options, StateReported
from drawbridge.core.errors import DrawbridgeError, HistoryUnreadable
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.approvals.pending import Asker, PendingApproval, Surface
from drawbridge.server.approvals.service import Approvals
from drawbridge.server.checkpoints.checkpoints import Checkpoints
from drawbridge.server.events import (
    Announced,
    Answered,
    Audited,
    Event,
    PermissionWithdrawn,
    QueueChanged,
    Recorded,
    ReviewNumbers,
    RunFinished,
    RunInfo,
    SessionRenamed,
    SessionSummary,
    StateChanged,
    Stored,
)
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError, no_project, shutting_down
from drawbridge.server.protocol.frames import ROOM, Subscriber
from drawbridge.server.protocol.replies import Review
from drawbridge.server.reviews.decisions import RequestedDecision
from drawbridge.server.reviews.recovery import Recovery
from drawbridge.server.reviews.writing import Writing
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import SessionContext
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.metadata import TERMINAL_PREFIX, instant
from drawbridge.server.sessions.options.ceilings import check_allowed, day_of
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.recorded_state import DAYS_KEPT, Day, RecordedState, count_run
from drawbridge.server.store import records
from drawbridge.server.store.lines import timestamp
from drawbridge.server.store.log import History, Page, rebuild
from drawbridge.server.store.search import FILE, Index
from drawbridge.server.store.texts import clean
from drawbridge.server.updates import answered, project_info, project_joined, project_state

logger = logging.getLogger("drawbridge.server")

LOOKED_BACK: Final = 300
LOOKED_BACK_BYTES: Final = 1024 * 1024
"""The maximum numbers of records, and of bytes, at the end of the history from which an agent's state is
reconstructed."""

SHOWN_PROMPT: Final = 500
"""The maximum number of characters of a prompt that are shown in lists. The history contains the whole prompt."""

COUNTED_AT_ONCE: Final = 1_000
"""The number of records of an older history that are read at a time to count its runs."""

FINISHED: Final = records.KINDS[RunFinished].subtype.encode()


class Session(ABC):
    """A session of either kind. Its methods are called on the event loop's thread."""

    def __init__(
        self,
        directory: Path,
        data: metadata.Metadata,
        history: History,
        context: SessionContext,
        disk: Disk,
        grants: Grants,
    ) -> None:
        """``directory`` contains its metadata, its history and its search index."""
        self.id = data.id
        self.path = Path(data.path)
        self.data = data
        self.history = history
        self.index = Index(str(directory / FILE), history)
        self.store = SessionStore(directory, data, history, context, disk)
        self.approvals = Approvals(
            self.id,
            data.path,
            self.store.append,
            self.store.publish,
            self.store.record,
            data.recorded.verdicts,
            context.editors,
            self.decide,
        )
        self._disk = disk
        self._grants = grants
        self._holds_state = False
        """Whether ``publish_state`` does nothing, because the state will be published after something that has to come
        first."""
        self._agent_state = AgentState()
        """The state that the agent reported, including reports from a process that has ended since."""
        self._is_restored = not history.count and data.options == Options()
        """Whether ``restore_agent_state`` has nothing left to read, because it was called before, or because neither
        records nor chosen options exist."""
        self._listed: tuple[tuple[object, ...], messages.ProjectInfo] | None = None
        """What ``info`` returned last, and the state that it was made from; None before the first call."""

    @property
    def recorded(self) -> RecordedState:
        return self.data.recorded

    @property
    def title(self) -> str:
        """See ``RecordedState.shown_title``."""
        return self.recorded.shown_title

    def learn_title(self, title: str) -> None:
        """Sets the title of the current conversation if it has none. The title comes from older records, or from the
        agent's own file."""
        self.recorded.title = self.recorded.title or title

    # Members that differ between the kinds.

    @property
    @abstractmethod
    def state(self) -> messages.State:
        """The session's state, as one of the protocol's values."""

    @abstractmethod
    def is_using(self, session_id: str) -> bool:
        """Whether a process of the session's agent has the conversation ``session_id`` open now."""

    checkpoints: Checkpoints
    """The checkpoints of its runs."""

    recovery: Recovery
    """The recovery of decisions on its review."""

    @abstractmethod
    async def review(self) -> Answer[Review]:
        """The open review of the files as they are now. Raises ``DrawbridgeError``, ``NoCheckpoint``, ``GitFailed`` or
        OSError."""

    @abstractmethod
    def review_is_gone(self) -> None:
        """Reports that nothing can be reviewed, because the directory no longer exists or is no longer allowed."""

    @abstractmethod
    def directory_examined(self) -> None:
        """Publishes how much is left to review if the directory can no longer be used, or can be used again."""

    @abstractmethod
    async def refresh_review(self) -> None:
        """Updates the review after files were changed by something other than a run, or by a run that a restart of the
        server interrupted. A failure is logged."""

    @abstractmethod
    async def review_image(self, blob: str, largest: int) -> bytes:
        """The content of an image that the review shows. ``blob``: git's id of the content; ``largest``: the maximum
        size, in bytes. Raises the same errors as ``Reviewing.image``."""

    @abstractmethod
    async def decide_review(self, wanted: RequestedDecision, sender: Subscriber) -> Answer[Review]:
        """Applies a decision to a part of the review; it is recorded and published like every event. During a run,
        changes can only be kept. Raises ``ClientError``, ``DrawbridgeError``, ``NoCheckpoint``, ``GitFailed`` or
        OSError."""

    @abstractmethod
    async def commit_review(
        self, command: commands.ReviewCommit, sender: Subscriber
    ) -> Answer[messages.ReviewCommitted]:
        """Commits what was kept, on the current branch or a new one. Raises ``ClientError``, ``DrawbridgeError``,
        ``NoCheckpoint``, ``GitFailed`` or OSError without changing anything, except for what a hook itself has
        changed."""

    @abstractmethod
    async def push_review(self, command: commands.ReviewPush, sender: Subscriber) -> Answer[messages.ReviewPushed]:
        """Pushes the current branch, and creates a pull request if one is requested. Repeating the ``request_id`` of a
        recent push does not push again. Raises ``ClientError``, ``DrawbridgeError``, ``NoCheckpoint``, ``GitFailed`` or
        OSError."""

    @abstractmethod
    async def comment(self, command: commands.ReviewComment, sender: Subscriber) -> Answer[messages.ReviewCommented]:
        """Writes, changes, removes, resolves or reopens a comment. The change is recorded and published like every
        event. Raises ``ClientError``, ``DrawbridgeError``, ``NoCheckpoint``, ``GitFailed`` or OSError without changing
        anything."""

    @abstractmethod
    def _details(self) -> dict[str, Any]:
        """The fields of ``SessionSummary`` that only this kind of session has."""

    @abstractmethod
    def _current_run(self) -> RunInfo | None:
        """The active run, if any."""

    def _of_agent(self) -> dict[str, Any]:
        """The fields of ``ProjectJoined`` with what the agent reports about itself, if it reports anything."""
        return {"agent_state": self._agent_state if self._agent_state != AgentState() else None}

    @final
    async def restore_agent_state(self) -> None:
        """On the first call, restores the agent's state. What the agent reported about itself before the server was
        started is read from the end of the history, and what users have chosen since then from the metadata. What the
        agent reported after the server was started takes precedence."""
        if self._is_restored:
            return
        self._is_restored = True
        if self._agent_state != AgentState():
            return
        session_id = self.recorded.session_id
        state = await self._state_in_history(session_id) if session_id else AgentState()
        if self._agent_state == AgentState() and self.recorded.session_id == session_id:
            self._report_state(self._with_choices(state))

    async def _state_in_history(self, session_id: str) -> AgentState:
        """The state that the agent had reported by the end of the history."""
        try:
            where = {"before_seq": self.history.last_seq + 1, "limit": LOOKED_BACK, "max_bytes": LOOKED_BACK_BYTES}
            page = await self.store.read(**where)
        except HistoryUnreadable as error:
            logger.warning("%s: its agent's last report is not known: %s", self.id, error)
            return AgentState()
        lines = records.agent_lines(record.line for record in page.records)
        return await asyncio.to_thread(self._last_state, lines, session_id)

    def _with_choices(self, state: AgentState) -> AgentState:
        """``state`` with what people chose for the next run."""
        return state

    @abstractmethod
    def _last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        """The state that the agent had reported by the end of ``lines``, its lines in the history. Called in a
        thread."""

    @final
    def _report_state(self, state: AgentState) -> None:
        """Publishes what the agent reports about itself, if it has changed."""
        if state != self._agent_state:
            self._agent_state = state
            self.store.announce(StateReported(state))

    def _waiting_runs(self) -> list[RunInfo]:
        """The runs in the queue, the next one first."""
        return []

    @abstractmethod
    def _approval_closed(self, approval: PendingApproval, asked_by: Asker | None = None) -> None:
        """Called when an approval request is no longer open. ``asked_by``: the asker that delivers its decision to
        the agent; None if it was withdrawn.
        """

    # State for clients.

    @final
    def info(self) -> messages.ProjectInfo:
        """The session in lists. Built again only if it has changed since the last call, so that a list of many sessions
        does not delay the event loop."""
        # A thread may change the history in the meantime. The next call then sees another state, and builds it again.
        now = (self.store.changes, *self._changes_silently())
        if self._listed is None or self._listed[0] != now:
            self._listed = (now, project_info(self.summary()))
        return self._listed[1]

    def _changes_silently(self) -> tuple[object, ...]:
        """What shows that ``summary`` has changed without an event and without being saved: threads delete old records
        or find damaged ones, and a title may come from older records."""
        return (self.history.count, self.data.recorded.title)

    @final
    def shown(self) -> messages.ProjectState:
        return project_state(self.summary())

    @final
    def snapshot(self) -> messages.ProjectJoined:
        """The whole state at this moment. A client that has it and the records after ``last_seq`` is up to date. Large
        approval requests are shortened to previews, so that all of them fit into one message.
        """
        run, queue = self._current_run(), self._waiting_runs()
        without = project_joined(self.summary(), run=run, queue=queue, open_approvals=[], **self._of_agent())
        room = messages.FRAME_BYTES - ROOM - len(msgspec.json.encode(without))
        return msgspec.structs.replace(without, open_approvals=self.approvals.shown(room))

    @final
    def unrecorded(self) -> tuple[Event, ...]:
        """The state that clients see and that is not in the history, as the events that publish it. The result always
        contains the same kinds of events in the same order, so that two results can be compared."""
        of_agent = self._of_agent()
        return (
            StateChanged(self.summary()),
            QueueChanged(tuple(self._waiting_runs())),
            StateReported(of_agent.get("agent_state") or AgentState()),
            OffersReported(of_agent.get("agent_offers") or AgentOffers()),
        )

    @final
    def publish_state(self) -> None:
        """Sends ``update/project_state`` to the session's clients and to clients that follow all projects. The event is
        not recorded."""
        if self._holds_state:
            return
        self.store.announce(StateChanged(self.summary()))

    @final
    def summary(self) -> SessionSummary:
        """The session's state at this moment."""
        run = self._current_run()
        return SessionSummary(
            id=self.id,
            path=self.data.path,
            session_id=self.recorded.session_id,
            agent=self.data.agent,
            created_at=self.data.created_at,
            last_active=self.data.last_active,
            message_count=self.history.count,
            last_seq=self.history.last_seq,
            approvals=self.approvals.waiting(),
            first_message_time=instant(self.history.first_time),
            last_message_time=instant(self.history.last_time),
            state=self.state,
            title=self.title,
            review=self.data.review,
            run_id=run.run_id if run else None,
            queued=len(self._waiting_runs()),
            **self._details(),
        )

    @final
    def rename(self, key: str, name: str, sender: Subscriber) -> Answer[messages.SessionRenamed]:
        """Gives one of the session's conversations a name, or removes its name if ``name`` is empty. Raises
        ``DrawbridgeError`` if the record can't be written, and ``ClientError`` if the session was deleted."""
        renamed = SessionRenamed(key, " ".join(clean(name).split()), sender.name)
        seq = self.store.write(renamed, sender)
        self.store.save()
        answer = answered(renamed, messages.SessionRenamed, self.id, seq)
        return msgspec.structs.replace(answer, then=self.publish_state)

    # Ends of approval requests.

    @final
    async def decide(
        self, approval: PendingApproval, decision: Decision, by: Surface, at: Asker | None = None
    ) -> Answer[messages.PermissionResolved]:
        """Decides on an approval request, for every surface. Only the first decision counts. If the owner's limits allow
        it, it is recorded, sent to the agent, reported on the other surfaces, and audited. ``at``: the asker that
        delivers the decision itself, if the decision was made there. Raises ``ClientError``.
        """
        await self._check_allowed(approval, decision)
        answer, asked_by = self.approvals.decide(approval, decision, by, at)
        self._approval_closed(approval, asked_by)
        self.audit(approval, decision, by)
        return answer

    @final
    def audit(self, approval: PendingApproval, decision: Decision, by: Surface) -> None:
        """Publishes a decision on an approval request for the audit log, once the agent follows it."""
        self.store.audit(
            Answered(
                by.audited,
                approval.request,
                "allow" if decision.allow else "deny",
                remember=decision.remember,
                changed=decision.updated_input is not None,
            )
        )

    async def _check_allowed(self, approval: PendingApproval, decision: Decision) -> None:
        """Raises ``ClientError`` (PERMISSION_DENIED) if the owner's limits do not allow the decision."""
        if not decision.allow:
            return
        ceilings, usable = self._grants.ceilings, self._grants.directories.usable
        check = partial(check_allowed, ceilings, approval.call, decision.remember, usable)
        if decision.remember:  # what is remembered may include directories
            await asyncio.to_thread(check)
        else:
            check()

    @final
    def withdraw(self, approval: PendingApproval, reason: str) -> None:
        """Withdraws the request for ``reason``, which clients see. Has no effect on a request that is not open."""
        if self.approvals.withdraw(approval, reason):
            self._approval_closed(approval)

    def withdraw_all(self, reason: str) -> None:
        """Withdraws all open approval requests."""
        for approval in self.approvals:
            self.withdraw(approval, reason)


class SessionStore:
    """Records and publishes events, and saves the metadata in ``directory``."""

    def __init__(
        self, directory: Path, data: metadata.Metadata, history: History, context: SessionContext, disk: Disk
    ) -> None:
        self.data = data
        self.history = history
        self._directory = directory
        self._path = Path(data.path)
        self.was_interrupted = False
        """Whether the end of the last server ended a run."""
        self.changes = 0
        """The number of times that the session may have changed: every event, and every time that its metadata was
        saved."""
        self._context = context
        self._disk = disk
        self._is_removed = False

    @property
    def recorded(self) -> RecordedState:
        return self.data.recorded

    @property
    def closed(self) -> bool:
        """Whether the session was deleted, or the server is shutting down."""
        return self.history.closed

    @property
    def review(self) -> ReviewNumbers | None:
        """The numbers of undecided changes in the review, for lists of sessions; None if they are not known."""
        return self.data.review

    @property
    def last_seq(self) -> int:
        """The number of the last record of the history; 0 before the first."""
        return self.history.last_seq

    @property
    def subject(self) -> str:
        """Returns the subject to propose for a commit message."""
        return self.recorded.subject

    def has_room(self, more: int) -> bool:
        """Whether the owner's limits leave room for this many more bytes from an agent."""
        return self._disk.refusal(self.data.id, more) is None

    def removed(self) -> None:
        """Called before the session is closed because it was deleted, or removed from the list."""
        self._is_removed = True

    def check_there(self) -> None:
        """Raises ``ClientError`` if the session has been deleted, or the server is shutting down."""
        if self.history.closed:
            raise no_project() if self._is_removed else shutting_down()

    def append(self, event: Recorded, sender: str = "", *, quiet: bool = False) -> Stored:
        """Writes the event, without publishing it. Raises ``BadMessage``, ``HistoryNotWritten``, or ``ClientError`` if
        the session is closed, without changing anything."""
        self.check_there()
        self.changes += 1
        direction, message = records.written(event)
        record = self.history.append(direction, message, is_json=records.is_json(event))
        if isinstance(event, AgentLine):  # most records are lines, which change only the number
            self.recorded.seq = record.seq
        else:
            self.recorded.apply(event, record.time, record.seq)
        return Stored(
            self.data.id,
            self._path,
            event,
            sender,
            quiet,
            seq=record.seq,
            timestamp=timestamp(record),
        )

    def write(self, event: Recorded, sender: Subscriber | None = None) -> int | None:
        """Appends and publishes the event. Returns the record's number for the answer to ``sender``, which reports the
        event; None if ``sender`` is catching up and is sent the record in its turn. Raises the same errors as
        ``append``.
        """
        return self.publish(self.append(event, sender.id if sender is not None else ""))

    def record(self, event: Recorded, sender: Subscriber | None = None, *, quiet: bool = False) -> int | None:
        """Like ``write``, but if the history can't be written, that is only logged. The event is then published without
        a number, and None is returned. Raises ``ClientError`` if the session is closed."""
        try:
            stored = self.append(event, sender.id if sender is not None else "", quiet=quiet)
        except DrawbridgeError as error:
            logger.error("%s: %s was not recorded: %s", self.data.id, _name(event), error)
            moment = datetime.now(UTC)
            self.recorded.apply(event, moment)
            self.announce(event, sender, quiet=quiet, moment=moment)
            return None
        return self.publish(stored)

    def publish(self, stored: Stored) -> int | None:
        """Publishes an event that ``append`` has written, and then the warnings about the disk that follow from its
        size. Returns what ``write`` returns."""
        self._context.publish(stored)
        self._disk.set_size(self.data.id, self.data.path, self.history.size)
        sender = stored.sender
        return None if sender and self._context.audience.is_catching_up(self.data.id, sender) else stored.seq

    def announce(
        self, event: Event, sender: Subscriber | None = None, *, quiet: bool = False, moment: datetime | None = None
    ) -> None:
        """Publishes an event that is not part of the history, unless the session was closed. ``moment``: when it
        happened, for an event that could not be written."""
        self.changes += 1
        if not self.history.closed:
            asked_by = sender.id if sender is not None else ""
            self._context.publish(Announced(self.data.id, self._path, event, asked_by, quiet, instant(moment)))

    def audit(self, event: Audited, removed: str = "") -> None:
        """Publishes an event for the audit log, even if the session was closed in the meantime. ``removed``: the id of the
        session that the event belongs to, if it is another one in the same directory that was removed."""
        self._context.publish(Announced(removed or self.data.id, self._path, event))

    async def read(self, **where: Any) -> Page:
        """Like ``History.read``, in a thread. Raises ``ClientError`` if the session has been deleted in the
        meantime."""
        try:
            return await asyncio.to_thread(self.history.read, **where)
        except HistoryUnreadable:
            self.check_there()
            raise

    def save(self) -> None:
        self.changes += 1
        self.data.session_id = self.recorded.session_id
        try:
            metadata.save(self._directory, self.data)
        except (DrawbridgeError, OSError) as error:
            logger.error("%s: its metadata can't be written: %s", self.data.id, error)

    def review_is(self, numbers: ReviewNumbers) -> None:
        """Stores the numbers of undecided changes in the review, so that lists of sessions show them even after a
        restart."""
        self.data.review = numbers
        if not self.closed:
            self.save()

    def shares_review(self, other: SessionStore) -> None:
        """Takes over the review's counts from another terminal session in the same directory, since all terminal
        sessions in a directory share one review."""
        self.data.review = other.data.review

    def catch_up(self) -> None:
        """After a restart, updates the state with the records that the metadata does not cover yet."""
        for record in self.history.after(self.recorded.seq):
            try:
                seq, moment, event = records.read(record.line)
            except records.NOT_OURS:
                logger.warning(
                    "%s: record %d of its history is damaged, or was not written by Drawbridge; it was skipped",
                    self.data.id,
                    record.seq,
                )
            else:
                self.recorded.apply(event, moment, seq)

    async def count_usage(self) -> None:
        """Counts the runs in a history that was written by an earlier version."""
        since = datetime.now(UTC) - timedelta(days=DAYS_KEPT)
        days: dict[str, Day] = {}
        after, more = 0, True
        while more or after < self.recorded.seq:
            newest = self.recorded.seq
            page = await self.read(after_seq=after, since=since, limit=COUNTED_AT_ONCE)
            await asyncio.to_thread(_count, page, days)
            more = page.has_more
            after = page.records[-1].seq if more else newest
        # Nothing has been added to the history since the last page was read.
        self.recorded.usage, self.recorded.usage_complete = days, True
        self.save()

    def recover(self, still_open: Collection[str] = (), continues: str | None = None) -> None:
        """Like ``catch_up``, but also ends what was active, except for the approval requests ``still_open``, their
        runs, and the run ``continues``. Nothing is published, because no client has joined yet, and this may run in a
        thread.
        """
        self.catch_up()
        still_active = {continues, *(self.recorded.approvals.get(approval_id) for approval_id in still_open)}
        over: list[Recorded] = [
            PermissionWithdrawn(approval_id, "the server was restarted")
            for approval_id in self.recorded.approvals
            if approval_id not in still_open
        ]
        over += [
            RunFinished(run_id=run_id, outcome="interrupted", duration_ms=0)
            for run_id in self.recorded.unfinished
            if run_id not in still_active
        ]
        for event in over:
            try:
                self.append(event)
            except DrawbridgeError as error:
                logger.error("%s: %s was not recorded: %s", self.data.id, _name(event), error)
                self.recorded.apply(event, datetime.now(UTC))
        self.was_interrupted = any(isinstance(event, RunFinished) for event in over)
        self.recorded.last_outcome = None
        if over:
            self.save()


def _count(page: Page, days: dict[str, Day]) -> None:
    for record in page.records:
        if FINISHED in record.line:
            with contextlib.suppress(*records.NOT_OURS):
                _, moment, event = records.read(record.line)
                if isinstance(event, RunFinished):
                    count_run(days, day_of(moment), event)


def _name(event: Recorded) -> str:
    """The name of an event in the server's log."""
    kind = records.KINDS.get(type(event))
    return kind.subtype if kind else type(event).__name__


class Sessions:
    """All sessions of the server by their ids. Iterates over the managed sessions first, then over the terminal
    sessions, each kind in the order in which they were added.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.writing = Writing()
        """Where the server writes files for users' decisions."""
        self._managed: dict[str, Session] = {}
        self._terminal: dict[str, Session] = {}
        self._tasks = BackgroundTasks(logger)

    def __iter__(self) -> Iterator[Session]:
        """Iterates over a copy, because sessions may be added or removed during the iteration, even by another
        thread."""
        return iter([*self._managed.values(), *self._terminal.values()])

    def _of_kind(self, id: str) -> dict[str, Session]:
        return self._terminal if id.startswith(TERMINAL_PREFIX) else self._managed

    def find(self, id: str) -> Session | None:
        return self._of_kind(id).get(id)

    def get(self, id: str) -> Session:
        """The session with this id. Raises ``ClientError`` if it does not exist."""
        session = self.find(id)
        if session is None:
            raise no_terminal_session() if id.startswith(TERMINAL_PREFIX) else no_project()
        return session

    def add(self, session: Session) -> None:
        self._of_kind(session.id)[session.id] = session
        self._disk.set_size(session.id, str(session.path), session.history.size)

    def remove(self, session: Session) -> None:
        """Removes the session from the list. Another session may get its id later."""
        del self._of_kind(session.id)[session.id]
        self._disk.remove(session.id)

    def are_working(self, directory: Path, leads_to: Callable[[Path], Path]) -> bool:
        """Whether an agent, in a terminal or run by the server, is working in this directory (a canonical path) or in a
        directory inside it. ``leads_to``: see ``AllowedDirectories.leads_to``."""
        return any(
            session.state == "EXECUTING" and leads_to(session.path).is_relative_to(directory) for session in self
        )

    def rebuild(self) -> None:
        """Rebuilds the lost indexes of all histories in the background."""
        histories = [session.history for session in self]
        self._tasks.start(rebuild(histories), "building the indexes of histories")

    async def close(self) -> None:
        """Stops the rebuilding of indexes. ``Projects`` and ``TerminalSessions`` close the sessions."""
        await self._tasks.close()


def working_here() -> ClientError:
    """The error for a command that would change files with which an agent is working."""
    text = "An agent is working in this directory. Try again when it has finished."
    return ClientError("PROCESS_ACTIVE", text, retryable=True)


def no_terminal_session() -> ClientError:
    text = "This terminal session does not exist. It may have been removed from the list."
    return ClientError("PROJECT_NOT_FOUND", text, field="project_id")


def in_terminal() -> ClientError:
    """The error for a command that only managed sessions support."""
    text = "This agent was started in a terminal and is controlled there, so it does not support this."
    return ClientError("NOT_SUPPORTED", text)
