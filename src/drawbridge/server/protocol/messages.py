"""The data of messages that the agent server also sends without a request. Pure.

Data that is sent only in the replies to commands is in ``replies``. ``frames`` encodes messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Raw, Struct

from drawbridge.agents.base import AskedBy, Form, ModeOffer
from drawbridge.agents.tool_calls import Kind

MESSAGE_BYTES: Final = 1_000_000
"""The maximum size of a client's message, in bytes: the specification's 1 MB."""

FRAME_BYTES: Final = 1_000_000
"""The maximum size of a message from the server, in bytes. A record that is larger is sent as a preview; ``blob_get``
returns the whole record."""

PIECE_BYTES: Final = 512 * 1024
"""The maximum size of the piece of a blob in one message, in bytes: in base64, it is smaller than ``MESSAGE_BYTES`` and
``FRAME_BYTES``."""

BLOB_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of a blob that a client uploads, in bytes."""

Direction = Literal["client", "claude", "server"]
State = Literal["IDLE", "EXECUTING", "ERROR"]
Outcome = Literal["completed", "failed", "killed", "timeout", "interrupted"]


class Truncated(Struct, frozen=True):
    """The data that contains this is a preview. ``blob_get`` of ``blob_id`` returns the whole record, as in the
    history, or the whole file; ``bytes``: the size of what was shortened."""

    blob_id: str
    bytes: int


class AgentMessage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One JSON object from an agent's output or, with ``direction`` "client", a user's prompt. ``timestamp``: as in the
    history."""

    messages: tuple[Raw, ...]
    session_id: str
    direction: Direction
    timestamp: str | None = None
    truncated: Truncated | None = None


class ProposalOf(Struct, frozen=True):
    """The change to one file that an approval request is about."""

    path: str
    old_text: str
    new_text: str


class Title(Struct, frozen=True, omit_defaults=True):
    """What the agent wants, such as "Claude wants to edit" and "src/bridge.py". ``path``: relative to the project, or
    absolute outside it.
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


class Always(Struct, frozen=True, omit_defaults=True):
    """A change that ``remember`` would make. ``text`` describes it to the user. ``suggestion``: the index of the
    suggestion in ``suggestions`` that the change comes from. ``saved_in``: the file in which the agent saves the
    change; empty if the change lasts only as long as the session, or the file is not known.
    """

    text: str
    suggestion: int
    saved_in: str = ""


