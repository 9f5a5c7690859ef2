"""The data of messages that are only sent as replies to commands. Pure.

Messages that the server also sends without a request are in ``messages``, even if they are replies too: ``RunReverted``
is the reply to ``run_revert``, and the other clients that have joined the project receive it as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Generic, Literal, TypeVar

from msgspec import Meta, Raw, Struct

from drawbridge.agents.base import EffortOffer, ModeOffer
from drawbridge.server.protocol.answers import Answer
from drawbridge.server.protocol.commands import Kind
from drawbridge.server.protocol.messages import (
    BLOB_BYTES,
    FRAME_BYTES,
    MESSAGE_BYTES,
    PIECE_BYTES,
    ChangedFile,
    Direction,
    ProjectInfo,
    PromptFile,
    PromptImage,
    ReviewComment,
    Truncated,
)

R = TypeVar("R")


class Reply(Struct, Generic[R], frozen=True):
    """The message that replies to a command. ``name``: its ``type``; ``update_type``: set if that is ``update``."""

    name: str
    data: type[R]
    update_type: str | None = None


class Nothing(Struct, frozen=True):
    """The reply to requests without a result; only sent if they have a ``request_id``."""


OK: Final = Answer(type="ok", data=Nothing())


# projects and their runs


class ProjectList(Struct, frozen=True):
    projects: list[ProjectInfo]


class ProjectDeleted(Struct, frozen=True):
    """The reply to the client that deleted the project; other clients receive ``update/project_deleted``."""

    project_id: str
    success: bool


class Record(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An entry of a history. ``truncated``: ``message`` is a preview."""

    seq: int
    timestamp: str
    direction: Direction
    message: Raw
    truncated: Truncated | None = None


StoredRecord = Annotated[Raw, Meta(extra_json_schema={"$ref": "#/$defs/Record"})]
"""The bytes of a ``Record`` as they are in the history, which are sent without being decoded; a preview if the record
is too large for a message."""


class HistoryPage(Struct, frozen=True, omit_defaults=True):
    """``next``: the ``after_seq`` (or ``before_seq``) of the next page; null if ``has_more`` is false. ``first_seq``:
    the number of the first record that the history still contains.
    """

    messages: tuple[StoredRecord, ...]
    next: int | None
    has_more: bool
    first_seq: int = 1


History = tuple[StoredRecord, ...] | HistoryPage
"""The reply to ``get_messages``: the bare array of the specification, or a page."""


class Accepted(Struct, frozen=True, omit_defaults=True):
    """The reply to ``execute`` and ``review_submit``. ``position``: the number of runs before this one; 0 if it starts
    as soon as a slot is free, or has already started. ``images`` and ``files``: as in the prompt's record. ``waiting``:
    the comments wait for the agent of a terminal session; ``run_id`` is empty, because their run is not known yet."""

    run_id: str
    position: int
    images: tuple[PromptImage, ...] = ()
    files: tuple[PromptFile, ...] = ()
    waiting: bool = False


class RunChanges(Struct, frozen=True, omit_defaults=True):
    """``diff``: a unified diff; ``truncated``: ``diff`` or ``files`` is incomplete, because it does not fit into a
    message. ``directory``: where the agent worked, if that is outside the project or in another git work tree inside
    it."""

    run_id: str
    files: tuple[ChangedFile, ...]
    diff: str
    truncated: bool
    directory: str | None = None


class ReviewHunk(Struct, frozen=True):
    """A part of a change that is decided on as a whole: ``lines``, the whole ``file``, its ``mode``, or its ``name``.

    ``removed`` and ``added`` are texts with their line feeds; the last line of a file may have none. ``old_start`` and
    ``new_start``: the number of the line at which each text begins, counted from 1; for an empty text, the number of
    the line before it. ``answers``: the ids of the comments whose lines this hunk has changed since the start of the
    run that the comments were sent with.
    """

    id: str
    kind: Literal["lines", "file", "mode", "name"]
    old_start: int
    new_start: int
    removed: str
    added: str
    answers: tuple[str, ...] = ()


class ReviewImage(Struct, frozen=True):
    """One version of an image. ``blob_get`` of ``blob_id`` returns it. ``media_type``: derived from the file's name."""

    blob_id: str
    media_type: str


