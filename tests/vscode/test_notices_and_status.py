"""What a person reads: notices of the guard, and how things stand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .desk import Desk
from .rig import wait_until

pytestmark = pytest.mark.thorough

PICTURES = os.environ.get("DRAWBRIDGE_TEST_PICTURES")
"""A directory: pictures of the window are put there."""


def test_a_notice_is_shown_and_waits_for_nobody(desk: Desk) -> None:
    message = "Claude Code was kept from changing a.py until you save it"
    assert desk.ask("send_message", message=message) == {"success": True}
    wait_until(desk.notices, "the notice")
    assert desk.notices() == [f"Drawbridge: {message}"]
    path = desk.opens(desk.file("a.py"))
    desk.types("still typing ")
    assert desk.text(path).startswith("still typing ")


def test_a_notice_about_a_file_is_shown_only_where_that_is_open(desk: Desk) -> None:
    closed, path = desk.file("closed.py"), desk.opens(desk.file("a.py"))
    assert desk.ask("send_message", message="about closed.py", file_path=str(closed)) == {"success": True}
    assert desk.ask("send_message", message="about a.py", file_path=str(path)) == {"success": True}
    wait_until(desk.notices, "the notice")
    assert desk.notices() == ["Drawbridge: about a.py"]


def test_a_notice_that_comes_by_both_sockets_is_shown_once(desk: Desk) -> None:
    for socket in desk.window.sockets():
        desk.socket = socket
        desk.ask("send_message", message="one and the same")
    desk.ask("send_message", message="another")
    wait_until(lambda: len(desk.notices()) >= 2, "the notices")
    assert sorted(desk.notices()) == ["Drawbridge: another", "Drawbridge: one and the same"]


def test_a_name_in_a_notice_is_no_link(desk: Desk) -> None:
    desk.ask("send_message", message="kept [a.py](command:workbench.action.quit)")
    wait_until(desk.notices, "the notice")
    assert desk.window.sees(".notification-list-item-message a") == []


def test_the_status_says_where_it_listens_and_what_it_has_answered(desk: Desk) -> None:
    assert desk.window.sees("#drawbridge\\.drawbridge\\.drawbridge\\.status") != []
    desk.ask("send_message", message="Claude Code was kept from changing a.py, which has unsaved changes")
    desk.ask("get_visual_selection")
    desk.does("drawbridge.showStatus")
    lines = ".output-view-content .view-line, .panel .view-line"

    def page() -> str:
        return "".join(desk.window.sees(lines)).replace("\u00a0", " ")

    wait_until(lambda: "requests, the last one (get_visual_selection) at" in page(), "the status")
    assert "unsaved work in this window is protected" in page()
    if PICTURES:
        desk.window.browser.tell(page=desk.window.name, shot=str(Path(PICTURES) / "status.png"))
