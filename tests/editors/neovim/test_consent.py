"""Only a plain write in the proposal's own window, typed or by a mapped key, counts as the user's consent."""

from __future__ import annotations

import pytest

from drawbridge.editors.port import Accepted, Rejected
from tests.nvim.rig import Workstation, proposal, settled

OLD = "one\ntwo\nthree\n"
NEW = "one\nTWO\nthree\nfour\n"
EDITED = "ONE\nTWO\nthree\nfour\n"

MAPPINGS = """
vim.g.mapleader = ' '
vim.cmd([[
  nnoremap <leader>w :w<CR>
  nnoremap <C-s> :update<CR>
  inoremap <C-s> <Esc>:w<CR>
  nnoremap <leader>c <Cmd>w<CR>
  nnoremap <leader>C <Cmd>wa<CR>
  nnoremap <leader>f :call Save()<CR>
  cnoreabbrev W w
  command! Save write
  function! Save() abort
    write
  endfunction
]])
vim.keymap.set('n', '<leader>l', function() vim.cmd('write') end)
"""

AUTOSAVES = {
    "an autosave in Lua": """
        vim.api.nvim_create_autocmd({ 'InsertLeave', 'TextChanged' }, { nested = true, callback = function()
          vim.cmd('silent! write')
        end })""",
    "an autosave of all": """
        vim.api.nvim_create_autocmd({ 'InsertLeave', 'TextChanged' }, { nested = true, command = 'silent! wall' })""",
    "an autosave in Vimscript": "vim.cmd('autocmd InsertLeave,TextChanged * ++nested silent! update')",
    "a timer": """
        vim.api.nvim_create_autocmd('TextChanged', { callback = function()
          vim.defer_fn(function() vim.cmd('silent! write') end, 1)
        end })""",
    "a timer in Vimscript": "vim.cmd([[autocmd TextChanged * call timer_start(1, {-> execute('silent! write')})]])",
}


async def shown(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.shows(proposal(path, OLD, NEW))


async def is_undecided(rig: Workstation) -> bool:
    await rig.quiet()
    return not rig.decisions and await rig.person.lua("return #require('drawbridge.review').pending()") == 1


OWN_WRITES = [
    ":w<CR>",
    ":write<CR>",
    ":w!<CR>",
    ": silent  w<CR>",
    ":wq<CR>",
    ":x<CR>",
    ":exit<CR>",
    "ZZ",
    ":up<CR>",
    ":W<CR>",
    "<Space>w",
    "<C-s>",
    "i<C-s>",
    "i<C-o>:w<CR>",
]


@pytest.mark.parametrize("edit", [False, True], ids=["as proposed", "edited"])
async def test_a_write_by_the_user_accepts(rig: Workstation, edit: bool) -> None:
    await rig.person.lua(MAPPINGS)
    for keys in OWN_WRITES:
        await shown(rig)
        if edit:
            await rig.person.types("ggcwONE<Esc>")
        await rig.person.types(keys)
        assert await rig.decided() == Accepted(EDITED if edit else NEW), keys
        await rig.person.types("<Esc>")
        assert "E" not in await rig.person.messages(), keys


async def test_a_cmd_mapping_accepts_if_neovim_reports_its_keys(rig: Workstation) -> None:
    """Neovim before version 0.10 does not report them: there, a message names ``:DrawbridgeAccept`` instead."""
    await shown(rig)
    await rig.person.lua(MAPPINGS)
    await rig.person.types("<Space>c")
    if await rig.person.lua("return vim.fn.has('nvim-0.10') == 1"):
        assert await rig.decided() == Accepted(NEW)
    else:
        assert await is_undecided(rig)
        assert ":DrawbridgeAccept" in await rig.person.messages()


OTHER_WRITES = [
    ":wa<CR>",
    ":wall<CR>",
    ":1,2w!<CR>",
    ":windo w<CR>",
    ":w|echo 1<CR>",
    ":Save<CR>",
    "<Space>f",
    "<Space>l",
    "<Space>C",
]


async def test_other_kinds_of_writes_show_how_to_accept_instead(rig: Workstation) -> None:
    await rig.person.lua(MAPPINGS)
    await shown(rig)
    await rig.person.types("ggcwONE<Esc>")
    for keys in OTHER_WRITES:
        await rig.person.types(":messages clear<CR>" + keys)
        assert await is_undecided(rig), keys
        assert ":DrawbridgeAccept" in await rig.person.messages(), keys
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(EDITED)


@pytest.mark.parametrize("kind", AUTOSAVES)
async def test_a_save_by_a_plugin_is_not_consent(rig: Workstation, kind: str) -> None:
    await rig.person.lua(AUTOSAVES[kind])
    await shown(rig)
    await rig.person.types("ggcwONE<Esc>")
    await rig.person.types("j0x")
    await rig.person.until("return vim.fn.getline(2) == 'WO'")
    await rig.person.lua("vim.cmd('doautocmd TextChanged')")
    assert await is_undecided(rig)
    assert (await rig.person.messages()).count("DrawbridgeAccept") <= 1
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted("ONE\nWO\nthree\nfour\n")


async def test_a_write_by_another_program_is_not_consent(rig: Workstation) -> None:
    await shown(rig)
    await rig.person.call("nvim_command", "write")
    assert await is_undecided(rig)


async def test_a_write_in_the_other_window_only_saves_the_file(rig: Workstation) -> None:
    await shown(rig)
    await rig.person.types("<C-w>hggOmine<Esc>:w<CR>")
    assert await is_undecided(rig)
    assert (rig.folder / "hello.txt").read_text() == "mine\n" + OLD


async def test_writing_to_another_file_saves_only_a_copy(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.shows(proposal(path, OLD, "no newline\r\nat the end"))
    await rig.person.types(f":w {rig.folder}/copy.txt<CR>")
    assert await is_undecided(rig)
    assert (rig.folder / "copy.txt").read_bytes() == b"no newline\r\nat the end"


async def test_accepting_by_write_can_be_disabled(rig: Workstation) -> None:
    await rig.options("{ allow_w_to_accept = false }")
    await shown(rig)
    for keys in (":w<CR>", ":up<CR>"):
        await rig.person.types(keys)
        assert await is_undecided(rig)
        assert "use :DrawbridgeAccept" in await rig.person.messages()
    await rig.person.lua("require('drawbridge.review').accept()")
    assert await rig.decided() == Accepted(NEW)


async def test_zz_rejects_if_accepting_by_write_is_disabled(rig: Workstation) -> None:
    await rig.options("{ allow_w_to_accept = false }")
    await shown(rig)
    await rig.person.types("ZZ")
    assert await rig.decided() == Rejected()


async def test_an_abandoned_command_line_is_not_consent(rig: Workstation) -> None:
    await shown(rig)
    await rig.person.types(":w<Esc>")
    await rig.person.types(":q<CR>")
    assert await rig.decided() == Rejected()


async def test_a_write_before_the_proposal_does_not_accept_it(rig: Workstation) -> None:
    path = await rig.opened("hello.txt", OLD)
    await rig.person.types("x:w<CR>")
    await settled(lambda: path.read_text() != OLD, "the write")
    await rig.shows(proposal(path, path.read_text(), NEW))
    await rig.person.types(":q<CR>")
    assert await rig.decided() == Rejected()
