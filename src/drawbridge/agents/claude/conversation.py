"""The stream of ``claude``: lines in, events out; commands in, lines out.

Pure: ``ClaudeConversation`` is Drawbridge's side of one process, fed by the module that owns the pipes. The format is
the CLI's ``stream-json`` with ``--permission-prompt-tool stdio``, measured with 2.1.329. A message of an unknown type
is passed on unchanged, since the CLI often adds new types. Only control messages of unknown types are ignored. Nothing
relies on the order of keys.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents import output
from drawbridge.agents.base import (
    AgentLine,
    AgentRefused,
    AgentState,
    AskedBy,
    Attachment,
    Decision,
    DirectoryChanged,
    Exited,
    ModeChanged,
    NotAtWork,
    Output,
    Question,
    QuestionCancelled,
    Replied,
    SessionIdentified,
    Tokens,
    TurnBegun,
    TurnEnded,
    Unread,
)
from drawbridge.agents.claude import prompts, results
from drawbridge.agents.claude.edits import changes_file, proposal
from drawbridge.agents.claude.prompts import LONGEST_NAME, LONGEST_PATH, LONGEST_REASON, words
from drawbridge.agents.claude.reports import TODO_TOOL, Reports
from drawbridge.agents.claude.schedule import SCHEDULING, Schedule
from drawbridge.agents.claude.suggestions import offered
from drawbridge.agents.output import JUNK_LIMIT, Tail, json_object, session_id_of, valid
from drawbridge.agents.proposals import Reader
from drawbridge.agents.results import EXITED, FAILED, INTERRUPTED, Costs, Failure, exit_words
from drawbridge.core.errors import BadArgument
from drawbridge.core.json_text import UNDECODABLE

NOT_NEEDED: Final = "decided elsewhere or no longer needed"
"""The reason why Claude Code no longer waits for an answer. It does not report which of the two it is."""

SUBAGENTS_KNOWN: Final = 1_000

LONGEST_MODE: Final = 100
"""The maximum length of a mode's name, in characters. A longer name is ignored."""


EPHEMERAL: Final = ("stream_event", "command_lifecycle", "tool_progress")
EPHEMERAL_SYSTEM: Final = ("status", "task_progress", "hook_progress", "session_state_changed")
"""The kinds of lines, and of lines of type ``system``, that do not belong in the history. Anything permanent in them is
repeated in a later line."""


class Message(Struct, gc=False):
    """The fields that are read from every line. Their values may be anything. Other fields are only checked to be JSON.
    JSON values have no reference cycles, so the garbage collector does not need to track them."""

    type: Any = None
    subtype: Any = None
    session_id: Any = None
    request_id: Any = None
    request: Raw = Raw(b"null")
    response: Raw = Raw(b"null")
    tasks: Raw = Raw(b"null")
    error: Any = None
    state: Any = None
    task_id: Any = None
    subagent_type: Any = None
    command_uuid: Any = None
    cwd: Any = None
    parent_tool_use_id: Any = None
    mode: Any = msgspec.field(name="permissionMode", default=None)

    @property
    def is_ephemeral(self) -> bool:
        return self.type in EPHEMERAL or (self.type == "system" and self.subtype in EPHEMERAL_SYSTEM)


class _Request(Struct):
    subtype: str = ""
    tool_name: str = ""
    input: Raw = Raw(b"null")
    permission_suggestions: Raw = Raw(b"[]")
    agent_id: Any = None
    agent_type: Any = None
    decision_reason: Any = None
    blocked_path: Any = None


class _Reply(Struct):
    request_id: str
    subtype: str
    error: Any = None
    response: Raw = Raw(b"null")


class _OpenQuestion(Struct, frozen=True):
    tool_name: str
    input: Raw
    suggestions: Raw


class _Move(Struct):
    worktreePath: Any = None  # noqa: N815 - the CLI's own names
    restoredCwd: Any = None  # noqa: N815
    agentId: Any = None  # noqa: N815
    """The id of a subagent, in the result of the call that started it. The worktree in such a result is the
    subagent's."""


class _Moves(Struct):
    tool_use_result: _Move


WORKTREE: Final = b'"worktreePath"'
"""A line of type ``user`` is decoded to look for a change of directory only if it contains these bytes."""

_moves: Final = msgspec.json.Decoder(_Moves)
_message: Final = msgspec.json.Decoder(Message)
_request: Final = msgspec.json.Decoder(_Request)
_reply: Final = msgspec.json.Decoder(_Reply)


def parsed(line: bytes) -> tuple[Message, bytes] | None:
    """See ``output.parsed``."""
    return output.parsed(line, _message)


