"""What a report about a terminal session waits for."""

from __future__ import annotations

from typing import cast

import pytest

from drawbridge.agents.terminal import HookEvent
from drawbridge.server.terminal_sessions.peers import AskingHook
from drawbridge.server.terminal_sessions.reports import (
    AfterPrompt,
    AfterText,
    Condition,
    Disconnected,
    HookReport,
    ProcessCheck,
    QuestionReport,
    ReturnTimeOver,
)

SURFACE = cast(AskingHook, None)


@pytest.mark.parametrize(
    ("name", "text", "after"),
    [
        ("Stop", "Done.", AfterText("Done.")),
        ("StopFailure", "API Error", AfterText("API Error")),
        ("Stop", "", None),
        ("SubagentStop", "Done.", None),
        ("PreToolUse", "", None),
    ],
)
def test_the_end_of_a_turn_follows_its_last_text(name: str, text: str, after: Condition | None) -> None:
    assert HookReport(HookEvent(name, "s", "/ws", last_message=text), 5).after == after


def test_a_question_follows_the_prompt_of_its_run() -> None:
    assert QuestionReport(HookEvent("PermissionRequest", "s", "/ws"), SURFACE, None, None).after == AfterPrompt()


def test_other_reports_do_not_wait_for_a_line() -> None:
    assert [one.after for one in (Disconnected(SURFACE), ReturnTimeOver(), ProcessCheck({}))] == [None] * 3
