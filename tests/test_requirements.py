"""docs/internals/requirements.md lists every requirement, each with its proof."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "internals" / "requirements.md"

REQUIREMENTS = 77
"""The number of MUSTs in the specification's "Implementation Requirements"."""


def rows() -> dict[str, tuple[str, str]]:
    found = re.findall(r"^\| (IR-\d+) \| (.*?) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len({name for name, _, _ in found}) == len(found), "a number is used twice"
    return {name: (what, proof) for name, what, proof in found}


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_every_requirement_has_a_row_with_its_proof() -> None:
    found = rows()
    assert list(found) == [f"IR-{number}" for number in range(1, REQUIREMENTS + 1)]
    assert [
        name for name, (what, proof) in found.items() if not what or not re.search(r"`tests/|departure: ", proof)
    ] == []


def test_every_named_proof_exists() -> None:
    departures = (ROOT / "docs" / "internals" / "departures.md").read_text()
    server = departures[departures.index("## The agent server") :]
    missing = []
    for name, (_, proof) in rows().items():
        named = re.findall(r"`(tests/[\w/.]+)::(\w+)`", proof)
        missing += [(name, test) for file, test in named if test not in names_in(file)]
        entries = re.findall(r'departure: "([^"]+)"', proof)
        missing += [(name, entry) for entry in entries if f"\n| {entry} |" not in server]
        assert len(named) + len(entries) == proof.count("; ") + 1, f"{name}: a proof is neither a test nor a departure"
    assert missing == []
