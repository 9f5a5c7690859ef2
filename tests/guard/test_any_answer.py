"""Whatever JSON one editor sends, the agent gets an answer, and the unsaved work in another editor stays protected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Guard
from .payloads import KEPT, A, Payload, bash, edit, edited, recorded

words = st.sampled_from([A, "x", "", "/ws/.env", "Neovim", "error"])
KEYS = (
    "files unsaved open folders selection connected pid editor name modified current visible lines file_path content kept "
    "new pending text version reason language merged saved truncated start_line"
)
keys = st.sampled_from(KEYS.split())
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.just(0.5) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=12,
)
file = st.dictionaries(keys, anything, max_size=4).map(
    lambda more: {"name": A, "modified": True, "current": True} | more
)
nearly = st.fixed_dictionaries(
    {"files": st.lists(file | st.none() | anything, min_size=1, max_size=1)},
    optional={
        "pid": anything,
        "editor": anything,
        "unsaved": st.lists(file | anything, max_size=2) | anything,
        "open": st.lists(words | anything, max_size=2) | anything,
        "folders": st.lists(words | anything, max_size=2) | anything,
        "connected": st.lists(anything, max_size=2) | anything,
        "selection": st.dictionaries(keys, anything, max_size=5),
    },
)
EVENTS = [
    edit(),
    edited(),
    bash("rm a.py"),
    recorded("claude", "PreToolUse", "Read"),
    recorded("claude", "PostToolUse", "Bash"),
    recorded("claude", "UserPromptSubmit"),
    recorded("claude", "SessionStart"),
    recorded("claude", "FileChanged"),
]


@pytest.mark.parametrize("answer", ["deny", "merge", "save"])
def test_any_answer_leaves_other_editors_protected(guard: Guard, answer: str) -> None:
    odd = guard.neovim(pid=1)
    guard.neovim({A: KEPT}, pid=2, answers={"save_buffer": {"saved": False, "reason": "no"}})

    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(nearly | anything, anything, st.sampled_from(EVENTS))
    def whatever(snapshot: Any, other: Any, payload: Payload) -> None:
        methods = ("refresh_buffer", "diagnostics", "buffer_text", "save_buffer", "merge_buffer", "send_message")
        odd.answers = dict.fromkeys(methods, other) | {"snapshot": snapshot}
        output = guard.run(payload, answer=answer, policy="any", deadline=2_000)
        assert isinstance(output, dict)
        if payload == EVENTS[0] and answer == "deny":
            assert output["hookSpecificOutput"]["permissionDecision"] == "deny"

    whatever()
    assert [line for line in guard.log if "failed" in line] == []
