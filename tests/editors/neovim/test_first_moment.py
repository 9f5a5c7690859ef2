"""Text for the agent's terminal never gets into a proposal. An unfinished prompt delays the view, and the view ignores
the first keys."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from drawbridge.editors.port import Accepted, Rejected
from tests.editors.neovim.test_focus import NEW, OLD, SHOWN, checks_again, proposes, screen_rig, sees
from tests.nvim.rig import Workstation
from tests.programs import each_nvim
from tests.rigs.tmux import Pane

HOLD = """
_G.hrtime, _G.typed = vim.loop.hrtime, 0
local at = _G.hrtime() + 1e10
vim.loop.hrtime = function() return at end
vim.on_key(function() _G.typed = _G.typed + 1 end, vim.api.nvim_create_namespace('typed'))
"""
"""Extends the view's first moment until ``GO_ON``, no matter how late the keys arrive, and counts the keys that Neovim
reads.
"""
GO_ON = "vim.loop.hrtime = function() return _G.hrtime() + 1e10 end"

ON_SCREEN = "return #vim.api.nvim_list_tabpages() == 2"
IN_TERMINAL = "return vim.api.nvim_get_mode().mode == 't'"
RULE = "─" * 30

BOX = f"""
import signal, sys, termios, time, tty
tty.setraw(sys.stdin.fileno())
text, dialog, pressed = "", False, ""
def draw():
    words = "{RULE}\\r\\n❯ " + text + " \\b\\r\\n{RULE}\\r\\n  ? for help"
    if dialog:
        words = "Do you want to make this edit?\\r\\n❯ 1. Yes\\r\\n  2. No\\r\\npressed: " + pressed
    print("\\033[2J\\033[H" + words, end="", flush=True)
def asks(*_):
    global dialog
    dialog = True
    draw()
signal.signal(signal.SIGUSR1, asks)
while True:
    draw()
    key = sys.stdin.read(1)
    if key == "\\x04":
        dialog = not dialog
    elif key == "\\r":
        if text == "slowly":
            time.sleep(0.5)
            dialog = True
        text = ""
    elif key == "\\x7f":
        text = text[:-1]
    elif dialog:
        pressed += key
    else:
        text += key
