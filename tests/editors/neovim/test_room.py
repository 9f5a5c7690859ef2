"""A proposal can be read in any window, and its notices do not cover an agent's dialog."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.port import Accepted, Rejected
from tests.editors.neovim.test_focus import NEW, OLD, SHOWN, proposes, screen_rig, sees
from tests.nvim.rig import Workstation, proposal
from tests.programs import each_nvim

SIDES = """
local sides = {}
for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
  if vim.wo[window].diff then
    local row, column = unpack(vim.api.nvim_win_get_position(window))
    table.insert(sides, { row, column, vim.api.nvim_win_get_width(window), vim.api.nvim_win_get_height(window) })
  end
end
return sides
"""
"""The row, column, width and height of each side of the view."""


async def sides(rig: Workstation) -> list[list[int]]:
    found: list[list[int]] = await rig.person.lua(SIDES)
    return sorted(found)


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("open_in", ["tab", "current"])
async def test_both_sides_are_readable_at_any_size(program: Path, tmp_path: Path, open_in: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options(f"{{ diff = {{ open_in = '{open_in}' }}, idle_ms = 70 }}")
        await proposes(rig)
        await rig.person.until(SHOWN)
        for columns, below in ((140, False), (90, False), (50, True), (40, True), (90, False)):
            await asyncio.to_thread(pane.resize, columns, 24)
            await rig.person.until("return vim.o.columns == ...", columns)
            (first, second) = await sides(rig)
            assert (first[0] != second[0]) is below, (columns, first, second)
            size = 3 if below else 2
            assert abs(first[size] - second[size]) <= 1, (columns, first, second)
        await rig.person.types(":w<CR>")
        assert await rig.decided() == Accepted(NEW)


@pytest.mark.parametrize("program", each_nvim())
async def test_both_sides_are_readable_after_a_resize_elsewhere(program: Path, tmp_path: Path) -> None:
    """The screen is resized while another tab page is in front. A height that the user set is kept."""
    async with screen_rig(program, tmp_path) as (rig, pane):
        await asyncio.to_thread(pane.resize, 140, 24)
        await rig.person.until("return vim.o.columns == 140")
        await proposes(rig)
        await rig.person.until(SHOWN)
        for columns, below in ((90, False), (50, True)):
            await rig.person.types(":tabprevious<CR>")
            await asyncio.to_thread(pane.resize, columns, 24)
            await rig.person.until("return vim.o.columns == ...", columns)
            await rig.person.types(":tabnext<CR>")
            (first, second) = await sides(rig)
            assert (first[0] != second[0]) is below, (columns, first, second)
            size = 3 if below else 2
            assert abs(first[size] - second[size]) <= 1, (columns, first, second)
        await rig.person.types(":resize 6<CR>:tabprevious<CR>:tabnext<CR>")
        assert 6 in [side[3] for side in await sides(rig)], "what the user has set was changed"


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("accept", [":w<CR>", ":x<CR>", ":DrawbridgeAccept<CR>"])
async def test_a_proposal_that_cannot_be_read_is_not_accepted(program: Path, tmp_path: Path, accept: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await proposes(rig)
        await rig.person.until(SHOWN)
        await rig.person.lua("vim.o.winminwidth = 1 vim.o.winwidth = 1 vim.cmd('vertical resize 3')")
        await rig.person.types(accept)
        if accept == ":x<CR>":
            assert await rig.decided() == Rejected()
            return
        await sees(pane, "too small to show it")
        assert rig.decisions == []
        await rig.person.types(":vertical resize 40<CR>:w<CR>")
        assert await rig.decided() == Accepted(NEW)


@pytest.mark.parametrize("program", each_nvim())
async def test_a_proposal_that_could_not_be_shown_can_be_shown_later(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.person.lua("""
            local view = require('drawbridge.view')
            local open = view.open
            view.open = function()
              view.open = open
              return 'view.lua:9: Vim(split):E36: Not enough room'
            end
        """)
        await proposes(rig)
        await sees(pane, r"the proposal could not be shown: Vim\(split\):E36: Not enough room")
        await sees(pane, ":DrawbridgeReview opens it")
        await rig.person.types(":DrawbridgeReview<CR>")
        await rig.person.until(SHOWN)
        await rig.person.types(":q<CR>")
        assert await rig.decided() == Rejected()


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("layout", ["vertical", "horizontal", "inline"])
async def test_the_end_of_a_long_line_is_visible(program: Path, tmp_path: Path, layout: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options(f"{{ diff = {{ layout = '{layout}' }}, idle_ms = 70 }}")
        await rig.person.lua("vim.o.wrap = false")
        await rig.editor.show(proposal(rig.folder / "hello.txt", OLD, OLD.replace("two", f"two{' ' * 300}; THE END")))
        await rig.person.until(SHOWN)
        await sees(pane, "; THE END")
        await rig.person.types(":q<CR>")
        assert await rig.decided() == Rejected()
        assert await rig.person.lua("return vim.wo.wrap") is False


@pytest.mark.parametrize("program", each_nvim())
async def test_closing_a_proposals_tab_page_causes_no_error(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, _):
        await proposes(rig)
        await rig.person.until(SHOWN)
        await rig.person.types(":tabclose<CR>")
        assert await rig.decided() == Rejected()
        assert "Error" not in await rig.person.lua("return vim.fn.execute('messages')")


NOTE = "Your unsaved changes are part of this text."

FLOATS = """
return #vim.tbl_filter(function(window)
  return vim.api.nvim_win_get_config(window).relative ~= ''
