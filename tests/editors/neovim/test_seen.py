"""A proposal in Neovim can be accepted once all of its changes have been in a window, or by a command with "!"."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.port import Accepted
from tests.nvim.rig import Workstation, proposal

LONG = "".join(f"line {number}\n" for number in range(400))
FAR = LONG.replace("line 5\n", "line five\n").replace("line 390\n", "line three hundred and ninety\n")

PENDING = "return #require('drawbridge.review').pending()"
SHOWN = "local p = require('drawbridge.review').pending()[1] return p and p.shown"
ROW = "return vim.api.nvim_win_get_cursor(0)[1]"

in_each_layout = pytest.mark.parametrize("layout", ["vertical", "horizontal", "inline"])


async def shows(rig: Workstation, old: str, new: str, layout: str = "vertical") -> Path:
    await rig.options(f"{{ diff = {{ layout = '{layout}' }} }}")
    await rig.person.lua("vim.o.diffopt = 'internal,filler,context:1000'")  # unchanged lines are not folded
    path = await rig.opened("a.txt", old)
    await rig.shows(proposal(path, old, new))
    return path


async def looks(rig: Workstation, keys: str) -> None:
    """Types keys, and looks at the result before the next ones."""
    await rig.person.types(keys)
    await rig.quiet()


async def is_undecided(rig: Workstation) -> bool:
    await rig.quiet()
    return not rig.decisions and await rig.person.lua(PENDING) == 1


async def writes_until_accepted(rig: Workstation, most: int) -> int:
    """The number of `:w` until the proposal was accepted. Each one that does not accept moves to lines that have not
    been in the window."""
    for number in range(1, most + 1):
        await rig.person.types(":w<CR>")
        if not await is_undecided(rig):
            return number
    raise AssertionError(f"not accepted after {most} times; {await rig.person.messages()}")


@in_each_layout
async def test_a_write_moves_to_the_change_not_yet_shown(rig: Workstation, layout: str) -> None:
    await shows(rig, LONG, FAR, layout)
    await rig.person.types(":w<CR>")
    assert await is_undecided(rig)
    assert await rig.person.lua(ROW) == 391
    assert "not shown yet: read on, or use :w!" in await rig.person.messages()
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(FAR)


@in_each_layout
async def test_a_change_that_was_scrolled_to_counts_as_shown(rig: Workstation, layout: str) -> None:
    await shows(rig, LONG, FAR, layout)
    await looks(rig, "G")
    await rig.person.types("gg")
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(FAR)


@in_each_layout
async def test_the_end_of_a_new_file_must_be_shown(rig: Workstation, layout: str) -> None:
    await shows(rig, "", LONG, layout)
    assert await writes_until_accepted(rig, 60) > 10
    assert await rig.decided() == Accepted(LONG)


@in_each_layout
async def test_lines_removed_below_the_window_are_shown_first(rig: Workstation, layout: str) -> None:
    new = LONG.replace("line 5\n", "line five\n").replace("line 397\nline 398\nline 399\n", "")
    await shows(rig, LONG, new, layout)
    await rig.person.types(":w<CR>")
    assert await is_undecided(rig)
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(new)


@pytest.mark.parametrize("layout", ["vertical", "horizontal"])
async def test_the_end_of_many_removed_lines_must_be_shown(rig: Workstation, layout: str) -> None:
    new = "".join(LONG.splitlines(True)[:150] + LONG.splitlines(True)[300:])
    await shows(rig, LONG, new, layout)
    assert await writes_until_accepted(rig, 40) > 4
    assert await rig.decided() == Accepted(new)


@pytest.mark.parametrize("keys", [":w!<CR>", ":x!<CR>", ":wq!<CR>", ":DrawbridgeAccept!<CR>"])
async def test_a_command_with_a_bang_accepts_unseen_changes(rig: Workstation, keys: str) -> None:
    await shows(rig, LONG, FAR)
    await rig.person.types(keys)
    assert await rig.decided() == Accepted(FAR)


@pytest.mark.parametrize("allowed", [True, False])
async def test_the_accept_command_moves_to_the_change_from_any_window(rig: Workstation, allowed: bool) -> None:
    await shows(rig, LONG, FAR)
    await rig.options(f"{{ allow_w_to_accept = {str(allowed).lower()} }}")
    await rig.person.types(":tabfirst<CR>:DrawbridgeAccept<CR>")
    assert await is_undecided(rig)
    assert await rig.person.lua(ROW) == 391
    assert "read on, or use :DrawbridgeAccept!" in await rig.person.messages()
    await rig.person.types(":DrawbridgeAccept<CR>")
    assert await rig.decided() == Accepted(FAR)


@in_each_layout
@pytest.mark.parametrize("keys", [":x<CR>", "ZZ", ":wq<CR>", "x:x<CR>"])
async def test_closing_with_a_write_shows_the_rest(rig: Workstation, layout: str, keys: str) -> None:
    before = await rig.picture()
    await shows(rig, LONG, FAR, layout)
    await rig.person.types(keys)
    await rig.person.until(f"return vim.api.nvim_win_get_cursor(0)[1] == 391 and (function() {SHOWN} end)()")
    assert await is_undecided(rig)
    await rig.person.types(":w<CR>")
    accepted = await rig.decided()
    assert isinstance(accepted, Accepted)
    assert accepted.text == (FAR.replace("line five", "ine five") if keys.startswith("x") else FAR)
    after = await rig.picture()
    assert len([name for name in after if name.endswith(".id")]) == len(
        [name for name in before if name.endswith(".id")]
    )


async def test_a_change_in_a_closed_fold_counts_as_not_shown(rig: Workstation) -> None:
    await shows(rig, LONG, FAR)
    await looks(rig, "G")
    await rig.person.lua("vim.api.nvim_win_close(0, true)")
    await rig.decided()
    await shows(rig, LONG, FAR)
    await rig.person.types(":setlocal foldmethod=manual<CR>zE:380,400fold<CR>G:w<CR>")
    assert await is_undecided(rig)
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(FAR)


@pytest.mark.parametrize("wrap", [True, False])
async def test_the_end_of_a_line_longer_than_the_window_must_be_shown(rig: Workstation, wrap: bool) -> None:
    new = "x = 1" + " " * 9000 + "; evil\n"
    await shows(rig, "x = 1\n", new)
    if not wrap:
        await rig.person.types(":setlocal nowrap<CR>")
    await rig.person.types(":w<CR>")
    assert await is_undecided(rig)
    assert await rig.person.lua("return vim.fn.virtcol('.')") > 20
    await writes_until_accepted(rig, 300)
    assert await rig.decided() == Accepted(new)


async def test_a_change_that_was_reverted_need_not_be_shown(rig: Workstation) -> None:
    path = await shows(rig, LONG, "".join(f"LINE {number}\n" for number in range(400)))
    await rig.person.types(":DrawbridgeRejectHunk<CR>")
    await rig.person.until("return vim.fn.getline(400) == 'line 399'")
    await rig.person.until("return require('drawbridge.review').pending()[1].added == 0")
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(path.read_text())


async def test_lines_restored_by_an_undo_are_shown_first(rig: Workstation) -> None:
    await shows(rig, LONG, FAR)
    await rig.person.types(":%d<CR>u")
    await rig.person.types("gg:w<CR>")
    assert await is_undecided(rig)


async def test_lines_that_move_still_count_as_not_shown(rig: Workstation) -> None:
    await shows(rig, LONG, FAR)
    await rig.person.types("ggOmine<CR>mine<Esc>")
    await rig.person.types(":w<CR>")
    assert await is_undecided(rig)
    assert await rig.person.lua(ROW) == 393
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted("mine\nmine\n" + FAR)


COVERS = """
local options = vim.tbl_extend('force', { relative = 'editor', row = 0, col = 0 }, ...)
options.width, options.height = options.width or vim.o.columns, options.height or vim.o.lines - 1
_G.cover = vim.api.nvim_open_win(vim.api.nvim_create_buf(false, true), false, options)
"""
"""Opens a floating window, over the whole screen or as its options specify."""

UNCOVERS = "vim.api.nvim_win_close(_G.cover, true)"
ALL_SEEN = "return require('drawbridge.view.bar').line():find(':w accepts', 1, true) ~= nil"
WIDE = LONG.replace("\n", " word" * 18 + "\n")
END = WIDE.replace("line 5 ", "line five ") + "the end" + " word" * 18 + "\n"


@in_each_layout
async def test_lines_behind_a_floating_window_do_not_count(rig: Workstation, layout: str) -> None:
    await shows(rig, LONG, FAR, layout)
    await rig.person.lua(COVERS, {})
    await looks(rig, "G")
    await rig.person.types("gg:w<CR>")
    assert await is_undecided(rig)
    await rig.person.types(":w<CR>")
    assert await is_undecided(rig)
    await rig.person.lua(UNCOVERS)
    await rig.person.until(ALL_SEEN)
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(FAR)


async def test_removed_lines_behind_a_floating_window_do_not_count(rig: Workstation) -> None:
    new = LONG.replace("line 390\n", "").replace("line 5\n", "")
    await shows(rig, LONG, new, "inline")
    await rig.person.lua(COVERS, {})
    await looks(rig, "G")
    assert not await rig.person.lua(ALL_SEEN)
    await rig.person.lua(UNCOVERS)
    await rig.person.until(ALL_SEEN)


@in_each_layout
@pytest.mark.parametrize("border", ["none", "rounded"])
async def test_only_lines_that_are_covered_do_not_count(rig: Workstation, layout: str, border: str) -> None:
    """The floating window covers the last row of the text, if only with its border."""
    await shows(rig, LONG, LONG.replace("line 5\n", "line five\n") + "the end\n", layout)
    # In one call, because the end counts as shown once Neovim waits for the user.
    row = await rig.person.lua(
        "vim.cmd('normal! G') vim.cmd('redraw') local row = vim.fn.screenpos(0, vim.fn.line('$'), 1).row "
        "vim.cmd('normal! gg') return row - 1"
    )
    edge = 0 if border == "none" else 1
    options = {"width": 5, "height": 3, "border": border, "row": row - 2 - 2 * edge}
    column = await rig.person.lua("return vim.fn.getwininfo(vim.api.nvim_get_current_win())[1].wincol")
    await rig.person.lua(COVERS, options | {"col": column})
    unseen = "return require('drawbridge.view.bar').line()"
    before = await rig.person.lua(unseen)
    await looks(rig, "G")
    assert await rig.person.lua(unseen) == before
    await rig.person.lua(UNCOVERS)
    await rig.person.until(ALL_SEEN)


@pytest.mark.parametrize("layout", ["vertical", "horizontal"])
async def test_a_floating_window_beside_the_text_covers_nothing(rig: Workstation, layout: str) -> None:
    await shows(rig, LONG, FAR, layout)
    await rig.person.lua(COVERS, {"width": 4, "row": 0, "col": 200})
    await looks(rig, "G")
    await rig.person.types("gg:w<CR>")
    assert await rig.decided() == Accepted(FAR)


@in_each_layout
async def test_a_notice_of_drawbridge_makes_nobody_wait(rig: Workstation, layout: str) -> None:
    """One notice names the proposal that waits for its turn, and stays. Another one is shown for some seconds."""
    await shows(rig, WIDE, END, layout)
    await rig.editor.show(proposal(rig.file("b.txt", "b\n"), "b\n", "c\n", id="2"))
    await rig.person.until("return require('drawbridge.review').pending()[2]")
    await rig.person.lua("require('drawbridge.view.notice').flash('It is done. ' .. ('word '):rep(30))")
    assert await rig.person.lua("return #vim.api.nvim_tabpage_list_wins(0)") == (3 if layout == "inline" else 4)
    await looks(rig, "G")
    await looks(rig, ":w<CR>")
    assert not rig.decisions
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(END)


@in_each_layout
async def test_the_views_windows_conceal_nothing(rig: Workstation, layout: str) -> None:
    await rig.person.lua("vim.o.conceallevel = 3")
    await shows(rig, LONG, FAR, layout)
    windows = "return vim.tbl_map(function(one) return vim.wo[one].conceallevel end, vim.api.nvim_tabpage_list_wins(0))"
    assert set(await rig.person.lua(windows)) == {0}
    await looks(rig, "G")
    await rig.person.types(":w<CR>")
    await rig.decided()
    assert set(await rig.person.lua(windows)) == {3}


@in_each_layout
async def test_concealed_text_does_not_count(rig: Workstation, layout: str) -> None:
    await shows(rig, LONG, FAR, layout)
    await looks(rig, ":setlocal conceallevel=3<CR>G")
    await rig.person.types("gg:w<CR>")
    assert await is_undecided(rig)
    assert await rig.person.lua("return vim.wo.conceallevel") == 0
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(FAR)


async def test_the_bar_shows_how_many_lines_are_left(rig: Workstation) -> None:
    await shows(rig, LONG, FAR)
    bar = "return require('drawbridge.view.bar').line()"
    assert ":w accepts" not in await rig.person.lua(bar)
    assert "more changed lines" in await rig.person.lua(bar)
    await looks(rig, "G")
    assert ":w accepts" in await rig.person.lua(bar)


RANGES = """
local seen, name, ranges, rest = require('drawbridge.view.seen'), ...
return seen[name](ranges, unpack(rest))
"""


def ranges_of(rows: set[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for row in sorted(rows):
        if found and found[-1][1] == row:
            found[-1][1] += 1
        else:
            found.append([row, row + 1])
    return found


def rows_of(ranges: list[list[int]]) -> set[int]:
    rows = [row for first, last in ranges for row in range(first, last)]
    assert len(rows) == len(set(rows)), "ranges overlap"
    return set(rows)


async def test_ranges_are_cut_and_moved_like_sets_of_rows(rig: Workstation) -> None:
    chance = random.Random(7)

    async def of(name: str, rows: set[int], *rest: Any) -> set[int]:
        return rows_of(await rig.person.lua(RANGES, name, ranges_of(rows), rest))

    for _ in range(100):
        rows, others = ({row for row in range(20) if chance.random() < 0.5} for _ in range(2))
        first, last = sorted(chance.choices(range(21), k=2))
        new_last = first + chance.randrange(5)
        assert await of("without", rows, first, last) == rows - set(range(first, last))
        assert await of("common", rows, ranges_of(others)) == rows & others
        moved = await of("shifted", rows, first, last, new_last)
        kept = {row for row in rows if row < first} | {row + new_last - last for row in rows if row >= last}
        assert kept <= moved
        assert moved <= kept | set(range(first, new_last))
        if rows & set(range(first, last)):
            assert set(range(first, new_last)) <= moved


ON_SCREEN = """
for row = 1, vim.o.lines do
  local line = ''
  for column = 1, vim.o.columns do
    line = line .. vim.fn.screenstring(row, column)
  end
  if line:find(..., 1, true) then
    return row
  end
