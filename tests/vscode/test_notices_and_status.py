"""What users can read in VS Code: the guard's notices, and the status."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .rig import wait_until
from .workstation import Workstation

pytestmark = pytest.mark.thorough

PICTURES = os.environ.get("DRAWBRIDGE_TEST_PICTURES")
"""The directory into which screenshots of the window are written; None for no screenshots."""


def test_a_notice_is_shown_and_does_not_block_typing(rig: Workstation) -> None:
    message = "Claude Code can't change a.py until you save it"
    assert rig.ask("send_message", message=message) == {"success": True}
    wait_until(rig.notices, "the notice")
    assert rig.notices() == [f"Drawbridge: {message}"]
    path = rig.opens(rig.file("a.py"))
    rig.types("still typing ")
    assert rig.text(path).startswith("still typing ")


def test_a_notice_is_shown_only_where_its_file_is_open(rig: Workstation) -> None:
    closed, path = rig.file("closed.py"), rig.opens(rig.file("a.py"))
    assert rig.ask("send_message", message="about closed.py", file_path=str(closed)) == {"success": True}
    assert rig.ask("send_message", message="about a.py", file_path=str(path)) == {"success": True}
    wait_until(rig.notices, "the notice")
    assert rig.notices() == ["Drawbridge: about a.py"]


def test_a_notice_sent_to_both_sockets_is_shown_once(rig: Workstation) -> None:
    for socket in rig.window.sockets():
        rig.socket = socket
        rig.ask("send_message", message="one and the same")
    rig.ask("send_message", message="another")
    wait_until(lambda: len(rig.notices()) >= 2, "the notices")
    assert sorted(rig.notices()) == ["Drawbridge: another", "Drawbridge: one and the same"]


def test_a_link_in_a_notice_is_not_rendered(rig: Workstation) -> None:
    rig.ask("send_message", message="kept [a.py](command:workbench.action.quit)")
    wait_until(rig.notices, "the notice")
    assert rig.window.sees(".notification-list-item-message a") == []


def test_the_status_shows_the_last_call_and_the_protection(rig: Workstation) -> None:
    assert rig.window.sees("#drawbridge\\.drawbridge\\.drawbridge\\.status") != []
    rig.ask("send_message", message="Claude Code can't change a.py, which has unsaved changes")
    rig.ask("get_visual_selection")
    rig.does("drawbridge.showStatus")
    lines = ".output-view-content .view-line, .panel .view-line"

    def page() -> str:
        return "".join(rig.window.sees(lines)).replace("\u00a0", " ")

    wait_until(lambda: "calls, the last one (get_visual_selection) at" in page(), "the status")
    assert "the guard can protect unsaved work in this window" in page()
    if PICTURES:
        rig.window.browser.send(page=rig.window.name, shot=str(Path(PICTURES) / "status.png"))
