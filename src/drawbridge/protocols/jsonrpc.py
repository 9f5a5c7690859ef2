"""JSON-RPC 2.0 messages: decoding, with the right error for each kind of invalid message, and encoding. Does no I/O."""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

Id: TypeAlias = int | str
"""The id of a request. 0 is a valid id, because the real CLI counts from 0."""


class Request(Struct, frozen=True):
    id: Id
    method: str
    params: dict[str, Any]


class Notification(Struct, frozen=True):
    method: str
    params: dict[str, Any]


class Response(Struct, frozen=True):
    """The peer's answer to a request. Only its id is read; None if that is not valid."""

    id: Id | None


class Invalid(Struct, frozen=True):
    """A message that is not valid, or that has a form that is not supported (a batch, or a request with parameters that
    are not an object). Answer it with ``error(id, code, message)``."""

    id: Id | None
    code: int
    message: str


Message: TypeAlias = Request | Notification | Response | Invalid

_encoder = msgspec.json.Encoder()


def decode(text: str) -> Message:
    """Decodes one message. Never raises. Text that is not a valid message becomes an ``Invalid``, with its id if that
    can be read. Parameters of a notification that are not an object are ignored."""
    try:
        value = _value(text)
    except ValueError:
        return Invalid(None, PARSE_ERROR, "Parse error: the message is not valid JSON.")
    except RecursionError:
        return Invalid(None, PARSE_ERROR, "Parse error: the message is nested too deeply.")
    if not isinstance(value, dict):
        return Invalid(None, INVALID_REQUEST, "Invalid request: the message must be a JSON object.")
    return _message(value)


def _value(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        if "\\ud" not in text and "\\uD" not in text:
            raise
        # Half a surrogate pair, which agents send if they cut text in the middle of an emoji. JSON allows it, but
        # msgspec does not.
        return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _message(value: dict[str, Any]) -> Message:
    id = value.get("id")
    known_id = id if isinstance(id, int | str) and not isinstance(id, bool) else None
    if value.get("jsonrpc") != "2.0":
        return Invalid(known_id, INVALID_REQUEST, 'Invalid request: "jsonrpc" must be "2.0".')
    method = value.get("method")
    if method is None and ("result" in value or "error" in value):
        return Response(known_id)
    if not isinstance(method, str):
        return Invalid(known_id, INVALID_REQUEST, 'Invalid request: "method" must be a string.')
    if "id" in value and known_id is None:
        return Invalid(None, INVALID_REQUEST, 'Invalid request: "id" must be a string or an integer.')
    params = value.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        if "id" not in value:
            return Notification(method, {})  # It must not be answered, not even with an error (JSON-RPC 2.0, 4.1).
        return Invalid(known_id, INVALID_PARAMS, 'Invalid params: "params" must be an object.')
    return Notification(method, params) if known_id is None else Request(known_id, method, params)


def result(id: Id, value: object) -> bytes:
    return encode({"jsonrpc": "2.0", "id": id, "result": value})


def error(id: Id | None, code: int, message: str) -> bytes:
    return encode({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def notification(method: str, params: object) -> bytes:
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def encode(value: object) -> bytes:
    """Encodes JSON, always as valid UTF-8. An undecodable byte of a file name becomes U+FFFD, since a peer may fail on
    invalid UTF-8.
    """
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _plain(value: object) -> object:
    """A value that ``json`` does not know, as objects, arrays and strings."""
    return msgspec.to_builtins(value, enc_hook=_decoded)


def _decoded(raw: msgspec.Raw) -> object:
    return json.loads(bytes(raw))
