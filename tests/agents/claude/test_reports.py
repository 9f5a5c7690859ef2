"""What Claude Code reports about itself in the formats of 2.1.329. Anything else is ignored."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from drawbridge.agents.base import (
    AgentOffers,
    AgentRefused,
    AgentState,
    McpServer,
    ModelOffer,
    NotAtWork,
    Offer,
    OffersReported,
    Retry,
    StateReported,
    Task,
    Todo,
    TurnEnded,
)
from drawbridge.agents.claude.reports import Reports, last_state
from drawbridge.agents.reported import LONGEST_DESCRIPTION, MOST

from .stream import Stream

INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "s1",
    "model": "claude-opus-5-5",
    "permissionMode": "default",
    "slash_commands": ["compact", "context"],
    "agents": ["Explore"],
    "skills": ["dataviz"],
    "mcp_servers": [{"name": "ide", "status": "connected"}],
    "capabilities": ["interrupt_receipt_v1", "interrupt_cancel_queued_v1"],
}


def state(stream: Stream) -> AgentState:
    """Returns the latest reported state."""
    return stream.all(StateReported)[-1].state


def offers(stream: Stream) -> AgentOffers:
    return stream.all(OffersReported)[-1].offers


def begun() -> Stream:
    stream = Stream()
    stream.prompt()
    stream.receives(type="system", subtype="session_state_changed", state="running")
    stream.receives(**INIT)
    return stream


def answer(stream: Stream, *blocks: dict[str, Any], parent: str | None = None, tokens: int = 100) -> None:
    usage = {"input_tokens": tokens, "cache_read_input_tokens": 1_000, "output_tokens": 10, "service_tier": "standard"}
    message = {"model": "claude-opus-5-5", "content": list(blocks), "usage": usage}
    stream.receives(type="assistant", message=message, parent_tool_use_id=parent, session_id="s1")


def test_the_model_and_the_offers_are_reported_at_the_start() -> None:
    stream = begun()
    assert state(stream) == AgentState(model="claude-opus-5-5")
    assert offers(stream) == AgentOffers(
        commands=(Offer("compact"), Offer("context")),
        agents=(Offer("Explore"),),
        skills=("dataviz",),
        mcp_servers=(McpServer("ide", "connected"),),
        steer=True,
    )
    reported = len(stream.all(OffersReported))
    stream.receives(**INIT)
    assert len(stream.all(OffersReported)) == reported, (
        "unchanged offers, which each turn repeats, are not reported again"
    )


def test_commands_have_their_descriptions() -> None:
    stream = Stream()
    stream.conversation.initialize()
    [asked] = stream.written()
    assert asked["request"] == {"subtype": "initialize"}
    response = {
        "commands": [
            {"name": "compact", "description": "Shorten " + "x" * 999, "argumentHint": "[focus]", "builtin": True}
        ],
        "agents": [{"name": "Explore", "description": "Reads"}],
        "models": [
            {
                "value": "opus",
                "resolvedModel": "claude-opus-5-5",
                "displayName": "Opus",
                "description": "Best",
                "supportedEffortLevels": ["low", "max"],
            }
        ],
    }
    inner = {"subtype": "success", "request_id": asked["request_id"], "response": response}
    stream.receives(type="control_response", response=inner)
    [command] = offers(stream).commands
    assert (command.name, len(command.text or ""), command.hint) == ("compact", LONGEST_DESCRIPTION, "[focus]")
    assert offers(stream).models == (ModelOffer("opus", "Opus", "Best", "claude-opus-5-5", ("low", "max")),)
    stream.receives(**INIT)
    assert offers(stream).commands == (command, Offer("context"))
    assert offers(stream).models[0].name == "opus"


def test_the_context_size_comes_from_the_main_agents_last_answer() -> None:
    stream = begun()
    answer(stream, tokens=100)
    answer(stream, tokens=9_000, parent="toolu_1")
    answer(stream, tokens=200)
    stream.result(modelUsage={"claude-opus-5-5": {"contextWindow": 200_000}})
    assert (state(stream).context_tokens, state(stream).context_window) == (1_210, 200_000)
    stream.receives(type="system", subtype="compact_boundary", compact_metadata={"post_tokens": 50})
    assert (state(stream).context_tokens, state(stream).context_window) == (50, 200_000)
    stream.result()
    assert state(stream).context_tokens == 50, "the size of the answer before the compaction is ignored"


def test_a_synthetic_answer_has_no_context() -> None:
    stream = begun()
    stream.receives(type="assistant", message={"model": "<synthetic>", "usage": {"input_tokens": 0}}, error="x")
    stream.result(is_error=True)
    assert state(stream) == AgentState(model="claude-opus-5-5")


def test_the_next_answer_ends_a_retry() -> None:
    stream = begun()
    stream.receives(
        type="system", subtype="api_retry", attempt=3, max_retries=10, retry_delay_ms=520.7, error_status=401,
        error="authentication_failed",
    )  # fmt: skip
    assert state(stream).retry == Retry(3, 10, "authentication_failed", 401, 520)
    answer(stream)
    assert state(stream).retry is None


def test_the_latest_todo_list_is_reported() -> None:
    stream = begun()
    todos = [
        {"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"},
        {"content": "Test it", "status": "pending"},
        {"content": "odd", "status": "who knows"},
    ]
    answer(stream, {"type": "tool_use", "name": "TodoWrite", "input": {"todos": todos}})
    assert state(stream).todos == (Todo("Fix it", "in_progress", "Fixing it"), Todo("Test it", "pending"))
    answer(stream, {"type": "text", "text": 'I used "TodoWrite"'})
    assert len(state(stream).todos) == 2
    answer(stream, {"type": "tool_use", "name": "TodoWrite", "input": {"todos": []}})
    assert state(stream).todos == ()


def test_only_running_tasks_are_reported() -> None:
    stream = begun()
    stream.receives(
        type="system", subtype="task_started", task_id="a1", description="look", task_type="local_agent",
        subagent_type="Explore", is_backgrounded=False,
    )  # fmt: skip
    stream.receives(
        type="system",
        subtype="background_tasks_changed",
        tasks=[{"task_id": "b1", "task_type": "local_bash", "description": "sleep"}],
    )
    stream.receives(
        type="system",
        subtype="task_started",
        task_id="b1",
        description="sleep",
        task_type="local_bash",
        is_backgrounded=True,
    )
    assert state(stream).tasks == (
        Task("a1", "look", "running", "local_agent", "Explore"),
        Task("b1", "sleep", "running", "local_bash", background=True),
    )
    stream.receives(type="system", subtype="task_updated", task_id="b1", patch={"status": "completed"})
    assert [task.task_id for task in state(stream).tasks] == ["a1"]
    stream.receives(type="system", subtype="task_notification", task_id="a1", status="completed")
    assert state(stream).tasks == ()


def test_the_number_of_tasks_is_limited() -> None:
    """The limit applies both to tasks that are reported one by one and to background tasks."""
    stream = begun()
    for number in range(MOST + 1):
        stream.receives(type="system", subtype="task_started", task_id=f"a{number}", description="look")
    assert [task.task_id for task in state(stream).tasks] == [f"a{number}" for number in range(MOST)]
    listed = [{"task_id": f"b{number}", "description": "sleep"} for number in range(MOST + 1)]
    stream.receives(type="system", subtype="background_tasks_changed", tasks=listed)
    assert [task.task_id for task in state(stream).tasks if task.background] == [f"b{number}" for number in range(MOST)]


def test_the_end_of_the_process_ends_its_tasks() -> None:
    stream = begun()
    stream.receives(type="system", subtype="task_started", task_id="a1", description="look", task_type="local_agent")
    stream.receives(type="system", subtype="status", status="compacting")
    stream.receives(type="system", subtype="api_retry", attempt=1, max_retries=2)
    assert state(stream).compacting
    stream.events += stream.conversation.ended(1, "", None)
    assert state(stream) == AgentState(model="claude-opus-5-5")


def test_a_steered_message_is_part_of_the_turn() -> None:
    stream = begun()
    stream.written()
    recorded: list[bool] = []
    stream.conversation.steer("and tests", (), lambda: recorded.append(True))
    [request] = stream.written()
    assert (request["message"]["content"], recorded) == ("and tests", [True])
    stream.result()
    assert stream.all(TurnEnded) == [], "the agent has not read the message yet"
    stream.result()
    stream.receives(type="system", subtype="session_state_changed", state="idle")
    assert [turn.ok for turn in stream.all(TurnEnded)] == [True]


def test_an_interrupt_drops_a_steered_message() -> None:
    stream = begun()
    stream.conversation.steer("and tests", (), lambda: None)
    stream.written()
    stream.conversation.interrupt()
    [request] = stream.written()
    assert request["request"] == {"subtype": "interrupt", "cancel_queued": True}
    with pytest.raises(AgentRefused):
        stream.conversation.steer("more", (), lambda: None)
    assert stream.written() == []


def test_an_agent_that_cannot_be_steered_is_sent_nothing() -> None:
    recorded: list[bool] = []
    stream = Stream()
    stream.prompt()
    stream.receives(**INIT | {"capabilities": []})
    stream.written()
    with pytest.raises(AgentRefused):
        stream.conversation.steer("and tests", (), lambda: recorded.append(True))
    assert (stream.written(), recorded) == ([], [])


def test_a_message_waits_until_the_agent_reports_what_it_accepts() -> None:
    stream = Stream()
    stream.prompt()
    stream.written()
    with pytest.raises(NotAtWork, match="still starting"):
        stream.conversation.steer("and tests", (), lambda: None)
    assert stream.written() == []


def test_an_effort_is_reported_once_it_is_set() -> None:
    stream = begun()
    stream.written()
    stream.conversation.set_effort("low")
    [request] = stream.written()
    assert request["request"] == {"subtype": "apply_flag_settings", "settings": {"effortLevel": "low"}}
    stream.receives(type="control_response", response={"subtype": "success", "request_id": request["request_id"]})
    assert state(stream).effort == "low"


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
SUBTYPES = ["init", "status", "api_retry", "task_started", "task_updated", "task_notification", "compact_boundary"]
SUBTYPES += ["background_tasks_changed"]
FIELDS = ["model", "slash_commands", "agents", "skills", "mcp_servers", "capabilities", "attempt", "max_retries"]
FIELDS += ["tasks", "task_id", "patch", "compact_metadata", "status", "description", "error", "message", "modelUsage"]
LINE = some.builds(
    lambda kind, fields: {**fields, **kind},
    some.sampled_from(
        [*({"type": "system", "subtype": name} for name in SUBTYPES), {"type": "assistant"}, {"type": "result"}]
    ),
    some.dictionaries(
        some.sampled_from(FIELDS), JSON | some.just([{"task_id": "a"}]) | some.just({"status": "running"})
    ),
)


@given(some.lists(LINE, max_size=8))
def test_any_line_leaves_a_valid_state(lines: list[dict[str, Any]]) -> None:
    stream = Stream()
    stream.prompt()
    for line in lines:
        stream.raw(json.dumps(line).encode())
    for reported in stream.all(StateReported):
        assert msgspec.json.decode(msgspec.json.encode(reported.state), type=AgentState) == reported.state
    assert stream.conversation.ended(0, "", None)


# Lines stored in a history or in Claude Code's own file.

USAGE = {"input_tokens": 90, "cache_read_input_tokens": 1_000, "output_tokens": 10}
TODOS = {"todos": [{"content": "Fix it", "status": "in_progress", "activeForm": "Fixing it"}]}


def stored(type: str = "assistant", *blocks: dict[str, Any], **more: Any) -> bytes:
    message = {"model": "claude-opus-5-5", "content": list(blocks), "usage": USAGE}
    return json.dumps({"type": type, "message": message, "session_id": "s1", **more}).encode()


def of(*lines: bytes, before: AgentState | None = None) -> AgentState:
    reports = Reports(before)
    for line in lines:
        reports.recorded(line)
    return reports.state


def test_a_stored_answer_reports_model_context_and_todo_list() -> None:
    block = {"type": "tool_use", "name": "TodoWrite", "id": "t", "input": TODOS}
    expected = AgentState(
        model="claude-opus-5-5", context_tokens=1_100, todos=(Todo("Fix it", "in_progress", "Fixing it"),)
    )
    assert of(stored("assistant", block)) == expected
    assert of(stored("assistant", block), before=AgentState(effort="high")).effort == "high"


@pytest.mark.parametrize(
    "line",
    [
        stored("user"),
        stored(isSidechain=True),
        stored(parent_tool_use_id="sidechain"),
        stored(entrypoint="sdk-cli"),
        b"no JSON",
        b"[1]",
        b'{"type": "system", "subtype": "compact_boundary", "compactMetadata": 7}',
        b'{"type": "assistant", "message": 5}',
    ],
)
def test_other_stored_lines_report_nothing(line: bytes) -> None:
    assert of(line) == AgentState()


def test_an_error_that_claude_code_writes_is_not_a_model() -> None:
    error = stored(message={"model": "<synthetic>", "content": [], "usage": {"input_tokens": 0}})
    state = of(stored(), error)
    assert (state.model, state.context_tokens) == ("claude-opus-5-5", 1_100)


def test_a_stored_compaction_reports_the_new_size() -> None:
    compacted = {"type": "system", "subtype": "compact_boundary", "compactMetadata": {"postTokens": 70}}
    assert of(stored(), json.dumps(compacted).encode()).context_tokens == 70


def test_the_last_state_ignores_other_conversations() -> None:
    block = {"type": "tool_use", "name": "TodoWrite", "id": "t", "input": TODOS}
    init = json.dumps(INIT | {"model": "claude-opus-5-5[1m]"}).encode()
    started = {"type": "system", "subtype": "task_started", "task_id": "t1", "session_id": "s1"}
    window = {"claude-opus-5-5": {"contextWindow": 200_000}}
    ended = {"type": "result", "session_id": "s1", "modelUsage": window}
    other = stored(message={"model": "another", "usage": {"input_tokens": 5}}, session_id="s2")
    lines = [init, stored("assistant", block), *(json.dumps(one).encode() for one in (started, ended)), other, b"\xff"]
    assert last_state(lines, "s1") == AgentState(
        model="claude-opus-5-5[1m]",
        context_tokens=1_100,
        context_window=200_000,
        todos=(Todo("Fix it", "in_progress", "Fixing it"),),
    )
    assert last_state(lines, "s3") == AgentState()
