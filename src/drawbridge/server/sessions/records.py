"""What a project's history holds, how a client sees each record, and what the server remembers of it. Pure.

Three directions: ``client`` (a person's prompt), ``claude`` (an agent's line, its own bytes; the word is the
specification's) and ``server``: ``{"type": "system", "subtype": <what>, "message": {…}}``. A client sees the same
frame live and in a replay, since both are made from the record. ``Memory`` is what follows from all records up to
``seq``; it is saved now and then and brought up to date by reading on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from drawbridge.agents.base import AskedBy, Proposal
from drawbridge.server.protocol import messages
from drawbridge.server.protocol.messages import Answer
from drawbridge.server.protocol.preview import shortened
from drawbridge.server.protocol.subscriber import Frame
from drawbridge.server.sessions.budgets import day_of, forget_old

REMEMBERED_REQUESTS: Final = 500

REMEMBERED_VERDICTS: Final = 50

SHOWN_TEXT: Final = 150_000
"""The longest edited text, in characters, that clients get with the answer. As JSON it may be six times as long."""

LONGEST_ID: Final = 200
"""Characters of an agent's id of a conversation; what is longer is none."""

NOTHING: Final = Raw(b"null")

QUESTION: Final = "permission_request"
RESOLVED: Final = "permission_resolved"
WITHDRAWN: Final = "permission_withdrawn"
STARTED: Final = "run_started"
FINISHED: Final = "run_finished"
RESET: Final = "session_reset"
SESSION: Final = "session_changed"
KILLED: Final = "execution_killed"
REVERTED: Final = "run_reverted"

