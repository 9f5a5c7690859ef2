"""The Agent Client Protocol (version 1): lines in, events out; commands in, lines out.

Pure: ``AcpConversation`` is Drawbridge's side of the connection to one process with one session. Most kinds of updates
from the agent are passed on unchanged. Its text and its tool calls are converted by ``agents.lines`` (see ``acp.text``
and ``acp.shown``), and its permission requests become ``Question`` events. Measured with Gemini CLI 0.61.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.acp import messages as wire
from drawbridge.agents.acp import prompts, questions
from drawbridge.agents.acp.calls import REPORTS, Calls
from drawbridge.agents.acp.messages import Incoming, Params, Update, read_as
from drawbridge.agents.acp.opening import Opening, Request
from drawbridge.agents.acp.reports import KINDS, Reports
from drawbridge.agents.acp.shown import Shown
from drawbridge.agents.acp.text import Pieces, other_content, piece_of
from drawbridge.agents.base import (
    AgentLine,
    AgentRefused,
    AgentUnusable,
    Attachment,
    Broken,
    Decision,
    Exited,
    Launch,
    Output,
    QuestionCancelled,
    Replied,
    SessionIdentified,
    TurnEnded,
)
from drawbridge.agents.output import JUNK_LIMIT, Tail, session_id_of
from drawbridge.agents.proposals import Reader
from drawbridge.agents.results import (
    EXITED,
    FAILED,
    INTERRUPTED,
    Costs,
    Failure,
    amount,
    exit_words,
    not_logged_in,
    with_reason,
)
from drawbridge.core.errors import BadArgument
from drawbridge.protocols import jsonrpc

REPLAYED: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan")
"""The kinds of updates that the agent repeats when it opens an earlier session. The history already contains them."""

STOPPED: Final = {
    "max_tokens": "reached its token limit. Send a prompt to continue.",
    "max_turn_requests": "reached its limit of requests in one turn. Send a prompt to continue.",
    "refusal": "refused to continue.",
}

UNKNOWN_FLAG: Final = re.compile("(unknown|unrecognized|unexpected) (argument|option|flag)", re.IGNORECASE)

_Answered: TypeAlias = Callable[[Incoming, bytes], list[Output]]


class _OpenQuestion(Struct, frozen=True):
    id: jsonrpc.Id
    options: Raw


class AcpConversation:
    """The state of one process's session. The caller fetches the bytes to write with ``outgoing`` after every call,
    beginning with the constructor."""

    def __init__(self, name: str, launch: Launch, read: Reader, version: str) -> None:
        """``name``: the agent's display name. ``read``: reads a file that a question is about. ``version``:
        Drawbridge's version."""
        self._name = name
        self._read = read
        self._partial = launch.options.partial_messages
        self._opening = Opening(name, launch, version)
        self._steps = self._opening.steps()
        self._ready = False
        self._session_id = ""
        self._failure: Failure | None = None
        self._prompt: tuple[str, tuple[Attachment, ...]] | None = None
        self._turn_open = self._interrupted = False
        self._pieces = Pieces()
        self._costs = Costs(None if launch.resume or launch.fork_from else 0.0)
        self._calls = Calls()
        self._shown = Shown()
        self._reports = Reports(launch.state)
        self._questions: dict[str, _OpenQuestion] = {}
        self._asked = 0
        self._requests = 0
        self._answers: dict[int, _Answered] = {}
        self._waited_for: set[str] = set()
        self._out: list[bytes] = []
        self.junk = Tail(JUNK_LIMIT)
        """The last ``JUNK_LIMIT`` bytes of output that is not a message."""
        self._request(next(self._steps), self._opened)

    @property
    def turn_open(self) -> bool:
        return self._turn_open

    @property
    def busy(self) -> bool:
        return self._turn_open or bool(self._questions)

    @property
    def asks(self) -> bool:
        return bool(self._questions)

    def outgoing(self) -> bytes:
        data, self._out = b"".join(self._out), []
        return data

    # Messages from the agent.

    def received(self, line: bytes) -> list[Output]:
        line = line.strip(b" \t\r")
        if not line:
            return []
        read = wire.parsed(line)
        if read is None:
            self.junk.add(line + b"\n")
            return []
        message, data = read
        if isinstance(message.method, str):
            return self._reported(message, data) if message.id is None else self._wanted(message)
        is_answer = type(message.id) is int and (message.failed or message.succeeded)
        answer = self._answers.pop(message.id, None) if is_answer else None
        return [] if answer is None else answer(message, data)

    def _reported(self, message: Incoming, data: bytes) -> list[Output]:
        params = read_as(Params, message.params)
        line = AgentLine(data, session_id_of(params.sessionId) if params is not None else "")
        if message.method != "session/update" or params is None:
            return [*self._pieces.flush(), line]
        update = read_as(Update, params.update) or Update()
        about = self._reports.update(params.update) if update.sessionUpdate in KINDS else []
        match update.sessionUpdate:
            case "user_message_chunk":
                return []
            case kind if not self._ready and kind in REPLAYED:
                return about
            case "usage_update":
                if isinstance(update.cost, dict) and update.cost.get("currency") == "USD":
                    self._costs.add(amount(update.cost.get("amount")))
                return [msgspec.structs.replace(line, durable=False), *about]
            case "current_mode_update":
                self._opening.opened.in_mode(update.currentModeId)
                return [*self._pieces.flush(), line, *self._in_mode()]
            case "config_option_update":
                self._opening.opened.with_options(update.configOptions)
                return [*self._pieces.flush(), line, *self._in_mode(), *self._of_model()]
        session_id = session_id_of(params.sessionId)
        if (words := piece_of(update)) is not None:
            before, now = self._pieces.add(session_id, update, words)
            return [*before, *(now if self._partial else ())]
        outputs = self._pieces.flush()
        if update.sessionUpdate in REPORTS:
            return [*outputs, *self._called(session_id, params.update)]
        return [*outputs, other_content(session_id, update) or line, *about]

    def _called(self, session_id: str, update: Raw) -> list[AgentLine]:
        reported = self._calls.report(session_id, update)
        if reported is None:
            return []
        id, known = reported
        return self._shown.add(session_id, id, {name: read_as(object, value) for name, value in known.items()})

    def _in_mode(self) -> list[Output]:
        known = self._opening.current_mode() if self._ready else None
        return [] if known is None else [known]

    def _of_model(self) -> list[Output]:
        return self._reports.opened(self._opening.opened) if self._ready else []

    def _wanted(self, message: Incoming) -> list[Output]:
        """Handles a request from the agent. Only requests for permission are supported, because Drawbridge offers
        neither files nor terminals."""
        id = message.request_id
        if id is None:
            return []
        if message.method != "session/request_permission":
            self._out.append(wire.error(id, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {message.method[:200]}"))
            return []
        params = read_as(Params, message.params)
        if params is not None:
            session_id = session_id_of(params.sessionId)
            params.toolCall = self._calls.whole(session_id, params.toolCall)
        self._asked += 1
        key = f"question-{self._asked}"
        question = questions.question(key, params, self._read) if params else None
        if params is None or question is None:
            self._out.append(
                wire.error(
                    id, jsonrpc.INVALID_PARAMS, "Invalid params: the tool call or its options are missing or not valid."
                )
            )
            return []
        if self._interrupted or not self._turn_open:
            self._out.append(wire.result(id, questions.CANCELLED))
            return []
        self._questions[key] = _OpenQuestion(id, params.options)
        return [*self._pieces.flush(), question]

    def _opened(self, message: Incoming, data: bytes) -> list[Output]:
        """Handles the answer to one step of the opening."""
        outputs: list[Output] = []
        try:
            following = self._steps.send(message)
        except StopIteration:
            self._ready = True
        except AgentUnusable as error:
            self._failure = Failure(error.code, str(error))
            return [Broken(str(error))]
        else:
            self._request(following, self._opened)
        if self._opening.session_id and not self._session_id:
            self._session_id = self._opening.session_id
            outputs = [SessionIdentified(self._session_id), AgentLine(data)]
        return [*outputs, *self._in_mode(), *self._of_model(), *self._send_prompt()] if self._ready else outputs

    def _turn_answered(self, message: Incoming, data: bytes) -> list[Output]:
        outputs: list[Output] = [*self._pieces.flush(), AgentLine(data)]
        reason = "the run was interrupted" if self._interrupted else "the run ended without an answer"
        outputs += [QuestionCancelled(key, reason) for key in self._questions]
        self._cancel_questions()
        stopped = (read_as(dict[str, object], message.result) or {}).get("stopReason")
        if message.failed:
            failure: Failure | None = self._failed(wire.fault(message.error))
        elif stopped == "cancelled":
            failure = Failure(FAILED, INTERRUPTED)
        else:
            words = STOPPED.get(stopped) if isinstance(stopped, str) else None
            failure = Failure(FAILED, f"{self._name} {words}") if words else None
        interrupted = failure is not None and (self._interrupted or stopped == "cancelled")
        return [*outputs, self._turn_ended(failure, interrupted=interrupted)]

    def _failed(self, fault: wire.Fault) -> Failure:
        match fault.code:
            case wire.AUTH_REQUIRED:
                return not_logged_in(self._name, fault.reason)
            case wire.TOO_MANY_REQUESTS:
                text = with_reason(f"{self._name} has reached its usage limit", fault.reason)
                return Failure("AGENT_RATE_LIMITED", text)
        return Failure(FAILED, fault.reason or f"The run failed: {self._name} gave no reason.")

    def _turn_ended(self, failure: Failure | None, *, interrupted: bool = False) -> TurnEnded:
        self._turn_open = self._interrupted = False
        return TurnEnded(
            ok=failure is None,
            session_id=self._session_id or None,
            cost_usd=self._costs.since_last_call(),
            error=failure.text if failure else None,
            code=failure.code if failure else None,
            interrupted=interrupted,
        )

    def ended(self, code: int, stderr: str, fault: str | None) -> list[Output]:
        outputs: list[Output] = [*self._pieces.flush()]
        outputs += [Replied(id, f"{self._name} has ended.") for id in sorted(self._waited_for)]
        outputs += [QuestionCancelled(key, f"{self._name} has ended") for key in self._questions]
        self._waited_for.clear()
        self._questions.clear()
        if self._turn_open:
            failure = self._failure or self._died(code, stderr, fault)
            outputs.append(self._turn_ended(failure, interrupted=self._interrupted and fault is None))
        return [*outputs, Exited(code, stderr)]

    def _died(self, code: int, stderr: str, fault: str | None) -> Failure:
        words = "\n".join(stderr.splitlines()[-5:]) or self.junk.text
        if not self._ready and UNKNOWN_FLAG.search(words):
            text = f"{self._name} may be too old: it does not support an option that it was started with ({words})."
            return Failure("AGENT_TOO_OLD", f"{text[: wire.LONGEST_TEXT]} Update the agent.")
        how = exit_words(code)
        text = f"{self._name} {how} before it had finished{f': {words}' if words else ', without a message.'}"
        return Failure(FAILED if fault else EXITED, (fault or text)[: wire.LONGEST_TEXT])

    # Messages to the agent.

    def prompt(self, text: str, attachments: tuple[Attachment, ...] = ()) -> list[Output]:
        """Begins a turn. The prompt is sent once the session is open. Must not be called while another turn is open."""
        if self._turn_open:
            raise RuntimeError("another prompt is still being processed")
        self._turn_open, self._interrupted = True, False
        self._prompt = (text, attachments)
        return self._send_prompt() if self._ready else []

    def _send_prompt(self) -> list[Output]:
        if self._prompt is None:
            return []
        (text, attachments), self._prompt = self._prompt, None
        if self._interrupted:
            return [self._turn_ended(Failure(FAILED, INTERRUPTED), interrupted=True)]
        try:
            content = prompts.content(text, attachments, self._opening.abilities.prompts)
        except BadArgument as error:
            return [self._turn_ended(Failure("VALIDATION_FAILED", str(error)))]
        self._request(
            Request("session/prompt", {"sessionId": self._session_id, "prompt": content}), self._turn_answered
        )
        return []

    def answer(self, question_id: str, decision: Decision) -> None:
        """Sends the answer to a question. Does nothing if the question is no longer open."""
        asked = self._questions.pop(question_id, None)
        if asked is not None:
            self._out.append(wire.result(asked.id, questions.outcome(asked.options, decision)))

    def interrupt(self) -> None:
        if not self._turn_open or self._interrupted:
            return
        self._interrupted = True
        if self._prompt is None:
            self._out.append(wire.notification("session/cancel", {"sessionId": self._session_id}))
            self._cancel_questions()

    def _cancel_questions(self) -> None:
        self._out += [wire.result(asked.id, questions.CANCELLED) for asked in self._questions.values()]
        self._questions.clear()

    def set_mode(self, mode: str) -> str:
        """Asks the agent to switch to ``mode``. Returns the id of the ``Replied`` that follows. Raises ``AgentRefused``
        if the agent is still starting or does not have the mode."""
        return self._set("mode", mode)

    def set_model(self, model: str) -> str:
        return self._set("model", model)

    def _set(self, what: str, wanted: str) -> str:
        if not self._ready:
            raise AgentRefused(f"{self._name} is still starting")
        id = f"request-{self._requests + 1}"

        def replied(message: Incoming, data: bytes) -> list[Output]:
            self._waited_for.discard(id)
            if message.failed:
                return [Replied(id, wire.fault(message.error).reason or f"{self._name} gave no reason.")]
            if what == "mode":
                self._opening.opened.in_mode(request.params[value])
                return [Replied(id, None)]
            self._opening.opened.with_model(wanted)
            return [*self._of_model(), Replied(id, None)]

        request = self._opening.choice(what, wanted)
        value = "modeId" if "modeId" in request.params else "value"
        self._request(request, replied)
        self._waited_for.add(id)
        return id

    def _request(self, request: Request, answered: _Answered) -> None:
        self._requests += 1
        self._answers[self._requests] = answered
        self._out.append(wire.request(self._requests, request.method, request.params))
