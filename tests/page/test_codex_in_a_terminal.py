"""Requests of a ``codex`` in a terminal are answered in the web UI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.rigs import codex_rig
from tests.rigs.codex_rig import DIALOG, Workstation
from tests.rigs.responses_stub import apply_patch, shell, text
from tests.server.processes import Server, serving

from .conftest import page_of
from .rig import Browser

PATCH = """\
*** Begin Patch
*** Update File: poem.txt
@@
-two
+TWO
*** Add File: new.txt
+new
*** End Patch
"""


@pytest.fixture
def rig(browser: Browser, home: Path) -> Iterator[Workstation]:
    with codex_rig.workstation(home / "project") as rig:
        yield rig


@pytest.fixture
async def rig_server(rig: Workstation, home: Path) -> AsyncIterator[Server]:
    async with serving(home / "data", "--no-tls") as server:
        yield server


@pytest.mark.thorough
async def test_requests_of_codex_are_answered_in_the_web_ui(
    browser: Browser, rig: Workstation, rig_server: Server
) -> None:
    turns = [shell("touch made", reason="I need it"), apply_patch(PATCH), shell("touch unwanted", reason="And this")]
    rig.model.will_say(*turns, text("All **done**."))
    with browser.person(f"{page_of(rig_server)}#token={rig_server.token}") as person:
        codex = rig.codex()
        codex.prompt("Do it")
        person.clicks(".project:has(.at-desk)")
        person.sees(".path", f"Codex in a terminal · {rig.project}")
        person.sees(".approval h3", "Codex wants to run a command")
        assert "Always" not in person.reads(".approval")[0]
        person.readies_keys()
        person.presses("Control+Enter")
        person.sees(".approval h3", "Codex wants to edit 2 files")
        (shown,) = person.reads(".approval")
        assert all(words in shown for words in (str(rig.poem), str(rig.project / "new.txt"), "+TWO"))
        assert not person("visible", css=".approval button:has-text('Edit')")
        person.readies_keys()
        person.presses("Control+Enter")
        person.sees(".approval pre", "touch unwanted")
        person.readies_keys()
        person.presses("r")
        person("type", text="not that one")
        person.presses("Enter")
        person.sees(".said strong", "done")
        person.sees(".project .state", "3 files to review")
        codex.pane.wait_for("All done|All \\*\\*done")
    assert (rig.project / "made").exists()
    assert not (rig.project / "unwanted").exists()
    assert rig.poem.read_text() == "one\nTWO\n"


@pytest.mark.slow
async def test_an_open_dialog_is_answered_only_in_the_terminal(
    browser: Browser, rig: Workstation, rig_server: Server
) -> None:
    """The dialog has appeared before the web UI is opened."""
    rig.model.will_say(shell("touch made", reason="I need it"), text("Done."))
    codex = rig.codex()
    codex.prompt("Do it")
    codex.pane.wait_for(DIALOG)
    with browser.person(f"{page_of(rig_server)}#token={rig_server.token}") as person:
        person.sees(".project .state", "Waiting in terminal")
        person.clicks(".project:has(.at-desk)")
        assert not person("visible", css=".approval")
        codex.pane.press("y")
        person.sees(".project .state", "1 file to review")