class ClaudeConversation:
    """The state of one process's stream. The caller fetches the bytes to write with ``outgoing`` after every call."""

    def __init__(
        self,
        name: str,
        read: Reader,
        *,
        resumed: bool,
        state: AgentState | None = None,
        jobs: Mapping[str, float] | None = None,
    ) -> None:
        """``name``: the agent's display name. ``read``: reads a file that a question is about. ``state``: as in
        ``Launch``. ``jobs``: as in ``Schedule``."""
        self._name = name
        self._read = read
        self._costs = Costs(None if resumed else 0.0)
        self._tokens: Tokens | None = None
        """The tokens used since the end of the previous turn; None if none were reported."""
        self._session_id: str | None = None
        self._can_be_resumed = resumed
        self._prompt_id: str | None = None
        self._taken = False
        self._interrupted = False
        self._own_turn = False
        self._begun_alone = False
        """Whether a turn without a prompt has begun and has not ended."""
        self._in_background = False
        self._state: object = None
        """The state that the CLI reports: "running", "requires_action" or "idle"; None if it reports none."""
        self._had_tasks = False
        """Whether a subagent or background command was running when the prompt was sent, or has run since. If so, the
        turn's first result might not be its last.
        """
        self._last_result: tuple[Failure | None, bool] | None = None
        """The last result of the open turn: its failure (None if it succeeded), and whether it was interrupted. The
        turn ends once the session is idle."""
        self._api_error: str | None = None
        self._limited: float | None = None
        self._questions: dict[str, _OpenQuestion] = {}
        self._steered = False
        """Whether a message was added to the turn. If so, the turn's first result might not be its last."""
        self._reports = Reports(state)
        self._schedule = Schedule(jobs)
        self._directory: str | None = None
        """The directory in which the agent works, if it has been reported."""
        self._last_answer: bytes | None = None
        """The main agent's latest answer, as a line. The size of the context is read from it. None before the first
        answer and after a compaction."""
        self._retrying = False
        self._efforts: dict[str, str] = {}
        """Maps the id of a command that sets the effort to that effort."""
        self._initialize: str | None = None
        """The id of the ``initialize`` command, until it is answered."""
        self._subagents: dict[str, str] = {}
        """Maps the id of a task, which is also the subagent's id, to the subagent's type. Only the latest are kept."""
        self._waited_for: set[str] = set()
        self._requests = 0
        self._out: list[bytes] = []
        self.junk = Tail(JUNK_LIMIT)
        self.junk_lines = 0
        """The number of lines that are not messages."""

    @property
    def turn_open(self) -> bool:
        return self._prompt_id is not None or self._begun_alone

    @property
    def busy(self) -> bool:
        return self.turn_open or self._own_turn or self._in_background or bool(self._questions)

    @property
    def asks(self) -> bool:
        return bool(self._questions)

    def outgoing(self) -> bytes:
        """The bytes to write now."""
        data, self._out = b"".join(self._out), []
        return data

    # Messages from the agent.

    def received(self, line: bytes) -> list[Output]:
        """Handles one line, without its newline."""
        line = line.strip(b" \t\r")
        if not line:
            return []
        read = parsed(line)
        if read is None:
            self.junk_lines += 1
            self.junk.add(line + b"\n")
            return []
        message, data = read
        match message.type:
            case "assistant":  # this is the first case, because it is the most frequent type
                return [AgentLine(data, session_id_of(message.session_id)), *self._answered(message, data)]
            case "control_request":
                return self._asked(message)
            case "control_cancel_request":
                return self._cancelled(message.request_id)
            case "control_response":
                return self._replied(message)
            case "keep_alive":
                return []
            case str() as kind if kind.startswith("control_"):
                return []
            case _:
                return self._passed_on(message, data)

    def ended(self, code: int, stderr: str, fault: str | None) -> list[Output]:
        """Handles the end of the process. ``fault``: as in ``Dialect.ended``. Closes everything that is open, and
        returns the last events."""
        outputs: list[Output] = [Replied(id, f"{self._name} has ended.") for id in self._waited_for]
        outputs += [QuestionCancelled(id, f"{self._name} has ended") for id in self._questions]
        self._questions.clear()
        self._waited_for.clear()
        outputs += [*self._reports.ended(), *self._schedule.ended()]
        if self.turn_open:
            outputs.append(self._died(code, stderr, fault))
        outputs.append(Exited(code, stderr))
        self._own_turn = self._in_background = False
        return outputs

    def _passed_on(self, message: Message, data: bytes) -> list[Output]:
        """Passes a line on to clients, with the events that follow from it. Most lines cause no events, and are not
        decoded again."""
        line = AgentLine(data, session_id_of(message.session_id), durable=not message.is_ephemeral)
        match message.type:
            case "stream_event":
                return [line, *self._retried()] if self._retrying else [line]
            case "user":
                moved = self._moved(data) if message.parent_tool_use_id is None else []
                return [line, *self._schedule.answered(data), *moved]
            case "system":
                return [line, *self._system(message, data)]
            case "result":
                return [line, *self._retried(), *self._result(data)]
            case "command_lifecycle" if message.command_uuid == self._prompt_id:
                self._taken = message.state in ("completed", "cancelled")
                if message.state == "started" and self._interrupted:
                    self._command(subtype="interrupt")  # the first interrupt ended only the CLI's own turn (2.1.329)
            case "rate_limit_event":
                self._limited = results.limited_until(data)
        return [line]

    def _answered(self, message: Message, data: bytes) -> list[Output]:
        """Handles an answer from the model."""
        self._api_error = message.error if isinstance(message.error, str) else None
        found = self._retried()
        if any(tool in data for tool in SCHEDULING):
            self._schedule.called(data)
        if message.parent_tool_use_id is None:
            self._last_answer = data
            if TODO_TOOL in data:
                found += self._reports.todo_list(data)
        return found

    def _retried(self) -> list[Output]:
        """Reports the end of a retry, if one was reported."""
        if not self._retrying:
            return []
        self._retrying = False
        return self._reports.answered()

    def _system(self, message: Message, data: bytes) -> list[Output]:
        found = self._reports.system(message.subtype, data)
        match message.subtype:
            case "init":
                begun = self._begun()
                there = [*self._in_session(message.session_id), *self._in_mode(message.mode)]
                return [*found, *there, *begun, *self._in_directory(message.cwd), *self._schedule.begun()]
            case "session_state_changed":
                return [*found, *self._in_state(message.state)]
            case "status":
                return [*found, *self._in_mode(message.mode)]
            case "background_tasks_changed":
                self._in_background = bytes(message.tasks) not in (b"[]", b"null")
                self._had_tasks = True
            case "task_started":
                self._started(message)
            case "api_retry":
                self._retrying = True
            case "compact_boundary":
                self._last_answer = None
        return found

    def _started(self, message: Message) -> None:
        task, kind = message.task_id, message.subagent_type
        if isinstance(task, str) and isinstance(kind, str):
            self._subagents[task[:LONGEST_NAME]] = kind[:LONGEST_NAME]
            if len(self._subagents) > SUBAGENTS_KNOWN:
                del self._subagents[next(iter(self._subagents))]

    def _begun(self) -> list[Output]:
        """Handles the beginning of a turn. Returns ``TurnBegun`` for a turn that the CLI began itself, but only if the
        CLI has reported that it is working, because otherwise the end of that turn would not be known."""
        self._own_turn = self._prompt_id is None
        if not self._own_turn or self._begun_alone or self._state in (None, "idle"):
            return []
        self._begun_alone, self._interrupted = True, False
        return [TurnBegun()]

    def _in_state(self, state: object) -> list[Output]:
        self._state = state
        if state != "idle" or (self._last_result is None and not self._begun_alone):
            return []
        failure, interrupted = self._last_result or (None, False)
        if self._interrupted:
            failure, interrupted = Failure(FAILED, INTERRUPTED), True
        return [self._turn_ended(failure, interrupted=interrupted)]

    def _in_session(self, session_id: object) -> list[Output]:
        if not isinstance(session_id, str) or not session_id or session_id == self._session_id:
            return []
        self._session_id = session_id
        return [SessionIdentified(session_id)]

    def _in_mode(self, mode: object) -> list[Output]:
        return [ModeChanged(mode)] if isinstance(mode, str) and 0 < len(mode) <= LONGEST_MODE else []

    def _moved(self, data: bytes) -> list[Output]:
        """Reports the directory if this is the result of a call by which the agent entered or left a git worktree."""
        if WORKTREE not in data:
            return []
        try:
            result = _moves.decode(data).tool_use_result
        except UNDECODABLE:
            return []
        return self._in_directory(result.restoredCwd or result.worktreePath) if result.agentId is None else []

    def _in_directory(self, directory: object) -> list[Output]:
        found = words(directory, LONGEST_PATH)
        if found is None or not found.startswith("/") or "\0" in found or found == self._directory:
            return []
        self._directory = found
        return [DirectoryChanged(found)]

    def _result(self, data: bytes) -> list[Output]:
        try:
            result = json_object(data)
        except (ValueError, RecursionError):
            result = {}
        results.add_costs(self._costs, result)
        reported = self._reports.result(result, self._last_answer)
        self._tokens = results.added(self._tokens, results.tokens(result))
        self._can_be_resumed = self._session_id is not None
        is_of_prompt = self._is_of_prompt(result)
        if not is_of_prompt:
            self._own_turn = False
            if self._last_result is None and not self._begun_alone:
                return reported
        failure = results.failure(self._name, result, self._api_error, self._limited)
        interrupted = failure is not None and (self._interrupted or results.was_aborted(result))
        if interrupted:
            failure = Failure(FAILED, INTERRUPTED)
        may_continue = self._had_tasks or self._steered
        if is_of_prompt and (self._state in (None, "idle") or not may_continue):
            return [*reported, self._turn_ended(failure, interrupted=interrupted)]
        self._last_result = failure, interrupted
        return reported

    def _is_of_prompt(self, result: Mapping[str, Any]) -> bool:
        """Whether a result belongs to the open turn's prompt. The CLI also begins turns on its own, and may answer a
        prompt that arrives during such a turn in the same turn (2.1.329)."""
        if self._prompt_id is None:
            return False
        answered = result.get("user_message_uuids")
        named = isinstance(answered, list) and self._prompt_id in answered
        return named or self._taken or not isinstance(result.get("origin"), dict)

    def _turn_ended(self, failure: Failure | None, *, interrupted: bool = False) -> TurnEnded:
        self._prompt_id = self._last_result = None
        self._taken = self._interrupted = self._own_turn = self._begun_alone = False
        self._api_error = None
        tokens, self._tokens = self._tokens, None
        return TurnEnded(
            ok=failure is None,
            session_id=self._session_id if self._can_be_resumed else None,
            cost_usd=self._costs.since_last_call(),
            error=failure.text if failure else None,
            code=failure.code if failure else None,
            retry_at=failure.retry_at if failure else None,
            interrupted=interrupted,
            tokens=tokens,
        )

    def _died(self, code: int, stderr: str, fault: str | None) -> TurnEnded:
        reason = "\n".join(stderr.splitlines()[-5:]) or self.junk.text
        text = fault or f"{self._name} {exit_words(code)} before it had finished" + (
            f": {reason}" if reason else ", without a message."
        )
        failure = results.explained(self._name, reason) or Failure(
            FAILED if fault else EXITED, text[: results.LONGEST_ERROR]
        )
        return self._turn_ended(failure, interrupted=self._interrupted and fault is None)

    # Questions from the agent.

    def _asked(self, message: Message) -> list[Output]:
        id = message.request_id
        if not isinstance(id, str):
            return []
        try:
            request = _request.decode(message.request)
            question = self._question(id, request)
            # Without the server's limits: a number in the input may be out of its range.
            given = json_object(request.input) if question.given is None else question.given
        except (ValueError, *UNDECODABLE):
            self._reply_error(id, "This request could not be parsed.")
            return []
        if request.subtype != "can_use_tool":
            self._reply_error(id, f"Unsupported control request subtype: {request.subtype}")
            return []
        if not request.tool_name:
            self._reply_error(id, "The request does not name a tool.")
            return []
        self._questions[id] = _OpenQuestion(request.tool_name, request.input, question.suggestions)
        if not changes_file(request.tool_name):
            return [question]
        return [Unread(question, partial(proposal, request.tool_name, given, self._read))]

    def _question(self, id: str, request: _Request) -> Question:
        suggestions = request.permission_suggestions
        if not bytes(suggestions).startswith(b"["):
            suggestions = Raw(b"[]")
        return Question(
            id,
            request.tool_name,
            request.input,
            offered(request.tool_name, suggestions),
            asked_by=self._asked_by(request),
            reason=words(request.decision_reason, LONGEST_REASON),
            blocked_path=words(request.blocked_path, LONGEST_PATH),
        )

    def _asked_by(self, request: _Request) -> AskedBy | None:
        id = words(request.agent_id, LONGEST_NAME)
        if id is None:
            return None
        return AskedBy(id, words(request.agent_type, LONGEST_NAME) or self._subagents.get(id))

    def _cancelled(self, question_id: object) -> list[Output]:
        if not isinstance(question_id, str) or self._questions.pop(question_id, None) is None:
            return []
        return [QuestionCancelled(question_id, "the run was interrupted" if self._interrupted else NOT_NEEDED)]

    def answer(self, question_id: str, decision: Decision) -> None:
        """Sends the answer to a question; does nothing if the question is no longer open."""
        asked = self._questions.pop(question_id, None)
        if asked is None:
            return
        reply = prompts.verdict(decision, asked.tool_name, asked.input, asked.suggestions)
        response = {"subtype": "success", "request_id": question_id, "response": reply}
        self._write({"type": "control_response", "response": response})

    def _reply_error(self, request_id: str, text: str) -> None:
        response = {"subtype": "error", "request_id": request_id, "error": text}
        self._write({"type": "control_response", "response": response})

    # Messages to the agent.

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> list[Output]:
        """Begins a turn. Returns its end if an attachment can't be sent. Raises ``RuntimeError`` while the turn of
        another prompt is open."""
        if self._prompt_id is not None:
            raise RuntimeError("another prompt is still being processed")
        self._prompt_id = str(uuid.uuid4())
        self._interrupted = self._taken = self._begun_alone = False
        self._had_tasks, self._last_result = self._in_background, None
        self._steered = False
        try:
            content = prompts.content(text, attachments)
        except BadArgument as error:
            return [self._turn_ended(Failure("VALIDATION_FAILED", str(error)))]
        message = {"role": "user", "content": content}
        self._write({"type": "user", "message": message, "parent_tool_use_id": None, "uuid": self._prompt_id})
        return []

    def steer(self, text: str, attachments: tuple[Attachment, ...], record: Callable[[], None]) -> None:
        """See ``AgentProcess.steer``. The CLI merges the message into the turn at the next tool result, or begins
        another turn with it after this one. Either way, it reports "idle" only once both this turn and the message have
        been handled (2.1.329).
        """
        if self._session_id is None:  # it is not known yet what the CLI accepts
            raise NotAtWork(f"{self._name} is still starting")
        if not self._reports.steers:
            raise AgentRefused(f"{self._name} does not accept messages while it is working")
        if not self.turn_open or self._interrupted or self._state in (None, "idle"):
            raise NotAtWork(f"{self._name} is not working")
        message = {"role": "user", "content": prompts.content(text, attachments)}
        record()
        self._write({"type": "user", "message": message, "parent_tool_use_id": None, "uuid": str(uuid.uuid4())})
        self._steered = True

    def interrupt(self) -> None:
        if self.busy:
            self._interrupted = self.turn_open
            # Without ``cancel_queued``, the CLI would begin another turn with a message that was added to the
            # interrupted turn.
            also = {"cancel_queued": True} if self._steered else {}
            self._command(subtype="interrupt", **also)

    def initialize(self) -> None:
        """Requests the commands, subagents and models, with their descriptions. Nothing waits for the answer."""
        self._initialize = self._command(subtype="initialize")

    def set_mode(self, mode: str) -> str:
        """Returns the id of the ``Replied`` that follows."""
        return self._command_waited_for(subtype="set_permission_mode", mode=valid(mode))

    def set_model(self, model: str) -> str:
        """Returns the id of the ``Replied`` that follows."""
        return self._command_waited_for(subtype="set_model", model=valid(model))

    def set_effort(self, effort: str) -> str:
        """Returns the id of the ``Replied`` that follows."""
        id = self._command_waited_for(subtype="apply_flag_settings", settings={"effortLevel": valid(effort)})
        self._efforts[id] = effort
        return id

    def _command_waited_for(self, **request: object) -> str:
        id = self._command(**request)
        self._waited_for.add(id)
        return id

    def _command(self, **request: object) -> str:
        self._requests += 1
        id = f"drawbridge-{self._requests}"
        self._write({"type": "control_request", "request_id": id, "request": request})
        return id

    def _replied(self, message: Message) -> list[Output]:
        try:
            reply = _reply.decode(message.response)
        except UNDECODABLE:
            return []
        if reply.request_id == self._initialize:
            self._initialize = None
            return self._reports.initialized(reply.response)
        if reply.request_id not in self._waited_for:
            return []
        self._waited_for.discard(reply.request_id)
        effort = self._efforts.pop(reply.request_id, None)
        given = reply.error if isinstance(reply.error, str) else ""
        error = None if reply.subtype == "success" else given or f"{self._name} gave no reason."
        reported = self._reports.effort_set(effort) if effort is not None and error is None else []
        return [Replied(reply.request_id, error), *reported]

    def _write(self, message: Mapping[str, Any]) -> None:
        """Queues a message as one line of JSON. It must be valid, because the CLI exits if it can't parse a line."""
        self._out.append(msgspec.json.encode(message) + b"\n")
