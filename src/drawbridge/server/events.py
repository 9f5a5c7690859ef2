"""The server's events, and the values that they consist of. Pure.

An event is *recorded* (stored in the history of its project or terminal session, with a number there) or *announced*
(not stored, because it matters only now). Neither the client protocol nor the files on disk depend on these types.
``updates`` has the message in which clients receive an event, and ``store.records`` the record of it in a history.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from drawbridge.agents.base import (
    AgentLine,
    AskedBy,
    Form,
    ModeOffer,
    OffersReported,
    Proposal,
    Question,
    StateReported,
)
from drawbridge.agents.tool_calls import Kind, ToolCall
from drawbridge.core.json_text import object_in

SHOWN_TEXT: Final = 150_000
"""The maximum length, in characters, of an edited text that clients get with a decision. As JSON it may be six times as
long. Any other edited input may have at most this many bytes of JSON."""


State: TypeAlias = Literal["IDLE", "EXECUTING", "ERROR"]
"""The state of a managed session."""

Outcome: TypeAlias = Literal["completed", "failed", "killed", "timeout", "interrupted"]
"""The way in which a run ended."""


# Prompts and runs.


class PromptImage(Struct, frozen=True):
    """An image that was sent with a prompt and is stored next to the history. ``bytes``: its size."""

    id: str
    media_type: str
    bytes: int
    name: str | None = None


class PromptFile(Struct, frozen=True):
    """A file that was sent with a prompt and is stored for the agent, which opens it by its path. ``bytes``: its
    size."""

    id: str
    bytes: int
    name: str | None = None


class Submission(Struct, frozen=True):
    """The ids of the ``comments`` on a review that were submitted as a prompt. ``key`` identifies what was submitted,
    to recognize a repeated request."""

    key: str
    comments: tuple[str, ...]


class PromptAccepted(Struct, frozen=True):
    """A person's prompt. ``attachments``: the names of its attachments, or the media types of those without a name.
    ``uuid``: the id of its line in the agent's own transcript, in terminal sessions; otherwise empty. ``by``,
    ``client_id``: the client that sent it; ``client_id`` is None if it is not known.
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
    """The review comments that the prompt sends to the agent; None for other prompts."""
    client_id: str | None = None


class PromptEdited(Struct, frozen=True):
    """A queued prompt was changed. ``prompt``: the new text. ``by``, ``client_id``: the client that changed it."""

    run_id: str
    prompt: str
    by: str
    client_id: str


class RunInfo(Struct, frozen=True, kw_only=True):
    """A run that is active or waiting. ``position``: the number of the session's runs before it.

    ``prompt`` is the beginning of the run's prompt; ``cut``: whether the prompt is longer. ``seq``: the number of the
    record with the whole text; 0 if no record has it. ``by`` and ``client_id``: the client that sent the prompt.
    ``attachments``: the number of the prompt's attachments.
    """

    run_id: str
    position: int
    prompt: str
    started_at: str | None = None
    request_id: str | None = None
    cut: bool = False
    by: str = ""
    client_id: str = ""
    attachments: int = 0
    seq: int = 0


class QueueChanged(Struct, frozen=True):
    """The session's queue has changed. ``queue`` is complete, the next run first."""

    queue: tuple[RunInfo, ...]


class RunStarted(Struct, frozen=True):
    """A run began, in the conversation ``session_id`` (empty if its id is not known yet). ``unprompted``: the agent
    itself began the run, for example because a command in the background has ended."""

    run_id: str
    session_id: str
    agent: str
    unprompted: bool = False


class RunFinished(Struct, frozen=True, kw_only=True):
    """A run ended, or was removed from the queue before it began. ``error`` and ``code``: why it failed."""

    run_id: str
    outcome: Outcome
    duration_ms: int
    cost_usd: float | None = None
    error: str | None = None
    code: str | None = None
    retry_at: str | None = None
    """The time at which the limit of the agent's account is reset (AGENT_RATE_LIMITED)."""
    removed_by: str | None = None
    """The name of the client that removed the prompt from the queue. The run never began. ``client_id``: that client's
    connection."""
    client_id: str | None = None
    input_tokens: int | None = None
    """The number of tokens that the models read, including tokens from a cache, if the agent reports it."""
    output_tokens: int | None = None
    directory: str | None = None
    """The directory in which the agent worked, if it is outside the project or in another git work tree inside it. The
    run's changes do not include changes there."""


