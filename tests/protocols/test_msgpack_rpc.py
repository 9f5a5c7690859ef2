"""MessagePack-RPC between two connected peers, and with bytes that no peer should send."""

from __future__ import annotations

import itertools
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.core.errors import BadMessage
from drawbridge.protocols import msgpack_rpc
from drawbridge.protocols.msgpack_rpc import Connection, Notification, Request, Response

BYTES_AS_TEXT = st.binary(max_size=40).map(lambda raw: raw.decode("utf-8", "surrogateescape"))

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | BYTES_AS_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(BYTES_AS_TEXT, inner, max_size=4),
    max_leaves=20,
)


def test_a_call_and_its_answer_are_matched() -> None:
    ours, theirs = Connection(), Connection()
    id, data = ours.request("nvim_eval", ["1 + 1"])
    assert theirs.receive(data) == [Request(id, "nvim_eval", ["1 + 1"])]
    assert ours.receive(theirs.respond(id, result=2)) == [Response(id, None, 2)]
    assert ours.receive(theirs.respond(id, error=[0, "no"])) == [Response(id, [0, "no"], None)]


def test_ids_are_never_used_twice() -> None:
    ours = Connection()
    assert len({ours.request("f", [])[0] for _ in range(100)}) == 100


@given(params=st.lists(VALUES, max_size=4), cut=st.integers(1, 7))
def test_any_value_survives_in_pieces_of_any_size(params: list[Any], cut: int) -> None:
    ours, theirs = Connection(), Connection()
    data = ours.notify("drawbridge", params) + ours.request("nvim_eval", params)[1]
    events = list(itertools.chain.from_iterable(theirs.receive(data[at : at + cut]) for at in range(0, len(data), cut)))
    assert events == [Notification("drawbridge", params), Request(1, "nvim_eval", params)]


def test_handles_of_buffers_pass_through() -> None:
    ours, theirs = Connection(), Connection()
    buffer = msgpack.ExtType(0, b"\x07")
    assert theirs.receive(ours.notify("nvim_buf_line_count", [buffer])) == [
        Notification("nvim_buf_line_count", [buffer])
    ]


@pytest.mark.parametrize(
    "message",
    [
        7,
        "text",
        {},
        [],
        [0],
        [0, "id", "method", []],
        [0, 1, "method"],
        [0, 1, "method", {}],
        [1, 1, None],
        [2, b"method", []],
        [2, "method", None],
        [3, 1, None, None],
    ],
)
def test_an_invalid_message_is_refused(message: Any) -> None:
    with pytest.raises(BadMessage):
        Connection().receive(msgpack.packb(message))


@pytest.mark.parametrize("data", [b"\xc1", b"\x93\x00\xc1", b"\xd8" + b"x" * 20, b"\x91" * 5_000, b"\x81\x90\x01"])
def test_invalid_msgpack_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        Connection().receive(data + b"\xc1")


@given(st.binary(max_size=200))
def test_random_bytes_give_events_or_a_bad_message_error(data: bytes) -> None:
    try:
        events = Connection().receive(data)
    except BadMessage:
        return
    assert all(isinstance(event, Request | Response | Notification) for event in events)


def test_an_oversized_message_is_refused_before_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(msgpack_rpc, "MESSAGE_LIMIT", 2_000_000)
    limited = Connection()
    # A notification whose parameter is a string of 2 GB.
    assert limited.receive(b"\x93\x02\xa1m\xdb\x7f\xff\xff\xff" + b"x" * 1_900_000) == []
    with pytest.raises(BadMessage, match="larger than"):
        limited.receive(b"x" * 200_000)


@pytest.mark.parametrize("value", ["lone \ud800", 2**64, object()])
def test_an_unsupported_value_does_not_damage_the_next_message(value: Any) -> None:
    ours, theirs = Connection(), Connection()
    with pytest.raises(BadMessage):
        ours.notify("m", ["before", value])
    assert theirs.receive(ours.notify("m", [1])) == [Notification("m", [1])]
