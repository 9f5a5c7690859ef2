"""Edits a JSON text in place. Comments, order, indentation and line endings are preserved. Does no I/O.

An insertion adds text, and deleting the inserted value removes exactly that text, so that the bytes are the same as
before. The accepted syntax is JSON as in RFC 8259, with ``//`` and ``/* */`` comments if the caller allows them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]  # json.loads itself reads strings with it
from typing import Any, NamedTuple, TypeAlias

DEEPEST = 200
"""The maximum depth of lists and objects, far more than real settings have."""

BLANK = re.compile(r"[ \t\r\n]*")
COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
WORDS = {"true": True, "false": False, "null": None}
NEWLINE = re.compile(r"\r?\n")

Path: TypeAlias = tuple[str | int, ...]


class Item(NamedTuple):
    """A member of an object or an element of a list. ``start``: the position of its key or, in a list, its value."""

    key: str | int
    start: int
    node: Node


class Node(NamedTuple):
    """A value and its position: ``text[start:end]``. ``items`` are the contents of a list or an object, in order."""

    start: int
    end: int
    scalar: str | int | float | bool | None = None
    items: tuple[Item, ...] | None = None
    is_object: bool = False

    @property
    def value(self) -> Any:
        """The value as ``json.loads`` returns it: for a repeated key, the last one."""
        if self.items is None:
            return self.scalar
        if self.is_object:
            return {item.key: item.node.value for item in self.items}
        return [item.node.value for item in self.items]


class Document:
    """A text and its JSON value. Each edit returns a new document. ``path``: the keys and indices that lead to a
    value."""

    def __init__(self, text: str, *, comments: bool = False) -> None:
        """Raises ``json.JSONDecodeError`` with the line, the column, and what was expected there."""
        self.text = text
        self._comments = comments
        parser = _Parser(text, comments)
        self._root = parser.document()
        self.has_comments = parser.seen_comment
        self._marks = parser.marks

    @property
    def value(self) -> Any:
        return self._root.value

    def __contains__(self, path: Path) -> bool:
        return self._find(path) is not None

    def get(self, path: Path, default: Any = None) -> Any:
        node = self._find(path)
        return default if node is None else node.value

    def source(self, path: Path) -> str:
        """The source text of the value at ``path``."""
        node = self._at(path)
        return self.text[node.start : node.end]

    def replace(self, path: Path, value: Any) -> Document:
        node = self._at(path)
        return self.replace_source(path, self._written(value, self._line_indent(node.start), self._is_spread(node)))

    def replace_source(self, path: Path, source: str) -> Document:
        """Replaces a value with the source text ``source``."""
        node = self._at(path)
        return self._with(self.text[: node.start] + source + self.text[node.end :])

    def insert(self, path: Path, value: Any) -> Document:
        """Adds a member at the end of an object, or an element at the end of a list. For a list, the last part of
        ``path`` is ignored."""
        parent = self._at(path[:-1])
        assert parent.items is not None, path
        assert not parent.is_object or path not in self, path
        spread = self._is_spread(parent)
        indent = self._item_indent(parent)
        item = self._written(value, indent, spread)
        if parent.is_object:
            item = json.dumps(path[-1], ensure_ascii=False) + self._colon() + item
        inside_end = parent.end - 1
        if parent.items:
            last = parent.items[-1].node.end
            place = self._after_comments(last, inside_end)
            between = self._newline() + indent if spread or place > last else self._space(",")
            return self._with(f"{self.text[:last]},{self.text[last:place]}{between}{item}{self.text[place:]}")
        place = self._after_comments(parent.start + 1, inside_end)
        if place > parent.start + 1:
            item = self._newline() + indent + item
        elif spread:
            item = self._newline() + indent + item + self._newline() + self._line_indent(parent.start)
        return self._with(self.text[:place] + item + self.text[place:])

    def delete(self, path: Path) -> Document:
        """Removes a member or element with its comma and surrounding whitespace. Comments stay."""
        parent = self._at(path[:-1])
        assert parent.items, path
        number = max(number for number, item in enumerate(parent.items) if item.key == path[-1])
        item = parent.items[number]
        before = parent.items[number - 1].node.end if number else parent.start + 1
        comma = next(self._commas(item.node.end, parent.end), None)
        start, end = item.start, item.node.end
        if comma is None:
            rest = self.text[end:]
        elif number == 0:
            return self._with(self.text[:start] + self.text[end:comma] + self.text[self._blank_end(comma + 1) :])
        else:
            rest = self.text[end:comma] + self.text[comma + 1 :]
        start = self._blank_start(before, start, rest)
        head = self.text[:start]
        if comma is None and number:
            comma = next(self._commas(before, item.start))
            head = self.text[:comma] + self.text[comma + 1 : start]
        elif parent.start + 1 == start < item.start:
            rest = rest.removeprefix(self._newline() + self._line_indent(parent.start))
        return self._with(head + rest)

    def _with(self, text: str) -> Document:
        return Document(text, comments=self._comments)

    def _find(self, path: Path) -> Node | None:
        node = self._root
        for part in path:
            found = [item.node for item in node.items or () if item.key == part]
            if not found:
                return None
            node = found[-1]
        return node

    def _at(self, path: Path) -> Node:
        node = self._find(path)
        if node is None:
            raise KeyError(path)
        return node

    def _newline(self) -> str:
        found = NEWLINE.search(self.text)
        return found[0] if found else "\n"

    def _unit(self) -> str:
        """One level of indentation: the first one in the text, or two spaces if nothing in it is indented."""
        ahead = [self._root]
        while ahead:
            node = ahead.pop(0)
            if node.items and self._is_spread(node):
                outer, inner = self._line_indent(node.start), self._line_indent(node.items[0].start)
                if len(inner) > len(outer) and inner.startswith(outer):
                    return inner[len(outer) :]
            ahead += [item.node for item in node.items or ()]
        return "  "

    def _space(self, mark: str) -> str:
        """The text after a comma or a colon on one line: a space, unless the document has none there."""
        first = self._marks.get(mark)
        return " " if first is None or self.text[first + 1] in " \t\r\n" else ""

    def _colon(self) -> str:
        return ":" + self._space(":")

    def _is_spread(self, node: Node) -> bool:
        """Whether a value's contents are on separate lines. For a value without contents: whether it or the
        document contains a line break, or the document has no contents either."""
        if node.items:
            return "\n" in self.text[node.start : node.items[0].start]
        inside = self.text[node.start : node.end]
        return "\n" in inside or self._root.items in (None, ()) or "\n" in self.text[self._root.start : self._root.end]

    def _line_indent(self, position: int) -> str:
        line = self.text.rfind("\n", 0, position) + 1
        blank = re.compile(r"[ \t]*").match(self.text, line)
        assert blank is not None
        return blank[0]

    def _item_indent(self, parent: Node) -> str:
        if parent.items and self._is_spread(parent):
            return self._line_indent(parent.items[0].start)
        return self._line_indent(parent.start) + self._unit()

    def _written(self, value: Any, indent: str, spread: bool) -> str:
        if not spread:
            return json.dumps(value, ensure_ascii=False, separators=("," + self._space(","), self._colon()))
        lines = json.dumps(value, ensure_ascii=False, separators=(",", self._colon()), indent=self._unit())
        return lines.replace("\n", self._newline() + indent)

    def _gaps(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Yields each comment and each character between comments: its start, its end, and whether it is a comment."""
        while start < end:
            comment = COMMENT.match(self.text, start)
            stop = comment.end() if comment else start + 1
            yield start, stop, comment is not None
            start = stop

    def _after_comments(self, start: int, end: int) -> int:
        """The position after the last comment between two positions; ``start`` if no comment is there."""
        return max((stop for _, stop, is_comment in self._gaps(start, end) if is_comment), default=start)

    def _commas(self, start: int, end: int) -> Iterator[int]:
        for place, _, is_comment in self._gaps(start, end):
            if not is_comment and self.text[place] == ",":
                yield place
            elif not is_comment and self.text[place] not in " \t\r\n":
                return

    def _blank_start(self, low: int, start: int, rest: str) -> int:
        """The start of the whitespace before ``start``; ``start`` itself if a line comment before it still needs the
        line break."""
        place = start
        while place > low and self.text[place - 1] in " \t\r\n":
            place -= 1
        inside = [gap for gap in self._gaps(low, place) if gap[2] and gap[1] == place]
        ends_line = bool(inside) and self.text.startswith("//", inside[-1][0])
        return start if ends_line and not re.match(r"[ \t]*(?:[\r\n]|$)", rest) else place

    def _blank_end(self, start: int) -> int:
        blank = BLANK.match(self.text, start)
        assert blank is not None
        return blank.end()


