"""After a decision in an editor on a proposal, the agent may write exactly the text that the user saw."""

from __future__ import annotations

import json

from msgspec import Raw

from drawbridge.agents import registry
from drawbridge.agents.base import Proposal, Question
from drawbridge.server.approvals.editors import decision
from drawbridge.server.approvals.pending import PendingApproval


def approval(tool: str) -> PendingApproval:
    given = {"file_path": "/srv/a.txt", "content": "new"}
    question = Question("q", tool, Raw(json.dumps(given).encode()), Raw(b"[]"), Proposal("/srv/a.txt", "old", "new"))
    asked = PendingApproval.new(question, "run_1", "2026-01-01T00:00:00Z")
    asked.interpret(registry.tools("claude"))
    return asked


def test_the_proposed_text_is_allowed_unchanged() -> None:
    given = decision(approval("Write"), "new")
    assert (given.allow, given.updated_input) == (True, None)


def test_the_tool_writes_the_edited_text() -> None:
    given = decision(approval("Write"), "mine")
    assert given.allow
    assert given.updated_input == {"file_path": "/srv/a.txt", "content": "mine"}


def test_an_edited_text_that_the_tool_cannot_write_is_denied() -> None:
    """Otherwise, the agent would write its own text."""
    assert not decision(approval("NotebookEdit"), "mine").allow


def test_a_decision_without_a_text_is_a_denial() -> None:
    assert not decision(approval("Write"), None).allow
