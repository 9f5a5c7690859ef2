"""A connection to the server that reconnects automatically. Lasting requests are sent again until they are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import ssl
import uuid
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
    WebSocketException,
)

from drawbridge.core.errors import BadSetting, DrawbridgeError, NoServer
from drawbridge.core.own_command import own_command
from drawbridge.tui.server_address import ServerAddress, fingerprint_of, is_here

PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds before the first, second, … retry. All later retries use the last value."""

OPENING_SECONDS: Final = 10.0
ENDING_SECONDS: Final = 1.0
LARGEST: Final = 16 * 1024 * 1024
"""The maximum size of a message from the server, in bytes. The server's limit is 1 MB, except for a long list of
projects."""

OTHER_PROTOCOL: Final = "it does not use the Drawbridge protocol"
UNANSWERED: Final = "The connection was lost before the server responded. Once you’re back online, try again if needed."
"""The error for a request that was sent. The server may have executed it. The web UI uses the same words."""
NO_REASON: Final = "it closed the connection"
NOT_HTTP: Final = "it did not send a valid HTTP response"

REFUSALS: Final = ("UNAUTHORIZED", "TOKEN_REVOKED", "TOKEN_EXPIRED")

Message: TypeAlias = dict[str, Any]

State: TypeAlias = Literal["connecting", "open", "waiting", "refused"]
"""The state of a connection. ``open``: the token was accepted. ``waiting``: the next attempt has not begun yet.
``refused``: the token was refused, and no more attempts are made."""


