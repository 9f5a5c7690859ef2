"""Neovim's msgpack-RPC without I/O: bytes in, events out; calls in, bytes out.

Every message is one array: a request ``[0, id, method, params]``, a response ``[1, id, error, result]`` or a
notification ``[2, method, params]`` (https://github.com/msgpack-rpc/msgpack-rpc/blob/master/spec.md). Strings in Neovim
may contain any bytes, so they are decoded and encoded with ``surrogateescape``. Handles of buffers, windows and tab
pages are msgpack extension values and are passed on as ``msgpack.ExtType``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgpack
from msgspec import Struct

from drawbridge.core.errors import BadMessage

MESSAGE_LIMIT: Final = 64 * 1024 * 1024
"""The maximum size of one message, in bytes. The largest that Neovim sends is the whole text of a buffer."""


class Request(Struct, frozen=True):
    """A request from the peer, which waits for ``Connection.respond`` with the same ``id``."""

    id: int
    method: str
    params: list[Any]


class Response(Struct, frozen=True):
    """The answer to the request with this ``id``. ``error`` is None if the request succeeded."""

    id: int
    error: Any
    result: Any


class Notification(Struct, frozen=True):
    method: str
    params: list[Any]


Event: TypeAlias = Request | Response | Notification


class Connection:
    """One side of a connection. It can no longer be used once ``receive`` has raised ``BadMessage``, because the stream
    is out of sync."""

    def __init__(self) -> None:
        self._packer = msgpack.Packer(unicode_errors="surrogateescape")
        self._unpacker = msgpack.Unpacker(
            unicode_errors="surrogateescape", strict_map_key=False, max_buffer_size=MESSAGE_LIMIT
        )
        self._last_id = 0

    def request(self, method: str, params: Sequence[Any]) -> tuple[int, bytes]:
        """The new request's id, and the bytes to send. Raises ``BadMessage`` for values that msgpack can't encode."""
        self._last_id += 1
        return self._last_id, self._pack([0, self._last_id, method, params])

    def respond(self, id: int, *, error: Any = None, result: Any = None) -> bytes:
        return self._pack([1, id, error, result])

    def notify(self, method: str, params: Sequence[Any]) -> bytes:
        return self._pack([2, method, params])

    def receive(self, data: bytes) -> list[Event]:
        """The messages that ``data`` completes. Raises ``BadMessage`` if it is not valid, or a message is too large."""
        try:
            self._unpacker.feed(data)
            return [_event(message) for message in self._unpacker]
        except msgpack.BufferFull:
            raise BadMessage(f"A message is larger than {MESSAGE_LIMIT:,} bytes.") from None
        except (ValueError, TypeError, RecursionError) as error:
            # msgpack raises several subclasses of ValueError, and TypeError for a map with a list as a key.
            raise BadMessage(f"The data is not valid msgpack: {error or type(error).__name__}.") from None

    def _pack(self, message: list[Any]) -> bytes:
        try:
            packed: bytes = self._packer.pack(message)
        except (ValueError, TypeError, OverflowError) as error:
            # After a failure the packer still contains a part of the message.
            self._packer.reset()
            raise BadMessage(f"The value can't be encoded as msgpack: {error}.") from None
        return packed


def _event(message: Any) -> Event:
    match message:
        case [0, int(id), str(method), list(params)]:
            return Request(id, method, params)
        case [1, int(id), error, result]:
            return Response(id, error, result)
        case [2, str(method), list(params)]:
            return Notification(method, params)
        case _:
            raise BadMessage("A message is not a request, a response or a notification.")
