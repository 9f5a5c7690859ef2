"""Which lines of a damaged file are trusted, judged only by their numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.server.store.lines import Head, believed

LENGTH = 100


def good(numbers: list[int], before: int | None = None) -> list[int]:
    """The numbers that are trusted, for lines of equal length. A 0 in ``numbers`` is a line that can't be read."""
    heads = [Head(line, seq, 0, line * LENGTH, LENGTH) for line, seq in enumerate(numbers) if seq]
    return [head.seq for head in believed(heads, before, 0)]


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], []),
        ([7], [7]),
        ([7, 8, 9, 10], [7, 8, 9, 10]),
        ([7, 0, 9, 0], [7, 9]),
        ([0, 8, 9], [8, 9]),
        ([97, 8, 9, 10], [8, 9, 10]),  # one additional digit
        ([7, 98, 9, 10], [7, 9, 10]),
        ([7, 8, 9, 910], [7, 8, 9]),  # a last number, with no damaged lines before it that could fill the gap
        ([7, 8, 3, 10, 11], [7, 8, 10, 11]),  # a number that occurred before
        ([7, 8, 8, 9, 10], [7, 8, 9, 10]),  # a repeated line
        ([7, 8, 21, 22, 23], [7, 8, 21, 22, 23]),  # lines that a user deleted
    ],
)
def test_a_number_is_trusted_if_it_fits_the_lines_around_it(numbers: list[int], expected: list[int]) -> None:
    assert good(numbers) == expected


def test_a_long_damaged_part_may_contain_several_numbers() -> None:
    heads = [Head(0, 7, 0, 0, 100), Head(2, 10, 0, 350, 100)]
    assert [head.seq for head in believed(heads, None, 0)] == [7, 10]


def test_a_later_file_continues_the_numbers_before_it() -> None:
    assert good([8, 9], before=7) == [8, 9]
    assert good([7, 9], before=7) == [9]
    assert good([912], before=7) == []
    assert good([8, 0, 11], before=7) == [8]  # the damaged line can't have been two records


@given(st.integers(5, 40), st.data())
def test_a_wrong_number_affects_only_its_own_record(length: int, data: st.DataObject) -> None:
    numbers = list(range(1_000, 1_000 + length))
    at = data.draw(st.integers(0, length - 1))
    numbers[at] = data.draw(
        st.one_of(st.integers(1, 2**53 - 1), st.integers(990, 1_050)).filter(lambda n: n != numbers[at])
    )
    assert good(numbers, before=data.draw(st.sampled_from([999, None]))) == [
        n for i, n in enumerate(numbers) if i != at
    ]