class PermissionRequest(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A question from an agent that waits for a person's decision. ``input`` and ``suggestions`` are the agent's JSON.
    ``form`` "acp": the input is a tool call of the Agent Client Protocol; "fields": the input consists of the tool's
    fields. ``changeable``: the decision may contain an ``updated_input``. ``link_targets``: the paths in the request
    that lead through a symbolic link, with their targets. ``asked_by``: the subagent that asks; null if the main agent
    asks. ``reason``: why the agent asks, in its own words. ``blocked_path``: the path that the agent must not use
    without asking.

    ``kind``, ``title``, ``risks`` and ``always`` describe the request to the user, in the same words in all clients.
    ``remember`` applies everything in ``always``. ``editable``: the fields of ``input`` that clients offer for editing.
    ``shown_fields``: the fields of ``input`` that the diff of ``proposal`` shows in full.
    ``summary``: the text of a notification, such as "Run a command", without a path or any other part of the input.
    """

    approval_id: str
    run_id: str
    tool_name: str
    input: Raw
    suggestions: Raw
    created_at: str
    seq: int
    proposal: ProposalOf | None = None
    changeable: bool = True
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
    truncated: Truncated | None = None


class Waiting(Struct, frozen=True):
    """An open approval request, for lists. ``summary``: as in ``PermissionRequest``."""

    approval_id: str
    tool_name: str
    created_at: str
    summary: str = ""


DeskState = Literal["working", "waiting", "finished", "ended"]

ASKS_NOTHING: Final = ("auto", "bypassPermissions", "dontAsk")
"""Modes in which the agent asks neither before commands nor before changes to files; in ``dontAsk``, it denies what its
permissions do not allow. In auto mode, the agent still asks about plans and about what was blocked three times in a
row, and asks its own questions; hooks can make it ask in any mode."""

IN_TERMINAL: Final = "asked in the terminal: it can now be answered only there"
"""The reason for a withdrawal after which the request can be answered only in the agent's own dialog."""


TERMINAL_NAME: Final = "desk"
"""The ``by`` of a prompt that was typed in the agent's own terminal."""


class DeskInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An agent that a person started in a terminal on the server's machine.

    ``state`` "waiting": it waits for a decision; "finished": it waits for the next prompt; "ended": its program has
    ended. ``permission_mode`` is the agent's name for its mode; ``asks`` is false in modes in which it asks neither
    before commands nor before changes to files. ``prompts``: it accepts prompts through ``execute``, since its terminal
    belongs to an editor with a bridge. ``in_terminal``: it waits for an approval request that can be answered only in
    its own dialog. ``background``: the agent's daemon runs it, without a terminal. ``background_tasks``: the number of
    tasks that run while the agent itself waits for the next prompt. ``continued_in``: the id of the session that
    continues this one, after the user moved it to the background.
    """

    state: DeskState
    permission_mode: str | None = None
    asks: bool = True
    prompts: bool = False
    in_terminal: bool = False
    background: bool = False
    background_tasks: int = 0
    continued_in: str | None = None


class ReviewNumbers(Struct, frozen=True, kw_only=True):
    """The numbers of undecided changes in a review. ``added``, ``removed``: numbers of lines."""

    files: int
    hunks: int
    added: int
    removed: int


class ProjectInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    path: str
    state: State
    session_id: str
    agent: str
    created_at: str
    last_active: str
    message_count: int
    last_seq: int
    approvals: list[Waiting]
    desk: DeskInfo | None = None
    """Only for terminal sessions."""
    first_seq: int = 1
    """The number of the first record that the history still contains."""
    cost_usd: float = 0.0
    """The cost in US dollars of all runs of the project whose cost the agent has reported."""
    first_message_time: str | None = None
    last_message_time: str | None = None
    permission_mode: str = "default"
    """The mode of the running agent, if it reports one; otherwise the mode of the next run. Not used for terminal
    sessions."""
    modes: list[str] = []
    """The modes that can be chosen, if the agent has reported modes other than Claude Code's."""
    own_modes: list[ModeOffer] = []
    """The entries of ``modes`` that only this agent has, as the agent describes them."""
    asks: bool = True
    """False: this agent can't ask, and does whatever its mode allows. Not used for terminal sessions."""
    continues_at: str | None = None
    """When the last run, which was stopped by a limit of the agent's account, continues automatically; null if it does
    not."""
    scheduled_until: str | None = None
    """When the last of the runs that the agent itself has scheduled begins. The agent's process is kept until then, and
    for up to a minute longer while that run is due. Null if the agent has not scheduled any."""
    title: str = ""
    """The title of the current session: the name that a user gave it, otherwise its first prompt, or the title that
    the agent has stored if it was begun elsewhere."""
    problem: str | None = None
    """Why no run is possible in the project, as a human-readable sentence: the project's directory does not exist, or
    the owner no longer allows it. Null if runs are possible."""
    review: ReviewNumbers | None = None
    """How much there was to decide when the server last compared the files; null: it has not compared them yet.
    ``update/review_changed`` reports changes."""


class PromptImage(Struct, frozen=True, omit_defaults=True):
    """An image that was sent with a prompt and is stored. ``blob_get`` of ``PROJECT:ID`` returns it; ``bytes``: its
    size."""

    id: str
    media_type: str
    bytes: int
    name: str | None = None


class PromptFile(Struct, frozen=True, omit_defaults=True):
    """A file that was sent with a prompt and is stored for the agent, which opens it by its path."""

    id: str
    bytes: int
    name: str | None = None


class Submission(Struct, frozen=True):
    """The ids of the ``comments`` that were submitted as a prompt. ``key`` identifies what was submitted, to recognize
    a repeated request."""

    key: str
    comments: tuple[str, ...]


class PromptText(Struct, frozen=True):
    """The text of a ``Prompt``, in the form that the specification defines."""

    prompt: str


class Prompt(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type", tag="user"):
    """A user's prompt in an ``agent_message``. ``by`` and ``client_id``: the client that sent it. ``attachments``: the
    names of its attachments, or the media types of those without a name; ``images`` and ``files``: those that are
    stored. ``steer``: it was sent into the run ``run_id`` while that run was active. ``uuid``: the id of its line in the
    agent's own transcript. ``review``: the review comments that it sends to the agent.
    """

    message: PromptText
    run_id: str
    by: str
    uuid: str = ""
    request_id: str | None = None
    attachments: tuple[str, ...] = ()
    steer: bool = False
    images: tuple[PromptImage, ...] = ()
    files: tuple[PromptFile, ...] = ()
    review: Submission | None = None
    client_id: str | None = None


class RunInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A run that is active or waiting. ``position``: the number of the project's runs before it.

    ``prompt`` is the beginning of the run's prompt; ``cut``: there is more. The record with the number ``seq`` has the
    whole text: the prompt itself or, after an edit, the ``prompt_edited``. ``by`` and ``client_id``: the client that
    sent the prompt. ``attachments``: the number of the prompt's attachments. In a terminal session, only ``run_id``,
    ``position``, ``prompt``, ``cut`` and ``started_at`` are set.
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
    """``update/queue_changed``: the whole queue, next run first."""

    queue: tuple[RunInfo, ...]


class PromptEdited(Struct, frozen=True):
    """A queued prompt was changed. ``prompt``: the new text. ``by``, ``client_id``: the client that changed it."""

    run_id: str
    prompt: str
    by: str
    client_id: str


class Todo(Struct, frozen=True, omit_defaults=True):
    """An entry of the agent's to-do list. ``doing``: its text while it is in progress."""

    text: str
    status: Literal["pending", "in_progress", "completed"]
    doing: str | None = None


class Task(Struct, frozen=True, omit_defaults=True):
    """A running subagent or command, perhaps in the background. ``kind``: the agent's word for it, such as
    "local_bash"."""

    task_id: str
    text: str
    state: Literal["running"] = "running"
    kind: str | None = None
    agent_type: str | None = None
    background: bool = False


class Retry(Struct, frozen=True, omit_defaults=True):
    """A request to the agent's API has failed, and the agent retries it after ``delay_ms`` milliseconds. ``attempt``:
    the number of this retry, of at most ``attempts``. ``reason``: the agent's word for the failure, such as
    "authentication_failed"; ``status``: the HTTP status, not set if it is unknown.
    """

    attempt: int
    attempts: int
    reason: str
    status: int | None = None
    delay_ms: int = 0


class AgentState(Struct, frozen=True, omit_defaults=True):
    """The state that an agent currently reports. ``context_tokens``: the last known size of its context, out of
    ``context_window``, both in tokens. ``compacting``: whether it is compacting its context. ``tasks``: only running
    ones.
    """

    model: str | None = None
    effort: str | None = None
    context_tokens: int | None = None
    context_window: int | None = None
    retry: Retry | None = None
    compacting: bool = False
    todos: tuple[Todo, ...] = ()
    tasks: tuple[Task, ...] = ()


class Offer(Struct, frozen=True, omit_defaults=True):
    """A command or a kind of subagent that an agent offers. ``hint``: the arguments that a command takes."""

    name: str
    text: str | None = None
    hint: str | None = None


class ModelOffer(Struct, frozen=True, omit_defaults=True):
    """A model that can be chosen. ``resolved``: its full name, if ``name`` is an alias. ``efforts``: the levels of
    effort that it supports."""

    name: str
    title: str | None = None
    text: str | None = None
    resolved: str | None = None
    efforts: tuple[str, ...] = ()


class McpServer(Struct, frozen=True, omit_defaults=True):
    name: str
    status: str | None = None


class AgentOffers(Struct, frozen=True, omit_defaults=True):
    """What an agent offers. ``commands``: their names do not begin with "/". ``steer``: whether a message can be added
    to a running turn."""

    commands: tuple[Offer, ...] = ()
    agents: tuple[Offer, ...] = ()
    skills: tuple[str, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    models: tuple[ModelOffer, ...] = ()
    steer: bool = False


class ProjectJoined(ProjectInfo, frozen=True, omit_defaults=True, kw_only=True):
    """The snapshot of ``update/project_joined``: the whole state at ``last_seq``; the stream continues after it."""

    run: RunInfo | None
    queue: list[RunInfo]
    open_approvals: list[PermissionRequest]
    agent_state: AgentState | None = None
    agent_offers: AgentOffers | None = None
    """What the agent has reported about itself; null if it has reported nothing."""


class ProjectState(ProjectInfo, frozen=True, omit_defaults=True, kw_only=True):
    """``update/project_state``: all fields, not only those that have changed. ``run_id``: the active run, if any;
    ``queued``: the number of prompts in the queue."""

    run_id: str | None = None
    queued: int = 0


class ProjectGone(Struct, frozen=True):
    project_id: str
    path: str


class SessionReset(Struct, frozen=True):
    old_session_id: str
    new_session_id: str
    project_id: str


class SessionChanged(Struct, frozen=True, omit_defaults=True):
    """``session_id``: the conversation that the next run continues; empty if it begins a new one. ``fork_from``: the
    conversation whose context the new one gets, if any. ``agent``: the conversation's agent, if a client has chosen the
    conversation. ``title``: the conversation's title, if it is already known.
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


class RecordRemoved(Struct, frozen=True):
    """The blank record that replaces a record when its session is deleted."""


class ExecutionKilled(Struct, frozen=True):
    project_id: str
    state: State
    run_id: str


class RunStarted(Struct, frozen=True, omit_defaults=True):
    """``unprompted``: the agent itself began the run, for example because a command in the background has ended."""

    run_id: str
    session_id: str
    agent: str
    unprompted: bool = False


class RunFinished(Struct, frozen=True, omit_defaults=True, kw_only=True):
    run_id: str
    outcome: Outcome
    duration_ms: int
    cost_usd: float | None = None
    error: str | None = None
    code: str | None = None
    retry_at: str | None = None
    """When the limit of the agent's account is reset (AGENT_RATE_LIMITED)."""
    removed_by: str | None = None
    """The name of the client that removed the prompt from the queue; the run never began. ``client_id``: that client's
    connection."""
    client_id: str | None = None
    input_tokens: int | None = None
    """The number of tokens that the models read, including tokens from a cache, if the agent reports it."""
    output_tokens: int | None = None
    directory: str | None = None
    """The directory in which the agent worked, if it is outside the project or in another git work tree inside it: the
    run's changes do not include changes there."""


class ChangedFile(Struct, frozen=True):
    """``path`` is relative to the project."""

    path: str
    change: Literal["added", "changed", "deleted"]


class RunReverted(Struct, frozen=True, omit_defaults=True):
    """The changes of the run were reverted."""

    run_id: str
    by: str
    files: tuple[ChangedFile, ...]
    client_id: str | None = None


class ReviewDecided(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A user decided on hunks of the review. ``hunks``: the number of hunks; ``files``: the number of files with
    these hunks; ``left``: the number of hunks that still wait for a decision. ``by`` null: nobody has made a decision
    in Drawbridge, but there are no undecided changes left. ``interrupted``: the server ended before it could
    record or finish this, and has done so after its restart.

    ``paths``: the files with these hunks, at most 20; none in records of earlier versions. ``diff``: what an undo or an
    edit changed in the files, in git's format, at most 20 kB. ``diff_truncated``: ``diff`` is incomplete.
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


class ReviewInterrupted(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The server was killed while it applied a user's decision on ``hunks`` hunks in ``files`` files, reverted the
    changes of a run to ``files`` files, or committed kept changes to them (``hunks`` is then 0). ``result``:
    ``not_done`` if everything is as before, ``unknown`` if somebody else has changed the files or the branch since.
    ``changed``: the paths of the files that somebody else has changed, at most 20. A decision, revert or commit that
    was applied is recorded as ``ReviewDecided``, ``RunReverted`` or ``ReviewCommitted`` instead.
    """

    by: str
    decision: Literal["keep", "undo", "edit", "revert", "commit"]
    files: int
    hunks: int
    result: Literal["not_done", "unknown"]
    changed: tuple[str, ...] = ()
    client_id: str | None = None


class ReviewChanged(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The undecided changes in the review: the numbers of ``files``, ``hunks``, and lines ``added`` and ``removed``.
    ``by``, ``client_id``: the client that decided on something; null without a decision, for example if a run changed
    files.
    """

    state: Literal["open", "decided"]
    files: int
    hunks: int
    added: int
    removed: int
    by: str | None = None
    client_id: str | None = None


class ReviewComment(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A comment on the lines ``line`` to ``end_line`` (from 1) of a file in the review: of its ``new`` text, or of its
    ``old`` one, before the agent's changes.

    ``quote``: these lines, as they were shown; ``blob``: git's id of the text that they are from. ``suggestion``:
    the text that the agent should replace them with. ``state``: a ``draft`` until it is submitted; ``waiting`` until
    the agent of a terminal session gets it; ``sent`` with the run ``run_id``; ``resolved`` by ``resolved_by``.
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


class ReviewCommented(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A comment was written, changed, removed, sent, resolved or reopened, or has begun or stopped waiting for an
    agent. ``comment``: the comment as it is now; null if it was removed.
    """

    comment_id: str
    by: str
    comment: ReviewComment | None = None
    client_id: str | None = None


class ReviewCommitted(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A user committed what was kept in the review. ``commit``: the id of the commit; ``branch``: the commit's
    branch (``created``: the branch is new); ``files``: the paths of the committed files, at most 500. ``output``: the
    end of what git and its hooks printed.
    """

    commit: str
    branch: str
    files: tuple[str, ...]
    output: str
    by: str
    client_id: str | None = None
    created: bool = False


class ReviewPushed(Struct, frozen=True, omit_defaults=True, kw_only=True):
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


class PermissionResolved(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``by`` is a name that several clients may have; ``client_id`` is the connection that decided, as in its
    ``hello``.

    ``edited``: allowed with an input that differs from the agent's. Then ``new_text`` is the resulting text of the
    file, if the approval request is about a change to a file; otherwise ``updated_input`` is that input. Either is left
    out if it is too large. A ``message`` that is too large for a frame is cut and ends in "…".
    """

    approval_id: str
    by: str
    decision: Literal["allow", "deny"]
    message: str | None = None
    client_id: str | None = None
    edited: bool = False
    new_text: str | None = None
    updated_input: Raw | None = None


class PermissionWithdrawn(Struct, frozen=True):
    approval_id: str
    reason: str


class DiskWarning(Struct, frozen=True):
    """``update/disk_warning``. ``scope``: the history of ``project_id`` ("project"), all data of the server ("data"),
    or the disk that contains the data ("disk"). Sent when 80% of a limit or the limit itself is reached, or when little
    space is free on the disk; sent again only after usage has been well below that threshold. ``message`` is
    human-readable.
    """

    scope: Literal["project", "data", "disk"]
    used_mb: int
    limit_mb: int
    message: str


class Stats(Struct, frozen=True):
    """``active_sessions``: the number of connected clients. ``memory_mb`` and ``cpu_percent`` (of one core) include the
    server and all processes that it started."""

    projects: int
    active_sessions: int
    project_states: dict[str, State]
    cpu_percent: float
    memory_mb: int


class Error(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``error`` repeats ``message`` under the specification's name."""

    code: str
    message: str
    error: str
    retryable: bool
    correlation_id: str
    request_id: str | None = None
    field: str | None = None
    details: Any = None


TYPES: Final[Mapping[str, type[Struct]]] = {
    "agent_message": AgentMessage,
    "error": Error,
    "permission_request": PermissionRequest,
}
"""The ``data`` of each message, other than ``update``, that is not the reply to a particular command, by its ``type``.
The rows of ``app.command_table`` have the replies."""

UPDATES: Final[Mapping[str, type[Struct]]] = {
    "agent_offers": AgentOffers,
    "agent_state": AgentState,
    "disk_warning": DiskWarning,
    "permission_withdrawn": PermissionWithdrawn,
    "project_created": ProjectInfo,
    "project_deleted": ProjectGone,
    "record_removed": RecordRemoved,
    "prompt_edited": PromptEdited,
    "queue_changed": QueueChanged,
    "review_changed": ReviewChanged,
    "review_decided": ReviewDecided,
    "review_interrupted": ReviewInterrupted,
    "run_finished": RunFinished,
    "run_started": RunStarted,
    "session_changed": SessionChanged,
    "stats": Stats,
}
"""The ``data.data`` of each update that is not a reply, by its ``update_type``."""
