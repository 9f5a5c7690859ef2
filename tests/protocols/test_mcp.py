"""How the MCP server answers, message by message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drawbridge.protocols import mcp
from drawbridge.protocols.mcp import Call, Cancelled, Initialized, McpServer, Notified, Reply

TOOLS = [{"name": "openFile", "description": "Open a file.", "inputSchema": {"type": "object", "properties": {}}}]


@pytest.fixture
def server() -> McpServer:
    return McpServer("drawbridge", "1.2.3", TOOLS)


def say(server: McpServer, **members: object) -> mcp.Output | None:
    return server.receive(json.dumps({"jsonrpc": "2.0", **members}))


def answer(server: McpServer, **members: object) -> Any:
    reply = say(server, **members)
    assert isinstance(reply, Reply)
    return json.loads(reply.data)


def result(server: McpServer, method: str, params: object = None) -> Any:
    reply = answer(server, id=0, method=method, params=params)
    assert reply["id"] == 0
    return reply["result"]


def test_the_real_clis_handshake_is_answered(server: McpServer) -> None:
    """``claude`` 2.1.329 sends these messages."""
    initialized = result(
        server,
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {"listChanged": True}, "elicitation": {}},
            "clientInfo": {"name": "claude-code", "title": "Claude Code", "version": "2.1.329"},
        },
    )
    assert initialized == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "drawbridge", "version": "1.2.3"},
    }
    assert server.client == "Claude Code"
    assert say(server, method="notifications/initialized") == Initialized()
    assert say(server, method="ide_connected", params={"pid": 7}) == Notified("ide_connected", {"pid": 7})
    assert result(server, "tools/list", {}) == {"tools": TOOLS}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_supported_version_is_confirmed(server: McpServer, version: str) -> None:
    assert result(server, "initialize", {"protocolVersion": version})["protocolVersion"] == version


@pytest.mark.parametrize("version", ["1999-01-01", "2099-01-01", "", None, 5, [], {}])
def test_any_other_version_is_answered_with_the_newest_one(server: McpServer, version: object) -> None:
    assert result(server, "initialize", {"protocolVersion": version})["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ({"name": "claude-code", "version": "2"}, "claude-code"),
        ({"name": "a", "title": "A"}, "A"),
        ({"name": 5}, None),
        ({}, None),
        ("claude", None),
        (None, None),
    ],
)
def test_a_client_has_the_name_that_it_sends(server: McpServer, info: object, name: str | None) -> None:
    result(server, "initialize", {"protocolVersion": "2025-11-25", "clientInfo": info})
    assert server.client == name


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("ping", {}),
        ("prompts/list", {"prompts": []}),
        ("resources/list", {"resources": []}),
        ("resources/templates/list", {"resourceTemplates": []}),
    ],
)
def test_standard_requests_are_answered_before_the_handshake(
    server: McpServer, method: str, expected: dict[str, Any]
) -> None:
    assert result(server, method) == expected


@pytest.mark.parametrize(
    "method", ["tools/lists", "", "prompts/get", "completion/complete", "notifications/initialized"]
)
def test_an_unknown_method_is_named_in_the_error(server: McpServer, method: str) -> None:
    error = answer(server, id="x", method=method)
    assert error["id"] == "x"
    assert error["error"] == {"code": -32601, "message": f"Method not found: {method}"}


@pytest.mark.parametrize("arguments", [{}, {"arguments": None}, {"arguments": {}}])
def test_a_call_may_have_no_arguments(server: McpServer, arguments: dict[str, Any]) -> None:
    assert say(server, id=0, method="tools/call", params={"name": "t", **arguments}) == Call(0, "t", {})


def test_a_call_is_passed_on_with_its_id_and_arguments(server: McpServer) -> None:
    params = {"name": "openFile", "arguments": {"filePath": "/a"}, "_meta": {"progressToken": "q"}}
    assert say(server, id="q", method="tools/call", params=params) == Call("q", "openFile", {"filePath": "/a"})


@pytest.mark.parametrize(
    ("params", "named"),
    [
        (None, "name"),
        ({"arguments": {}}, "name"),
        ({"name": 5}, "name"),
        ({"name": None}, "name"),
        ({"name": "t", "arguments": []}, "arguments"),
        ({"name": "t", "arguments": "x"}, "arguments"),
        ({"name": "t", "arguments": 0}, "arguments"),
    ],
)
def test_an_invalid_call_is_answered_with_the_reason(server: McpServer, params: object, named: str) -> None:
    error = answer(server, id=0, method="tools/call", params=params)["error"]
    assert error["code"] == -32602
    assert named in error["message"]


@pytest.mark.parametrize("id", [0, "", "a", 7])
def test_a_cancelled_call_is_reported(server: McpServer, id: int | str) -> None:
    params = {"requestId": id, "reason": "the person pressed Esc"}
    assert say(server, method="notifications/cancelled", params=params) == Cancelled(id)


@pytest.mark.parametrize("params", [{}, {"requestId": None}, {"requestId": True}, {"requestId": 1.5}, [1], None])
def test_a_cancellation_without_a_valid_id_is_ignored(server: McpServer, params: object) -> None:
    assert say(server, method="notifications/cancelled", params=params) is None


def test_unexpected_answers_and_unknown_notices_get_no_reply(server: McpServer) -> None:
    assert say(server, id=9, result={}) is None
    assert say(server, id=None, error={"code": -32700, "message": "?"}) is None
    assert say(server, method="notifications/roots/list_changed") == Notified("notifications/roots/list_changed", {})


def test_a_bad_message_is_answered_and_the_next_one_works(server: McpServer) -> None:
    for bad in ["{", "[" * 100_000, "[]", "5", '{"jsonrpc": "2.0", "id": 1}', '{"id": 1, "method": "ping"}']:
        reply = server.receive(bad)
        assert isinstance(reply, Reply)
        assert json.loads(reply.data)["error"]["code"] in (-32700, -32600)
    assert result(server, "ping") == {}


def test_only_a_failed_tool_result_is_marked_as_an_error() -> None:
    content = [mcp.text_item("FILE_SAVED"), mcp.text_item("text")]
    assert json.loads(mcp.tool_result(0, content))["result"] == {
        "content": [{"type": "text", "text": "FILE_SAVED"}, {"type": "text", "text": "text"}]
    }
    assert json.loads(mcp.tool_result("a", [mcp.text_item("no")], is_error=True))["result"]["isError"] is True