class RunContinued(Struct, frozen=True):
    """A run that was stopped by a limit of the agent's account continues automatically. ``by``: the name of the client
    that sent its prompt.
    """

    run_id: str
    by: str


class ExecutionKilled(Struct, frozen=True):
    """A user ended a run together with the agent's process. ``state``: the state of the session afterwards."""

    project_id: str
    state: State
    run_id: str


class ChangedFile(Struct, frozen=True):
    """A changed file. ``path`` is relative to the project."""

    path: str
    change: Literal["added", "changed", "deleted"]


class RunReverted(Struct, frozen=True):
    """A user reverted the changes of a run."""

    run_id: str
    by: str
    files: tuple[ChangedFile, ...]
    client_id: str | None = None


# Reviews.


class ReviewNumbers(Struct, frozen=True, kw_only=True):
    """The numbers of undecided changes in a review. ``added``, ``removed``: numbers of lines."""

    files: int
    hunks: int
    added: int
    removed: int


class ReviewChanged(Struct, frozen=True, kw_only=True):
    """The review has changed. The numbers are those of the undecided changes. ``by``, ``client_id``: the client that
    decided on something; None without a decision, for example if a run changed files.
    """

    state: Literal["open", "decided"]
    files: int
    hunks: int
    added: int
    removed: int
    by: str | None = None
    client_id: str | None = None


class ReviewDecided(Struct, frozen=True, kw_only=True):
    """A user decided on hunks of the review. ``hunks``: the number of hunks; ``files``: the number of files with these
    hunks; ``left``: the number of hunks that still wait for a decision. If ``by`` is None, nobody has made a decision
    in Drawbridge, but there are no undecided changes left. ``interrupted``: the server ended before it could
    finish or record the decision, and did so after its restart.

    ``paths``: the files with these hunks, at most 20; none in records of earlier versions. ``diff``: what an undo or an
    edit changed in the files, in git's format, at most 20 kB; empty if git failed. ``diff_truncated``: ``diff`` is
    incomplete.
    """

    files: int
    hunks: int
    left: int
    by: str | None = None
    decision: Literal["keep", "undo", "edit"] | None = None
    client_id: str | None = None
    interrupted: bool = False
    paths: tuple[str, ...] = ()
    diff: str = ""
    diff_truncated: bool = False


class ReviewInterrupted(Struct, frozen=True, kw_only=True):
    """The server was killed while it applied a user's decision on ``hunks`` hunks in ``files`` files, reverted the
    changes of a run to ``files`` files, or committed kept changes to them. ``result``: ``not_done`` if everything
    is as before, ``unknown`` if somebody else has changed the files or the branch since. ``changed``: the paths of some
    of these files. A decision, revert or commit that was applied is recorded as ``ReviewDecided``, ``RunReverted`` or
    ``ReviewCommitted`` instead.
    """

    by: str
    decision: Literal["keep", "undo", "edit", "revert", "commit"]
    files: int
    hunks: int
    result: Literal["not_done", "unknown"]
    changed: tuple[str, ...] = ()
    client_id: str | None = None


