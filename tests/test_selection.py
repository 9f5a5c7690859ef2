"""`make nvim` runs only the test files that use a Neovim, because their results may depend on its version. Some tests are
slow only with some of their parameters."""

from __future__ import annotations

import subprocess
import sys
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


def collected(*selected: Path | str) -> str:
    """Collects tests as in this repository, and returns pytest's output."""
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "--rootdir", str(ROOT), "-c", "pyproject.toml"]
    whole = [*command, "--collect-only", "-q", *map(str, selected)]
    return subprocess.run(whole, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout


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
