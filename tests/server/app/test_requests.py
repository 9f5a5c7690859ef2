"""Clients' requests start in order, and each that has an id is answered once, with that id. An invalid request has no
effect.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from drawbridge.core.errors import HistoryNotWritten, NotPrivate
from drawbridge.server.app import connection as connection_module
from drawbridge.server.app.clients import Client
from drawbridge.server.app.command_table import COMMANDS
from drawbridge.server.app.connection import ASIDE, INBOX, INBOX_LENGTH
from drawbridge.server.protocol import commands as say
from drawbridge.server.protocol.client_errors import CODES, ClientError
from drawbridge.server.protocol.frames import encode
from drawbridge.server.protocol.messages import MESSAGE_BYTES
from tests.server.app.rig import TOKEN, Server
from tests.server.wire_client import WireClient, connected
from tests.waiting import until

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


async def raw(server: Server, *messages: str | bytes) -> list[dict[str, Any]]:
    """Sends the messages on one connection, which must still be usable afterwards. Returns the answer to each."""
    async with connect(server.url, additional_headers=HEADERS, proxy=None) as connection:
        answers = []
        for message in messages:
            await connection.send(message)
            answers.append(json.loads(await connection.recv()))
        await connection.send('{"type":"project_list","request_id":"last"}')
        assert json.loads(await connection.recv())["request_id"] == "last"
        return answers


# hello, health and topics


async def test_hello_describes_the_server(client: WireClient) -> None:
    reply = (await client.ask("hello", {"client": "my phone", "version": "2.0"}))["data"]
    assert reply["server"] == "drawbridge"
    assert reply["version"] == "1.2.3"
    assert reply["protocol"] == 1
    assert reply["agents"] == ["demo"]
    assert reply["limits"]["message_bytes"] == 1_000_000
    assert set(reply["features"]) == {row.name for row in COMMANDS}


async def test_a_client_is_named_by_its_address_until_it_gives_a_name(client: WireClient) -> None:
    assert (await client.ask("execute", {"prompt": "x"}, "p1"))["data"]["run_id"] == "run_127.0.0.1"
    await client.ask("hello", {"client": "my phone"})
    assert (await client.ask("execute", {"prompt": "x"}, "p1"))["data"]["run_id"] == "run_my phone"


async def test_health_is_reported_over_the_socket(server: Server, client: WireClient) -> None:
    health = (await client.ask("health_check"))["data"]
    assert health["status"] == "ok"
    assert health["clients"] == 1
    assert health["problems"] == []
    assert health["disk_free_mb"] > 0


async def test_a_client_subscribes_to_and_unsubscribes_from_topics(server: Server, client: WireClient) -> None:
    answer = await client.ask("subscribe", {"topics": ["projects", "approvals"]})
    assert answer["data"]["topics"] == ["approvals", "projects", "stats"]
    assert len(server.core.followers["projects"]) == len(server.core.followers["approvals"]) == 1
    answer = await client.ask("unsubscribe", {"topics": ["projects", "stats"]})
    assert answer["data"]["topics"] == ["approvals"]
    assert not server.core.followers["projects"]


# answers


async def test_every_answer_carries_the_id_of_its_request(client: WireClient) -> None:
    for type, data in [("project_list", None), ("health_check", None), ("set_mode", {"mode": "plan"})]:
        await client.send(type, data, "p1" if data else None, request_id=f"mine-{type}")
        assert (await client.next())["request_id"] == f"mine-{type}"


async def test_a_request_without_an_id_gets_an_answer_without_one(client: WireClient) -> None:
    await client.send("set_mode", {"mode": "plan"}, "p1")
    await client.send("project_list")
    answer = await client.next()
    assert answer["type"] == "project_list"
    assert "request_id" not in answer


async def test_requests_are_executed_in_order(server: Server, client: WireClient) -> None:
    for number in range(300):
        await client.send("project_create", {"path": f"/{number}"}, request_id=str(number))
    await until(lambda: len(client.received) == 300)
    assert [message["request_id"] for message in client.received] == [str(number) for number in range(300)]
    assert [command.path for command in server.core.asked] == [f"/{number}" for number in range(300)]  # type: ignore[attr-defined]


async def test_a_slow_request_does_not_delay_others(server: Server, client: WireClient) -> None:
    server.core.go_on.clear()
    await client.send("agent_kill", project_id="p1", request_id="slow")
    assert (await client.ask("project_list"))["type"] == "project_list"
    assert [message["request_id"] for message in client.received] == ["request-1"]
    server.core.go_on.set()
    await client.receive("ok")


async def test_the_number_of_slow_requests_is_limited(server: Server, client: WireClient) -> None:
    server.core.go_on.clear()
    for number in range(100):
        await client.send("agent_kill", project_id="p1", request_id=str(number))
    await client.send("project_list", request_id="behind")
    await until(lambda: len(server.core.asked) >= 16)
    async with connected(server.url, TOKEN) as other:
        assert (await other.ask("project_list"))["type"] == "project_list"
    assert len(server.core.asked) == 16 + 1
    server.core.go_on.set()
    await until(lambda: len(client.received) == 101)


async def test_reading_pauses_while_too_many_requests_wait(server: Server, client: WireClient) -> None:
    server.core.go_on.clear()
    for number in range(2_000):
        await client.send("agent_kill", project_id="p1", request_id=str(number))
    [there] = server.site.connections
    await until(lambda: there._held)
    assert len(there._inbox) < 2_000 - INBOX
    server.core.go_on.set()
    await until(lambda: len(client.received) == 2_000)
    assert not there._held


async def test_reading_pauses_while_long_requests_wait(server: Server, client: WireClient) -> None:
    """Otherwise, a few dozen requests of the maximum size from each client would fill the server's memory."""
    server.core.go_on.clear()
    for number in range(ASIDE + 1):
        await client.send("agent_kill", project_id="p1", request_id=str(number))
    await until(lambda: len(server.core.asked) == ASIDE)
    few = INBOX_LENGTH // (MESSAGE_BYTES // 2) + 2
    for number in range(few):
        await client.send("project_create", {"path": "x" * (MESSAGE_BYTES // 2)}, request_id=f"long {number}")
    [there] = server.site.connections
    await until(lambda: there._held)
    assert len(there._inbox) <= few < INBOX
    server.core.go_on.set()
    await until(lambda: len(client.received) == ASIDE + 1 + few)
    assert not there._held


async def test_requests_sent_before_a_client_left_are_executed(server: Server) -> None:
    async with connect(server.url, additional_headers=HEADERS, proxy=None) as connection:
        for number in range(5):
            await connection.send(f'{{"type":"project_create","data":{{"path":"/{number}"}}}}')
        await connection.send('{"type":"project_join","project_id":"p1"}')
    await until(lambda: server.core.left)
    assert len(server.core.asked) == 6
    assert server.core.subscribers == {}, "the client has joined and left"
    assert not list(server.clients)


# bad requests


WRONG = [
    ("nonsense", "JSON_PARSING", None),
    ("", "JSON_PARSING", None),
    ("[]", "JSON_PARSING", None),
    ('"project_list"', "JSON_PARSING", None),
    ("[" * 100_000, "JSON_PARSING", None),
    ('{"type":"execute","data":' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}", "JSON_PARSING", None),
    ('{"type":"project_list","data":{"a":"\\ud800"}}', "JSON_PARSING", None),
    ("{}", "VALIDATION_FAILED", "type"),
    ('{"type":5}', "VALIDATION_FAILED", "type"),
    ('{"type":"projectlist"}', "UNKNOWN_TYPE", "type"),
    ('{"type":"' + "x" * 900_000 + '"}', "UNKNOWN_TYPE", "type"),
    ('{"type":"project_list","data":[]}', "VALIDATION_FAILED", "data"),
    ('{"type":"project_list","request_id":""}', "VALIDATION_FAILED", "request_id"),
    ('{"type":"project_list","request_id":7}', "VALIDATION_FAILED", "request_id"),
    ('{"type":"project_list","request_id":"' + "x" * 201 + '"}', "VALIDATION_FAILED", "request_id"),
    ('{"type":"project_create"}', "VALIDATION_FAILED", "data.path"),
    ('{"type":"project_create","data":null}', "VALIDATION_FAILED", "data.path"),
    ('{"type":"project_create","data":{"path":""}}', "VALIDATION_FAILED", "data.path"),
    ('{"type":"project_create","data":{"path":["/"]}}', "VALIDATION_FAILED", "data.path"),
    ('{"type":"project_join"}', "VALIDATION_FAILED", "project_id"),
    ('{"type":"project_join","project_id":5}', "VALIDATION_FAILED", "project_id"),
    ('{"type":"project_join","project_id":"a","data":{"project_id":"b"}}', "VALIDATION_FAILED", "project_id"),
    ('{"type":"project_join","project_id":"a","data":{"after_seq":-1}}', "VALIDATION_FAILED", "data.after_seq"),
    ('{"type":"project_join","project_id":"a","data":{"after_seq":1.5}}', "VALIDATION_FAILED", "data.after_seq"),
    ('{"type":"project_join","project_id":"a","data":{"after_seq":' + "9" * 400 + "}}", "VALIDATION_FAILED", "data.after_seq"),
    ('{"type":"execute","project_id":"a","data":{}}', "VALIDATION_FAILED", "data.prompt"),
    ('{"type":"execute","project_id":"a","data":{"prompt":""}}', "VALIDATION_FAILED", "data.prompt"),
    (
        '{"type":"execute","project_id":"a","data":{"prompt":"x","options":{"modle":"m"}}}',
        "UNKNOWN_OPTION",
        "data.options.modle",
    ),
    (
        '{"type":"execute","project_id":"a","data":{"prompt":"x","options":{"' + "m" * 900_000 + '":1}}}',
        "UNKNOWN_OPTION",
        f"data.options.{'m' * 80}",
    ),
    (
        '{"type":"execute","project_id":"a","data":{"prompt":"x","options":{"a\\nb`":1}}}',
        "UNKNOWN_OPTION",
        "data.options.a\\nb`",
    ),
    (
        '{"type":"execute","project_id":"a","data":{"prompt":"x","options":{"add_dirs":["/a",2]}}}',
        "VALIDATION_FAILED",
        "data.options.add_dirs[1]",
    ),
    ('{"type":"get_messages","project_id":"a","data":{"since":"yesterday"}}', "VALIDATION_FAILED", "data.since"),
    ('{"type":"get_messages","project_id":"a","data":{"since":"2026-01-01T00:00:00"}}', "VALIDATION_FAILED", "data.since"),
    ('{"type":"get_messages","project_id":"a","data":{"limit":0}}', "VALIDATION_FAILED", "data.limit"),
    ('{"type":"subscribe","data":{"topics":["stats","gossip"]}}', "VALIDATION_FAILED", "data.topics[1]"),
    (
        '{"type":"permission_response","project_id":"a","data":{"approval_id":"x","decision":"maybe"}}',
        "VALIDATION_FAILED",
        "data.decision",
    ),
    ('{"type":"blob_put","data":{"blob_id":"../x","offset":0,"data":""}}', "VALIDATION_FAILED", "data.blob_id"),
    ('{"type":"blob_put","data":{"blob_id":"a\\n","offset":0,"data":""}}', "VALIDATION_FAILED", "data.blob_id"),
    ('{"type":"blob_put","data":{"blob_id":"x","offset":0,"data":"?"}}', "VALIDATION_FAILED", "data.data"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "code", "field"), WRONG, ids=lambda value: str(value)[:60])
async def test_an_invalid_message_is_reported_with_its_field(
    server: Server, message: str, code: str, field: str | None
) -> None:
    """The message has no effect, and the error does not repeat all of it."""
    [answer] = await raw(server, message)
    error = answer["data"]
    assert answer["type"] == "error"
    assert error["code"] == code
    assert error.get("field") == field
    assert error["error"] == error["message"]
    assert error["retryable"] is False
    assert error["correlation_id"].startswith("client_")
    assert len(json.dumps(answer)) < 1_000, "the answer does not repeat the message"
    assert [type(command) for command in server.core.asked] == [say.ProjectList]


async def test_an_invalid_request_keeps_its_id_if_it_is_readable(server: Server) -> None:
    answers = await raw(
        server,
        '{"type":"nope","request_id":"a"}',
        '{"type":"execute","request_id":"b","project_id":"p","data":{}}',
        '{"request_id":"c","type":5}',
        '{"type":"project_list","request_id":5}',
    )
    assert [answer.get("request_id") for answer in answers] == ["a", "b", "c", None]
    assert [answer["data"].get("request_id") for answer in answers] == ["a", "b", "c", None]


UNREADABLE = {
    "half a surrogate pair": '{"type":"execute","project_id":"p","data":{"prompt":"x \\ud83d"},"request_id":"a"}',
    "the other half": '{"request_id":"a","type":"execute","project_id":"p","data":{"prompt":"\\ude00 x"}}',
    "in a name": '{"type":"execute","project_id":"p","data":{"\\ud800":1},"request_id":"a"}',
    "in the project": '{"type":"execute","project_id":"\\udfff","data":{"prompt":"x"},"request_id":"a"}',
    "a line break": '{"type":"execute","project_id":"p","data":{"prompt":"x\ny"},"request_id":"a"}',
    "in the type": '{"type":"\\ud800","request_id":"a"}',
}


@pytest.mark.parametrize("message", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_request_with_unreadable_text_keeps_its_id(server: Server, message: str) -> None:
    """The client waits for an answer with this id."""
    [answer] = await raw(server, message)
    assert (answer["type"], answer["data"]["code"]) == ("error", "JSON_PARSING")
    assert answer["request_id"] == answer["data"]["request_id"] == "a"
    assert [type(command) for command in server.core.asked] == [say.ProjectList]


@pytest.mark.parametrize("request_id", ['"\\ud800"', '""', "[]", "7", "1" * 9_000], ids=lambda value: value[:10])
async def test_an_id_that_cannot_be_read_is_not_repeated(server: Server, request_id: str) -> None:
    [answer] = await raw(server, f'{{"type":"\\ud800","request_id":{request_id}}}')
    assert answer["data"]["code"] == "JSON_PARSING"
    assert "request_id" not in answer


async def test_messages_of_the_specifications_client_are_understood(server: Server) -> None:
    """The specification's client, which is written in Go, sends ``data`` as null if there is no data, and may put
    ``project_id`` next to ``data`` or in it.
    """
    await raw(
        server,
        '{"type":"project_list","data":null}',
        '{"type":"project_create","data":{"path":"/a"}}',
        '{"type":"execute","project_id":"p1","data":{"prompt":"x","options":{"allowed_tools":["Bash"]}}}',
        '{"type":"execute","data":{"project_id":"p1","prompt":"x"}}',
    )
    assert [type(command).__name__ for command in server.core.asked] == [
        "ProjectList", "ProjectCreate", "Execute", "Execute", "ProjectList",
    ]  # fmt: skip
    assert all(command.project_id == "p1" for command in server.core.asked if isinstance(command, say.Execute))


SPECIFICATIONS_OPTIONS = {
    "dangerously_skip_permissions": True,
    "allowed_tools": ["Bash(git *)", "Read"],
    "disallowed_tools": ["WebFetch"],
    "mcp_config": "/home/ada/mcp.json",
    "append_system_prompt": "Be brief.",
    "permission_mode": "acceptEdits",
    "model": "sonnet",
    "fallback_model": "opus",
    "add_dirs": ["/srv/shared"],
    "strict_mcp_config": True,
}


async def test_every_option_of_the_specification_arrives_unchanged(server: Server) -> None:
    await raw(
        server,
        json.dumps({"type": "execute", "project_id": "p1", "data": {"prompt": "x", "options": SPECIFICATIONS_OPTIONS}}),
    )
    [asked, _] = server.core.asked
    assert isinstance(asked, say.Execute)
    options = json.loads(msgspec.json.encode(asked.options))
    assert {name: options[name] for name in SPECIFICATIONS_OPTIONS} == SPECIFICATIONS_OPTIONS


async def test_an_oversized_message_ends_only_its_own_connection(server: Server, client: WireClient) -> None:
    """The connection ends with code 1009. A message of exactly the largest size is accepted."""
    async with connect(server.url, additional_headers=HEADERS, proxy=None) as large:
        head = '{"type":"project_create","data":{"path":"'
        await large.send(head + "x" * (MESSAGE_BYTES - len(head) - 3) + '"}}')
        assert '"project_state"' in str(await large.recv())
        with contextlib.suppress(ConnectionClosed):
            await large.send("x" * (MESSAGE_BYTES + 1))
        await large.wait_closed()
        assert large.close_code == 1009
    assert len(server.core.asked) == 1
    assert (await client.ask("health_check"))["type"] == "health"


async def test_a_binary_message_ends_the_connection_with_1003(server: Server, client: WireClient) -> None:
    async with connect(server.url, additional_headers=HEADERS, proxy=None) as binary:
        await binary.send(b'{"type":"project_list"}')
        with pytest.raises(ConnectionClosed):
            await binary.recv()
        assert binary.close_code == 1003
    assert server.core.asked == []
    assert (await client.ask("health_check"))["type"] == "health"


# errors from the core


async def test_an_error_from_the_core_reaches_the_client(server: Server, client: WireClient) -> None:
    server.core.fault = ClientError("PROCESS_ACTIVE", "Busy.", details={"run_id": "r1"})
    answer = await client.ask("set_mode", {"mode": "x"}, "p1")
    assert answer["project_id"] == "p1"
    assert answer["data"]["code"] == "PROCESS_ACTIVE"
    assert answer["data"]["retryable"] is True
    assert answer["data"]["details"] == {"run_id": "r1"}


async def test_an_internal_error_reveals_no_details_to_the_client(
    server: Server, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The log contains the details, and the connection stays usable."""
    server.core.fault = FileNotFoundError(2, "No such file", "/secret/path")
    answer = await client.ask("set_mode", {"mode": "x"}, "p1")
    assert answer["data"]["code"] == "INTERNAL_ERROR"
    assert "/secret/path" not in json.dumps(answer)
    assert "FileNotFoundError" not in json.dumps(answer)
    assert "/secret/path" in caplog.text
    assert (await client.ask("project_list"))["type"] == "project_list"


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (HistoryNotWritten("The disk is full. Nothing was kept.", disk_full=True), "DISK_SPACE_LOW"),
        (HistoryNotWritten("The disk fails. Nothing was kept."), "FILE_OPERATION"),
        (NotPrivate("/secret/path can't be written."), "FILE_OPERATION"),
    ],
)
async def test_a_disk_error_is_reported_without_a_path(
    server: Server, client: WireClient, fault: Exception, code: str
) -> None:
    server.core.fault = fault
    error = (await client.ask("set_mode", {"mode": "x"}, "p1"))["data"]
    assert (error["code"], error["retryable"]) == (code, True)
    assert "/secret" not in error["message"]
    assert (await client.ask("project_list"))["type"] == "project_list"


async def test_nothing_is_started_while_the_server_stops(server: Server, client: WireClient) -> None:
    server.dispatch.end()
    answer = await client.ask("project_create", {"path": "/a"})
    assert (answer["data"]["code"], answer["data"]["retryable"]) == ("SHUTTING_DOWN", True)
    assert server.core.asked == []


def test_every_error_code_has_a_meaning() -> None:
    assert all(kind.meaning.endswith(".") for kind in CODES.values())
    with pytest.raises(KeyError):
        ClientError("NO_SUCH_CODE", "x")


# any input


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
REQUESTS: dict[str, type[say.Command]] = {row.name: row.request for row in COMMANDS}
FIELDS = sorted({field for request in REQUESTS.values() for field in request.__struct_fields__})


@given(
    st.sampled_from(sorted(REQUESTS)),
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5) | JSON,
    st.none() | JSON,
    st.none() | JSON,
)
def test_any_json_is_a_command_or_an_error(type: str, data: Any, project_id: Any, request_id: Any) -> None:
    text = json.dumps({"type": type, "data": data, "project_id": project_id, "request_id": request_id})
    try:
        command = say.parse(text, REQUESTS)
    except ClientError:
        assert say.request_id_of(text) in (None, request_id)
        return
    assert REQUESTS[type] is command.__class__
    assert command.request_id == request_id
    if isinstance(command, say.ProjectCommand):
        assert command.project_id in (project_id, (data or {}).get("project_id"))


@given(st.text(max_size=200))
def test_any_text_is_a_command_or_an_error(text: str) -> None:
    try:
        say.parse(text, REQUESTS)
    except ClientError:
        say.request_id_of(text)


async def test_an_unexpected_error_fails_only_one_request(
    server: Server, client: WireClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is not in the handler, but in the encoding of the reply. Requests that are sent later are still
    executed."""

    def failing(answer: Any, request_id: str | None) -> bytes:
        if answer.type == "project_list":
            raise RuntimeError("a defect of the encoder")
        return encode(answer, request_id)

    monkeypatch.setattr(connection_module, "encode", failing)
    for type, request_id in (("project_list", "one"), ("blob_get", "two"), ("health_check", "three")):
        await client.send(type, {"blob_id": "b"} if type == "blob_get" else None, request_id=request_id)
    answers = [await client.next() for _ in range(3)]
    found = {one["request_id"]: one["data"].get("code", one["type"]) for one in answers}
    assert found == {"one": "INTERNAL_ERROR", "two": "BLOB_NOT_FOUND", "three": "health"}
    correlation_id = next(one["data"]["correlation_id"] for one in answers if one["request_id"] == "one")
    [record] = [record for record in caplog.records if record.exc_info]
    assert correlation_id in record.getMessage()


async def test_an_unexpected_error_fails_only_one_slow_request(
    server: Server, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(answer: Any, request_id: str | None) -> bytes:
        raise RuntimeError("a defect of the encoder")

    with monkeypatch.context() as patch:
        patch.setattr(connection_module, "encode", failing)
        await client.send("agent_kill", {}, "p1", request_id="one")
        failed = await client.next()
    assert (failed["request_id"], failed["data"]["code"]) == ("one", "INTERNAL_ERROR")
    await client.send("agent_kill", {}, "p1", request_id="two")
    assert await client.next() == {"type": "ok", "data": {}, "request_id": "two"}


async def test_an_error_after_the_reply_does_not_name_the_request(server: Server, client: WireClient) -> None:
    """The request has already been answered. The client is still notified of the error, and its next request is
    executed.
    """

    def fails() -> None:
        raise RuntimeError("a defect of the run")

    server.core.then = fails
    assert (await client.ask("execute", {"prompt": "x"}, "p1"))["type"] == "accepted"
    failed = await client.receive("error", code="INTERNAL_ERROR")
    assert "request_id" not in failed
    assert (await client.ask("project_list"))["type"] == "project_list"


async def test_a_connection_closed_by_an_error_is_counted_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a fault")

    left: list[str] = []
    monkeypatch.setattr(server.site._entrance, "left", lambda identity, address: left.append(address))
    async with connected(server.url, TOKEN) as client:
        await until(lambda: list(server.clients))
        monkeypatch.setattr(server.dispatch, "parse", fails)
        monkeypatch.setattr(Client, "fail", fails)
        await client.send("hello")
        assert await client.close_code() == 1011
    await until(lambda: not list(server.clients))
    assert left == ["127.0.0.1"]


async def test_requests_of_a_revoked_device_are_not_executed(server: Server) -> None:
    """The device's token is revoked while its requests wait for earlier ones."""
    server.core.go_on.clear()
    async with connected(server.url, TOKEN) as client:
        for _ in range(ASIDE + 1):
            await client.send("agent_kill", {}, "p1")
        await client.send("execute", {"prompt": "x"}, "p1")
        await until(lambda: len(server.core.asked) == ASIDE)
        (inside,) = server.site.connections
        inside.client.dismiss(ClientError("TOKEN_REVOKED", "This device's token was revoked."))
        server.core.go_on.set()
        await inside.done()
    assert len(server.core.asked) == ASIDE
