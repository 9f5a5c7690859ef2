"""A session whose agent a person has started in a terminal: what its hooks and its conversation's file report.

The server does not start or stop the agent. Its own dialog is open at the same time, and the first answer counts. A
subagent's dialog is the exception: it appears only after its hook has ended, so its question waits here for a limited time,
and only while a client could answer it.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AskedBy, Proposal, Question
from drawbridge.agents.claude import prompts as claude_prompts
from drawbridge.agents.claude.prompts import LONGEST_NAME, LONGEST_PATH, LONGEST_REASON, words
from drawbridge.agents.proposals import read_file
from drawbridge.core.approval import State
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import process_alive, write_private
from drawbridge.core.tasks import BackgroundTasks
from drawbridge.server.approvals.pending import ExpectedSurface, PendingApproval, Surface
from drawbridge.server.events import AgentLine, PromptAccepted, written
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.messages import ASKS_NOTHING, IN_TERMINAL, DeskInfo, DeskState
from drawbridge.server.sessions import metadata
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.metadata import now
from drawbridge.server.sessions.session import SHOWN_PROMPT, Session
from drawbridge.server.store.log import History
from drawbridge.server.terminal_sessions import hook_events, transcript
from drawbridge.server.terminal_sessions.carried import Carried, carried
from drawbridge.server.terminal_sessions.dialog import Latest, Outcomes, Overruled, TerminalOnly
from drawbridge.server.terminal_sessions.prompts import IN_THE_TERMINAL, Prompts, Sent, Terminals
from drawbridge.server.terminal_sessions.transcript_file import NotItsFile, TranscriptFile, checked, moved_to
from drawbridge.server.terminal_sessions.turn import Background, Turn

logger = logging.getLogger("drawbridge.server")

LONGEST_ERROR = 500
"""The longest error text of a failed run, in characters."""

ELSEWHERE = "answered elsewhere"
GONE = "the agent no longer waits for it"
ENDED = "the agent's program has ended"
NOT_DELIVERED = "overruled: the answer did not reach the agent, which still asks in its terminal"
NO_LONGER_WAITED = "overruled: the agent no longer waited for the answer"

HOLD_SECONDS = 45.0
"""Seconds that a subagent's question waits for a client: time to take a phone out and to read. Until then the terminal shows no
dialog, so the person there must not wait longer (2.1.329)."""

SETTLING_SECONDS = 2.0
"""Seconds after a decision in which a notification may still be about the dialog that it has closed."""

WORKING_SECONDS: Final = 0.3
RESTING_SECONDS: Final = 3.0
"""Seconds between two looks at a conversation's file and at the agent's process, while no hook reports anything."""

RECORD_SECONDS: Final = 1.0
"""Seconds by which Claude Code's record may be late (0.1 to 1 s on 2.1.329)."""

LOOKS: Final = 3
"""How often the process is checked before the successor of a session that was moved to the background must have reported."""


class Facts(Struct):
    """The state of a session that is stored for a restart, beside its metadata."""

    pid: int | None = None
    transcript: str = ""
    permission_mode: str | None = None
    sent: Sent | None = None
    background: bool = False


