"""MCP over HTTP, on real sockets: who may connect, how requests are answered, and how sessions begin and end."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.port import Accepted
from drawbridge.ide.gemini import gemini
from drawbridge.ide.gemini import http as gemini_http
from drawbridge.protocols.http import MESSAGE_LIMIT
from tests.ide.bridge_rig import BridgeRig
from tests.ide.gemini.rig import VERSION, Cli, Connection, connected, open_gemini_bridge
from tests.waiting import PATIENCE, until


@pytest.fixture
def stranger(rig: BridgeRig) -> Cli:
    return Cli(rig.port, rig.token)


@pytest.fixture
async def cli(rig: BridgeRig) -> Cli:
    return await Cli(rig.port, rig.token).greet()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the bridge check its sessions every 10 ms, and end a session 50 ms after its stream has ended."""
    monkeypatch.setattr(gemini_http, "HOUSEKEEPING_SECONDS", 0.01)
    monkeypatch.setattr(gemini_http, "KEEP_ALIVE_SECONDS", 0.01)
    monkeypatch.setattr(gemini, "GRACE_SECONDS", 0.05)


def sessions(rig: BridgeRig) -> int:
    return len(rig.bridge.gemini._sessions)


# who may connect


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example", "host": "evil.example", "authorization": None}, 403),
        ({"origin": "http://127.0.0.1", "authorization": None}, 403),
        ({"origin": ""}, 403),
        ({"host": "evil.example", "authorization": None}, 403),
        ({"host": "host.docker.internal:1"}, 403),
        ({"authorization": None, "mcp_session_id": "nobody's"}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"mcp_session_id": None}, 400),
        ({"mcp_session_id": "nobody's"}, 404),
        ({"mcp_session_id": "a" * 32 + "." + "b" * 64}, 404),
        ({"mcp_session_id": "ü"}, 404),
        ({"mcp_session_id": "\udcff.\udcff"}, 404),
        ({"mcp_protocol_version": "1999-01-01"}, 400),
        ({"content_type": "text/plain"}, 415),
        ({"content_type": None}, 415),
        ({"accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 406),
        ({"accept": None}, 406),
    ],
)
async def test_a_request_that_fails_a_check_gets_that_checks_status(
    rig: BridgeRig, cli: Cli, headers: dict[str, str | None], status: int
) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": DIFF})
    assert (await cli.post(body.encode(), **headers)).status == status
    assert rig.editor.shown == {}
    assert sessions(rig) == 1


DIFF = {"name": "openDiff", "arguments": {"filePath": "poem.txt", "newContent": "ONE\n"}}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_get_and_delete_require_a_valid_session(rig: BridgeRig, cli: Cli, method: str) -> None:
    for changed, status in (({"mcp_session_id": None}, 400), ({"mcp_session_id": "nobody's"}, 404)):
        async with Connection(rig.port) as connection:
            answer = await connection.ask(method, "/mcp", cli.headers(**changed))
            assert answer.status == status
            assert answer.json["id"] is None
    assert sessions(rig) == 1


async def test_a_stream_requires_accept_text_event_stream(cli: Cli) -> None:
    assert (await cli.get(accept="application/json")).status == 406


async def test_a_configured_host_name_is_accepted(folder: Path) -> None:
    async with open_gemini_bridge(folder, host=["Host.Docker.Internal"]) as rig:
        cli = Cli(rig.port, rig.token)
        answer = await cli.get("/health", host=f"host.docker.internal:{rig.port}")
        assert answer.status == 200
        assert (await cli.get("/health", host="host.docker.internal.evil.example")).status == 403


async def test_health_needs_no_token_and_returns_only_the_status(rig: BridgeRig, stranger: Cli) -> None:
    answer = await stranger.get("/health", authorization=None)
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert (await stranger.get("/health", authorization=None, origin="http://localhost")).status == 403
    assert (await stranger.get("/health", authorization=None, host="evil.example")).status == 403


async def test_only_a_client_with_the_token_gets_404(rig: BridgeRig, stranger: Cli) -> None:
    assert (await stranger.get("/no/such", authorization=None)).status == 401
    assert (await stranger.get("/no/such")).status == 404
    async with Connection(rig.port) as connection:
        answer = await connection.ask("PUT", "/mcp", stranger.headers(content_length="0"))
    assert (answer.status, answer.headers["allow"]) == (405, "POST, GET, DELETE")


