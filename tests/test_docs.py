"""The pages say what the program does."""

from __future__ import annotations

import pytest

import cli_reference
from drawbridge.ide.tools import TOOLS, gemini
from drawbridge.ide.tools.tool import Tool


def test_the_table_of_settings_is_the_programs_own() -> None:
    assert cli_reference.PAGE.read_text() == cli_reference.page(), "run python tools/cli_reference.py"


@pytest.mark.parametrize(("name", "tools"), [("claude-ide", TOOLS), ("gemini-ide", gemini.TOOLS)])
def test_every_tool_is_described(name: str, tools: tuple[Tool, ...]) -> None:
    page = (cli_reference.PAGE.parent / "protocols" / f"{name}.md").read_text()
    assert [tool.name for tool in tools if f"`{tool.name}`" not in page] == []
