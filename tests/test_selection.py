"""`make nvim` runs only the test files that use a Neovim, because their results may depend on its version. In CI, of these
only the tests that used one run again with another. Some tests are slow only with some of their parameters."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.selection import ROOT, uses_nvim


@pytest.mark.parametrize(
    "file",
    [
        "nvim/test_plugin_help.py",  # calls tests/programs.py
        "editors/test_files.py",  # its conftest.py uses a Neovim
        "e2e/claude/test_what_claude_sees.py",  # through a rig
        "server/terminal_sessions/test_editors.py",  # through a rig with a relative import
    ],
)
def test_a_file_that_uses_neovim_is_selected(file: str) -> None:
    assert uses_nvim(ROOT / "tests" / file)


@pytest.mark.parametrize("file", ["text/test_hunks.py", "vscode/test_windows.py", "tools/test_programs.py"])
def test_a_file_without_neovim_is_not_selected(file: str) -> None:
    assert not uses_nvim(ROOT / "tests" / file)


USERS = """
import pytest
from tests import programs

@pytest.fixture(scope="module")
def editor():
    return programs.nvim()

def test_shares_a_fixture(editor):
    pass

def test_shares_it_too(editor):
    pass

def test_starts_one():
    programs.nvim()

@pytest.mark.parametrize("program", programs.each_nvim())
def test_has_a_parameter(program):
    pass

def test_uses_none():
    pass
"""


def test_only_tests_that_used_neovim_are_reported_as_such(tmp_path: Path) -> None:
    nvim, tests, passed = (tmp_path / name for name in ("nvim", "test_users.py", "passed"))
    nvim.write_text("#!/bin/sh\necho NVIM v0.7.2\n")
    nvim.chmod(0o755)
    tests.write_text(USERS)
    environment = os.environ | {"DRAWBRIDGE_TEST_NVIMS": str(nvim)}
    run(*OUTSIDE, tests, "-p", "tools.passed", f"--passed={passed}", environment=environment)
    without = set(passed.read_text().splitlines()) - set((tmp_path / "passed.nvim").read_text().splitlines())
    assert len(passed.read_text().splitlines()) == 5
    assert [test.partition("::")[2] for test in without] == ["test_uses_none"]


@pytest.mark.slow_for("slow")
@pytest.mark.parametrize("name", ["fast", "slow"])
def test_only_a_named_parameter_is_slow(request: pytest.FixtureRequest, name: str) -> None:
    assert (request.node.get_closest_marker("slow") is not None) == (name == "slow")


MARKED = """
import pytest

@pytest.mark.slow_for({})
@pytest.mark.parametrize("name", ["fast", "slow"])
def test_marked(name):
    pass
"""


OUTSIDE = ("-p", "tests.conftest", "--rootdir", str(ROOT), "-c", "pyproject.toml")
"""Options of pytest that treat files elsewhere as if they were in this repository."""


def collected(*selected: Path | str) -> str:
    """Collects tests as in this repository, and returns pytest's output."""
    return run(*OUTSIDE, "--collect-only", "-q", *selected)


def run(*arguments: Path | str, environment: Mapping[str, str] | None = None) -> str:
    """Runs pytest in the root of the repository, and returns its output."""
    command = [sys.executable, "-m", "pytest", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False).stdout


def test_only_files_that_use_neovim_are_collected() -> None:
    output = run("--collect-only", "-q", "--only-nvim", "tests/text", "tests/nvim/test_plugin_help.py")
    assert "tests/nvim/test_plugin_help.py::" in output
    assert "tests/text/" not in output


def test_wrong_ids_of_slow_parameters_are_errors(tmp_path: Path) -> None:
    """A selection may leave out the parameters that are named."""
    right, unknown, every = (tmp_path / f"test_{name}.py" for name in ("right", "unknown", "every"))
    right.write_text(MARKED.format("'slow'"))
    unknown.write_text(MARKED.format("'slow', 'slwo'"))
    every.write_text(MARKED.format("'fast', 'slow'"))
    output = collected(f"{right}::test_marked[fast]", unknown, every)
    assert "test_marked: slow_for names ['slwo'], but the parameters are ['fast', 'slow']" in output
    assert "test_marked: slow_for names all parameters. Use the marker slow." in output
    assert "1 test collected, 2 errors" in output
