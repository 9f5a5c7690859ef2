"""The pages say what the program does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cli_reference
from drawbridge import cli
from drawbridge.agents import catalog
from drawbridge.ide.tools import TOOLS, gemini
from drawbridge.ide.tools.tool import Tool


@pytest.mark.parametrize("path", cli_reference.PAGES, ids=lambda path: path.name)
def test_the_tables_of_flags_and_settings_are_the_commands_own(path: Path) -> None:
    assert path.read_text() == cli_reference.page(path), "run python tools/cli_reference.py"


def test_every_command_has_its_place_on_the_page() -> None:
    page = cli_reference.PAGE.read_text()
    names = cli_reference.commands(cli.parser())
    assert [
        name for name in names if f"## drawbridge {name}\n" not in page and f"`drawbridge {name} …`" not in page
    ] == []


@pytest.mark.parametrize(("name", "tools"), [("claude-ide", TOOLS), ("gemini-ide", gemini.TOOLS)])
def test_every_tool_is_described(name: str, tools: tuple[Tool, ...]) -> None:
    page = (cli_reference.PAGE.parent / "protocols" / f"{name}.md").read_text()
    assert [tool.name for tool in tools if f"`{tool.name}`" not in page] == []


def test_every_test_that_the_pages_name_is_there() -> None:
    root = cli_reference.PAGE.parent.parent
    named = re.findall(r"`(tests/[\w/.]+?)(?:::(\w+))?`", (root / "docs" / "departures.md").read_text())
    assert named
    assert [path for path, _ in named if not (root / path).exists()] == []
    assert [name for path, name in named if name and f"def {name}(" not in (root / path).read_text()] == []


@pytest.mark.parametrize("row", catalog.ROWS, ids=lambda row: row.name)
def test_the_page_of_agents_says_what_the_catalog_says(row: catalog.Row) -> None:
    page = (cli_reference.PAGE.parent / "agents.md").read_text()
    [line] = re.findall(rf"^\| `{row.name}` \| (.*)$", page, re.MULTILINE)
    what, _, asks = line.split(" | ")[:3]
    assert (row.title in what and f"`{row.program}" in what) or not row.program
    assert asks.startswith("yes" if row.asks else "no")