class ReviewFile(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A file with changes to decide on. ``old_path``: the previous path, if it was renamed. ``added``, ``removed``:
    numbers of lines. ``old_mode``, ``new_mode``: as in git, null where the file does not exist. ``binary``: its lines
    are not compared, and it is decided on as a whole. ``old_image``, ``new_image``: the versions of the image, if the
    file is named like one. ``too_large``: the file's hunks are too large for the message, and are left out.
    """

    path: str
    change: Literal["added", "changed", "deleted"]
    old_mode: str | None
    new_mode: str | None
    added: int
    removed: int
    hunks: tuple[ReviewHunk, ...]
    old_path: str | None = None
    binary: bool = False
    old_image: ReviewImage | None = None
    new_image: ReviewImage | None = None
    too_large: bool = False


class Lines(Struct, frozen=True):
    """The numbers of lines that were added and removed."""

    added: int
    removed: int


class CommitOffer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What ``review_commit`` would do. ``message``: a suggestion, made from the last prompt. ``author``: the author of
    the commit, as configured in git; if it is missing, ``problem`` is the human-readable reason why nothing can be
    committed. ``lines``: the numbers of lines for each of the ``kept`` files, by path.
    """

    message: str
    lines: dict[str, Lines]
    author: str = ""
    problem: str = ""


class PushOffer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What ``review_push`` would do: push the current branch to the ``branch`` of the ``remote``. ``version`` changes
    when the branch, its last commit or the remote changes.

    ``ahead``: the number of commits that the remote's branch is not known to have; null: the remote does not have the
    branch. ``pull_request``: the program that can create a pull request; null: ``no_pull_request`` is the reason.
    ``title``, ``body``: suggestions for the pull request. ``problem``: why the branch can't be pushed; the other fields
    are then left out. Both reasons are human-readable.
    """

    version: str = ""
    remote: str = ""
    branch: str = ""
    ahead: int | None = None
    pull_request: Literal["gh", "glab"] | None = None
    no_pull_request: str = ""
    title: str = ""
    body: str = ""
    problem: str = ""


class Handover(Struct, frozen=True, kw_only=True):
    """Comments that ``by`` left with the terminal session ``project_id``, as one ``prompt``.

    ``state`` ``waiting``: its agent gets them when it stops, or with the next prompt; ``given``: they are being
    delivered. In the other states they are drafts again: ``unsure`` if the agent may have received them, ``ended`` if
    the session ended first, ``refused`` if the agent may have more permissions than clients may use, or its directory
    can't be used.
    """

    project_id: str
    by: str
    prompt: str
    state: Literal["waiting", "given", "unsure", "ended", "refused"]


class Review(Struct, frozen=True):
    """The review of a project or of a terminal session's directory. ``version`` changes with anything in the review's
    files, except for the ``answers`` of hunks; ``more``: the number of files that do not fit into the message.
    ``comments`` have their current line numbers; ``drafts``: a version that changes whenever a draft does. ``kept``:
    the paths of files with kept changes that are not in the last commit, as many as fit into the message. ``commit``:
    null if nothing was kept, or if the owner of the server does not allow commits. ``push``: null without a remote or a
    branch with commits, or if the owner does not allow pushes. ``handover``: the comments that were left with a
    terminal session; null if there are none, or if the agent has them. ``repository``: where the versions of the files
    are stored: in the repository of the ``project``, or in a ``private`` one in the server's data, if the directory is
    not in a git work tree. ``notice``: a sentence for the user about the private repository and what it leaves out;
    empty for the repository of the project. ``missing``: sentences for the user, which say which changes of the
    latest run are not in the review, or may not be, and why; empty if all of them are there.
    """

    state: Literal["open", "none"]
    version: str
    files: tuple[ReviewFile, ...]
    more: int
    repository: Literal["project", "private"]
    comments: tuple[ReviewComment, ...] = ()
    drafts: str = ""
    kept: tuple[str, ...] = ()
    commit: CommitOffer | None = None
    push: PushOffer | None = None
    handover: Handover | None = None
    notice: str = ""
    missing: str = ""


class SessionInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A conversation that the agent stored; ``current``: the next run continues it."""

    session_id: str
    last_active: str
    title: str | None = None
    message_count: int | None = None
    current: bool = False


class SessionList(Struct, frozen=True):
    sessions: list[SessionInfo]


SessionState = Literal["working", "waiting", "finished", "failed", "ended"]


class SessionEntry(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A session in a project's history, or a terminal session.

    ``session_id``: the agent's id for the conversation, or one that begins with "log_" if the agent has not reported
    any. ``title``: the name that a user gave the session (then ``named``), otherwise its first prompt, or the title
    that the agent stored if the session was begun elsewhere. ``state``: the state of the ``current`` session, which
    the next run continues ("waiting": for a decision); "finished" for any other. ``last_line``: the last line of the
    main agent's latest text. ``added`` and ``removed``: the numbers of lines that the agent has reported.
    ``approvals``: the number of open approval requests.
    ``first_seq`` and ``last_seq``: the session's first and last record; records of other sessions may be in between.
    ``terminal``: a person started the session in a terminal.
    """

    project_id: str
    path: str
    agent: str
    session_id: str
    title: str
    state: SessionState
    created_at: str
    last_active: str
    prompts: int
    first_seq: int
    last_seq: int
    current: bool = False
    named: bool = False
    terminal: bool = False
    fork_from: str | None = None
    last_line: str = ""
    added: int = 0
    removed: int = 0
    approvals: int = 0


class SessionsFound(Struct, frozen=True, omit_defaults=True):
    """``building``: the index of a history is being built, so sessions may be missing. ``more``: there are more
    sessions than ``limit``, or than fit into a message. The ``current`` ones are left out last."""

    sessions: list[SessionEntry]
    more: bool = False
    building: bool = False


class SessionMessagesPage(Struct, frozen=True, omit_defaults=True):
    """Records, in order. Records that only the agent itself has stored have the ``seq`` 0. ``before``: the position
    with which to request the preceding records; null if there are none."""

    session_id: str
    messages: tuple[StoredRecord, ...]
    before: str | None = None


class SessionPiece(Struct, frozen=True, omit_defaults=True):
    """A piece of an exported file. The file consists of all pieces, joined in order. ``next``: the position of the next
    piece; null after the last one."""

    name: str
    media_type: str
    text: str
    next: str | None = None


class SearchResult(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``snippet``: plain texts that alternate: the first, third … are outside a match, the second, fourth … are
    matches. ``tool``: the name of the tool, if the text belongs to a tool call."""

    project_id: str
    seq: int
    created_at: str
    kind: Kind
    snippet: tuple[str, ...]
    session_id: str
    tool: str = ""


class SearchResults(Struct, frozen=True, omit_defaults=True):
    """The results, newest first. ``next``: what to send as ``before`` for the next page; null after the last page.
    ``building``: the index of a history is being built, so results may be missing."""

    results: list[SearchResult]
    next: str | None = None
    building: bool = False


# the server itself


class BlobStored(Struct, frozen=True):
    """The reply to ``blob_put``: ``size`` bytes of the blob have arrived; ``complete``: its last piece has arrived."""

    blob_id: str
    size: int
    complete: bool


class BlobPiece(Struct, frozen=True):
    """The reply to ``blob_get``: ``data`` (base64 on the wire) begins at ``offset`` of ``size`` bytes."""

    blob_id: str
    offset: int
    data: bytes
    size: int
    last: bool


class Directories(Struct, frozen=True, omit_defaults=True):
    """The reply to ``dir_list``: the names of the directories in ``path``; for ``path`` "" the allowed roots, as full
    paths.

    ``more``: the directory contains more directories than are listed.
    """

    path: str
    directories: list[str]
    more: bool = False


class DirectoryCreated(Struct, frozen=True):
    """The reply to ``dir_create``: the canonical path of the new directory."""

    path: str


class Place(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A directory that can become a project. ``source``: why it is suggested."""

    path: str
    source: Literal["recent", "repository"]


class Places(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reply to ``place_list``. ``home``: the home directory of the server's user, if projects may be in it and
    the client may see it; ``more``: the search for repositories ended early.
    """

    places: list[Place]
    home: str | None = None
    more: bool = False


# the files of a project


class FileEntry(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """``path`` is relative to the project. ``size``: in bytes, only for files. ``status``: how a file differs from the
    last commit, as git reports it; for a directory, "M" if something in it has changed, "D" if it was deleted.
    ``link``: it is a symbolic link; ``kind`` and ``size`` describe its target; ``kind`` is "other" if the target is
    outside the project or does not exist. ``ignored``: git ignores it or, if it is a directory, all files in it.
    """

    path: str
    kind: Literal["file", "directory", "other"]
    size: int | None = None
    status: Literal["M", "A", "D", "?"] | None = None
    link: bool = False
    ignored: bool = False


class FileEntries(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reply to ``file_list``. ``path``: as requested; ``more``: there are further entries; ``git``: the project is
    in a git work tree, so ``status`` and ``ignored`` are known.
    """

    path: str
    entries: list[FileEntry]
    more: bool = False
    git: bool = False


class FileContent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reply to ``file_read``. ``size``: in bytes. A text file has ``text``, ``lines`` and ``language``; with
    ``truncated``, ``text`` is its beginning. An image has ``media_type``; ``blob_get`` of ``blob_id`` returns its
    bytes.
    """

    path: str
    kind: Literal["text", "image"]
    size: int
    text: str | None = None
    lines: int | None = None
    language: str | None = None
    media_type: str | None = None
    blob_id: str | None = None
    truncated: Truncated | None = None


class FileChanges(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The reply to ``file_changes``. ``status``: as in ``file_list``; if the content is the same as in the last commit,
    this field and all fields after it are missing. ``old``: the text in that commit, missing for a new file; ``new``:
    the current text, missing for a deleted file. If the two texts do not fit into a message together, both are missing,
    and ``diff`` has the hunks of their unified diff, or with ``truncated`` only its beginning.
    """

    path: str
    status: Literal["M", "A", "D", "?"] | None = None
    old: str | None = None
    new: str | None = None
    diff: str | None = None
    truncated: bool = False


# devices, agents, usage


class DeviceInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A device. ``state``: the state of its token. ``mine``: the request came from this device. ``connected``: it is
    connected now. ``made_by``: the id of the device, or the fingerprint of the SSH key, that paired it; missing if the
    owner added it.
    """

    id: str
    name: str
    scope: Literal["view", "approve", "run", "admin"]
    state: Literal["valid", "expired", "revoked"]
    created: str
    last_used: str | None = None
    expires: str | None = None
    projects: tuple[str, ...] | None = None
    connected: bool = False
    mine: bool = False
    made_by: str | None = None


class DeviceList(Struct, frozen=True):
    devices: list[DeviceInfo]


class DeviceRevoked(Struct, frozen=True):
    device_id: str
    name: str


class PairCreated(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A pairing code, valid for one device until ``expires_at``. ``link`` opens the web UI with the code; ``qr`` is the
    QR code of the link, row by row, "1" for a dark module, without the quiet zone. ``loopback``: the link works only on
    the server's machine.
    """

    code: str
    scope: Literal["view", "approve", "run", "admin"]
    expires_at: str
    link: str
    qr: list[str]
    name: str | None = None
    loopback: bool = False


class AgentInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An agent. ``name``: as in ``execute``; ``title``: its display name. ``asks``: it can ask for approval;
    ``pictures``: it accepts images with a prompt. ``version``: the version of its program, if that is known without
    starting the program. ``hint``: what to do if it is not installed.
    """

    name: str
    title: str
    installed: bool
    asks: bool = True
    pictures: bool = True
    version: str | None = None
    hint: str | None = None


class AgentList(Struct, frozen=True):
    agents: list[AgentInfo]


class UsageRow(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the runs of one project used on one ``day`` in the server's local time. ``path``: the project's
    directory. Only tokens and costs that the agents report are counted.
    """

    day: str
    project_id: str
    path: str
    runs: int = 0
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


class Usage(Struct, frozen=True):
    """The reply to ``usage``, newest day first. ``since``: the first day that is counted. ``complete``: false while
    the runs in older histories are still being counted.
    """

    since: str
    rows: list[UsageRow]
    complete: bool


class Runs(Struct, frozen=True):
    """The projects' runs that have ended since the server started, without prompts that were removed from the queue.
    ``ended``: the number of runs for each outcome; ``success_rate``: the fraction (0 to 1) that completed.

    ``median_seconds`` and ``p95_seconds``: the median and the 95th percentile of the durations of the latest 1,000 runs
    or, for a device that is confined to some projects, of the latest 1,000 of each of these projects. These two and
    ``success_rate`` are null if no run has ended yet.
    """

    ended: dict[str, int]
    success_rate: float | None
    median_seconds: float | None
    p95_seconds: float | None
    cost_usd: float


class Health(Struct, frozen=True):
    """``status`` is "degraded" if ``problems`` (human-readable sentences) is not empty. ``subscriptions``: the number
    of all clients' subscriptions to projects, terminal sessions and topics, without the "stats" topic. For a device
    that is confined to some projects, only the subscriptions to these projects are counted.
    """

    status: Literal["ok", "degraded"]
    version: str
    uptime_seconds: int
    clients: int
    projects: int
    running: int
    disk_free_mb: int
    problems: list[str]
    subscriptions: int
    runs: Runs


class Limits(Struct, frozen=True):
    """Limits in bytes: a client's message, a message from the server, a piece of a blob (before base64), a blob."""

    message_bytes: int = MESSAGE_BYTES
    frame_bytes: int = FRAME_BYTES
    piece_bytes: int = PIECE_BYTES
    blob_bytes: int = BLOB_BYTES


class DeviceOf(Struct, frozen=True, kw_only=True):
    """The client's identity. ``projects``: the directories that the client is confined to; null if it is not
    confined."""

    name: str
    scope: Literal["view", "approve", "run", "admin"]
    projects: tuple[str, ...] | None


class Login(Struct, frozen=True):
    """How to log in to an agent on the server's machine. ``next``: what to do after the ``command``."""

    command: str
    next: str


class AgentWords(Struct, frozen=True):
    """What clients show about an agent. ``label``: its name at the beginning of a sentence. ``login``: null if it is not
    known how to log in. ``tools``: what its tools do, by name: "read", "edit", "write", "command", "search", "find" (files
    by name), "fetch", "web" (a search), "agent", "todo", "question", "plan", "output" (of a task), "stop" (a task) or
    "skill". A later server may send other words. ``tasks``: the names of the kinds of background tasks, by ``kind``.
    ``compact``: the prompt with which it replaces the conversation with a summary; empty if that is not known.
    """

    name: str
    label: str
    login: Login | None
    tools: Mapping[str, str]
    tasks: Mapping[str, str]
    compact: str


class Hello(Struct, frozen=True, kw_only=True):
    """``machine``: the server's host name. ``client_id``: as in the server's log and in correlation ids. ``agents``:
    the agents of this server, installed or not; ``pictures``: the agents that accept images with a prompt; ``forks``:
    the agents whose conversations can be forked. ``features``: the message types that this server accepts from this
    client. ``modes``: the permission modes that ``set_mode`` accepts here, in addition to an agent's own modes
    (``modes`` of a project). ``mode_offers``: the protocol's modes as clients show them, including modes that
    ``set_mode`` does not accept here. ``agent_words``: the texts about these agents and all built-in ones;
    ``effort_offers``: the levels of effort as clients show them.
    """

    server: str
    version: str
    protocol: int
    client_id: str
    device: DeviceOf
    agents: list[str]
    pictures: list[str]
    forks: list[str]
    features: list[str]
    limits: Limits
    modes: list[str]
    mode_offers: Sequence[ModeOffer]
    agent_words: Sequence[AgentWords]
    effort_offers: Sequence[EffortOffer]
    machine: str


class Authenticated(Struct, frozen=True):
    client_id: str
    client: str


class SshChallenge(Struct, frozen=True):
    """``text`` is what to sign: it contains ``host``, the ``Host`` header of the request, and ``certificate``, the
    SHA-256 of the server's certificate in hexadecimal ("-" without TLS). A client must sign the host and the
    certificate that it sees itself, not the ones in this message.
    """

    nonce: str
    host: str
    certificate: str
    text: str


class Paired(Struct, frozen=True, kw_only=True):
    """The reply to ``pair``: the only message from the server that contains a token. The connection continues as the
    new device's."""

    client_id: str
    client: str
    token: str
    device: DeviceOf


class PushKey(Struct, frozen=True):
    """The server's public key for push messages, which a browser calls ``applicationServerKey``, in base64url."""

    key: str


class PushTested(Struct, frozen=True, omit_defaults=True):
    """The reply to ``push_test``: whether the push service accepted the notification and, if not, why."""

    accepted: bool
    problem: str | None = None


class Topics(Struct, frozen=True):
    topics: list[str]