async def test_gemini_is_not_served_if_only_claude_is(folder: Path) -> None:
    async with open_gemini_bridge(folder, agent=["claude"]) as rig:
        cli = Cli(rig.port, rig.token)
        assert (await cli.send(id=1, method="initialize")).status == 404
        assert (await cli.post(b"{}", authorization=None)).status == 401


# messages


async def test_initialize_opens_a_session_in_the_clients_version(rig: BridgeRig, stranger: Cli) -> None:
    """Each session has its own id."""
    params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "streamable-http-client"}}
    answer = await stranger.send(id=0, method="initialize", params=params)
    assert answer.status == 200
    assert answer.json["id"] == 0
    assert answer.json["result"]["protocolVersion"] == VERSION
    assert answer.json["result"]["serverInfo"]["name"] == "drawbridge"
    assert answer.headers["mcp-session-id"].isascii()
    other = await stranger.send(id=0, method="initialize", params=params)
    assert other.headers["mcp-session-id"] != answer.headers["mcp-session-id"]
    assert sessions(rig) == 2


async def test_a_second_initialize_in_a_session_is_refused(rig: BridgeRig, cli: Cli) -> None:
    answer = await cli.send(id=1, method="initialize", params={"protocolVersion": VERSION})
    assert answer.status == 400
    cli.session = "nobody's"
    assert (await cli.send(id=1, method="initialize", params={"protocolVersion": VERSION})).status == 400
    assert sessions(rig) == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{not json", 400, -32700),
        (b"", 400, -32700),
        (b"\xff\xfe", 400, -32700),
        (b'{"a":' * 100_000, 400, -32700),
        (b"[]", 400, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"noSuch"}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"openDiff"}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', 200, -32602),
    ],
)
async def test_a_bad_message_is_answered_with_its_code(
    rig: BridgeRig, cli: Cli, body: bytes, status: int, code: int
) -> None:
    answer = await cli.post(body)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert (await cli.send(id=2, method="ping")).json == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"newContent": "x"}, "filePath"),
        ({"filePath": "/a"}, "newContent"),
        ({"filePath": None, "newContent": "x"}, "filePath"),
        ({"filePath": 5, "newContent": "x"}, "filePath"),
    ],
)
async def test_a_bad_argument_is_reported(rig: BridgeRig, cli: Cli, arguments: dict[str, Any], named: str) -> None:
    error = (await cli.call("openDiff", **arguments))["error"]
    assert error["code"] == -32602
    assert error["message"].startswith(f"{named}: ")
    assert rig.editor.shown == {}


@pytest.mark.parametrize(
    "message", [{"method": "no/such"}, {"method": "notifications/cancelled"}, {"id": 1, "result": {}}]
)
async def test_notifications_and_responses_get_no_response_body(cli: Cli, message: dict[str, Any]) -> None:
    answer = await cli.send(**message)
    assert (answer.status, answer.body) == (202, b"")


async def test_the_tools_the_cli_needs_are_listed(cli: Cli) -> None:
    tools = {
        tool["name"]: tool["inputSchema"]
        for tool in (await cli.send(id=1, method="tools/list")).json["result"]["tools"]
    }
    assert tools.keys() == {"openDiff", "closeDiff", "acceptDiff", "rejectDiff"}
    assert all(schema["type"] == "object" for schema in tools.values())
    assert tools["openDiff"]["required"] == ["filePath", "newContent"]
    assert tools["closeDiff"]["required"] == ["filePath"]
    assert tools["closeDiff"]["properties"].keys() == {"filePath", "suppressNotification"}


async def test_several_requests_can_use_one_connection(rig: BridgeRig, cli: Cli) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    async with Connection(rig.port) as connection:
        for _ in range(3):
            answer = await connection.ask("POST", "/mcp", cli.headers(content_length=str(len(body))), body)
            assert answer.status == 200
        assert len(rig.bridge.agents) == 0


async def test_a_whole_file_of_16_mb_is_proposed(rig: BridgeRig, cli: Cli) -> None:
    text = "x" * 99 + "\n"
    await cli.open_diff(rig.path(), text * 160_000)
    [proposal] = await rig.shown()
    assert len(rig.editor.shown[proposal].new_text) == 16_000_000


