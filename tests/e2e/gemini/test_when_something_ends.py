"""When the event stream, the bridge or the CLI ends, the other side keeps running, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.rigs.claude_rig import wait_for_lock
from tests.rigs.gemini_rig import EDIT_DIALOG, Gemini, discovered, discovery_folder, wait_for_discovery
from tests.rigs.gemini_stub import replace, text
from tests.rigs.neovim_rig import Neovim
from tests.rigs.tmux import wait_until

from .workstation import Workstation

POEM = "one\ntwo\nthree\n"


def propose(rig: Workstation, gemini: Gemini, neovim: Neovim, poem: Path) -> None:
    """Scripts a change to the poem, and waits for the proposal in Neovim and the dialog in the CLI."""
    rig.model.will_say(replace(poem, "two", "TWO"), text("It is done."))
    gemini.prompt("Shout the second line.")
    neovim.wait_for_proposal()
    gemini.pane.wait_for(EDIT_DIALOG)


@pytest.mark.thorough
def test_a_decision_is_not_lost_while_the_event_stream_is_down(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    proxy = rig.proxy("gap", "A replace, accepted with :w while the event stream was down.")
    gemini = rig.gemini_through(proxy)
    propose(rig, gemini, neovim, poem)

    with proxy.gap():
        neovim.command("w")
        neovim.wait_until_closed()
        assert poem.read_text() == POEM

    gemini.pane.wait_for("It is done")
    assert proxy.streams == 2
    assert poem.read_text() == "one\nTWO\nthree\n"


@pytest.mark.thorough
def test_the_cli_can_reconnect_after_the_bridge_was_killed(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini()
    gemini.prompt("/ide status")
    gemini.pane.wait_for("Connected to Neovim")  # the CLI requests the tools only after it has opened its stream
    first = json.loads(wait_for_lock().read_text())
    before = discovered()

    os.kill(first["drawbridgePid"], signal.SIGKILL)

    def renewed() -> bool | None:
        return True if json.loads(wait_for_lock().read_text())["drawbridgePid"] != first["drawbridgePid"] else None

    wait_until(renewed)
    after = discovered()
    assert (after["port"], after["authToken"]) == (before["port"], before["authToken"])
    # The event stream reconnects automatically, but the CLI itself considers the editor disconnected.
    neovim.wait_for_agents(1)
    gemini.prompt("/ide status")
    gemini.pane.wait_for("IDE connection error")
    gemini.prompt("/ide enable")
    gemini.pane.wait_for(r"IDE connection error[\s\S]*Connected to Neovim")
    propose(rig, gemini, neovim, poem)
    neovim.command("w")
    gemini.pane.wait_for("It is done")
    assert poem.read_text() == "one\nTWO\nthree\n"


@pytest.mark.slow
def test_a_restarted_bridge_keeps_its_port_token_and_client(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini()
    gemini.prompt("/ide status")
    gemini.pane.wait_for("Connected to Neovim")  # the CLI requests the tools only after it has opened its stream
    before = discovered()

    neovim.command("DrawbridgeRestart")

    neovim.wait_for_agents(0)
    neovim.wait_for_agents(1)
    assert (discovered()["port"], discovered()["authToken"]) == (before["port"], before["authToken"])
    propose(rig, gemini, neovim, poem)
    neovim.command("w")
    gemini.pane.wait_for("It is done")
    assert poem.read_text() == "one\nTWO\nthree\n"


@pytest.mark.slow
@pytest.mark.parametrize("words", ["DrawbridgeStop", "qa!"])
def test_stopping_the_bridge_cancels_the_clis_request(rig: Workstation, words: str) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    gemini = rig.gemini()
    propose(rig, gemini, neovim, poem)

    neovim.command(words)

    gemini.pane.wait_for("Request cancelled")
    assert poem.read_text() == POEM
    wait_until(lambda: None if list(discovery_folder().glob("*.json")) else True)
    gemini.prompt("Go on then.")
    gemini.pane.wait_for("It is done")


@pytest.mark.slow
def test_killing_the_cli_closes_its_proposal(rig: Workstation) -> None:
    poem = rig.file("poem.txt", POEM)
    neovim = rig.neovim(poem)
    before = neovim.layout
    gemini = rig.gemini()
    propose(rig, gemini, neovim, poem)

    os.kill(gemini.pane.pid, signal.SIGKILL)

    # The proposal stays for a while, because the CLI might reconnect.
    neovim.wait_until_closed()
    assert neovim.layout == before
    assert poem.read_text() == POEM
    neovim.wait_for_agents(0)


def test_the_discovery_file_is_private_and_removed_at_exit(rig: Workstation) -> None:
    neovim = rig.neovim()
    file = wait_for_discovery()
    assert file.stat().st_mode & 0o777 == 0o600

    neovim.command("qa!")

    assert neovim.pane.wait_for_exit() == 0
    wait_until(lambda: None if list(discovery_folder().iterdir()) else True)
