"""One agent that a person has started in a terminal: what it says, how it stands, and its questions, which a client may
answer before the person at the desk does.

To clients it is like a project, with a history, approvals and a state. What differs: nobody here starts or stops anything.
The agent's own dialog is open all the time and decides where it is answered first.
"""

from __future__ import annotations

import logging
import time
import uuid
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct

from drawbridge.approval import State
from drawbridge.errors import DrawbridgeError
from drawbridge.server.agents import claude_prompts
from drawbridge.server.agents.port import Decision, Proposal, Question
from drawbridge.server.agents.program import read_file
from drawbridge.server.desk import hook_events, transcript
from drawbridge.server.desk.carried import Carried
from drawbridge.server.desk.latest import Latest
from drawbridge.server.desk.lines import Awaited, Line
from drawbridge.server.desk.outcome import Outcomes
from drawbridge.server.desk.prompts import Prompts
from drawbridge.server.history.log import History
from drawbridge.server.projects import metadata, records, shown
from drawbridge.server.projects.approvals import Approvals
from drawbridge.server.projects.house import House
from drawbridge.server.projects.journal import Journal
from drawbridge.server.projects.questions import Asked, Questions
from drawbridge.server.projects.shown import SHOWN_PROMPT, joined, now
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.desk_messages import ASKS_NOTHING, DeskInfo, DeskState
from drawbridge.server.protocol.messages import Answer
from drawbridge.server.protocol.subscriber import Subscriber

logger = logging.getLogger("drawbridge.server")

ELSEWHERE = "answered elsewhere"


class Turn(Struct):
    id: str
    prompt: str
    began: float


