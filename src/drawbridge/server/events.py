"""The server's events: their types, how each is written to a history and read back, and which receivers get it. Pure.

An event is *recorded* (stored in the history of its project or terminal session, with a number there) or *announced*
(not stored, because it matters only now). Where the protocol has a structure with the same fields, that structure is
the event. A record has one of three directions: ``client`` (a user's prompt), ``claude`` (an ``AgentLine``, unchanged;
the name comes from the specification) and ``server``: ``{"type": "system", "subtype": <kind>, "message": {…}}``.

The ``Bus`` passes each event to the receivers that ``RECEIVERS`` names for its type, in that order.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from drawbridge.agents.base import AgentLine, AskedBy, Form, OffersReported, Proposal, StateReported
from drawbridge.agents.output import session_id_of
from drawbridge.server.protocol import commands, messages
from drawbridge.server.protocol.messages import (
    DiskWarning,
    ExecutionKilled,
    PermissionWithdrawn,
    ProjectGone,
    PromptEdited,
    PromptFile,
    PromptImage,
    QueueChanged,
    ReviewChanged,
    ReviewCommented,
    ReviewCommitted,
    ReviewDecided,
    ReviewInterrupted,
    ReviewPushed,
    RunFinished,
    RunReverted,
    RunStarted,
    SessionChanged,
    SessionDeleted,
    SessionRenamed,
    SessionReset,
    Submission,
    shortened,
)

__all__ = [
    "AgentLine",
    "DiskWarning",
    "ExecutionKilled",
    "PermissionWithdrawn",
    "ProjectGone",
    "PromptEdited",
    "QueueChanged",
    "ReviewChanged",
    "ReviewCommented",
    "ReviewCommitted",
    "ReviewDecided",
    "ReviewInterrupted",
    "ReviewPushed",
    "RunFinished",
    "RunReverted",
    "RunStarted",
    "SessionChanged",
    "SessionDeleted",
    "SessionRenamed",
    "SessionReset",
]

logger = logging.getLogger("drawbridge.server")

SHOWN_TEXT: Final = 150_000
"""The maximum length, in characters, of an edited text that clients get with a decision; as JSON it may be six times as
long. Any other edited input may have at most this many bytes of JSON."""

NOTHING: Final = Raw(b"null")

_encode: Final = msgspec.json.Encoder().encode


class PromptAccepted(Struct, frozen=True):
    """A person's prompt. ``attachments``: the names of its attachments, or the media types of those without a name.
    ``uuid``: the id of its line in the agent's own transcript, in terminal sessions; otherwise empty.
    """

    run_id: str
    prompt: str
    by: str
    request_id: str | None = None
    attachments: tuple[str, ...] = ()
    uuid: str = ""
    steer: bool = False
    """Whether it was sent into the run ``run_id`` while that run was active."""
    images: tuple[PromptImage, ...] = ()
    """The attachments that are images and are stored."""
    files: tuple[PromptFile, ...] = ()
    """The attachments that the agent opens by their paths."""
    review: Submission | None = None
    """The ids of the review comments that the prompt sends to the agent; None for other prompts."""


class ApprovalRequested(Struct, frozen=True, omit_defaults=True, dict=True):
    """An agent waits for a person's decision. The fields are as in ``PermissionRequest``. ``known_as``: the id by which
    the hook or bridge of a terminal session identifies its question when it sends the question again; empty if it gave
    none, and in managed sessions.
    """

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
    kind: messages.Kind | None = None
    title: messages.Title | None = None
    risks: tuple[messages.Risk, ...] = ()
    always: tuple[messages.Always, ...] = ()
    editable: tuple[str, ...] = ()
    summary: str = ""
    form: Form = "fields"

    @property
    def agent_id(self) -> str | None:
        """The id of the subagent that asks; None for the main agent."""
        return self.asked_by.agent_id if self.asked_by else None

    @cached_property
    def given(self) -> Mapping[str, Any] | None:
        """``input``, decoded; None if it is not an object, or can't be decoded (for example because a number is out of
        range). Must not be changed."""
        try:
            found = msgspec.json.decode(bytes(self.input))
        except (msgspec.MsgspecError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


class ApprovalResolved(Struct, frozen=True, omit_defaults=True):
    """The complete decision, so that an agent that has not received it yet can still be answered from the history.

    ``client_id``, ``edited`` and ``new_text`` (at most ``SHOWN_TEXT`` characters) are as in ``PermissionResolved``.
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
        """The part for clients, in a frame of at most ``FRAME_BYTES``. A message that does not fit is cut; an edit that
        does not fit into the remaining space, or an edited input of more than ``SHOWN_TEXT`` bytes, is left out.
        """
        message, room = self.message, messages.FRAME_BYTES - messages.ROOM
        whole = _encode(message)
        encoded = shortened(whole, room)
        if encoded is not whole:
            message = msgspec.json.decode(encoded)
        room -= len(encoded)
        given = self.updated_input if self.edited and self.new_text is None else None
        return messages.PermissionResolved(
            approval_id=self.approval_id,
            by=self.by,
            decision=self.decision,
            message=message,
            client_id=self.client_id,
            edited=self.edited,
            new_text=self.new_text if len(_encode(self.new_text)) <= room else None,
            updated_input=given if given is not None and len(bytes(given)) <= min(SHOWN_TEXT, room) else None,
        )


