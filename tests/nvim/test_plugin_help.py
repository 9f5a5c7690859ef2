"""`:help drawbridge` and `docs/neovim.md` are complete and correct."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs

from .plugin_rig import ROOT, Neovim, neovim

HELP = (ROOT / "doc" / "drawbridge.txt").read_text()
PAGE = (ROOT / "docs" / "neovim.md").read_text()
LUA = [file.read_text() for file in sorted((ROOT / "lua" / "drawbridge").rglob("*.lua"))]
TAGS = set(re.findall(r"\*([^*\s|]+)\*", HELP))


@pytest.fixture(scope="module")
def editor() -> Iterator[Neovim]:
    with neovim(programs.nvim()) as started:
        yield started


@pytest.mark.parametrize("nvim", programs.each_nvim())
def test_helptags_accepts_the_help_and_finds_its_subjects(nvim: Path, tmp_path: Path) -> None:
    (tmp_path / "doc").mkdir()
    (tmp_path / "doc" / "drawbridge.txt").write_text(HELP)
    with neovim(nvim) as editor:
        editor.lua("vim.cmd('helptags ' .. ... .. '/doc') vim.opt.runtimepath:prepend(...)", str(tmp_path))
        for subject in ("drawbridge", ":DrawbridgeSend", "drawbridge-diff.layout", "DrawbridgeDiffOpened"):
            editor.lua("vim.cmd('help ' .. ...)", subject)
            line = editor.lua("return vim.api.nvim_get_current_line()")
            assert f"*{subject}*" in line
    assert "drawbridge.txt" in (tmp_path / "doc" / "tags").read_text()


def test_every_link_has_a_target(editor: Neovim, tmp_path: Path) -> None:
    links = set(re.findall(r"\|([^|\s]+)\|", HELP))
    foreign = links - TAGS
    known = {link: editor.lua("return #vim.fn.getcompletion(..., 'help') > 0", link) for link in foreign}
    assert [link for link, found in known.items() if not found] == []


def test_every_option_is_described_with_its_default(editor: Neovim) -> None:
    names = editor.lua("return require('drawbridge.config').names()")
    assert [name for name in names if f"drawbridge-{name}" not in TAGS] == []
    block = HELP.split("require('drawbridge').setup{\n")[1].split("<\n")[0]
    shown = editor.lua("return loadstring('return { ' .. ...)()", block.strip())
    assert shown == {**editor.lua("return require('drawbridge.config').get()"), "server": shown["server"]}
    described = {tag.removeprefix("drawbridge-") for tag in TAGS if "." in tag and tag.startswith("drawbridge-")}
    assert described <= set(names), "an option that no longer exists"


def test_every_command_is_described(editor: Neovim) -> None:
    editor.lua("require('drawbridge.aliases').set(true)")
    names = editor.lua("return vim.tbl_keys(vim.api.nvim_get_commands({}))")
    commands = [name for name in names if name.startswith(("Drawbridge", "Gemini"))]
    assert [name for name in commands if f":{name}" not in TAGS] == []
    assert [tag for tag in TAGS if tag.startswith(":") and tag[1:] not in commands] == []
    assert [name for name in commands if f":{name}" not in PAGE] == []


def test_every_command_that_asks_a_question_is_named() -> None:
    """The other commands do not block, so they can be used in mappings and scripts."""
    [sentence] = re.findall(r"Commands do not block, except that (.+?) may ask", HELP, re.DOTALL)
    asking = sum(text.count("vim.fn.confirm(") for text in LUA)
    assert len(re.findall(r"\|:\w+\|", sentence)) == asking > 0


def test_every_public_function_is_described(editor: Neovim) -> None:
    functions = editor.lua("return vim.tbl_keys(require('drawbridge'))")
    assert [name for name in functions if f"drawbridge.{name}()" not in TAGS and f"`{name}()`" not in HELP] == []


def test_every_event_is_described() -> None:
    events = set(re.findall(r"fire\('(\w+)'", "\n".join(LUA)))
    assert events
    assert events - TAGS == set()


def test_every_highlight_is_described(editor: Neovim) -> None:
    editor.lua("require('drawbridge.view.bar').define_highlights()")
    groups = set(editor.lua("return vim.fn.getcompletion('Drawbridge', 'highlight')"))
    assert groups
    assert {f"hl-{name}" for name in groups} == {tag for tag in TAGS if tag.startswith("hl-")}


def test_lines_fit_a_help_window() -> None:
    assert [line for line in HELP.splitlines() if len(line) > 79 and "git clone" not in line] == []


def test_the_docs_name_only_existing_commands(editor: Neovim) -> None:
    named = set(re.findall(r":(Drawbridge\w+)", PAGE))
    assert named <= set(editor.lua("return vim.tbl_keys(vim.api.nvim_get_commands({}))"))