class RequestError(Exception):
    """A request that failed. ``code``: as in the protocol, or OFFLINE if no connection was open, or if it broke before
    the answer."""

    def __init__(self, code: str, text: str, details: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.details = details or {}


class _PendingRequest(NamedTuple):
    text: str
    lasting: bool
    answer: asyncio.Future[Message]


class _Refused(Exception):
    """Raised if the server refused the token, with the server's message as the text."""


class _OtherCertificate(ssl.SSLCertVerificationError):
    """Raised if the server's certificate does not have the expected fingerprint."""


class _NotNow(ConnectionError):
    """Raised if the server refused the connection but may accept it later, with the server's message as the text."""


class _OtherProtocol(InvalidMessage):
    """Raised if a message from the server is not one of Drawbridge's protocol."""


class Connection:
    """A connection that reconnects automatically. ``find``: returns the server's address, and is called for each
    attempt. ``name``: the name that other clients see for decisions from here if the token is the owner's. With any
    other token, they see the device's name.

    ``on_message`` is called with each message except errors, ``on_state`` when ``state`` has changed, and ``on_open``
    once the token has been accepted, before lasting requests are sent again. Callbacks must not block.
    """

    def __init__(
        self,
        find: Callable[[], ServerAddress],
        name: str,
        *,
        on_message: Callable[[Message], None],
        on_state: Callable[[], None],
        on_open: Callable[[], None],
    ) -> None:
        self.name = name
        self.state: State = "connecting"
        self.problem = ""
        """The reason why the connection is not open, as text for the user; empty while it is open."""
        self.machine = ""
        """The server's host name; empty if the server is on this machine, or not known yet."""
        self._on_message = on_message
        self._on_state = on_state
        self._on_open = on_open
        self._find = find
        self._socket: ClientConnection | None = None
        self._asked: dict[str, _PendingRequest] = {}
        self._hurry = asyncio.Event()

    async def open(self) -> None:
        """Opens the first connection, which ``run`` then uses. Raises ``NoServer`` or ``BadSetting``."""
        address = self._find()
        try:
            self._socket = await self._connect(address)
        except _Refused as refusal:
            use = "Use --token-file to name the file with the right token."
            if not address.token:
                raise BadSetting(
                    f"The server at {address.url} requires a token, but {address.token_file} does not contain one or does "
                    f"not exist. {use}"
                ) from None
            raise BadSetting(f"The server at {address.url} did not accept the token: {refusal} {use}") from None
        except (OSError, WebSocketException, TimeoutError) as error:
            raise NoServer(_no_server(address, error)) from None

    async def first(self, type: str, project: str | None = None) -> Message:
        """Sends one request before ``run``, and returns the answer, which may be an error. Raises ``NoServer``."""
        assert self._socket is not None
        try:
            about = {} if project is None else {"project_id": project}
            await self._socket.send(json.dumps({"type": type, **about, "data": {}, "request_id": type}))
            async with asyncio.timeout(OPENING_SECONDS):
                while (answer := json.loads(await self._socket.recv())).get("request_id") != type:
                    pass
        except TimeoutError:
            raise NoServer(f"The server did not answer within {OPENING_SECONDS:g} seconds. Try again.") from None
        except ConnectionClosed:
            raise NoServer("The server closed the connection before it answered. Try again.") from None
        found: Message = answer
        return found

    async def close(self) -> None:
        """Closes the connection, for a caller of ``open`` that does not call ``run``."""
        if self._socket is not None:
            await _close(self._socket)

    async def run(self) -> None:
        """Connects, and reconnects, until it is canceled or the token is refused."""
        tries = 0
        try:
            while True:
                try:
                    socket = self._socket or await self._connect(self._find())
                except _Refused as refusal:
                    self.problem = str(refusal)
                    self._become("refused")
                    return self._fail(lambda asked: True)
                except (OSError, WebSocketException, TimeoutError, DrawbridgeError) as error:
                    self.problem = _why(error)
                else:
                    tries = 0
                    await self._listen(socket)
                self._become("waiting")
                await self._pause(PAUSES[min(tries, len(PAUSES) - 1)])
                tries += 1
                self._become("connecting")
        finally:
            self._fail(lambda asked: True)
            await self.close()

    def retry_now(self) -> None:
        """Starts the next attempt now. Has no effect unless ``run`` is waiting for it."""
        self._hurry.set()

    async def ask(
        self,
        type: str,
        data: Message | None = None,
        *,
        project: str | None = None,
        id: str | None = None,
        lasting: bool = False,
    ) -> Message:
        """Sends a request and returns its answer. Raises ``RequestError``.

        A ``lasting`` request is sent again after a lost connection, under the same id, until it is answered, and the
        server executes it only once. Other requests fail with OFFLINE.
        """
        id = id or str(uuid.uuid4())
        message = {"type": type, "project_id": project, "data": data or {}, "request_id": id}
        text = json.dumps({name: value for name, value in message.items() if value is not None})
        if self.state != "open" and not (lasting and self.state != "refused"):
            raise self._offline()
        asked = _PendingRequest(text, lasting, asyncio.get_running_loop().create_future())
        self._asked[id] = asked
        try:
            await self._say(text)
            return await asked.answer
        finally:
            self._asked.pop(id, None)

    async def _connect(self, address: ServerAddress) -> ClientConnection:
        """Returns a connection on which the token was accepted."""
        self.machine = "" if is_here(address.url) else urlsplit(address.url).netloc
        socket = await connect(
            address.url, ssl=address.tls, proxy=None, max_size=LARGEST, open_timeout=OPENING_SECONDS,
            close_timeout=ENDING_SECONDS, compression=None,
        )  # fmt: skip
        try:
            _check_certificate(socket, address)
            await self._show_token(socket, address)
        except BaseException:
            await _close(socket)
            raise
        return socket

    async def _show_token(self, socket: ClientConnection, address: ServerAddress) -> None:
        await socket.send(json.dumps({"type": "auth", "data": {"token": address.token, "client": self.name}}))
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                while not _is_accepted(json.loads(await socket.recv())):
                    pass
        except (ValueError, LookupError, TypeError):
            raise _OtherProtocol(OTHER_PROTOCOL) from None

    async def _listen(self, socket: ClientConnection) -> None:
        """Handles messages until the connection ends."""
        self._socket = socket
        self.problem = ""
        self._become("open")
        self._on_open()
        try:
            for asked in [*self._asked.values()]:
                if asked.lasting:
                    await self._say(asked.text)
            async for text in socket:
                self._received(json.loads(text))
        except ConnectionClosed:
            pass
        self.problem = socket.close_reason or "the connection broke"
        self._socket = None
        self._fail(lambda asked: not asked.lasting)

    def _received(self, message: Message) -> None:
        asked = self._asked.get(message.get("request_id", ""))
        if message["type"] != "error":
            self._on_message(message)
        if asked is None or asked.answer.done():
            return
        if message["type"] != "error":
            asked.answer.set_result(message)
            return
        error = message["data"]
        if asked.lasting and error["code"] == "SHUTTING_DOWN":
            return  # the request is sent again on the next connection
        asked.answer.set_exception(RequestError(error["code"], error["message"], error.get("details")))

    async def _say(self, text: str) -> None:
        """Sends a message. Without an open connection the message is lost. Lasting requests are sent again on the next
        connection."""
        if self._socket is not None and self.state == "open":
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(text)

    async def _pause(self, seconds: float) -> None:
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)

    def _fail(self, which: Callable[[_PendingRequest], bool]) -> None:
        for asked in [*self._asked.values()]:
            if which(asked) and not asked.answer.done():
                # A request that is not sent again is open only if it was sent.
                failure = self._offline() if asked.lasting else RequestError("OFFLINE", UNANSWERED)
                asked.answer.set_exception(failure)

    def _offline(self) -> RequestError:
        """The error for a request that can't be sent."""
        if self.state == "refused":
            text = refused_words(self.problem)
        else:
            text = "You’re disconnected. Try again once you’re back online."
        return RequestError("OFFLINE", text)

    def _become(self, state: State) -> None:
        if self.state != state:
            self.state = state
            self._on_state()


