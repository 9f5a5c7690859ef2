"""`save_buffer` saves as the user would, or returns a reason. Neovim never shows a prompt, and no newer file is lost."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from tests.guard.lua.rig import Workstation, workstation


async def refused(at: Workstation, path: Path, reason: str) -> None:
    content = path.read_bytes() if path.is_file() else None
    before = await at.text(path)

    answer = await at.asks("save_buffer", file_path=path)

    assert answer == {"saved": False, "reason": reason}
    assert (path.read_bytes() if path.is_file() else None) == content
    assert await at.text(path) == before
    assert await at.mode() == "n"
    assert await at.person.messages() == ""


async def test_unsaved_work_is_saved(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")

    assert await at.asks("save_buffer", file_path=path) == {"saved": True}

    assert path.read_text() == "one\nmine\n"
    assert not await at.modified()
    assert (await at.mode(), await at.person.messages()) == ("n", "")


async def test_an_unmodified_buffer_is_not_written(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.ex("autocmd BufWritePre * throw 'no'")

    assert await at.asks("save_buffer", file_path=path) == {"saved": True}


async def test_a_hidden_buffer_is_saved(at: Workstation) -> None:
    await at.ex("set hidden")
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    await at.ex("edit b.py")

    assert await at.asks("save_buffer", file_path=path) == {"saved": True}

    assert path.read_text() == "one\nmine\n"
    assert await at.person.lua("return vim.fn.expand('%')") == "b.py"


async def test_a_new_file_is_saved(at: Workstation) -> None:
    await at.ex("edit new.py")
    await at.keys("imine<Esc>")

    assert await at.asks("save_buffer", file_path=at.folder / "new.py") == {"saved": True}

    assert (at.folder / "new.py").read_text() == "mine\n"


async def test_the_users_format_on_save_runs(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.ex("autocmd BufWritePre * silent %s/mine/formatted/e")
    await at.ex("autocmd BufWritePost * let g:written = expand('<afile>:t')")
    await at.keys("omine<Esc>")

    assert await at.asks("save_buffer", file_path=path) == {"saved": True}

    assert path.read_text() == "one\nformatted\n"
    assert await at.person.lua("return vim.g.written") == "a.py"


async def test_saving_works_in_insert_mode(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.keys("Atyped")
    await at.waits_for_mode("i")

    assert await at.asks("save_buffer", file_path=path) == {"saved": True}

    assert path.read_text() == "onetyped\n"
    assert await at.mode() == "i"
    await at.keys(" on<Esc>")
    assert await at.text() == ["onetyped on"]


NEWER = "the file has changed on disk since it was read"


async def test_a_newer_file_on_disk_is_not_overwritten(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    await at.asks("snapshot", paths=[])
    path.write_text("agent's\n")

    await refused(at, path, NEWER)


async def test_a_newer_file_is_not_overwritten_after_an_earlier_save(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.asks("snapshot", paths=[])
    await at.ex("call append(1, 'mine') | silent write | call append(2, 'more')")
    path.write_text("agent's\n")

    await refused(at, path, NEWER)


async def test_the_first_request_does_not_overwrite_a_newer_file(at: Workstation) -> None:
    """None of our code has run in this Neovim before, so only Neovim itself knows what it read."""
    path = await at.opened("a.py", "one\n")
    path.write_text("agent's\n")
    await at.ex("call append(1, 'mine')")

    await refused(at, path, NEWER)


async def test_a_new_buffer_does_not_overwrite_an_existing_file(at: Workstation) -> None:
    await at.ex("edit new.py")
    await at.keys("imine<Esc>")
    path = at.file("new.py", "agent's\n")

    await refused(at, path, NEWER)


async def test_neovim_still_warns_after_a_refused_save(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    path.write_text("agent's\n")
    await at.ex("call append(1, 'mine')")
    await refused(at, path, NEWER)

    await at.person.types(":w<CR>")
    await at.waits_for_mode("r?")
    await at.person.types("n<CR>")
    await at.waits_for_mode("n")

    assert path.read_text() == "agent's\n"
    assert await at.modified()


async def test_nothing_is_saved_if_filechangedshell_would_run(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.keys("omine<Esc>")
    await at.ex("autocmd FileChangedShell * let g:asked = 1")

    await refused(at, path, "the file may have changed since it was read")

    assert await at.person.lua("return vim.g.asked") is None
    await at.ex("silent write")
    await at.keys("omore<Esc>")
    assert await at.asks("save_buffer", file_path=path) == {"saved": True}


async def test_the_first_request_can_be_a_save(at: Workstation) -> None:
    path = await at.opened("a.py", "one\n")
    await at.ex("set confirm")
    await at.keys("omine<Esc>")

    assert await at.asks("save_buffer", file_path=path) == {"saved": True}
    await at.keys("omore<Esc>")
    assert await at.asks("save_buffer", file_path=path) == {"saved": True}
    assert path.read_text() == "one\nmine\nmore\n"
    assert await at.person.lua("return vim.o.confirm") is True


CHANGED_AS_A_SECOND_BEGINS = """
local path = ...
local clock = (vim.uv or vim.loop).gettimeofday
local second = clock()
repeat until clock() > second
local file = io.open(path, 'w')
file:write('one\\n')
file:close()
vim.cmd('edit ' .. vim.fn.fnameescape(path))
vim.api.nvim_buf_set_lines(0, 1, 1, false, { 'mine' })
"""


async def test_a_change_right_after_the_file_was_written_is_saved(at: Workstation) -> None:
    """A file's time is exact, but Neovim dates a change by the last clock tick, here in the previous second."""
    await at.opened("b.py")  # the first file of a type takes longer to open than a clock tick
    path = at.folder / "a.py"
    await at.person.lua(CHANGED_AS_A_SECOND_BEGINS, str(path))

    assert await at.asks("save_buffer", file_path=path) == {"saved": True}
    assert path.read_text() == "one\nmine\n"