async def test_64_mb_are_accepted_and_one_more_byte_is_refused_unread(rig: BridgeRig, cli: Cli) -> None:
    message = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"filler":"%b"}}'
    body = message % (b"x" * (MESSAGE_LIMIT - len(message) + 2))
    assert len(body) == MESSAGE_LIMIT
    assert (await cli.post(body)).json["result"] == {}
    async with Connection(rig.port) as connection:
        head = cli.headers(content_length=str(MESSAGE_LIMIT + 1))
        connection.writer.write(
            b"POST /mcp HTTP/1.1\r\n"
            + "".join(f"{name}: {value}\r\n" for name, value in head.items()).encode()
            + b"\r\n"
        )
        async with asyncio.timeout(PATIENCE):
            assert (await connection.reader.read(100)).startswith(b"HTTP/1.1 413 ")
    assert (await cli.send(id=2, method="ping")).status == 200


# sessions


@pytest.mark.usefixtures("hasty")
async def test_the_session_and_proposals_of_a_lost_client_end(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, _):
        await cli.open_diff(rig.path(), "ONE\n")
        await rig.shown()
        await until(lambda: rig.editor.announced[-1].agents == ("Gemini CLI",))
    await until(lambda: sessions(rig) == 0, "the end of the session")
    await until(lambda: rig.editor.shown == {}, "the end of its proposal")
    await until(lambda: rig.editor.announced[-1].agents == ())
    assert Path(rig.path()).read_text() == "one\ntwo\n"


async def test_a_session_without_a_stream_ends_after_ten_idle_minutes(
    rig: BridgeRig, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemini, "GRACE_SECONDS", 0.0)
    [session] = rig.bridge.gemini._sessions.values()
    now = session.seen_at
    assert not session.is_gone(now + 599)
    assert session.is_gone(now + 601)


async def test_delete_ends_the_session_permanently(rig: BridgeRig) -> None:
    async with connected(rig) as (cli, stream):
        await cli.open_diff(rig.path(), "ONE\n")
        await rig.shown()
        assert (await cli.delete()).status == 200
        assert await stream.message() is None, "the stream ends without a verdict"
        await until(lambda: rig.editor.shown == {})
        assert (await cli.send(id=1, method="ping")).status == 404
        assert (await cli.get()).status == 404
    assert sessions(rig) == 0


async def test_a_bridge_restarted_with_its_token_keeps_its_sessions(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_gemini_bridge(folder) as rig, connected(rig) as (cli, stream):
        await cli.open_diff(rig.path(), "ONE\n")
        await rig.shown()
        last_id = stream.last_id
    monkeypatch.setitem(os.environ, "DRAWBRIDGE_TOKEN", rig.token)
    async with open_gemini_bridge(folder) as rig:
        cli.port = rig.port
        await cli.open_diff(rig.path(), "TWO\n")
        [proposal] = await rig.shown()
        rig.editor.decide(proposal, Accepted("TWO\n"))
        async with await cli.listen(last_event_id=last_id) as stream:
            assert (await stream.receive("ide/diffAccepted"))["content"] == "TWO\n"
            assert await stream.files() == []
            await until(lambda: rig.editor.announced[-1].agents == ("Gemini CLI",))


async def test_a_bridge_with_another_token_accepts_no_old_session(folder: Path) -> None:
    async with open_gemini_bridge(folder) as rig:
        cli = await Cli(rig.port, rig.token).greet()
    async with open_gemini_bridge(folder) as rig:
        cli.port, cli.token = rig.port, rig.token
        assert (await cli.get()).status == 404
        assert (await cli.send(id=1, method="ping")).status == 404
        assert sessions(rig) == 0


async def test_at_the_session_limit_the_longest_idle_one_ends(rig: BridgeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemini_http, "SESSION_LIMIT", 3)
    async with connected(rig) as (listening, _):
        silent = [await Cli(rig.port, rig.token).greet() for _ in range(2)]
        await silent[0].send(id=1, method="ping")
        await Cli(rig.port, rig.token).greet()
        assert sessions(rig) == 3
        assert {listening.session, silent[0].session} < rig.bridge.gemini._sessions.keys()
        assert silent[1].session not in rig.bridge.gemini._sessions


async def test_a_session_is_refused_if_all_sessions_have_streams(
    rig: BridgeRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemini_http, "SESSION_LIMIT", 1)
    async with connected(rig) as (cli, _):
        assert (await Cli(rig.port, rig.token).send(id=1, method="initialize")).status == 503
        assert (await cli.send(id=1, method="ping")).status == 200


async def test_an_internal_error_is_answered_and_logged(
    rig: BridgeRig, cli: Cli, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(gemini.GeminiSession, "propose", fail)
    answer = await cli.call("openDiff", filePath="/a", newContent="x")
    assert answer["error"]["code"] == -32603
    assert "a fault of ours" in caplog.text
    assert (await cli.send(id=2, method="ping")).status == 200
