"""An edit is denied if, in the same editor, the file has unsaved changes and the policy applies to its state."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Guard, decision
from .payloads import KEPT, A, edit, recorded

CLEAN_IN_FRONT = {"current": True, "visible": True}
MODIFIED_HIDDEN = {"modified": True}
MODIFIED_BESIDE = {"modified": True, "visible": True}


def test_an_edit_of_a_file_with_unsaved_work_is_denied(guard: Guard) -> None:
    """The agent receives the reason, and the editor notifies the user."""
    neovim = guard.neovim({A: KEPT | {"lines": 120}})
    reason = guard.denial(edit())
    assert reason.startswith(
        "/ws/a.py has unsaved changes in Neovim 0.12.4, where the user is working on it; the unsaved version has 120 lines."
    )
    assert "Nothing was written." in reason
    assert "Once they have saved a.py, the same call goes through" in reason
    assert neovim.notices == ["Claude Code can't change a.py until you save it"]
    assert guard.log == ["claude: Edit: protected /ws/a.py (deny)"]


@pytest.mark.parametrize("standing", [None, {}, CLEAN_IN_FRONT, MODIFIED_HIDDEN, MODIFIED_BESIDE])
def test_edits_of_all_other_files_are_not_denied(guard: Guard, standing: dict[str, Any] | None) -> None:
    neovim = guard.neovim({} if standing is None else {A: standing})
    assert guard.run(edit()) == {}
    assert neovim.methods == ["snapshot"]
    assert guard.log == []


def test_unsaved_and_in_front_must_be_in_the_same_editor(guard: Guard) -> None:
    """The program that the specification describes combines the states of two editors, and would deny the edit."""
    guard.neovim({A: CLEAN_IN_FRONT})
    guard.neovim({A: MODIFIED_HIDDEN}, pid=4712)
    assert guard.run(edit()) == {}


@pytest.mark.parametrize("other", [MODIFIED_HIDDEN, CLEAN_IN_FRONT, {}])
@pytest.mark.parametrize("first", [True, False])
def test_an_editor_with_both_counts_in_any_order(guard: Guard, other: dict[str, Any], first: bool) -> None:
    """The program that the specification describes stops at the first editor with unsaved changes and may allow the
    edit.
    """
    standings = [other, KEPT] if first else [KEPT, other]
    for pid, standing in enumerate(standings, 4711):
        guard.neovim({A: standing}, pid=pid)
    assert "has unsaved changes" in guard.denial(edit())


def test_every_editor_with_unsaved_work_is_reported(guard: Guard) -> None:
    guard.neovim({A: KEPT}, pid=1)
    guard.vscode({A: KEPT}, pid=2)
    clean = guard.neovim({A: {}}, pid=3)
    without = guard.neovim({}, pid=4)
    reason = guard.denial(edit())
    assert "unsaved changes in Neovim 0.12.4" in reason
    assert "unsaved changes in VS Code 1.139.1" in reason
    assert len(clean.notices) == 1  # it shows the file, too
    assert without.notices == []


def test_an_editor_with_another_path_to_the_file_is_notified(guard: Guard) -> None:
    """One editor has the file open through a link, while VS Code resolves links in every name."""
    guard.neovim({A: KEPT | {"name": "/link/a.py"}}, pid=1)
    clean = guard.vscode({A: {}, "/ws/b.py": {}}, pid=2)
    assert "/link/a.py has unsaved changes" in guard.denial(edit())
    assert clean.notices == ["Claude Code can't change a.py until you save it"]


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("current", [KEPT]),
        ("visible", [KEPT, MODIFIED_BESIDE]),
        ("any", [KEPT, MODIFIED_BESIDE, MODIFIED_HIDDEN]),
    ],
)
def test_each_policy_protects_the_states_it_names(guard: Guard, policy: str, kept: list[dict[str, Any]]) -> None:
    for standing in (KEPT, MODIFIED_BESIDE, MODIFIED_HIDDEN, CLEAN_IN_FRONT, {}):
        with Guard(guard.sockets) as one:
            one.neovim({A: standing})
            assert bool(one.denial(edit(), policy=policy)) is (standing in kept), standing


def test_a_tool_can_have_its_own_policy(guard: Guard) -> None:
    guard.neovim({A: MODIFIED_HIDDEN})
    stricter = {"policy_for": ("Write=any", "NotebookEdit=visible")}
    assert guard.run(edit(), **stricter) == {}
    assert guard.denial(recorded("claude", "PreToolUse", "Write", file_path=A), **stricter)
    assert guard.run(recorded("claude", "PreToolUse", "NotebookEdit", notebook_path=A), **stricter) == {}


def test_an_editor_with_two_sockets_is_named_and_notified_once(guard: Guard) -> None:
    """A VS Code with two folders has two sockets."""
    one, other = guard.vscode({A: KEPT}, pid=5), guard.vscode({A: KEPT}, pid=5)
    assert guard.denial(edit()).count("unsaved changes in") == 1
    assert len(one.notices + other.notices) == 1


def test_a_denied_patch_names_every_file_with_unsaved_work(guard: Guard) -> None:
    patch = recorded("codex", "PreToolUse", "apply_patch")
    guard.neovim({"/ws/b.py": KEPT, "/ws/sub/d.py": KEPT, A: {}})
    reason = guard.denial(patch, agent="codex", policy="any")
    assert "/ws/b.py has unsaved changes" in reason
    assert "/ws/sub/d.py has unsaved changes" in reason
    assert "/ws/a.py" not in reason
    assert "Once they have saved b.py and d.py" in reason


@pytest.mark.parametrize("agent", ["claude", "gemini", "codex"])
def test_the_guard_never_returns_an_explicit_allow(guard: Guard, agent: str) -> None:
    guard.neovim({A: {}})
    payloads = {
        "claude": edit(),
        "gemini": recorded("gemini", "BeforeTool", "replace"),
        "codex": recorded("codex", "PreToolUse", "apply_patch"),
    }
    assert guard.run(payloads[agent], agent=agent) == {}


def test_the_user_is_asked_if_the_setting_is_ask(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    assert "unsaved changes" in decision(guard.run(edit(), answer="ask"), "ask")
    assert neovim.notices == ["Claude Code asks to change a.py, which has unsaved changes"]


def test_gemini_cli_gets_answers_in_its_own_format(guard: Guard) -> None:
    guard.neovim({A: KEPT})
    call = recorded("gemini", "BeforeTool", "replace")
    denied = guard.run(call, agent="gemini")
    assert denied["decision"] == "deny"
    assert "a.py has unsaved changes" in denied["reason"]
    assert set(denied) == {"decision", "reason"}
    asked = guard.run(call, agent="gemini", answer="ask")
    assert asked["decision"] == "ask"
    assert asked["systemMessage"] == asked["reason"]


def test_an_edit_by_codex_is_denied_because_codex_cannot_ask(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    assert "/ws/a.py" in guard.denial(recorded("codex", "PreToolUse", "apply_patch"), agent="codex", answer="ask")
    assert neovim.notices == ["Codex can't change a.py until you save it"]