class ProjectCreated(Struct, frozen=True):
    """A project or a terminal session was added to the list."""

    info: messages.ProjectInfo


class StateChanged(Struct, frozen=True):
    """The state of a project or a terminal session has changed. ``state`` is always complete."""

    state: messages.ProjectState


class RunContinued(Struct, frozen=True):
    """A run that was stopped by a limit of the agent's account continues automatically. ``by``: the name of the client
    that sent its prompt.
    """

    run_id: str
    by: str


class DoneInEditor(Struct, frozen=True):
    """A person has made a decision, or written or submitted comments, in an editor. ``command``: what a client would
    have sent, without the content of an edited input; ``reply``: the data of its reply; ``asked``: the approval request
    that the command decides on, if any. ``by``: the editor's name."""

    by: str
    command: commands.PermissionResponse | commands.ReviewDecide | commands.ReviewComment | commands.ReviewSubmit
    reply: Any = None
    asked: ApprovalRequested | None = None


Recorded: TypeAlias = (
    AgentLine
    | PromptAccepted
    | PromptEdited
    | RunStarted
    | RunFinished
    | RunReverted
    | ReviewDecided
    | ReviewInterrupted
    | ReviewCommented
    | ReviewCommitted
    | ReviewPushed
    | ExecutionKilled
    | ApprovalRequested
    | ApprovalResolved
    | PermissionWithdrawn
    | SessionChanged
    | SessionDeleted
    | SessionRenamed
    | SessionReset
)
Event: TypeAlias = (
    Recorded
    | StateReported
    | OffersReported
    | StateChanged
    | ProjectCreated
    | ProjectGone
    | QueueChanged
    | ReviewChanged
    | DiskWarning
    | RunContinued
    | DoneInEditor
)

KINDS: Final[Mapping[type, str]] = {
    ApprovalRequested: "permission_request",
    ApprovalResolved: "permission_resolved",
    PermissionWithdrawn: "permission_withdrawn",
    PromptEdited: "prompt_edited",
    QueueChanged: "queue_changed",
    RunStarted: "run_started",
    RunFinished: "run_finished",
    RunReverted: "run_reverted",
    ReviewDecided: "review_decided",
    ReviewInterrupted: "review_interrupted",
    ReviewCommented: "review_commented",
    ReviewCommitted: "review_committed",
    ReviewPushed: "review_pushed",
    ReviewChanged: "review_changed",
    ExecutionKilled: "execution_killed",
    SessionChanged: "session_changed",
    SessionDeleted: "session_deleted",
    SessionRenamed: "session_renamed",
    SessionReset: "session_reset",
    StateReported: "agent_state",
    OffersReported: "agent_offers",
    StateChanged: "project_state",
    ProjectCreated: "project_created",
    ProjectGone: "project_deleted",
    DiskWarning: "disk_warning",
}
"""The wire name of each of the server's own events that clients receive: the ``update_type``, and the ``subtype`` of
its record if it is recorded."""


class Announced(Struct, frozen=True):
    """An event in the directory ``path``. ``project_id``: its project or terminal session; None if it has neither.

    ``asker``: the id of the client whose request caused the event; the client learns of the event from the reply, and
    receives nothing else about it. Empty if there is no such client. ``quiet``: the event needs no attention, for
    example because it happened earlier: nobody is notified, and only clients that have joined receive it.
    ``timestamp``: the time of a record that could not be written; None for events that are only announced.
    """

    project_id: str | None
    path: Path
    event: Event
    asker: str = ""
    quiet: bool = False
    timestamp: str | None = None


