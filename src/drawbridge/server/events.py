"""The server's events, as types. Pure.

An event is *recorded* (stored in the history of its project or terminal session, with a number there: see
``store.records``) or *announced* (not stored, because it matters only now). Where the protocol has a structure with the
same fields, that structure is the event.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import AgentLine, AskedBy, Form, OffersReported, Proposal, StateReported
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
    "ReviewPushed",
    "RunFinished",
    "RunReverted",
    "RunStarted",
    "SessionChanged",
    "SessionDeleted",
    "SessionRenamed",
    "SessionReset",
]

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
