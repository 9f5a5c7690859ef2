"""A proposal never intercepts a keystroke: while the user types, only a notice shows that it is waiting. Tested on a
real screen."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from drawbridge.core.errors import EditorHung
from drawbridge.editors.neovim import rpc as neovim_rpc
from drawbridge.editors.neovim.neovim import Neovim
from drawbridge.editors.port import Accepted, Rejected
from tests.nvim.rig import Workstation, on_screen, proposal
from tests.programs import each_nvim
from tests.rigs.tmux import Pane
from tests.waiting import PATIENCE

OLD = "one\ntwo\nthree\n"
NEW = "one\nTWO\nthree\nfour\n"

NOTICE = r"Claude Code proposes a change to hello\.txt \(\+2 −1\)"

SHOWN = "return require('drawbridge.review').pending()[1].shown"

ScreenRig = tuple[Workstation, Pane]
OpenScreen = Callable[[], AbstractAsyncContextManager[ScreenRig]]


@pytest.fixture(params=each_nvim())
async def screen(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ScreenRig]:
    """A Neovim on a terminal, with a connected bridge and an open file."""
    async with screen_rig(request.param, tmp_path) as made:
        yield made


@asynccontextmanager
async def screen_rig(program: Path, folder: Path) -> AsyncIterator[ScreenRig]:
    path = folder / "hello.txt"
    path.write_text(OLD)
    async with on_screen(program, str(path), cwd=folder, rows=20, columns=90) as (person, pane):
        editor = await Neovim.connect(person.address)
        rig = Workstation(person, editor, folder)
        await editor.start(rig.events.append)
        await rig.options("{ idle_ms = 70 }")
        yield rig, pane
        await editor.close()


async def sees(pane: Pane, *patterns: str) -> str:
    return await asyncio.to_thread(pane.wait_for, *patterns)


COUNT_LOOKS = """
local focus = require('drawbridge.view.focus')
local is_free = focus.is_free
_G.looks = 0
focus.is_free = function()
  _G.looks = _G.looks + 1
  return is_free()