class TerminalSession(Session):
    """``directory`` contains its metadata and its history. ``pid``: the agent's process, as far as known."""

    def __init__(
        self,
        directory: Path,
        data: metadata.Metadata,
        history: History,
        context: Context,
        facts: Facts,
        terminals: Terminals,
        beginning_with: Callable[[str], str | None],
    ) -> None:
        """``beginning_with``: the id of the terminal session whose agent's own id begins so."""
        super().__init__(directory, data, history, context)
        self.facts = facts
        self.pid = facts.pid
        self.permission_mode = facts.permission_mode
        self.ended = False
        self.in_background = facts.background
        """The agent's daemon hosts it; it has no terminal of its own."""
        self.continued_in: str | None = None
        """The session that continues this one, which the person has moved to the background."""
        self.turn: Turn | None = None
        self.background = Background()
        self.terminal_only = TerminalOnly()
        self.last_text = ""
        """The agent's latest text."""
        self.directory = directory
        self._past: Latest[str, None] = Latest()
        """The ids of turns that are over."""
        self._held: dict[str, asyncio.TimerHandle] = {}
        """Approvals of subagents, until they are handed over to the terminal."""
        self._decided_at = 0.0
        self._undelivered: dict[str, PendingApproval] = {}
        """Questions that were answered while their hook was expected after a restart."""
        self._known: Latest[str, PendingApproval] = Latest()
        self._calls: Latest[str, transcript.Call] = Latest()
        self.outcomes = Outcomes(read_file)
        self.prompts = Prompts(self, terminals, facts.sent, self.save)
        self.reports = Reports(self, beginning_with)

    # What clients see.

    @property
    def state(self) -> messages.State:
        return "IDLE" if self.turn is None else "EXECUTING"

    @property
    def phase(self) -> DeskState:
        """What the agent does, as clients show it for a terminal session."""
        if self.ended:
            return "ended"
        if self.approvals or self.terminal_only:
            return "waiting"
        return "finished" if self.turn is None and not self.background else "working"

    @property
    def resting(self) -> bool:
        """Whether the agent waits for the next prompt, while its background tasks may still run."""
        return self.turn is None or self.turn.resting is not None

    def is_using(self, session_id: str) -> bool:
        alive = not self.ended and (self.pid is None or process_alive(self.pid))
        return alive and self.memory.session_id == session_id

    def _details(self) -> dict[str, Any]:
        mode = self.permission_mode
        return {
            "desk": DeskInfo(
                state=self.phase,
                permission_mode=mode,
                asks=mode not in ASKS_NOTHING,
                prompts=self.prompts.possible,
                in_terminal=bool(self.terminal_only) and not self.ended,
                background_tasks=len(self.background) if self.resting and not self.ended else 0,
                background=self.in_background,
                continued_in=self.continued_in,
            ),
        }

    def _current_run(self) -> messages.RunInfo | None:
        if self.turn is None:
            return None
        return messages.RunInfo(run_id=self.turn.id, position=0, prompt=self.turn.prompt[:SHOWN_PROMPT])

    # Decisions of clients, and of the person at an editor. The person may decide in the agent's own dialog at the same moment.

    def _approval_closed(self, approval: PendingApproval, asked_by: Surface | None = None) -> None:
        if held := self._held.pop(approval.id, None):
            held.cancel()
        if asked_by is None or approval.decision is None:
            return
        self.outcomes.add(approval, approval.decision)
        self._decided_at = time.monotonic()
        if isinstance(asked_by, ExpectedSurface):
            self._undelivered[approval.id] = approval
        self._changed()

    # What the agent's hooks report.

    def apply(
        self, event: hook_events.HookEvent, surface: Surface | None, proposal: Proposal | None
    ) -> PendingApproval | None:
        """A hook's event. ``surface`` and ``proposal`` belong to a question, whose approval is returned."""
        self.permission_mode = event.permission_mode or self.permission_mode
        agent = event.agent_id
        if event.hook_event_name not in ("SessionEnd", "Notification"):
            self.ended, self.continued_in = False, None
        match event.hook_event_name:
            case "SessionStart" if event.source != "compact":
                self._over("completed", quiet=True)
            case "UserPromptSubmit":
                follows = event.prompt.startswith(hook_events.TASK_ENDED)
                prompt = self.prompts.begun(event.prompt_id, event.prompt)
                self._begin(event.prompt_id, prompt, follows=follows, recorded=follows)
            case "PermissionRequest" if surface is not None:
                if approval := self.reconnect(surface):
                    return approval
                self._works(event)
                self.terminal_only.continued(agent)
                return self._ask(event, surface, proposal)
            case "PostToolUse" | "PostToolUseFailure":
                self._works(event)
                self._called(event.tool_name, event.tool_input, "ran", agent, as_run=True)
            case "Notification" if event.notification_type in hook_events.ASKS_IN_TERMINAL:
                self._asks_in_terminal()
            case "SubagentStop" if agent is not None:
                self.background.ended(agent)
                self.terminal_only.continued(agent)
            case "Stop":
                self._stopped(event)
            case "StopFailure" if not self._is_past(event.prompt_id):
                self._finish("failed", error=event.last_assistant_message[:LONGEST_ERROR] or None)
            case "SessionEnd":
                self.end()
        self._changed()
        return None

    def end(self) -> None:
        """The agent's program has ended."""
        self._over("interrupted")
        self.ended = True
        self._changed()

    def move(self, continued_in: str | None) -> None:
        """The person has moved the conversation to the background, where ``continued_in`` continues it under another id."""
        if not self.ended:
            self._over("completed", quiet=True)
            self.ended, self.continued_in = True, continued_in
            self._changed()

    def tick(self) -> None:
        """A run whose agent has stopped is over when nothing in the background needs to be waited for."""
        if self.background.over and self.turn is not None and self.turn.resting is not None:
            self._finish("completed")
            self.background.set({})
            self._changed()
        elif self.turn is None and self.background and self.background.over:
            self.background.set({})
            self._changed()

    def _works(self, event: hook_events.HookEvent) -> None:
        """The main agent or one of its subagents, which may outlive the turn that began it."""
        if event.agent_id is not None:
            self.background.subagent(event.agent_id)
        elif not self._is_past(event.prompt_id):
            self._begin(event.prompt_id)

    def _is_past(self, turn: str) -> bool:
        """Whether ``turn`` was over before the current one began."""
        return self.turn is not None and not self.turn.has(turn) and turn in self._past

    def _begin(self, turn: str, prompt: str = "", *, follows: bool = False, recorded: bool = True) -> None:
        """A turn of the agent, unless it is the one that runs already; ``follows``: it belongs to that one. ``recorded``: as in
        ``Turn``.
        """
        if self.turn is not None and (not turn or follows or self.turn.has(turn)):
            self.turn.take(turn or self.turn.id)
            self.turn.prompt = self.turn.prompt or prompt
            return
        self._finish("completed", quiet=True)
        self.turn = Turn(turn or f"turn_{uuid.uuid4().hex[:16]}", "" if follows else prompt, recorded=recorded)
        session = self.data.memory.session_id
        self.store.record(messages.RunStarted(self.turn.id, session, self.data.agent))

    def _stopped(self, event: hook_events.HookEvent) -> None:
        """The main agent has stopped; its turn is over unless it has left something running in the background."""
        self.background.set(event.tasks)
        self.terminal_only.only(event.tasks)
        if self._is_past(event.prompt_id):
            return
        if self.turn is None or not event.tasks:
            self._finish("completed")
        else:
            self._main_stopped()
            self.turn.resting = time.monotonic()

    def _finish(self, outcome: messages.Outcome, *, quiet: bool = False, error: str | None = None) -> None:
        """The main agent's turn is over. ``quiet``: it ended long ago and causes no notice."""
        self._main_stopped()
        if self.turn is None:
            return
        turn, self.turn = self.turn, None
        self._past[turn.id] = None
        seconds = 0.0 if quiet else time.monotonic() - turn.began
        finished = messages.RunFinished(run_id=turn.id, outcome=outcome, duration_ms=int(seconds * 1000), error=error)
        self.store.record(finished, quiet=quiet)

    def _main_stopped(self) -> None:
        """What the main agent has asked was answered, or it would not have stopped. Subagents ask for themselves."""
        for approval in self.approvals:
            if approval.request.asked_by is None:
                self.withdraw(approval, ELSEWHERE)
        self.terminal_only.continued(None)
        self.outcomes.main_stopped()

    def _over(self, outcome: messages.Outcome, *, quiet: bool = False) -> None:
        """The agent's process has ended, and with it all that it was running."""
        self.withdraw_all(ENDED)
        self.terminal_only.clear()
        self.background.set({})
        self._finish(outcome, quiet=quiet)
        self.outcomes.clear()

    def _asks_in_terminal(self) -> None:
        """The CLI has notified the person of a dialog. If it is not about an open approval, nobody here can answer it."""
        known = self.approvals or self.terminal_only.has_question
        if known or time.monotonic() - self._decided_at < SETTLING_SECONDS:
            return
        self.terminal_only.noticed()
        for overruled in self.outcomes.not_delivered(NOT_DELIVERED):
            self._record_overruled(overruled)

    def _ask(self, event: hook_events.HookEvent, surface: Surface, proposal: Proposal | None) -> PendingApproval:
        question = Question(
            question_id=uuid.uuid4().hex,
            tool_name=event.tool_name,
            input=event.tool_input,
            suggestions=claude_prompts.suggestions(event.tool_name, event.permission_suggestions),
            proposal=proposal,
            asked_by=AskedBy(event.agent_id, words(event.agent_type, LONGEST_NAME))
            if event.agent_id is not None
            else None,
            reason=words(event.decision_reason, LONGEST_REASON),
            blocked_path=words(event.blocked_path, LONGEST_PATH),
        )
        return self.ask(question, surface)

    def ask(self, question: Question, surface: Surface) -> PendingApproval:
        """Opens an approval for a question of the agent. ``surface``: where it was asked."""
        approval = PendingApproval.new(question, self.turn.id if self.turn else "", now(), surface.known_as)
        if surface.known_as:
            self._known[surface.known_as] = approval
        self.outcomes.asked_again(approval)
        offered = not surface.in_editor and (question.asked_by is None or self._can_be_answered())
        self.approvals.request(approval, self.data.agent, surface, offered=offered)
        self._hold(approval)
        self._changed()
        return approval

    def _can_be_answered(self) -> bool:
        """Whether a client is connected that is sent approvals of this session and may answer them."""
        return self._context.audience.can_decide(self.id, self.path)

    def _hold(self, approval: PendingApproval) -> None:
        """A subagent's question waits ``HOLD_SECONDS`` if a client is connected that could decide; otherwise not at all."""
        if approval.request.asked_by is None:
            return
        if self._can_be_answered():
            self._hand_over_later(approval)
        else:
            self._hand_over(approval)

    def _hand_over_later(self, approval: PendingApproval) -> None:
        later = asyncio.get_running_loop().call_later(HOLD_SECONDS, self._hand_over, approval)
        self._held[approval.id] = later

    def _hand_over(self, approval: PendingApproval) -> None:
        """Leaves the question to the dialog in the terminal, which appears when the hook ends."""
        self.terminal_only.handed_over(approval)
        self.withdraw(approval, IN_TERMINAL)
        self._changed()

    def hosted_by(self, pid: int, path: str, *, background: bool) -> bool:
        """Sets the agent's process and its transcript's path, as a hook has reported them. Returns whether either is new."""
        self.pid, self.in_background = pid, background
        if (pid, path) == (self.facts.pid, self.facts.transcript):
            return False
        self.facts = Facts(pid, path, self.permission_mode, background=background)
        return True

    def save(self) -> None:
        """Saves the facts and the metadata. A failure is logged: the agent's program has its own record."""
        self.facts.sent = self.prompts.sent
        try:
            write_private(str(self.directory / "desk.json"), msgspec.json.encode(self.facts))
        except DrawbridgeError as error:
            logger.error("%s: %s", self.id, error)
        self.store.save()

    # What was asked before a restart.

    def recover(self) -> None:
        """Everything is over, except for the approvals of an agent that is alive. If no process is known, its next
        report shows that it is.
        """
        self.store.catch_up()
        open_before = Carried([], [])
        if self.pid is None or process_alive(self.pid):
            open_before = carried(self.history, self.memory.approvals)
        self.store.recover([approval.id for approval in open_before.approvals])
        self.restore(open_before)
        self.ended = not (self.approvals if self.pid is None else process_alive(self.pid))

    def restore(self, carried: Carried) -> None:
        """Restores open approvals, which wait for a decision and for their surface to reconnect. They are not published
        again."""
        for call in carried.calls:
            self._calls[call.id] = call
        for approval in carried.approvals:
            self._known[approval.request.known_as] = approval
            expected = ExpectedSurface(self.pid)
            self.approvals.restore(approval, self.data.agent, expected, offered=not expected.in_editor)
            if approval.is_open:
                if approval.request.run_id:
                    self.turn = Turn(approval.request.run_id)
                if approval.request.agent_id is not None:
                    self.background.subagent(approval.request.agent_id)
                    self._hand_over_later(approval)  # whether a client connects too is not known yet
        main = any(approval.request.agent_id is None for approval in self.approvals)
        if self.turn is not None and not main:
            self.turn.resting = time.monotonic()

    def knows(self, question: str) -> bool:
        return question in self._known

    def reconnect(self, surface: Surface) -> PendingApproval | None:
        """The question that ``surface`` reports, if it was asked before: it continues to wait, or receives the decision."""
        approval = self._known.get(surface.known_as)
        if approval is None:
            return None
        self.ended = False
        self._undelivered.pop(approval.id, None)
        given, by = approval.decision, approval.decided_by
        if self.approvals.replace(approval, surface):
            pass
        elif approval.state is State.DECIDED and given is not None and by is not None:
            self.outcomes.add(approval, given)
            surface.decided(approval, given, by)
        else:
            surface.closed()
        self._changed()
        return approval

    def stop_waiting(self) -> None:
        """An agent that has not reported again by now no longer has a question; if it reports after all, it asks a new one."""
        for approval in self._undelivered.values():
            if approval.overrule():
                self._record_overruled(Overruled(approval, NO_LONGER_WAITED))
        self._undelivered.clear()
        missed = [
            approval for approval in self.approvals if isinstance(self.approvals.surfaces(approval)[0], ExpectedSurface)
        ]
        for approval in missed:
            self._known.pop(approval.request.known_as, None)
            self.withdraw(approval, GONE)
        if missed and self.pid is None and not self.approvals:
            self.ended = True
        self._changed()

    # How approvals end in the terminal.

    def disconnect(self, surface: Surface) -> None:
        """Nothing reaches the agent through this surface any more: its dialog is closed, or the program is gone."""
        alive = surface.pid is None or process_alive(surface.pid)
        for approval in self.approvals:
            surfaces = self.approvals.surfaces(approval)
            if surface not in surfaces:
                continue
            if surfaces[0] is surface:
                self.withdraw(approval, ENDED if not alive else GONE if approval.request.asked_by else ELSEWHERE)
            else:
                self.approvals.remove(approval, surface)
        self._changed()

    def _called(self, tool: str, given: Raw, fate: transcript.Fate, agent_id: str | None, *, as_run: bool) -> None:
        """A call was seen to end: the approvals about it are over, whether they were decided here or in the terminal."""
        for approval in self.approvals:
            same = hook_events.same_call(approval.request, tool, hook_events.json_object(given), as_run=as_run)
            if same and approval.request.agent_id == agent_id:
                self.withdraw(approval, ELSEWHERE)
        self.terminal_only.called(tool, given, agent_id, as_run=as_run)
        for overruled in self.outcomes.called(tool, given, fate, agent_id, as_run=as_run):
            self._record_overruled(overruled)

    def _record_overruled(self, overruled: Overruled) -> None:
        withdrawn = messages.PermissionWithdrawn(overruled.approval.id, overruled.reason)
        self.store.record(withdrawn)

    # Entries of the conversation's file.

    def add_entry(self, entry: transcript.Entry, *, quiet: bool) -> None:
        """``quiet``: the entry is older than this session. What another process adds later (the server, which continues the
        conversation) is ignored: the agent in this terminal does not know of it.
        """
        match entry:
            case transcript.Mode(mode):
                self.permission_mode = mode or self.permission_mode
            case transcript.Prompt(foreign=True) | transcript.Message(foreign=True) if not quiet:
                pass
            case transcript.Prompt():
                self._prompted(entry)
            case transcript.Message():
                self._keep(AgentLine(entry.data, self.memory.session_id))
                self.last_text = entry.text or self.last_text
                if entry.foreign:
                    return
                for call in entry.calls:
                    self._calls[call.id] = call
                for result in entry.results:
                    if called := self._calls.pop(result.id, None):
                        self._called(called.name, called.input, result.fate, None, as_run=False)
                if entry.interrupted and (self.turn is None or self.turn.recorded):
                    self._finish("interrupted", quiet=quiet)

    def _prompted(self, entry: transcript.Prompt) -> None:
        """A prompt in the conversation's file. It begins a turn, unless it was added to the current one, or is an old one's."""
        if self.turn is not None and (self.turn.has(entry.turn) or self.turn.prompt == entry.text):
            self.turn.recorded = True
        before = self.turn is not None and not self.turn.recorded
        if entry.turn and entry.turn not in self._past and not entry.foreign and not before:
            if self.turn is None or not self.turn.has(entry.turn):
                self._finish("completed", quiet=True)
            self._keep(self.prompts.record(entry, entry.turn))
            self._begin(entry.turn, self.prompts.recorded(entry, entry.turn))
        elif self.turn is not None and not entry.foreign and not before:
            self._keep(self.prompts.record(entry, self.turn.id))
            self.prompts.recorded(entry, self.turn.id)
        else:
            run = entry.turn or entry.uuid
            self._keep(PromptAccepted(run, entry.text, IN_THE_TERMINAL, uuid=entry.uuid))
            over = messages.RunFinished(run_id=run, outcome="completed", duration_ms=0)
            self.store.record(over, quiet=True)

    def _keep(self, event: AgentLine | PromptAccepted) -> None:
        if not self.store.has_room(len(written(event)[1])):
            return  # the limit was reached at that moment; the agent keeps its own record
        try:
            self.store.write(event)
        except DrawbridgeError as error:
            logger.error("%s: a line of the conversation can't be recorded: %s", self.id, error)

    def _changed(self) -> None:
        self.data.last_active = now()
        self.publish_state()

    def close(self, reason: str) -> asyncio.Task[None]:
        """The server shuts down; the agent continues. A question that its hook will report again stays open, others can only be
        answered in the terminal. The session processes nothing from now on; what is returned is done when its task is over.
        """
        following = self.reports.close()
        for approval in self.approvals:
            if not approval.request.known_as:
                self.withdraw(approval, reason)
        for held in self._held.values():
            held.cancel()
        self._held.clear()
        self.prompts.close()
        self.approvals.release()
        self.turn = None
        self.store.save()
        self.history.close()
        return following


