"""What an approval in the terminal client shows besides the change."""

from __future__ import annotations

from typing import Any

from drawbridge.tui import wording
from drawbridge.tui.approval_words import title

REQUEST: dict[str, Any] = {"tool_name": "Bash", "input": {"command": "ls"}}


def test_the_title_names_the_subagent_that_asks() -> None:
    asked = {**REQUEST, "asked_by": {"agent_id": "a1", "agent_type": "reviewer"}}
    assert title(asked, "Claude", "/p", None, 1).plain.endswith("asked by reviewer")
    assert title({**REQUEST, "asked_by": {"agent_id": "a1"}}, "Claude", "/p", None, 1).plain.endswith("a subagent")
    assert "asked by" not in title(REQUEST, "Claude", "/p", None, 1).plain


def test_a_mode_shows_that_its_agent_never_asks() -> None:
    assert wording.mode({"asks": False}, "default") == "default: never asks"
    assert wording.mode({}, "default") == "Ask before changes"
    assert wording.mode({}, "workspace-write") == "workspace-write"