end
"""


async def checks_again(rig: Workstation) -> None:
    """Returns once Neovim has checked several more times whether it may show a waiting proposal."""
    await rig.person.lua(COUNT_LOOKS)
    await rig.person.until("return _G.looks >= 4")


async def is_received(rig: Workstation) -> None:
    """Returns once Neovim has received what the bridge has sent so far. Neovim answers this call immediately, even
    while it waits for a key."""
    await asyncio.sleep(0)
    await rig.editor._session.call("nvim_get_mode")


async def proposes(rig: Workstation) -> None:
    await rig.editor.show(proposal(rig.folder / "hello.txt", OLD, NEW))


async def test_the_view_shows_the_agent_the_change_and_how_to_answer(screen: ScreenRig) -> None:
    rig, pane = screen
    await proposes(rig)
    await sees(pane, r"Claude Code proposes  \+2 −1|Proposed  \+2 −1", r":w accepts · :q rejects", "TWO", "two")
    # E1568 is Neovim's own: on a busy machine, tmux does not report its colors in time.
    assert re.findall(r"\bE(?!1568:)\d*:", await rig.person.messages()) == []
    await rig.person.until(SHOWN)
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(NEW)


@pytest.mark.parametrize(
    ("busy", "more", "done", "text"),
    [
        ("i", "abc", "<Esc>", "abcone"),
        ("v", "ld", "", "e"),
        ("d", "w", "", ""),
        (":normal ix", "y", "<CR>", "xyone"),
        (":s/one/x", "y", "<CR>", "xy"),
        ("R", "uno", "<Esc>", "uno"),
        ("qa", "x", "q", "ne"),
        ('"', "ayyx", "", "ne"),
        ("r", "u", "", "une"),
    ],
)
async def test_a_proposal_waits_while_a_command_is_being_typed(
    screen: ScreenRig, busy: str, more: str, done: str, text: str
) -> None:
    rig, pane = screen
    await rig.person.types(busy)
    showing = asyncio.create_task(proposes(rig))
    if busy not in ('"', "r", "d"):
        # While Neovim waits for the second half of a command, it does not answer calls.
        await showing
        await checks_again(rig)
    else:
        await is_received(rig)
    if busy not in ('"', "r", "d", ":s/one/x"):
        # While Neovim previews a substitution, it draws nothing else.
        await sees(pane, NOTICE, ":DrawbridgeReview opens it")
    await rig.person.types(more + done)
    await showing
    assert await rig.person.lua("return vim.fn.getbufline('hello.txt', 1)") == [text]
    await rig.person.until(SHOWN)
    await asyncio.to_thread(pane.wait_until_gone, NOTICE)


async def test_a_proposal_waits_while_normal_mode_keys_are_typed(screen: ScreenRig) -> None:
    rig, _ = screen
    await rig.options("{ idle_ms = 1500 }")
    await rig.person.types("j")
    await proposes(rig)
    end = time.monotonic() + 1.8
    while time.monotonic() < end:
        await rig.person.types("jk")
        await asyncio.sleep(0.05)
        assert await rig.person.lua(SHOWN) is False
    await rig.person.until(SHOWN)


async def test_the_status_line_shows_the_number_of_proposals(screen: ScreenRig) -> None:
    rig, pane = screen
    await rig.options("{ idle_ms = 60000 }")
    await rig.person.lua(
        "vim.o.laststatus, vim.o.statusline = 2, \"waiting:%{v:lua.require'drawbridge.status'.line()}.\""
    )
    await rig.person.types("j")
    await proposes(rig)
    await sees(pane, "waiting:.*▲1")


async def test_review_opens_a_waiting_proposal_immediately(screen: ScreenRig) -> None:
    rig, pane = screen
    await rig.options("{ idle_ms = 60000 }")
    await rig.person.types("j")
    await proposes(rig)
    await sees(pane, NOTICE)
    await rig.person.lua("require('drawbridge.review').open()")
    await rig.person.until(SHOWN)
    await asyncio.to_thread(pane.wait_until_gone, NOTICE)
    await rig.person.types(":q<CR>")
    assert await rig.decided() == Rejected()


async def test_the_notice_cannot_be_focused_and_closes_on_withdrawal(screen: ScreenRig) -> None:
    rig, pane = screen
    await rig.person.types("i")
    await proposes(rig)
    await sees(pane, NOTICE)
    window = await rig.person.lua("return vim.api.nvim_get_current_win()")
    await rig.person.types("<C-o><C-w>w")
    assert await rig.person.lua("return vim.api.nvim_get_current_win()") == window
    await rig.editor.withdraw("1")
    await asyncio.to_thread(pane.wait_until_gone, NOTICE)
    assert await rig.person.lua("return #vim.api.nvim_list_wins()") == 1


async def test_a_decision_returns_to_the_terminal_and_its_mode(screen: ScreenRig) -> None:
    rig, pane = screen
    await rig.person.lua("vim.cmd('botright new') vim.fn.termopen({ 'cat' }) vim.cmd('startinsert')")
    await rig.person.until("return vim.api.nvim_get_mode().mode == 't'")
    await asyncio.to_thread(pane.type, "before")
    await asyncio.to_thread(pane.press, "Enter")
    await sees(pane, r"before\s+before")
    before = await rig.picture()
    await proposes(rig)
    await rig.person.until(SHOWN)
    await rig.person.until("return vim.api.nvim_get_mode().mode == 'n'")
    await asyncio.to_thread(pane.type, ":w")
    await asyncio.to_thread(pane.press, "Enter")
    assert await rig.decided() == Accepted(NEW)
    await rig.person.until("return vim.api.nvim_get_mode().mode == 't'")
    await asyncio.to_thread(pane.type, "after")
    await sees(pane, r"before\s+before\s+after")
    after = await rig.picture()
    assert {name for name in after if after[name] != before.get(name)} <= {
        name
        for name in after
        if ".view." in name  # the terminal's own cursor has moved
    }


async def test_lines_removed_above_the_first_line_are_visible(screen: ScreenRig) -> None:
    rig, pane = screen
    await rig.options("{ diff = { layout = 'inline' } }")
    await rig.editor.show(proposal(rig.folder / "hello.txt", OLD, "two\nthree\n"))
    await sees(pane, r"(?m)^- one *\n +two *\n +three")
    await rig.person.until(SHOWN)
    await rig.person.types(":q<CR>")
    assert await rig.decided() == Rejected()
    await rig.editor.show(proposal(rig.folder / "hello.txt", OLD, OLD + "four\n"))
    await sees(pane, "four")
    await rig.person.until(SHOWN)
    await rig.person.types("ggdd")
    await asyncio.to_thread(pane.wait_until_gone, r"(?m)^ +one", timeout=PATIENCE)
    await sees(pane, r"(?m)^- one *\n +two *\n +three *\n\+ *four")


async def test_successive_notices_cause_no_hit_enter_prompt(screen: ScreenRig) -> None:
    rig, pane = screen
    for number in range(5):
        await rig.editor.notify(f"Notice {number}\nof several, " + "long " * 40, "warn")
    await sees(pane, "Notice 4 of several")
    assert (await rig.person.call("nvim_get_mode"))["blocking"] is False


FLOAT = """
local buffer = vim.api.nvim_create_buf(false, true)
local place = { relative = 'editor', row = 2, col = 2, width = 40, height = 5 }
vim.api.nvim_open_win(buffer, true, place)
"""


async def test_a_proposal_waits_until_a_floating_window_closes(screen: ScreenRig) -> None:
    rig, pane = screen
    await rig.person.lua(FLOAT)
    await proposes(rig)
    await sees(pane, NOTICE)
    await rig.quiet()
    assert await rig.person.lua(SHOWN) is False
    await rig.person.types(":close<CR>")
    await rig.person.until(SHOWN)


async def test_a_decision_returns_to_a_floating_terminal(screen: ScreenRig) -> None:
    rig, _ = screen
    await rig.person.lua(FLOAT + "vim.fn.termopen({ 'cat' }) vim.cmd('startinsert')")
    await rig.person.until("return vim.api.nvim_get_mode().mode == 't'")
    before = await rig.picture()
    await proposes(rig)
    await rig.person.until(SHOWN)
    await rig.person.types(":w<CR>")
    assert await rig.decided() == Accepted(NEW)
    await rig.person.until("return vim.api.nvim_get_mode().mode == 't'")
    after = await rig.picture()
    assert {name for name in after if after[name] != before.get(name)} <= {name for name in after if ".view." in name}


async def test_the_notice_is_on_every_tab_page(screen: ScreenRig) -> None:
    rig, pane = screen
    await rig.person.types("i")
    await proposes(rig)
    await sees(pane, NOTICE)
    await rig.person.types("<C-o>:tabnew<CR>")
    await sees(pane, NOTICE, r"\[No Name\]")


async def test_a_proposal_at_a_hit_enter_prompt_never_opens_later(
    screen: ScreenRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls raise ``EditorHung`` while the prompt is open, and work again once it is answered."""
    rig, pane = screen
    before = await rig.picture()
    await asyncio.to_thread(pane.type, ":echo 'a\nb'".replace("\n", "'.\"\\n\".'"))
    await asyncio.to_thread(pane.press, "Enter")
    await sees(pane, "Press ENTER")
    monkeypatch.setattr(neovim_rpc, "CALL_SECONDS", 0.2)
    with pytest.raises(EditorHung, match="Press ENTER"):
        await proposes(rig)
    with pytest.raises(EditorHung):
        await rig.editor.tabs()
    monkeypatch.undo()
    await asyncio.to_thread(pane.press, "Enter")
    await rig.quiet()
    assert await rig.picture() == before
    assert len(await rig.editor.tabs()) == 1
    await proposes(rig)
    await rig.person.until(SHOWN)


async def test_a_proposal_without_room_shows_a_notice_and_waits(screen: ScreenRig) -> None:
    rig, pane = screen
    before: dict[str, Any] = await rig.picture()
    await rig.person.lua("vim.o.winminwidth, vim.o.winwidth = 60, 60")
    await proposes(rig)
    await sees(pane, NOTICE)
    assert await rig.person.lua(SHOWN) is False
    await rig.person.lua("vim.o.winwidth, vim.o.winminwidth = 20, 1 require('drawbridge.review').open()")
    await rig.person.until(SHOWN)
    await rig.person.types(":q<CR>")
    assert await rig.decided() == Rejected()
    assert await rig.picture() == before
