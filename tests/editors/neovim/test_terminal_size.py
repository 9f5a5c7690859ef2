"""A proposal never changes the size of a terminal, so that the program in it does not need to redraw its screen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from drawbridge.editors.neovim.neovim import Neovim
from tests.nvim.rig import Workstation, on_screen, proposal
from tests.programs import each_nvim

OLD = "one\ntwo\nthree\n"
NEW = "one\nTWO\nthree\nfour\n"

SHOWN = "local p = require('drawbridge.review').pending()[1] return p and p.shown"
GONE = "return #require('drawbridge.review').pending() == 0"

PROGRAM = """
import os, signal, sys, time
def note(*_):
    size = os.get_terminal_size()
    with open(sys.argv[1], "a") as file:
        print(size.columns, size.lines, file=file)
signal.signal(signal.SIGWINCH, note)
note()
while True:
    print("\\r" + "tick", end="", flush=True)
    time.sleep(0.02)
"""
"""Records the size of its terminal when it starts, and each time it receives the signal for a change of size."""

WHERE = {
    "right": "botright vertical split",
    "bottom": "botright split",
    "another tab page": "tab split",
}

TERMINAL = """
local split, words = ...
vim.cmd(split)
vim.cmd('enew')
vim.fn.termopen(words)
vim.cmd('startinsert')
"""


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("open_in", ["tab", "current"])
@pytest.mark.parametrize("where", WHERE)
async def test_a_terminal_keeps_its_size(program: Path, tmp_path: Path, open_in: str, where: str) -> None:
    path, sizes, script = (tmp_path / name for name in ("hello.txt", "sizes", "program.py"))
    path.write_text(OLD)
    script.write_text(PROGRAM)
    async with on_screen(program, str(path), cwd=tmp_path, rows=24, columns=100) as (person, _):
        editor = await Neovim.connect(person.address)
        rig = Workstation(person, editor, tmp_path)
        await person.lua(TERMINAL, WHERE[where], [sys.executable, str(script), str(sizes)])
        await person.until("return vim.fn.getfsize(...) > 0", str(sizes))
        await person.until("return vim.api.nvim_get_mode().mode == 't'")
        await editor.start(rig.events.append)
        await rig.options(f"{{ diff = {{ open_in = '{open_in}' }} }}")
        first = sizes.read_text()
        for number, answer in enumerate([":w<CR>", ":q<CR>", ":DrawbridgeReject<CR>"]):
            await editor.show(proposal(path, OLD, NEW, id=str(number)))
            await person.until(SHOWN)
            await drawn(rig)
            await person.types(answer)
            await person.until(GONE)
            await person.until("return vim.api.nvim_get_mode().mode == 't'")
            await drawn(rig)
        assert sizes.read_text() == first
        assert await person.lua("return vim.o.showtabline") == 1
        await editor.close()


async def drawn(rig: Workstation) -> None:
    """Waits until Neovim has sent new sizes to its terminals, which it does a moment after they change."""
    await rig.person.lua("vim.wait(60) vim.cmd('redraw') vim.wait(60)")
    await rig.quiet()
