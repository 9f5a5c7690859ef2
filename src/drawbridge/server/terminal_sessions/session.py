"""A terminal session: its state is derived from what the agent's hooks report and from the agent's transcript.

The server does not start or stop the agent.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from drawbridge.agents.base import AgentState, Options, Proposal, Question
from drawbridge.agents.modes import BYPASS
from drawbridge.agents.proposals import read_file
from drawbridge.agents.terminal import (
    ONLY_IN_EDITOR,
    AskingAgent,
    Call,
    Context,
    Entry,
    HookEvent,
    Message,
    Mode,
    Prompt,
    Task,
    TerminalAgent,
    TerminalReports,
    TurnOver,
)
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import write_private
from drawbridge.server.approvals.pending import PendingApproval, Surface
from drawbridge.server.events import AgentLine, PromptAccepted, written
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.client_errors import ClientError
from drawbridge.server.protocol.messages import (
    ASKS_NOTHING,
    TERMINAL_NAME,
    Answer,
    DeskInfo,
    DeskState,
    Subscriber,
)
from drawbridge.server.protocol.replies import Accepted, Review
from drawbridge.server.reviews.commenting import submission_key
from drawbridge.server.reviews.reviews import Wish
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.disk import Disk
from drawbridge.server.sessions.grants import Grants
from drawbridge.server.sessions.metadata import instant, now
from drawbridge.server.sessions.session import SHOWN_PROMPT, Session
from drawbridge.server.sessions.surfaces import Surfaces
from drawbridge.server.store.log import History
from drawbridge.server.terminal_sessions.activities import Activities, Activity
from drawbridge.server.terminal_sessions.carried import Carried, age_of_run, carried, finished_runs
from drawbridge.server.terminal_sessions.dialog import EndedCall, Latest, json_object
from drawbridge.server.terminal_sessions.directories import ReviewedDirectory
from drawbridge.server.terminal_sessions.facts import Facts
from drawbridge.server.terminal_sessions.handover import HANDS_OVER, Handover
from drawbridge.server.terminal_sessions.processes import Processes
from drawbridge.server.terminal_sessions.prompts import (
    HAS_ENDED,
    MAYBE_TYPED,
    Prompts,
    Sent,
    Terminals,
    same_words,
    typeable,
)
from drawbridge.server.terminal_sessions.questions import ENDED, Questions, is_main_of, question_of
from drawbridge.server.terminal_sessions.shared_comments import Left
from drawbridge.server.terminal_sessions.turn import Turn

logger = logging.getLogger("drawbridge.server")

LONGEST_ERROR = 500
"""The maximum length of a failed run's error text, in characters."""

UNKNOWN_MODE: Final = (
    "The prompt was not typed: the agent's permission mode is not known yet, and may be one that the owner does not allow. "
    "Send the next prompt in the terminal, or fork the session."
)

MAY_BEGIN: Final = ("UserPromptSubmit", "PreToolUse")
"""Events that can be the first of a run. A tool call can be the first, because no hook reports a queued prompt when its
run begins."""

COPIED: Final = "fork"
"""The ``source`` of a ``SessionStart`` if the session begins as a copy of another one."""

IDLE_SECONDS = 3.0
"""Seconds that the agent must have been waiting for a prompt before its run counts as over although its end was not
reported: a hook or the conversation's file would have reported it sooner."""