class ReviewComment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A comment on the lines ``line`` to ``end_line`` (from 1) of a file in the review: of its ``new`` text, or of its
    ``old`` one, before the agent's changes.

    ``quote``: these lines, as they were shown; ``blob``: git's id of the text that they are from. ``suggestion``: a
    text with which the agent should replace them. ``state``: a ``draft`` until it is submitted; ``waiting`` until the
    agent of a terminal session gets it; ``sent`` with the run ``run_id``; ``resolved`` by ``resolved_by``.
    ``outdated``: the lines have changed since, so ``line`` and ``end_line`` are their previous numbers.
    """

    comment_id: str
    by: str
    path: str
    side: Literal["new", "old"]
    line: int
    end_line: int
    quote: str
    blob: str
    text: str
    suggestion: str | None = None
    state: Literal["draft", "waiting", "sent", "resolved"] = "draft"
    run_id: str | None = None
    resolved_by: str | None = None
    outdated: bool = False


class ReviewCommented(Struct, frozen=True, kw_only=True):
    """A comment was written, changed, removed, sent, resolved or reopened, or has begun or stopped waiting for an
    agent. ``comment``: the comment as it is now; None if it was removed.
    """

    comment_id: str
    by: str
    comment: ReviewComment | None = None
    client_id: str | None = None


class ReviewCommitted(Struct, frozen=True, kw_only=True):
    """A user committed what was kept in the review. ``commit``: the id of the commit; ``branch``: the commit's
    branch (``created``: the branch is new); ``files``: the paths of the committed files, perhaps not all of them.
    ``output``: the end of what git and its hooks printed.
    """

    commit: str
    branch: str
    files: tuple[str, ...]
    output: str
    by: str
    client_id: str | None = None
    created: bool = False


class ReviewPushed(Struct, frozen=True, kw_only=True):
    """A user pushed ``commit``, the last commit of the current branch, to the ``branch`` of the ``remote``.
    ``output``: the end of what git, its hooks and the program for pull requests printed. ``pull_request``: the address
    of the pull request that was created or existed already, if it is known; ``problem``: reports that none was created,
    as human-readable text (``output`` contains the reason); empty if one was created, or none was requested.
    """

    commit: str
    remote: str
    branch: str
    output: str
    by: str
    client_id: str | None = None
    pull_request: str | None = None
    problem: str = ""


# Approval requests.


class Title(Struct, frozen=True):
    """A description of what the agent wants, such as "Claude wants to edit" and "src/bridge.py". ``path``: relative to
    the project, or absolute outside it.
    """

    text: str
    path: str | None = None


class Risk(Struct, frozen=True):
    """A part of the input that deserves a second look: ``start`` to ``end`` of the text in ``field``, in UTF-16 code
    units; both are 0 if the whole field is meant. ``field``: the field's name in ``input``, with a dot before a nested
    name; empty if the part is not in a single field.
    """

    code: str
    text: str
    field: str = ""
    start: int = 0
    end: int = 0


class Always(Struct, frozen=True):
    """A change that ``remember`` would make. ``text`` describes it to the user. ``suggestion``: the index of the
    suggestion in ``suggestions`` that the change comes from. ``saved_in``: the file in which the agent saves the
    change; empty if the change lasts only as long as the session, or the file is not known.
    """

    text: str
    suggestion: int
    saved_in: str = ""


class ApprovalRequested(Struct, frozen=True, dict=True):
    """An agent waits for a person's decision. ``input`` and ``suggestions`` are the agent's JSON; ``form``: what the
    input is. ``call``: what the request is about, according to the agent. It is not recorded, since it follows from the
    other fields (see ``pending.with_call``), and is None in a record that was read back. ``changeable``: the decision
    may contain an edited input. ``known_as``: the id by which the hook or bridge of a terminal session identifies its
    question when it sends the question again; empty if it gave none, and in managed sessions. ``link_targets``: the
    paths in the request that lead through a symbolic link, with their targets. ``asked_by``: the subagent that asks;
    None if the main agent asks. ``reason``: why the agent asks, in its own words. ``blocked_path``: the path that the
    agent must not use without asking.

    The other fields describe the request to people (see ``approvals.words``). ``remember`` applies everything in
    ``always``. ``editable``: the fields of ``input`` that clients offer for editing. ``shown_fields``: the fields of
    ``input`` that the diff of ``proposal`` shows in full. ``summary``: the text of a notification, without a path or
    any other part of the input.
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
    kind: Kind | None = None
    title: Title | None = None
    risks: tuple[Risk, ...] = ()
    always: tuple[Always, ...] = ()
    editable: tuple[str, ...] = ()
    shown_fields: tuple[str, ...] = ()
    summary: str = ""
    form: Form = "fields"
    call: ToolCall | None = None

    @classmethod
    def of(cls, question: Question, *, approval_id: str, run_id: str, known_as: str) -> ApprovalRequested:
        """The approval request for a question, whose input is not decoded again."""
        request = cls(
            approval_id=approval_id,
            run_id=run_id,
            known_as=known_as,
            tool_name=question.tool_name,
            input=question.input,
            suggestions=question.suggestions,
            proposal=question.proposal,
            changeable=question.changeable,
            asked_by=question.asked_by,
            reason=question.reason,
            blocked_path=question.blocked_path,
            form=question.form,
        )
        request.__dict__.update(given=question.given)
        return request

    def described(self, **fields: Any) -> ApprovalRequested:
        """The request with other values of these fields, but the same input, which is not decoded again."""
        found = msgspec.structs.replace(self, **fields)
        found.__dict__.update(self.__dict__)
        return found

    @property
    def agent_id(self) -> str | None:
        """The id of the subagent that asks; None for the main agent."""
        return self.asked_by.agent_id if self.asked_by else None

    @cached_property
    def given(self) -> Mapping[str, Any] | None:
        """Like ``Question.given``. Decoded here only for a request that was read back from the history."""
        return object_in(bytes(self.input))