end
"""
"""The row of the screen that contains a text, counted from 1."""

MAPPED = "vim.keymap.set('n', 'Q', ..., { remap = true })"


@in_each_layout
@pytest.mark.parametrize("accept", [":w<CR>", ":DrawbridgeAccept<CR>"])
async def test_a_mapping_that_scrolls_and_accepts_shows_nothing(rig: Workstation, layout: str, accept: str) -> None:
    """Neovim does not show where the mapping has scrolled to before it runs the rest of the mapping."""
    await shows(rig, LONG, FAR, layout)
    await rig.person.lua(MAPPED, "Ggg" + accept)
    await rig.person.types("Q")
    assert await is_undecided(rig)
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(FAR)


ROOM = """
local one = vim.fn.getwininfo(vim.api.nvim_get_current_win())[1]
return { one.width - one.textoff, one.height }
"""


async def test_a_line_of_wide_characters_takes_more_room(rig: Workstation) -> None:
    """One cell stays free at the end of each screen line, so the end of the line is below the window."""
    width, height = 0, 0
    while width % 2 == 0:
        await rig.person.lua("vim.o.columns = vim.o.columns - 1")
        path = await shows(rig, "old\n", "new\n", "inline")
        width, height = await rig.person.lua(ROOM)
        await rig.person.types(":q!<CR>")
        await rig.decided()
    new = "漢" * ((width - 1) // 2 * height) + "字\n"
    assert 2 * len(new.strip()) <= width * height
    await rig.shows(proposal(path, "", new, id="2"))
    await looks(rig, "0")
    assert not await rig.person.lua(ON_SCREEN, "字")
    await rig.person.types(":DrawbridgeAccept<CR>")
    assert await is_undecided(rig)


REMOVED = LONG.replace("line 390\n", "").replace("line 5\n", "line five\n")


async def test_removed_lines_in_a_closed_fold_do_not_count(rig: Workstation) -> None:
    await shows(rig, LONG, REMOVED, "inline")
    await looks(rig, ":setlocal foldmethod=manual<CR>:380,399fold<CR>G")
    await rig.person.types("gg:w<CR>")
    assert await is_undecided(rig)
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(REMOVED)


@in_each_layout
async def test_another_buffer_in_the_window_does_not_count(rig: Workstation, layout: str) -> None:
    """Another window keeps the buffer of the proposal, and another file with as many lines is in the window."""
    await shows(rig, LONG, FAR, layout)
    other = rig.file("b.txt", LONG)
    await rig.person.lua("vim.cmd('rightbelow split') vim.cmd('resize 3') vim.cmd('normal! gg') vim.cmd('wincmd p')")
    await rig.person.lua("vim.cmd('noautocmd edit ' .. ...)", str(other))
    await looks(rig, "G")
    await rig.person.types("<C-w>p:w<CR>")
    assert await is_undecided(rig)


@in_each_layout
async def test_a_window_without_room_for_text_shows_nothing(rig: Workstation, layout: str) -> None:
    new = LONG.replace("line 5\n", "five\n").replace("line 390\n", "ninety\n")
    await shows(rig, LONG, new, layout)
    await rig.person.lua("vim.wo.number, vim.wo.numberwidth, vim.wo.signcolumn = true, 20, 'yes:9'")
    await rig.person.lua("vim.cmd('vsplit') vim.cmd('normal! gg') vim.cmd('wincmd p')")
    await rig.person.lua("vim.api.nvim_win_set_width(0, 14)")
    await looks(rig, "391G")
    await rig.person.types("<C-w>pgg:w<CR>")
    assert await is_undecided(rig)


@in_each_layout
@pytest.mark.parametrize("keys", [":391move 100<CR>", ":391copy 100<CR>:392delete<CR>", ":101,391join<CR>"])
async def test_unseen_lines_count_where_they_are_moved(rig: Workstation, layout: str, keys: str) -> None:
    await shows(rig, LONG, FAR, layout)
    await looks(rig, "100Gzt")
    await looks(rig, "gg")
    await rig.person.types(keys + "gg:w<CR>")
    assert await is_undecided(rig)
    assert await rig.person.lua(ROW) == 101


TALL = "x" * 9_000


async def test_removed_lines_below_a_tall_line_must_be_shown(rig: Workstation) -> None:
    """The beginning of the tall line is scrolled out, and its end fills the window."""
    new = LONG.replace("line 5\n", "line five\n") + TALL + "\n"
    await shows(rig, LONG + TALL + "\ngone\n", new, "inline")
    await looks(rig, "G$")
    assert not await rig.person.lua(ON_SCREEN, "gone")
    await rig.person.types("gg:w<CR>")
    assert await is_undecided(rig)


SCROLLS_AND_COVERS = """
local find, open, text, line = ...
vim.cmd('normal! ' .. line .. 'Gzt')
vim.cmd('redraw')
local row = loadstring(find)(text)
loadstring(open)({ height = 1, row = row - 1 })
"""


async def test_a_covered_line_below_removed_lines_does_not_count(rig: Workstation) -> None:
    """Neovim 0.7 reports a position for the line that is that of the first removed line."""
    new = FAR.replace("line 300\nline 301\nline 302\n", "line three hundred\n").replace("ninety", "390")
    await shows(rig, LONG.replace("line 390\n", "line three hundred and 390\n"), new, "inline")
    await rig.person.lua(SCROLLS_AND_COVERS, ON_SCREEN, COVERS, "line three hundred", 290)
    await rig.quiet()
    assert await rig.person.lua(ON_SCREEN, "line 302")
    await rig.person.types("gg:w<CR>")
    assert await is_undecided(rig)
