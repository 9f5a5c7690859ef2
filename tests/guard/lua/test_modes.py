"""Neovim shows the permission mode that the hook of the connected Claude Code reports."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.editors.port import BridgeState
from tests.guard import processes
from tests.guard.lua.rig import QUICK
from tests.guard.payloads import edit, recorded
from tests.nvim.rig import Workstation, workstation

CONNECTED = ("Claude Code",)


@pytest.fixture
async def at(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workstation]:
    """A Neovim whose bridge reports this process, which starts the hooks through a shell, as the connected agent."""
    async with workstation(program, tmp_path, *QUICK) as made:
        monkeypatch.setenv("NVIM", made.person.address)
        await made.editor.announce(BridgeState(4711, "token", CONNECTED, (os.getpid(),)))
        yield made


async def hooked(at: Workstation, payload: dict[str, Any], mode: str | None) -> None:
    """Runs the hook as a process, as the agent would in ``mode``; None for an agent that reports no mode."""
    given = {name: value for name, value in payload.items() if name != "permission_mode"}
    words = processes.command("--deadline=5000")
    # Agents start the hook through a shell.
    shell = ["/bin/sh", "-c", '"$@"; exit $?', "-", *words]
    ended = await asyncio.to_thread(processes.run, shell, given | ({"permission_mode": mode} if mode else {}))
    assert isinstance(ended.answer, dict)


async def shown(at: Workstation) -> tuple[str, Any]:
    """Returns the status line, and what ``:DrawbridgeStatus`` shows after "asks"; "" if it shows nothing there."""
    line, asks = await at.person.lua(
        "local status = require('drawbridge.status'); return { status.line(), status.asking() or '' }"
    )
    return line, asks


async def test_a_mode_that_does_not_ask_is_shown(at: Workstation) -> None:
    await hooked(at, recorded("claude", "UserPromptSubmit"), "auto")
    line, asks = await shown(at)
    assert line == "◆ Claude (not asking)"
    assert asks.startswith('no: Claude Code is in "auto" mode')
    await hooked(at, edit(str(at.folder / "a.py")), "default")
    assert await shown(at) == ("◆ Claude", 'yes: Claude Code is in "default" mode')


async def test_a_write_in_a_mode_that_asks_is_shown_as_possible(at: Workstation) -> None:
    """A rule in the user's settings may have allowed it, so the status is "possibly not"."""
    await hooked(at, recorded("claude", "UserPromptSubmit"), "default")
    state = BridgeState(4711, "token", CONNECTED, (os.getpid(),), unasked=CONNECTED)
    await at.editor.announce(state)
    assert (await shown(at))[1].startswith("possibly not: Claude Code wrote a file without asking")


async def test_the_mode_of_another_agent_is_not_shown(at: Workstation) -> None:
    """An agent that is not connected here calls its hook, too. The mode of one that has disconnected is forgotten."""
    await hooked(at, recorded("claude", "UserPromptSubmit"), "auto")
    await at.editor.announce(BridgeState(4711, "token", CONNECTED, (os.getpid() + 1_000_000,)))
    await hooked(at, recorded("claude", "UserPromptSubmit"), "auto")
    line, asks = await shown(at)
    assert line == "◆ Claude"
    assert not asks.startswith("no")


async def test_without_a_report_nothing_changes(at: Workstation) -> None:
    before = await shown(at)
    await hooked(at, recorded("claude", "UserPromptSubmit"), None)
    assert await shown(at) == before