"""
"""A prompt box like Claude Code's. Ctrl-D replaces it with a dialog, or hides the dialog again. The prompt "slowly"
shows the dialog after half a second in which its text stays, as on a busy machine; SIGUSR1 shows the dialog while the
user is not typing."""


async def in_terminal(rig: Workstation, *command: str) -> None:
    await rig.person.lua("vim.cmd('botright new') vim.fn.termopen(...) vim.cmd('startinsert')", list(command))
    await rig.person.until(IN_TERMINAL)


async def types(pane: Pane, words: str) -> None:
    await asyncio.to_thread(pane.type, words)


async def presses(pane: Pane, key: str) -> None:
    await asyncio.to_thread(pane.press, key)


@pytest.mark.parametrize("program", each_nvim())
async def test_an_unfinished_prompt_delays_a_view(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await in_terminal(rig, sys.executable, "-c", BOX)
        await sees(pane, "for help")
        await types(pane, "and then")
        await sees(pane, "❯ and then")
        await proposes(rig)
        await sees(pane, r"proposes a change to hello\.txt", r"Ctrl-\\ Ctrl-N opens it")
        await checks_again(rig)  # nothing may open, even though nobody is typing
        assert await rig.person.lua(SHOWN) is False
        assert await rig.person.lua(ON_SCREEN) is False
        await types(pane, " stop")
        await sees(pane, "❯ and then stop")
        await presses(pane, "Enter")
        await rig.person.until(SHOWN)
        assert await rig.person.lines() == NEW.splitlines()
        await types(pane, ":w")
        await presses(pane, "Enter")
        assert await rig.decided() == Accepted(NEW)


@pytest.mark.parametrize("program", each_nvim())
async def test_a_dialog_instead_of_the_box_opens_the_proposal(program: Path, tmp_path: Path) -> None:
    """In the dialog, an Enter that was meant for the prompt would accept the change. The keys that are ignored
    at first do not reach the dialog."""
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options("{ idle_ms = 500 }")
        await in_terminal(rig, sys.executable, "-c", BOX)
        await sees(pane, "for help")
        await types(pane, "and then")
        await sees(pane, "❯ and then")
        await proposes(rig)
        await sees(pane, r"proposes a change to hello\.txt")
        await rig.person.lua(HOLD)
        os.kill(await rig.person.lua("return vim.b.terminal_job_pid"), signal.SIGUSR1)
        await rig.person.until(ON_SCREEN)
        await types(pane, "1\r")
        await rig.person.until("return _G.typed >= 2")
        await rig.person.lua(GO_ON)
        await rig.person.until(SHOWN)
        assert rig.decisions == []
        assert await rig.person.lines() == NEW.splitlines()
        await types(pane, ":q\r")
        assert await rig.decided() == Rejected()
        await sees(pane, r"pressed: *\n")


@pytest.mark.parametrize("program", each_nvim())
async def test_a_key_typed_in_a_dialog_does_not_delay_a_view(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await in_terminal(rig, sys.executable, "-c", BOX)
        await sees(pane, "for help")
        await types(pane, "go")
        await sees(pane, "❯ go")
        await presses(pane, "Enter")
        await asyncio.to_thread(pane.wait_until_gone, "❯ go")
        await presses(pane, "C-d")
        await sees(pane, "Do you want")
        await types(pane, "1")
        await sees(pane, "pressed: 1")  # the view would receive a key that Neovim has not read yet
        await proposes(rig)
        await rig.person.until(SHOWN)


@pytest.mark.parametrize("program", each_nvim())
async def test_a_prompt_that_was_sent_does_not_delay_a_view(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await in_terminal(rig, sys.executable, "-c", BOX)
        await sees(pane, "for help")
        await types(pane, "slowly")
        await sees(pane, "❯ slowly")
        await presses(pane, "Enter")
        await sees(pane, "Do you want")
        await proposes(rig)
        await rig.person.until(SHOWN)


@pytest.mark.parametrize("program", each_nvim())
async def test_leaving_the_terminal_opens_a_waiting_proposal(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await in_terminal(rig, "cat")
        await types(pane, "half a")
        await sees(pane, "half a")
        await proposes(rig)
        await sees(pane, r"Ctrl-\\ Ctrl-N opens it")
        await presses(pane, "C-\\")
        await presses(pane, "C-n")
        await rig.person.until(SHOWN)


@pytest.mark.parametrize("program", each_nvim())
async def test_a_terminal_gets_the_first_keys(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options("{ idle_ms = 500 }")
        await in_terminal(rig, "cat")
        await rig.person.lua(HOLD)
        await proposes(rig)
        await rig.person.until(ON_SCREEN)
        await types(pane, "dd undo :w ü")
        await rig.person.until(IN_TERMINAL)
        await sees(pane, "dd undo :w ü", r"proposes a change to hello\.txt")
        assert rig.decisions == []
        await rig.person.lua(GO_ON)
        await presses(pane, "Enter")
        await rig.person.until(SHOWN)
        assert await rig.person.lines() == NEW.splitlines()
        await types(pane, ":w")
        await presses(pane, "Enter")
        assert await rig.decided() == Accepted(NEW)
        await rig.person.until(IN_TERMINAL)


@pytest.mark.parametrize("program", each_nvim())
@pytest.mark.parametrize("keys", [":w\r", ":q!\r", "ZZ", "ZQ", "dd", "iwords", ":%d\r:w\r"])
async def test_the_first_keys_change_and_decide_nothing(program: Path, tmp_path: Path, keys: str) -> None:
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options("{ idle_ms = 500 }")
        await rig.person.lua(HOLD)
        await proposes(rig)
        await rig.person.until(ON_SCREEN)
        await types(pane, keys)
        await rig.person.until(f"return _G.typed >= {len(keys)}")
        await rig.person.lua(GO_ON)
        await rig.person.until(SHOWN)
        assert rig.decisions == []
        assert await rig.person.lines() == NEW.splitlines()
        assert (await rig.person.call("nvim_get_mode"))["mode"] == "n"
        assert await rig.person.lua("return vim.fn.getbufline('hello.txt', 1, '$')") == OLD.splitlines()
        await types(pane, ":q\r")
        assert await rig.decided() == Rejected()


@pytest.mark.parametrize("program", each_nvim())
async def test_the_status_shows_when_keys_are_ignored(program: Path, tmp_path: Path) -> None:
    ignores_keys = "require('drawbridge').status().ignores_keys"
    async with screen_rig(program, tmp_path) as (rig, pane):
        await rig.options("{ idle_ms = 500 }")
        assert await rig.person.lua(f"return {ignores_keys}") is False
        await rig.person.lua(f"vim.cmd([[autocmd User DrawbridgeDiffOpened lua vim.g.ignored = {ignores_keys}]])")
        await proposes(rig)
        await rig.person.until(f"return vim.g.ignored ~= nil and not {ignores_keys}")
        assert await rig.person.lua("return vim.g.ignored") is True
        await types(pane, ":w\r")
        assert await rig.decided() == Accepted(NEW)


@pytest.mark.parametrize("program", each_nvim())
async def test_a_view_may_be_withdrawn_in_its_first_moment(program: Path, tmp_path: Path) -> None:
    async with screen_rig(program, tmp_path) as (rig, _):
        await rig.options("{ idle_ms = 500 }")
        await proposes(rig)
        await rig.person.until(ON_SCREEN)
        await rig.editor.withdraw("1")
        await rig.person.until("return #vim.api.nvim_list_tabpages() == 1")
        await rig.person.types("x")
        await rig.person.until("return vim.fn.getline(1) == 'ne'")
