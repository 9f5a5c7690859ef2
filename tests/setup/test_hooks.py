"""Whatever an agent's settings look like, adding hooks and then removing them leaves every byte as it was."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drawbridge.agents.claude.hook_settings import ASK_MODE
from drawbridge.setup import hooks
from drawbridge.setup.jsonc import Document
from tests.setup.test_jsonc import VALUES, written

OURS = {"type": "command", "command": "/py", "args": ["-I", "/home/ada/.local/share/drawbridge/guard/claude.py"]}
WANTED: dict[str, hooks.Group] = {"Pre": {"matcher": "Edit", "hooks": [OURS]}, "Post": {"hooks": [OURS]}}

GROUPS = st.lists(
    st.fixed_dictionaries({"hooks": st.lists(VALUES, max_size=2)}, optional={"matcher": st.text()}) | VALUES
)
EVENTS = st.dictionaries(st.sampled_from(["Pre", "Post", "Stop"]), GROUPS | VALUES)
SETTINGS = st.dictionaries(st.text(), VALUES, max_size=2).flatmap(
    lambda others: st.fixed_dictionaries({}, optional={"hooks": EVENTS | VALUES, "permissions": VALUES}).map(
        lambda settings: others | settings
    )
)


@given(SETTINGS, st.data())
def test_adding_and_removing_restores_every_byte(settings: dict[str, Any], data: st.DataObject) -> None:
    before = Document(data.draw(written(settings)), comments=True)
    try:
        after = hooks.add(before, WANTED, "claude", ())
        if data.draw(st.booleans()):
            for path, value in ASK_MODE.values.items():
                after = hooks.set_value(after, path, value)
    except hooks.Unfit:
        return
    assert {event for event, _, _ in hooks._guard_hooks(after, "claude")} == {"Pre", "Post"}
    assert hooks.add(after, WANTED, "claude", ()).text == after.text
    made = hooks.containers(after, ASK_MODE.values) - hooks.containers(before, ASK_MODE.values)
    for path in reversed(list(ASK_MODE.values)):
        if after.get(path) == ASK_MODE.values[path]:
            former = before.source(path) if path in before else None
            after = hooks.restore_value(after, path, ASK_MODE.values[path], former, made)
    assert hooks.remove(after, "claude", made).text == before.text


def test_a_hook_that_calls_our_guard_is_recognized() -> None:
    for handler in (
        OURS,
        {"type": "command", "command": "/py -I -S '/with space/drawbridge/guard/claude.py'"},
        {"type": "command", "command": "/py", "args": ["/drawbridge/guard/claude-0123456789ab.py"]},
    ):
        assert hooks.is_guard_hook(handler, "claude")
        assert not hooks.is_guard_hook(handler, "codex")


def test_a_hook_that_only_looks_like_ours_is_kept() -> None:
    for handler in (
        {"type": "command", "command": "drawbridge hook"},
        {"type": "command", "command": "cat /home/ada/drawbridge/guard/README.md"},
        {"type": "command", "command": "/opt/drawbridge/guard/agents.py"},
        {"type": "command", "command": "an open 'quote /drawbridge/guard/claude.py"},
        {"type": "command", "args": "/drawbridge/guard/claude.py"},
        {"command": 3, "args": [4]},
        "/drawbridge/guard/claude.py",
        None,
    ):
        assert not hooks.is_guard_hook(handler, "claude")


def test_new_hook_groups_are_added_after_the_existing_ones() -> None:
    """The existing groups therefore keep their positions."""
    theirs = {"matcher": "X", "hooks": [{"type": "command", "command": "x"}]}
    after = hooks.add(Document(json.dumps({"hooks": {"Pre": [theirs]}})), WANTED, "claude", ())
    assert after.get(("hooks", "Pre")) == [theirs, WANTED["Pre"]]


def test_a_mode_that_the_user_has_changed_is_not_restored() -> None:
    after = hooks.set_value(Document('{"permissions": {"defaultMode": "plan"}}'), ASK_MODE.mode, ASK_MODE.asking)
    changed = after.replace(ASK_MODE.mode, "acceptEdits")
    assert hooks.restore_value(changed, ASK_MODE.mode, ASK_MODE.asking, '"plan"', set()).text == changed.text
    assert hooks.restore_value(after, ASK_MODE.mode, ASK_MODE.asking, '"plan"', set()).get(ASK_MODE.mode) == "plan"
