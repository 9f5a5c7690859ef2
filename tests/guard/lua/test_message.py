"""`send_message`: a one-line notice that never waits for a key, whatever it contains and whatever the user does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guard.lua.rig import QUICK, Workstation, workstation
from tests.nvim.rig import on_screen

SENT = {"success": True}


async def is_shown(at: Workstation, text: str) -> None:
    await at.person.until("return vim.fn.execute('messages'):find(..., 1, true) ~= nil", text)


async def test_a_notice_is_shown_as_a_warning(at: Workstation) -> None:
    await at.person.lua("_G.notices = {} vim.notify = function(text, level) table.insert(notices, { text, level }) end")

    assert await at.asks("send_message", message="Claude Code wants to change a.py") == SENT

    await at.person.until("return #notices > 0")
    assert await at.person.lua("return { notices, vim.log.levels.WARN }") == [
        [["Claude Code wants to change a.py", 3]],
        3,
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a \"quoted\" \\n back\\slash and 'this' %s ]] --[[", "a \"quoted\" \\n back\\slash and 'this' %s ]] --[["),
        ("first\nsecond\r\n  third\n", "first second third"),
        ("a | echo 'no' | \x1b<CR>", "a | echo 'no' | ^[<CR>"),
        ("日本語 é \U0001f600", "日本語 é \U0001f600"),
    ],
)
async def test_a_message_may_contain_anything(at: Workstation, text: str, shown: str) -> None:
    assert await at.asks("send_message", message=text) == SENT

    await is_shown(at, shown)
    assert await at.mode() == "n"


async def test_a_notice_is_shown_only_where_its_file_is_open(at: Workstation) -> None:
    path = await at.opened("a.py")

    assert await at.asks("send_message", message="about b", file_path=at.file("b.py")) == SENT
    assert await at.asks("send_message", message="about a", file_path=path) == SENT

    await is_shown(at, "about a")
    assert "about b" not in await at.person.messages()


async def test_an_error_in_the_users_notify_function_is_harmless(at: Workstation) -> None:
    await at.person.lua("vim.notify = function() error('no') end")

    assert await at.asks("send_message", message="hello") == SENT

    assert (await at.asks("snapshot", paths=[]))["files"] == []


# On a real screen, where Neovim would ask for ENTER.


@pytest.mark.parametrize(
    "options", ["", "set cmdheight=2", "silent! set cmdheight=0", "set laststatus=0 noruler noshowcmd"]
)
async def test_long_or_many_messages_never_wait_for_enter(program: Path, tmp_path: Path, options: str) -> None:
    (tmp_path / "a.py").write_text("one\n")
    async with on_screen(program, *QUICK, "-c", options or "echo", "a.py", cwd=tmp_path, columns=60, rows=12) as (
        person,
        pane,
    ):
        at = Workstation(person, tmp_path, program)
        for length in (10, 40, 47, 48, 49, 50, 58, 59, 60, 61, 300, 3_000):
            assert await at.asks("send_message", message=f"{length} " + "x" * (length - 3)) == SENT
            assert await at.asks("send_message", message="日" * length) == SENT
        await is_shown(at, "3000 xx")
        await at.asks("send_message", message="the last one")
        await is_shown(at, "the last one")

        assert await at.mode() == "n"
        await at.keys("ityped<Esc>")
        await at.person.until("return vim.fn.getline(1) == 'typedone'")
        assert "Press ENTER" not in pane.screen


async def test_a_notice_does_not_disturb_typing(program: Path, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    async with on_screen(program, *QUICK, "a.py", cwd=tmp_path, columns=60, rows=12) as (person, _):
        at = Workstation(person, tmp_path, program)
        await at.keys("i")
        await at.waits_for_mode("i")
        await at.asks("send_message", message="in insert mode " * 20)
        await is_shown(at, "in insert mode")
        await at.keys("typed <Esc>")
        await at.person.until("return vim.fn.getline(1) == 'typed one'")
        await at.keys(":let g:answer = ")
        await at.waits_for_mode("c")
        await at.asks("send_message", message="in a command line " * 20)
        await is_shown(at, "in a command line")
        assert await at.mode() == "c"
        await at.keys("42<CR>")

        await at.person.until("return vim.g.answer == 42")
        assert await at.mode() == "n"


STARTS = """lua
_G.notices = {}
vim.notify = function(text) table.insert(notices, { text, vim.v.vim_did_enter }) end
vim.wait(60000, function() return vim.g.may_enter end, 5)
"""


async def test_a_message_during_startup_is_shown_after_it(program: Path, tmp_path: Path) -> None:
    """A configuration that waits for something answers requests in the meantime."""
    starts = " ".join(STARTS.splitlines())
    async with workstation(program, tmp_path, "-c", starts) as at:
        assert await at.asks("send_message", message="hello") == SENT
        assert await at.person.lua("return { vim.v.vim_did_enter, #notices }") == [0, 0]

        await at.person.lua("vim.g.may_enter = true")

        await at.person.until("return notices[1]")
        assert await at.person.lua("return notices") == [["hello", 1]]


async def test_a_message_after_startup_is_shown(at: Workstation) -> None:
    await at.person.lua("_G.notices = {} vim.notify = function(text) table.insert(notices, text) end")
    assert await at.person.lua("return vim.v.vim_did_enter") == 1

    assert await at.asks("send_message", message="hello") == SENT

    await at.person.until("return notices[1] == 'hello'")
