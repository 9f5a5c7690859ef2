"""JSON-RPC messages: the error for each kind of invalid message, and ids that are returned unchanged."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.protocols import jsonrpc
from drawbridge.protocols.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Invalid,
    Notification,
    Request,
    Response,
    decode,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def message(**members: object) -> str:
    return json.dumps({"jsonrpc": "2.0", **members})


@pytest.mark.parametrize("id", [0, 1, -1, 2**53, 2**63, 2**64 - 1, "", "0", "a", "\N{BRIDGE AT NIGHT}", "\u2028"])
def test_an_id_is_text_or_a_whole_number_and_returned_unchanged(id: int | str) -> None:
    asked = decode(message(id=id, method="ping"))
    assert asked == Request(id, "ping", {})
    assert isinstance(asked, Request)
    assert type(asked.id) is type(id)
    assert json.loads(jsonrpc.result(asked.id, {})) == {"jsonrpc": "2.0", "id": id, "result": {}}
    assert json.loads(jsonrpc.error(asked.id, -1, "no"))["id"] == id


@pytest.mark.parametrize("id", ["2" * 30, "-" + "9" * 100, "1" + "0" * 1_000])
def test_an_id_of_any_length_gets_a_response(id: str) -> None:
    """There is always a response: it repeats the id, or is an error without one."""
    answer = decode(f'{{"jsonrpc": "2.0", "id": {id}, "method": "ping"}}')
    assert isinstance(answer, Request | Invalid)
    assert json.loads(jsonrpc.error(answer.id, 0, ""))["id"] in (int(id), None)


@pytest.mark.parametrize("id", ["null", "true", "false", "1.5", "1.0", "1e2", "[]", "{}", "[1]"])
def test_any_other_id_is_an_invalid_request_without_one(id: str) -> None:
    asked = decode(f'{{"jsonrpc": "2.0", "id": {id}, "method": "ping"}}')
    assert isinstance(asked, Invalid)
    assert (asked.id, asked.code) == (None, INVALID_REQUEST)


@pytest.mark.parametrize("params", [{}, {"params": None}, {"params": {}}])
def test_params_may_be_missing_or_null(params: dict[str, Any]) -> None:
    assert decode(message(id=1, method="ping", **params)) == Request(1, "ping", {})
    assert decode(message(method="ide_connected", **params)) == Notification("ide_connected", {})


@pytest.mark.parametrize("params", [[], [1], "text", 5, True, False, 0])
def test_params_that_are_not_an_object_are_refused(params: object) -> None:
    asked = decode(message(id=1, method="ping", params=params))
    assert isinstance(asked, Invalid)
    assert (asked.id, asked.code) == (1, INVALID_PARAMS)


def test_a_notification_with_bad_params_is_not_answered() -> None:
    """The message is read as a notification without params."""
    assert decode(message(method="ide_connected", params=[1])) == Notification("ide_connected", {})


@pytest.mark.parametrize("method", [None, 1, [], {"a": 1}, True])
def test_a_method_that_is_not_text_is_an_invalid_request(method: object) -> None:
    asked = decode(message(id=7, method=method))
    assert isinstance(asked, Invalid)
    assert (asked.id, asked.code) == (7, INVALID_REQUEST)


@pytest.mark.parametrize("version", [None, "1.0", 2.0, 2, "2", []])
def test_only_version_2_is_accepted(version: object) -> None:
    asked = decode(json.dumps({"jsonrpc": version, "id": 7, "method": "ping"}))
    assert isinstance(asked, Invalid)
    assert (asked.id, asked.code) == (7, INVALID_REQUEST)


@pytest.mark.parametrize("answer", [{"result": {}}, {"result": None}, {"error": {"code": 1, "message": "no"}}])
def test_any_response_is_recognized_as_one(answer: dict[str, Any]) -> None:
    assert decode(message(id=3, **answer)) == Response(3)


@pytest.mark.parametrize("text", ["[]", "[1]", '[{"jsonrpc": "2.0", "method": "a"}]', "1", "null", '"text"', "true"])
def test_a_batch_or_a_bare_value_is_an_invalid_request(text: str) -> None:
    asked = decode(text)
    assert isinstance(asked, Invalid)
    assert (asked.id, asked.code) == (None, INVALID_REQUEST)
    assert asked.message == "Invalid request: the message must be a JSON object."


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "{]",
        "nothing",
        "{'a': 1}",
        '{"a": 1} {"b": 2}',
        "\ufeff{}",
        '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}',
        '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": -Infinity}}',
        '{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN, "b": "\\ud800"}}',
        '{"jsonrpc": "2.0", "method": "tab\there"}',
        '{"jsonrpc": "2.0", "method": "a\0b"}',
    ],
)
def test_invalid_json_is_a_parse_error(text: str) -> None:
    asked = decode(text)
    assert isinstance(asked, Invalid)
    assert (asked.id, asked.code) == (None, PARSE_ERROR)
    assert asked.message == "Parse error: the message is not valid JSON."


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + "["])
@pytest.mark.parametrize("closed", [True, False])
def test_nesting_a_hundred_thousand_deep_is_a_parse_error(opening: str, closed: bool) -> None:
    deep = opening * 100_000
    if closed:
        deep += ("]" if opening == "[" else "1" + "}") * 100_000
    asked = decode(deep)
    assert isinstance(asked, Invalid)
    assert asked.code == PARSE_ERROR


def test_a_huge_number_of_digits_does_not_slow_parsing() -> None:
    before = time.perf_counter()
    assert isinstance(decode(message(method="a", params={}).replace("{}", '{"n": ' + "9" * 5_000_000 + "}")), object)
    assert time.perf_counter() - before < 2


def test_of_duplicate_keys_the_last_one_counts() -> None:
    assert decode('{"jsonrpc": "2.0", "method": "a", "id": 1, "method": "b", "id": 2}') == Request(2, "b", {})


def test_a_lone_surrogate_is_read() -> None:
    """JSON allows it, and a JavaScript agent sends it when it cuts a text in the middle of an emoji."""
    asked = decode(
        '{"jsonrpc": "2.0", "id": 1, "method": "a", "params": {"text": "cut \\ud83c", "whole": "\\ud83c\\udf09"}}'
    )
    assert asked == Request(1, "a", {"text": "cut \ud83c", "whole": "\N{BRIDGE AT NIGHT}"})


@pytest.mark.parametrize("text", ["half \ud83c", "byte \udcff", "\udf09 half"])
def test_sent_messages_are_always_valid_utf8(text: str) -> None:
    """An undecodable byte, for example in a file name, becomes U+FFFD, because an invalid frame would end the
    connection."""
    sent = json.loads(jsonrpc.notification("at_mentioned", {"filePath": text, "whole": "\N{BRIDGE AT NIGHT}"}).decode())
    assert sent["params"]["filePath"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert "\N{REPLACEMENT CHARACTER}" in sent["params"]["filePath"]
    assert sent["params"]["whole"] == "\N{BRIDGE AT NIGHT}"


@given(JSON)
def test_any_json_is_read_as_one_of_four_message_kinds(value: object) -> None:
    assert isinstance(decode(json.dumps(value)), Request | Notification | Response | Invalid)


@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON | st.just("2.0"))
)
def test_the_error_for_any_invalid_message_can_be_sent(members: dict[str, Any]) -> None:
    asked = decode(json.dumps(members))
    if isinstance(asked, Invalid):
        assert json.loads(jsonrpc.error(asked.id, asked.code, asked.message))["id"] == asked.id
    elif isinstance(asked, Request):
        assert json.loads(jsonrpc.result(asked.id, {}))["id"] == asked.id


@given(st.text())
def test_decoding_never_raises(text: str) -> None:
    decode(text)
