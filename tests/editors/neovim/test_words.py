"""What the user reads: the counts, paths and names of a view, how to answer it, and the outcome."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drawbridge.editors.neovim.neovim import Neovim
from drawbridge.editors.port import Accepted, Rejected
from tests.editors.neovim.test_focus import NEW, OLD, SHOWN, proposes, screen_rig, sees
from tests.nvim.rig import Workstation, on_screen, proposal
from tests.programs import each_nvim


@pytest.mark.parametrize("layout", ["vertical", "horizontal", "inline"])
@pytest.mark.parametrize("program", each_nvim())
async def test_the_counts_follow_edits(program: Path, tmp_path: Path, layout: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options(f"{{ diff = {{ layout = '{layout}' }} }}")
        await proposes(rig)
        await sees(pane, r"\+2 −1")
        await rig.person.types("Gofive<Esc>")
        await sees(pane, r"\+3 −1")
        await rig.person.types("gg:2<CR>:DrawbridgeRejectHunk<CR>")
        await sees(pane, r"\+2 −0")
        if layout != "inline":
            await rig.person.types("Gdo")
            await sees(pane, r"\+0 −0")


@pytest.mark.parametrize("program", each_nvim())
async def test_an_edited_proposal_shows_how_to_reject_it(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await proposes(rig)
        await sees(pane, ":q rejects")
        await rig.person.until(SHOWN)
        await rig.person.types("x")
        await sees(pane, ":q! rejects")
        await rig.person.types(":q!<CR>")
        assert await rig.decided() == Rejected()


@pytest.mark.parametrize(("key", "decision"), [("y", Accepted("one\nWO\nthree\nfour\n")), ("n", Rejected())])
@pytest.mark.parametrize("how", [":confirm q\r", ":confirm close\r", "confirm", "key"])
@pytest.mark.parametrize("program", each_nvim())
async def test_a_yes_to_save_changes_accepts(
    program: Path, tmp_path: Path, how: str, key: str, decision: Accepted | Rejected
) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        if not how.startswith(":"):
            await rig.person.lua("vim.o.confirm = true")
        await proposes(rig)
        await rig.person.until(SHOWN)
        await rig.person.types("x")
        if how == "key":
            await asyncio.to_thread(pane.press, "C-w")
        await asyncio.to_thread(pane.type, {"confirm": ":q\r", "key": "q"}.get(how, how))
        await sees(pane, "Save changes to")
        await asyncio.to_thread(pane.type, key)
        if key == "y" and await rig.person.lua("return vim.fn.has('nvim-0.10') == 0"):
            # This version can't distinguish a Yes from a save by a plugin, so the message shows what to do.
            await rig.person.until("return vim.fn.execute('messages'):find('not accepted: use :w', 1, true) ~= nil")
            assert rig.decisions == []
        else:
            assert await rig.decided() == decision


AUTOSAVE = "vim.cmd('autocmd QuitPre,WinLeave,BufLeave * ++nested silent! write')"


@pytest.mark.parametrize("program", each_nvim())
async def test_a_plugin_that_saves_on_quitting_does_not_accept(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.person.lua(AUTOSAVE + " vim.o.confirm = true")
        await proposes(rig)
        await rig.person.until(SHOWN)
        await rig.person.types("x")
        await asyncio.to_thread(pane.type, ":q\r")
        await sees(pane, "Save changes to")
        await asyncio.to_thread(pane.type, "n")
        assert await rig.decided() == Rejected()


@pytest.mark.parametrize("layout", ["vertical", "inline"])
@pytest.mark.parametrize("program", each_nvim())
async def test_names_are_paths_relative_to_the_project(program: Path, tmp_path: Path, layout: str) -> None:
    for name in ("a", "b"):
        (tmp_path / "src" / name).mkdir(parents=True)
        (tmp_path / "src" / name / "__init__.py").write_text(OLD)
    async with on_screen(program, cwd=tmp_path, rows=20, columns=130) as (person, pane):
        editor = await Neovim.connect(person.address)
        rig = Workstation(person, editor, tmp_path)
        await editor.start(rig.events.append)
        await rig.options(f"{{ diff = {{ layout = '{layout}' }} }}")
        for name in ("a", "b"):
            await rig.shows(proposal(tmp_path / "src" / name / "__init__.py", OLD, NEW, id=name))
            await sees(pane, rf"src/{name}/__init__\.py")
            assert await person.lua("return vim.fn.bufname()") == f"src/{name}/__init__.py (proposal)"
            await person.types(":w<CR>")
            await rig.decided()
        await rig.shows(proposal(tmp_path / "src" / "new.py", "", NEW, id="new"))
        await sees(pane, r"src/new\.py.*new file")
        await person.types(":q<CR>")
        await rig.decided()
        await editor.close()


async def test_proposals_for_odd_file_names_can_be_accepted(rig: Workstation) -> None:
    for name in ("a [1], {x}*?.txt", "we ird\\~$^.txt", "x#%y.txt", "(proposal)"):
        path = await rig.opened(name.replace("*", ""), OLD)
        await rig.shows(proposal(path, OLD, NEW))
        await rig.person.types(":w<CR>")
        assert await rig.decided() == Accepted(NEW), name


@pytest.mark.parametrize("keys", ["<C-w>o", "<C-w>h:q<CR>", "<C-w>h<C-w>o"])
@pytest.mark.parametrize("program", each_nvim())
async def test_a_rejection_by_closing_windows_is_shown(program: Path, tmp_path: Path, keys: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await proposes(rig)
        await rig.person.until(SHOWN)
        await rig.person.types(keys)
        assert await rig.decided() == Rejected()
        await sees(pane, r"rejected: hello\.txt; one of its windows was closed *│")
        assert await rig.person.lua("return vim.tbl_count(vim.api.nvim_list_wins())") == 2, "the file and the notice"


@pytest.mark.thorough
@pytest.mark.parametrize("program", each_nvim())
async def test_the_reason_for_no_diff_is_shown_over_a_terminal(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.person.lua("vim.cmd('botright new') vim.fn.termopen({ 'cat' }) vim.cmd('startinsert')")
        await rig.person.until("return vim.api.nvim_get_mode().mode == 't'")
        words = "No diff: Claude Code's change to app.py conflicts with your unsaved changes."
        await rig.editor.notify(words, "warn")
        await sees(pane, "No diff: Claude Code's change")
        await rig.person.lua("vim.cmd('stopinsert')")
        await rig.person.until("return vim.api.nvim_get_mode().mode ~= 't'")
        await rig.person.types(":DrawbridgeStatus<CR>")
        await sees(pane, r"last +\d\d:\d\d  No diff: Claude Code")
