"""JSON without the ``json`` package: ``parse`` returns the same values as ``json.loads`` with ``strict=False``, but
rejects the words ``NaN`` and ``Infinity``.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.guard import json_text

from .processes import SOURCE, run

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types: True is not 1."""
    return repr(one) == repr(other)


@given(values, st.booleans(), st.sampled_from([None, 0, 2]))
def test_the_output_of_json_is_parsed_to_the_same_value(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert same(json_text.parse(text.encode()), json.loads(text))


@given(values)
def test_the_json_package_parses_our_output_to_the_same_value(value: Any) -> None:
    text = json_text.dump(value)
    assert text.isascii()
    assert "\n" not in text
    assert same(json.loads(text), value)


@given(st.binary(max_size=50) | st.text("[]{}:,\"\\u0123dDnulltrefas-.e+ \t\r\n/*'\x00", max_size=30).map(str.encode))
def test_any_input_is_parsed_or_rejected_as_by_json(data: bytes) -> None:
    def no_constant(name: str) -> Any:
        raise ValueError(name)

    def by_json(data: bytes) -> Any:
        return json.loads(data.decode(), strict=False, parse_constant=no_constant)

    assert outcome(json_text.parse, data) == outcome(by_json, data)


def outcome(parse: Callable[[bytes], Any], data: bytes) -> str:
    try:
        return repr(parse(data))
    except ValueError:
        return "no JSON"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        '{"a": 1',
        "[1,]",
        '{"a": 1,}',
        "{'a': 1}",
        "{a: 1}",
        "1 2",
        "{}{}",
        "nul",
        "NaN",
        "[Infinity]",
        "-Infinity",
        "01",
        '"\\x"',
        '"\\u12"',
        "\ufeff{}",
        "// no\n{}",
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5_000,
    ],
    ids=lambda text: text[:12],
)
def test_invalid_json_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        json_text.parse(text.encode())


def test_parsing_works_without_the_json_package() -> None:
    """For invalid JSON, Python's scanner looks for the error class of the ``json`` package, which may not be loaded."""
    text = '{"a": [1, -2.5e3, true, null, "\\u00e9\\ud83d\\ude00"], "b": {"c": {}}}'
    script = (
        f"import sys; sys.path.insert(0, {SOURCE!r})\n"
        "from drawbridge.guard import json_text\n"
        f"text = {text!r}\n"
        "broken = [text[:at] for at in range(len(text))]\n"
        "broken += [text[:at] + mark + text[at:] for at in range(len(text)) for mark in '{[,:\"\\\\x']\n"
        "for one in broken:\n"
        "    try: json_text.parse(one.encode())\n"
        "    except ValueError: pass\n"
        "print(json_text.parse(text.encode()), 'json' in sys.modules)"
    )
    ended = run([sys.executable, "-I", "-S", "-c", script], b"")
    assert (ended.output.decode(), ended.errors) == (f"{json.loads(text)} False\n", "")


def test_bytes_that_are_not_utf8_are_rejected() -> None:
    for data in (b'"\xff"', b'"\xed\xa0\x80"', '"a"'.encode("utf-16")):
        with pytest.raises(ValueError, match="utf-8"):
            json_text.parse(data)


def test_tuples_become_lists_and_lone_surrogates_are_kept() -> None:
    assert json_text.dump({"a": (1, "é\udce9\n")}) == '{"a":[1,"\\u00e9\\udce9\\n"]}'
    assert json_text.parse(b'"\\udce9"') == "\udce9"


def test_a_number_too_large_for_a_float_is_infinity() -> None:
    """The ``json`` package does the same."""
    assert math.isinf(json_text.parse(b"1e999"))
