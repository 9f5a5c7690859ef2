"""The mode that ``setup claude --ask-mode`` sets, as the real CLI starts with it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests import programs
from tests.e2e import claude_rig
from tests.e2e.claude_rig import TOOL_DIALOG, YES, Claude
from tests.e2e.messages_stub import text, tool_use

from .rig import ServedDesk


async def test_the_mode_survives_the_next_start(desk: ServedDesk) -> None:
    """Without ``disableAutoMode`` the CLI asks whether to make auto mode the default, and Enter does so."""
    settings = Path(os.environ["CLAUDE_CONFIG_DIR"], "settings.json")
    settings.write_text('{"model": "opus"}\n')
    desk.set_up("claude", "--ask-mode")
    before = settings.read_text()
    for _ in range(2):
        pane = desk.tmux.start(
            "claude", [str(programs.claude())], cwd=desk.project, environment=claude_rig.environment(desk.model)
        )
        pane.wait_for(r"(?m)^❯", "manual mode on")
        pane.press("Enter")
        desk.model.will_say(tool_use("Bash", command="touch made", description="Make a file"), text("Done."))
        claude = Claude(pane)
        claude.prompt("Do it")
        claude.answer_dialog(TOOL_DIALOG, YES)
        pane.wait_for("Done.")
        pane.type("/exit")
        pane.press("Enter")
        assert pane.wait_for_exit() == 0
    assert json.loads(settings.read_text())["permissions"] == {"defaultMode": "default", "disableAutoMode": "disable"}
    assert settings.read_text() == before
    desk.drawbridge("setup", "claude", "--remove", "--json")
    assert settings.read_text() == '{"model": "opus"}\n'
