"""Messages of the Agent Client Protocol, version 1 (https://agentclientprotocol.com). Pure.

Only the fields that Drawbridge needs are parsed. Most nested values stay unparsed JSON until they are read. Measured
with Gemini CLI 0.61.0.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from drawbridge.agents import output
from drawbridge.core.json_text import UNDECODABLE
from drawbridge.protocols import jsonrpc

VERSION: Final = 1

AUTH_REQUIRED: Final = -32000
TOO_MANY_REQUESTS: Final = 429
"""The error code that Gemini CLI (0.61.0) returns for a prompt once the account's quota is used up. The protocol does
not define it."""

LONGEST_TEXT: Final = 2_000
"""The maximum number of characters of an agent's text that an error contains."""

NO_REASON: Final = "it gave no reason"
"""The text of an error without a message."""

NOTHING: Final = Raw(b"null")


class Incoming(Struct):
    """The fields of any message from an agent: a request, a notification or a response."""

    id: Any = None
    method: Any = None
    params: Raw = NOTHING
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET

    @property
    def succeeded(self) -> bool:
        return not isinstance(self.result, UnsetType)

    @property
    def failed(self) -> bool:
        return not isinstance(self.error, UnsetType) and bytes(self.error) != b"null"

    @property
    def request_id(self) -> jsonrpc.Id | None:
        """The id of the request; None if the message does not have a valid id and therefore can't be answered."""
        return self.id if isinstance(self.id, int | str) and not isinstance(self.id, bool) else None


class Update(Struct):
    """The fields that are read from the update in a ``session/update``."""

    sessionUpdate: Any = None  # noqa: N815 - the protocol's own name
    content: Raw = NOTHING
    messageId: Any = None  # noqa: N815
    cost: Any = None
    currentModeId: Any = None  # noqa: N815
    configOptions: Any = None  # noqa: N815


class Params(Struct):
    """The parameters of ``session/update`` and ``session/request_permission``."""

    sessionId: Any = None  # noqa: N815
    update: Raw = NOTHING
    toolCall: Raw = NOTHING  # noqa: N815
    options: Raw = NOTHING


class Fault(Struct):
    """The fields that are read from the error of a response."""

    code: Any = None
    message: Any = None
    data: Any = None

    @property
    def text(self) -> str:
        """The error as one or more human-readable sentences."""
        return self.reason or output.sentence(NO_REASON)

    @property
    def reason(self) -> str:
        """Like ``text``, but empty if the agent gave no reason."""
        fields = self.data if isinstance(self.data, dict) else {}
        details = next((fields[name] for name in ("details", "message") if isinstance(fields.get(name), str)), "")
        words = output.readable(details or (self.message if isinstance(self.message, str) else ""))[:LONGEST_TEXT]
        return output.sentence(words) if words else ""


Kind = TypeVar("Kind")

_incoming: Final = msgspec.json.Decoder(Incoming)


def parsed(line: bytes) -> tuple[Incoming, bytes] | None:
    """See ``output.parsed``."""
    return output.parsed(line, _incoming)


def read_as(kind: type[Kind], data: Raw | UnsetType) -> Kind | None:
    """``data`` decoded as ``kind``; None if it has another shape."""
    try:
        return msgspec.json.decode(b"null" if isinstance(data, UnsetType) else bytes(data), type=kind)
    except UNDECODABLE:
        return None


def fault(data: Raw | UnsetType) -> Fault:
    return read_as(Fault, data) or Fault()


def request(id: int, method: str, params: object) -> bytes:
    return jsonrpc.encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n"


def notification(method: str, params: object) -> bytes:
    return jsonrpc.notification(method, params) + b"\n"


def result(id: jsonrpc.Id, value: object) -> bytes:
    return jsonrpc.result(id, value) + b"\n"


def error(id: jsonrpc.Id, code: int, message: str) -> bytes:
    return jsonrpc.error(id, code, message) + b"\n"
