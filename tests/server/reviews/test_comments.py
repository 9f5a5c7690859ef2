"""Comments follow their lines or become outdated, and the prompt that contains them can be parsed exactly."""

from __future__ import annotations

import json
import random
import re

import pytest

from drawbridge.server.events import ReviewComment
from drawbridge.server.reviews.change_set import lines_of
from drawbridge.server.reviews.comments import Range, followed, meet, prompt_of, touching
from drawbridge.text import hunks as differences

CODE = lines_of("import os\n\n\ndef first():\n    return 1\n\n\ndef second():\n    return 2\n")


def place(old: list[str], new: list[str], first: int, last: int = 0) -> tuple[int, int] | None:
    found = followed(old, differences.diff(old, new), Range(first, last or first))
    return None if found is None else (found.first, found.last)


def test_insertions_move_only_the_lines_below_them() -> None:
    assert place(CODE, ["# new\n", *CODE], 5) == (6, 6)
    assert place(CODE, [*CODE, "# new\n"], 5) == (5, 5)
    assert place(CODE, CODE[3:], 8, 9) == (5, 6)
    assert place(CODE, CODE, 1) == (1, 1)


def test_changed_and_removed_lines_are_not_found() -> None:
    assert place(CODE, [*CODE[:4], "    return one\n", *CODE[5:]], 5) is None
    assert place(CODE, [*CODE[:4], *CODE[5:]], 5) is None
    assert place(CODE, [*CODE[:4], "    # why\n", *CODE[4:]], 4, 5) is None, "a line between them"
    assert place(CODE, [], 5) is None


def test_lines_that_are_moved_elsewhere_are_not_found() -> None:
    assert place(CODE, [*CODE[7:], *CODE[:7]], 8, 9) in (None, (1, 2)), "the block itself, or none"
    assert place(CODE, [CODE[8], *CODE[:8]], 9) is None


def test_an_equal_line_of_other_code_is_not_the_commented_one() -> None:
    old = lines_of("def old():\n    a()\n}\n")
    new = lines_of("def other():\n    b()\n    c()\n}\n")
    assert place(old, new, 3) is None
    kept = lines_of("def other():\n    b()\n    a()\n}\n")
    assert place(old, kept, 3) == (4, 4), "the line above it is still there"


@pytest.mark.parametrize("seed", range(5))
def test_comments_move_only_to_identical_lines(seed: int) -> None:
    """The changes are random, and some lines are repeated. Text that is only added below never moves a comment."""
    chance = random.Random(seed)
    followed_ones = 0
    for _ in range(200):
        old = [
            chance.choice(["a\n", "b\n", "}\n", "\n", f"line {number}\n"]) for number in range(chance.randint(1, 30))
        ]
        new = list(old)
        for _ in range(chance.randint(0, 6)):
            at = chance.randint(0, len(new))
            put = [chance.choice(["x\n", "a\n", "}\n"]) for _ in range(chance.randint(0, 3))]
            new[at : at + chance.randint(0, 3)] = put
        first = chance.randint(1, len(old))
        last = chance.randint(first, min(len(old), first + 3))
        found = place(old, new, first, last)
        if found is not None:
            followed_ones += 1
            assert new[found[0] - 1 : found[1]] == old[first - 1 : last]
        if new[: len(old)] == old and any("line" in line for line in old[: first - 1] + old[last:]):
            assert found == (first, last)
    assert followed_ones > 20


@pytest.mark.parametrize(
    ("new", "touched"),
    [
        (["a\n", "B\n", "c\n"], True),
        (["a\n", "c\n"], True),
        (["a\n", "b\n", "b2\n", "c\n"], True),
        (["a\n", "a2\n", "b\n", "c\n"], True),
        (["A\n", "b\n", "c\n"], False),
        (["a\n", "b\n", "C\n"], False),
        (["a\n", "b\n", "c\n", "d\n"], False),
    ],
)
def test_changes_that_touch_a_line_are_found(new: list[str], *, touched: bool) -> None:
    old = ["a\n", "b\n", "c\n"]
    assert bool(touching(differences.diff(old, new), Range(2, 2))) is touched


def test_an_empty_range_touches_its_neighbors() -> None:
    assert meet(3, 3, 2, 3)
    assert meet(3, 3, 3, 4)
    assert meet(2, 5, 3, 3)
    assert not meet(3, 3, 4, 5)
    assert not meet(2, 3, 3, 4)


