"""A plain ``codex`` in a terminal: its approval requests are answered by a client of the server or in the terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rigs import codex_rig
from tests.rigs.codex_rig import DIALOG, NO, Codex
from tests.rigs.responses_stub import Item, ResponsesStub, apply_patch, failure, shell, text
from tests.rigs.tmux import Tmux
from tests.server.processes import Server
from tests.waiting import PATIENCE

from .rig import Phone, following

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


class Workstation:
    """A person's terminal, in which Codex runs with Drawbridge's hooks."""

    def __init__(self, tmux: Tmux, model: ResponsesStub, project: Path) -> None:
        self.tmux = tmux
        self.model = model
        self.project = project
        self.poem = project / "poem.txt"
        self.poem.write_text("one\ntwo\n")

    def codex(self, *words: str) -> Codex:
        return Codex.start(self.tmux, *words, project=self.project)


@pytest.fixture
def desk(home: Path) -> Iterator[Workstation]:
    command = [sys.executable, "-m", "drawbridge", "setup", "codex", "--yes"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    with ResponsesStub() as model, Tmux.server() as tmux:
        project = home / "project"
        project.mkdir()
        codex_rig.prepare_home(model, project)
        yield Workstation(tmux, model, project)


@asynccontextmanager
async def asked(desk: Workstation, server: Server, *turns: Item) -> AsyncIterator[tuple[Codex, Phone]]:
    """Starts Codex and types its first prompt in the terminal. Yields the session and a client that follows it."""
    desk.model.will_say(*turns)
    async with following(server) as phone:
        codex = desk.codex()
        codex.prompt("Do it")
        session = await phone.session()
        assert (session["path"], session["agent"]) == (str(desk.project), "codex")
        yield codex, phone


async def test_a_client_allows_and_denies(desk: Workstation, server: Server) -> None:
    turns = [shell("touch made", reason="I need it"), shell("touch unwanted", reason="And this"), apply_patch(PATCH)]
    async with asked(desk, server, *turns, text("All done.")) as (codex, phone):
        question = await phone.question("Bash")
        assert question["input"] == {"command": "touch made", "description": "I need it"}
        assert not question["changeable"]
        await phone.answer(question, "allow")
        await phone.answer(await phone.question("Bash"), "deny", message="not «that» one")
        question = await phone.question("apply_patch")
        new = desk.project / "new.txt"
        assert question["input"] == {"update": [str(desk.poem)], "add": [str(new)], "patch": PATCH.rstrip("\n")}
        assert question["title"] == {"text": "Codex wants to edit 2 files"}
        await phone.answer(question, "allow")
        codex.pane.wait_for("All done.")
        assert (desk.project / "made").exists()
        assert not (desk.project / "unwanted").exists()
        assert (desk.poem.read_text(), new.read_text()) == ("one\nTWO\n", "new\n")
        await phone.state("finished")
        assert "not «that» one" in desk.model.tool_results[1]
        codex.leave()
        await phone.state("ended")