end, vim.api.nvim_list_wins())
"""


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("layout", ["vertical", "horizontal", "inline"])
@pytest.mark.parametrize("columns", [130, 80])
async def test_a_note_does_not_cover_the_proposal(program: Path, tmp_path: Path, layout: str, columns: int) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options(f"{{ diff = {{ layout = '{layout}' }}, idle_ms = 70 }}")
        await asyncio.to_thread(pane.resize, columns, 24)
        await rig.person.until("return vim.o.columns == ...", columns)
        await rig.editor.show(proposal(rig.folder / "hello.txt", OLD, NEW, note=NOTE))
        await rig.person.until(SHOWN)
        await sees(pane, NOTE)
        assert await rig.person.lua(FLOATS) == 0
        await rig.person.types(":w<CR>")
        assert await rig.decided() == Accepted(NEW)


TERMINAL = """
local split, program = ...
vim.cmd(split)
vim.fn.termopen(program)
vim.cmd('startinsert')
"""

COUNTS_SIZES = """
import signal, sys
signal.signal(signal.SIGWINCH, lambda *_: print("another size", flush=True))
print("ready", flush=True)
for line in sys.stdin: pass
"""
"""A program that reports each change of its terminal's size. A real one would redraw its screen."""

COVERED = """
local covered = {}
for _, float in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
  local config = vim.api.nvim_win_get_config(float)
  if config.relative ~= '' then
    local row, column = unpack(vim.api.nvim_win_get_position(float))
    for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
      local top, left = unpack(vim.api.nvim_win_get_position(window))
      local is_over = row < top + vim.api.nvim_win_get_height(window) and top < row + config.height + 2
      is_over = is_over and column < left + vim.api.nvim_win_get_width(window) and left < column + config.width + 2
      if window ~= float and is_over and vim.bo[vim.api.nvim_win_get_buf(window)].buftype == 'terminal' then
        table.insert(covered, { row - top, vim.api.nvim_win_get_height(window) })
      end
    end
  end
end
return covered
"""
"""For each terminal that a notice covers: the notice's row in the terminal, and the terminal's height."""


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("split", ["botright vnew", "topleft vnew", "botright new", "topleft new", "tabnew"])
async def test_a_notice_does_not_cover_a_dialog(program: Path, tmp_path: Path, split: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.person.lua(TERMINAL, split, [sys.executable, "-c", COUNTS_SIZES])
        await rig.person.until("return vim.api.nvim_get_mode().mode == 't'")
        await sees(pane, "ready")
        await asyncio.to_thread(pane.type, "half a")
        before = (await sees(pane, "half a")).count("another size")
        await proposes(rig)
        await sees(pane, r"opens it")
        await rig.person.lua("require('drawbridge.view.notice').flash('Answer in its terminal')")
        after = await sees(pane, "Answer in its terminal")
        assert after.count("another size") == before
        covered: list[Any] = await rig.person.lua(COVERED)
        if split != "tabnew":
            assert covered == []
        for row, height in covered:  # the terminal fills the tab page, so its dialog is in the lower half
            assert row < height / 2


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("split", ["botright vnew", "botright new"])
async def test_a_notice_moves_when_a_terminal_opens(program: Path, tmp_path: Path, split: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.person.lua("require('drawbridge.view.notice').flash('Answer in its terminal')")
        await sees(pane, "Answer in its terminal")
        await rig.person.lua(TERMINAL, split, [sys.executable, "-c", COUNTS_SIZES])
        await rig.person.until("return vim.api.nvim_get_mode().mode == 't'")
        await rig.person.until(f"return #(function() {COVERED} end)() == 0")
        assert "another size" not in await sees(pane, "Answer in its terminal", "ready")


@pytest.mark.parametrize("program", each_nvim())
async def test_a_notice_is_visible_only_in_its_own_tab_page(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.person.lua("require('drawbridge.view.notice').flash('Answer in its terminal')")
        await sees(pane, "Answer in its terminal")
        await rig.person.lua(TERMINAL, "tabnew", [sys.executable, "-c", COUNTS_SIZES])
        await sees(pane, "ready")
        await asyncio.to_thread(pane.wait_until_gone, "Answer in its terminal")
        await rig.person.lua("vim.cmd('stopinsert | tabprevious')")
        await sees(pane, "Answer in its terminal")
