"""How the ``claude`` stream is parsed, line by line, without a process."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from drawbridge.agents.base import (
    AgentLine,
    AskedBy,
    Attachment,
    Decision,
    DirectoryChanged,
    Exited,
    ModeChanged,
    Question,
    QuestionCancelled,
    Replied,
    SessionIdentified,
    Tokens,
    TurnBegun,
    TurnEnded,
)

from .stream import Stream

ID = "08445e35-194e-42db-84a7-b7a55484f1b6"


# Lines.


def test_a_line_is_forwarded_unchanged() -> None:
    line = b'{"z":1.0, "type":"assistant","a":"\\u00e4 \xc3\xa4 \\ud83d\\ude00","big":123456789012345678901234567890,"e":1e999}'
    assert Stream().raw(line) == [AgentLine(line)]


@pytest.mark.parametrize(
    ("message", "durable"),
    [
        ({"type": "assistant"}, True),
        ({"type": "user"}, True),
        ({"type": "weather_report"}, True),
        ({"type": "system", "subtype": "something_new"}, True),
        ({"type": "system", "subtype": "api_retry"}, True),
        ({"subtype": "status", "type": "system"}, False),
        ({"event": {"type": "message_stop"}, "type": "stream_event"}, False),
        ({"type": "command_lifecycle", "state": "queued"}, False),
        ({}, True),
        ({"type": None}, True),
        ({"type": ["assistant"]}, True),
    ],
)
def test_transient_messages_stay_out_of_the_history(message: dict[str, Any], durable: bool) -> None:
    assert Stream().receives(**message) == [
        AgentLine(json.dumps(message).encode(), message.get("session_id", ""), durable)
    ]


@pytest.mark.parametrize("kind", ["control_response", "control_cancel_request", "control_tickle", "keep_alive"])
def test_control_messages_are_not_forwarded(kind: str) -> None:
    assert Stream().receives(type=kind, request_id="r1", response={"request_id": "r1", "subtype": "success"}) == []


@pytest.mark.parametrize(
    ("line", "mended"),
    [
        (b'{"type": "a", "t": "caf\xe9"}', {"type": "a", "t": "caf\ufffd"}),
        (b'{"type": "a", "t": "\\ud83d!"}', {"type": "a", "t": "\ufffd!"}),
        (b'{"type": "a", "t": "\\ude00 \xc3\xa4"}', {"type": "a", "t": "\ufffd ä"}),
        (b'{"type": "a", "t": "x\x01y"}', {"type": "a", "t": "x\x01y"}),
        (b'{"type": "a", "n": NaN, "m": -Infinity}', {"type": "a", "n": None, "m": None}),
    ],
)
def test_a_line_that_strict_parsers_reject_is_repaired(line: bytes, mended: dict[str, Any]) -> None:
    (message,) = Stream().raw(line)
    assert isinstance(message, AgentLine)
    assert msgspec.json.decode(message.raw) == mended


def test_carriage_returns_are_removed_from_a_line() -> None:
    (message,) = Stream().raw(b' \t{"type":\r"a"} \r')
    assert message == AgentLine(b'{"type": "a"}')


@pytest.mark.parametrize(
    "junk", [b"Warning: x", b"[1]", b'"a"', b"null", b'{"type": "a', b"{]", b"\xff\xfe", b"[" * 9000]
)
def test_junk_lines_are_skipped_and_counted(junk: bytes) -> None:
    stream = Stream()

    assert stream.raw(junk) == []
    assert stream.raw(b'{"a":' * 3000 + b"1" + b"}" * 3000) == []
    assert stream.raw(b"  \r") == []

    assert stream.conversation.junk_lines == 2
    assert stream.raw(b'{"type":"a"}') == [AgentLine(b'{"type":"a"}')]


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=4),
    max_leaves=8,
)
KINDS = ["system", "assistant", "user", "result", "control_request", "control_response", "control_cancel_request"]
KINDS += ["stream_event", "command_lifecycle", "control_tickle", "keep_alive"]
FIELDS = ["subtype", "session_id", "request_id", "request", "response", "tasks", "error", "state", "command_uuid"]
FIELDS += ["is_error", "result", "errors", "origin", "user_message_uuids", "total_cost_usd", "terminal_reason"]
FIELDS += ["model_usage_since_last_result"]
QUESTIONS = some.builds(
    lambda id, request: json.dumps({"type": "control_request", "request_id": id, "request": request}).encode(),
    some.text(),
    some.fixed_dictionaries(
        {
            "subtype": some.just("can_use_tool"),
            "tool_name": some.sampled_from(["Bash", "Edit", "NotebookEdit", "MultiEdit"]),
        },
        optional={"input": JSON | some.fixed_dictionaries({"file_path": JSON}), "permission_suggestions": JSON},
    ),
)
MESSAGES = some.builds(
    lambda kind, fields: json.dumps({"type": kind, **fields}).encode(),
    some.sampled_from(KINDS) | JSON,
    some.dictionaries(
        some.sampled_from(FIELDS),
        JSON
        | some.fixed_dictionaries(
            {
                "subtype": some.sampled_from(["can_use_tool", "success", "interrupt"]),
                "tool_name": some.text(),
                "input": JSON,
            },
            optional={"request_id": some.text(), "permission_suggestions": JSON},
        )
        | some.sampled_from(
            ["init", "success", "can_use_tool", "background_tasks_changed", "error_max_turns", "drawbridge-1"]
        ),
    ),
)


STREAMS = some.lists(some.binary() | MESSAGES | QUESTIONS, max_size=12)


@given(STREAMS, some.booleans())
def test_any_input_ends_the_turn_exactly_once(lines: list[bytes], resumed: bool) -> None:
    play(lines, resumed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=2_000)
@given(STREAMS, some.booleans())
def test_any_input_ends_the_turn_exactly_once_thoroughly(lines: list[bytes], resumed: bool) -> None:
    play(lines, resumed)


def play(lines: list[bytes], resumed: bool) -> None:
    """Plays a turn in which the agent sends these lines and exits. Every question is allowed."""
    stream = Stream(resumed=resumed)
    stream.prompt()
    stream.conversation.set_mode("plan")
    for line in lines:
        stream.raw(line.replace(b"\n", b" "))
        for question in stream.all(Question):
            stream.conversation.answer(question.question_id, Decision(allow=True, remember=True))
    stream.events += stream.conversation.ended(1, "", None)

    stream.written()  # fails unless every line is JSON
    for message in stream.all(AgentLine):
        assert b"\n" not in message.raw
        assert b"\r" not in message.raw
        assert message.raw.decode().startswith("{")
        json.loads(message.raw, parse_constant=pytest.fail)
    assert len(stream.all(TurnEnded)) == 1
    assert stream.events[-1] == Exited(1, "")


# Prompts.


def test_any_prompt_is_sent_as_a_single_line() -> None:
    stream = Stream()
    words = "--version\n\"quotes\" 'and' \\ \u2028 \x00 \ud800 ä 😀\r\n-p"

    stream.prompt(words)

    data = stream.conversation.outgoing()
    assert data.count(b"\n") == 1
    message = json.loads(data)
    assert message["type"] == "user"
    assert message["message"] == {"role": "user", "content": words.replace("\ud800", "\ufffd")}
    assert stream.conversation.turn_open


def test_images_documents_and_texts_are_sent_with_a_prompt() -> None:
    stream = Stream()

    stream.prompt(
        "Look",
        Attachment("image/png", b"\x89PNG"),
        Attachment("application/pdf", b"%PDF", "a.pdf"),
        Attachment("text/x-python; charset=utf-8", "prinț".encode(), "a.py"),
    )

    (message,) = stream.written()
    png, pdf = (base64.b64encode(data).decode() for data in (b"\x89PNG", b"%PDF"))
    assert message["message"]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": pdf}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "prinț"}, "title": "a.py"},
        {"type": "text", "text": "Look"},
    ]


def test_the_path_of_a_stored_file_follows_the_prompt_text() -> None:
    stream = Stream()
    stored = Attachment("application/zip", bytes(48_000), "q.zip", path="/files/1/q.zip")
    stream.prompt("Look", stored, Attachment("text/plain", b"a text", "a.txt"))
    [(text, words)] = [message["message"]["content"] for message in stream.written()]
    assert text["source"]["data"] == "a text"
    assert words == {"type": "text", "text": "Look\n\nAttached file: /files/1/q.zip (48 kB)"}


def test_an_unsupported_attachment_fails_before_the_turn() -> None:
    stream = Stream()

    stream.prompt("Look", Attachment("video/mp4", b"\xff\xd8\xff", "film.mp4"))

    (ended,) = stream.all(TurnEnded)
    assert (ended.ok, ended.code) == (False, "VALIDATION_FAILED")
    assert ended.error is not None
    assert "film.mp4 (video/mp4) is neither an image" in ended.error
    assert stream.written() == []
    assert not stream.conversation.turn_open


def test_a_second_prompt_during_a_turn_raises_an_error() -> None:
    stream = Stream()
    stream.prompt()
    with pytest.raises(RuntimeError):
        stream.prompt()


# The end of a turn.


def test_a_turn_ends_once() -> None:
    stream = Stream()
    stream.receives(type="system", subtype="init", session_id=ID)

    assert stream.ended() == TurnEnded(ok=True, session_id=ID)

    assert isinstance(stream.events[-2], AgentLine)
    stream.result()
    assert len(stream.all(TurnEnded)) == 1


@pytest.mark.parametrize(
    ("result", "code", "text"),
    [
        ({"result": "API Error: Overloaded", "api_error_status": 529}, "EXECUTION_FAILED", "API Error: Overloaded."),
        (
            {"subtype": "error_max_turns", "errors": ["Reached maximum number of turns (1)"]},
            "EXECUTION_FAILED",
            "The agent stopped: Reached maximum number of turns (1). Send a prompt to continue.",
        ),
        (
            {"subtype": "error_max_budget_usd", "errors": ["Reached maximum budget ($0.1)"]},
            "EXECUTION_FAILED",
            "The agent stopped: Reached maximum budget ($0.1). Raise max_budget_usd to continue.",
        ),
        (
            {"subtype": "error_during_execution", "errors": [f"No conversation found with session ID: {ID}"]},
            "SESSION_NOT_FOUND",
            f"The agent can't find this conversation: No conversation found with session ID: {ID}. "
            "It may have been deleted. Start a new session.",
        ),
        (
            {"subtype": "error_during_execution", "errors": ["[ede_diagnostic] result_type=user"]},
            "EXECUTION_FAILED",
            "The run failed: The agent gave no reason (error_during_execution).",
        ),
        (
            {"errors": "odd", "result": 5, "subtype": ["odd"]},
            "EXECUTION_FAILED",
            "The run failed: The agent gave no reason (['odd']).",
        ),
        (
            {"subtype": "error_max_turns"},
            "EXECUTION_FAILED",
            "The agent stopped: it reached its turn limit. Send a prompt to continue.",
        ),
        ({"result": "\x1b[31mred\x00 " + "x" * 5000}, "EXECUTION_FAILED", "red " + "x" * 1996 + "."),
    ],
)
def test_a_failed_turn_has_a_code_and_an_error_message(result: dict[str, Any], code: str, text: str) -> None:
    ended = Stream().ended(is_error=True, **result)
    assert (ended.ok, ended.code, ended.error, ended.interrupted) == (False, code, text, False)


def test_a_missing_login_is_reported_with_a_remedy() -> None:
    stream = Stream()
    stream.prompt()
    stream.receives(type="assistant", message={}, error="authentication_failed")
    stream.result(is_error=True, result="Not logged in · Please run /login")

    (ended,) = stream.all(TurnEnded)
    assert ended.code == "AGENT_NOT_LOGGED_IN"
    assert ended.error == (
        "The agent has no valid login on the server's machine: Not logged in · Please run /login. "
        "Log in from a terminal on that machine, or start the server with a valid API key for the agent."
    )
    assert stream.ended(is_error=True, result="Overloaded").code == "EXECUTION_FAILED"


@pytest.mark.parametrize(
    ("error", "said", "code"),
    [
        ("overloaded", "API Error: 529 Overloaded.", "MODEL_UNAVAILABLE"),
        ("server_error", "API Error: 500 Internal server error.", "MODEL_UNAVAILABLE"),
        ("invalid_request", "Prompt is too long.", "CONTEXT_TOO_LONG"),
        ("invalid_request", "The text quotes: Prompt is too long.", "EXECUTION_FAILED"),
        ("unknown", "Something odd.", "EXECUTION_FAILED"),
    ],
)
def test_a_failed_model_request_has_the_code_of_its_reason(error: str, said: str, code: str) -> None:
    stream = Stream()
    stream.prompt()
    stream.receives(type="assistant", message={}, error=error)
    stream.result(is_error=True, result=said)

    (ended,) = stream.all(TurnEnded)
    assert (ended.ok, ended.code) == (False, code)
    assert said in (ended.error or "")


def test_is_error_takes_precedence_over_the_subtype() -> None:
    assert Stream().ended(subtype="error_during_execution", is_error=False).ok
    assert not Stream().ended(subtype="success", is_error=True).ok
    assert Stream().ended(is_error="odd").ok
    assert not Stream().ended(is_error=None, subtype="error_during_execution").ok


def test_an_interrupted_turn_is_marked() -> None:
    stream = Stream()
    stream.prompt()
    stream.written()

    stream.conversation.interrupt()

    (asked,) = stream.written()
    assert (asked["type"], asked["request"]) == ("control_request", {"subtype": "interrupt"})
    stream.result(is_error=True, subtype="error_during_execution", terminal_reason="aborted_tools")
    (ended,) = stream.all(TurnEnded)
    assert (ended.ok, ended.interrupted, ended.error) == (False, True, "The run was interrupted.")


def test_an_interrupt_after_the_end_of_the_turn_is_ignored() -> None:
    stream = Stream()
    stream.prompt()
    stream.conversation.interrupt()
    assert stream.result()[-1] == TurnEnded(ok=True)
    stream.written()

    stream.conversation.interrupt()

    assert stream.written() == []
    assert stream.ended(is_error=True, result="x").interrupted is False


def test_an_interrupt_that_ended_the_agents_own_turn_is_repeated() -> None:
    stream = Stream()
    stream.receives(type="system", subtype="init", session_id=ID)
    stream.prompt()
    stream.conversation.interrupt()
    (prompt, _) = stream.written()
    stream.result(is_error=True, terminal_reason="aborted_streaming", origin={"kind": "task-notification"})

    stream.receives(type="command_lifecycle", command_uuid=prompt["uuid"], state="started")

    assert [message["request"]["subtype"] for message in stream.written()] == ["interrupt"]
    stream.result(is_error=True, terminal_reason="aborted_streaming", user_message_uuids=[prompt["uuid"]])
    assert [ended.interrupted for ended in stream.all(TurnEnded)] == [True]


def test_an_agent_initiated_turn_does_not_end_the_users_turn() -> None:
    stream = Stream()
    stream.receives(type="system", subtype="init", session_id=ID)
    assert stream.conversation.busy
    stream.prompt()

    stream.result(origin={"kind": "task-notification"}, result="by the way")
    assert stream.all(TurnEnded) == []
    assert stream.conversation.turn_open

    stream.result(result="the answer")
    assert len(stream.all(TurnEnded)) == 1
    assert not stream.conversation.busy


@pytest.mark.parametrize("named", [True, False])
def test_a_prompt_can_be_answered_in_the_agents_own_turn(named: bool) -> None:
    stream = Stream()
    stream.prompt()
    (prompt,) = stream.written()
    uuid = prompt["uuid"]

    stream.receives(type="command_lifecycle", command_uuid=uuid, state="completed")
    stream.result(origin={"kind": "task-notification"}, **({"user_message_uuids": [uuid]} if named else {}))

    assert [ended.ok for ended in stream.all(TurnEnded)] == [True]


def test_background_tasks_and_questions_keep_the_agent_busy() -> None:
    stream = Stream()
    seen = [stream.busy]

    stream.receives(type="system", subtype="background_tasks_changed", tasks=[{"task_id": "t"}])
    seen.append(stream.busy)
    stream.receives(type="system", subtype="background_tasks_changed", tasks=[])
    seen.append(stream.busy)
    stream.ask()
    seen.append(stream.busy)
    stream.conversation.answer("q1", Decision(allow=False))
    seen.append(stream.busy)

    assert seen == [False, True, False, True, False]


def test_every_mode_change_is_reported() -> None:
    stream = Stream()
    stream.receives(type="system", subtype="init", permissionMode="default")
    for mode in ("acceptEdits", None, 5, "", "x" * 1_000):
        stream.receives(type="system", subtype="status", permissionMode=mode)

    assert stream.all(ModeChanged) == [ModeChanged("default"), ModeChanged("acceptEdits")]


def test_a_new_conversation_id_is_reported() -> None:
    stream = Stream()
    for session_id in (ID, ID, "other", None, "", 5):
        stream.receives(type="system", subtype="init", session_id=session_id)
    stream.receives(type="conversation_reset", session_id="third", new_conversation_id="fourth")

    assert stream.all(SessionIdentified) == [SessionIdentified(ID), SessionIdentified("other")]


def test_a_conversation_can_be_resumed_after_its_first_turn() -> None:
    """A conversation that was resumed before can be resumed again even if no turn has ended since."""
    new, resumed = Stream(), Stream(resumed=True)
    for stream in (new, resumed):
        stream.prompt()
        stream.receives(type="system", subtype="init", session_id=ID)
    once = Stream()
    once.receives(type="system", subtype="init", session_id=ID)
    once.ended()
    once.prompt()

    known = [stream.conversation.ended(-9, "", None)[0] for stream in (new, resumed, once)]

    assert [getattr(ended, "session_id", "") for ended in known] == [None, ID, ID]


# What a turn costs.


def test_the_cost_of_a_turn_is_the_increase_of_the_total() -> None:
    stream = Stream()
    assert stream.ended(total_cost_usd=0.25).cost_usd == 0.25
    assert stream.ended(total_cost_usd=0.75).cost_usd == 0.5
    assert stream.ended(total_cost_usd=0.75).cost_usd == 0


def test_a_resumed_conversation_does_not_count_earlier_costs() -> None:
    stream = Stream(resumed=True)
    usage = {"model_usage_since_last_result": {"a": {"costUSD": 0.125}, "b": {"costUSD": 0.5}}}
    assert stream.ended(total_cost_usd=9.0, **usage).cost_usd == 0.625
    assert stream.ended(total_cost_usd=9.25).cost_usd == 0.25


def test_an_unknown_cost_is_not_guessed() -> None:
    stream = Stream(resumed=True)
    assert stream.ended(total_cost_usd=9.0).cost_usd is None
    assert stream.ended(total_cost_usd=9.5).cost_usd == 0.5
    assert stream.ended().cost_usd is None
    assert stream.ended(total_cost_usd="5").cost_usd is None
    assert stream.ended(total_cost_usd=True).cost_usd is None
    assert stream.ended(total_cost_usd=-1).cost_usd is None


def test_the_tokens_of_all_models_are_added_up() -> None:
    stream = Stream()
    small = {"inputTokens": 100, "outputTokens": 10, "cacheReadInputTokens": 1_000, "cacheCreationInputTokens": 50}
    models = {"a": small, "b": {"inputTokens": 1, "outputTokens": 2}}
    assert stream.ended(model_usage_since_last_result=models).tokens == Tokens(1_151, 12)
    older = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5}
    assert stream.ended(usage=older).tokens == Tokens(7, 5)
    assert stream.ended().tokens is None


@pytest.mark.parametrize("count", [True, -1, "5", None, 1e300, [], {}])
def test_invalid_token_counts_are_left_out(count: object) -> None:
    stream = Stream()
    models = {"a": {"inputTokens": count, "outputTokens": 1}, "b": count}
    assert stream.ended(model_usage_since_last_result=models).tokens == Tokens(0, 1)
    assert stream.ended(usage=count).tokens is None


def test_costs_start_at_zero_when_the_total_is_reset() -> None:
    stream = Stream()
    stream.ended(total_cost_usd=3.0)
    assert stream.ended(total_cost_usd=0, model_usage_since_last_result={}).cost_usd == 0
    assert stream.ended(total_cost_usd=0.5).cost_usd == 0.5
    assert stream.ended(total_cost_usd=0.25).cost_usd == 0.25


def test_the_agents_own_turn_is_added_to_the_next_cost() -> None:
    stream = Stream()
    stream.ended(total_cost_usd=1.0)
    stream.result(total_cost_usd=1.5, origin={"kind": "task-notification"})
    assert stream.ended(total_cost_usd=2.0).cost_usd == 1.0


# The end of the process.


def test_everything_pending_is_resolved_when_the_process_ends() -> None:
    stream = Stream()
    stream.prompt()
    stream.ask()
    id = stream.conversation.set_mode("plan")

    assert stream.conversation.ended(3, "Trace\nSomething broke.", None) == [
        Replied(id, "The agent has ended."),
        QuestionCancelled("q1", "The agent has ended"),
        TurnEnded(
            ok=False,
            error="The agent exited with code 3 before it had finished: Trace\nSomething broke.",
            code="AGENT_EXITED",
        ),
        Exited(3, "Trace\nSomething broke."),
    ]
    assert not stream.conversation.busy


def test_the_end_of_an_idle_process_is_only_reported() -> None:
    assert Stream().conversation.ended(0, "", None) == [Exited(0, "")]


@pytest.mark.parametrize(
    ("code", "stderr", "junk", "fault", "error"),
    [
        (-9, "", b"", None, "The agent was killed by signal 9 before it had finished, without a message."),
        (0, "", b"Segmentation fault", None, "The agent exited with code 0 before it had finished: Segmentation fault"),
        (-15, "noise", b"", "The agent said too much, and was stopped.", "The agent said too much, and was stopped."),
        (1, "\n".join("abcdefg"), b"", None, "The agent exited with code 1 before it had finished: c\nd\ne\nf\ng"),
    ],
)
def test_an_unexpected_exit_is_reported(code: int, stderr: str, junk: bytes, fault: str | None, error: str) -> None:
    stream = Stream()
    stream.prompt()
    stream.raw(junk)
    (ended, _) = stream.conversation.ended(code, stderr, fault)
    assert isinstance(ended, TurnEnded)
    assert (ended.ok, ended.error, ended.code) == (False, error, "EXECUTION_FAILED" if fault else "AGENT_EXITED")


def test_an_unknown_conversation_is_recognized_on_stderr() -> None:
    stream = Stream()
    stream.result(is_error=True)
    stream.prompt()
    (ended, _) = stream.conversation.ended(1, f"No conversation found with session ID: {ID}", None)
    assert isinstance(ended, TurnEnded)
    assert ended.code == "SESSION_NOT_FOUND"


# Subagents and background commands.


def started(stream: Stream) -> None:
    stream.receives(type="system", subtype="session_state_changed", state="running")
    stream.receives(type="system", subtype="init", session_id="s")


def tasks(stream: Stream, *names: str) -> None:
    stream.receives(type="system", subtype="background_tasks_changed", tasks=[{"task_id": name} for name in names])


def idle(stream: Stream) -> None:
    stream.receives(type="system", subtype="session_state_changed", state="idle")


def test_a_turn_ends_when_its_subagents_are_done() -> None:
    stream = Stream()
    stream.prompt()
    started(stream)
    tasks(stream, "t1")
    stream.result(total_cost_usd=0.1)
    assert stream.all(TurnEnded) == []
    tasks(stream)
    stream.receives(type="system", subtype="init", session_id="s")
    stream.result(total_cost_usd=0.3, origin={"kind": "task-notification"})
    assert stream.all(TurnEnded) == []
    idle(stream)
    assert stream.all(TurnEnded) == [TurnEnded(ok=True, session_id="s", cost_usd=0.3)]
    assert stream.all(TurnBegun) == []


def test_the_last_result_determines_a_turn_with_subagents() -> None:
    stream = Stream()
    stream.prompt()
    started(stream)
    tasks(stream, "t1")
    stream.result()
    stream.result(is_error=True, result="overloaded", origin={"kind": "task-notification"})
    idle(stream)
    assert [(end.ok, end.error) for end in stream.all(TurnEnded)] == [(False, "overloaded.")]


def test_an_interrupt_after_the_first_result_is_reported() -> None:
    stream = Stream()
    stream.prompt()
    started(stream)
    tasks(stream, "t1")
    stream.result()
    stream.conversation.interrupt()
    tasks(stream)
    idle(stream)
    assert [(end.ok, end.interrupted) for end in stream.all(TurnEnded)] == [(False, True)]


def test_a_turn_without_tasks_ends_with_its_result() -> None:
    stream = Stream()
    stream.prompt()
    started(stream)
    stream.result()
    assert len(stream.all(TurnEnded)) == 1
    idle(stream)
    assert len(stream.all(TurnEnded)) == 1


def test_without_state_messages_the_first_result_ends_the_turn() -> None:
    stream = Stream()
    stream.prompt()
    tasks(stream, "t1")
    stream.result()
    assert len(stream.all(TurnEnded)) == 1


def test_a_turn_without_a_prompt_is_reported() -> None:
    stream = Stream()
    stream.ended()
    started(stream)
    assert len(stream.all(TurnBegun)) == 1
    stream.result(origin={"kind": "task-notification"})
    idle(stream)
    assert len(stream.all(TurnEnded)) == 2
    assert not stream.busy


def test_a_prompt_joins_a_turn_that_the_agent_began() -> None:
    stream = Stream()
    started(stream)
    stream.prompt()
    stream.result(origin={"kind": "task-notification"}, user_message_uuids=[])
    assert stream.all(TurnEnded) == []
    stream.result()
    idle(stream)
    assert len(stream.all(TurnEnded)) == 1


# The context of a question.


def test_a_question_names_its_subagent_reason_and_path() -> None:
    stream = Stream()
    stream.prompt()
    stream.receives(type="system", subtype="task_started", task_id="a1", subagent_type="reviewer")
    stream.ask(agent_id="a1", decision_reason="3 consecutive actions were blocked.", blocked_path="/etc/hosts")
    [question] = stream.all(Question)
    assert question.asked_by == AskedBy("a1", "reviewer")
    assert (question.reason, question.blocked_path) == ("3 consecutive actions were blocked.", "/etc/hosts")


def test_fields_that_are_not_text_are_left_out_of_a_question() -> None:
    stream = Stream()
    stream.prompt()
    stream.receives(type="system", subtype="task_started", task_id=["a1"], subagent_type={})
    stream.ask(agent_id=7, decision_reason={"type": "x"}, blocked_path=["/"])
    [question] = stream.all(Question)
    assert (question.asked_by, question.reason, question.blocked_path) == (None, None, None)


def test_changes_of_the_agents_directory_are_reported() -> None:
    stream = Stream()

    def moves() -> list[str]:
        return [event.directory for event in stream.all(DirectoryChanged)]

    stream.receives(type="system", subtype="init", session_id="s1", cwd="/p")
    stream.receives(type="system", subtype="init", session_id="s1", cwd="/p")
    assert moves() == ["/p"]
    stream.receives(
        type="user", message={}, tool_use_result={"worktreePath": "/p/.claude/worktrees/wt", "message": "Created"}
    )
    assert moves()[1:] == ["/p/.claude/worktrees/wt"]
    stream.receives(
        type="user", message={}, tool_use_result={"worktreePath": "/p/.claude/worktrees/wt", "restoredCwd": "/p"}
    )
    for odd in ('"worktreePath"', {"worktreePath": 1}, {"worktreePath": "relative"}, ["worktreePath"]):
        stream.receives(type="user", message={}, tool_use_result=odd)
    assert moves()[2:] == ["/p"]


def test_a_subagents_worktree_is_not_the_agents_directory() -> None:
    stream = Stream()
    there = {"worktreePath": "/p/.claude/worktrees/agent-a1"}
    stream.receives(type="system", subtype="init", session_id="s1", cwd="/p")
    stream.receives(type="user", message={}, tool_use_result={**there, "status": "completed", "agentId": "a1"})
    stream.receives(type="user", message={}, tool_use_result=there, parent_tool_use_id="toolu_1")
    assert [event.directory for event in stream.all(DirectoryChanged)] == ["/p"]
