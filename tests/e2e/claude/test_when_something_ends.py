"""When the bridge or the CLI is killed, the other side keeps running. No view stays open without its CLI, and no lock
file stays without its Neovim.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests import programs
from tests.rigs.claude_rig import wait_for_lock
from tests.rigs.messages_stub import edit, read, text
from tests.rigs.tmux import wait_until

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


@pytest.mark.thorough
def test_the_cli_reconnects_after_the_bridge_is_killed(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    lock = wait_for_lock()
    first = json.loads(lock.read_text())
    claude = rig.claude()

    os.kill(first["drawbridgePid"], signal.SIGKILL)

    def renewed() -> dict[str, object] | None:
        content = json.loads(lock.read_text()) if lock.exists() else first
        return content if content["drawbridgePid"] != first["drawbridgePid"] else None

    second = wait_until(renewed)
    assert second["authToken"] == first["authToken"]
    assert wait_for_lock() == lock, "the same port again"
    neovim.wait_for_agents()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))
    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    neovim.command("w")
    claude.pane.wait_for("It is done")
    assert poem.read_text() == "one\nTWO\nthree\n"


@pytest.mark.thorough
def test_the_proposal_of_a_killed_cli_closes(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    before = neovim.layout
    claude = rig.claude()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"))
    claude.prompt("Shout the second line.")
    neovim.wait_for_proposal()

    os.kill(claude.pane.pid, signal.SIGKILL)

    neovim.wait_until_closed()
    assert neovim.layout == before
    assert poem.read_text() == POEM
    neovim.wait_for_agents(0)


def test_the_lock_file_is_removed_when_neovim_exits(rig: Workstation) -> None:
    neovim = rig.neovim()
    lock = wait_for_lock()

    neovim.command("qa!")

    assert neovim.pane.wait_for_exit() == 0
    wait_until(lambda: None if lock.exists() else True)


@pytest.mark.slow
def test_the_cli_runs_in_a_terminal_of_neovim(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem, options=f"{{ terminal = {{ command = '{programs.claude()}' }} }}")
    neovim.command("DrawbridgeClaude")
    neovim.pane.wait_for("Claude Code v", "manual mode on", "❯")
    neovim.wait_for_agents()
    rig.model.will_say(read(poem), edit(poem, "two", "TWO"), text("It is done."))

    neovim.pane.type("Shout the second line.")
    neovim.pane.wait_for("Shout the second line")
    neovim.pane.press("Enter")
    neovim.wait_for_proposal()
    neovim.command("w")

    neovim.pane.wait_for("It is done")
    assert poem.read_text() == "one\nTWO\nthree\n"