class ApprovalResolved(Struct, frozen=True):
    """The complete decision, from which an agent that has not received it yet can still be answered.

    ``by`` is a name that several clients may have; ``client_id`` is the connection that decided. ``updated_input``: the
    input to run the tool with; None for the agent's own. ``edited``: allowed with a different input from the agent's.
    ``new_text``: the resulting text of the file (at most ``SHOWN_TEXT`` characters), if the request was about a change
    to a file.
    """

    approval_id: str
    by: str
    decision: Literal["allow", "deny"]
    message: str | None = None
    updated_input: Mapping[str, Any] | None = None
    remember: bool = False
    client_id: str | None = None
    edited: bool = False
    new_text: str | None = None


class PermissionWithdrawn(Struct, frozen=True):
    """An approval request no longer needs a decision. ``reason``: human-readable."""

    approval_id: str
    reason: str


class OpenApproval(Struct, frozen=True):
    """An open approval request, for lists. ``summary``: as in ``ApprovalRequested``."""

    approval_id: str
    tool_name: str
    created_at: str
    summary: str = ""


# Sessions.


class SessionChanged(Struct, frozen=True):
    """The session's next run continues another conversation. ``session_id``: the conversation that the next run
    continues; empty if it begins a new one. ``fork_from``: the conversation whose context the new one gets, if any.
    ``agent``: the conversation's agent, if a client has chosen the conversation. ``title``: the conversation's title,
    if it is already known.
    """

    session_id: str
    fork_from: str | None = None
    agent: str | None = None
    title: str | None = None


class SessionRenamed(Struct, frozen=True):
    """A user named the session; an empty ``name`` removes its name."""

    session_id: str
    name: str
    by: str


class SessionDeleted(Struct, frozen=True):
    """The session's records were moved to the server's trash. ``agent_copy``: the agent has its own transcript, which
    was not deleted."""

    session_id: str
    by: str
    agent_copy: bool = False


class SessionReset(Struct, frozen=True):
    """The next prompt begins a new conversation (``new_session_id``: empty, because its id is not known yet)."""

    old_session_id: str
    new_session_id: str
    project_id: str


TerminalState: TypeAlias = Literal["working", "waiting", "finished", "ended"]


class TerminalStatus(Struct, frozen=True, kw_only=True):
    """An agent that a person started in a terminal on the server's machine.

    ``state`` "waiting": it waits for a decision; "finished": it waits for the next prompt; "ended": its program has
    ended. ``permission_mode`` is the agent's name for its mode; ``asks`` is false in modes in which it asks neither
    before commands nor before changes to files. ``prompts``: it accepts prompts from clients, since its terminal
    belongs to an editor with a bridge. ``in_terminal``: it waits for an approval request that can be answered only in
    its own dialog. ``background``: the agent's daemon runs it, without a terminal. ``background_tasks``: the number of
    tasks that run while the agent itself waits for the next prompt. ``continued_in``: the id of the session that
    continues this one, after the user moved it to the background.
    """

    state: TerminalState
    permission_mode: str | None = None
    asks: bool = True
    prompts: bool = False
    in_terminal: bool = False
    background: bool = False
    background_tasks: int = 0
    continued_in: str | None = None