def refused_words(problem: str) -> str:
    """Describes a connection whose token was refused, and what to do. ``problem``: the server's message."""
    reason = f"{problem}." if problem and not problem.endswith(".") else problem
    return f"Disconnected: {reason} To use another token, quit and restart with --token-file."


def _is_accepted(message: Message) -> bool:
    """Whether this message accepts the token. Raises ``_Refused``, or ``_NotNow`` if a retry may succeed."""
    if message["type"] == "error":
        words: str = message["data"]["message"]
        raise _Refused(words) if message["data"]["code"] in REFUSALS else _NotNow(words)
    return bool(message["type"] == "auth")


async def _close(socket: ClientConnection) -> None:
    with contextlib.suppress(WebSocketException, OSError):
        await socket.close()


def _check_certificate(socket: ClientConnection, address: ServerAddress) -> None:
    """Compares the server's certificate with the expected fingerprint, before the token is sent. Raises
    ``ssl.SSLCertVerificationError``."""
    if address.fingerprint is None or address.tls is None:
        return
    shown = socket.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if fingerprint_of(shown) != address.fingerprint:
        found = fingerprint_of(shown)
        raise _OtherCertificate(f"its certificate has the fingerprint {found}, not {address.fingerprint}")


def _no_server(address: ServerAddress, error: Exception) -> str:
    """Describes why the first connection failed, and what to do."""
    url, why = address.url, _why(error)
    program = f"The program that answers at {url}"
    if isinstance(error, ssl.SSLCertVerificationError):
        advice = (
            "If `drawbridge serve` shows the first of these fingerprints, pass it with --fingerprint."
            if isinstance(error, _OtherCertificate)
            else "Pass the fingerprint that `drawbridge serve` shows (--fingerprint), or the server's certificate (--ca)."
        )
        return f"The server at {url} could not be verified: {why}. The token was not sent. {advice}"
    if isinstance(error, ssl.SSLError):
        advice = "If the server runs with --no-tls, use ws:// in --url." if is_here(url) else "Check the address."
        return f"The TLS connection to {url} failed: {why}. {advice}"
    if isinstance(error, _NotNow):
        return f"The server at {url} refused the connection: {why}."
    if isinstance(error, ConnectionClosed):
        if not _closing_reason(error):
            return f"{program} is not a Drawbridge server, or is shutting down: {why}."
        return f"{program} closed the connection: {why}. Try again."
    if isinstance(error, InvalidStatus):
        return f"{program} is not a Drawbridge server, or refused the connection: {why}."
    if isinstance(error, InvalidHandshake | InvalidURI):
        is_other = isinstance(error, InvalidMessage) and not isinstance(error, _OtherProtocol)
        uses_tls = ", or uses TLS (wss://)" if address.tls is None and is_other else ""
        return f"{program} is not a Drawbridge server{uses_tls}: {why}."
    if isinstance(error, TimeoutError):
        text = f"The server at {url} did not answer within {OPENING_SECONDS:g} seconds."
        return f"{text} Check the address, and that the server is running."
    advice = (
        f"Start a server with `{own_command()} serve`, or give its address with --url."
        if is_here(url)
        else "Check the address, and that the server is running."
    )
    return f"No server answers at {url}: {why}. {advice}"


def _closing_reason(error: ConnectionClosed) -> str:
    """The reason with which the server closed the connection; empty if it gave none."""
    return error.rcvd.reason.removesuffix(".") if error.rcvd is not None else ""


def _why(error: Exception) -> str:
    """The reason in a few words, without addresses and error numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message if hasattr(error, "verify_message") else str(error.args[0])
    if isinstance(error, _NotNow):
        return str(error).removesuffix(".")
    if isinstance(error, ConnectionClosed):
        return _closing_reason(error) or NO_REASON
    if isinstance(error, InvalidStatus):
        return f"it responded with HTTP {error.response.status_code}"
    if isinstance(error, _OtherProtocol):
        return OTHER_PROTOCOL
    if isinstance(error, InvalidMessage):
        return NOT_HTTP
    if isinstance(error, TimeoutError):
        return f"no answer within {OPENING_SECONDS:g} seconds"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, ssl.SSLError):  # the error's number is not one of the operating system's
        return (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, OSError):
        if error.errno is None:  # asyncio tried several addresses, and lists all of them in its text
            return "none of the host's addresses can be reached"
        # asyncio's own text for an address that can't be reached contains the address.
        return (os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)).lower()
    return str(error)
