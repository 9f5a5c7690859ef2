"""How the terminal client shows approval requests and runs that have ended."""

from __future__ import annotations

from typing import Any

import pytest

from drawbridge.tui.colors import DARK
from drawbridge.tui.conversation import Conversation, Item, Record
from drawbridge.tui.drawing import Painter

BASH: dict[str, Any] = {"tool_name": "Bash", "input": {"command": "make"}}
WRITE: dict[str, Any] = {
    "tool_name": "Write",
    "input": {"file_path": "/p/a.txt", "content": "agent\n"},
    "proposal": {"path": "/p/a.txt", "old_text": "", "new_text": "agent\n"},
}
EDITED: dict[str, Any] = {"decision": "allow", "by": "phone", "edited": True, "client_id": "client_1"}


def _drawn(request: dict[str, Any], answer: dict[str, Any], *, folded: bool, mine: bool = False) -> str:
    painter = Painter(DARK, lambda answer: mine)
    item = Item(1, 1, "", "question", {"request": request, "answer": answer})
    return "\n".join(strip.text.rstrip() for strip in painter.item(item, 80, folded=folded, whole=None))


def test_an_edited_change_is_shown_as_edited() -> None:
    answer = {**EDITED, "new_text": "person\n"}
    assert _drawn(WRITE, answer, folded=True).startswith("✓ Accepted with edits by phone")
    assert _drawn(WRITE, answer, folded=True, mine=True).startswith("✓ Accepted with your edits")


def test_the_users_own_decision_is_attributed_to_you() -> None:
    answer = {"decision": "allow", "by": "Ada"}
    assert _drawn(BASH, answer, folded=True, mine=True).startswith("✓ Accepted by you")
    assert _drawn(BASH, answer, folded=True).startswith("✓ Accepted by Ada")
    rejected = {"decision": "deny", "by": "Ada"}
    assert _drawn(BASH, rejected, folded=True, mine=True).startswith("✗ Rejected by you")


def test_a_decided_plan_is_called_a_plan() -> None:
    plan: dict[str, Any] = {"tool_name": "ExitPlanMode", "kind": "plan", "input": {"plan": "# Plan"}}
    assert _drawn(plan, {"decision": "allow", "by": "phone"}, folded=True).startswith("✓ Plan approved by phone")
    rejected = {"decision": "deny", "by": "phone", "message": "Smaller steps."}
    assert _drawn(plan, rejected, folded=True).startswith("✗ Plan rejected by phone: “Smaller steps.”")


def test_a_prompt_from_the_terminal_is_shown_as_the_users() -> None:
    item = Item(1, 1, "", "prompt", {"text": "Hello", "by": "desk"})
    assert Painter(DARK).item(item, 80, folded=True, whole=None)[0].text.startswith("▎ You, in the terminal")


def test_an_edited_change_unfolds_to_both_texts() -> None:
    accepted, _, proposed = _drawn(WRITE, {**EDITED, "new_text": "person\n"}, folded=False).partition(
        "Proposed version"
    )
    assert "Accepted version" in accepted
    assert "person" in accepted
    assert "agent" not in accepted
    assert "agent" in proposed
    assert "person" not in proposed


def test_an_edited_input_unfolds() -> None:
    shown = _drawn(BASH, {**EDITED, "updated_input": {"command": "make check"}}, folded=False)
    assert "Accepted version" in shown
    assert "make check" in shown
    assert "Too large to show." in _drawn(BASH, EDITED, folded=False)


def test_a_plan_unfolds_as_it_was_accepted() -> None:
    """The plan is shown with the approval request, because Claude Code's own call has no input."""
    plan: dict[str, Any] = {"tool_name": "ExitPlanMode", "kind": "plan", "input": {"plan": "# Old\n\n1. *Theirs*\n"}}
    for answer in ({"decision": "allow", "by": "phone"}, {"decision": "deny", "by": "phone"}, {"reason": "gone"}):
        assert "1 Theirs" in _drawn(plan, answer, folded=False)
        assert "Theirs" not in _drawn(plan, answer, folded=True)
    shown = _drawn(plan, {**EDITED, "updated_input": {"plan": "# New\n\n1. *Mine*\n"}}, folded=False)
    assert "1 Mine" in shown
    assert "Theirs" not in shown


def test_an_answer_to_a_question_is_not_an_edit() -> None:
    asked = {"tool_name": "AskUserQuestion", "kind": "question", "input": {"questions": []}}
    shown = _drawn(asked, {**EDITED, "updated_input": {"answers": {"Which?": "oak"}}}, folded=False)
    assert shown.startswith("✓ Answered by phone: oak")
    assert "edits" not in shown
    assert "Accepted version" not in shown


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("overruled: it was allowed in the terminal at the same moment", "Overruled: it was allowed in the terminal"),
        ("asked in the terminal: it can now be answered only there", "Asked in the terminal: it can now"),
        ("answered elsewhere", "Answered elsewhere"),
        ("the run has ended", "Withdrawn: the run has ended"),
    ],
)
def test_an_answer_in_the_terminal_is_not_shown_as_withdrawn(reason: str, words: str) -> None:
    assert _drawn(BASH, {"reason": reason}, folded=True).startswith(f"↩ {words}")


@pytest.mark.parametrize("first", ["call", "result"])
@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ([{"id": "t1", "non_execution_kind": "user-rejected"}], "✗ rejected"),
        ([{"id": "t1", "non_execution_kind": "automode-blocked"}], "✗ rejected"),
        ([{"id": "t2", "non_execution_kind": "user-rejected"}, "odd"], "✗ failed"),
        ("odd", "✗ failed"),
    ],
)
def test_a_call_rejected_in_the_terminal_has_not_failed(metadata: Any, words: str, first: str) -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "No.", "is_error": True}
    result = {"type": "user", "message": {"content": [block]}, "tool_result_meta": metadata}
    called = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}
    call = {"type": "assistant", "message": {"content": [called]}}
    conversation = Conversation("p")
    conversation.join({"last_seq": 0, "run": None, "queue": [], "open_approvals": []}, restart=True)
    for seq, message in enumerate((call, result) if first == "call" else (result, call), start=1):
        conversation.apply(Record(seq, "", "claude", message))
    (item,) = conversation.items
    (line,) = Painter(DARK).item(item, 80, folded=True, whole=None)
    assert line.text.rstrip().endswith(words)


def test_a_run_in_another_directory_shows_where_it_worked() -> None:
    def drawn(**more: str) -> str:
        item = Item(1, 1, "", "finished", {"outcome": "completed", **more})
        return "\n".join(strip.text.rstrip() for strip in Painter(DARK).item(item, 80, folded=True, whole=None))

    assert "Worked in /p/.claude/worktrees/wt" in drawn(directory="/p/.claude/worktrees/wt")
    assert "Worked in" not in drawn()
