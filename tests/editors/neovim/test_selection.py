"""What the user selects in a real Neovim is reported to agents completely and once, and is not lost when the focus
moves to an agent's terminal."""

from __future__ import annotations

import pytest

from drawbridge.editors.port import SELECTION_LIMIT, Mentioned, Position, Range, Selection, SelectionChanged
from tests.nvim.rig import Workstation, settled

TEXT = "one two\nthr\u00e9e e\u0301x\n\n\tfour\U0001f600six\nlast"


def reported(rig: Workstation) -> list[Selection]:
    return [event.selection for event in rig.events if isinstance(event, SelectionChanged)]


def span(selection: Selection) -> tuple[tuple[int, int], tuple[int, int]]:
    start, end = selection.range.start, selection.range.end
    return (start.line, start.character), (end.line, end.character)


async def selects(rig: Workstation, keys: str) -> Selection:
    """Types keys, and returns the last selection that is reported after them."""
    await rig.person.types(keys)
    await rig.quiet()
    expected = await rig.editor.selection()
    await settled(lambda: bool(reported(rig)) and reported(rig)[-1] == expected, f"the report of {expected}")
    return reported(rig)[-1]


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
"""The keys, the selected text, its start and its end; columns in UTF-16 code units."""


async def test_a_selection_is_the_highlighted_text(rig: Workstation) -> None:
    path = await rig.opened("a.txt", TEXT)
    for keys, text, start, end in LIT:
        selection = await selects(rig, keys)
        assert (keys, selection.path, selection.text, *span(selection)) == (keys, str(path), text, start, end)
        await rig.person.types("<Esc>")
    assert await rig.person.messages() == ""


async def test_select_mode_counts_as_a_selection(rig: Workstation) -> None:
    await rig.opened("a.txt", TEXT)
    assert (await selects(rig, "gg0wvw<C-g>")).text == "two\nt"


async def test_an_exclusive_selection_excludes_its_last_character(rig: Workstation) -> None:
    await rig.opened("a.txt", TEXT)
    await rig.person.lua("vim.o.selection = 'exclusive'")
    assert (await selects(rig, "gg0ve")).text == "one"
    assert (await selects(rig, "<Esc>gg0v")).text == ""
    assert (await selects(rig, "<Esc>2G0wvl")).text == "e\u0301"
    assert (await selects(rig, "<Esc>gg0<C-v>jll")).text == "on\nth"


async def test_ending_a_selection_reports_only_the_cursor(rig: Workstation) -> None:
    await rig.opened("a.txt", TEXT)
    assert (await selects(rig, "ggwve")).text == "two"
    selection = await selects(rig, "<Esc>")
    assert (selection.text, *span(selection)) == ("", (0, 6), (0, 6))


async def test_the_same_selection_is_reported_once(rig: Workstation) -> None:
    await rig.opened("a.txt", TEXT)
    await selects(rig, "ggwve")
    count = len(reported(rig))
    await rig.person.types("hlhl")
    await rig.quiet()
    assert reported(rig)[count:] == []


async def test_the_cursor_is_reported_in_insert_mode(rig: Workstation) -> None:
    await rig.opened("a.txt", TEXT)
    assert span(await selects(rig, "ggwi"))[0] == (0, 4)
    assert span(await selects(rig, "new "))[0] == (0, 8)


async def test_a_block_covers_the_cells_of_tabs_and_wide_characters(rig: Workstation) -> None:
    await rig.opened("a.txt", "ab\tcd\n12345678910\n\u4e16\u754c\u4e16\u754c\u4e16\u754c\n")
    selection = await selects(rig, "gg02l<C-v>jj")
    assert (selection.text, *span(selection)) == ("\t\n345678\n\u754c\u4e16\u754c", (0, 2), (2, 4))


TERMINAL = "vim.cmd('botright new') vim.fn.termopen({ 'cat' }) vim.cmd('wincmd p')"


@pytest.mark.parametrize("way", ["<C-w>j", "<C-w>ji", ":<C-u>wincmd j<CR>"])
async def test_a_selection_survives_a_quick_move_into_a_terminal(rig: Workstation, way: str) -> None:
    await rig.opened("a.txt", TEXT)
    await rig.person.lua(TERMINAL)
    await selects(rig, "gg0")
    # Typed in one call, so that nothing can be reported before the focus moves.
    await rig.person.types("ggVj" + way)
    await settled(lambda: reported(rig)[-1].text == "one two\nthr\u00e9e e\u0301x", "the selection")
    await rig.quiet()
    assert reported(rig)[-1].text == "one two\nthr\u00e9e e\u0301x"
    assert await rig.editor.selection() == reported(rig)[-1]


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
async def test_special_buffers_keep_the_last_selection(rig: Workstation, special: str) -> None:
    path = await rig.opened("a.txt", TEXT)
    before = await selects(rig, "ggw")
    await rig.person.lua(special)
    await rig.person.types("gg0")
    await rig.quiet()
    assert reported(rig)[-1] == before
    assert (await rig.editor.selection()) == before
    assert before.path == str(path)


async def test_without_an_open_file_no_selection_is_reported(rig: Workstation) -> None:
    assert await rig.editor.selection() is None
    path = await rig.opened("a.txt", TEXT)
    assert await rig.editor.selection() == Selection(str(path), "", Range(Position(0, 0), Position(0, 0)))
    await rig.person.lua("vim.cmd('enew') vim.cmd('bwipeout #')")
    assert await rig.editor.selection() is None


async def test_switching_to_another_file_is_reported(rig: Workstation) -> None:
    await rig.opened("a.txt", TEXT)
    other = await rig.opened("b c#%.txt", "x\n")
    await settled(lambda: bool(reported(rig)) and reported(rig)[-1].path == str(other), "the other file")


@pytest.mark.parametrize("line", ["x" * 99 + "\n", "\U0001f600" * 24 + "abc\n", "y" * 3_000_000 + "\n"])
async def test_only_the_text_of_a_huge_selection_is_truncated(rig: Workstation, line: str) -> None:
    """Its range still covers everything that is selected."""
    text = line * max(3_000_000 // len(line.encode()), 1)
    await rig.opened("huge.txt", text)
    selection = await selects(rig, "ggVG$")
    assert selection.text == text[:SELECTION_LIMIT].rstrip("\n") or selection.text == text[:SELECTION_LIMIT]
    assert selection.range.end.line == text.count("\n") - 1


async def test_undecodable_bytes_are_surrogate_escaped(rig: Workstation) -> None:
    await rig.opened("a.txt", b"a\xffb\n")
    await rig.person.lua("vim.cmd('edit ++enc=utf-8 ++bad=keep')")
    selection = await selects(rig, "gg0v$h")
    assert (selection.text, span(selection)[1]) == ("a\udcffb", (0, 3))


async def test_a_mention_names_lines_or_the_whole_file(rig: Workstation) -> None:
    path = await rig.opened("a.txt", TEXT)
    await rig.person.lua("require('drawbridge.selection').mention(...)", str(path), 1, 2)
    await rig.person.lua("require('drawbridge.selection').mention(...)", str(path))
    await settled(lambda: len([event for event in rig.events if isinstance(event, Mentioned)]) == 2, "both mentions")
    assert [event for event in rig.events if isinstance(event, Mentioned)] == [
        Mentioned(str(path), (1, 2)),
        Mentioned(str(path), None),
    ]
