"""A busy Neovim may or may not answer, but a request never disturbs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guard.lua.rig import QUICK, Workstation
from tests.nvim.rig import on_screen

STATES = {
    "insert mode": ("A", "i", "<Esc>"),
    "replace mode": ("R", "R", "<Esc>"),
    "visual mode": ("v", "v", "<Esc>"),
    "an operator": ("d", "no", "<Esc>"),
    "a command line": (":echo", "c", "<C-c>"),
    "a search": ("/o", "c", "<C-c>"),
    "a completion": ("A <C-n>", "ic", "<Esc>"),
    "the command-line window": ("q:", "n", ":quit<CR>"),
    "input()": (":call input('name? ')<CR>", "c", "<C-c>"),
}


@pytest.mark.parametrize(("keys", "mode", "out"), STATES.values(), ids=STATES)
async def test_requests_are_answered_without_disturbing_the_user(
    at: Workstation, keys: str, mode: str, out: str
) -> None:
    """The user may be in insert mode, in a search, at ``input()`` and so on."""
    await at.ex("set hidden")
    clean = await at.opened("clean.py", "one\ntwo\n")
    path = await at.opened("a.py", "one\ntwo\n")
    await at.ex("call append(0, 'mine')")
    await at.person.types(keys)
    await at.waits_for_mode(mode)
    clean.write_text("new\n")

    stands = await at.state_of(path)
    answer = await at.asks("refresh_buffer", file_path=clean)
    await at.asks("send_message", message="hello")

    assert (stands["modified"], stands["current"]) == (True, True)
    assert [file["name"] for file in answer["reloaded"]] == [str(clean)]
    assert await at.mode() == mode
    await at.person.types(out)
    await at.waits_for_mode("n")
    assert await at.text(clean) == ["new"]
    assert await at.text(path) == ["mine", "one", "two"] or mode == "ic"


WAITS = {
    "press enter": (":echo 1 | echo 2<CR>", "<CR>"),
    "confirm": (":call confirm('really?')<CR>", "<CR>"),
    "getchar": (":call getchar()<CR>", "x"),
    "the second key of a command": ('"', "<Esc>"),
    "sleep": (":sleep 300m<CR>", ""),
}


@pytest.mark.parametrize(("keys", "out"), WAITS.values(), ids=WAITS)
async def test_requests_do_not_disturb_a_neovim_that_waits_for_a_key(
    program: Path, tmp_path: Path, keys: str, out: str
) -> None:
    """The guard does not wait for long, so Neovim may answer in time, later or not at all."""
    path = tmp_path / "a.py"
    path.write_text("one\n")
    async with on_screen(program, *QUICK, "a.py", cwd=tmp_path) as (person, _):
        at = Workstation(person, tmp_path, program)
        await person.types(keys)
        path.write_text("two\n")

        for method in ("snapshot", "refresh_buffer", "send_message"):
            await at.asks_unsure(method, milliseconds=50, paths=[str(path)], message="hello", file_path=path)

        await person.types(out)
        await at.waits_for_mode("n")
        await at.asks("refresh_buffer", file_path=path)
        stands = await at.state_of(path)
        assert (stands["modified"], stands["lines"]) == (False, 1)
        await at.keys("ggItyped <Esc>")
        await person.until("return vim.fn.getline(1) == 'typed two'")


async def test_a_pending_global_command_is_not_disturbed(at: Workstation) -> None:
    """`:global` works on lines that it marked. The command waits at each line, so that requests can arrive."""
    path = await at.opened("a.py", "".join(f"{number}\n" for number in range(1, 41)))
    other = await at.opened("other.py", "one\n")
    await at.person.edits(path)
    other.write_text("two\n")
    await at.person.types(":global/[05]$/lua vim.wait(10) vim.cmd('normal! dd')<CR>")
    await at.asks("snapshot", paths=[str(path)])
    await at.asks("refresh_buffer", file_path=other)

    await at.person.until("return vim.fn.line('$') == 32")
    assert await at.text() == [str(number) for number in range(1, 41) if number % 5]
    assert await at.text(other) == ["two"]
