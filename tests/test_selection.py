"""`make nvim` runs the tests that use a Neovim: those that a machine with Debian's alone could decide otherwise."""

from __future__ import annotations

import pytest

from tests.selection import ROOT, uses_nvim


@pytest.mark.parametrize(
    "file",
    [
        "nvim/test_plugin_help.py",  # asks tests/programs.py
        "editors/test_files.py",  # has a fixture of its conftest
        "e2e/claude/test_what_claude_sees.py",  # by a rig
        "server/terminal_sessions/test_editors.py",  # by a rig of a relative import
    ],
)
def test_a_file_that_gets_a_neovim_uses_one(file: str) -> None:
    assert uses_nvim(ROOT / "tests" / file)


@pytest.mark.parametrize("file", ["text/test_hunks.py", "vscode/test_windows.py", "tools/test_programs.py"])
def test_a_file_that_gets_none_uses_none(file: str) -> None:
    assert not uses_nvim(ROOT / "tests" / file)