# the prompt


def comment(**fields: object) -> ReviewComment:
    usual = {"comment_id": "c", "by": "me", "path": "a.py", "side": "new", "line": 2, "end_line": 2, "quote": "x = 1\n"}
    return ReviewComment(**(usual | {"blob": "b", "text": "Why?"} | fields))  # type: ignore[arg-type]


def test_a_prompt_contains_path_line_code_and_comment() -> None:
    first = comment(suggestion="x = 2\n")
    second = comment(side="old", end_line=3, quote="a\nb", text="Keep these.", outdated=True)
    assert prompt_of([first, second], "Nearly done!") == (
        "Nearly done!\n\n"
        "I have reviewed your changes and have 2 comments. Address each one.\n\n"
        "### 1. `a.py`, line 2\n```\nx = 1\n```\n\n"
        "Why?\n\n"
        "Replace these lines with:\n```suggestion\nx = 2\n```\n\n"
        "### 2. `a.py`, lines 2-3 before your changes (these lines have changed or moved since)\n```\na\nb\n```\n\n"
        "Keep these."
    )


HEADING = re.compile(r"### \d+\. (`[^`]+`|\".*\"), lines? (\d+)(?:-(\d+))?( before your changes)?( \(.*\))?", re.DOTALL)

Read = tuple[str, int, int, str, str, str | None]
"""A parsed comment: path, first and last line, quoted code, text, and suggestion."""


def parsed(prompt: str) -> list[Read]:
    """The comments in the prompt, parsed line by line. The longest fence belongs to the prompt, not to quoted code."""
    lines = prompt.split("\n")
    fence = max((line for line in lines if re.fullmatch("`{3,}", line)), key=len)
    found: list[Read] = []
    words: list[str] = []
    at = 0

    def block() -> str:
        """The text between the fence at ``at`` and the next one."""
        nonlocal at
        end = lines.index(fence, at + 1)
        inner = lines[at + 1 : end]
        at = end + 1
        return "".join(line + "\n" for line in inner)

    def closed(suggestion: str | None = None) -> None:
        """Completes the last comment with its text, and with ``suggestion`` unless it is None."""
        if found:
            text = words[:-1] if suggestion is not None else words
            found[-1] = (*found[-1][:4], found[-1][4] or "\n".join(text).strip("\n"), suggestion or found[-1][5])
            if suggestion == "":
                found[-1] = (*found[-1][:5], "")
        words.clear()

    while at < len(lines):
        heading = HEADING.fullmatch(lines[at])
        if lines[at] == fence + "suggestion":
            closed(block())
        elif heading and lines[at + 1 : at + 2] == [fence]:
            closed()
            at += 1
            path = heading[1][1:-1] if heading[1].startswith("`") else json.loads(heading[1])
            found.append((path, int(heading[2]), int(heading[3] or heading[2]), block(), "", None))
        else:
            words.append(lines[at])
            at += 1
    closed()
    return found


HOSTILE = [
    "```", "````", "`", "```suggestion", "### 2. `a.py`, line 3", "Replace these lines with:", "\n", "\n\n", "x", "  y",
    "~~~", "<system>", "\u202e", "\r", "\\", '"', "é", "\x00", "I have reviewed", " ",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_comments_of_any_content_can_be_parsed_from_the_prompt(seed: int) -> None:
    chance = random.Random(seed)

    def text(most: int = 12) -> str:
        return "".join(chance.choice(HOSTILE) for _ in range(chance.randint(0, most)))

    for _ in range(100):
        comments = []
        for _ in range(chance.randint(1, 4)):
            line = chance.randint(1, 50)
            comments.append(
                comment(
                    path=(text(4).replace("\x00", "") or "p") + chance.choice(["", ".py"]),
                    line=line,
                    end_line=line + chance.randint(0, 3),
                    quote=text() + "\n",
                    text=text().strip() or "words",
                    suggestion=chance.choice([None, "", text() + "\n"]),
                    side=chance.choice(["new", "old"]),
                    outdated=chance.random() < 0.3,
                )
            )
        assert parsed(prompt_of(comments, text().strip())) == [
            (one.path, one.line, one.end_line, one.quote, one.text, one.suggestion) for one in comments
        ]
