"""A prompt that the bridge pastes into the terminal of `:DrawbridgeClaude` while the user works in another window."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import programs

from .plugin_rig import Neovim, bridge_options, neovim, wait_until

FAKE = Path(__file__).with_name("fake_claude.py")

PLACE = """
return { vim.api.nvim_get_mode().mode, vim.api.nvim_get_current_win(), vim.api.nvim_win_get_cursor(0), vim.fn.winlayout() }
"""


@pytest.fixture(params=programs.each_nvim())
def editor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Neovim]:
    """An agent runs in its terminal, and the user is writing in a file next to it."""
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    with neovim(request.param, file) as started:
        words = f"'{sys.executable}', '{FAKE}', '{record()}'"
        assert started.setup(bridge_options(more=f"terminal = {{ command = {{ {words} }}, size = 40 }}"))
        started.command("DrawbridgeClaude")
        started.wait("return vim.bo.buftype == 'terminal'")
        started.wait("_G.agent = { buffer = vim.api.nvim_get_current_buf(), job = vim.b.terminal_job_id } return true")
        shows(started, "shortcuts")
        started.wait("return vim.api.nvim_get_mode().mode == 't'")
        started.keys("<C-Bslash><C-N><C-w>pA and")
        started.wait("return vim.api.nvim_get_current_line() == 'one and'")
        yield started


def record() -> Path:
    return Path(os.environ["TMPDIR"]) / "received"


def shows(editor: Neovim, words: str) -> None:
    """Waits until the agent's terminal shows ``words``."""
    search = "table.concat(vim.api.nvim_buf_get_lines(agent.buffer, 0, -1, false), '\\n'):find(..., 1, true)"
    editor.wait(f"return {search} ~= nil", words)


def agent_shows(editor: Neovim, kind: str, content: str = "") -> None:
    """Changes what the agent's terminal shows from now on: see ``fake_claude``."""
    orders = editor.lua("agent.orders = (agent.orders or 0) + 1 return agent.orders")
    editor.lua("vim.api.nvim_chan_send(agent.job, ...)", f"\x01{kind}{content}\x01")
    shows(editor, f"order {orders}")


def asked(editor: Neovim, method: str, **params: Any) -> Any:
    """The plugin's answer to a call, made as the bridge makes it."""
    pid = editor.lua("return vim.fn.jobpid(agent.job)")
    given = {"pid": pid, "before": time.time() + 5, **params}
    return editor.lua("return require('drawbridge.link').handle(...)", method, given)


def keeps_blanks(editor: Neovim) -> bool:
    """Whether this Neovim can distinguish text that the user typed from the agent's suggestions. If it can't, the
    plugin leaves both alone."""
    return bool(editor.lua("return vim.fn.has('nvim-0.10') == 1"))


def received() -> bytes:
    return record().read_bytes() if record().exists() else b""


def test_a_prompt_is_pasted_and_sent_once_it_is_in_the_box(editor: Neovim) -> None:
    place = editor.lua(PLACE)
    agent_shows(editor, "s" if keeps_blanks(editor) else "b")
    assert asked(editor, "paste", text="a\x1b[201~\r\nb\tc\0\x9b1\x7f ü")["ok"]
    typed = "\x1b[200~a[201~\nb\tc1 ü\x1b[201~".encode()
    wait_until(lambda: received() == typed, f"{typed!r} received")
    wait_until(lambda: asked(editor, "submit")["value"], "it is submitted")
    wait_until(lambda: received() == typed + b"\r", "Enter")
    assert editor.lua(PLACE) == place
    agent_shows(editor, "b")
    assert asked(editor, "paste", text="many lines\n" * 9)["ok"]
    shows(editor, "[Pasted text")
    assert asked(editor, "submit") == {"ok": True, "value": True}


def test_nothing_is_typed_without_an_empty_prompt_box(editor: Neovim) -> None:
    for kind, content, reason in [
        ("d", "", "does not show its prompt box"),
        ("w", "", "it is working"),
        ("b", "half typed", "contains text"),
    ]:
        agent_shows(editor, kind, content)
        answer = asked(editor, "paste", text="Do it")
        assert (answer["ok"], answer["code"]) == (False, "REFUSED")
        assert reason in answer["message"]
    agent_shows(editor, "b")
    late = asked(editor, "paste", text="Do it", before=time.time() - 2)
    assert (late["ok"], late["code"]) == (False, "REFUSED")
    other = asked(editor, "paste", text="Do it", pid=editor.lua("return vim.fn.getpid()"))
    assert (other["ok"], other["code"]) == (False, "REFUSED")
    assert received() == b""


def test_a_prompt_pasted_into_other_text_is_not_sent(editor: Neovim) -> None:
    """It can be withdrawn from the prompt box. Before Neovim 0.10, it is not even pasted."""
    agent_shows(editor, "b", "half|typed")  # the cursor is inside
    if not keeps_blanks(editor):
        assert asked(editor, "paste", text="Do it")["code"] == "REFUSED"
        return
    assert asked(editor, "paste", text="Do it")["ok"]
    shows(editor, "halfDo ittyped")
    assert asked(editor, "submit") == {"ok": True, "value": False}
    asked(editor, "take_back")
    wait_until(lambda: received() == b"\x1b[200~Do it\x1b[201~\x1f", "it is taken back")