class SessionSummary(Struct, frozen=True, kw_only=True):
    """The state of a project or a terminal session at one moment, without its history. Times are RFC 3339 in UTC.

    ``terminal``: only for terminal sessions. ``cost_usd``: the cost of all runs in US dollars that the agent has
    reported; ``permission_mode``, ``modes``, ``own_modes`` (those of the ``modes`` that only this agent has) and
    ``asks`` (whether the agent can ask): only for managed sessions. ``continues_at``: when the last run, which was
    stopped by a limit, continues automatically. ``scheduled_until``: when the last of the runs that the agent itself
    has scheduled begins. ``problem``: why no run is possible, human-readable. ``review``: the numbers of what was left
    to decide when the files were last compared. ``run_id``: the active run, if any; ``queued``: the number of prompts
    in the queue.
    """

    id: str
    path: str
    state: State
    session_id: str
    agent: str
    created_at: str
    last_active: str
    message_count: int
    last_seq: int
    approvals: tuple[OpenApproval, ...]
    terminal: TerminalStatus | None = None
    first_seq: int = 1
    cost_usd: float | None = None
    first_message_time: str | None = None
    last_message_time: str | None = None
    permission_mode: str = "default"
    modes: tuple[str, ...] = ()
    own_modes: tuple[ModeOffer, ...] = ()
    asks: bool = True
    continues_at: str | None = None
    scheduled_until: str | None = None
    title: str = ""
    problem: str | None = None
    review: ReviewNumbers | None = None
    run_id: str | None = None
    queued: int = 0


class ProjectCreated(Struct, frozen=True):
    """A project or a terminal session was added to the list."""

    summary: SessionSummary


class StateChanged(Struct, frozen=True):
    """The state of a project or a terminal session has changed. ``summary`` is always complete."""

    summary: SessionSummary


class ProjectGone(Struct, frozen=True):
    """A project or a terminal session was removed from the list."""

    project_id: str
    path: str


class DiskWarning(Struct, frozen=True):
    """A limit, or 80% of it, was reached, or little space is free on the disk. ``scope``: the history of one session
    ("project"), all data of the server ("data"), or the disk that contains the data ("disk"). ``message`` is
    human-readable.
    """

    scope: Literal["project", "data", "disk"]
    used_mb: int
    limit_mb: int
    message: str


class Answered(Struct, frozen=True):
    """A person decided on the approval ``request``, on any surface. This event is for the audit log;
    ``ApprovalResolved`` is for the history. ``surface``: see ``Surface.audited``. ``changed``: with an edited input."""

    surface: Mapping[str, Any]
    request: ApprovalRequested
    decision: Literal["allow", "deny"]
    remember: bool = False
    changed: bool = False


# What people did with reviews, on any surface. These events are for the audit log, and are published once for each change,
# by the code that makes it. ``surface``: see ``Surface.audited``.


class DecidedOnReview(Struct, frozen=True):
    """A person decided on this number of ``hunks``, in this number of ``files``."""

    surface: Mapping[str, Any]
    decision: Literal["keep", "undo", "edit"]
    hunks: int
    files: int


class CommentedOnReview(Struct, frozen=True):
    """A person wrote or changed a comment, ``removed`` one, or resolved (``resolved`` true) or reopened (false) one.
    ``path``: the file; None for a removed comment."""

    surface: Mapping[str, Any]
    comment_id: str
    path: str | None
    removed: bool = False
    resolved: bool | None = None


class SubmittedReview(Struct, frozen=True):
    """A person submitted comments. ``run_id``: the run that they begin or, with ``steer``, that they were sent into;
    empty if they wait for the agent of a terminal session."""

    surface: Mapping[str, Any]
    run_id: str
    steer: bool = False


class CommittedFromReview(Struct, frozen=True):
    """A person committed what was kept. ``ReviewCommitted`` is for the history."""

    surface: Mapping[str, Any]
    commit: str
    branch: str


class RevertedRun(Struct, frozen=True):
    """A person reverted everything that a run changed. ``RunReverted`` is for the history."""

    surface: Mapping[str, Any]
    run_id: str


Audited: TypeAlias = (
    RunContinued | Answered | DecidedOnReview | CommentedOnReview | SubmittedReview | CommittedFromReview | RevertedRun
)

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
    | Audited
)


class Announced(Struct, frozen=True):
    """An event in the directory ``path``. ``project_id``: its project or terminal session; None if it has neither.

    ``sender``: the id of the client that caused the event with a request. It learns of the event from the reply, and
    receives nothing else about it. ``sender`` is empty if no client's request caused the event. ``quiet``: the event
    needs no attention, for example because it happened earlier: nobody is notified, and only clients that have joined
    receive it. ``timestamp``: the time of a record that could not be written; None for events that are only announced.
    """

    project_id: str | None
    path: Path
    event: Event
    sender: str = ""
    quiet: bool = False
    timestamp: str | None = None


class Stored(Announced, frozen=True, kw_only=True):
    """An event in the history of its project or terminal session. ``seq`` and ``timestamp``: the number and the time of
    its record."""

    seq: int
    timestamp: str
