"""The documentation matches the program."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import cli_reference
from drawbridge import cli
from drawbridge.agents import catalog
from drawbridge.ide.tools import TOOLS, gemini
from drawbridge.ide.tools.tool import Tool


@pytest.mark.parametrize("path", cli_reference.PAGES, ids=lambda path: path.name)
def test_the_tables_of_flags_and_settings_match_the_commands(path: Path) -> None:
    assert path.read_text() == cli_reference.page(path), "run python tools/cli_reference.py"


def test_every_command_is_on_the_reference_page() -> None:
    page = cli_reference.PAGE.read_text()
    names = cli_reference.commands(cli.parser())
    assert [
        name for name in names if f"## drawbridge {name}\n" not in page and f"`drawbridge {name} …`" not in page
    ] == []


@pytest.mark.parametrize(("name", "tools"), [("claude-ide", TOOLS), ("gemini-ide", gemini.TOOLS)])
def test_every_tool_is_described(name: str, tools: tuple[Tool, ...]) -> None:
    page = (cli_reference.PAGE.parent / "internals" / "protocols" / f"{name}.md").read_text()
    assert [tool.name for tool in tools if f"`{tool.name}`" not in page] == []


ROOT = cli_reference.PAGE.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/.]+?)(?:::(\w+))?`", page.read_text())
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    assert [name for path, name in named if name and f"def {name}(" not in (ROOT / path).read_text()] == []


def rows_of(command: str) -> list[str]:
    """Returns the rows of the command's generated table in the command reference, or [] for a command without one."""
    page = cli_reference.PAGE.read_text()
    return page.partition(f"<!-- flags of {command} -->")[2].partition("<!-- /flags -->")[0].splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_line_on_a_page_is_valid(page: Path) -> None:
    """In each ``drawbridge COMMAND … --flag``, in text or an example, the command exists and has the flag. The flags of
    ``drawbridge nvim`` are not checked, nor are ``--json``, ``--sweep`` and ``--help``.
    """
    known = cli_reference.commands(cli.parser())
    text = page.read_text().replace("\\\n", " ")
    for command, rest in re.findall(r"(?:[`]|^\s*(?:\$ )?)drawbridge ([a-z]+)\b([^`\n|#]*)", text, re.MULTILINE):
        assert command in known, command
        flags = set(re.findall(r"(?<!\S)--[a-z][a-z-]+", re.sub(r'"[^"]*"', "", rest))) if command != "nvim" else set()
        shown = "\n".join(rows_of(command))
        assert {flag for flag in flags if f"`{flag}" not in shown} <= {"--json", "--sweep", "--help"}, command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_setting_in_an_example_exists(page: Path) -> None:
    for block in re.findall(r"^ *```toml\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL):
        for command, settings in tomllib.loads(block).items():
            table = "\n".join(rows_of(command))
            assert [name for name in settings if f"| `{name}`, `DRAWBRIDGE_" not in table] == [], command


@pytest.mark.parametrize("row", catalog.ROWS, ids=lambda row: row.name)
def test_the_page_of_agents_matches_the_catalog(row: catalog.Row) -> None:
    page = (cli_reference.PAGE.parent / "agents.md").read_text()
    [line] = re.findall(rf"^\| `{row.name}` \| (.*)$", page, re.MULTILINE)
    what, _, asks = line.split(" | ")[:3]
    assert (row.title in what and f"`{row.program}" in what) or not row.program
    assert not row.oldest or f"{'.'.join(map(str, row.oldest))} or newer" in what
    assert asks.startswith("yes" if row.asks else "no")
    assert line.split(" | ")[4].removesuffix(" |").strip() == ".".join(map(str, row.tested)) or not row.tested


def test_the_tests_named_in_the_web_ui_docs_exist() -> None:
    folder = ROOT / "tests" / "page"
    missing = []
    for line in (ROOT / "docs" / "internals" / "page.md").read_text().splitlines():
        module = ""
        for name in re.findall(r"`((?:test_\w+\.py)?(?:::test_\w+)?|\w+\.test\.mjs)`", line):
            if name.endswith(".mjs"):
                missing += [] if (folder / "unit" / name).exists() else [name]
                continue
            file, _, test = name.partition("::")
            module = file or module
            text = (folder / module).read_text()
            missing += [name] if test and f"def {test}(" not in text else []
    assert missing == []
