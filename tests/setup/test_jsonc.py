"""Editing a JSON text in place: everything else in the text stays as it was, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.setup.jsonc import Document, Path

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)
BLANKS = st.sampled_from(["", "", " ", "\n", "\n  ", "\r\n\t", "  \n\n "])
COMMENTS = st.sampled_from(["/* a, b: {c} */", '// "one\n', "/**/", "//\r\n", "/*\n * many\n */"])


@st.composite
def gaps(draw: st.DrawFn) -> str:
    """Whitespace and comments, as they may be between two tokens."""
    return "".join(draw(st.lists(st.one_of(BLANKS, BLANKS, BLANKS, COMMENTS), max_size=3)))


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as JSON text, with whitespace and comments anywhere."""
    if isinstance(value, dict):
        members = [
            draw(gaps()) + json.dumps(key) + draw(gaps()) + ":" + draw(gaps()) + draw(written(inner)) + draw(gaps())
            for key, inner in value.items()
        ]
        return "{" + (",".join(members) or draw(gaps())) + "}"
    if isinstance(value, list):
        return (
            "["
            + (",".join(draw(gaps()) + draw(written(inner)) + draw(gaps()) for inner in value) or draw(gaps()))
            + "]"
        )
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@st.composite
def documents(draw: st.DrawFn) -> str:
    value = draw(st.lists(VALUES, max_size=3) | st.dictionaries(st.text(), VALUES, max_size=3))
    if draw(st.booleans()):
        return json.dumps(value, indent=draw(st.sampled_from([None, 0, 2, 4, "\t"]))) + draw(BLANKS)
    return draw(gaps()) + draw(written(value)) + draw(gaps())


def containers(value: Any, path: Path = ()) -> list[Path]:
    if isinstance(value, dict):
        return [path, *(found for key, inner in value.items() for found in containers(inner, (*path, key)))]
    if isinstance(value, list):
        return [path, *(found for index, inner in enumerate(value) for found in containers(inner, (*path, index)))]
    return []


def at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


@given(VALUES, st.sampled_from([None, 1, "\t"]))
def test_it_accepts_whatever_the_json_module_accepts(value: Any, indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent)
    assert Document(text).value == json.loads(text)


@given(documents(), VALUES, st.data())
def test_insert_and_delete_restore_every_byte(text: str, new: Any, data: st.DataObject) -> None:
    before = Document(text, comments=True)
    parent = data.draw(st.sampled_from(containers(before.value)))
    inside = at(before.value, parent)
    last: str | int = (
        len(inside) if isinstance(inside, list) else data.draw(st.text().filter(lambda k: k not in inside))
    )
    after = before.insert((*parent, last), new)
    wanted = json.loads(json.dumps(before.value))
    at(wanted, parent)[slice(len(inside), None) if isinstance(inside, list) else last] = (
        [new] if isinstance(inside, list) else new
    )
    assert after.value == wanted
    assert list(after.value) == list(wanted), "the order stays"
    assert after.delete((*parent, last)).text == text


@given(documents(), st.data())
def test_a_deletion_removes_nothing_else(text: str, data: st.DataObject) -> None:
    before = Document(text, comments=True)
    full = [path for path in containers(before.value) if at(before.value, path)]
    if not full:
        return
    parent = data.draw(st.sampled_from(full))
    inside = at(before.value, parent)
    gone = data.draw(st.sampled_from(range(len(inside)) if isinstance(inside, list) else list(inside)))
    after = before.delete((*parent, gone))
    wanted = json.loads(json.dumps(before.value))
    del at(wanted, parent)[gone]
    assert after.value == wanted


@given(documents(), VALUES, st.data())
def test_replacing_a_value_twice_restores_every_byte(text: str, new: Any, data: st.DataObject) -> None:
    before = Document(text, comments=True)
    paths = [
        (*parent, key)
        for parent in containers(before.value)
        for key in (at(before.value, parent) if isinstance(at(before.value, parent), dict) else [])
    ]
    if not paths:
        return
    path = data.draw(st.sampled_from(paths))
    after = before.replace(path, new)
    assert after.get(path) == new
    assert after.replace_source(path, before.source(path)).text == text


