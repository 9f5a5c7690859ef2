"""`make nvim` runs only the test files that use a Neovim, because their results may depend on its version."""

from __future__ import annotations

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
