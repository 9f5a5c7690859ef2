"""What a person selects in a real Neovim, as agents hear of it: whole, once, and not lost on the way to their terminal."""

from __future__ import annotations

import pytest

from drawbridge.editors.port import SELECTION_LIMIT, Mentioned, Position, Range, Selection, SelectionChanged
from tests.nvim.rig import Desk, settled

TEXT = "one two\nthr\u00e9e e\u0301x\n\n\tfour\U0001f600six\nlast"


def reported(desk: Desk) -> list[Selection]:
    return [event.selection for event in desk.events if isinstance(event, SelectionChanged)]


def span(selection: Selection) -> tuple[tuple[int, int], tuple[int, int]]:
    start, end = selection.range.start, selection.range.end
    return (start.line, start.character), (end.line, end.character)


async def selects(desk: Desk, keys: str) -> Selection:
    """What is reported after the keys, once nothing more is coming."""
    await desk.person.types(keys)
    await desk.quiet()
    expected = await desk.editor.selection()
    await settled(lambda: bool(reported(desk)) and reported(desk)[-1] == expected, f"the report of {expected}")
    return reported(desk)[-1]


LIT = [
    # a bare cursor
    ("gg0", "", (0, 0), (0, 0)),
    ("2G$", "", (1, 8), (1, 8)),
    ("4G0f6;", "", (3, 0), (3, 0)),
    ("4Gfs", "", (3, 7), (3, 7)),
    # characters
    ("gg0v", "o", (0, 0), (0, 1)),
    ("ggwve", "two", (0, 4), (0, 7)),
    ("gg0wvj", "two\nthr\u00e9e", (0, 4), (1, 5)),
    ("2G0ve", "thr\u00e9e", (1, 0), (1, 5)),
    ("2Gwv", "e\u0301", (1, 6), (1, 8)),
    ("4G0fshv", "\U0001f600", (3, 5), (3, 7)),
    ("4G0v$h", "\tfour\U0001f600six", (3, 0), (3, 10)),
    ("gg0v$", "one two", (0, 0), (0, 7)),
    ("3Gv", "", (2, 0), (2, 0)),
    ("2G0vj", "thr\u00e9e e\u0301x\n", (1, 0), (2, 0)),
    ("gg0wvb", "one t", (0, 0), (0, 5)),
    ("5G$vgg0", TEXT, (0, 0), (4, 4)),
    # whole lines
    ("ggV", "one two", (0, 0), (0, 7)),
    ("ggVj", "one two\nthr\u00e9e e\u0301x", (0, 0), (1, 9)),
    ("2GVk", "one two\nthr\u00e9e e\u0301x", (0, 0), (1, 9)),
    ("ggVG", TEXT, (0, 0), (4, 4)),
    ("3GV", "", (2, 0), (2, 0)),
    # blocks
    ("gg0<C-v>lj", "on\nth", (0, 0), (1, 2)),
    ("gg0l<C-v>jh", "on\nth", (0, 0), (1, 2)),
    ("gg0w<C-v>jl", "tw\ne ", (0, 4), (1, 6)),
    ("gg0w<C-v>j$", "two\ne e\u0301x", (0, 4), (1, 9)),
    # on the empty line the cursor, and with it the block, is in the first column
    ("gg0w<C-v>jj", "one t\nthr\u00e9e\n", (0, 0), (2, 0)),
    ("4G0<C-v>k", "\n\t", (2, 0), (3, 1)),
    ("4G$<C-v>0", "\tfour\U0001f600six", (3, 0), (3, 10)),
]
"""Keys, text, start and end; columns in UTF-16."""


async def test_a_selection_is_what_is_lit(desk: Desk) -> None:
    path = await desk.opened("a.txt", TEXT)
    for keys, text, start, end in LIT:
        selection = await selects(desk, keys)
        assert (keys, selection.path, selection.text, *span(selection)) == (keys, str(path), text, start, end)
        await desk.person.types("<Esc>")
    assert await desk.person.messages() == ""


async def test_select_mode_is_a_selection_too(desk: Desk) -> None:
    await desk.opened("a.txt", TEXT)
    assert (await selects(desk, "gg0wvw<C-g>")).text == "two\nt"


async def test_an_exclusive_selection_does_not_hold_its_last_character(desk: Desk) -> None:
    await desk.opened("a.txt", TEXT)
    await desk.person.lua("vim.o.selection = 'exclusive'")
    assert (await selects(desk, "gg0ve")).text == "one"
    assert (await selects(desk, "<Esc>gg0v")).text == ""
    assert (await selects(desk, "<Esc>2G0wvl")).text == "e\u0301"
    assert (await selects(desk, "<Esc>gg0<C-v>jll")).text == "on\nth"


async def test_the_end_of_a_selection_leaves_a_bare_cursor(desk: Desk) -> None:
    await desk.opened("a.txt", TEXT)
    assert (await selects(desk, "ggwve")).text == "two"
    selection = await selects(desk, "<Esc>")
    assert (selection.text, *span(selection)) == ("", (0, 6), (0, 6))