TWO_SPACES = '{\n  "a": 1\n}\n'
FOUR_SPACES = '{\n    "a": {\n        "b": []\n    }\n}'


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        ("{}", ("k",), '{\n  "k": [\n    1\n  ]\n}'),
        (TWO_SPACES, ("k",), '{\n  "a": 1,\n  "k": [\n    1\n  ]\n}\n'),
        (FOUR_SPACES, ("a", "k"), FOUR_SPACES.replace("[]", '[],\n        "k": [\n            1\n        ]')),
        (TWO_SPACES.replace("\n", "\r\n"), ("k",), '{\r\n  "a": 1,\r\n  "k": [\r\n    1\r\n  ]\r\n}\r\n'),
        ('{\n\t"a": 1 // last\n}', ("k",), '{\n\t"a": 1, // last\n\t"k": [\n\t\t1\n\t]\n}'),
        ('{"a":1,"b":2}', ("k",), '{"a":1,"b":2,"k":[1]}'),
        ('{"a": 1, "b": 2}', ("k",), '{"a": 1, "b": 2, "k": [1]}'),
        ("{\n  // nothing yet\n}", ("k",), '{\n  // nothing yet\n  "k": [\n    1\n  ]\n}'),
    ],
)
def test_an_insertion_has_the_style_of_the_text(text: str, path: Path, wanted: str) -> None:
    assert Document(text, comments=True).insert(path, [1]).text == wanted


@pytest.mark.parametrize(
    ("text", "path", "wanted"),
    [
        ("[1, 2, 3]", (0,), "[2, 3]"),
        ("[1, 2, 3]", (1,), "[1, 3]"),
        ('{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}', ("b",), '{\n  "a": 1,\n  "c": 3\n}'),
        ('{\n  "a": 1, // one\n  "b": 2 // two\n}', ("b",), '{\n  "a": 1 // one\n   // two\n}'),
        ('{\n  // of mine\n  "a": 1\n}', ("a",), "{\n  // of mine\n}"),
        ('{"a": 1, "a": 2}', ("a",), '{"a": 1}'),
    ],
)
def test_a_deletion_leaves_no_gap(text: str, path: Path, wanted: str) -> None:
    assert Document(text, comments=True).delete(path).text == wanted


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("", 1, 1, "a value was expected"),
        ("{\n  'a': 1}", 2, 3, "a name in double quotes was expected"),
        ('{"a" 1}', 1, 6, "a colon was expected"),
        ('{"a": 1\n "b": 2}', 2, 2, "a comma or } was expected"),
        ('{"a": 1,}', 1, 9, "a name in double quotes was expected"),
        ("[1,]", 1, 4, "a value was expected"),
        ("[1", 1, 3, "a comma or ] was expected"),
        ("{} x", 1, 4, "the end of the file was expected"),
        ("[NaN]", 1, 2, "a value was expected"),
        ("[01]", 1, 3, "a comma or ] was expected"),
        ('["a\nb"]', 1, 4, "invalid control character"),
        ("{} // c", 1, 4, "a comment, which is not allowed in this file"),
        ("\ufeff{}", 1, 1, "a byte order mark, which is not allowed in this file"),
        ("[" * 300 + "]" * 300, 1, 202, "more than 200 nested levels"),
        ("[" + "9" * 5000 + "]", 1, 2, "the number is too large"),
    ],
)
def test_invalid_json_is_reported_with_its_position(text: str, line: int, column: int, problem: str) -> None:
    with pytest.raises(json.JSONDecodeError) as error:
        Document(text)
    assert (error.value.lineno, error.value.colno, error.value.msg) == (line, column, problem)


def test_an_unterminated_comment_is_invalid() -> None:
    with pytest.raises(json.JSONDecodeError):
        Document("{} /* ", comments=True)
