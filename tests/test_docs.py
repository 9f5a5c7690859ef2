"""The pages say what the program does."""

from __future__ import annotations

import cli_reference
from drawbridge.ide.tools import TOOLS


def test_the_table_of_settings_is_the_programs_own() -> None:
    assert cli_reference.PAGE.read_text() == cli_reference.page(), "run python tools/cli_reference.py"


def test_every_tool_is_described() -> None:
    page = (cli_reference.PAGE.parent / "protocols" / "claude-ide.md").read_text()
    assert [tool.name for tool in TOOLS if f"`{tool.name}`" not in page] == []