async def test_the_same_selection_is_told_once(desk: Desk) -> None:
    await desk.opened("a.txt", TEXT)
    await selects(desk, "ggwve")
    count = len(reported(desk))
    await desk.person.types("hlhl")
    await desk.quiet()
    assert reported(desk)[count:] == []


async def test_the_cursor_is_told_in_insert_mode_too(desk: Desk) -> None:
    await desk.opened("a.txt", TEXT)
    assert span(await selects(desk, "ggwi"))[0] == (0, 4)
    assert span(await selects(desk, "new "))[0] == (0, 8)


async def test_a_block_covers_the_cells_of_tabs_and_wide_characters(desk: Desk) -> None:
    await desk.opened("a.txt", "ab\tcd\n12345678910\n\u4e16\u754c\u4e16\u754c\u4e16\u754c\n")
    selection = await selects(desk, "gg02l<C-v>jj")
    assert (selection.text, *span(selection)) == ("\t\n345678\n\u754c\u4e16\u754c", (0, 2), (2, 4))


TERMINAL = "vim.cmd('botright new') vim.fn.termopen({ 'cat' }) vim.cmd('wincmd p')"


@pytest.mark.parametrize("way", ["<C-w>j", "<C-w>ji", ":<C-u>wincmd j<CR>"])
async def test_a_selection_survives_the_way_into_a_terminal_however_quick(desk: Desk, way: str) -> None:
    await desk.opened("a.txt", TEXT)
    await desk.person.lua(TERMINAL)
    await selects(desk, "gg0")
    # All in one go: no report can have been made before the focus moves.
    await desk.person.types("ggVj" + way)
    await settled(lambda: reported(desk)[-1].text == "one two\nthr\u00e9e e\u0301x", "the selection")
    await desk.quiet()
    assert reported(desk)[-1].text == "one two\nthr\u00e9e e\u0301x"
    assert await desk.editor.selection() == reported(desk)[-1]


@pytest.mark.parametrize(
    "special",
    [
        "vim.cmd('help')",
        "vim.cmd('enew')",
        "vim.cmd('copen')",
        "vim.cmd('edit scheme://host/path')",
        "vim.cmd('botright new') vim.bo.buftype = 'nofile' vim.api.nvim_buf_set_name(0, 'notes')",
    ],
)
async def test_special_buffers_keep_the_last_selection(desk: Desk, special: str) -> None:
    path = await desk.opened("a.txt", TEXT)
    before = await selects(desk, "ggw")
    await desk.person.lua(special)
    await desk.person.types("gg0")
    await desk.quiet()
    assert reported(desk)[-1] == before
    assert (await desk.editor.selection()) == before
    assert before.path == str(path)


async def test_no_file_in_front_is_no_selection(desk: Desk) -> None:
    assert await desk.editor.selection() is None
    path = await desk.opened("a.txt", TEXT)
    assert await desk.editor.selection() == Selection(str(path), "", Range(Position(0, 0), Position(0, 0)))
    await desk.person.lua("vim.cmd('enew') vim.cmd('bwipeout #')")
    assert await desk.editor.selection() is None


async def test_another_file_in_front_is_told(desk: Desk) -> None:
    await desk.opened("a.txt", TEXT)
    other = await desk.opened("b c#%.txt", "x\n")
    await settled(lambda: bool(reported(desk)) and reported(desk)[-1].path == str(other), "the other file")


@pytest.mark.parametrize("line", ["x" * 99 + "\n", "\U0001f600" * 24 + "abc\n", "y" * 3_000_000 + "\n"])
async def test_the_text_of_a_huge_selection_is_cut_and_its_range_is_not(desk: Desk, line: str) -> None:
    text = line * max(3_000_000 // len(line.encode()), 1)
    await desk.opened("huge.txt", text)
    selection = await selects(desk, "ggVG$")
    assert selection.text == text[:SELECTION_LIMIT].rstrip("\n") or selection.text == text[:SELECTION_LIMIT]
    assert selection.range.end.line == text.count("\n") - 1


async def test_undecodable_bytes_are_characters(desk: Desk) -> None:
    await desk.opened("a.txt", b"a\xffb\n")
    await desk.person.lua("vim.cmd('edit ++enc=utf-8 ++bad=keep')")
    selection = await selects(desk, "gg0v$h")
    assert (selection.text, span(selection)[1]) == ("a\udcffb", (0, 3))


async def test_a_mention_names_lines_or_the_whole_file(desk: Desk) -> None:
    path = await desk.opened("a.txt", TEXT)
    await desk.person.lua("require('drawbridge.selection').mention(...)", str(path), 1, 2)
    await desk.person.lua("require('drawbridge.selection').mention(...)", str(path))
    await settled(lambda: len([event for event in desk.events if isinstance(event, Mentioned)]) == 2, "both mentions")
    assert [event for event in desk.events if isinstance(event, Mentioned)] == [
        Mentioned(str(path), (1, 2)),
        Mentioned(str(path), None),
    ]
