"""One agent that a person has started in a terminal: its messages, its state, and its approvals, which a client may decide
before the person at the terminal does.

To clients it is like a project, with a history, approvals and a state. What differs: the server does not start or stop it.
The agent's own dialog is open at the same time, and the first answer counts. A subagent's dialog is the exception: it appears
only after its hook has ended, so its question waits here for a limited time, and only while a client could answer it.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AskedBy, Decision, Proposal, Question
from drawbridge.agents.claude import prompts as claude_prompts
from drawbridge.agents.claude.prompts import LONGEST_NAME, LONGEST_PATH, LONGEST_REASON, words
from drawbridge.agents.proposals import read_file
from drawbridge.core.approval import State
from drawbridge.core.errors import DrawbridgeError
from drawbridge.core.private_files import process_alive, write_private
from drawbridge.server.approvals.pending import ExpectedSurface, PendingApproval, Surface
from drawbridge.server.approvals.service import Approvals
from drawbridge.server.events import AgentLine, PromptAccepted, StateChanged, written
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.messages import ASKS_NOTHING, IN_TERMINAL, Answer, DeskInfo, DeskState, Subscriber
from drawbridge.server.sessions import metadata, records, shown
from drawbridge.server.sessions.context import Context
from drawbridge.server.sessions.session_store import SessionStore
from drawbridge.server.sessions.shown import SHOWN_PROMPT, joined, now
from drawbridge.server.store.log import History
from drawbridge.server.terminal_sessions import hook_events, transcript
from drawbridge.server.terminal_sessions.carried import Carried, carried
from drawbridge.server.terminal_sessions.latest import Latest
from drawbridge.server.terminal_sessions.outcome import Outcomes, Overruled
from drawbridge.server.terminal_sessions.prompts import AT_DESK, Prompts, Sent
from drawbridge.server.terminal_sessions.terminal_only import TerminalOnly
from drawbridge.server.terminal_sessions.turn import Background, Turn

logger = logging.getLogger("drawbridge.server")

LONGEST_ERROR = 500
"""The longest error text of a failed run, in characters."""

ELSEWHERE = "answered elsewhere"
GONE = "the agent no longer waits for it"
ENDED = "the agent's program has ended"
NOT_DELIVERED = "overruled: the answer did not reach the agent, which still asks in its terminal"
NOT_HEARD = "overruled: the agent no longer waited for the answer"

HOLD_SECONDS = 45.0
"""For which a subagent's question waits for a client: time to take a phone out and to read. Until then the terminal shows no
dialog, so the person there must not wait longer (2.1.329)."""

SETTLING_SECONDS = 2.0
"""After an answer, in which a notification may still be about the dialog that it has closed."""


class Facts(Struct):
    """The state of a session that is stored for a restart, beside its metadata."""

    pid: int | None = None
    transcript: str = ""
    permission_mode: str | None = None
    sent: Sent | None = None
    background: bool = False


class DeskSession:
    """``directory`` holds its metadata and its history. ``pid``: the agent's process, as far as known."""

    def __init__(
        self, directory: Path, data: metadata.Metadata, history: History, context: Context, facts: Facts
    ) -> None:
        self.id = data.id
        self.path = Path(data.path)
        self.data = data
        self.history = history
        self.store = SessionStore(directory, data, history, context)
        self.approvals = Approvals(
            self.id, self.store.write, self.store.record, data.memory.verdicts, context.editors, self.decide
        )
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
        self._context = context
        self._directory = directory
        self._past: Latest[str, None] = Latest()
        """The ids of turns that are over."""
        self._held: dict[str, asyncio.TimerHandle] = {}
        """Approvals of subagents, until they are handed over to the terminal."""
        self._answered_at = 0.0
        self._not_heard: dict[str, PendingApproval] = {}
        """Questions that were answered while their hook was expected after a restart."""
        self._known: Latest[str, PendingApproval] = Latest()
        self._calls: Latest[str, transcript.Call] = Latest()
        self.outcomes = Outcomes(read_file)
        self.prompts = Prompts(self, context.terminals, facts.sent, self.save)

    # What clients see.

    @property
    def memory(self) -> records.Memory:
        return self.data.memory

    @property
    def state(self) -> DeskState:
        if self.ended:
            return "ended"
        if self.approvals or self.terminal_only:
            return "waiting"
        return "finished" if self.turn is None and not self.background else "working"

    @property
    def resting(self) -> bool:
        """Whether the agent waits for the next prompt, while background tasks of its may still run."""
        return self.turn is None or self.turn.resting is not None

    def info(self) -> messages.ProjectInfo:
        return messages.ProjectInfo(**self._info())

    def _info(self) -> dict[str, Any]:
        mode = self.permission_mode
        return {
            **shown.info(self.data, self.history, self.approvals),
            "state": "IDLE" if self.turn is None else "EXECUTING",
            "desk": DeskInfo(
                state=self.state,
                permission_mode=mode,
                asks=mode not in ASKS_NOTHING,
                prompts=self.prompts.taken,
                in_terminal=bool(self.terminal_only) and not self.ended,
                background_tasks=len(self.background) if self.resting and not self.ended else 0,
                background=self.in_background,
                continued_in=self.continued_in,
            ),
        }

    def snapshot(self) -> messages.ProjectJoined:
        run = self.turn and messages.RunInfo(run_id=self.turn.id, position=0, prompt=self.turn.prompt[:SHOWN_PROMPT])
        return joined(self._info(), run or None, [], self.approvals)

    def shown(self) -> messages.ProjectState:
        return messages.ProjectState(**self._info(), run_id=self.turn.id if self.turn else None)

    def publish_state(self) -> None:
        self.store.announce(StateChanged(self.shown()))

    # Decisions of clients, and of the person at an editor.

    def decide(
        self, approval_id: str, decision: Decision, by: Subscriber, at: Surface | None = None
    ) -> Answer[messages.PermissionResolved]:
        """The first decision is the agent's, unless the person decides at its own dialog in the same moment. ``at``: the
        surface on which it was decided, which passes it on itself. Raises ``ClientError``.
        """
        approval, answer, asking = self.approvals.decide(approval_id, decision, by, at)
        self._release(approval)
        self.outcomes.add(approval, decision)
        self._answered_at = time.monotonic()
        if isinstance(asking, ExpectedSurface):
            self._not_heard[approval_id] = approval
        self._changed()
        return answer

    # What the agent's hooks report.

    def heard(
        self, event: hook_events.HookEvent, surface: Surface | None, proposal: Proposal | None
    ) -> PendingApproval | None:
        """``surface`` and ``proposal`` go with a question; it is returned."""
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
                if approval := self.heard_again(surface):
                    return approval
                self._works(event)
                self.terminal_only.went_on(agent)
                return self._ask(event, surface, proposal)
            case "PostToolUse" | "PostToolUseFailure":
                self._works(event)
                self._called(event.tool_name, event.tool_input, "ran", agent, as_run=True)
            case "Notification" if event.notification_type in hook_events.ASKS_IN_TERMINAL:
                self._asks_in_terminal()
            case "SubagentStop" if agent is not None:
                self.background.ended(agent)
                self.terminal_only.went_on(agent)
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
        """Whether it is about a turn before the one that runs."""
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
            self._settle_main()
            self.turn.resting = time.monotonic()

    def _finish(self, outcome: messages.Outcome, *, quiet: bool = False, error: str | None = None) -> None:
        """The main agent's turn is over. ``quiet``: it ended long ago and causes no notice."""
        self._settle_main()
        if self.turn is None:
            return
        turn, self.turn = self.turn, None
        self._past[turn.id] = None
        seconds = 0.0 if quiet else time.monotonic() - turn.began
        finished = messages.RunFinished(run_id=turn.id, outcome=outcome, duration_ms=int(seconds * 1000), error=error)
        self.store.record(finished, quiet=quiet)

    def _settle_main(self) -> None:
        """What the main agent has asked was answered, or it would not have stopped. Subagents ask for themselves."""
        for approval in self.approvals:
            if approval.request.asked_by is None:
                self.settle(approval)
        self.terminal_only.went_on(None)
        self.outcomes.main_stopped()

    def _over(self, outcome: messages.Outcome, *, quiet: bool = False) -> None:
        """The agent's process has ended, and with it all that it was running."""
        self.settle_all(ENDED)
        self.terminal_only.clear()
        self.background.set({})
        self._finish(outcome, quiet=quiet)
        self.outcomes.clear()

    def _asks_in_terminal(self) -> None:
        """The CLI has notified the person of a dialog. If it is not about an open approval, nobody here can answer it."""
        known = self.approvals or self.terminal_only.has_question
        if known or time.monotonic() - self._answered_at < SETTLING_SECONDS:
            return
        self.terminal_only.noticed()
        for overruled in self.outcomes.not_delivered(NOT_DELIVERED):
            self._tell_overruled(overruled)

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
        """A question; ``surface`` is where it was asked."""
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
        """A subagent's question waits for a client for ``HOLD_SECONDS``, or not at all."""
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
        self.settle(approval, IN_TERMINAL)
        self._changed()

    def _release(self, approval: PendingApproval) -> None:
        """The question is closed."""
        if held := self._held.pop(approval.id, None):
            held.cancel()

    def join(self, approval: PendingApproval, surface: Surface) -> None:
        """The same question was reported in another way too."""
        self.approvals.add(approval, surface)

    def hosted_by(self, pid: int, path: str, *, background: bool) -> bool:
        """The agent's process and its conversation's file, as a hook has reported them; whether either is new."""
        self.pid, self.in_background = pid, background
        if (pid, path) == (self.facts.pid, self.facts.transcript):
            return False
        self.facts = Facts(pid, path, self.permission_mode, background=background)
        return True

    def save(self) -> None:
        self.facts.sent = self.prompts.sent
        try:
            write_private(str(self._directory / "desk.json"), msgspec.json.encode(self.facts))
        except DrawbridgeError as error:
            logger.error("%s: %s", self.id, error)
        self.store.save()

    # What was asked before a restart.

    def recover(self) -> None:
        """Everything is over, except for the approvals of an agent that lives. Where no process is known, whether it lives
        shows when it reports again.
        """
        self.store.catch_up()
        going_on = Carried([], [])
        if self.pid is None or process_alive(self.pid):
            going_on = carried(self.history, self.memory.approvals)
        self.store.recover([approval.id for approval in going_on.approvals])
        self.carry_on(going_on)
        self.ended = not (self.approvals if self.pid is None else process_alive(self.pid))

    def carry_on(self, carried: Carried) -> None:
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
                    self._hand_over_later(approval)  # whether a client comes as well is not known yet
        main = any(approval.request.agent_id is None for approval in self.approvals)
        if self.turn is not None and not main:
            self.turn.resting = time.monotonic()

    def knows(self, question: str) -> bool:
        return question in self._known

    def heard_again(self, surface: Surface) -> PendingApproval | None:
        """The question that ``surface`` reports, if it was asked before: it continues to wait, or receives the decision."""
        approval = self._known.get(surface.known_as)
        if approval is None:
            return None
        self.ended = False
        self._not_heard.pop(approval.id, None)
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

    def await_no_longer(self) -> None:
        """An agent that has not reported again by now has no question any more; if it reports after all, it asks a new one."""
        for approval in self._not_heard.values():
            if approval.overrule():
                self._tell_overruled(Overruled(approval, NOT_HEARD))
        self._not_heard.clear()
        missed = [
            approval for approval in self.approvals if isinstance(self.approvals.surfaces(approval)[0], ExpectedSurface)
        ]
        for approval in missed:
            self._known.pop(approval.request.known_as, None)
            self.settle(approval, GONE)
        if missed and self.pid is None and not self.approvals:
            self.ended = True
        self._changed()

    # How approvals end in the terminal.

    def settle(self, approval: PendingApproval, reason: str = ELSEWHERE) -> None:
        """The approval was answered in the terminal, or withdrawn for ``reason``."""
        self._release(approval)
        self.approvals.withdraw(approval, reason)

    def settle_all(self, reason: str = ELSEWHERE) -> None:
        for approval in self.approvals:
            self.settle(approval, reason)

    def gone(self, surface: Surface) -> None:
        """Nothing reaches the agent by this surface any more: its dialog is closed, or the program is gone."""
        alive = surface.pid is None or process_alive(surface.pid)
        for approval in self.approvals:
            surfaces = self.approvals.surfaces(approval)
            if surface not in surfaces:
                continue
            if surfaces[0] is surface:
                self.settle(approval, ENDED if not alive else GONE if approval.request.asked_by else ELSEWHERE)
            else:
                self.approvals.remove(approval, surface)
        self._changed()

    def _called(self, tool: str, given: Raw, fate: transcript.Fate, agent_id: str | None, *, as_run: bool) -> None:
        """What became of a call: what was asked about it is settled, one way or the other."""
        for approval in self.approvals:
            same = hook_events.same_call(approval.request, tool, hook_events.json_object(given), as_run=as_run)
            if same and approval.request.agent_id == agent_id:
                self.settle(approval)
        self.terminal_only.called(tool, given, agent_id, as_run=as_run)
        for overruled in self.outcomes.called(tool, given, fate, agent_id, as_run=as_run):
            self._tell_overruled(overruled)

    def _tell_overruled(self, overruled: Overruled) -> None:
        withdrawn = messages.PermissionWithdrawn(overruled.approval.id, overruled.reason)
        self.store.record(withdrawn)

    # Lines of the conversation's file.

    def told(self, entry: transcript.Entry, *, quiet: bool) -> None:
        """``quiet``: it was there before we came. What another process adds later to the same conversation (the server, which
        continues it) is not this terminal's: the agent here does not know of it.
        """
        match entry:
            case transcript.Mode(mode):
                self.permission_mode = mode or self.permission_mode
            case transcript.Prompt(foreign=True) | transcript.Said(foreign=True) if not quiet:
                pass
            case transcript.Prompt():
                self._prompted(entry)
            case transcript.Said():
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
            self._keep(PromptAccepted(run, entry.text, AT_DESK, uuid=entry.uuid))
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

    def close(self, reason: str) -> None:
        """The server shuts down; the agent continues. A question that its hook will report again stays open, others can only be
        answered in the terminal.
        """
        for approval in self.approvals:
            if not approval.request.known_as:
                self.settle(approval, reason)
        for held in self._held.values():
            held.cancel()
        self._held.clear()
        self.prompts.close()
        self.store.save()
        self.approvals.release()
        self.turn = None
        self.history.close()
