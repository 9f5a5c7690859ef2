"""Replays recorded streams of the real CLI. Each line must be parsed and answered as in the recording.

The prompts, decisions and commands are reconstructed from the lines that we sent. test_real_claude describes how to record
new transcripts.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.agents.base import (
    AgentLine,
    Decision,
    Output,
    Question,
    QuestionCancelled,
    Replied,
    SessionIdentified,
    TurnEnded,
)
from drawbridge.agents.claude.conversation import ClaudeConversation
from tests.agents.recording import read

from .recording import TRANSCRIPTS, load

POEM = {"/project/poem.txt": "one\ntwo\nthree\n"}

Message = dict[str, Any]


def played(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Output]:
    """Replays the transcript and returns all events. Checks that our lines are the same as in the recording."""
    lines = load(name)
    ids = (message["uuid"] for message in ours(lines) if message["type"] == "user")
    monkeypatch.setattr("drawbridge.agents.claude.conversation.uuid.uuid4", lambda: uuid.UUID(next(ids)))
    # The ``resume`` transcript has the lines of two processes. The second one resumes the conversation of the first.
    conversation = ClaudeConversation("Claude Code", POEM.get, resumed=name == "resume")
    received: list[Output] = []
    for line in lines:
        message = line["line"]
        if line["from"] == "claude":
            received += map(read, conversation.received(json.dumps(message).encode()))
        else:
            say(conversation, message)
            assert [json.loads(reply) for reply in conversation.outgoing().splitlines()] == [message]
    return received


def ours(lines: list[Message]) -> Iterator[Message]:
    return (line["line"] for line in lines if line["from"] == "drawbridge")


def say(conversation: ClaudeConversation, message: Message) -> None:
    """Makes the call that sent ``message`` in the recording."""
    match message:
        case {"type": "user", "message": {"content": str(words)}}:
            assert conversation.prompt(words) == []
        case {
            "type": "control_response",
            "response": {"request_id": id, "response": {"behavior": "allow", "updatedInput": dict(given)}},
        }:
            conversation.answer(id, Decision(allow=True, updated_input=given))
        case {"type": "control_response", "response": {"request_id": id, "response": {"message": str(why)}}}:
            conversation.answer(id, Decision(allow=False, message=why))
        case {"type": "control_request", "request": {"subtype": "interrupt"}}:
            conversation.interrupt()
        case {"type": "control_request", "request": {"subtype": "set_permission_mode", "mode": mode}}:
            conversation.set_mode(mode)
        case {"type": "control_request", "request": {"subtype": "set_model", "model": model}}:
            conversation.set_model(model)
        case _:
            pytest.fail(f"no call sends this message: {message}")


def all_of(kind: type[Any], received: list[Output]) -> list[Any]:
    return [event for event in received if isinstance(event, kind)]


NAMES = sorted({re.sub(r"^[\d.]+-", "", path.stem) for path in TRANSCRIPTS.glob("*.jsonl")})


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_parsed_and_answered_as_recorded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    received = played(name, monkeypatch)

    lines = load(name)
    messages = [line["line"] for line in lines if line["from"] == "claude"]
    passed_on = [message for message in messages if not message["type"].startswith("control_")]
    assert [json.loads(line.raw) for line in all_of(AgentLine, received)] == passed_on
    prompts = [message for message in ours(lines) if message["type"] == "user"]
    assert len(all_of(TurnEnded, received)) == len(prompts)
    questions = [message for message in messages if message["type"] == "control_request"]
    assert [question.question_id for question in all_of(Question, received)] == [
        asked["request_id"] for asked in questions
    ]
    assert len(all_of(SessionIdentified, received)) == {"clear": 2, "bad-session": 0}.get(name, 1)


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("prompt", ["ok"]),
        ("streaming", ["ok"]),
        ("two-prompts", ["ok", "ok"]),
        ("resume", ["ok", "ok"]),
        ("clear", ["ok", "ok", "ok"]),
        ("allow", ["ok"]),
        ("deny", ["ok"]),
        ("allow-edited", ["ok"]),
        ("ask-user", ["ok"]),
        ("own-turn", ["ok", "ok"]),
        ("modes", ["ok"]),
        ("interrupt", ["interrupted", "ok"]),
        ("interrupt-question", ["interrupted", "ok"]),
        ("bad-session", ["SESSION_NOT_FOUND"]),
        ("not-logged-in", ["AGENT_NOT_LOGGED_IN"]),
        ("api-error", ["AGENT_RATE_LIMITED", "ok"]),
        ("max-turns", ["EXECUTION_FAILED"]),
        ("budget", ["EXECUTION_FAILED"]),
    ],
)
def test_every_turn_ends_as_recorded(name: str, ends: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    turns = all_of(TurnEnded, played(name, monkeypatch))
    assert ["ok" if turn.ok else "interrupted" if turn.interrupted else turn.code for turn in turns] == ends
    assert all(turn.cost_usd is not None and turn.cost_usd >= 0 for turn in turns)
    assert sum(turn.cost_usd > 0 for turn in turns) == sum(end == "ok" for end in ends) - (name == "clear") + (
        name in ("interrupt", "interrupt-question", "max-turns", "budget")
    )


def test_a_change_is_shown_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    (question,) = all_of(Question, played("allow", monkeypatch))
    assert question.proposal.new_text == "one\n2\nthree\n"


def test_a_question_that_was_withdrawn_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    received = played("interrupt-question", monkeypatch)
    (question,) = all_of(Question, received)
    assert all_of(QuestionCancelled, received) == [QuestionCancelled(question.question_id, "the run was interrupted")]


def test_modes_are_accepted_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = all_of(Replied, played("modes", monkeypatch))
    assert [reply.error is None for reply in replies] == [True, True, False, False]


def test_every_recorded_test_has_a_transcript() -> None:
    program = "".join(path.read_text() for path in Path(__file__).parent.glob("test_real_*.py"))
    assert sorted(re.findall(r'^@recorded\("([a-z-]+)"', program, re.MULTILINE)) == NAMES