class Reports:
    """The reports about one session, which are processed in the order of their arrival, each after what the conversation's file
    contains by then; and whether the agent is still there, which no hook reports.
    """

    def __init__(self, session: TerminalSession, beginning_with: Callable[[str], str | None]) -> None:
        """``beginning_with``: as for ``TerminalSession``."""
        self._session = session
        self._beginning_with = beginning_with
        self._moved = ("", 0)
        """Where the conversation was moved to, and how often that was seen."""
        self._calls: asyncio.Queue[tuple[Callable[[], None], str]] = asyncio.Queue()
        self._call: Callable[[], None] | None = None
        """The next call, once what is before it in the file was read."""
        self._file: TranscriptFile | None = None
        self._seen = False
        self._tasks = BackgroundTasks(logger)
        self._task = self._tasks.start(self._follow(), f"{session.id}: following the session")
        self._open_file()

    def add(self, call: Callable[[], None], text: str = "") -> None:
        """Calls it in its turn, and if possible after ``text`` of the agent, which its record may not contain yet."""
        self._calls.put_nowait((call, text))

    def set_process(self, pid: int, path: str, *, background: bool) -> None:
        """The agent's process and the path of its transcript, as a hook has reported them."""
        if self._session.hosted_by(pid, path, background=background):
            self._open_file()
            self._session.save()

    async def processed(self) -> None:
        """Returns when all reports until now were processed, or the session is closed."""
        done = asyncio.get_running_loop().create_future()
        self.add(lambda: done.set_result(None))
        await asyncio.wait([done, self._task], return_when=asyncio.FIRST_COMPLETED)

    def _open_file(self) -> None:
        if self._file is not None or not self._session.facts.transcript:
            return
        session_id = self._session.data.memory.session_id
        try:
            path = checked(self._session.facts.transcript, session_id)
        except NotItsFile:
            logger.warning(
                "%s: its conversation is not read: the path is not that of a Claude Code transcript", self._session.id
            )
            return
        after = self._last_entry()
        self._seen = bool(after)
        self._file = TranscriptFile(path, after)

    def _last_entry(self) -> str:
        page = self._session.history.read(before_seq=self._session.history.last_seq + 1, limit=200)
        for record in reversed(page.records):
            if place := transcript.place(record.line):
                return place
        return ""

    async def _follow(self) -> None:
        while True:
            seconds = WORKING_SECONDS if self._session.turn or self._session.approvals else RESTING_SECONDS
            try:
                async with asyncio.timeout(None if self._session.ended else seconds):
                    call, text = await self._calls.get()
            except TimeoutError:
                call, text = self._look, ""
            self._call = call
            try:
                await self._read_until(text)
            except Exception:
                logger.exception("%s: internal error", self._session.id)
            self._do(call)

    def _do(self, call: Callable[[], None]) -> None:
        self._call = None
        try:
            call()
        except Exception:  # this session may be shown wrongly; the others are not concerned
            logger.exception("%s: internal error", self._session.id)

    def _look(self) -> None:
        """Whether the agent is still there, and still has this conversation: no hook reports the end of either."""
        session = self._session
        if session.pid is None or session.ended:
            return
        if not process_alive(session.pid):
            session.end()
            session.save()
            return
        session.tick()
        if self._file is not None and not session.in_background and session.resting:
            self._look_for_successor(session.pid)

    def _look_for_successor(self, pid: int) -> None:
        job = moved_to(self._session.facts.transcript, self._session.data.memory.session_id, pid)
        former, looks = self._moved
        if job is None or (job == former and looks > LOOKS):
            return
        self._moved = (job, looks + 1 if job == former else 1)
        successor = self._beginning_with(job)
        if successor is not None or self._moved[1] > LOOKS:
            self._moved = (job, LOOKS + 1)
            self._session.move(successor)

    async def _read_until(self, text: str) -> None:
        """Reads all lines; the CLI writes them a moment after it has shown them."""
        until = time.monotonic() + RECORD_SECONDS
        await self._read()
        while text and self._file is not None and self._session.last_text.strip() != text.strip():
            if time.monotonic() > until:
                break
            await asyncio.sleep(RECORD_SECONDS / 20)
            await self._read()

    async def _read(self) -> None:
        more = self._file is not None
        while more and self._file is not None:
            try:
                lines, more = await asyncio.to_thread(self._file.read)
            except OSError as error:
                logger.warning("%s: its conversation can't be read: %s", self._session.id, error)
                self._file = None
                return
            for line in lines:
                if entry := transcript.entry(line, self._session.data.memory.session_id):
                    self._session.add_entry(entry, quiet=not self._seen)
            if lines:
                self._session.publish_state()
        self._seen = True

    def process_all(self) -> None:
        """Makes all calls now, without reading what is before them in the file."""
        if self._call is not None:
            self._do(self._call)
        while not self._calls.empty():
            self._do(self._calls.get_nowait()[0])

    def close(self) -> asyncio.Task[None]:
        """Processes nothing from now on. Returns the task, which ends soon."""
        self._tasks.cancel()
        return self._task
