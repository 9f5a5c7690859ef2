"""One connection to the server that comes back by itself. Requests that last are said again until they are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import uuid
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidURI, WebSocketException

from drawbridge.core.errors import BadSetting, DrawbridgeError, NoServer
from drawbridge.tui.place import Place, fingerprint_of

PAUSES: Final = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds until the first, second, … try; then always the last."""

OPENING_SECONDS: Final = 10.0
ENDING_SECONDS: Final = 1.0
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a message that is taken: the server's own limit is 1 MB, but for a long list of projects."""

REFUSALS: Final = ("UNAUTHORIZED", "TOKEN_REVOKED", "TOKEN_EXPIRED")

Message: TypeAlias = dict[str, Any]

State: TypeAlias = Literal["connecting", "open", "waiting", "refused"]
"""``open``: the token was taken. ``waiting``: for the next try. ``refused``: the token was not taken, nothing is tried."""


class RequestError(Exception):
    """A request that was not done: ``code`` as in the protocol, or OFFLINE where the connection broke before the answer."""

    def __init__(self, code: str, text: str, details: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.details = details or {}


class _Asked(NamedTuple):
    text: str
    lasting: bool
    answer: asyncio.Future[Message]


class _Refused(Exception):
    """The server does not take the token; the text is the server's."""


class Connection:
    """``find`` says where the server is, anew at each try; ``name`` is what others see where this client decides.

    ``on_open`` is called when the token was taken, before lasting requests are said again. None of the callbacks waits.
    """

    def __init__(self, find: Callable[[], Place], name: str) -> None:
        self.name = name
        self.state: State = "connecting"
        self.problem = ""
        """Why there is no connection, in words for the person."""
        self.on_state: Callable[[], None] = lambda: None
        self.on_open: Callable[[], None] = lambda: None
        self.on_message: Callable[[Message], None] = lambda message: None
        self._find = find
        self._socket: ClientConnection | None = None
        self._asked: dict[str, _Asked] = {}
        self._hurry = asyncio.Event()

    async def open(self) -> None:
        """The first time: raises what a person has to know, ``NoServer`` or ``BadSetting``. ``run`` goes on with it."""
        place = self._find()
        try:
            self._socket = await self._meet(place)
        except _Refused as refusal:
            held = (
                " Name the file with the right one with --token-file."
                if place.token
                else f" There is no token in {place.token_file}."
            )
            raise BadSetting(f"The server at {place.url} did not accept the token: {refusal}{held}") from None
        except (OSError, WebSocketException, TimeoutError) as error:
            raise NoServer(_no_server(place, error)) from None

    async def first(self, type: str) -> Message:
        """The answer to one request, before ``run``. Raises ``NoServer``."""
        assert self._socket is not None
        try:
            await self._socket.send(json.dumps({"type": type, "data": {}, "request_id": type}))
            async with asyncio.timeout(OPENING_SECONDS):
                while (answer := json.loads(await self._socket.recv())).get("request_id") != type:
                    pass
        except (ConnectionClosed, TimeoutError):
            raise NoServer("The server did not answer. Nothing was done; try again.") from None
        found: Message = answer
        return found

    async def close(self) -> None:
        """Where ``run`` is not to follow."""
        if self._socket is not None:
            await _close(self._socket)

    async def run(self) -> None:
        """Until it is cancelled, or the token is refused."""
        tries = 0
        try:
            while True:
                try:
                    socket = self._socket or await self._meet(self._find())
                except _Refused as refusal:
                    self.problem = str(refusal)
                    self._fail(lambda asked: True)
                    return self._become("refused")
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

    def hurry(self) -> None:
        """Does not wait for the next try: somebody looks."""
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
        """The answer. Raises ``RequestError``.

        A ``lasting`` request is said again after a break, under the same id, until it is answered: the server does
        nothing twice. Others fail with OFFLINE.
        """
        id = id or str(uuid.uuid4())
        message = {"type": type, "project_id": project, "data": data or {}, "request_id": id}
        text = json.dumps({name: value for name, value in message.items() if value is not None})
        if self.state != "open" and not (lasting and self.state != "refused"):
            raise _offline()
        asked = _Asked(text, lasting, asyncio.get_running_loop().create_future())
        self._asked[id] = asked
        try:
            await self._say(text)
            return await asked.answer
        finally:
            self._asked.pop(id, None)

    async def _meet(self, place: Place) -> ClientConnection:
        """A connection that has taken the token."""
        socket = await connect(
            place.url, ssl=place.tls, proxy=None, max_size=LARGEST, open_timeout=OPENING_SECONDS,
            close_timeout=ENDING_SECONDS, compression=None,
        )  # fmt: skip
        try:
            _check_certificate(socket, place)
            await self._show_token(socket, place)
        except BaseException:
            await _close(socket)
            raise
        return socket

    async def _show_token(self, socket: ClientConnection, place: Place) -> None:
        await socket.send(json.dumps({"type": "auth", "data": {"token": place.token, "client": self.name}}))
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                while not _is_taken(json.loads(await socket.recv())):
                    pass
        except (ValueError, LookupError, TypeError):
            raise InvalidMessage("it does not use the Drawbridge protocol") from None

    async def _listen(self, socket: ClientConnection) -> None:
        """Until it ends."""
        self._socket = socket
        self.problem = ""
        self._become("open")
        self.on_open()
        try:
            for asked in [*self._asked.values()]:
                if asked.lasting:
                    await self._say(asked.text)
            async for text in socket:
                self._heard(json.loads(text))
        except ConnectionClosed:
            pass
        self.problem = socket.close_reason or "the connection broke"
        self._socket = None
        self._fail(lambda asked: not asked.lasting)

    def _heard(self, message: Message) -> None:
        asked = self._asked.get(message.get("request_id", ""))
        if message["type"] != "error":
            self.on_message(message)
        if asked is None or asked.answer.done():
            return
        if message["type"] != "error":
            asked.answer.set_result(message)
            return
        error = message["data"]
        if asked.lasting and error["code"] == "SHUTTING_DOWN":
            return  # it is said again to the server that comes next
        asked.answer.set_exception(RequestError(error["code"], error["message"], error.get("details")))

    async def _say(self, text: str) -> None:
        """A connection that is just ending takes nothing; what lasts is said again to the next one."""
        if self._socket is not None and self.state == "open":
            with contextlib.suppress(ConnectionClosed):
                await self._socket.send(text)

    async def _pause(self, seconds: float) -> None:
        self._hurry.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)

    def _fail(self, which: Callable[[_Asked], bool]) -> None:
        for asked in [*self._asked.values()]:
            if which(asked) and not asked.answer.done():
                asked.answer.set_exception(_offline())

    def _become(self, state: State) -> None:
        if self.state != state:
            self.state = state
            self.on_state()