NOT_OURS: Final = (msgspec.MsgspecError, AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""What reading a record raises that somebody else has written into the log."""


class Written(Struct):
    """A line of the log."""

    seq: int
    timestamp: str
    direction: str
    message: Raw


_written = msgspec.json.Decoder(Written)
_encode = msgspec.json.Encoder().encode


def prompt(run_id: str, text: str, by: str, request_id: str | None, attachments: tuple[str, ...]) -> bytes:
    """A person's prompt, as the history keeps it; ``message.prompt`` is where the specification has it."""
    message: dict[str, Any] = {"type": "user", "message": {"prompt": text}, "run_id": run_id, "by": by}
    if request_id is not None:
        message["request_id"] = request_id
    if attachments:
        message["attachments"] = attachments
    return _encode(message)


def event(what: str, fields: Any) -> bytes:
    """Something that the server did or saw."""
    return _encode({"type": "system", "subtype": what, "message": fields})


def frame(project_id: str, line: bytes) -> Frame:
    """What a client is sent for a line of the log."""
    written = _written.decode(line)
    message = bytes(written.message)
    if written.direction == "server":
        data = _server_frame(project_id, written, msgspec.json.decode(message, type=_OfServer))
    else:
        data = messages.agent_message(
            message,
            project_id=project_id,
            session_id=msgspec.json.decode(message, type=_OfSession).id,
            direction="client" if written.direction == "client" else "claude",
            timestamp=written.timestamp,
            seq=written.seq,
        )
    return Frame(data, project_id=project_id, seq=written.seq)


class _OfSession(Struct):
    """Where an agent's line says which conversation it is of: Claude Code's way, or the Agent Client Protocol's."""

    session_id: Any = None
    params: Any = None

    @property
    def id(self) -> str:
        named = self.params.get("sessionId") if isinstance(self.params, dict) else self.session_id
        return named if isinstance(named, str) and len(named) <= LONGEST_ID else ""


class _OfServer(Struct):
    subtype: str
    message: Raw


class Asked(Struct, omit_defaults=True):
    """What the history keeps of a question. ``known_as``: by that it is the same one when it is said again."""

    approval_id: str
    run_id: str
    tool_name: str
    input: Raw
    suggestions: Raw
    proposal: Proposal | None = None
    changeable: bool = True
    known_as: str = ""
    link_targets: dict[str, str] = {}
    asked_by: AskedBy | None = None
    reason: str | None = None
    blocked_path: str | None = None

    @property
    def agent_id(self) -> str | None:
        """The subagent that asks; None for the main agent."""
        return self.asked_by.agent_id if self.asked_by else None

    @property
    def given(self) -> dict[str, Any] | None:
        """``input``; None where it is no object, or holds what can't be read (a number that is out of range)."""
        try:
            found = msgspec.json.decode(bytes(self.input))
        except (msgspec.MsgspecError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class Resolved(Struct, omit_defaults=True):
    """The record of an answer. It is complete, for an agent that has not received it yet.

    ``client_id``, ``edited`` and ``new_text`` (of at most ``SHOWN_TEXT``) are as in ``PermissionResolved``.
    """

    approval_id: str
    by: str
    decision: Literal["allow", "deny"]
    message: str | None = None
    updated_input: Raw = NOTHING
    remember: bool = False
    client_id: str | None = None
    edited: bool = False
    new_text: str | None = None

    @property
    def shown(self) -> messages.PermissionResolved:
        """The part for clients, in a frame of at most ``FRAME_BYTES``. An edit that does not fit beside the message is left
        out; a message that does not fit is cut.
        """
        message = shortened(_encode(self.message), messages.FRAME_BYTES - messages.ROOM)
        room = messages.FRAME_BYTES - messages.ROOM - len(message)
        given = self.updated_input if self.edited and self.new_text is None else None
        return messages.PermissionResolved(
            approval_id=self.approval_id,
            by=self.by,
            decision=self.decision,
            message=msgspec.json.decode(message),
            client_id=self.client_id,
            edited=self.edited,
            new_text=self.new_text if len(_encode(self.new_text)) <= room else None,
            updated_input=given if given is not None and len(bytes(given)) <= min(SHOWN_TEXT, room) else None,
        )


def _server_frame(project_id: str, written: Written, said: _OfServer) -> bytes:
    if said.subtype == QUESTION:
        asked = msgspec.json.decode(bytes(said.message), type=Asked)
        data: Any = question(project_id, asked, written.timestamp, written.seq)
        return messages.encode(Answer(type=QUESTION, project_id=project_id, seq=written.seq, data=data))
    return messages.update(said.subtype, _shown(said), project_id, written.seq)


def _shown(said: _OfServer) -> Any:
    """An update in the form for clients."""
    if said.subtype == RESOLVED:
        return msgspec.json.decode(bytes(said.message), type=Resolved).shown
    return said.message


def question(
    project_id: str, asked: Asked, created_at: str, seq: int, limit: int = messages.FRAME_BYTES - messages.ROOM
) -> Any:
    """A question as clients are shown it: a ``PermissionRequest``, or the JSON of its preview where it is too large."""
    proposal = asked.proposal
    shown = messages.PermissionRequest(
        **{name: getattr(asked, name) for name in ("approval_id", "run_id", "tool_name", "input", "suggestions")},
        created_at=created_at,
        seq=seq,
        proposal=messages.ProposalOf(proposal.path, proposal.old_text, proposal.new_text) if proposal else None,
        changeable=asked.changeable,
        link_targets=asked.link_targets,
        asked_by=asked.asked_by,
        reason=asked.reason,
        blocked_path=asked.blocked_path,
    )
    whole = _encode(shown)
    if len(whole) <= limit:
        return shown
    blob = _encode(messages.Truncated(messages.history_blob(project_id, seq), len(whole)))
    return Raw(shortened(whole, limit)[:-1] + b',"truncated":' + blob + b"}")


def line_frame(project_id: str, data: bytes, session_id: str) -> Frame:
    """An agent's line that is not kept: partial text and its like."""
    whole = messages.agent_message(data, project_id=project_id, session_id=session_id)
    return Frame(whole, ephemeral=True, project_id=project_id)


def unkept_frame(project_id: str, what: str, message: bytes) -> Frame:
    """An ``event`` that the history did not take: as it would have been, without a number."""
    said = msgspec.json.decode(message, type=_OfServer)
    if what == QUESTION:
        asked = msgspec.json.decode(bytes(said.message), type=Asked)
        fields = question(project_id, asked, "", 0)
        return Frame(messages.encode(Answer(type=QUESTION, project_id=project_id, data=fields)), project_id=project_id)
    return update_frame(project_id, what, _shown(said))


def update_frame(project_id: str, what: str, fields: Any) -> Frame:
    """An ``update`` that is not kept."""
    return Frame(messages.update(what, fields, project_id), project_id=project_id)


def request_key(request_id: str, text: str) -> str:
    """Who numbers its requests gives a number again once it has come back: only with the same prompt it is a repetition."""
    return f"{request_id} {blake2b(text.encode(), digest_size=8).hexdigest()}"


class Verdict(Struct, frozen=True, omit_defaults=True):
    """What became of a question: ``by`` whom and how (``decision``) it was answered, or the ``reason`` it was taken back."""

    by: str | None = None
    decision: str | None = None
    reason: str | None = None
    client_id: str | None = None


class Memory(Struct):
    """What follows from the records up to ``seq``."""

    seq: int = 0
    session_id: str = ""
    unfinished: dict[str, str] = {}
    """run → who asked for it, in the order of asking."""
    requests: dict[str, str] = {}
    """``request_key`` → run, the newest last."""
    approvals: dict[str, str] = {}
    """Those that wait → their run."""
    verdicts: dict[str, Verdict] = {}
    """Of those that were settled, the newest last."""
    unproven: bool = False
    """No run of the conversation has completed yet: the agent may have ended before it wrote the conversation down."""
    agent: str = ""
    """Whose conversation ``session_id`` is; empty: not known."""
    last_outcome: str | None = None
    cost_usd: float = 0.0
    days: dict[str, float] = {}
    """What of it fell on each of the latest days, local ones."""

    def run_of(self, request_id: str, text: str) -> str | None:
        """The run that this request has begun already. An older server kept the id alone."""
        return self.requests.get(request_key(request_id, text)) or self.requests.get(request_id)

    def take(self, line: bytes) -> None:
        """One more record. Those of agents change nothing but ``seq``."""
        written = _written.decode(line)
        self.seq = written.seq
        if written.direction == "client":
            asked = msgspec.json.decode(bytes(written.message), type=_OfPrompt)
            self.unfinished[asked.run_id] = asked.by
            if asked.request_id is not None:
                self.requests[request_key(asked.request_id, asked.message.prompt)] = asked.run_id
                while len(self.requests) > REMEMBERED_REQUESTS:
                    del self.requests[next(iter(self.requests))]
        elif written.direction == "server":
            self.take_event(bytes(written.message), datetime.fromisoformat(written.timestamp))

    def take_event(self, message: bytes, moment: datetime | None = None) -> None:
        """One of the server's own, also where it could not be written (then it is of now)."""
        said = msgspec.json.decode(message, type=_OfServer)
        kind = _EVENTS.get(said.subtype)
        if kind is None:
            return
        match msgspec.json.decode(bytes(said.message), type=kind):
            case _OfFinished(run_id, outcome, cost):
                day = day_of(moment or datetime.now(UTC))
                self.unfinished.pop(run_id, None)
                self.last_outcome = outcome
                self.unproven = self.unproven and outcome != "completed"
                if cost:
                    self.cost_usd += cost
                    self.days[day] = self.days.get(day, 0.0) + cost
                    forget_old(self.days)
            case _OfStarted(agent, run_id, unprompted):
                self.agent = agent
                if unprompted:  # the others are known by their prompt
                    self.unfinished[run_id] = agent
            case _OfQuestion(approval_id, run_id):
                self.approvals[approval_id] = run_id
            case _OfVerdict(approval_id, by, decision, reason, client_id):
                self.approvals.pop(approval_id, None)
                self.verdicts.setdefault(approval_id, Verdict(by, decision, reason, client_id))
                while len(self.verdicts) > REMEMBERED_VERDICTS:
                    del self.verdicts[next(iter(self.verdicts))]
            case _OfConversation(session_id, agent):
                self.session_id = session_id
                self.unproven = bool(session_id) and agent is None  # a conversation that a person chose is there
                self.agent = agent or self.agent
                if said.subtype == RESET:
                    self.last_outcome = None


# What of a record is remembered. The types are checked: somebody may have written into the log, and what is remembered
# has to be read again at the next start.


class _OfText(Struct):
    prompt: str


class _OfPrompt(Struct):
    run_id: str
    message: _OfText
    by: str = ""
    request_id: str | None = None


class _OfStarted(Struct):
    agent: str
    run_id: str = ""
    unprompted: bool = False


class _OfFinished(Struct):
    run_id: str
    outcome: messages.Outcome
    cost_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None


class _OfQuestion(Struct):
    approval_id: str
    run_id: str


class _OfVerdict(Struct):
    approval_id: str
    by: str | None = None
    decision: str | None = None
    reason: str | None = None
    client_id: str | None = None


class _OfConversation(Struct):
    session_id: str = ""
    agent: str | None = None


_EVENTS: Final[Mapping[str, Any]] = {
    STARTED: _OfStarted,
    FINISHED: _OfFinished,
    QUESTION: _OfQuestion,
    RESOLVED: _OfVerdict,
    WITHDRAWN: _OfVerdict,
    SESSION: _OfConversation,
    RESET: _OfConversation,
}