class Stored(Announced, frozen=True, kw_only=True):
    """An event in the history of its project or terminal session. ``message`` (see ``written``) and ``timestamp`` are
    as in its record."""

    seq: int
    timestamp: str
    message: bytes


# Events as records of a history.


def written(event: Recorded) -> tuple[messages.Direction, bytes]:
    """The direction and the message of an event's record."""
    if isinstance(event, AgentLine):
        return "claude", event.raw
    if isinstance(event, PromptAccepted):
        return "client", _prompt(event)
    return "server", _encode({"type": "system", "subtype": KINDS[type(event)], "message": event})


def _prompt(event: PromptAccepted) -> bytes:
    """The message of a prompt's record. The specification requires the prompt in ``message.prompt``."""
    message: dict[str, Any] = {
        "type": "user",
        "message": {"prompt": event.prompt},
        "run_id": event.run_id,
        "by": event.by,
    }
    optional = {
        "uuid": event.uuid,
        "request_id": event.request_id,
        "attachments": event.attachments,
        "steer": event.steer,
        "images": event.images,
        "files": event.files,
        "review": event.review,
    }
    return _encode(
        message
        | {name: value for name, value in optional.items() if value or (name == "request_id" and value is not None)}
    )


NOT_OURS: Final = (msgspec.MsgspecError, AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""The exceptions that reading a record can raise if it is damaged, or Drawbridge did not write it."""


class Written(Struct):
    """A line of a history."""

    seq: int
    timestamp: str
    direction: str
    message: Raw


class OfServer(Struct):
    """The ``message`` of a record that the server has written."""

    subtype: str
    message: Raw


class OfAgent(Struct):
    """The id of the conversation in an agent's line, in the format of Claude Code or of the Agent Client Protocol."""

    session_id: Any = None
    params: Any = None

    @property
    def id(self) -> str:
        return session_id_of(self.params.get("sessionId") if isinstance(self.params, dict) else self.session_id)


class _OfText(Struct):
    prompt: str


class _OfPrompt(Struct):
    run_id: str
    message: _OfText
    by: str = ""
    request_id: str | None = None
    review: Submission | None = None


# Records of earlier versions lack some of these fields. Numbers are bounded, because values derived from them are
# stored and must be readable later.


class _Started(RunStarted, frozen=True, kw_only=True):
    run_id: str = ""
    session_id: str = ""


class _Finished(RunFinished, frozen=True, kw_only=True):
    duration_ms: int = 0
    cost_usd: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    input_tokens: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    output_tokens: Annotated[int, Meta(ge=0, le=10**12)] | None = None


class _Changed(SessionChanged, frozen=True, kw_only=True):
    session_id: str = ""


class _Reset(SessionReset, frozen=True, kw_only=True):
    old_session_id: str = ""
    new_session_id: str = ""
    project_id: str = ""


_READ: Final[Mapping[str, Any]] = {
    KINDS[PromptEdited]: PromptEdited,
    KINDS[RunStarted]: _Started,
    KINDS[RunFinished]: _Finished,
    KINDS[ApprovalRequested]: ApprovalRequested,
    KINDS[ApprovalResolved]: ApprovalResolved,
    KINDS[PermissionWithdrawn]: PermissionWithdrawn,
    KINDS[ReviewCommented]: ReviewCommented,
    KINDS[SessionChanged]: _Changed,
    KINDS[SessionDeleted]: SessionDeleted,
    KINDS[SessionRenamed]: SessionRenamed,
    KINDS[SessionReset]: _Reset,
}

_written: Final = msgspec.json.Decoder(Written)


class Read(NamedTuple):
    """A record that was read back. ``event``: None if it has no effect on the state, such as an agent's line."""

    seq: int
    moment: datetime
    event: Recorded | None


def parts(line: bytes) -> Written:
    """Parses a line of a history. Raises one of ``NOT_OURS``."""
    return _written.decode(line)


def agent_lines(lines: Iterable[bytes]) -> list[bytes]:
    """The agent's own lines among these lines of a history. Lines that can't be read are skipped."""
    found = []
    for line in lines:
        with contextlib.suppress(*NOT_OURS):
            written = parts(line)
            if written.direction == "claude":
                found.append(bytes(written.message))
    return found


def read(line: bytes) -> Read:
    """Reads an event back from a line of a history. Raises one of ``NOT_OURS``."""
    found = _written.decode(line)
    return Read(found.seq, datetime.fromisoformat(found.timestamp), _event(found))


def _event(found: Written) -> Recorded | None:
    if found.direction == "client":
        given = msgspec.json.decode(found.message, type=_OfPrompt)
        return PromptAccepted(given.run_id, given.message.prompt, given.by, given.request_id, review=given.review)
    if found.direction != "server":
        return None
    given_event = msgspec.json.decode(found.message, type=OfServer)
    kind = _READ.get(given_event.subtype)
    event: Recorded | None = None if kind is None else msgspec.json.decode(given_event.message, type=kind)
    return event


# Which receivers get which events.

Receiver: TypeAlias = Literal["clients", "editors", "notices", "metrics", "audit"]

RECEIVERS: Final[Mapping[type, tuple[Receiver, ...]]] = {
    AgentLine: ("clients",),
    PromptAccepted: ("clients",),
    PromptEdited: ("clients",),
    QueueChanged: ("clients",),
    RunStarted: ("clients",),
    RunFinished: ("clients", "notices", "metrics"),
    RunReverted: ("clients",),
    ReviewDecided: ("clients",),
    ReviewInterrupted: ("clients",),
    ReviewCommented: ("clients", "editors"),
    ReviewCommitted: ("clients",),
    ReviewPushed: ("clients",),
    ReviewChanged: ("clients", "editors", "notices"),
    RunContinued: ("audit",),
    DoneInEditor: ("audit",),
    ExecutionKilled: ("clients",),
    ApprovalRequested: ("clients", "notices"),
    ApprovalResolved: ("clients", "notices", "editors"),
    PermissionWithdrawn: ("clients", "notices", "editors"),
    SessionChanged: ("clients",),
    SessionDeleted: ("clients",),
    SessionRenamed: ("clients",),
    SessionReset: ("clients",),
    StateReported: ("clients",),
    OffersReported: ("clients",),
    StateChanged: ("clients",),
    ProjectCreated: ("clients",),
    ProjectGone: ("clients",),
    DiskWarning: ("clients",),
}

TOPICS: Final[Mapping[type, tuple[Literal["projects", "approvals", "reviews"], ...]]] = {
    ApprovalRequested: ("approvals",),
    ApprovalResolved: ("approvals",),
    PermissionWithdrawn: ("approvals",),
    RunFinished: ("projects",),
    RunReverted: ("reviews",),
    ReviewChanged: ("projects", "reviews"),
    ReviewDecided: ("reviews",),
    ReviewInterrupted: ("reviews",),
    ReviewCommented: ("projects", "reviews"),
    ReviewCommitted: ("projects", "reviews"),
    ReviewPushed: ("projects", "reviews"),
    SessionDeleted: ("projects",),
    SessionRenamed: ("projects",),
    StateChanged: ("projects",),
    ProjectCreated: ("projects",),
    ProjectGone: ("projects",),
    DiskWarning: ("projects",),
}
"""Clients that have not joined the session, but follow one of the topics, receive these events too."""

Handler: TypeAlias = Callable[[Announced], None]


class Bus:
    """Passes events to their receivers, immediately and in order. A handler for every kind of receiver is required, so
    that none can be forgotten.

    An error in a receiver is logged and does not reach the caller, because what the event reports has already happened:
    an agent must receive the decision that its history contains.
    """

    def __init__(
        self, *, clients: Handler, editors: Handler, notices: Handler, metrics: Handler, audit: Handler
    ) -> None:
        handlers: dict[Receiver, Handler] = {
            "clients": clients,
            "editors": editors,
            "notices": notices,
            "metrics": metrics,
            "audit": audit,
        }
        self._handlers = {
            kind: tuple((one, handlers[one]) for one in receivers) for kind, receivers in RECEIVERS.items()
        }

    def publish(self, announced: Announced) -> None:
        for receiver, handle in self._handlers[type(announced.event)]:
            try:
                handle(announced)
            except Exception:
                kind = type(announced.event).__name__
                logger.exception("%s: %s failed to handle an event of type %s", announced.project_id, receiver, kind)
