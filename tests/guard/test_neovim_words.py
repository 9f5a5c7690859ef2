"""MessagePack without the ``msgpack`` package: each value that Neovim may send, each incomplete value, and any bytes."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.guard import neovim

keys = st.text(max_size=5) | st.integers(-(2**63), 2**64 - 1) | st.booleans() | st.none()
leaves = keys | st.floats() | st.binary(max_size=300) | st.text(max_size=300)
leaves |= st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20))
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=20) | st.dictionaries(keys, inner, max_size=20))


def as_it_is_read(value: Any) -> Any:
    """Returns what ``decode`` returns for ``value``: floats and extension values become None, and bytes become text."""
    if isinstance(value, float | msgpack.ExtType):
        return None
    if isinstance(value, bytes):
        return value.decode(errors="surrogateescape")
    if isinstance(value, list):
        return [as_it_is_read(item) for item in value]
    if isinstance(value, dict):
        return {as_it_is_read(key): as_it_is_read(item) for key, item in value.items()}
    return value


@given(values, st.binary(max_size=3), st.binary(max_size=3))
def test_decoding_starts_at_an_offset_and_returns_the_end(value: Any, before: bytes, after: bytes) -> None:
    data = msgpack.packb(value)
    assert neovim.decode(before + data + after, len(before)) == (as_it_is_read(value), len(before) + len(data))


@given(values, st.data())
def test_an_incomplete_value_needs_more_data(value: Any, data: st.DataObject) -> None:
    packed = msgpack.packb(value)
    length = data.draw(st.integers(0, len(packed) - 1))
    with pytest.raises(IndexError):
        neovim.decode(packed[:length], 0)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_incomplete_or_invalid(data: bytes) -> None:
    try:
        _, end = neovim.decode(data, 0)
    except (IndexError, ValueError):
        return
    assert 0 < end <= len(data)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_every_width_of_a_length_is_decoded(size: int) -> None:
    for value in ("x" * size, b"x" * size, [1] * size, dict.fromkeys(range(size)), msgpack.ExtType(1, b"x" * size)):
        data = msgpack.packb(value)
        assert neovim.decode(data, 0) == (as_it_is_read(value), len(data))


def test_deep_nesting_and_invalid_keys_are_rejected() -> None:
    for data in (b"\x91" * 100_000, b"\x81" * 100_000, b"\x81\x90\x01", b"\xc1"):
        with pytest.raises(ValueError, match=r"\w"):
            neovim.decode(data, 0)


@given(st.binary(max_size=80) | st.builds(lambda parts: msgpack.packb(parts), st.lists(values, min_size=3, max_size=4)))
def test_a_reader_accepts_or_rejects_any_bytes(data: bytes) -> None:
    talk = neovim.AnswerReader()
    try:
        done = talk.receive(data)
    except ValueError:
        return
    assert done or talk.answer is None


@given(st.integers(1, 40))
def test_an_answer_is_the_same_in_pieces_of_any_size(size: int) -> None:
    sent = b"".join(
        map(
            msgpack.packb,
            [
                [2, "redraw", [["flush", []]]],
                [1, 1, None, {"mode": "no", "blocking": True}],
                [2, "redraw", [1.5, None, "ä" * 20]],
                [1, 2, None, '{"files": [null]}'],
            ],
        )
    )
    talk = neovim.AnswerReader()
    pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
    assert [talk.receive(piece) for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert talk.blocked is True
    assert talk.answer == {"files": [None]}


def test_a_request_is_the_same_as_from_msgpack() -> None:
    unpacker = msgpack.Unpacker()
    unpacker.feed(neovim.request("key", "snapshot", '{"paths":["/ws/ä.py"]}'))
    unpacker.feed(neovim.full_request("return 100 % 7", "key", "snapshot", "{}"))
    mode, find, keep = unpacker
    assert mode == [0, 1, "nvim_get_mode", []]
    assert find[:3] == keep[:3] == [0, 2, "nvim_exec_lua"]
    assert find[3][1:] == [["key", "snapshot", '{"paths":["/ws/ä.py"]}']] == [[*keep[3][1][:2], find[3][1][2]]]
    assert "\nreturn 100 % 7\n" in keep[3][0]