async def test_a_read_only_buffer_is_not_saved(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.ex("call append(1, 'mine') | setlocal readonly")

    await refused(at, path, "its buffer is read-only")


async def test_a_file_in_a_missing_directory_is_not_saved(at: Workstation) -> None:
    await at.ex("edit gone/a.py")
    await at.keys("imine<Esc>")

    await refused(at, at.folder / "gone/a.py", "the directory of the file does not exist")


async def test_a_file_that_became_a_directory_is_not_saved(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.keys("x")
    path.unlink()
    path.mkdir()

    answer = await at.asks("save_buffer", file_path=path)

    assert answer["saved"] is False
    assert path.is_dir()
    assert await at.mode() == "n"


async def test_a_file_without_write_permission_is_not_saved(program: Path, tmp_path: Path) -> None:
    async with workstation(without_root_privileges(program, tmp_path), tmp_path) as at:
        path = await at.opened("a.py")
        path.chmod(0o444)
        await at.ex("setlocal noreadonly")
        await at.keys("x")

        await refused(at, path, "the file is not writable")


def without_root_privileges(program: Path, folder: Path) -> Path:
    """Returns a program that runs Neovim so that file modes apply to it even if the tests run as root."""
    if os.geteuid() != 0:
        return program
    wrapped = folder / "nvim-under-the-rules"
    wrapped.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-dac_override -- {shlex.quote(str(program))} "$@"\n')
    wrapped.chmod(0o755)
    return wrapped


async def test_a_failed_save_returns_neovims_error_message(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.keys("x")
    await at.ex("set nowrite")

    await refused(at, path, "E142: File not written: Writing is disabled by 'write' option")


async def test_a_failed_save_returns_the_formatters_error(at: Workstation) -> None:
    path = await at.opened("a.py")
    await at.ex("autocmd BufWritePre * call No_such_function()")
    await at.keys("x")

    await refused(at, path, "E117: Unknown function: No_such_function")


async def test_a_buffer_that_a_plugin_saves_is_not_saved(at: Workstation) -> None:
    path = await at.opened("a.secret")
    await at.ex("autocmd BufWriteCmd *.secret let g:written = 1")
    await at.keys("x")

    await refused(at, path, "a plugin, not Neovim, reads or writes the file")
    assert await at.person.lua("return vim.g.written") is None


async def test_a_file_that_is_not_open_is_not_saved(at: Workstation) -> None:
    assert await at.asks("save_buffer", file_path=at.file("a.py")) == {"saved": False, "reason": "the file is not open"}
