"""MCP's Streamable HTTP for Gemini CLI: ``/mcp``, and also ``/events`` and ``/health``.

https://modelcontextprotocol.io/specification/2025-06-18/basic/transports
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from drawbridge.core.tasks import BackgroundTasks
from drawbridge.ide.context import Context
from drawbridge.ide.gemini import notices as gemini_notices
from drawbridge.ide.gemini.gemini import GeminiSession, Notify
from drawbridge.ide.gemini.stream import EventStream
from drawbridge.ide.review import Reviews
from drawbridge.ide.workspace import Workspace
from drawbridge.protocols import jsonrpc, mcp, sse
from drawbridge.protocols.gate import LOOPBACK_HOSTS, Gate, Head, Refusal
from drawbridge.transport.http_server import Exchange

SESSION_HEADER: Final = "mcp-session-id"
VERSION_HEADER: Final = "mcp-protocol-version"
JSON: Final = ("Content-Type", "application/json")

SESSION_LIMIT: Final = 64
"""The maximum number of sessions. To make room for another, the session without a stream that has been silent the
longest is ended."""

DELETED_LIMIT: Final = 1_000
"""The maximum number of sessions that are remembered as deleted by their client."""

KEEP_ALIVE_SECONDS: Final = 20.0
"""Seconds between the comments that keep a silent stream open. The real CLI closes one after 300 s, proxies after 60 s
or less."""

HOUSEKEEPING_SECONDS: Final = 1.0

NO_SESSION: Final = -32000
UNKNOWN_SESSION: Final = -32001

logger = logging.getLogger("drawbridge.gemini")


class SessionIds:
    """Session ids, signed with the bridge's token.

    A bridge that is restarted with the same token accepts them again, because the real CLI reconnects with its old id,
    3 s after the stream has ended (``sse.RETRY_LATER``). If it is refused, it does not try again until the user types
    ``/ide enable`` (0.61.0).
    """

    def __init__(self, token: str) -> None:
        self._key = token.encode()

    def new(self) -> str:
        name = secrets.token_hex(16)
        return f"{name}.{self._seal(name)}"

    def is_ours(self, id: str) -> bool:
        name, _, seal = id.partition(".")
        return hmac.compare_digest(seal.encode("utf-8", "surrogateescape"), self._seal(name).encode())

    def _seal(self, name: str) -> str:
        return hmac.new(self._key, name.encode("utf-8", "surrogateescape"), "sha256").hexdigest()


class GeminiSessions:
    """All sessions, by id: the plain HTTP half of the bridge's application."""

    def __init__(
        self,
        workspace: Workspace,
        reviews: Reviews,
        token: str,
        version: str,
        notify: Notify,
        *,
        hosts: frozenset[str] = LOOPBACK_HOSTS,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._workspace = workspace
        self._reviews = reviews
        self._version = version
        self._notify = notify
        self._gate = Gate(token, "authorization", scheme="Bearer", hosts=hosts)
        self._ids = SessionIds(token)
        self._sessions: dict[str, GeminiSession] = {}
        self._deleted: deque[str] = deque(maxlen=DELETED_LIMIT)
        self._watchers: set[EventStream] = set()
        self._state = gemini_notices.encode(Context().notice())
        self._tasks = BackgroundTasks(logger)
        self._housekeeping: asyncio.Task[None] | None = None
        self._kept_alive = 0.0
        self.on_change = on_change

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(session.name for session in self._sessions.values() if session.stream.has_reader)

    def update(self, context: Context) -> None:
        self._state = gemini_notices.encode(context.notice())
        for stream in self._streams():
            stream.update(self._state)

    async def close(self) -> None:
        """Rejects the open proposals of every session, ends all streams, and cancels all calls."""
        for session in list(self._sessions.values()):
            self._end(session, reject=True)
        for watcher in list(self._watchers):
            watcher.close()
        await self._tasks.close()

    # HTTP application

    def admit(self, head: Head) -> Refusal | None:
        """Everything except ``GET /health`` without a body requires the token, even unknown paths. No body is read
        without the token."""
        bodyless = not head.all("content-length") and not head.all("transfer-encoding")
        if head.method == "GET" and head.path == "/health" and bodyless:
            return self._gate.check_place(head)
        return self._gate.check(head)

    def requested(self, head: Head, body: bytes, exchange: Exchange) -> None:
        handlers = {
            ("GET", "/health"): self._health,
            ("GET", "/events"): self._watch,
            ("POST", "/mcp"): self._post,
            ("GET", "/mcp"): self._listen,
            ("DELETE", "/mcp"): self._delete,
        }
        handler = handlers.get((head.method, head.path))
        if handler is not None:
            handler(head, body, exchange)
        elif any(head.path == path for _, path in handlers):
            allowed = ", ".join(method for method, path in handlers if path == head.path)
            exchange.answer(405, b"This path does not allow this method.\n", [("Allow", allowed)])
        else:
            exchange.answer(404, b"This path does not exist.\n")

    def _health(self, head: Head, body: bytes, exchange: Exchange) -> None:
        exchange.answer(200, b'{"status":"ok"}', [JSON])

    def _watch(self, head: Head, body: bytes, exchange: Exchange) -> None:
        """The event stream of all notifications that the specification defines. It is not part of any session."""
        watcher = EventStream(self._state)
        self._watchers.add(watcher)
        watcher.open(exchange, 0)
        self._start_housekeeping()

    def _post(self, head: Head, body: bytes, exchange: Exchange) -> None:
        if (head.one("content-type") or "").partition(";")[0].strip().lower() != "application/json":
            return exchange.answer(415, b"The body must be application/json.\n")
        if not _accepts(head, "application/json", sse.CONTENT_TYPE):
            return exchange.answer(406, b"Accept must name application/json and text/event-stream.\n")
        message = jsonrpc.decode(_text(body))
        if isinstance(message, jsonrpc.Invalid) and message.code != jsonrpc.INVALID_PARAMS:
            return exchange.answer(400, jsonrpc.error(message.id, message.code, message.message), [JSON])
        if isinstance(message, jsonrpc.Request) and message.method == "initialize":
            return self._initialize(head, message, exchange)
        session = self._session(head, exchange)
        if session is None:
            return None
        output = session.mcp.receive_decoded(message)
        if isinstance(output, mcp.Reply):
            exchange.answer(200, output.data, [JSON])
        elif isinstance(output, mcp.Call):
            words = f"{output.tool} failed inside Drawbridge. Its log has the reason."
            problem = jsonrpc.error(output.id, jsonrpc.INTERNAL_ERROR, words)
            self._tasks.start(
                self._call(session, output, exchange), output.tool, lambda _: exchange.answer(200, problem, [JSON])
            )
        else:
            exchange.answer(202)  # exactly this status, because otherwise the real CLI never opens its stream
        return None

    def _initialize(self, head: Head, message: jsonrpc.Request, exchange: Exchange) -> None:
        if head.all(SESSION_HEADER):
            problem = jsonrpc.error(None, NO_SESSION, "initialize starts a new session; send it without a session ID.")
            return exchange.answer(400, problem, [JSON])
        session = self._begin(self._ids.new(), exchange)
        if session is not None:
            reply = session.mcp.receive_decoded(message)
            assert isinstance(reply, mcp.Reply)
            exchange.answer(200, reply.data, [JSON, (SESSION_HEADER, session.id)])
        return None

    def _listen(self, head: Head, body: bytes, exchange: Exchange) -> None:
        if not _accepts(head, sse.CONTENT_TYPE):
            return exchange.answer(406, b"Accept must name text/event-stream.\n")
        session = self._session(head, exchange)
        if session is not None:
            session.listen(exchange, sse.last_event_id(head.one("last-event-id")))
        return None

    def _delete(self, head: Head, body: bytes, exchange: Exchange) -> None:
        session = self._session(head, exchange)
        if session is not None:
            self._deleted.append(session.id)
            self._end(session)
            exchange.answer(200)

    def _session(self, head: Head, exchange: Exchange) -> GeminiSession | None:
        """The session of a request; None if the request can't be accepted, in which case it has been answered."""
        id, version = head.one(SESSION_HEADER), head.one(VERSION_HEADER)
        if id is None:
            exchange.answer(400, jsonrpc.error(None, NO_SESSION, "No session: initialize first."), [JSON])
        elif id in self._deleted or not self._ids.is_ours(id):
            exchange.answer(404, jsonrpc.error(None, UNKNOWN_SESSION, "Session not found: initialize again."), [JSON])
        elif version is not None and version not in mcp.VERSIONS:
            exchange.answer(400, jsonrpc.error(None, NO_SESSION, f"Unsupported protocol version: {version}"), [JSON])
        elif (session := self._sessions.get(id) or self._begin(id, exchange)) is not None:
            session.seen()
            return session
        return None

    def _begin(self, id: str, exchange: Exchange) -> GeminiSession | None:
        """Starts a session, either a new one or one from before a restart of the bridge. Returns None if there are too
        many sessions. In that case, the request has been answered.
        """
        if len(self._sessions) >= SESSION_LIMIT:
            silent = [session for session in self._sessions.values() if not session.stream.has_reader]
            if not silent:
                exchange.answer(503, b"Too many sessions are open already.\n")
                return None
            self._end(min(silent, key=lambda session: session.seen_at))
        stream = EventStream(self._state, lambda: self.on_change())
        session = GeminiSession(
            id, stream, self._version, self._workspace, self._reviews, self._tasks, self._notify, self._copied
        )
        self._sessions[id] = session
        self._start_housekeeping()
        return session

    async def _call(self, session: GeminiSession, call: mcp.Call, exchange: Exchange) -> None:
        exchange.answer(200, await session.call(call), [JSON])

    # streams and sessions

    def _streams(self) -> list[EventStream]:
        return [*(session.stream for session in self._sessions.values()), *self._watchers]

    def _copied(self, decision: bytes, file_path: str) -> None:
        for watcher in self._watchers:
            watcher.decided(decision, file_path)

    def _end(self, session: GeminiSession, *, reject: bool = False) -> None:
        self._sessions.pop(session.id, None)
        session.end(reject=reject)

    def _start_housekeeping(self) -> None:
        if self._housekeeping is None:
            self._kept_alive = time.monotonic()
            what = "ending sessions whose CLI has gone"
            self._housekeeping = self._tasks.repeat(self._tidy, HOUSEKEEPING_SECONDS, what)

    async def _tidy(self) -> None:
        """One round of housekeeping. The rounds end when no sessions or watchers are left."""
        now = time.monotonic()
        for session in list(self._sessions.values()):
            if session.is_gone(now):
                self._end(session)
        self._watchers = {watcher for watcher in self._watchers if watcher.has_reader}
        if now - self._kept_alive > KEEP_ALIVE_SECONDS:
            self._kept_alive = now
            for stream in self._streams():
                stream.keep_alive()
        if self._housekeeping is not None and not self._sessions and not self._watchers:
            self._housekeeping.cancel()
            self._housekeeping = None


def _accepts(head: Head, *types: str) -> bool:
    accepted = " ".join(head.all("accept"))
    return "*/*" in accepted or all(type in accepted for type in types)


def _text(body: bytes) -> str:
    """The body as text; "", which is not valid JSON, if it is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return ""
