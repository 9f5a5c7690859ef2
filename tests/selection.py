"""Selects tests: those in files that use a Neovim from ``tests/programs.py``, directly or through a helper or fixture, and
those that are slow only with some of their parameters."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NVIM = frozenset({"nvim", "nvims", "each_nvim"})
"""The functions of ``tests/programs.py`` that return one Neovim or several."""


def is_slow_with_these_parameters(item: pytest.Function) -> bool:
    """Whether the ID of the test's parameters is in a marker ``slow_for``."""
    return any(item.callspec.id in marker.args for marker in item.iter_markers("slow_for"))


def check_slow_for(functions: list[pytest.Function]) -> None:
    """Raises ``CollectError`` if a marker ``slow_for`` of a test names an ID that none of its parameters has, or names
    all of them. ``functions``: the test with each of its parameters.
    """
    named = {name for function in functions for marker in function.iter_markers("slow_for") for name in marker.args}
    if not named:
        return
    ids = {function.callspec.id for function in functions if hasattr(function, "callspec")}
    test = functions[0].originalname
    if unknown := sorted(named - ids):
        raise pytest.Collector.CollectError(f"{test}: slow_for names {unknown}, but the parameters are {sorted(ids)}")
    if named == ids:
        raise pytest.Collector.CollectError(f"{test}: slow_for names all parameters. Use the marker slow.")


@functools.cache
def uses_nvim(file: Path) -> bool:
    return any(_finds_nvim(helper) for helper in _reached(file))


def _reached(file: Path) -> set[Path]:
    """Returns the file, each ``conftest.py`` that applies to it, and all helpers that they import, directly or indirectly."""
    found, ahead = {file}, [file]
    while ahead:
        new = set(_known(ahead.pop())) - found
        found |= new
        ahead += new
    return found


@functools.cache
def _known(file: Path) -> tuple[Path, ...]:
    above = (folder / "conftest.py" for folder in file.parents if folder.is_relative_to(ROOT / "tests"))
    names = (ROOT / Path(*name.split(".")).with_suffix(".py") for name in _imports(file))
    return tuple(known for known in (*above, *names) if known.is_file())


def _imports(file: Path) -> Iterator[str]:
    """Yields the full names of imported modules and of names imported from them, which may be modules too."""
    package = file.parent.relative_to(ROOT).parts
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*above, *filter(None, [node.module])))
            yield module
            yield from (f"{module}.{name.name}" for name in node.names)


def _finds_nvim(file: Path) -> bool:
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.ImportFrom) and node.module == "tests.programs":
            found = {name.name for name in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "programs":
            found = {node.attr}
        else:
            continue
        if found & NVIM:
            return True
    return False


@functools.cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), file.name)
