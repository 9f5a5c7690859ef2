"""Files in a real Neovim: listing, reading, saving, opening and reloading them never prompts the user."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from drawbridge.core.errors import Refused, UnusableFile
from drawbridge.editors.port import BufferStatus, OpenRequest, Tab
from tests.nvim.rig import Workstation, proposal
from tests.programs import nvim

ODD_NAMES = [
    "a b.txt",
    "#c%d.txt",
    "[x]*?{y,z}.txt",
    "$HOME~.txt",
    "\u00fcn\u00ef \U0001f600.txt",
    "-dash.txt",
    "+2.txt",
]

OLD = "one\ntwo\nthree\n"
NEW = "one\nTWO\nthree\n"


async def unchanged(rig: Workstation) -> list[object]:
    """The state that a refusal must not change."""
    return [await rig.person.lines(), await rig.person.lua("return vim.bo.modified"), await rig.picture()]


# What is open


async def test_only_listed_buffers_of_files_count_as_tabs(rig: Workstation) -> None:
    first = await rig.opened("a.c", "x = 1\ny = 2\n")
    second = await rig.opened("b.txt", "")
    await rig.person.types("ichanged<Esc>")
    await rig.person.lua("vim.cmd('help') vim.cmd('new') vim.cmd('edit scheme://x')")
    await rig.person.lua("vim.fn.bufadd(...)", str(rig.file("unlisted.txt", "")))
    assert list(await rig.editor.tabs()) == [
        Tab(str(first), False, False, "c", 2),
        Tab(str(second), True, True, "text", 1),
    ]


async def test_a_file_with_special_characters_in_its_name_is_found(rig: Workstation) -> None:
    # This file would be found instead if names were patterns.
    await rig.opened("xx.txt", "")
    for name in ODD_NAMES:
        path = await rig.opened(name, OLD)
        assert await rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False), name
        await rig.person.types("ggx")
        assert await rig.editor.unsaved_text(str(path)) == "ne\ntwo\nthree\n", name
        await rig.editor.save(str(path))
        assert path.read_text() == "ne\ntwo\nthree\n", name


async def test_a_file_is_found_through_a_symbolic_link(rig: Workstation) -> None:
    path = await rig.opened("real.txt", OLD)
    link = rig.folder / "link.txt"
    link.symlink_to(path)
    await rig.person.types("x")
    assert await rig.editor.unsaved_text(str(link)) == "ne\ntwo\nthree\n"
    (rig.folder / "real").mkdir()
    (rig.folder / "other name").symlink_to(rig.folder / "real")
    await rig.person.edits(rig.folder / "other name" / "new.txt")
    assert await rig.editor.status(str(rig.folder / "real" / "new.txt")) == BufferStatus(modified=False, untitled=True)


async def test_an_unopened_file_has_no_status_and_no_unsaved_text(rig: Workstation) -> None:
    path = rig.file("a.txt", OLD)
    assert await rig.editor.status(str(path)) is None
    assert await rig.editor.unsaved_text(str(path)) is None


@pytest.mark.parametrize(
    ("content", "set_up", "expected"),
    [
        (b"a\nb\n", "", "xa\nb\n"),
        (b"a\r\nb\r\n", "", "xa\r\nb\r\n"),
        (b"a\nb", "vim.bo.fixendofline = false", "xa\nb"),
        (b"a\nb", "", "xa\nb\n"),
        (b"\xef\xbb\xbfa\n", "", "\ufeffxa\n"),
        (b"a\r\nb\n", "", "xa\r\nb\n"),
        ("ä\n".encode("latin-1"), "", "xä\n"),
        (b"", "", "x\n"),
        (b"a\n", "vim.bo.bomb, vim.bo.fileencoding = true, 'latin1'", "xa\n"),
    ],
)
async def test_unsaved_text_is_what_saving_would_write(
    rig: Workstation, content: bytes, set_up: str, expected: str
) -> None:
    path = await rig.opened("a.txt", content)
    await rig.person.lua(set_up + " vim.bo.modified = false")
    assert await rig.editor.unsaved_text(str(path)) is None
    await rig.person.types("ggix<Esc>")
    assert await rig.editor.unsaved_text(str(path)) == expected
    await rig.editor.save(str(path))
    encoding = await rig.person.lua("return vim.bo.fileencoding")
    assert path.read_bytes() == expected.encode("latin-1" if encoding == "latin1" else "utf-8")
    assert await rig.editor.unsaved_text(str(path)) is None


async def test_a_buffer_without_lines_is_saved_as_an_empty_file(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.person.types(":%d<CR>")
    assert await rig.editor.unsaved_text(str(path)) == ""
    await rig.editor.save(str(path))
    assert path.read_bytes() == b""


# Saving


async def test_saving_shows_no_message_and_moves_no_window(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.person.types("x")
    await rig.opened("b.txt", OLD)
    before = await rig.picture()
    await rig.editor.save(str(path))
    assert path.read_text() == "ne\ntwo\nthree\n"
    assert await rig.picture() == before
    assert await rig.person.messages() == ""


async def test_a_new_file_can_be_saved(rig: Workstation) -> None:
    path = rig.folder / "new.txt"
    await rig.person.edits(path)
    await rig.person.types("ihello<Esc>")
    assert await rig.editor.status(str(path)) == BufferStatus(modified=True, untitled=True)
    await rig.editor.save(str(path))
    assert path.read_text() == "hello\n"
    assert await rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False)


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [
        ("vim.bo.readonly = true", "read-only"),
        ("vim.bo.buftype = 'acwrite'", "not open"),
        ("vim.cmd('autocmd BufWritePre <buffer> throw \"no way\"')", "no way"),
        ("vim.cmd('autocmd BufWriteCmd <buffer> let g:written = 1')", "unsaved changes after :write"),
    ],
)
async def test_an_impossible_save_is_refused_with_the_reason(rig: Workstation, obstacle: str, reason: str) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.person.types("x")
    await rig.person.lua(obstacle)
    before = await unchanged(rig)
    with pytest.raises(Refused, match=reason):
        await rig.editor.save(str(path))
    assert path.read_text() == OLD
    assert await unchanged(rig) == before


async def test_saving_never_overwrites_a_file_that_changed_on_disk(rig: Workstation) -> None:
    """The save is refused, and Neovim does not prompt the user."""
    path = await rig.opened("a.txt", OLD)
    await rig.person.types("x")
    path.write_text("something else entirely\n")
    before = await unchanged(rig)
    with pytest.raises(Refused, match="changed on disk"):
        await rig.editor.save(str(path))
    assert path.read_text() == "something else entirely\n"
    assert await unchanged(rig) == before


async def test_saving_a_new_file_never_overwrites_an_existing_one(rig: Workstation) -> None:
    path = rig.folder / "new.txt"
    await rig.person.edits(path)
    await rig.person.types("imine<Esc>")
    path.write_text("theirs\n")
    with pytest.raises(Refused, match="changed on disk"):
        await rig.editor.save(str(path))
    assert path.read_text() == "theirs\n"


async def test_saving_in_a_deleted_directory_is_refused(rig: Workstation) -> None:
    folder = rig.folder / "gone"
    folder.mkdir()
    path = await rig.opened("gone/a.txt", OLD)
    await rig.person.types("x")
    path.unlink()
    folder.rmdir()
    with pytest.raises(Refused, match="Neovim"):
        await rig.editor.save(str(path))


async def test_a_file_that_is_not_open_cannot_be_saved(rig: Workstation) -> None:
    path = rig.file("a.txt", OLD)
    with pytest.raises(Refused, match="not open"):
        await rig.editor.save(str(path))


# Opening


async def test_opening_a_file_in_the_background_moves_nothing(rig: Workstation) -> None:
    await rig.opened("a.txt", OLD)
    path = rig.file("b.c", "x = 1\ny = 2\n")
    before = await rig.picture()
    opened = await rig.editor.open_file(OpenRequest(str(path), focus=False))
    assert (opened.path, opened.language, opened.line_count, opened.found) == (str(path), "c", 2, True)
    after = await rig.picture()
    assert {name: value for name, value in after.items() if not name.startswith(".buffers")} == {
        name: value for name, value in before.items() if not name.startswith(".buffers")
    }
    assert [tab.path for tab in await rig.editor.tabs() if tab.active] == [str(rig.folder / "a.txt")]


async def test_a_file_with_any_name_can_be_opened(rig: Workstation) -> None:
    for name in ODD_NAMES:
        path = rig.file(name, "the one\n")
        await rig.editor.open_file(OpenRequest(str(path)))
        await rig.person.until("return vim.api.nvim_buf_get_name(0) == ...", str(path))
        assert await rig.person.lines() == ["the one"], name


PASSAGES = [
    ("two", None, False, True, "two"),
    ("wo t", "ee", False, True, "wo three"),
    ("two", "one", False, True, "two three\none"),
    ("one\ntwo", None, False, True, "one\ntwo"),
    ("two", "e", True, True, "two three"),
    ("two", "absent", False, True, "two"),
    ("e.", None, False, False, ""),
    ("absent", "two", True, False, ""),
    ("\u00e9", None, False, True, "\u00e9"),
    ("t", "\u00e9t\u00e9", False, True, "two three\none \u00e9t\u00e9"),
]
"""The start text, the end text and ``to_end``; then whether the start text is found, and the text that is selected."""


async def test_a_passage_is_selected_by_its_start_and_end_text(rig: Workstation) -> None:
    """The selection begins at the first match of the start text and ends at the next match of the end text."""
    path = rig.file("a.txt", "one\ntwo three\none \u00e9t\u00e9 two\n")
    for start, end, to_end, found, selected in PASSAGES:
        opened = await rig.editor.open_file(OpenRequest(str(path), True, start, end, to_end))
        assert opened.found is found, start
        await rig.person.until("return vim.api.nvim_buf_get_name(0) == ...", str(path))
        selection = await rig.editor.selection()
        assert selection is not None
        assert (start, selection.text) == (start, selected)
        await rig.person.types("<Esc>")


@pytest.mark.parametrize("hidden", [True, False])
async def test_unsaved_work_in_the_window_is_never_lost(rig: Workstation, hidden: bool) -> None:
    await rig.opened("a.txt", OLD)
    await rig.person.lua("vim.o.hidden = ...", hidden)
    await rig.person.types("x")
    path = rig.file("b.txt", "b\n")
    await rig.editor.open_file(OpenRequest(str(path)))
    await rig.person.until("return vim.api.nvim_buf_get_name(0) == ...", str(path))
    assert await rig.editor.unsaved_text(str(rig.folder / "a.txt")) == "ne\ntwo\nthree\n"


async def test_a_terminal_keeps_its_window(rig: Workstation) -> None:
    await rig.opened("a.txt", OLD)
    await rig.person.lua("vim.cmd('botright new') vim.fn.termopen({ 'cat' }) Terminal = vim.api.nvim_get_current_win()")
    path = rig.file("b.txt", "b\n")
    await rig.editor.open_file(OpenRequest(str(path)))
    await rig.person.until("return vim.api.nvim_buf_get_name(0) == ...", str(path))
    assert await rig.person.lua("return vim.bo[vim.api.nvim_win_get_buf(Terminal)].buftype") == "terminal"
    assert await rig.person.lua("return #vim.api.nvim_tabpage_list_wins(0)") == 2


async def test_a_file_is_not_shown_while_the_user_is_typing(rig: Workstation) -> None:
    first = await rig.opened("a.txt", OLD)
    path = rig.file("b.txt", "b\n")
    await rig.person.types("i")
    await rig.editor.open_file(OpenRequest(str(path)))
    await rig.person.types("typed")
    assert (await rig.person.lines())[0] == "typedone"
    await rig.person.types("<Esc>")
    await rig.person.until("return vim.api.nvim_buf_get_name(0) == ...", str(path))
    assert await rig.editor.unsaved_text(str(first)) == "typed" + OLD


async def test_another_editors_swap_file_causes_no_prompt(rig: Workstation) -> None:
    path = rig.file("b.txt", "b\n")
    swap, copy = rig.folder / "b.txt.swp", rig.folder / "copy"
    other = [str(nvim()), "--headless", "--clean", "--cmd", f"set directory={rig.folder}", str(path)]
    commands = ["+normal! x", "+preserve", f"+call system('cp {swap} {copy}')", "+qa!"]
    await (await asyncio.create_subprocess_exec(*other, *commands)).wait()
    copy.rename(swap)
    await rig.person.lua("vim.o.directory, vim.o.updatecount, vim.o.swapfile = ..., 200, true", str(rig.folder))
    opened = await rig.editor.open_file(OpenRequest(str(path), focus=False))
    assert opened.line_count == 1
    assert await rig.person.lua("return vim.bo[vim.fn.bufnr('b.txt')].readonly") is True
    assert (await rig.person.call("nvim_get_mode"))["blocking"] is False


@pytest.mark.parametrize("name", ["absent.txt", "."])
async def test_a_missing_file_or_a_directory_is_not_opened(rig: Workstation, name: str) -> None:
    await rig.opened("a.txt", OLD)
    before = await rig.picture()
    with pytest.raises(UnusableFile):
        await rig.editor.open_file(OpenRequest(str(rig.folder / name)))
    assert await rig.picture() == before


# After the agent has written


async def accepted(rig: Workstation, path: Path, old: str, new: str, *, id: str = "1") -> None:
    await rig.shows(proposal(path, old, new, id=id))
    await rig.person.types(":w<CR>")
    await rig.decided()
    path.write_text(new)


async def test_an_unmodified_buffer_is_updated_and_nothing_else_moves(rig: Workstation) -> None:
    """Windows, folds and cursors stay in place, and one undo restores the previous text."""
    text = "".join(f"line {number}\n" for number in range(100))
    path = await rig.opened("a.txt", text)
    await rig.person.types(":20,30fold<CR>60Gzt3l<C-w>s<C-w>k5G")
    before = await rig.picture()
    new = text.replace("line 70\n", "line seventy\n")
    await accepted(rig, path, text, new)
    await rig.editor.written(str(path), new, "1")
    assert await rig.person.lines() == new.splitlines()
    assert await rig.editor.unsaved_text(str(path)) is None
    assert await rig.picture() == before
    assert await rig.person.lua("return vim.fn.foldclosed(25)") == 20
    assert await rig.person.messages() == ""
    await rig.person.types("u")
    assert await rig.person.lines() == text.splitlines()


async def test_undo_restores_even_a_long_previous_text(rig: Workstation) -> None:
    old, new = "old\n" * 20_000, "new\n" * 20_000
    path = await rig.opened("a.txt", old)
    path.write_text(new)
    await rig.editor.written(str(path), new, "")
    assert (await rig.person.lines())[-1] == "new"
    await rig.person.types("u")
    assert (await rig.person.lines())[-1] == "old"
    assert await rig.person.lua("return vim.o.undoreload") == 10_000


async def test_undo_restores_unsaved_work_that_a_proposal_replaced(rig: Workstation) -> None:
    """The proposal included the unsaved work, so the buffer counts as saved once the proposal is written."""
    path = await rig.opened("a.txt", OLD)
    await rig.person.types("ggOmine<Esc>")
    await accepted(rig, path, "mine\n" + OLD, "mine\n" + NEW)
    await rig.editor.written(str(path), "mine\n" + NEW, "1")
    assert await rig.person.lines() == ("mine\n" + NEW).splitlines()
    assert await rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False)
    await rig.person.types("G0x:w<CR>")
    await rig.quiet()
    assert path.read_text() == "mine\none\nTWO\nhree\n"
    assert "W1" not in await rig.person.messages()
    await rig.person.types("uu")
    assert await rig.person.lines() == ("mine\n" + OLD).splitlines()


@pytest.mark.parametrize("proposal_id", ["1", ""])
async def test_unsaved_work_after_the_proposal_is_left_alone(rig: Workstation, proposal_id: str) -> None:
    path = await rig.opened("a.txt", OLD)
    await accepted(rig, path, OLD, NEW)
    await rig.person.types("ggOlater<Esc>")
    await rig.editor.written(str(path), NEW, proposal_id)
    assert await rig.editor.unsaved_text(str(path)) == "later\n" + OLD
    assert (await rig.person.call("nvim_get_mode"))["blocking"] is False


async def test_a_new_file_from_the_agent_appears_in_its_open_buffer(rig: Workstation) -> None:
    path = rig.folder / "new.c"
    await rig.person.edits(path)
    await accepted(rig, path, "", "import os\n")
    await rig.editor.written(str(path), "import os\n", "1")
    assert await rig.person.lines() == ["import os"]
    assert await rig.editor.status(str(path)) == BufferStatus(modified=False, untitled=False)
    assert (await rig.person.call("nvim_get_mode"))["blocking"] is False
    await rig.person.types("Ax<Esc>:w<CR>")
    await rig.quiet()
    assert path.read_text() == "import osx\n"
    assert "W1" not in await rig.person.messages()


async def test_a_file_that_is_not_open_is_not_opened(rig: Workstation) -> None:
    path = rig.file("a.txt", NEW)
    before = await rig.picture()
    await rig.editor.written(str(path), NEW, "1")
    assert await rig.picture() == before


@pytest.mark.parametrize("autoread", [True, False])
async def test_the_autoread_option_is_restored(rig: Workstation, autoread: bool) -> None:
    await rig.person.lua("vim.o.autoread = ...", autoread)
    path = await rig.opened("a.txt", OLD)
    local = await rig.person.lua("return vim.fn.execute('setlocal autoread?')")
    await accepted(rig, path, OLD, NEW)
    await rig.editor.written(str(path), NEW, "1")
    assert await rig.person.lines() == NEW.splitlines()
    assert await rig.person.lua("return vim.o.autoread") is autoread
    assert await rig.person.lua("return vim.fn.execute('setlocal autoread?')") == local
    path.write_text("again\n")
    os.utime(path, (2_000_000_000, 2_000_000_000))
    await rig.person.lua("vim.cmd('autocmd FileChangedShell * let g:asked = 1')")
    await rig.person.types(":checktime<CR>")
    await rig.quiet()
    assert await rig.person.lua("return vim.g.asked == 1") is not autoread


# Diagnostics


PROBLEMS = """
local namespace = vim.api.nvim_create_namespace('test')
local buffer = vim.fn.bufnr()
vim.diagnostic.set(namespace, buffer, {
  { lnum = 1, col = 6, end_lnum = 1, end_col = 11, message = 'bad', severity = 1, source = 'lint', code = 7 },
  { lnum = 3, col = 5, message = 'hm', severity = 4 },
})
"""


async def test_diagnostics_count_columns_in_utf_16(rig: Workstation) -> None:
    path = await rig.opened("a.txt", "one\nthr\u00e9e \U0001f600x\n\n\tfour\n")
    await rig.person.lua(PROBLEMS)
    (found,) = await rig.editor.diagnostics(str(path))
    assert found.path == str(path)
    bad, hint = found.diagnostics
    assert (bad.message, bad.severity, bad.source, bad.code) == ("bad", "Error", "lint", "7")
    assert (bad.range.start.line, bad.range.start.character) == (1, 5)
    assert (bad.range.end.line, bad.range.end.character) == (1, 8)
    assert (hint.message, hint.severity, hint.source, hint.code) == ("hm", "Hint", None, None)
    assert (hint.range.start.line, hint.range.start.character) == (3, 5)


async def test_a_file_without_problems_has_an_empty_entry(rig: Workstation) -> None:
    """The diagnostics of all files include only files with problems."""
    first = await rig.opened("a.txt", "one\ntwo\n\n\tfour\n")
    await rig.person.lua(PROBLEMS)
    second = await rig.opened("b.txt", OLD)
    assert [(file.path, file.diagnostics) for file in await rig.editor.diagnostics(str(second))] == [(str(second), ())]
    assert [(file.path, file.diagnostics) for file in await rig.editor.diagnostics("/absent")] == [("/absent", ())]
    assert [file.path for file in await rig.editor.diagnostics(None)] == [str(first)]


async def test_diagnostics_are_limited_to_1000_for_each_file(rig: Workstation) -> None:
    await rig.opened("a.txt", "one\n" * 3_000)
    await rig.person.lua(
        """
        local list = {}
        for line = 0, 2999 do list[#list + 1] = { lnum = line, col = 0, message = 'm', severity = 2 } end
        vim.diagnostic.set(vim.api.nvim_create_namespace('test'), 0, list)
        """
    )
    (found,) = await rig.editor.diagnostics(None)
    assert len(found.diagnostics) == 1_000
    assert found.diagnostics[0].severity == "Warning"
