"""The words of errors, log lines and other texts for people: idioms that were found in readings do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYTHON = sorted((ROOT / "src" / "drawbridge").rglob("*.py"))
OTHERS = sorted([*(ROOT / "lua").rglob("*.lua"), *(ROOT / "extensions" / "vscode").glob("*.js")])

AVOIDED = re.compile(
    r"""(?<!there\ )\bis\ no\ (?!longer|more)[a-z]  # "is not a"
    |\banew\b|\bgoes?\ on\b|\bonce\ more\b  # restart, continue, again
    |\btakes?\ back\b|\btaken?\ back\b|\bcall(?:ed)?\ off\b  # revert, withdraw, cancel
    |\bholds\b|\bit\ lies\b|\bthere\ is\ none\b  # contains, is in
    |\bdesks?\b  # terminal session
    |\bno\ file\ of\b|\bof\ ours\b|\bgo\ by\ that\ name\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def texts(module: ast.Module) -> Iterator[str]:
    """Every text of several words that is not a docstring. An f-string's values are left out."""
    docstrings = {node.value for node in ast.walk(module) if isinstance(node, ast.Expr)}
    parts = {part for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(module):
        if node in docstrings or node in parts:
            continue
        given = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "…".join(part.value for part in given if isinstance(part, ast.Constant) and isinstance(part.value, str))
        if text.count(" ") > 1:
            yield text


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT / "src" / "drawbridge")))
def test_texts_for_people_have_no_translated_idioms(path: Path) -> None:
    assert [text for text in texts(ast.parse(path.read_text())) if AVOIDED.search(text)] == []


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_texts_of_the_editors_have_no_translated_idioms(path: Path) -> None:
    found = re.findall(r"""'([^'\n]* [^'\n]* [^'\n]*)'|`([^`\n]* [^`\n]* [^`\n]*)`""", path.read_text())
    assert [text for pair in found for text in pair if AVOIDED.search(text)] == []
