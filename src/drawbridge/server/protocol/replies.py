"""The data of messages that are only sent as replies to commands. Pure.

Messages that the server also sends without a request are in ``messages``, even if they are replies too: ``RunReverted``
is the reply to ``run_revert``, and every other client receives it as well.
"""

from __future__ import annotations

from typing import Annotated, Final, Generic, Literal, TypeVar

from msgspec import Meta, Raw, Struct

from drawbridge.server.protocol.messages import (
    BLOB_BYTES,
    FRAME_BYTES,
    MESSAGE_BYTES,
    PIECE_BYTES,
    Answer,
    ChangedFile,
    Direction,
    ProjectInfo,
    Truncated,
)

R = TypeVar("R")


class Reply(Struct, Generic[R], frozen=True):
    """The message that is the reply to a command. ``name``: its ``type``; ``update_type``: if that is ``update``."""

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
    """The reply to the client that has deleted it; the others receive ``update/project_deleted``."""

    project_id: str
    success: bool


class Record(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A line of a project's history. ``truncated``: ``message`` is a preview."""

    seq: int
    timestamp: str
    direction: Direction
    message: Raw
    truncated: Truncated | None = None


StoredRecord = Annotated[Raw, Meta(extra_json_schema={"$ref": "#/$defs/Record"})]
"""The bytes of a ``Record`` as they are in the history: they are sent without being decoded."""


class HistoryPage(Struct, frozen=True, omit_defaults=True):
    """``next``: the ``after_seq`` (or ``before_seq``) of the next page; null if ``has_more`` is false. ``first_seq``: the
    first record that the history still has.
    """

    messages: tuple[StoredRecord, ...]
    next: int | None
    has_more: bool
    first_seq: int = 1


History = tuple[StoredRecord, ...] | HistoryPage
"""The reply to ``get_messages``: the bare array of the specification, or a page."""


class Accepted(Struct, frozen=True):
    """The reply to ``execute``. ``position``: the number of runs before it; 0 if it starts at once."""

    run_id: str
    position: int


class RunChanges(Struct, frozen=True):
    """``diff``: unified; ``truncated`` if it, or ``files``, does not fit into a message."""

    run_id: str
    files: tuple[ChangedFile, ...]
    diff: str
    truncated: bool


class SessionInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A conversation that the agent has stored; ``current``: the next run continues it."""

    session_id: str
    last_active: str
    title: str | None = None
    message_count: int | None = None
    current: bool = False


class SessionList(Struct, frozen=True):
    sessions: list[SessionInfo]


# the server itself


class BlobStored(Struct, frozen=True):
    """The reply to ``blob_put``: ``size`` bytes have arrived; ``complete`` once the last piece has."""

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
    """The reply to ``dir_list``: the names of the directories in ``path``; for ``path`` "" the allowed roots, as full paths.

    ``more``: the directory has more than are listed.
    """

    path: str
    directories: list[str]
    more: bool = False


class Runs(Struct, frozen=True):
    """The runs that have ended since the server started: how many in each way; ``success_rate`` (0 to 1) of them completed.

    ``median_seconds`` and ``p95_seconds`` are of the latest 1,000; null if there was none yet.
    """

    ended: dict[str, int]
    success_rate: float | None
    median_seconds: float | None
    p95_seconds: float | None
    cost_usd: float


class Health(Struct, frozen=True):
    """``status`` "degraded" if ``problems`` (texts for people) is not empty. ``subscriptions``: of projects and topics, over
    all clients.
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
    """Limits in bytes: a client's message, a message of the server, a piece of a blob (before base64), a blob."""

    message_bytes: int = MESSAGE_BYTES
    frame_bytes: int = FRAME_BYTES
    piece_bytes: int = PIECE_BYTES
    blob_bytes: int = BLOB_BYTES


class DeviceOf(Struct, frozen=True, kw_only=True):
    """The client's identity. ``projects``: the directories that it is confined to; null if it is not confined."""

    name: str
    scope: Literal["view", "approve", "run", "admin"]
    projects: tuple[str, ...] | None


class Hello(Struct, frozen=True, kw_only=True):
    """``client_id``: as in the server's log and in correlation ids. ``agents``: those that can be run;
    ``pictures``: those of them that accept one with a prompt. ``features``: the types of message that this server accepts
    from this client. ``modes``: the permission modes that ``set_mode`` accepts here.
    """

    server: str
    version: str
    protocol: int
    client_id: str
    device: DeviceOf
    agents: list[str]
    pictures: list[str]
    features: list[str]
    limits: Limits
    modes: list[str]


class Authenticated(Struct, frozen=True):
    client_id: str
    client: str


class SshChallenge(Struct, frozen=True):
    """What to sign: ``text``, with the host name of the request and the server's certificate (its SHA-256 in hexadecimal, "-"
    without TLS). A client signs the host and the certificate that it sees itself.
    """

    nonce: str
    host: str
    certificate: str
    text: str


class Paired(Struct, frozen=True, kw_only=True):
    """The reply to ``pair``: the only message that contains a token. The connection continues as the new device's."""

    client_id: str
    client: str
    token: str
    device: DeviceOf


class PushKey(Struct, frozen=True):
    """The browser's ``applicationServerKey``, in base64url."""

    key: str


class Topics(Struct, frozen=True):
    topics: list[str]
