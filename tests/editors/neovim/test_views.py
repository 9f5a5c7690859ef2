"""Proposals in a real Neovim: how they are shown and answered, and that they leave no trace."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.core.errors import UnusableFile
from drawbridge.editors.port import Accepted, Rejected
from tests.nvim.rig import Workstation, proposal, settled

OLD = "one\ntwo\nthree\n"
NEW = "one\nTWO\nthree\nfour\n"

LAYOUTS = ("vertical", "horizontal", "inline")

PENDING = "return #require('drawbridge.review').pending()"

anyhow = pytest.mark.parametrize("layout", LAYOUTS)
anywhere = pytest.mark.parametrize("place", ["tab", "current"])


async def laid_out(rig: Workstation, layout: str, place: str = "tab") -> None:
    await rig.options(f"{{ diff = {{ layout = '{layout}', open_in = '{place}' }} }}")


@anyhow
@anywhere
async def test_writing_the_proposal_accepts_it_and_leaves_no_trace(rig: Workstation, layout: str, place: str) -> None:
    path = await rig.opened("hello.txt", OLD)
    await laid_out(rig, layout, place)
    before = await rig.picture()
    await rig.shows(proposal(path, OLD, NEW))
    assert await rig.person.lines() == NEW.splitlines()
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(NEW)
    assert await rig.picture() == before
    assert path.read_text() == OLD
    assert await rig.person.messages() == ""


@anyhow
async def test_an_edited_proposal_is_accepted_as_edited(rig: Workstation, layout: str) -> None:
    path = await rig.opened("hello.txt", OLD)
    await laid_out(rig, layout)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types("ggcwuno\u00df<Esc>:w<CR>")
    assert await rig.decided() == Accepted("uno\u00df\nTWO\nthree\nfour\n")


@pytest.mark.parametrize(
    "closing",
    [
        ":q<CR>",
        ":close<CR>",
        ":bdelete<CR>",
        ":bwipeout!<CR>",
        ":tabclose<CR>",
        "<C-w>h:q<CR>",
        "<C-w>o",
        ":edit! other.txt<CR>",
        "ZQ",
        "ix<Esc>:q!<CR>",
        ":lua require('drawbridge.review').reject()<CR>",
    ],
)
async def test_closing_the_view_by_any_means_rejects_once(rig: Workstation, closing: str) -> None:
    path = await rig.opened("hello.txt", OLD)
    before = await rig.picture()
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types(closing)
    assert await rig.decided() == Rejected()
    after = await rig.picture()
    if "other" not in closing:
        assert after == before
    assert await rig.person.lua(PENDING) == 0
    assert path.read_text() == OLD


@pytest.mark.parametrize("closing", [":q<CR>", ":tabclose<CR>"])
async def test_closing_a_view_returns_to_the_users_own_tab_page(rig: Workstation, closing: str) -> None:
    """This is true even if that is not the next tab page."""
    path = await rig.opened("hello.txt", OLD)
    await rig.person.lua("vim.cmd('tabnew') vim.cmd('tabprevious')")
    before = await rig.picture()
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types(closing)
    assert await rig.decided() == Rejected()
    assert await rig.picture() == before


@anyhow
@anywhere
async def test_a_layout_of_several_windows_is_restored(rig: Workstation, layout: str, place: str) -> None:
    text = "".join(f"line {number}\n" for number in range(300))
    path = await rig.opened("long.txt", text)
    await rig.person.lua(
        """
        vim.o.equalalways = false
        vim.cmd('split') vim.cmd('vsplit') vim.cmd('resize 7') vim.cmd('vertical resize 33') vim.cmd('setlocal number')
        vim.api.nvim_win_set_cursor(0, {150, 3}) vim.cmd('normal! zt')
        vim.cmd('wincmd j') vim.cmd('wincmd k')
        """
    )
    await laid_out(rig, layout, place)
    before = await rig.picture()
    await rig.shows(proposal(path, text, text.replace("line 200\n", "line two hundred\n")))
    await rig.person.types(":w<CR>")
    await rig.decided()
    assert await rig.picture() == before


@anywhere
async def test_manual_folds_are_restored(rig: Workstation, place: str) -> None:
    path = await rig.opened("long.txt", "".join(f"line {number}\n" for number in range(100)))
    await laid_out(rig, "vertical", place)
    await rig.person.types(":10,20fold<CR>:40,50fold<CR>45Gzo")
    folds = (
        "local f = {} for line = 1, 100 do f[line] = { vim.fn.foldlevel(line), vim.fn.foldclosed(line) } end return f"
    )
    before, picture = await rig.person.lua(folds), await rig.picture()
    await rig.shows(proposal(path, path.read_text(), path.read_text().replace("line 70\n", "line seventy\n")))
    await rig.person.types(":q<CR>")
    await rig.decided()
    assert await rig.person.lua(folds) == before
    assert await rig.picture() == picture


@anyhow
async def test_withdrawing_a_proposal_closes_only_its_view(rig: Workstation, layout: str) -> None:
    """No decision is reported."""
    path = await rig.opened("hello.txt", OLD)
    await laid_out(rig, layout)
    before = await rig.picture()
    await rig.shows(proposal(path, OLD, NEW, id="1"))
    await rig.person.lua("vim.cmd('tabfirst')")
    await rig.shows(proposal(path, OLD, "other\n", id="2"))
    await rig.editor.withdraw("1")
    await rig.editor.withdraw("unknown")
    assert await rig.person.lines() == ["other"]
    await rig.editor.withdraw("2")
    assert await rig.picture() == before
    await rig.quiet()
    assert rig.decisions == []


async def test_withdrawing_a_background_view_does_not_move_the_user(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.lua(
        "vim.cmd('tabfirst') vim.cmd('new') vim.api.nvim_buf_set_lines(0, 0, -1, false, {'x', 'y', 'z'})"
    )
    await rig.person.types("2G")
    before = await rig.person.lua("return {vim.api.nvim_get_current_win(), vim.api.nvim_win_get_cursor(0)}")
    await rig.editor.withdraw("1")
    assert await rig.person.lua("return {vim.api.nvim_get_current_win(), vim.api.nvim_win_get_cursor(0)}") == before


async def test_closing_the_bridge_closes_its_view_without_a_decision(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    before = await rig.picture()
    await rig.shows(proposal(path, OLD, NEW, id="1"))
    await rig.editor.close()
    await rig.person.until("return not require('drawbridge.link').attached()")
    assert await rig.picture() == before
    assert rig.decisions == []


async def test_a_lost_connection_closes_the_view(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    before = await rig.picture()
    await rig.shows(proposal(path, OLD, NEW))
    rig.editor._session.close()
    await rig.person.until("return not require('drawbridge.link').attached()")
    assert await rig.picture() == before


TEXTS = [
    "no newline at the end",
    "windows\r\nline ends\r\n",
    "\ufeffa byte-order mark\n",
    "mixed\r\nends\n",
    "a lone \r and a form feed \f\n",
    "",
    "\n",
    "\n\n",
    "undecodable \udcff\udc80\n",
    "astral \U0001f600 and combining e\u0301\n",
    "\ttabs\x01and control\x1b[0m\n",
]


@anyhow
async def test_an_unedited_text_is_accepted_byte_for_byte(rig: Workstation, layout: str) -> None:
    path = await rig.opened("hello.txt", OLD)
    await laid_out(rig, layout)
    for text in TEXTS:
        await rig.shows(proposal(path, OLD, text))
        await rig.person.types(":w<CR>")
        assert await rig.decided() == Accepted(text)


EDITED = {
    "one\r\ntwo\r\n": "onex\r\ntwo\r\n",
    "\ufeffone\ntwo": "\ufeffonex\ntwo",
    "one\r\ntwo\n": "one\rx\ntwo\n",
    "one \udcff\n": "one \udcffx\n",
    "\n": "x\n",
    "": "x\n",
}


async def test_an_edited_text_keeps_its_bom_and_line_endings(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    for new, edited in EDITED.items():
        await rig.shows(proposal(path, OLD, new))
        await rig.person.types("ggAx<Esc>:w<CR>")
        assert await rig.decided() == Accepted(edited)


async def test_the_user_can_change_the_file_format(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types(":set fileformat=dos bomb noendofline<CR>:w<CR>")
    assert await rig.decided() == Accepted("\ufeff" + NEW.replace("\n", "\r\n").removesuffix("\r\n"))


async def test_deleting_everything_accepts_an_empty_text(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types(":%d<CR>:w<CR>")
    assert await rig.decided() == Accepted("")


ODD_NAMES = ["a b#c%d.txt", "[x]*?.txt", "$HOME.txt", "\u00fcn\u00ef \U0001f600.txt", "tab\there.txt", "quote'\".txt"]


async def test_special_characters_in_file_names_are_literal(rig: Workstation) -> None:
    for name in ODD_NAMES:
        path = await rig.opened(name, OLD)
        before = await rig.picture()
        await rig.shows(proposal(path, OLD, NEW))
        # The left side is the user's own buffer, so the name was understood.
        await rig.person.types("<C-w>h")
        assert await rig.person.lua("return vim.api.nvim_buf_get_name(0)") == str(path)
        await rig.person.types("<C-w>l:w<CR>")
        assert await rig.decided() == Accepted(NEW), name
        assert await rig.picture() == before, name


async def test_an_unopened_file_is_compared_as_a_read_only_copy(rig: Workstation) -> None:
    path = rig.file("hello.txt", OLD)
    before = await rig.picture()
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types("<C-w>h")
    assert await rig.person.lines() == OLD.splitlines()
    await rig.person.types("x")
    assert await rig.person.lines() == OLD.splitlines()
    await rig.person.types("<C-w>l:w<CR>")
    assert await rig.decided() == Accepted(NEW)
    assert await rig.picture() == before


async def test_accepting_a_new_file_does_not_create_it(rig: Workstation) -> None:
    await rig.shows(proposal(rig.folder / "new.py", "", "import os\n"))
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted("import os\n")
    assert not (rig.folder / "new.py").exists()


async def test_accepting_keeps_unsaved_work_in_the_users_buffer(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.person.types("ggOunsaved<Esc>")
    await rig.shows(
        proposal(path, "unsaved\n" + OLD, "unsaved\n" + NEW, note="Your unsaved changes are part of this text.")
    )
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted("unsaved\n" + NEW)
    assert await rig.person.lua("return {vim.bo.modified, vim.api.nvim_buf_line_count(0)}") == [True, 4]


async def test_no_file_events_fire_and_no_filetype_plugins_run(rig: Workstation) -> None:
    path = await rig.opened("hello.lua", "return 1\n")
    await rig.person.lua(
        """
        Fired = {}
        vim.api.nvim_create_autocmd(
          { 'BufReadPost', 'BufNewFile', 'BufReadCmd', 'FileType', 'BufWritePre', 'BufWritePost', 'BufAdd', 'BufEnter' },
          { callback = function(args) table.insert(Fired, args.event .. ' ' .. args.match) end })
        """
    )
    await rig.shows(proposal(path, "return 1\n", "return 2\n"))
    assert await rig.person.lua("return { vim.bo.syntax, vim.bo.filetype, vim.bo.swapfile, vim.bo.buflisted }") == [
        "lua", "", False, False,
    ]  # fmt: skip
    await rig.person.types(":w<CR>")
    await rig.decided()
    assert await rig.person.lua("return Fired") == []


async def test_a_file_that_is_not_open_has_syntax_colors(rig: Workstation) -> None:
    await rig.shows(proposal(rig.folder / "new.c", "", "int x;\n"))
    assert await rig.person.lua("return { vim.bo.syntax, vim.bo.filetype }") == ["c", ""]


async def test_a_text_that_cannot_be_shown_opens_nothing(rig: Workstation) -> None:
    """The proposal is refused with an ``UnusableFile``."""
    path = await rig.opened("hello.txt", OLD)
    before = await rig.picture()
    for text in ("nul \0\n", "lone \ud800\n"):
        with pytest.raises(UnusableFile, match=r"The .* text"):
            await rig.editor.show(proposal(path, OLD, text))
    assert await rig.picture() == before
    assert await rig.person.lua(PENDING) == 0


async def test_code_is_shown_as_an_editable_text(rig: Workstation) -> None:
    await rig.shows(proposal("", "", "print(1)\n", kind="code", title="Run this code?"))
    assert "Run this code?" in await rig.person.lua("return require('drawbridge.view.bar').line()")
    await rig.person.types("A + 1<Esc>:w<CR>")
    assert await rig.decided() == Accepted("print(1) + 1\n")


async def test_undo_does_not_empty_the_proposed_text(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types("ddu:earlier 1f<CR>u")
    assert await rig.person.lines() == NEW.splitlines()
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(NEW)


async def test_user_autocommands_run_when_views_open_and_close(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.person.lua(
        """
        Heard = {}
        vim.api.nvim_create_autocmd('User', { pattern = 'Drawbridge*', callback = function(args)
          local event = vim.g.drawbridge_event
          assert(vim.fn.has('nvim-0.8') == 0 or vim.deep_equal(args.data.id, event.id))
          table.insert(Heard, { args.match, event.path, event.decision or '' })
        end })
        """
    )
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types(":w<CR>")
    await rig.decided()
    assert await rig.person.lua("return Heard") == [
        ["DrawbridgeDiffOpened", str(path), ""],
        ["DrawbridgeDiffClosed", str(path), "accepted"],
    ]


@pytest.mark.parametrize("many", [2])
async def test_the_next_proposal_waits_while_one_is_shown(rig: Workstation, many: int) -> None:
    first, second = await rig.opened("a.txt", OLD), rig.file("b.txt", OLD)
    await rig.shows(proposal(first, OLD, NEW, id="1"))
    await rig.editor.show(proposal(second, OLD, "second\n", id="2"))
    pending = await rig.person.lua("return require('drawbridge.review').pending()")
    assert [(one["id"], one["shown"]) for one in pending] == [("1", True), ("2", False)]
    assert await rig.person.lines() == NEW.splitlines()
    await rig.person.types(":w<CR>")
    await rig.person.until("return vim.fn.getline(1) == 'second'")
    await rig.person.types(":q<CR>")
    await settled(lambda: len(rig.decisions) == many, "both decisions")
    assert rig.decisions == [("1", Accepted(NEW)), ("2", Rejected())]


async def test_a_proposal_under_the_cursor_precedes_the_newest(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW, id="1"))
    await rig.person.lua("vim.cmd('tabfirst')")
    await rig.shows(proposal(path, OLD, "second\n", id="2"))
    await rig.person.lua("vim.cmd('tabfirst')")
    await rig.shows(proposal(path, OLD, "third\n", id="3"))
    await rig.person.lua(
        """
        for _, window in ipairs(vim.api.nvim_list_wins()) do
          if vim.fn.getbufline(vim.api.nvim_win_get_buf(window), 1)[1] == 'second' then
            vim.api.nvim_set_current_win(window)
          end
        end
        """
    )
    assert await rig.person.lines() == ["second"]
    await rig.person.lua("require('drawbridge.review').reject()")
    await settled(lambda: len(rig.decisions) == 1, "a decision")
    for number in (2, 3):
        await rig.person.lua("vim.cmd('tabfirst') require('drawbridge.review').accept()")
        await settled(lambda number=number: len(rig.decisions) == number, "the next decision")  # type: ignore[misc]
    assert rig.decisions == [("2", Rejected()), ("3", Accepted("third\n")), ("1", Accepted(NEW))]


async def test_accepting_an_unseen_proposal_opens_it_first(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.options("{ idle_ms = 60000 }")
    await rig.person.types("j")
    await rig.editor.show(proposal(path, OLD, NEW))
    assert await rig.person.lua("return require('drawbridge.review').accept()") is False
    assert await rig.person.lines() == NEW.splitlines()
    assert rig.decisions == []
    assert await rig.person.lua("return require('drawbridge.review').accept()") is True
    assert await rig.decided() == Accepted(NEW)


async def test_a_proposal_that_was_not_shown_cannot_be_rejected(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.options("{ idle_ms = 60000 }")
    await rig.person.types("j")
    await rig.editor.show(proposal(path, OLD, NEW))
    await rig.person.types(":DrawbridgeReject<CR>")
    await rig.person.until("return vim.fn.execute('messages'):find('DrawbridgeReject')")
    assert "no proposal is shown; open one with :DrawbridgeReview" in await rig.person.messages()
    assert await rig.person.lua(PENDING) == 1
    assert rig.decisions == []
    await rig.person.types(":DrawbridgeReview<CR>:DrawbridgeReject<CR>")
    assert await rig.decided() == Rejected()


@pytest.mark.parametrize("deleting", [":%bdelete<CR>", ":%bwipeout!<CR>"])
async def test_deleting_the_buffer_of_a_waiting_proposal_rejects_it(rig: Workstation, deleting: str) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.options("{ idle_ms = 60000 }")
    await rig.person.types("j")
    await rig.editor.show(proposal(path, OLD, NEW))
    await rig.person.types(deleting)
    assert await rig.decided() == Rejected()
    assert await rig.person.lua(PENDING) == 0
    await rig.person.until("return vim.fn.execute('messages'):find('rejected: a.txt; its buffer was deleted', 1, true)")
    await rig.person.types(":DrawbridgeAccept<CR>")
    await rig.person.until("return vim.fn.execute('messages'):find(':DrawbridgeAccept: no proposal is waiting')")


@pytest.mark.parametrize("is_open", [True, False])
async def test_deleting_the_current_text_rejects_a_shown_proposal(rig: Workstation, is_open: bool) -> None:
    """If the file is open, the view shows the user's own buffer instead, but needs the text when it is shown again."""
    path = await rig.opened("a.txt", OLD) if is_open else rig.file("a.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.lua("vim.cmd('bdelete ' .. vim.fn.bufnr('a.txt (now)'))")
    assert await rig.decided() == Rejected()
    assert await rig.person.lua(PENDING) == 0


@pytest.mark.parametrize("is_open", [True, False])
async def test_another_file_in_the_left_window_decides_nothing(rig: Workstation, is_open: bool) -> None:
    """``:x`` then shows the proposal again, because some of its changes have not been visible."""
    new = NEW + "more\n" * 100
    path = await rig.opened("a.txt", OLD) if is_open else rig.file("a.txt", OLD)
    await rig.shows(proposal(path, OLD, new))
    await rig.person.types("<C-w>h:edit other.txt<CR><C-w>l:x<CR>")
    await rig.person.until("return vim.fn.execute('messages'):find('not shown yet')")
    await rig.quiet()
    assert rig.decisions == []
    await rig.person.types(":w!<CR>")
    assert await rig.decided() == Accepted(new)


async def test_q_does_not_discard_an_edited_proposal(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types("x:q<CR>")
    await rig.quiet()
    assert rig.decisions == []
    assert "E37" in await rig.person.messages()
    await rig.person.types(":q!<CR>")
    assert await rig.decided() == Rejected()


async def test_the_users_own_winbar_is_restored(rig: Workstation) -> None:
    """In a Neovim without a window bar, this applies to the status line."""
    path = await rig.opened("a.txt", OLD)
    option = await rig.person.lua("return vim.fn.exists('+winbar') == 1 and 'winbar' or 'statusline'")
    own = f"return vim.api.nvim_get_option_value('{option}', {{ scope = 'local' }})"
    for global_value, local_value in (("global", ""), ("global", "mine"), ("", "")):
        await rig.person.lua(f"vim.go.{option}, vim.wo.{option} = ...", global_value, local_value)
        await laid_out(rig, "vertical", "current")
        before = await rig.person.lua(own)
        await rig.shows(proposal(path, OLD, NEW))
        await rig.person.types(":q<CR>")
        await rig.decided()
        assert await rig.person.lua(own) == before


async def test_a_withdrawal_leaves_the_users_other_tab_page_alone(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.lua("vim.cmd('tabnew') vim.cmd('split')")
    await rig.person.types("itext")
    before = await rig.person.lua("return { vim.api.nvim_get_current_win(), vim.fn.winlayout(), vim.fn.mode() }")
    await rig.editor.withdraw("1")
    await rig.person.types(" more")
    after = await rig.person.lua("return { vim.api.nvim_get_current_win(), vim.fn.winlayout(), vim.fn.mode() }")
    assert after == before
    assert await rig.person.lines() == ["text more"]


async def test_quitting_neovim_is_not_a_decision(rig: Workstation) -> None:
    path = await rig.opened("a.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))
    await rig.person.types(":qa!<CR>")
    await settled(lambda: bool(rig.events) and type(rig.events[-1]).__name__ == "Gone", "the end")
    await asyncio.sleep(0)
    assert rig.decisions == []


def test_the_configuration_has_every_tested_layout() -> None:
    config = Path(__file__).parents[3] / "lua" / "drawbridge" / "config.lua"
    assert all(f"'{layout}'" in config.read_text() for layout in LAYOUTS)
