"""A terminal session. Its state is derived from what the agent's hooks report and from the agent's transcript.

The server does not start or stop the agent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from drawbridge.agents.base import AgentLine, AgentState, Options, Proposal
from drawbridge.agents.modes import BYPASS
from drawbridge.agents.terminal import (
    ONLY_IN_EDITOR,
    AskingAgent,
    Context,
    Entry,
    HookEvent,
    Message,
    Mode,
    ProcessState,
    Prompt,
    TerminalAgent,
    TerminalReports,
)
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import write_private
from drawbridge.server import events
from drawbridge.server.approvals.pending import Asker, PendingApproval
from drawbridge.server.events import ApprovalRequested, PromptAccepted
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.frames import Subscriber
from drawbridge.server.protocol.messages import ASKS_NOTHING, TERMINAL_NAME
from drawbridge.server.protocol.replies import Review
from drawbridge.server.reviews.decisions import RequestedDecision
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import SessionContext
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.metadata import instant, now
from drawbridge.server.sessions.options.grants import Grants
from drawbridge.server.sessions.session import SHOWN_PROMPT, Session
from drawbridge.server.store.log import History
from drawbridge.server.store.records import written
from drawbridge.server.terminal_sessions.approval_requests import ApprovalRequests
from drawbridge.server.terminal_sessions.continuation import Continuation, age_of_run, continuation, finished_runs
from drawbridge.server.terminal_sessions.conversation_file import Portion
from drawbridge.server.terminal_sessions.dialog import EndedCall, json_object
from drawbridge.server.terminal_sessions.directories import ReviewedDirectory
from drawbridge.server.terminal_sessions.facts import FACTS_FILE, Facts
from drawbridge.server.terminal_sessions.handover import HANDS_OVER, Handover
from drawbridge.server.terminal_sessions.processes import Processes
from drawbridge.server.terminal_sessions.prompts import (
    Prompts,
    Terminals,
)
from drawbridge.server.terminal_sessions.questions import (
    ENDED,
    Questions,
    question_of,
)
from drawbridge.server.terminal_sessions.reports import (
    Barrier,
    Disconnected,
    HookReport,
    ProcessCheck,
    QuestionReport,
    Report,
    ReturnTimeOver,
)
from drawbridge.server.terminal_sessions.shared_comments import LeftComments
from drawbridge.server.terminal_sessions.shown_proposals import ShownProposals
from drawbridge.server.terminal_sessions.texts_read_ahead import TextsReadAhead
from drawbridge.server.terminal_sessions.turns import (
    Change,
    EarlierPromptFound,
    EverythingEnded,
    MainAgentStopped,
    OnlyRunning,
    PromptBegun,
    PromptFound,
    RunBegun,
    RunFinished,
    StoredTurns,
    SubagentStopped,
    Turns,
)
from drawbridge.server.terminal_sessions.work_place import WorkPlace

logger = logging.getLogger("drawbridge.server")

UNKNOWN_MODE: Final = (
    "Not sent: the agent's permission mode is not known yet, and may be one that the owner does not allow. "
    "Send the next prompt in the terminal, or fork the session."
)

NO_MODE: Final = (
    "The comments can't be passed to this agent: it does not report its permission mode, which may be one that the owner "
    "does not allow. Copy them into its terminal, or ask the owner to restart the server with --allow-skip-permissions."
)

MAY_BEGIN: Final = ("UserPromptSubmit", "PreToolUse")
"""Events that can be the first of a run. A tool call can be the first, because no hook reports a queued prompt when its
run begins."""

MOVE_CHECKS: Final = 3
"""The number of checks that wait for the successor of a session that was moved to the background. After these checks,
the session ends without naming its successor."""


class Past(Struct, frozen=True):
    """What the history contains about the time before a restart. ``age``: of the active run, in seconds; 0 if there is
    none. ``finished``: the latest runs that have ended."""

    found: Continuation
    age: float
    finished: list[str]


class TerminalSession(Session):
    """A terminal session. ``directory`` contains its metadata, its ``Facts`` and its history."""

    def __init__(
        self,
        directory: Path,
        data: metadata.Metadata,
        history: History,
        context: SessionContext,
        disk: Disk,
        grants: Grants,
        facts: Facts,
        terminals: Terminals,
        shown: ShownProposals,
        reviewed: ReviewedDirectory,
        terminal_agent: TerminalAgent | None,
        beginning_with: Callable[[str], str | None],
    ) -> None:
        """``facts``: what was stored before a restart. ``terminals``: the terminals of connected editors, and
        ``shown``: the proposals that they show. ``reviewed``: the directory in which the agent works.
        ``terminal_agent``: the agent; None if its hooks are not supported. ``beginning_with``: returns the id of the
        terminal session for which the agent's own session id begins with the given prefix, if any."""
        super().__init__(directory, data, history, context, disk, grants)
        self._shown = shown
        self._beginning_with = beginning_with
        self._moved = ("", 0)
        """The beginning of the id of the session to which the conversation was moved, and the number of checks that
        have found this.
        """
        self.terminal_agent = terminal_agent
        """The agent with its hooks and its transcript; None if it is known only from its proposals."""
        self.agent: AskingAgent = ONLY_IN_EDITOR if terminal_agent is None else terminal_agent
        self.recorded.shares_comments = True
        self.reviewed = reviewed
        self.checkpoints = reviewed.checkpoints
        self.recovery = reviewed.recovery
        self.processes = Processes(facts)
        self.turns = Turns(self.agent, time.monotonic, facts.past)
        self._stored = msgspec.convert(facts, StoredTurns, from_attributes=True)
        """The facts about the turns, as they were last stored."""
        self._texts = TextsReadAhead()
        self._place = WorkPlace(self.path)
        self.questions = Questions(
            self.agent, str(self.path), self._texts.of, time.monotonic, is_unattended=facts.is_unattended
        )
        self._was_unattended = facts.is_unattended
        """``is_unattended`` of ``Facts``, as it was last stored."""
        self.requests = ApprovalRequests(self, context.audience)
        self.ended = facts.ended
        self.continued_in = facts.continued_in
        """The id of the session that continues this one, if the user has moved this one to the background; None if the
        user has not, or if that id is not known."""
        self.directory = directory
        self._is_closed = False
        """Whether the session was closed. Changes to its state are then no longer saved for the next start of the
        server."""
        self._about: TerminalReports | None = None
        """The agent's reports about itself in its conversation's file; None until the first line has been read."""
        self.prompts = Prompts(self, terminals, facts.sent, self.save)
        self.handover = Handover(self, reviewed.comments)

    # State for clients.

    @property
    def state(self) -> messages.State:
        return "IDLE" if self.turns.current is None else "EXECUTING"

    @property
    def phase(self) -> events.TerminalState:
        """The agent's activity, as clients show it for a terminal session."""
        if self.ended:
            return "ended"
        if self.approvals or self.questions.asks_in_terminal:
            return "waiting"
        return "finished" if self.turns.current is None and not self.turns.running else "working"

    @property
    def pid(self) -> int | None:
        """The PID of the agent's process that reported last; None if it is not known."""
        return self.processes.latest.pid

    @property
    def in_background(self) -> bool:
        """Whether the agent's daemon hosts the session, which then does not have its own terminal."""
        return self.processes.latest.background

    @property
    def permission_mode(self) -> str | None:
        """The agent's permission mode, possibly from before a restart; None if it is not known."""
        return self.processes.latest.permission_mode

    def _set_mode(self, pid: int | None, mode: str | None) -> None:
        """Sets the mode as ``Processes.set_mode`` does, and saves it immediately, because prompts depend on it."""
        if self.processes.set_mode(pid, mode):
            self.save()

    def started_in(self, pid: int, mode: str | None) -> None:
        """Sets the mode in which the agent's process was started, unless the process has reported one since."""
        if self.processes.needs_mode(pid):
            self._set_mode(pid, mode)
            self.publish_state()

    @property
    def resting(self) -> bool:
        """Whether the agent waits for the next prompt. Its background tasks may still be running."""
        return self.turns.is_resting

    def is_using(self, session_id: str) -> bool:
        alive = not self.ended and (self.pid is None or self.is_open)
        return alive and self.recorded.session_id == session_id

    @property
    def is_open(self) -> bool:
        """Whether a known process has the conversation open."""
        return not self.ended and bool(self.processes.alive)

    def _details(self) -> dict[str, Any]:
        mode = self.permission_mode
        return {
            "terminal": events.TerminalStatus(
                state=self.phase,
                permission_mode=mode,
                asks=mode not in ASKS_NOTHING,
                prompts=self.prompts.possible,
                in_terminal=self.questions.asks_in_terminal and not self.ended,
                background_tasks=self.turns.running if self.resting and not self.ended else 0,
                background=self.in_background,
                continued_in=self.continued_in,
            ),
        }

    def _current_run(self) -> events.RunInfo | None:
        turn = self.turns.current
        if turn is None:
            return None
        return events.RunInfo(
            run_id=turn.id,
            position=0,
            prompt=turn.prompt[:SHOWN_PROMPT],
            started_at=instant(datetime.now(UTC) - timedelta(seconds=turn.age)),
            cut=len(turn.prompt) > SHOWN_PROMPT,
        )

    async def review(self) -> Answer[Review]:
        return await self.reviewed.review(self.id)

    def review_is_gone(self) -> None:
        self.reviewed.review_is_gone()

    def directory_examined(self) -> None:
        self.reviewed.directory_examined(self._grants.directories.last_problem(self.path))

    async def refresh_review(self) -> None:
        await self.reviewed.refresh()

    async def review_image(self, blob: str, largest: int) -> bytes:
        return await self.reviewed.image(blob, largest)

    async def decide_review(self, wanted: RequestedDecision, sender: Subscriber) -> Answer[Review]:
        return await self.reviewed.decide(wanted, sender, self.id)

    async def commit_review(
        self, command: commands.ReviewCommit, sender: Subscriber
    ) -> Answer[messages.ReviewCommitted]:
        return await self.reviewed.commit(command, sender, self.id)

    async def push_review(self, command: commands.ReviewPush, sender: Subscriber) -> Answer[messages.ReviewPushed]:
        return await self.reviewed.push(command, sender, self.id)

    async def comment(self, command: commands.ReviewComment, sender: Subscriber) -> Answer[messages.ReviewCommented]:
        self._disk.check(self.id)
        return await self.reviewed.comment(command, sender, self.id)

    @property
    def forks(self) -> bool:
        agent = self._grants.agents.get(self.data.agent)
        return agent is not None and agent.forks

    def is_working_on(self, turn: str) -> bool:
        return self.turns.current is not None and self.turns.current.has(turn)

    def within_limits(self, mode: str | None = None) -> bool:
        """Whether a client could have started a run in this agent's mode. ``mode``: the mode that the agent reports
        now; None for the last one that it reported. If a client could not have started one, returns False or raises
        ``ClientError`` with the reason."""
        mode = mode or self.permission_mode
        if mode is None and not self._grants.ceilings.skip_permissions:
            raise ClientError("PERMISSION_DENIED", UNKNOWN_MODE if self.agent.reports_mode else NO_MODE)
        problem = self._grants.directories.last_problem(self.path)
        if problem is not None:
            raise ClientError("INVALID_PATH", problem)
        asked = Options(permission_mode=mode or BYPASS)
        granted = self._grants.granted(str(self.path), asked)
        return self._grants.within(asked, self.data.agent) == granted

    def submitted(self, review: events.Submission, turn: str, by: str) -> None:
        self.reviewed.submitted(review, turn, by)

    def _approval_closed(self, approval: PendingApproval, asked_by: Asker | None = None) -> None:
        self.requests.closed(approval, asked_by)

    # Reports.

    async def read_decided(self) -> None:
        """Reads the files that clients have decided on, before something is processed that may show what the agent did
        with a decision."""
        paths = {one.request.proposal.path for one in self.questions.decided if one.request.proposal is not None}
        await self._texts.read(paths)

    async def examine_place(self, event: HookEvent) -> None:
        """Examines the directory in which the agent works according to this event, before the event is processed."""
        await self._place.examine(event.cwd)

    def process(self, report: Report) -> None:
        """Processes a report from the queue. Everything that precedes it has been processed."""
        match report:
            case HookReport(event, pid, handed):
                self._hook(event, pid, handed)
                if event.name in MAY_BEGIN:
                    self.reviewed.expect_nothing(self.id)
                if event.name in ("Stop", "StopFailure", "SessionEnd"):
                    self.save()
            case QuestionReport(event, asker, proposal, look):
                is_answered = self._shown.is_early(asker.pid, proposal)  # a decision that has to be audited
                if asker.is_gone and not is_answered and not self.questions.known(asker.known_as):
                    self._hook(event, asker.pid)  # nobody is waiting for an answer
                elif (approval := self._asked(event, asker, proposal, look)) is not None:
                    self._shown.join(self, approval, asker.pid, proposal)
            case Disconnected(asker):
                self.requests.disconnect(asker)
            case ReturnTimeOver():
                self._stop_waiting()
            case Barrier(done):
                done.set_result(None)
            case ProcessCheck(states):
                self._check(states)

    @property
    def checked_processes(self) -> set[int]:
        """The PIDs of the process that is working and the process that reported last, which receives prompts, if they
        are known. Empty while an approval request is open, because the agent waits for its answer."""
        if self.approvals:
            return set()
        turn = self.turns.current
        return {pid for pid in (self.pid, turn.process if turn is not None else None) if pid is not None}

    def _check(self, states: Mapping[int, ProcessState]) -> None:
        """Checks whether the agent is still running and still has this conversation open, because hooks do not always
        report that it has ended, or has left the conversation. ``states``: as in ``ProcessCheck``."""
        if self.pid is None or self.ended:
            return
        gone = self.processes.exited
        for pid in gone:
            self.leave(pid)
        if gone:
            self.save()
            return
        turn = self.turns.current
        working = states.get(turn.process) if turn is not None and turn.process is not None else None
        since = working.idle_since if working is not None else None
        changes = self.turns.check(None if since is None else time.time() - since)
        if changes:
            self._record(changes)
            self.changed()
        if self.resting and not self.in_background:
            for pid, state in states.items():
                if state.moved_to is not None:
                    self._follow_to_background(pid, state.moved_to)

    def _follow_to_background(self, pid: int, prefix: str) -> None:
        """Ends the part of the process ``pid`` in this session, because the user has moved the conversation to the
        background. Waits for the session that continues it under an id that begins with ``prefix``, for at most
        ``MOVE_CHECKS`` checks."""
        former, checks = self._moved
        if prefix == former and checks > MOVE_CHECKS:
            return
        self._moved = (prefix, checks + 1 if prefix == former else 1)
        successor = self._beginning_with(prefix)
        if successor is not None or self._moved[1] > MOVE_CHECKS:
            self._moved = (prefix, MOVE_CHECKS + 1)
            self.move(pid, successor)

    # Events from the agent's hooks.

    def expect(self, event: HookEvent) -> None:
        """Begins the checkpoint before a run if this event, which a hook reported, may begin a run. To be called
        before earlier reports are processed, because the checkpoint can't wait for them."""
        may_begin = event.name in MAY_BEGIN and event.turn and (event.name != "UserPromptSubmit" or not event.agent_id)
        follows = event.follows or event.name != "UserPromptSubmit"
        if may_begin and not (follows and self.reviewed.has_run(self.id)):
            self.reviewed.expect(self.id, event.turn)

    def _hook(self, event: HookEvent, pid: int | None, handed: LeftComments | None = None) -> None:
        """Processes a hook's event. The arguments are as in ``HookReport``."""
        self._note_hook(event, pid, handed)
        was_working = self.turns.current is not None
        self._note_place(event)
        match event.name:
            case "Stop" if handed is not None:
                self.turns.set_tasks(event, pid)
                self._continue_with(handed, pid)
            case "SessionEnd":
                self.leave(pid)
            case _:
                prompt = self.prompts.as_sent(event.prompt) if self.turns.begins(event) else ""
                if event.woken:  # the agent's program has written this prompt
                    prompt = handed.text if handed is not None else ""
                is_alone = event.name == "SessionStart" and not self.processes.beside(pid)
                self._record(self.turns.hook(event, pid, prompt=prompt, is_alone=is_alone))
        self._note_place(event)
        match event.name:
            case "PreToolUse" if was_working:
                self._save_if_changed()
                return
            case "PostToolUse" | "PostToolUseFailure":
                given = json_object(event.tool_input)
                call = EndedCall(event.call, event.tool_name, given, "ran", event.agent_id, as_run=True)
                self.requests.carry_out(self.questions.call_ended(call, self.requests.open))
            case "Notification" if event.asks_in_terminal:
                self.requests.carry_out(self.questions.noticed(pid, self.requests.open))
        self.changed()

    def _asked(
        self, event: HookEvent, asker: Asker, proposal: Proposal | None, look: ApprovalRequested | None
    ) -> PendingApproval | None:
        """Processes a question. Returns its approval request; None if it does not wait for an answer here. The arguments
        are as in ``QuestionReport``."""
        pid, agent = asker.pid, event.agent_id
        self._note_hook(event, pid)
        if self.questions.is_another(event, asker.known_as):
            asker.closed()
            return None
        if approval := self.reconnect(asker):
            return approval
        self._record(self.turns.hook(event, pid))
        if not self.agent.asks_people(self.permission_mode):
            asker.closed()
            return None
        question = question_of(event, proposal, str(self.path), changeable=self.agent.accepts_changed_input)
        if not self.agent.hides_dialog(question.asked_by):  # if the dialog is hidden, several dialogs can wait
            self.questions.continued(agent, pid)
        return self.requests.ask(question, asker, look)

    def _note_hook(self, event: HookEvent, pid: int | None, handed: LeftComments | None = None) -> None:
        """Updates what every hook of a process reveals: the process's permission mode, and that it has the conversation
        open.
        """
        if event.is_new_process and not event.permission_mode and self.processes.forget_mode(pid):
            # The conversation's file still contains the mode of the previous process.
            self.save()
        self._set_mode(pid, event.permission_mode)
        if handed is None and event.name in HANDS_OVER:
            self.handover.settle()
        if event.name not in ("SessionEnd", "Notification"):
            self._reopen()

    def _note_place(self, event: HookEvent) -> None:
        """Passes on where the agent works in the current run, if there is one."""
        # A conversation can be opened in another directory before its earlier run counts as ended.
        turn = self.turns.current if event.name != "SessionStart" else None
        place = self._place.of_run(turn.id, event.cwd) if turn is not None else None
        if place is not None:
            self.reviewed.set_elsewhere(place)

    def _reopen(self) -> None:
        """Reopens a session that had ended, because a process has the conversation open."""
        if self.ended:
            self.ended, self.continued_in = False, None
            self.save()

    def leave(self, pid: int | None, outcome: events.Outcome = "interrupted", *, quiet: bool = False) -> None:
        """Removes a process that has ended or has closed the conversation. Another terminal may still have it open.
        ``outcome`` and ``quiet`` apply to its run, as in ``RunFinished``."""
        if pid is None or not self.processes.beside(pid):
            self._end("interrupted", pid)
            return
        self.processes.remove(pid)
        self.requests.carry_out(self.questions.left(pid, self.requests.open))
        self._record(self.turns.leave(pid, outcome, quiet=quiet))
        self.changed()

    def end(self) -> None:
        """Ends the session, because its bridge has disconnected."""
        self._end("interrupted", None)

    def move(self, pid: int, continued_in: str | None) -> None:
        """Removes the process ``pid``, because the user has moved its conversation to the background. ``continued_in``:
        the session that continues it there, under another id; None if it is not known."""
        if self.processes.beside(pid):  # another terminal has it open
            self.leave(pid, "completed", quiet=True)
            self.save()
        elif not self.ended:
            self._end("completed", pid, quiet=True, continued_in=continued_in)

    def _end(
        self, outcome: events.Outcome, pid: int | None, *, quiet: bool = False, continued_in: str | None = None
    ) -> None:
        """Ends the session, because no process has the conversation open. ``pid``: the process that had it open until
        now."""
        self.processes.only_latest()
        self.handover.end()
        self._record(self.turns.end(outcome, pid, quiet=quiet))
        self.ended, self.continued_in = True, continued_in
        self.save()
        self.changed()

    def _continue_with(self, handed: LeftComments, pid: int | None) -> None:
        """Begins the run with which the agent continues after it has stopped."""
        self._record(self.turns.begin_after_stop(handed.run, handed.turn, handed.text, pid))
        self.reviewed.expect_nothing(self.id)

    # Effects of reports.

    def _record(self, changes: Iterable[Change]) -> None:
        """Records what has changed about the turns, and closes the questions that nobody is waiting for now."""
        for change in changes:
            match change:
                case RunBegun(run):
                    self.reviewed.set_run(self.id, run)
                    self.store.record(events.RunStarted(run, self.data.recorded.session_id, self.data.agent))
                case RunFinished(run, outcome, seconds, quiet, error, code):
                    self.reviewed.set_run(self.id, None)
                    milliseconds = int(seconds * 1000)
                    finished = events.RunFinished(
                        run_id=run, outcome=outcome, duration_ms=milliseconds, error=error, code=code
                    )
                    self.store.record(finished, quiet=quiet)
                case PromptBegun(turn, prompt):
                    self.prompts.begun(turn, prompt)
                case PromptFound(entry, run):
                    self._keep(self.prompts.found(entry, run))
                    self.prompts.recorded(entry, run)
                case EarlierPromptFound(entry, run):
                    self._keep(PromptAccepted(run, entry.text, TERMINAL_NAME, uuid=entry.uuid))
                    over = events.RunFinished(run_id=run, outcome="completed", duration_ms=0)
                    self.store.record(over, quiet=True)
                case MainAgentStopped(pid):
                    others = self.processes.beside(pid) if self.approvals else []
                    is_only = not self.processes.has_others
                    self.requests.carry_out(
                        self.questions.main_stopped(pid, self.requests.open, others, is_only=is_only)
                    )
                case SubagentStopped(pid, agent):
                    self.questions.continued(agent, pid)
                case OnlyRunning(pid, tasks):
                    self.questions.only_running(tasks, pid)
                case EverythingEnded():
                    self.withdraw_all(ENDED)
                    self.questions.forget_all()

    def save(self) -> None:
        """Saves the facts and the metadata, unless the session is closed. A failure is only logged, because the agent
        has its own transcript."""
        if self._is_closed:
            return
        try:
            turns, is_unattended = self.turns.stored, self.questions.is_unattended
            facts = msgspec.structs.replace(
                self.processes.facts,
                sent=self.prompts.sent,
                ended=self.ended,
                continued_in=self.continued_in,
                is_unattended=is_unattended,
                **msgspec.structs.asdict(turns),
            )
            write_private(str(self.directory / FACTS_FILE), msgspec.json.encode(facts))
            self._stored, self._was_unattended = turns, is_unattended
        except DrawbridgeError as error:
            logger.error("%s: its state was not saved: %s", self.id, error)
        self.store.save()

    def _save_if_changed(self) -> None:
        """Saves the state that a restart needs, if any of it has changed: which process's run is active, what that
        process has left running, which runs are over, and whether clients answer questions."""
        if (self.turns.stored, self.questions.is_unattended) != (self._stored, self._was_unattended):
            self.save()

    # Recovery after a restart.

    def read_past(self) -> Past:
        """Reads what ``recover`` needs. Blocking. Raises ``HistoryUnreadable``."""
        self.store.catch_up()
        found = continuation(self.history, self.recorded, self.processes, self._stored.works, ended=self.ended)
        self.handover.load()
        age = 0.0 if found.run is None else age_of_run(self.history, found.run)
        return Past(found, age, finished_runs(self.history))  # including those that ended after the facts were saved

    def recover(self, past: Past) -> None:
        """Restores the state after a restart. What does not continue (see ``continuation``) counts as ended."""
        found, unfinished = past.found, list(self.recorded.unfinished)
        run, works = found.run, found.works
        self.processes.only_alive()
        self.store.recover([approval.id for approval in found.restored.approvals], run)
        if run is not None:
            self.turns.restore(run, past.age, self._stored, works)
        self.requests.restore(found.restored, works, run)
        self.turns.remember([*past.finished, *(one for one in unfinished if one not in self.recorded.unfinished)])
        self.ended = not found.is_open or (self.pid is None and not self.approvals)
        if run is not None:
            self.reviewed.continue_run(self.id, run)
            self._place.continues(run)
        if self.ended:
            self.handover.end()

    # Questions from hooks and bridges.

    def reconnect(self, asker: Asker) -> PendingApproval | None:
        """Returns the approval request for the question that ``asker`` reports, if it was asked before, and connects
        the two as ``ApprovalRequests.reconnect`` does. Returns None if the question is new."""
        approval = self.questions.known(asker.known_as)
        if approval is not None:
            self._reopen()
            self.requests.reconnect(approval, asker)
        return approval

    def _stop_waiting(self) -> None:
        """Stops waiting for hooks and bridges that have not reconnected since the restart."""
        has_missed = self.requests.stop_waiting()
        if self.pid is not None:
            self.turns.forget(None)
            self.questions.forget(None)
        if has_missed and self.pid is None and not self.approvals:
            self._record(self.turns.interrupt(None))
            self.ended = True
        self.changed()

    # Entries of the conversation's file.

    def read(self, portion: Portion) -> None:
        """Processes lines of the conversation's file."""
        self.turns.expect_prompt([entry for _, entries in portion.lines for entry in entries])
        for line, entries in portion.lines:
            for entry in entries:
                self.add_entry(entry, quiet=portion.quiet, late=portion.late)
            self._read_about(line)
        if portion.lines:
            self.publish_reports()

    def add_entry(self, entry: Entry, *, quiet: bool, late: bool = False) -> None:
        """Processes an entry. ``quiet`` and ``late``: as in ``Portion``. What another process adds later (the server, if it
        continues the conversation) is ignored, because the agent in this terminal does not know about it.
        """
        pid = self.processes.only
        match entry:
            case Mode(mode):
                if not self.processes.has_others:
                    self._set_mode(self.pid, mode)
                elif self.processes.doubt_modes(mode):  # each process reports its mode with its next hook
                    self.save()
                return
            case Context():
                self._handed(entry, pid)
                return
            case Prompt(foreign=True) | Message(foreign=True) if not quiet:
                return
            case Message():
                self._keep(AgentLine(entry.data, self.recorded.session_id))
                if not entry.foreign:
                    self.questions.called(entry.calls)
                    for result in entry.results:
                        self.requests.carry_out(self.questions.result(result, self.requests.open))
        prompt = self.prompts.as_sent(entry.text) if isinstance(entry, Prompt) else ""
        self._record(self.turns.entry(entry, pid, prompt=prompt, quiet=quiet, late=late))

    def _handed(self, entry: Context, pid: int | None) -> None:
        """Records the comments that a hook handed over to the agent, if this entry of the transcript contains
        them."""
        left = self.handover.confirmed(entry)
        if left is None:
            return
        if entry.event == "Stop":
            self._continue_with(left, pid)
        self._keep(self.handover.record(left, entry))
        self.submitted(left.review, left.run, left.by)

    def _read_about(self, line: bytes) -> None:
        """Reads what the agent reports about itself in this line of the conversation's file."""
        if self._about is None and self.terminal_agent is not None:
            self._about = self.terminal_agent.reports(self._agent_state)
        if self._about is not None:
            self._about.recorded(line)

    def _last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        return AgentState() if self.terminal_agent is None else self.terminal_agent.last_state(lines, session_id)

    def publish_reports(self) -> None:
        """Publishes the state after lines of the conversation's file were processed."""
        self._save_if_changed()
        self._publish_about()
        self.publish_state()

    def _publish_about(self) -> None:
        """Publishes what the agent reports about itself in its file, and its tasks according to the hooks."""
        state = self._agent_state if self._about is None else self._about.state
        self._report_state(msgspec.structs.replace(state, tasks=() if self.ended else self.turns.tasks))

    def _keep(self, event: AgentLine | PromptAccepted) -> None:
        if not self.store.has_room(len(written(event)[1])):
            return  # the limit for agents' data is reached, but the agent keeps its own transcript
        try:
            self.store.write(event)
        except DrawbridgeError as error:
            logger.error("%s: a line of the conversation can't be recorded: %s", self.id, error)

    def changed(self) -> None:
        """Saves and publishes the state after something was reported."""
        self.data.last_active = now()
        self.publish_reports()

    def close(self, reason: str) -> None:
        """Closes the session, except for its history, which accepts no more records. The agent continues. A question
        stays open if its hook or bridge will report it again. Other questions can then only be answered in the
        terminal.
        """
        self.requests.close(reason)
        self.prompts.close()
        self.approvals.release()
        self._save_if_changed()
        self._is_closed = True
        self.turns.close()
        self.store.save()
        self.history.end()
