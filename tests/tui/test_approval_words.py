"""What the terminal client shows of an approval request besides the change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from drawbridge.tui import wording
from drawbridge.tui.answers import field, piece, why_not_edited
from drawbridge.tui.approval_words import ApprovalState, always_words, reason_hint, risks, title, ways

from .rig import described

OFFERS = [{"name": "default", "title": "Ask first"}, {"name": "plan", "title": "Plan"}]

REQUEST: dict[str, Any] = described({"tool_name": "Bash", "input": {"command": "ls"}}, "Claude")


def test_the_title_names_the_subagent_that_asks() -> None:
    asked = {**REQUEST, "asked_by": {"agent_id": "a1", "agent_type": "reviewer"}}
    assert title(asked, "Claude", "/p", None, 1).plain.endswith("asked by reviewer")
    assert title({**REQUEST, "asked_by": {"agent_id": "a1"}}, "Claude", "/p", None, 1).plain.endswith("a subagent")
    assert "asked by" not in title(REQUEST, "Claude", "/p", None, 1).plain


def test_a_mode_shows_that_its_agent_never_asks() -> None:
    assert wording.mode({"asks": False}, "default", OFFERS) == "default · doesn’t ask"
    assert wording.mode({}, "default", OFFERS) == "Ask first"
    assert wording.mode({}, "workspace-write", OFFERS) == "workspace-write"


def test_an_agents_own_mode_is_shown_with_its_title() -> None:
    project = {"own_modes": [{"name": "review", "title": "Review only"}, {"name": "odd"}]}
    assert [wording.mode(project, name, OFFERS) for name in ("review", "odd", "plan")] == ["Review only", "odd", "Plan"]


def asked(tool: str, given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return described({"tool_name": tool, "input": given, **more}, "Claude")


def test_the_title_comes_from_the_server() -> None:
    assert title(REQUEST, "Claude", "/p", None, 1).plain == "Claude wants to run a command"
    before = {"tool_name": "Bash", "input": {"command": "ls"}}
    assert title(before, "Claude", "/p", None, 1).plain == "Claude wants to use Bash"


def test_the_title_shows_the_target_of_a_link() -> None:
    links = {"/home/ada/blog/notes.md": "/home/ada/.bashrc"}
    request = asked("Write", {"file_path": "/home/ada/blog/notes.md", "content": ""}, link_targets=links)
    shown = title(request, "Claude", "/home/ada/blog", None, 1).plain
    assert shown == "Claude wants to write notes.md → /home/ada/.bashrc"


def test_risky_parts_have_a_line_each() -> None:
    request = asked("Bash", {"command": "echo 😀 && sudo ls; curl x | sh; sudo id"})
    assert [part.text for part in risks(request)] == [
        "Runs as another user: sudo",
        "Runs what it downloads or reads from a pipe: | sh",
    ]
    assert piece(request, {"field": "command", "start": 0, "end": 4}) == "echo"
    assert piece(request, {"field": "elsewhere.command", "start": 0, "end": 4}) == ""


def test_always_shows_the_servers_text_and_the_settings_file() -> None:
    rule = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "ls *"}]}
    request = asked("Bash", {"command": "ls"}, suggestions=[rule | {"destination": "localSettings"}])
    assert always_words(request) == "Always allow `ls …` in this project (.claude/settings.local.json)"
    assert "always" not in ways(request, ApprovalState(may_remember=False))


def test_a_plan_has_three_answers() -> None:
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    shown = ways(asked("ExitPlanMode", {"plan": "# Plan"}, suggestions=[mode]), ApprovalState())
    assert [shown[name].plain for name in ("accept", "always", "reject")] == [
        "a Approve, ask before edits",
        "w Approve and accept edits",
        "r Keep planning",
    ]


def test_the_reason_field_has_the_same_text_as_in_the_web_ui() -> None:
    plan = asked("ExitPlanMode", {"plan": "# Plan"})
    assert reason_hint(plan, "Claude") == "What should change in the plan? (optional)"
    assert reason_hint(REQUEST, "Claude") == "Tell Claude what to do instead (optional)"
    assert reason_hint(REQUEST, "The demo agent") == "Tell the demo agent what to do instead (optional)"
    assert ways(plan, ApprovalState(mode="reject"))["reject"].plain == "Enter Keep planning"
    assert ways(REQUEST, ApprovalState(mode="reject"))["reject"].plain == "Enter Reject"


def test_an_agent_has_the_name_that_the_server_gives_it() -> None:
    described = [{"name": "claude", "label": "Claude"}, {"name": "demo", "label": "The demo agent"}]
    labels = [wording.agent_label(name, described) for name in ("claude", "demo", "pelican")]
    assert labels == ["Claude", "The demo agent", "The pelican agent"]


def test_a_missing_prompt_box_is_explained() -> None:
    assert wording.rights({}, may_answer=False) == "View only."
    assert wording.rights({}, may_answer=True).startswith("This device can approve requests and stop runs, but can’t")
    assert wording.rights({"desk": {"state": "ended"}}, may_answer=True) == "This session has ended."
    assert wording.rights({"desk": {"state": "working"}}, may_answer=False) == "Send messages from the terminal."


def test_a_withdrawn_request_has_the_same_text_as_in_the_history() -> None:
    assert wording.first_words({"reason": "the run has ended"}, REQUEST) == "Withdrawn: the run has ended."
    assert wording.first_words({"reason": "answered elsewhere"}, REQUEST) == "Answered elsewhere."


def test_a_user_who_was_about_to_answer_sees_who_answered_first() -> None:
    assert wording.first_words({"by": "Ada", "decision": "allow"}, REQUEST) == "Ada accepted this first."
    question = {"kind": "question"}
    assert wording.first_words({"by": "Ada", "decision": "allow"}, question) == "Ada answered this first."
    assert wording.first_words({"by": "Ada", "decision": "deny"}, question) == "Ada skipped this first."


def test_a_command_can_be_edited_by_a_device_that_may_run() -> None:
    assert field(REQUEST) == "command"
    assert why_not_edited(REQUEST) == ""
    assert "can't change" in why_not_edited(REQUEST, may_run=False)
    unchangeable = asked("Bash", {"command": "ls"}, changeable=False)
    assert field(unchangeable) is None
    assert why_not_edited(unchangeable) != ""


def test_a_limit_that_resets_on_another_day_has_the_date() -> None:
    until = datetime(2030, 5, 4, 12, tzinfo=UTC)
    project = {"state": "IDLE", "continues_at": until.isoformat()}
    assert wording.waits_until(project).endswith(" on 4 May")
    assert wording.lifted(until.isoformat(), until - timedelta(days=2)).endswith(" on 4 May.")


def test_a_retry_and_a_compaction_are_reported() -> None:
    retry = {"attempt": 3, "attempts": 10, "reason": "authentication_failed", "status": 401}
    assert wording.agent_words({"retry": retry}) == "Retrying 3 of 10: 401 authentication"
    assert wording.agent_words({"compacting": True}) == "Compacting the conversation"
    assert wording.agent_words({"model": "opus"}) == ""


def test_the_context_is_a_percentage_of_its_window() -> None:
    assert wording.context_words({"context_tokens": 50_000, "context_window": 200_000}) == "25% context"
    assert (
        wording.context_words({"context_tokens": 50_000}) == "50k tokens"
    )  # as in the web UI, because the size of a terminal session's context window is not known
    assert wording.context_words({}) == ""
