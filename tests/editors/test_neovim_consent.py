"""What counts as the person's word: a plain write that they typed in the proposal's own window, and nothing else."""

from __future__ import annotations

import pytest

from drawbridge.editors.port import Accepted, Rejected
from tests.nvim.rig import Desk, proposal, settled

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


async def shown(desk: Desk) -> None:
    path = await desk.opened("hello.txt", OLD)
    await desk.shows(proposal(path, OLD, NEW))


async def is_undecided(desk: Desk) -> bool:
    await desk.quiet()
    return not desk.decisions and await desk.person.lua("return #require('drawbridge.review').pending()") == 1


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
async def test_a_write_of_the_person_accepts(desk: Desk, edit: bool) -> None:
    await desk.person.lua(MAPPINGS)
    for keys in OWN_WRITES:
        await shown(desk)
        if edit:
            await desk.person.types("ggcwONE<Esc>")
        await desk.person.types(keys)
        assert await desk.decided() == Accepted(EDITED if edit else NEW), keys
        await desk.person.types("<Esc>")
        assert "E" not in await desk.person.messages(), keys


async def test_a_mapping_that_runs_the_command_at_once_accepts_where_neovim_tells_the_keys(desk: Desk) -> None:
    await shown(desk)
    await desk.person.lua(MAPPINGS)
    await desk.person.types("<Space>c")
    if await desk.person.lua("return vim.fn.has('nvim-0.10') == 1"):
        assert await desk.decided() == Accepted(NEW)
    else:
        assert await is_undecided(desk)
        assert ":DrawbridgeAccept" in await desk.person.messages()


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


async def test_another_kind_of_write_does_not_and_says_how(desk: Desk) -> None:
    await desk.person.lua(MAPPINGS)
    await shown(desk)
    await desk.person.types("ggcwONE<Esc>")
    for keys in OTHER_WRITES:
        await desk.person.types(":messages clear<CR>" + keys)
        assert await is_undecided(desk), keys
        assert ":DrawbridgeAccept" in await desk.person.messages(), keys
    await desk.person.types(":w<CR>")
    assert await desk.decided() == Accepted(EDITED)


@pytest.mark.parametrize("kind", AUTOSAVES)
async def test_a_save_by_a_plugin_is_no_consent(desk: Desk, kind: str) -> None:
    await desk.person.lua(AUTOSAVES[kind])
    await shown(desk)
    await desk.person.types("ggcwONE<Esc>")
    await desk.person.types("j0x")
    await desk.person.until("return vim.fn.getline(2) == 'WO'")
    await desk.person.lua("vim.cmd('doautocmd TextChanged')")
    assert await is_undecided(desk)
    assert (await desk.person.messages()).count("DrawbridgeAccept") <= 1
    await desk.person.types(":w<CR>")
    assert await desk.decided() == Accepted("ONE\nWO\nthree\nfour\n")


async def test_another_programs_write_is_no_consent(desk: Desk) -> None:
    await shown(desk)
    await desk.person.call("nvim_command", "write")
    assert await is_undecided(desk)


async def test_a_write_in_the_other_window_is_of_the_file_not_of_the_proposal(desk: Desk) -> None:
    await shown(desk)
    await desk.person.types("<C-w>hggOmine<Esc>:w<CR>")
    assert await is_undecided(desk)
    assert (desk.folder / "hello.txt").read_text() == "mine\n" + OLD


async def test_a_copy_written_elsewhere_is_a_copy(desk: Desk) -> None:
    path = await desk.opened("hello.txt", OLD)
    await desk.shows(proposal(path, OLD, "no newline\r\nat the end"))
    await desk.person.types(f":w {desk.folder}/copy.txt<CR>")
    assert await is_undecided(desk)
    assert (desk.folder / "copy.txt").read_bytes() == b"no newline\r\nat the end"


async def test_write_can_be_switched_off(desk: Desk) -> None:
    await desk.options("{ allow_w_to_accept = false }")
    await shown(desk)
    for keys in (":w<CR>", ":up<CR>"):
        await desk.person.types(keys)
        assert await is_undecided(desk)
        assert ":DrawbridgeAccept does" in await desk.person.messages()
    await desk.person.lua("require('drawbridge.review').accept()")
    assert await desk.decided() == Accepted(NEW)


async def test_leaving_with_write_switched_off_rejects(desk: Desk) -> None:
    await desk.options("{ allow_w_to_accept = false }")
    await shown(desk)
    await desk.person.types("ZZ")
    assert await desk.decided() == Rejected()


async def test_an_abandoned_command_line_is_no_consent(desk: Desk) -> None:
    await shown(desk)
    await desk.person.types(":w<Esc>")
    await desk.person.types(":q<CR>")
    assert await desk.decided() == Rejected()


async def test_a_write_meant_for_another_file_does_not_accept_a_view_that_comes_later(desk: Desk) -> None:
    path = await desk.opened("hello.txt", OLD)
    await desk.person.types("x:w<CR>")
    await settled(lambda: path.read_text() != OLD, "the write")
    await desk.shows(proposal(path, path.read_text(), NEW))
    await desk.person.types(":q<CR>")
    assert await desk.decided() == Rejected()
