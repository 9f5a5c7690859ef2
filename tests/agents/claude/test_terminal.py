"""What Claude Code's hooks and files report about a session in a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents.base import Decision
from drawbridge.agents.claude.terminal import agent
from drawbridge.agents.results import RATE_LIMITED, TOO_LONG, UNAVAILABLE
from drawbridge.agents.terminal import NotItsFile, Task

SESSION = "01234567-89ab-cdef-0123-456789abcdef"


def payload(**fields: Any) -> Raw:
    usual = {"hook_event_name": "Stop", "session_id": SESSION, "cwd": "/work"}
    return Raw(json.dumps(usual | fields).encode())


def test_a_hook_reports_the_tasks_that_are_still_running() -> None:
    tasks = [{"id": "t1", "type": "shell"}, {"id": "t2", "type": "subagent", "status": "completed"}]
    assert agent().event(payload(background_tasks=tasks)).tasks == {"t1": Task("t1", "shell")}
    assert agent().event(payload(background_tasks="none")).tasks == {}


def test_the_message_about_an_ended_task_continues_the_turn() -> None:
    prompt = "<task-notification>\n<task-id>t1"
    assert agent().event(payload(hook_event_name="UserPromptSubmit", prompt=prompt)).continues
    assert not agent().event(payload(hook_event_name="UserPromptSubmit", prompt="Go on")).continues


def test_a_failed_request_has_a_code_if_the_protocol_has_one() -> None:
    assert agent().event(payload(hook_event_name="StopFailure", error="rate_limit")).code == RATE_LIMITED
    assert agent().event(payload(hook_event_name="StopFailure", error="overloaded")).code == UNAVAILABLE
    full = "Prompt is too long · automatic compaction failed"
    stopped = payload(hook_event_name="StopFailure", error="invalid_request", last_assistant_message=full)
    assert agent().event(stopped).code == TOO_LONG
    assert agent().event(payload(hook_event_name="StopFailure", error="unknown")).code is None
    assert agent().event(payload(hook_event_name="StopFailure", error=5)).code is None


@pytest.mark.parametrize(
    "given", [b"[]", b"{", b'{"hook_event_name": "Stop"}', payload(cwd="work"), payload(session_id=5)]
)
def test_an_invalid_payload_is_refused(given: bytes | Raw) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is msgspec's
        agent().event(Raw(given))


def test_an_answer_has_an_input_only_for_a_plan_or_an_edit() -> None:
    given = Raw(b'{"command":"ls"}')
    assert agent().answer(Decision(True), "Bash", given, Raw(b"[]")) == {"behavior": "allow"}
    assert "updatedInput" in agent().answer(Decision(True), "ExitPlanMode", given, Raw(b"[]"))
    edited = {"command": "ls -a"}
    changed = Decision(True, updated_input=edited)
    assert agent().answer(changed, "Bash", given, Raw(b"[]"))["updatedInput"] == edited


def test_a_call_is_recognized_although_its_text_was_edited() -> None:
    asked, edited = {"file_path": "/a", "content": "one"}, {"file_path": "/a", "content": "two"}
    assert agent().is_same_call("Write", asked, edited, as_run=True)
    assert not agent().is_same_call("Write", asked, edited, as_run=False)
    assert not agent().is_same_call("Write", asked, {"file_path": "/b", "content": "one"}, as_run=True)


@pytest.mark.parametrize("prompt", ["/clear", "!ls", "exit", ":wq!"])
def test_commands_of_the_cli_are_recognized(prompt: str) -> None:
    assert agent().is_command(prompt)
    assert not agent().is_command(f"What does {prompt} do?")


def test_only_the_sessions_own_transcript_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    own = tmp_path / "config" / "projects" / "-work" / f"{SESSION}.jsonl"
    own.parent.mkdir(parents=True)
    assert agent().checked(str(own), SESSION, "") == str(own)
    link = own.parents[1] / "link"
    link.symlink_to(tmp_path)
    for other in (own.with_name("other.jsonl"), tmp_path / own.name, link / own.name, own.parent / ".." / own.name):
        with pytest.raises(NotItsFile):
            agent().checked(str(other), SESSION, "")
    with pytest.raises(NotItsFile):
        agent().checked(str(own), "..", "")


def test_a_line_is_found_by_its_own_uuid_not_by_its_parents() -> None:
    first, second = b'{"uuid":"u1"}\n', b'{"parentUuid":"u1","uuid":"u2"}\n'
    assert agent().end_of("u1", first + second) == len(first)
    assert agent().end_of("u2", first + second) == len(first + second)
    assert agent().end_of("u3", first + second) is None
