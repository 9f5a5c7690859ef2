"""An MCP server: the handshake, the lists, calls and their results. Does no I/O: a message in, replies and events out.

Based on the specification (2025-11-25) and on what the real clients send (docs/internals/protocols/claude-ide.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from drawbridge.protocols import jsonrpc

VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The supported protocol versions, oldest first. A client that requests an unknown version receives the newest."""


class Call(Struct, frozen=True):
    """A ``tools/call``. Answer it with ``tool_result`` or ``jsonrpc.error`` under its ``id``."""

    id: jsonrpc.Id
    tool: str
    arguments: dict[str, Any]


class Cancelled(Struct, frozen=True):
    """The client no longer wants the answer to its call ``id``, so no answer may be sent."""

    id: jsonrpc.Id


class Initialized(Struct, frozen=True):
    """The handshake is done. From now on, notifications may be sent to the client."""


class Notified(Struct, frozen=True):
    """Any other notification from the client."""

    method: str
    params: dict[str, Any]


class Reply(Struct, frozen=True):
    """Bytes to send to the client."""

    data: bytes


Output: TypeAlias = Call | Cancelled | Initialized | Notified | Reply


class McpServer:
    """One client's conversation. ``tools``: the ``tools/list`` entries. ``client``: the client's name, None until it is
    known.
    """

    def __init__(self, name: str, version: str, tools: Sequence[Mapping[str, Any]]) -> None:
        self._info = {"name": name, "version": version}
        self._tools = tools
        self.client: str | None = None

    def receive(self, text: str) -> Output | None:
        """Returns the result of a message: an event to handle or a reply to send; None for neither."""
        return self.receive_decoded(jsonrpc.decode(text))

    def receive_decoded(self, message: jsonrpc.Message) -> Output | None:
        """Like ``receive``, for a decoded message."""
        if isinstance(message, jsonrpc.Request):
            return self._request(message)
        if isinstance(message, jsonrpc.Notification):
            return self._notification(message)
        if isinstance(message, jsonrpc.Invalid):
            return Reply(jsonrpc.error(message.id, message.code, message.message))
        return None

    def _request(self, request: jsonrpc.Request) -> Output:
        if request.method == "tools/call":
            return self._call(request)
        results: dict[str, object] = {
            "ping": {},
            "tools/list": {"tools": self._tools},
            # These are not declared as capabilities, but some clients request them anyway.
            "prompts/list": {"prompts": []},
            "resources/list": {"resources": []},
            "resources/templates/list": {"resourceTemplates": []},
        }
        if request.method == "initialize":
            results["initialize"] = self._initialize(request.params)
        if request.method not in results:
            return Reply(jsonrpc.error(request.id, jsonrpc.METHOD_NOT_FOUND, f"Method not found: {request.method}"))
        return Reply(jsonrpc.result(request.id, results[request.method]))

    def _initialize(self, params: dict[str, Any]) -> dict[str, object]:
        asked = params.get("protocolVersion")
        info = params.get("clientInfo")
        if isinstance(info, dict):
            name = info.get("title") or info.get("name")
            self.client = name if isinstance(name, str) else None
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": self._info,
        }

    def _call(self, request: jsonrpc.Request) -> Output:
        tool, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(tool, str):
            return Reply(jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, 'Invalid params: "name" must be a string.'))
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            return Reply(
                jsonrpc.error(request.id, jsonrpc.INVALID_PARAMS, 'Invalid params: "arguments" must be an object.')
            )
        return Call(request.id, tool, arguments)

    def _notification(self, message: jsonrpc.Notification) -> Output | None:
        if message.method == "notifications/initialized":
            return Initialized()
        if message.method == "notifications/cancelled":
            id = message.params.get("requestId")
            return Cancelled(id) if isinstance(id, int | str) and not isinstance(id, bool) else None
        return Notified(message.method, message.params)


def tool_result(id: jsonrpc.Id, content: Sequence[Mapping[str, Any]], *, is_error: bool = False) -> bytes:
    """The answer to a ``Call``: content items. ``is_error``: the call failed, and the items explain why."""
    value: dict[str, Any] = {"content": content}
    if is_error:
        value["isError"] = True
    return jsonrpc.result(id, value)


def text_item(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
