"""Modes of the real CLI: what clients see in auto mode, and the mode that ``setup claude --ask-mode`` sets."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests import programs
from tests.rigs import claude_rig
from tests.rigs.messages_stub import text, tool_use
from tests.server.processes import Server

from .rig import ServedWorkstation, following
from .test_plain_claude import FETCH, QUESTION

pytestmark = pytest.mark.thorough


@pytest.mark.slow
async def test_auto_mode_sometimes_asks(rig: ServedWorkstation, server: Server) -> None:
    """A question with choices reaches a client. For a call that the model does not report as checked, the CLI asks only
    in the terminal, and clients see that it waits there.
    """
    rig.model.will_say(tool_use("AskUserQuestion", questions=[QUESTION]), FETCH, text("Done."))
    async with following(server) as phone:
        claude = rig.plain_claude("--permission-mode", "auto")
        await phone.session()
        claude.prompt("Do it")
        question = await phone.question("AskUserQuestion")
        (info,) = (await phone.client.ask("project_list"))["data"]["projects"]
        assert (info["desk"]["permission_mode"], info["desk"]["asks"]) == ("auto", False)
        answers = {"answers": {"Which one?": "Right"}}
        await phone.answer(question, "allow", updated_input=question["input"] | answers)
        info = await phone.state("waiting")
        while not info["desk"].get("in_terminal"):
            info = await phone.state("waiting")
        assert info["approvals"] == []


@pytest.mark.slow
async def test_the_mode_survives_the_next_start(rig: ServedWorkstation) -> None:
    """Without ``disableAutoMode``, the CLI would ask whether to make auto mode the default, and Enter would accept
    that.
    """
    settings = Path(os.environ["CLAUDE_CONFIG_DIR"], "settings.json")
    settings.write_text('{"model": "opus"}\n')
    rig.set_up("claude", "--ask-mode")
    before = settings.read_text()
    for _ in range(2):
        pane = rig.tmux.start(
            "claude", [str(programs.claude())], cwd=rig.project, environment=claude_rig.environment(rig.model)
        )
        pane.wait_for(r"(?m)^❯", "manual mode on")
        pane.press("Enter")
        pane.type("/exit")
        pane.press("Enter")
        assert pane.wait_for_exit() == 0
    assert json.loads(settings.read_text())["permissions"] == {"defaultMode": "default", "disableAutoMode": "disable"}
    assert settings.read_text() == before
    rig.drawbridge("setup", "claude", "--remove", "--yes", "--json")
    assert settings.read_text() == '{"model": "opus"}\n'