class DeskSession:
    """``directory`` holds its metadata and its history. ``pid``: the agent's process, as far as known."""

    def __init__(self, directory: Path, data: metadata.Metadata, history: History, house: House) -> None:
        self.id = data.id
        self.path = Path(data.path)
        self.data = data
        self.history = history
        self.journal = Journal(directory, data, history, house)
        self.approvals = Approvals(self.id, self.journal, house.reviewers, self.answer)
        self.pid: int | None = None
        self.permission_mode: str | None = None
        self.ended = False
        self.turn: Turn | None = None
        self.last_text = ""
        """What the agent has said last."""
        self._lines: dict[str, list[Line]] = {}
        self._known: Latest[str, Asked] = Latest()
        self._calls: Latest[str, transcript.Call] = Latest()
        self.outcomes = Outcomes(read_file)
        self.prompts = Prompts(self, house.terminals)

    # What clients see.

    @property
    def questions(self) -> Questions:
        return self.approvals.questions

    @property
    def memory(self) -> records.Memory:
        return self.data.memory

    @property
    def state(self) -> DeskState:
        if self.ended:
            return "ended"
        if self.approvals:
            return "waiting"
        return "finished" if self.turn is None else "working"

    def info(self) -> messages.ProjectInfo:
        return messages.ProjectInfo(**self._info())

    def _info(self) -> dict[str, Any]:
        mode = self.permission_mode
        return {
            **shown.info(self.data, self.history, self.approvals),
            "state": "IDLE" if self.turn is None else "EXECUTING",
            "desk": DeskInfo(
                state=self.state, permission_mode=mode, asks=mode not in ASKS_NOTHING, prompts=self.prompts.taken
            ),
        }

    def snapshot(self) -> messages.ProjectJoined:
        run = self.turn and messages.RunInfo(run_id=self.turn.id, position=0, prompt=self.turn.prompt[:SHOWN_PROMPT])
        return joined(self._info(), run or None, [], self.approvals)

    def shown(self) -> messages.ProjectState:
        return messages.ProjectState(**self._info(), run_id=self.turn.id if self.turn else None)

    def publish_state(self) -> None:
        self.journal.publish(records.update_frame(self.id, "project_state", self.shown()), topic="projects")

    # What clients, and the person at an editor, decide.

    def answer(self, approval_id: str, decision: Decision, by: Subscriber) -> Answer:
        """The first answer is the agent's, unless it is answered at its own dialog in the same moment."""
        return self._answer(approval_id, decision, by, None)

    def answer_by(self, line: Line, approval_id: str, decision: Decision, by: Subscriber) -> None:
        """The same; the agent hears of it by ``line``, whose owner sees to that. Raises ``ClientError``."""
        self._answer(approval_id, decision, by, line)

    def _answer(self, approval_id: str, decision: Decision, by: Subscriber, told: Line | None) -> Answer:
        asked, answer = self.approvals.answer(approval_id, decision, by)
        lines = self._lines.pop(approval_id, [])
        if told is None and lines:
            told = lines[0]
            told.answer(asked, decision, by.name)
        for line in lines:
            if line is not told:
                line.settled()
        self.outcomes.add(asked, decision)
        self._changed()
        return answer

    # What the agent's hooks tell.

    def heard(self, event: hook_events.HookEvent, line: Line | None, proposal: Proposal | None) -> Asked | None:
        """``line`` and ``proposal`` go with a question; it is returned."""
        self.permission_mode = event.permission_mode or self.permission_mode
        self.ended = False
        match event.hook_event_name:
            case "SessionStart" if event.source != "compact":
                self._finish("completed", quiet=True)
            case "UserPromptSubmit":
                self._begin(event.prompt_id, self.prompts.begun(event.prompt_id, event.prompt))
            case "PermissionRequest" if line is not None:
                if asked := self.heard_again(line):
                    return asked
                self._begin(event.prompt_id)
                return self._ask(event, line, proposal)
            case "PostToolUse" | "PostToolUseFailure":
                self._begin(event.prompt_id)
                self._called(event.tool_name, event.tool_input, "ran", as_run=True)
            case "Stop":
                self._finish("completed")
            case "SessionEnd":
                self.end()
        self._changed()
        return None

    def end(self) -> None:
        """The agent's program is gone."""
        self._finish("interrupted")
        self.ended = True
        self._changed()

    def _begin(self, turn: str, prompt: str = "") -> None:
        """A turn of the agent, unless it is the one that goes on already."""
        turn = turn or (self.turn.id if self.turn else f"turn_{uuid.uuid4().hex[:16]}")
        if self.turn is None or self.turn.id != turn:
            self._finish("completed", quiet=True)
            self.turn = Turn(turn, prompt, time.monotonic())
            session = self.data.memory.session_id
            self.journal.event(records.STARTED, messages.RunStarted(turn, session, self.data.agent))
        self.turn.prompt = prompt or self.turn.prompt

    def _finish(self, outcome: messages.Outcome, *, quiet: bool = False) -> None:
        """``quiet``: what was over long ago; nobody needs to look up for it."""
        self.settle_all()
        self.outcomes.clear()
        if self.turn is None:
            return
        seconds = 0.0 if quiet else time.monotonic() - self.turn.began
        finished = messages.RunFinished(run_id=self.turn.id, outcome=outcome, duration_ms=int(seconds * 1000))
        self.turn = None
        self.journal.event(records.FINISHED, finished, topic="" if quiet else "projects")

    def _ask(self, event: hook_events.HookEvent, line: Line, proposal: Proposal | None) -> Asked:
        question = Question(
            question_id=uuid.uuid4().hex,
            tool_name=event.tool_name,
            input=event.tool_input,
            suggestions=claude_prompts.suggestions(event.tool_name, event.permission_suggestions),
            proposal=proposal,
        )
        return self.ask(question, line)

    def ask(self, question: Question, line: Line) -> Asked:
        """A question; ``line`` reaches who has asked it."""
        asked = Asked.new(question, self.turn.id if self.turn else "", now(), line.question)
        if line.question:
            self._known[line.question] = asked
        self.outcomes.asked_again(asked)
        self._lines[asked.approval.id] = [line]
        self.approvals.ask(asked, self.data.agent, besides=line.pid, offered=not line.in_editor)
        self._changed()
        return asked

    def join(self, asked: Asked, line: Line) -> None:
        """The same question was heard of in another way too."""
        if asked.approval.id in self._lines:
            self._lines[asked.approval.id].append(line)

    # What was asked before a restart.

    def carry_on(self, carried: Carried) -> None:
        """What waited then waits still, for an answer and for who has asked. Nobody is told anew."""
        for call in carried.calls:
            self._calls[call.id] = call
        for asked in carried.asked:
            self._known[asked.record.known_as] = asked
            awaited = Awaited(self.pid)
            self.approvals.carry_on(asked, self.data.agent, besides=self.pid, offered=not awaited.in_editor)
            if asked.approval.state is State.OPEN:
                self._lines[asked.approval.id] = [awaited]
                if asked.record.run_id:
                    self.turn = Turn(asked.record.run_id, "", time.monotonic())

    def knows(self, question: str) -> bool:
        return question in self._known

    def heard_again(self, line: Line) -> Asked | None:
        """The question that ``line`` comes with, if it was asked before: it waits on, or hears how it ended."""
        asked = self._known.get(line.question)
        if asked is None:
            return None
        self.ended = False
        given, by = asked.approval.answer_given, asked.approval.answered_by
        if lines := self._lines.get(asked.approval.id):
            lines[0] = line
        elif asked.approval.state is State.ANSWERED and given is not None and by is not None:
            self.outcomes.add(asked, given)
            line.answer(asked, given, by)
        else:
            line.settled()
        self._changed()
        return asked

    def await_no_longer(self) -> None:
        """Who has not come again by now has no question any more; should it come after all, it asks anew."""
        missed = [asked for asked in self.approvals if isinstance(self._lines[asked.approval.id][0], Awaited)]
        for asked in missed:
            self._known.pop(asked.record.known_as, None)
            self.settle(asked)
        if missed and self.pid is None and not self.approvals:
            self.ended = True
        self._changed()

    # How questions end at the desk.

    def settle(self, asked: Asked, reason: str = ELSEWHERE) -> None:
        """It was answered there, or ``reason``."""
        if self.approvals.withdraw(asked, reason):
            for line in self._lines.pop(asked.approval.id, ()):
                line.settled()

    def settle_all(self, reason: str = ELSEWHERE) -> None:
        for asked in self.approvals:
            self.settle(asked, reason)

    def gone(self, line: Line) -> None:
        """The agent hears nothing by this line any more: its dialog is closed, or the program is gone."""
        for asked in self.approvals:
            lines = self._lines.get(asked.approval.id, [])
            if line in lines:
                if lines[0] is line:
                    self.settle(asked)
                else:
                    lines.remove(line)
        self._changed()

    def _called(self, tool: str, given: Raw, fate: transcript.Fate, *, as_run: bool) -> None:
        """What became of a call: what was asked about it is settled, one way or the other."""
        for asked in self.approvals:
            if hook_events.same_call(asked.record, tool, hook_events.json_object(given), as_run=as_run):
                self.settle(asked)
        for overruled in self.outcomes.called(tool, given, fate, as_run=as_run):
            withdrawn = messages.PermissionWithdrawn(overruled.asked.approval.id, overruled.reason)
            self.journal.event(records.WITHDRAWN, withdrawn, topic="approvals")

    # What stands in the conversation's file.

    def told(self, entry: transcript.Entry, *, quiet: bool) -> None:
        """``quiet``: it was there before we came."""
        match entry:
            case transcript.Mode(mode):
                self.permission_mode = mode or self.permission_mode
            case transcript.Prompt():
                if self.turn is None or self.turn.id != entry.turn:
                    self._finish("completed", quiet=True)
                self._keep("client", self.prompts.record(entry))
                self._begin(entry.turn, self.prompts.recorded(entry))
            case transcript.Said():
                self._keep("claude", entry.data)
                self.last_text = entry.text or self.last_text
                for call in entry.calls:
                    self._calls[call.id] = call
                for result in entry.results:
                    if called := self._calls.pop(result.id, None):
                        self._called(called.name, called.input, result.fate, as_run=False)
                if entry.interrupted:
                    self._finish("interrupted", quiet=quiet)

    def _keep(self, direction: Any, message: bytes) -> None:
        if not self.journal.has_room(len(message)):
            return  # it was said as the limit was reached; the agent keeps its own record
        try:
            self.journal.write(direction, message)
        except DrawbridgeError as error:
            logger.error("%s: a line of the conversation can't be kept: %s", self.id, error)

    def _changed(self) -> None:
        self.data.last_active = now()
        self.publish_state()

    def close(self, reason: str) -> None:
        """The server ends: the agent goes on. A question that is heard of again waits for that, others are open at the desk
        only.
        """
        for asked in self.approvals:
            if not asked.record.known_as:
                self.settle(asked, reason)
        self.prompts.close()
        self.journal.save()
        self.approvals.let_go()
        self.turn = None
        self.history.close()