class _Parser:
    def __init__(self, text: str, comments: bool) -> None:
        self._text = text
        self._comments = comments
        self.seen_comment = False
        self.marks: dict[str, int] = {}
        """The positions of the first comma and the first colon."""

    def document(self) -> Node:
        node = self._value(self._skip(0), 0)
        end = self._skip(node.end)
        if end < len(self._text):
            raise self._expected("the end of the file", end)
        return node

    def _expected(self, what: str, place: int) -> json.JSONDecodeError:
        if self._text.startswith(("//", "/*"), place) and not self._comments:
            return json.JSONDecodeError("a comment, which is not allowed in this file", self._text, place)
        if place == 0 and self._text.startswith("\ufeff"):
            return json.JSONDecodeError("a byte order mark, which is not allowed in this file", self._text, place)
        return json.JSONDecodeError(f"{what} was expected", self._text, place)

    def _skip(self, place: int) -> int:
        """Skips whitespace and comments."""
        while True:
            blank = BLANK.match(self._text, place)
            place = blank.end() if blank else place
            comment = COMMENT.match(self._text, place) if self._comments else None
            if comment is None:
                return place
            place, self.seen_comment = comment.end(), True

    def _value(self, place: int, depth: int) -> Node:
        if depth > DEEPEST:
            raise json.JSONDecodeError(f"more than {DEEPEST} nested levels", self._text, place)
        match self._text[place : place + 1]:
            case '"':
                return self._string(place)
            case "{":
                return self._container(place, depth, is_object=True)
            case "[":
                return self._container(place, depth, is_object=False)
        if number := NUMBER.match(self._text, place):
            return Node(place, number.end(), self._number(number))
        for word, value in WORDS.items():
            if self._text.startswith(word, place):
                return Node(place, place + len(word), value)
        raise self._expected("a value", place)

    def _number(self, number: re.Match[str]) -> int | float:
        try:
            value: int | float = json.loads(number[0])
        except ValueError:  # the number has more digits than Python accepts
            raise json.JSONDecodeError("the number is too large", self._text, number.start()) from None
        return value

    def _string(self, place: int) -> Node:
        try:
            value, end = scanstring(self._text, place + 1, True)
        except json.JSONDecodeError as error:  # an error such as "Unterminated string starting at"
            problem = error.msg.removesuffix(" at").removesuffix(" starting")
            raise json.JSONDecodeError(problem[:1].lower() + problem[1:], self._text, error.pos) from None
        return Node(place, end, value)

    def _container(self, start: int, depth: int, *, is_object: bool) -> Node:
        closing = "}" if is_object else "]"
        items: list[Item] = []
        place = self._skip(start + 1)
        if self._text.startswith(closing, place):
            return Node(start, place + 1, items=(), is_object=is_object)
        while True:
            items.append(self._item(place, len(items), depth, is_object=is_object))
            place = self._skip(items[-1].node.end)
            if self._text.startswith(closing, place):
                return Node(start, place + 1, items=tuple(items), is_object=is_object)
            if not self._text.startswith(",", place):
                raise self._expected(f"a comma or {closing}", place)
            self.marks.setdefault(",", place)
            place = self._skip(place + 1)

    def _item(self, place: int, number: int, depth: int, *, is_object: bool) -> Item:
        if not is_object:
            return Item(number, place, self._value(place, depth + 1))
        if not self._text.startswith('"', place):
            raise self._expected("a name in double quotes", place)
        key = self._string(place)
        colon = self._skip(key.end)
        if not self._text.startswith(":", colon):
            raise self._expected("a colon", colon)
        self.marks.setdefault(":", colon)
        assert isinstance(key.scalar, str)
        return Item(key.scalar, place, self._value(self._skip(colon + 1), depth + 1))
