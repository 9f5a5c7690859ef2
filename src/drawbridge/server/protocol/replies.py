"""What the server answers for itself, without any project: who it is, how it is doing, blobs, directories. Pure."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from drawbridge.server.protocol.messages import BLOB_BYTES, FRAME_BYTES, MESSAGE_BYTES, PIECE_BYTES, State


class BlobStored(Struct, frozen=True):
    """The answer to ``blob_put``: ``size`` bytes are here, ``complete`` once the last piece is."""

    blob_id: str
    size: int
    complete: bool


class BlobPiece(Struct, frozen=True):
    """The answer to ``blob_get``: ``data`` (base64 on the wire) begins at ``offset`` of ``size`` bytes."""

    blob_id: str
    offset: int
    data: bytes
    size: int
    last: bool


class Directories(Struct, frozen=True, omit_defaults=True):
    """The answer to ``dir_list``: the directories in ``path``, by name; ``path`` "" holds the allowed roots, whole.

    ``more``: there are more than are told.
    """

    path: str
    directories: list[str]
    more: bool = False


class Stats(Struct, frozen=True):
    """``memory_mb`` and ``cpu_percent`` (of one core): the server with all processes it started."""

    projects: int
    active_sessions: int
    project_states: dict[str, State]
    cpu_percent: float
    memory_mb: int


class Runs(Struct, frozen=True):
    """Those that have ended since the server started: how many in each way; ``success_rate`` (0 to 1) of them were completed.

    ``median_seconds`` and ``p95_seconds`` are of the latest 1,000; null where there was none yet.
    """

    ended: dict[str, int]
    success_rate: float | None
    median_seconds: float | None
    p95_seconds: float | None
    cost_usd: float


class Health(Struct, frozen=True):
    """``status`` "degraded" where ``problems`` (texts for people) is not empty. ``subscriptions``: of projects and topics, over
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


class DiskWarning(Struct, frozen=True):
    """``update/disk_warning``: of a "project" (its history; ``project_id`` says whose), of all "data" that the server keeps,
    or of the "disk" it lies on. Once at each crossing; ``message`` is for people.
    """

    scope: Literal["project", "data", "disk"]
    used_mb: int
    limit_mb: int
    message: str


class Limits(Struct, frozen=True):
    """Bytes of: a client's message, a message of ours, a piece of a blob (before base64), a blob."""

    message_bytes: int = MESSAGE_BYTES
    frame_bytes: int = FRAME_BYTES
    piece_bytes: int = PIECE_BYTES
    blob_bytes: int = BLOB_BYTES


class DeviceOf(Struct, frozen=True, kw_only=True):
    """Who the server takes the client for. ``projects``: the directories that it is confined to; null: none."""

    name: str
    scope: Literal["view", "approve", "run", "admin"]
    projects: tuple[str, ...] | None


class Hello(Struct, frozen=True, kw_only=True):
    """``client_id``: as in the server's log and in correlation ids. ``agents``: those that can be run;
    ``pictures``: those of them that can be given one with a prompt. ``features``: the types of message that this server takes
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
    """What to sign: ``text``, with the host that the server was asked by and the certificate that it has shown (its SHA-256
    in hexadecimal, "-" without TLS). A client signs the host and the certificate that it has seen itself.
    """

    nonce: str
    host: str
    certificate: str
    text: str


class Paired(Struct, frozen=True, kw_only=True):
    """The answer to ``pair``: the one message that a token is in. The connection goes on as the new device's."""

    client_id: str
    client: str
    token: str
    device: DeviceOf


class PushKey(Struct, frozen=True):
    """The browser's ``applicationServerKey``, in base64url."""

    key: str


class Topics(Struct, frozen=True):
    topics: list[str]
