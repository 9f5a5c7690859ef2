"""Output is split into the same lines no matter how it is cut into pieces, and only a bounded part of it is kept."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as some

from drawbridge.agents.output import Lines, Tail, readable


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(some.lists(some.binary(max_size=30).map(lambda line: line.replace(b"\n", b" "))), some.lists(some.integers(0)))
def test_lines_are_whole_wherever_the_stream_was_cut(written: list[bytes], places: list[int]) -> None:
    lines = Lines()
    stream = b"".join(line + b"\n" for line in written)

    received = [line for piece in cut(stream, places) for line in lines.feed(piece)]

    assert received == written
    assert lines.rest() == b""


def test_text_without_a_newline_is_kept_for_the_end() -> None:
    lines = Lines()

    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"o") == []

    assert lines.rest() == b"two"
    assert lines.rest() == b""


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_may_be_as_long_as_the_limit_but_not_longer(size: int) -> None:
    for over in (0, 1):
        lines = Lines(limit=1000)
        line = b"x" * (1000 + over) + b"\n"
        received = [whole for at in range(0, len(line), size) for whole in lines.feed(line[at : at + size])]
        assert (received, lines.too_long) == (([line[:-1]], False) if not over else ([], True))


def test_no_line_follows_one_that_is_too_long() -> None:
    lines = Lines(limit=10)

    assert lines.feed(b"before\n" + b"x" * 11) == [b"before"]

    assert lines.too_long
    assert lines.feed(b"\nbehind\n") == []


def test_a_line_without_an_end_uses_bounded_memory() -> None:
    lines = Lines(limit=1_000_000)
    tracemalloc.start()
    try:
        for _ in range(100):
            lines.feed(bytes(100_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines.too_long
    assert peak < 3_000_000


@given(some.lists(some.binary(max_size=50)))
def test_a_tail_is_the_end_of_all_output(pieces: list[bytes]) -> None:
    tail = Tail(limit=20)
    for piece in pieces:
        tail.add(piece)
    assert tail.text == readable(b"".join(pieces)[-20:].decode("utf-8", "replace"))


def test_terminal_control_sequences_are_removed() -> None:
    output = "\x1b[31mred\x1b[0m \x1b]0;title\x07plain\r\n\x1b]8;;http://x\x1b\\link\x00\x9b2J\ttab\x7f\n"
    assert readable(output) == "red plain\nlink2J\ttab"
