"""The user's text is saved before an edit. The guard waits until the user saves, or saves it for them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from drawbridge.guard import saving, unsaved

from . import editors
from .conftest import Guard, decision
from .payloads import KEPT, A, edit, recorded

SAVED = (
    "The user's unsaved changes to a.py were saved just before this call: what was read earlier may be older than what "
    "is on disk now."
)


def let_through(answer: dict[str, Any]) -> str:
    """Returns the context that the agent gets with a call that is let through. Fails if the call was denied."""
    output = answer["hookSpecificOutput"]
    assert set(output) == {"hookEventName", "additionalContext"}
    added: str = output["additionalContext"]
    return added


def test_a_call_continues_as_soon_as_nothing_is_unsaved(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    timer = threading.Timer(0.15, lambda: neovim.files.update({A: {}}))
    timer.start()
    assert let_through(guard.run(edit(), answer="wait")) == SAVED.replace("were saved", "were saved or discarded")
    timer.join()
    assert neovim.notices == ["Claude Code is waiting up to 30 s for you to save a.py"]
    assert guard.log == []


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "POLL_INTERVAL", 0.02)


def test_switching_to_another_file_does_not_count_as_saving(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    timer = threading.Timer(0.1, lambda: neovim.files.update({A: {"modified": True}}))
    timer.start()
    assert "The changes were not saved within 0.3 s." in guard.denial(edit(), answer="wait", wait=0.3)
    timer.join()


def test_without_a_save_the_edit_is_denied(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    began = time.monotonic()
    reason = guard.denial(edit(), answer="wait", wait=0.3)
    assert 0.3 <= time.monotonic() - began < 3
    assert "Nothing was written. The changes were not saved within 0.3 s." in reason
    assert len(neovim.notices) == 2
    assert guard.log == ["claude: Edit: protected /ws/a.py (wait)"]


def test_an_editor_that_hangs_during_the_wait_has_not_saved(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEXT_DEADLINE", "NOTICE_DEADLINE"):
        monkeypatch.setattr(unsaved, name, 50)
    neovim = guard.neovim({A: KEPT})
    timer = threading.Timer(0.1, lambda: setattr(neovim, "manner", editors.silent))
    timer.start()
    assert "The changes were not saved" in guard.denial(edit(), answer="wait", wait=0.3, deadline=50)
    timer.join()


@pytest.mark.parametrize("saves", [True, False])
def test_a_closed_editor_has_saved_only_if_the_file_changed(guard: Guard, tmp_path: Path, saves: bool) -> None:
    """Neovim ends with ``:wq``, or is killed. In that case, the unsaved text is only in its swap file."""
    file = tmp_path / "a.py"
    file.write_text("one\n")

    def close(_params: object) -> dict[str, Any]:
        if saves:
            file.write_text("one\nmine\n")
        neovim.path.unlink()
        return {"success": True}

    neovim = guard.neovim({str(file): KEPT}, answers={"send_message": close})
    answer = guard.run(edit(str(file)), answer="wait")
    if saves:
        assert "were saved or discarded just before this call" in let_through(answer)
    else:
        assert "Nothing was written. Neovim 0.12.4 was closed without saving." in decision(answer, "deny")


def test_the_guard_waits_for_both_editors_to_save(guard: Guard) -> None:
    one, other = guard.neovim({A: KEPT}, pid=1), guard.vscode({A: KEPT}, pid=2)
    one.files[A] = KEPT
    timers = [
        threading.Timer(seconds, lambda editor=editor: editor.files.update({A: {}}))
        for seconds, editor in ((0.1, one), (0.4, other))
    ]
    began = time.monotonic()
    for timer in timers:
        timer.start()
    assert let_through(guard.run(edit(), answer="wait"))
    assert time.monotonic() - began >= 0.4
    for timer in timers:
        timer.join()


def test_the_buffer_is_saved_for_the_user(guard: Guard) -> None:
    neovim = guard.neovim({A: KEPT})
    assert let_through(guard.run(edit(), answer="save")) == SAVED
    assert neovim.params_of("save_buffer") == [{"file_path": A}]
    assert neovim.notices == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"saved": False, "reason": "the file on disk is newer"}, "the file on disk is newer"),
        (None, "it did not answer in time"),
        ({}, "the editor gave no reason"),
        ("x", "the editor gave no reason"),
    ],
)
def test_an_edit_is_denied_if_the_file_cannot_be_saved(guard: Guard, answer: Any, why: str) -> None:
    guard.neovim({A: KEPT}, answers={"save_buffer": answer})
    assert f"Neovim 0.12.4 could not save a.py: {why}." in guard.denial(edit(), answer="save")


def test_gemini_cli_continues_without_extra_context(guard: Guard) -> None:
    guard.neovim({A: KEPT})
    assert guard.run(recorded("gemini", "BeforeTool", "replace"), agent="gemini", answer="save") == {}


def test_a_file_that_is_not_protected_is_not_saved(guard: Guard) -> None:
    neovim = guard.neovim({A: {"modified": True}})
    assert guard.run(edit(), answer="save") == {}
    assert "save_buffer" not in neovim.methods


def test_several_slow_saves_share_one_deadline(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the hook took longer than its agent waits, the edit would overwrite what is known to be unsaved."""
    monkeypatch.setattr(saving, "SAVE_DEADLINE", 1.6 * 1000 * editors.LONG)
    for pid in (1, 2):
        guard.neovim({A: KEPT}, pid=pid, manner=editors.at_work)
    assert "Neovim 0.12.4 could not save a.py: it did not answer in time." in guard.denial(edit(), answer="save")


@pytest.mark.parametrize(
    ("answer", "where"), [("save", "the same editor"), ("save", "another editor"), ("wait", "another editor")]
)
def test_changes_typed_during_a_save_block_the_write(guard: Guard, answer: str, where: str) -> None:
    other = guard.neovim({A: {"current": True}}, pid=2)

    def saved(_params: object) -> dict[str, Any]:
        """Acts as an editor that has saved, and whose user continues to type immediately."""
        one.files[A] = {"modified": where == "the same editor", "current": True}
        other.files[A] = {"modified": where == "another editor", "current": True}
        return {"saved": True, "success": True}

    one = guard.neovim({A: KEPT}, pid=1, answers={"save_buffer": saved, "send_message": saved})
    assert "Nothing was written. The user has made these changes in the meantime." in guard.denial(
        edit(), answer=answer
    )
    assert len(other.notices) == 1
