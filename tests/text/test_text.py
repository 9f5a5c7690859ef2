"""Texts are split into lines and a format, and joined again without any change."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drawbridge.text import Format, format_changes, join, split, utf16_length

line_breaks = st.sampled_from(
    ["\n", "\r\n", "\r", "\n\r", "\ufeff", "\u2028", "\u2029", "\x85", "\f", "\v", "\x1c", "\0"]
)
odd_bytes = st.integers(0xDC80, 0xDCFF).map(chr)
texts = st.lists(st.one_of(line_breaks, st.sampled_from("ab é😀"), odd_bytes, st.text(max_size=3))).map("".join)


@given(texts)
@example("")
@example("\ufeff")
@example("\ufeff\ufeff")
@example("\n")
@example("a\r\nb\r")
@example("a\r\r\n")
@example("a\r\nb\nc\r\n")
def test_join_restores_every_text_that_was_split(text: str) -> None:
    lines, form = split(text)
    assert join(lines, form) == text


@given(texts)
def test_no_line_contains_a_line_end(text: str) -> None:
    lines, form = split(text)
    assert not any("\n" in line for line in lines)
    assert len(lines) == text.count("\n") + (0 if form.final_newline or not lines else 1)


@given(st.lists(st.text(st.characters(blacklist_characters="\r\n\ufeff")), min_size=1), st.booleans(), st.booleans())
def test_split_restores_lines_that_were_joined_with_crlf(lines: list[str], bom: bool, final_newline: bool) -> None:
    if len(lines) == 1 and not final_newline:
        return  # a text without a line end does not show which line end it uses
    form = Format("\r\n", bom, final_newline or not lines[-1])
    assert split(join(lines, form)) == (lines, form)


@pytest.mark.parametrize(
    ("text", "lines", "form"),
    [
        ("", [], Format()),
        ("\ufeff", [], Format(bom=True)),
        ("\n", [""], Format()),
        ("\r\n", [""], Format("\r\n")),
        ("a", ["a"], Format(final_newline=False)),
        ("a\nb\n", ["a", "b"], Format()),
        ("a\r\nb\r\n", ["a", "b"], Format("\r\n")),
        ("\ufeffa\r\nb", ["a", "b"], Format("\r\n", bom=True, final_newline=False)),
        ("a\r\nb\n", ["a\r", "b"], Format()),
        ("a\rb\r", ["a\rb\r"], Format(final_newline=False)),
        ("a\u2028b\x85c\fd\n", ["a\u2028b\x85c\fd"], Format()),
        ("a\ufeff\n", ["a\ufeff"], Format()),
        ("caf\udce9\n", ["caf\udce9"], Format()),
    ],
)
def test_a_text_has_these_lines_and_this_format(text: str, lines: list[str], form: Format) -> None:
    assert split(text) == (lines, form)


def test_no_lines_become_an_empty_text_or_only_a_bom() -> None:
    assert join([], Format("\r\n", final_newline=True)) == ""
    assert join([], Format(bom=True)) == "\ufeff"


@given(st.text())
def test_utf16_length_is_the_number_of_utf16_code_units(text: str) -> None:
    assert utf16_length(text) == sum(2 if ord(character) > 0xFFFF else 1 for character in text)


@pytest.mark.parametrize(
    ("text", "length"),
    [("", 0), ("tab\t", 4), ("é", 1), ("e\u0301", 2), ("😀", 2), ("👩‍🚀", 5), ("caf\udce9", 4)],
)
def test_the_utf16_length_of_typical_texts_is_correct(text: str, length: int) -> None:
    assert utf16_length(text) == length


def test_format_changes_describes_what_lines_cannot_show() -> None:
    plain = Format()
    other = Format("\r\n", bom=True, final_newline=False)
    assert format_changes(plain, plain) == []
    assert format_changes(plain, other) == [
        "proposed with CRLF line endings",
        "a byte-order mark is added",
        "the newline is removed from the end of the file",
    ]
    assert format_changes(other, plain) == [
        "proposed with LF line endings",
        "the byte-order mark is removed",
        "a newline is added at the end of the file",
    ]