def _is_taken(message: Message) -> bool:
    """Whether this says that the token was. Raises ``_Refused``, or ``ConnectionError`` where a later try may go well."""
    if message["type"] == "error":
        words: str = message["data"]["message"]
        raise _Refused(words) if message["data"]["code"] in REFUSALS else ConnectionError(words)
    return bool(message["type"] == "auth")


async def _close(socket: ClientConnection) -> None:
    with contextlib.suppress(WebSocketException, OSError):
        await socket.close()


def _check_certificate(socket: ClientConnection, place: Place) -> None:
    """Before the token is sent."""
    if place.fingerprint is None or place.tls is None:
        return
    shown = socket.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    if fingerprint_of(shown) != place.fingerprint:
        raise ssl.SSLCertVerificationError(f"its fingerprint is {fingerprint_of(shown)}")


def _no_server(place: Place, error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"The server at {place.url} could not be verified: {_why(error)}. The token was not sent; "
            "name its certificate with --ca, or the fingerprint that `drawbridge serve` shows with --fingerprint."
        )
    if isinstance(error, InvalidHandshake | InvalidURI | ssl.SSLError | ConnectionClosed):
        return f"The program that answers at {place.url} is not a Drawbridge server: {_why(error)}. Nothing was done."
    return (
        f"No server answers at {place.url}: {_why(error)}. Nothing was done. Start a server with `drawbridge serve`, or "
        "give its address with --url."
    )


def _why(error: Exception) -> str:
    """In a few words, without addresses and numbers that say nothing to a person."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message if hasattr(error, "verify_message") else str(error.args[0])
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error)


def _offline() -> RequestError:
    return RequestError(
        "OFFLINE", "There is no connection to the server. Nothing was done. Try again when the connection is back."
    )
