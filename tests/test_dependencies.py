"""Every imported package is declared in pyproject.toml, and every declared one is imported."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> dict[str, str]:
    """Returns each declared distribution with its requirement."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {normalized(re.split(r"[^\w.-]", one)[0]): one for one in project["dependencies"]}


def imported() -> dict[str, set[str]]:
    """Returns each top-level third-party module with the files that import it, including imports in functions."""
    found: dict[str, set[str]] = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in {name.partition(".")[0] for name in names}:
                if name not in sys.stdlib_module_names and name not in ("drawbridge", "__main__"):
                    found.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    return found


@functools.cache
def installed() -> Mapping[str, list[str]]:
    return packages_distributions()


def distributions(module: str) -> set[str]:
    return {normalized(name) for name in installed().get(module, [])}


def test_every_third_party_import_is_declared() -> None:
    """A package that is installed only because another one needs it may disappear with any release of the other."""
    missing = {module: files for module, files in imported().items() if not distributions(module) & set(declared())}
    assert missing == {}


def test_every_declared_dependency_is_imported() -> None:
    used = set().union(*map(distributions, imported()))
    assert set(declared()) - used == set()


def test_every_dependency_has_a_minimum_version() -> None:
    assert [one for one in declared().values() if ">=" not in one] == []


def test_libraries_whose_private_parts_are_used_have_a_maximum() -> None:
    assert [name for name in ("textual", "websockets") if not re.search(r",<\d", declared()[name])] == []