class TerminalSession(Session):
    """A terminal session. ``directory`` contains its metadata, its ``Facts`` and its history."""

    def __init__(
        self,
        directory: Path,
        data: metadata.Metadata,
        history: History,
        surfaces: Surfaces,
        disk: Disk,
        grants: Grants,
        facts: Facts,
        terminals: Terminals,
        reviewed: ReviewedDirectory,
        terminal_agent: TerminalAgent | None,
    ) -> None:
        """``facts``: what was stored before a restart. ``terminals``: the terminals of connected editors. ``reviewed``:
        the directory in which the agent works. ``terminal_agent``: the agent; None if its hooks are not
        supported."""
        super().__init__(directory, data, history, surfaces, disk)
        self.terminal_agent = terminal_agent
        """The agent with its hooks and its transcript; None if it is known only from its proposals."""
        self.agent: AskingAgent = ONLY_IN_EDITOR if terminal_agent is None else terminal_agent
        self._grants = grants
        self.memory.shares_comments = True
        self.reviewed = reviewed
        self.checkpoints = reviewed.checkpoints
        self.recovery = reviewed.recovery
        self.processes = Processes(facts)
        self._reporting: int | None = None
        """The PID of the process whose hook or line is being processed, if it is known."""
        self._stored = facts.works, facts.rests, facts.tasks, facts.turns
        """``works``, ``rests``, ``tasks`` and ``turns`` of ``Facts``, as they were last stored."""
        self._remembered = facts.past, facts.is_unattended
        """``past`` and ``is_unattended`` of ``Facts``, as they were last stored."""
        self.ended = facts.ended
        self.continued_in = facts.continued_in
        """The id of the session that continues this one, if the user has moved this one to the background; None if the
        user has not, or if that id is not known."""
        self.turn: Turn | None = None
        self.activities = Activities(self.agent, read_file)
        self.last_text = ""
        """The agent's latest text in this run; empty if a tool call or a result came with it or after it."""
        self.directory = directory
        self._is_closed = False
        """Whether the session was closed. Changes to its state are then no longer saved for the next start of the
        server."""
        self._carried_turn = ""
        """The id of the turn that was active at the last restart and continued after it; empty if there was none."""
        self._is_copy = False
        """Whether the conversation is a copy of another one, and its file has no new prompt yet."""
        self._copys_prompt = ""
        """The uuid of a copy's first new prompt, if it is among the entries that are processed next; otherwise
        empty."""
        self._past: Latest[str, None] = Latest()
        """The ids of the latest turns that are over."""
        for run in facts.past:
            self._past[run] = None
        self.questions = Questions(
            self,
            lambda: surfaces.audience.can_decide(self.id, self.path),
            is_unattended=facts.is_unattended,
        )
        self._calls: Latest[str, Call] = Latest()
        self._about: TerminalReports | None = None
        """What the agent reports about itself in its conversation's file; None until the first line has been read."""
        self.prompts = Prompts(self, terminals, facts.sent, self.save)
        self.handover = Handover(self, reviewed.comments)

    # What clients see.

    @property
    def state(self) -> messages.State:
        return "IDLE" if self.turn is None else "EXECUTING"

    @property
    def phase(self) -> DeskState:
        """What the agent is doing, as clients show it for a terminal session."""
        if self.ended:
            return "ended"
        if self.approvals or self.activities.asks_in_terminal:
            return "waiting"
        return "finished" if self.turn is None and not self.activities.running else "working"

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
        return self.turn is None or self.turn.resting is not None

    def is_using(self, session_id: str) -> bool:
        alive = not self.ended and (self.pid is None or self.is_open)
        return alive and self.memory.session_id == session_id

    @property
    def is_open(self) -> bool:
        """Whether a known process has the conversation open."""
        return not self.ended and bool(self.processes.alive)

    def _details(self) -> dict[str, Any]:
        mode = self.permission_mode
        return {
            "desk": DeskInfo(
                state=self.phase,
                permission_mode=mode,
                asks=mode not in ASKS_NOTHING,
                prompts=self.prompts.possible,
                in_terminal=self.activities.asks_in_terminal and not self.ended,
                background_tasks=self.activities.running if self.resting and not self.ended else 0,
                background=self.in_background,
                continued_in=self.continued_in,
            ),
        }

    def _current_run(self) -> messages.RunInfo | None:
        if self.turn is None:
            return None
        began = datetime.now(UTC) - timedelta(seconds=time.monotonic() - self.turn.began)
        prompt = self.turn.prompt[:SHOWN_PROMPT]
        return messages.RunInfo(
            run_id=self.turn.id,
            position=0,
            prompt=prompt,
            started_at=instant(began),
            cut=len(self.turn.prompt) > SHOWN_PROMPT,
        )

    async def review(self) -> Answer[Review]:
        return await self.reviewed.review(self.id)

    def review_is_gone(self) -> None:
        self.reviewed.review_is_gone()

    async def review_image(self, blob: str, largest: int) -> bytes:
        return await self.reviewed.image(blob, largest)

    async def decide_review(self, wish: Wish, asker: Subscriber) -> Answer[Review]:
        return await self.reviewed.decide(wish, asker, self.id)

    async def commit_review(
        self, command: commands.ReviewCommit, asker: Subscriber
    ) -> Answer[messages.ReviewCommitted]:
        return await self.reviewed.commit(command, asker, self.id)

    async def push_review(self, command: commands.ReviewPush, asker: Subscriber) -> Answer[messages.ReviewPushed]:
        return await self.reviewed.push(command, asker, self.id)

    async def comment(self, command: commands.ReviewComment, asker: Subscriber) -> Answer[messages.ReviewCommented]:
        self._disk.check(self.id)
        return await self.reviewed.comment(command, asker, self.id)

    async def submit_review(
        self, command: commands.ReviewSubmit, asker: Subscriber, allowed: Callable[[], bool]
    ) -> Answer[Accepted]:
        """Sends all drafts as one prompt to this session's agent, as ``Prompts.execute`` does, or leaves them with the
        session if nothing can be typed now. If neither is possible, the details of the error contain the prompt, so
        that the user can copy it. Raises ``ClientError``, ``NotPrivate``, ``NoCheckpoint``, ``GitFailed`` or
        OSError."""
        drafts, id, key = command.drafts, command.request_id, submission_key(command.drafts, command.text)
        await self.reviewed.sent()
        known = self.handover.known(id, key) or await self.prompts.known(id, key)
        if known is not None:
            return known
        placed = await self.reviewed.placed(drafts)
        await self.reviewed.sent()  # this request, or another one, may have sent them in the meantime
        known = self.handover.known(id, key) or await self.prompts.known(id, key)
        if known is not None:
            return known
        prompt, submission = self.reviewed.submission(placed, drafts, command.text)
        try:
            if self.ended:
                raise ClientError("NOT_SUPPORTED", HAS_ENDED)
            if not self.prompts.can_type:
                return self.handover.leave(prompt, submission, asker, id, allowed)
            sent = Sent(typeable(self.agent, prompt, "data.text"), asker.name, id, review=submission)
            sending = self.prompts.begin(sent, allowed)
            self.reviewed.sends(sending)
            return await self.prompts.accepted(sending)
        except ClientError as error:
            if error.code in MAYBE_TYPED:
                raise
            details = {**(error.details or {}), "prompt": prompt}
            raise ClientError(error.code, error.text, error.field, error.retryable, details) from None

    def is_working_on(self, turn: str) -> bool:
        return self.turn is not None and self.turn.has(turn)

    def within_limits(self, mode: str | None = None) -> bool:
        """Whether a client could have started a run in this agent's mode. ``mode``: the mode that the agent reports
        now; None for the last one that it has reported. If a client could not have started one, returns False or raises
        ``ClientError`` with the reason."""
        mode = mode or self.permission_mode
        if mode is None and not self._grants.ceilings.skip_permissions:
            raise ClientError("PERMISSION_DENIED", UNKNOWN_MODE)
        asked = Options(permission_mode=mode or BYPASS)
        is_usable = self._grants.places.last_problem(self.path) is None
        granted = self._grants.granted(str(self.path), asked)
        return is_usable and self._grants.within(asked, self.data.agent) == granted

    def submitted(self, review: messages.Submission, turn: str, by: str) -> None:
        self.reviewed.submitted(review, turn, by)

    # Decisions by clients and by the user in an editor. The user may answer in the agent's own dialog at the same
    # moment.

    def _approval_closed(self, approval: PendingApproval, asked_by: Surface | None = None) -> None:
        if self.questions.closed(approval, asked_by):
            self.changed()

    # What the agent's hooks report.

    def expect(self, event: HookEvent) -> None:
        """Begins the checkpoint before a run if this event, which a hook has reported, may begin a run. To be called
        before earlier reports are processed, because the checkpoint can't wait for them."""
        may_begin = event.name in MAY_BEGIN and event.turn and (event.name != "UserPromptSubmit" or not event.agent_id)
        follows = event.continues or event.name != "UserPromptSubmit"
        if may_begin and not (follows and self.reviewed.has_run(self.id)):
            self.reviewed.expect(self.id, event.turn)

    def apply(
        self,
        event: HookEvent,
        surface: Surface | None,
        proposal: Proposal | None,
        handed: Left | None = None,
        pid: int | None = None,
    ) -> PendingApproval | None:
        """Applies a hook's event. Returns the approval request if the event is a question that waits for an answer.
        ``surface``: the hook, if it waits for an answer. ``proposal``: the change that the question is about.
        ``handed``: the comments that the hook has handed over to the agent. ``pid``: the PID of the agent's process;
        ``surface``, if given, names it instead."""
        self._reporting = surface.pid if surface is not None else pid
        if event.is_new_process and not event.permission_mode and self.processes.forget_mode(self._reporting):
            # The conversation's file still contains the mode of the previous process.
            self.save()
        self._set_mode(self._reporting, event.permission_mode)
        agent, activity = event.agent_id, self._activity
        if handed is None and event.name in HANDS_OVER:
            self.handover.settle()
        if event.name not in ("SessionEnd", "Notification"):
            self._goes_on()
        if event.name == "SessionStart":
            self._is_copy = event.source == COPIED
        match event.name:
            case "SessionStart" if event.source not in ("compact", ""):
                if not self.processes.beside(pid):
                    self._over("completed", quiet=True)
            case "UserPromptSubmit" if agent is not None:  # a prompt for a subagent
                self._works(event)
            case "UserPromptSubmit" if event.turn not in self._past:
                follows = event.continues
                prompt = self.prompts.begun(event.turn, event.prompt)
                self._begin(event.turn, prompt, follows=follows, recorded=follows)
            case "PermissionRequest" if surface is not None:
                if self.questions.is_another(event, surface):
                    surface.closed()
                    return None
                if approval := self.reconnect(surface):
                    return approval
                self._works(event)
                if not self.agent.asks_people(self.permission_mode):
                    surface.closed()
                    return None
                question = question_of(event, proposal, self.path, changeable=self.agent.accepts_changed_input)
                if not self.agent.hides_dialog(question.asked_by):  # otherwise, several dialogs can wait
                    activity.terminal_only.continued(agent)
                return self.ask(question, surface)
            case "PermissionRequest":
                self._works(event)
            case "PreToolUse":
                known = self.turn is not None
                self._works(event)
                if known:
                    self._keep_working()
                    return None
            case "PostToolUse" | "PostToolUseFailure":
                self._works(event)
                given = json_object(event.tool_input)
                self.questions.called(EndedCall(event.call, event.tool_name, given, "ran", agent, as_run=True))
            case "Notification" if event.asks_in_terminal:
                self.questions.noticed(self._reporting)
            case "SubagentStart" if agent is not None:
                activity.background.subagent(agent, event.agent_type)
            case "SubagentStop" if agent is not None:
                activity.background.ended(agent)
                activity.terminal_only.continued(agent)
            case "Stop" if handed is not None:
                if event.tasks is not None:
                    activity.background.set(event.tasks)
                self._continue_with(handed)
            case "Stop":
                self._stopped(event)
            case "StopFailure" if not self._is_past(event.turn):
                self._finish("failed", error=event.last_message[:LONGEST_ERROR] or None, code=event.code)
            case "Interrupt" if not self._is_past(event.turn):
                self._finish("interrupted")
            case "SessionEnd":
                self.leave(pid)
        self.changed()
        return None

    @property
    def _activity(self) -> Activity:
        """The activity of the process whose hook is reporting."""
        return self.activities.of(self._reporting)

    def _goes_on(self) -> None:
        """Notes that a process has the conversation open: a session that had ended continues."""
        if self.ended:
            self.ended, self.continued_in = False, None
            self.save()

    def leave(self, pid: int | None, outcome: messages.Outcome = "interrupted", *, quiet: bool = False) -> None:
        """Notes that a process has ended or has closed the conversation. Another terminal may still have it open.
        ``outcome`` and ``quiet`` apply to its run, as in ``_finish``."""
        self._reporting = pid
        if pid is None or not self.processes.beside(pid):
            self.end()
            return
        self.processes.remove(pid)
        self.questions.left(pid)
        self.activities.ended(pid)
        if self.turn is not None and self.turn.process in (pid, None):
            self._finish(outcome, quiet=quiet)  # the next hook of another process that is working begins a new run
        self.changed()

    def end(self) -> None:
        """Ends the session, because its agent's program has ended or closed the conversation, or because its bridge has
        disconnected."""
        self._end("interrupted")

    def move(self, pid: int, continued_in: str | None) -> None:
        """Notes that the user has moved the conversation of the process ``pid`` to the background, where the session
        ``continued_in`` (None if it is not known) continues it under another id."""
        if self.processes.beside(pid):  # another terminal has it open
            self.leave(pid, "completed", quiet=True)
            self.save()
        elif not self.ended:
            self._end("completed", quiet=True, continued_in=continued_in)

    def _end(self, outcome: messages.Outcome, *, quiet: bool = False, continued_in: str | None = None) -> None:
        """Ends the session: no process has the conversation open."""
        self.processes.only_latest()
        self.handover.end()
        self._over(outcome, quiet=quiet)
        self.ended, self.continued_in = True, continued_in
        self.save()
        self.changed()

    def tick(self, idle_since: float | None = None) -> None:
        """Ends a run when its agent has stopped and no background task has to be waited for any longer, or when the
        agent has been waiting for a prompt since ``idle_since`` (seconds since 1970) although no hook has reported that
        it has stopped: the user has withdrawn the prompt. Between runs, forgets background tasks that need not be
        waited for any longer.
        """
        if self.turn is None:
            for activity in self.activities:
                if activity.background and activity.background.over:
                    activity.forget_tasks()
                    self.changed()
        elif self.turn.resting is not None:
            activity = self.activities.of(self.turn.process)
            if activity.background.over:
                self._is_over("completed")
                activity.forget_tasks()
                self.changed()
        elif idle_since is not None and time.time() - IDLE_SECONDS > idle_since > time.time() - self.turn.age:
            self._is_over("interrupted")
            self.changed()

    def expect_run(self, run: str) -> None:
        """Like ``expect``, begins the checkpoint before ``run``: the agent has stopped, and will continue with that
        run."""
        self.reviewed.expect(self.id, run)

    def _continue_with(self, handed: Left) -> None:
        """Begins the run with which the agent continues after it has stopped. To the agent, that run belongs to the
        same turn."""
        if self.turn is None or self.turn.id != handed.run:
            self._finish("completed")
            self._begin(handed.run, handed.text)
        if self.turn is not None:
            self.turn.take(handed.turn)
        self.reviewed.expect_nothing(self.id)

    def _works(self, event: HookEvent) -> None:
        """Notes that the main agent or one of its subagents is working. A subagent may outlive the turn that started
        it."""
        if event.agent_id is not None:
            self._activity.background.subagent(event.agent_id, event.agent_type)
        elif not self._is_past(event.turn):
            self._begin(event.turn)

    def _is_past(self, turn: str) -> bool:
        """Whether ``turn`` was over before the current one began. False if no turn is active."""
        return self.turn is not None and not self.turn.has(turn) and turn in self._past

    def _begin(
        self, turn: str, prompt: str = "", *, follows: bool = False, recorded: bool = True, reported: bool = True
    ) -> None:
        """Begins a run for a turn of the agent, unless that turn is already running. ``follows``: whether it continues
        the current turn, if there is one. ``recorded``, ``reported``: as in ``Turn``. If the agent continues a turn
        that was over, a new run begins, because each run ends only once.
        """
        if self.turn is not None and (not turn or follows or self.turn.has(turn)):
            self.turn.take(turn or self.turn.id)
            self.turn.reported = self.turn.reported or reported
            self.turn.prompt = self.turn.prompt or prompt
            self.turn.process = self._reporting or self.turn.process
            return
        self._finish("completed", quiet=True)
        id = turn if turn and turn not in self._past else f"turn_{uuid.uuid4().hex[:16]}"
        self.turn = Turn(id, "" if follows else prompt, recorded=recorded)
        if turn:
            self.turn.take(turn)
        self.turn.reported = reported
        self.turn.process = self._reporting
        self.last_text = ""
        self.reviewed.set_run(self.id, self.turn.id)
        session = self.data.memory.session_id
        self.store.record(messages.RunStarted(self.turn.id, session, self.data.agent))

    def _stopped(self, event: HookEvent) -> None:
        """Notes that the main agent has stopped. Its turn is over unless it has left something running in the
        background; then the turn rests."""
        activity = self._activity
        if event.tasks is not None:
            activity.background.set(event.tasks)
        activity.terminal_only.only(activity.background.ids)
        if not self._is_past(event.turn):
            self._complete_or_rest()

    def _complete_or_rest(self, *, quiet: bool = False) -> None:
        """Ends the main agent's turn, or lets it rest until what it has left running has ended. ``quiet``: as in
        ``_finish``."""
        if self.turn is None or not self._activity.background:
            self._finish("completed", quiet=quiet)
        else:
            self.questions.main_stopped(self._reporting)
            self.turn.resting = time.monotonic()

    def _finish(
        self, outcome: messages.Outcome, *, quiet: bool = False, error: str | None = None, code: str | None = None
    ) -> None:
        """Ends the main agent's turn, if one is active. ``quiet``: the turn ended earlier, so its end does not cause a
        notification, and its duration is recorded as 0."""
        self.questions.main_stopped(self._reporting)
        if self.turn is None:
            return
        turn, self.turn = self.turn, None
        self.reviewed.set_run(self.id, None)
        self._past[turn.id] = None
        seconds = 0.0 if quiet else time.monotonic() - turn.began
        finished = messages.RunFinished(
            run_id=turn.id, outcome=outcome, duration_ms=int(seconds * 1000), error=error, code=code
        )
        self.store.record(finished, quiet=quiet)

    def _is_over(
        self, outcome: messages.Outcome, *, quiet: bool = False, error: str | None = None, code: str | None = None
    ) -> None:
        """Ends a turn whose end was not reported by a hook. The arguments are as in ``_finish``."""
        if self.turn is not None:
            self._reporting = self.turn.process
        self._finish(outcome, quiet=quiet, error=error, code=code)

    def _over(self, outcome: messages.Outcome, *, quiet: bool = False) -> None:
        """Ends everything that the agent's process was running, because the process has ended or closed the
        conversation, or another one has opened the conversation since."""
        self.withdraw_all(ENDED)
        self.activities.clear()
        self._finish(outcome, quiet=quiet)

    def ask(self, question: Question, surface: Surface) -> PendingApproval:
        """Opens an approval request for a question from the agent. ``surface``: where it was asked."""
        approval = self.questions.ask(question, surface)
        self.changed()
        return approval

    def save(self) -> None:
        """Saves the facts and the metadata, unless the session is closed. A failure is only logged, because the agent
        has its own transcript."""
        if self._is_closed:
            return
        try:
            works, rests, tasks, turns = self._working
            facts = msgspec.structs.replace(
                self.processes.facts,
                sent=self.prompts.sent,
                ended=self.ended,
                continued_in=self.continued_in,
                works=works,
                rests=rests,
                tasks=tasks,
                turns=turns,
                past=tuple(self._past),
                is_unattended=self.questions.is_unattended,
            )
            write_private(str(self.directory / "desk.json"), msgspec.json.encode(facts))
            self._stored, self._remembered = self._working, (facts.past, facts.is_unattended)
        except DrawbridgeError as error:
            logger.error("%s: %s", self.id, error)
        self.store.save()

    @property
    def _working(self) -> tuple[int | None, bool, tuple[Task, ...], tuple[str, ...]]:
        """``works``, ``rests``, ``tasks`` and ``turns`` as in ``Facts``."""
        if self.turn is None:
            return None, False, (), ()
        works, rests = self.turn.process, self.turn.resting is not None
        return works, rests, self.activities.of(works).background.stored if rests else (), self.turn.ids

    def _keep_working(self) -> None:
        """Saves the state that a restart needs, if any of it has changed: which process's run is active, what that
        process has left running, which runs are over, and whether clients answer questions."""
        remembered = tuple(self._past), self.questions.is_unattended
        if self._working != self._stored or remembered != self._remembered:
            self.save()

    # What was asked before a restart.

    def recover(self) -> None:
        """Restores the state after a restart. The turn and the approval requests continue only if their agent is alive;
        everything else counts as ended. If no process is known, only the agent's next report shows that it is alive.
        """
        self.store.catch_up()
        open_before, continues = Carried([], []), None
        is_open = not self.ended and (self.pid is None or self.processes.alive)
        if is_open:
            open_before = carried(self.history, self.memory.approvals)
        # Earlier versions did not store which process the run belongs to.
        works, rests, tasks, turns = self._stored
        works = self.processes.only if works is None else works
        active = next(reversed(self.memory.unfinished), None)
        has_left = not self.processes.is_alive(works) if works is not None else bool(self.processes.gone)
        waits = any(one.is_open and one.request.run_id == active for one in open_before.approvals)
        if is_open and not has_left and (self.pid is not None or waits):
            continues = active
        elif has_left:
            left = [one for one in open_before.approvals if not is_main_of(one, active)]
            open_before, works = Carried(left, open_before.calls), None
        self.processes.only_alive()
        self.store.recover([approval.id for approval in open_before.approvals], continues)
        if continues is not None:
            self.turn = Turn(continues, age=age_of_run(self.history, continues))
            for id in turns:
                self.turn.take(id)
            self.turn.process = works
            self.turn.resting = time.monotonic() if rests else None
            self.turn.reported = False
            if rests:
                self.activities.of(works).background.carry(tasks)
        self.restore(open_before, works)
        self._carried_turn = self.turn.id if self.turn is not None else ""
        for run in finished_runs(self.history):  # including those that ended after the facts were saved
            self._past[run] = None
        self.ended = not is_open or (self.pid is None and not self.approvals)
        if self.turn is not None:
            self.reviewed.continue_run(self.id, self.turn.id)
        self.handover.load()
        if self.ended:
            self.handover.end()

    def restore(self, carried: Carried, works: int | None) -> None:
        """Restores approval requests from the history. Open ones wait for a decision and for their surface to
        reconnect. They are not published again. ``works``: as in ``Facts``."""
        for call in carried.calls:
            self._calls[call.id] = call
        self.questions.restore(carried.approvals, works, self.pid)

    def reconnect(self, surface: Surface) -> PendingApproval | None:
        """Returns the approval request for the question that ``surface`` reports, if it was asked before, and connects
        the two as ``Questions.reconnect`` does. Returns None if the question is new."""
        approval = self.questions.known(surface.known_as)
        if approval is None:
            return None
        self._goes_on()
        if self.turn is not None and surface.pid is not None and is_main_of(approval, self.turn.id):
            self.turn.process = surface.pid
        self.questions.reconnect(approval, surface)
        self.changed()
        return approval

    def stop_waiting(self) -> None:
        """Stops waiting for hooks and bridges that have not reconnected since the restart, as
        ``Questions.stop_waiting`` does."""
        has_missed = self.questions.stop_waiting()
        if self.pid is not None:
            self.activities.ended(None)
        if has_missed and self.pid is None and not self.approvals:
            self._finish("interrupted")
            self.ended = True
        self.changed()

    def disconnect(self, surface: Surface) -> None:
        """Removes a surface that can no longer reach the agent, as ``Questions.disconnect`` does."""
        self.questions.disconnect(surface)
        self.changed()

    # Entries of the conversation's file.

    def expect_prompt(self, entries: Iterable[Entry | None]) -> None:
        """Finds the first new prompt of a copy among the entries that are passed to ``add_entry`` next: the last one
        with the same words as the current turn's prompt, because an earlier prompt may have the same words. A copy's
        file is written in one go, and the first read reaches its end."""
        if self._is_copy:
            prompts = [one for one in entries if isinstance(one, Prompt) and not one.foreign]
            same = [prompt.uuid for prompt in prompts if self._is_same(prompt)]
            self._copys_prompt = same[-1] if same else ""

    def add_entry(self, entry: Entry, *, quiet: bool, late: bool = False) -> None:
        """Processes an entry. ``quiet``: whether it is older than this session. ``late``: whether it may have been
        written while no server ran. What another process adds later (the server, if it continues the conversation) is
        ignored, because the agent in this terminal does not know about it.
        """
        self._reporting = self.processes.only
        match entry:
            case Mode(mode):
                if not self.processes.has_others:
                    self._set_mode(self.pid, mode)
                elif self.processes.doubt_modes(mode):  # each process reports its mode with its next hook
                    self.save()
            case Context():
                self._handed(entry)
            case TurnOver() if self.turn is not None and self.turn.has(entry.turn):
                self._reporting = self.turn.process
                if entry.outcome == "completed":
                    self._complete_or_rest(quiet=quiet)
                else:
                    self._finish(entry.outcome, quiet=quiet, error=entry.error, code=entry.code)
            case Prompt(foreign=True) | Message(foreign=True) if not quiet:
                pass
            case Prompt():
                self._prompted(entry)
            case Message():
                self._keep(AgentLine(entry.data, self.memory.session_id))
                # Text before a call is not the agent's last text, even if the last text has the same words.
                self.last_text = "" if entry.calls or entry.results else entry.text or self.last_text
                if entry.foreign:
                    return
                for call in entry.calls:
                    self._calls[call.id] = call
                for result in entry.results:
                    if called := self._calls.pop(result.id, None):
                        given = json_object(called.input)
                        ended = EndedCall(result.id, called.name, given, result.fate, None, as_run=False)
                        self.questions.called(ended)
                turn = self.turn if entry.ends_turn else None
                if turn is not None and not turn.reported and (late or turn.id == self._carried_turn):
                    self._ended_unheard(turn, entry, quiet=quiet)
                if entry.interrupted and (self.turn is None or self.turn.recorded):
                    self._is_over("interrupted", quiet=quiet)

    def _ended_unheard(self, turn: Turn, entry: Message, *, quiet: bool) -> None:
        """Ends the current turn because its last message, ``entry``, was read: the hook that reports the end may not
        have found a server. ``quiet``: as in ``_finish``."""
        self.activities.of(turn.process).background.forget_carried()  # the agent knows that these tasks have ended
        if not entry.failed:
            self._is_over("completed", quiet=quiet)
        else:
            self._is_over("failed", quiet=quiet, error=entry.text[:LONGEST_ERROR] or None, code=entry.code)

    def _handed(self, entry: Context) -> None:
        """Records the comments that a hook has handed over to the agent, if this entry of the transcript contains
        them."""
        left = self.handover.confirmed(entry)
        if left is None:
            return
        if entry.event == "Stop":
            self._continue_with(left)
        self._keep(self.handover.record(left, entry))
        self.submitted(left.review, left.run, left.by)

    def _prompted(self, entry: Prompt) -> None:
        """Records a prompt that was read from the conversation's file. It begins a turn unless it was added to the
        current one or belongs to an earlier one."""
        is_current = self.turn is not None and self.turn.has(entry.turn)
        is_expected = entry.uuid == self._copys_prompt if self._is_copy else is_current or self._is_same(entry)
        if self.turn is not None and is_expected:
            self.turn.recorded, self._is_copy = True, False
        before = self.turn is not None and not self.turn.recorded
        if entry.turn and entry.turn not in self._past and not entry.foreign and not before:
            if self.turn is None or not self.turn.has(entry.turn):
                self._finish("completed", quiet=True)
            self._keep(self.prompts.record(entry, entry.turn))
            self._begin(entry.turn, self.prompts.recorded(entry, entry.turn), reported=False)
        elif self.turn is not None and not entry.foreign and not before:
            self._keep(self.prompts.record(entry, self.turn.id))
            self.prompts.recorded(entry, self.turn.id)
        else:
            run = entry.turn if entry.turn and entry.turn not in self._past and not is_current else entry.uuid
            self._keep(PromptAccepted(run, entry.text, TERMINAL_NAME, uuid=entry.uuid))
            over = messages.RunFinished(run_id=run, outcome="completed", duration_ms=0)
            self.store.record(over, quiet=True)
            self._past[run] = None

    def _is_same(self, entry: Prompt) -> bool:
        """Whether the current turn began with the words of this prompt. In a copy of a conversation, the prompt's id
        does not show that: the CLI writes the earlier prompts with the id of the first new one (2.1.329)."""
        return self.turn is not None and same_words(self.agent, self.turn.prompt, entry.text)

    def add_report(self, line: bytes) -> None:
        """Reads what the agent reports about itself in this line of the conversation's file."""
        if self._about is None and self.terminal_agent is not None:
            self._about = self.terminal_agent.reports(self._agent_state)
        if self._about is not None:
            self._about.recorded(line)

    def _last_state(self, lines: Sequence[bytes], session_id: str) -> AgentState:
        return AgentState() if self.terminal_agent is None else self.terminal_agent.last_state(lines, session_id)

    def publish_reports(self) -> None:
        """Publishes the state after lines of the conversation's file were processed."""
        self._keep_working()
        self._publish_about()
        self.publish_state()

    def _publish_about(self) -> None:
        """Publishes what the agent reports about itself in its file, and its tasks according to the hooks."""
        state = self._agent_state if self._about is None else self._about.state
        self._report_state(msgspec.structs.replace(state, tasks=() if self.ended else self.activities.shown))

    def _keep(self, event: AgentLine | PromptAccepted) -> None:
        if not self.store.has_room(len(written(event)[1])):
            return  # the limit for agents' data is reached; the agent keeps its own transcript
        try:
            self.store.write(event)
        except DrawbridgeError as error:
            logger.error("%s: a line of the conversation can't be recorded: %s", self.id, error)

    def changed(self) -> None:
        self.data.last_active = now()
        self._keep_working()
        self._publish_about()
        self.publish_state()

    def close(self, reason: str) -> None:
        """Closes the session; the agent continues. A question stays open if its hook or bridge will report it again;
        other questions can then only be answered in the terminal.
        """
        self.questions.close(reason)
        self.prompts.close()
        self.approvals.release()
        self._keep_working()
        self._is_closed = True
        self.turn = None
        self.store.save()
        self.history.close()
