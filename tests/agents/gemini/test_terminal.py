"""How Gemini CLI's hooks and the file of its conversation are read. Both have the format of Gemini CLI 0.61.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from drawbridge.agents.base import AgentState
from drawbridge.agents.gemini import hook
from drawbridge.agents.gemini.terminal import agent
from drawbridge.agents.terminal import Context, Entry, HookEvent, Message, NotItsFile, Prompt, Result, TurnOver
from tests.guard.payloads import recorded

SESSION = "9eed6340-3ff8-45fe-84bf-c0336f670510"
CALL = {"id": "replace__1", "name": "replace", "args": {"file_path": "/p/poem.txt", "old_string": "two"}}
OVER = TurnOver("", "interrupted")


def event(name: str, tool: str | None = None, **fields: Any) -> HookEvent:
    """Returns the event that a recorded payload reports. ``fields`` replace fields of the payload."""
    return agent().event(Raw(json.dumps(recorded("gemini", name, tool) | fields).encode()))


def line(type: str, content: Any, /, id: str = "m1", **fields: Any) -> bytes:
    message = {"id": id, "timestamp": "2026-11-28T23:00:00.000Z", "type": type, "content": content, **fields}
    return json.dumps(message, separators=(",", ":")).encode()


def entries(type: str, content: Any, /, **fields: Any) -> list[Entry]:
    return list(agent().entries(line(type, content, **fields), SESSION))


def blocks(found: list[Entry]) -> list[Any]:
    """The first block of each of the agent's messages."""
    messages = [json.loads(one.data) for one in found if isinstance(one, Message)]
    assert all(one["session_id"] == SESSION for one in messages)
    return [one["message"]["content"][0] for one in messages]


def call(status: str = "success", answer: str = "Done.", **fields: Any) -> dict[str, Any]:
    result = [{"functionResponse": {"id": "replace__1", "response": {"error": answer}}}]
    return CALL | {"status": status, "result": result} | fields


# Hooks.


@pytest.mark.parametrize(
    ("name", "tool", "meaning"),
    [
        ("SessionStart", None, "SessionStart"),
        ("BeforeAgent", None, "UserPromptSubmit"),
        ("BeforeTool", "replace", "PreToolUse"),
        ("AfterTool", "replace", "PostToolUse"),
        ("Notification", None, "Notification"),
        ("AfterAgent", None, "Stop"),
        ("SessionEnd", None, "SessionEnd"),
    ],
)
def test_every_recorded_event_is_recognized(name: str, tool: str | None, meaning: str) -> None:
    found = event(name, tool)
    payload = recorded("gemini", name, tool)
    assert (found.name, found.session_id, found.cwd) == (meaning, payload["session_id"], "/ws")
    assert found.transcript == payload["transcript_path"]
    assert found.permission_mode is None


def test_each_prompt_begins_its_own_turn() -> None:
    first = event("BeforeAgent", prompt="Go on", timestamp="2026-11-28T23:00:00.000Z")
    second = event("BeforeAgent", prompt="Go on", timestamp="2026-11-28T23:00:01.000Z")
    assert first.prompt == "Go on"
    assert first.turn
    assert first.turn != second.turn
    assert event("AfterAgent").turn == ""


def test_the_end_of_a_turn_is_not_a_prompt() -> None:
    """Its payload contains the prompt again."""
    assert event("AfterAgent", prompt="Go on").prompt == ""


def test_the_contents_of_named_files_are_not_part_of_a_prompt() -> None:
    named = "Translate @poem.txt\n--- Content from referenced files ---\nContent from @poem.txt:\none\n"
    assert event("BeforeAgent", prompt=named).prompt == "Translate @poem.txt"


@pytest.mark.parametrize(
    ("prompt", "continues"), [("Go on", False), ("[System: You successfully executed a tool but", True)]
)
def test_the_programs_own_prompts_continue_a_turn(prompt: str, continues: bool) -> None:
    assert event("BeforeAgent", prompt=prompt).continues is continues


def test_text_from_a_hooks_answer_continues_the_turn() -> None:
    """The CLI sends the text in the answer to the hook as a separate prompt."""
    sent = hook.continue_with("AfterAgent", "I have reviewed it.")["reason"]
    assert event("BeforeAgent", prompt=sent).continues
    assert entries("user", [{"text": sent}]) == [Context("m1", "Stop", ("I have reviewed it.",))]


def test_a_notification_reports_a_dialog() -> None:
    assert event("Notification").asks_in_terminal
    assert not event("Notification", notification_type="Another").asks_in_terminal


@pytest.mark.parametrize("bad", [b"[]", b"{", b'{"hook_event_name": "AfterAgent"}'])
def test_an_invalid_payload_is_refused(bad: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is msgspec's
        agent().event(Raw(bad))


# The conversation's file.


@pytest.mark.parametrize("content", ["Translate it", [{"text": "Translate it"}]])
def test_prompts_are_read(content: Any) -> None:
    assert entries("user", content) == [Prompt("m1", "", "Translate it")]


def test_what_a_hook_adds_to_a_prompt_is_not_part_of_it() -> None:
    content = [{"text": "Translate it"}, {"text": "<hook_context>I have reviewed &lt;it&gt;.</hook_context>"}]
    assert entries("user", content) == [
        Prompt("m1", "", "Translate it"),
        Context("m1", "UserPromptSubmit", ("I have reviewed <it>.",)),
    ]


@pytest.mark.parametrize(
    "content",
    [
        [{"functionResponse": {"id": "replace__1", "response": {}}}, {"text": "User steering update: faster"}],
        [{"text": "<session_context>\nToday is Friday.\n</session_context>"}],
        [{"text": "Here is the user's editor context as a JSON object. This is for your information only.\n{}"}],
        [{"text": "I ran the following shell command:\n```sh\nls\n```"}],
        [{"inlineData": {"mimeType": "image/png", "data": ""}}],
        7,
        None,
    ],
)
def test_other_texts_to_the_model_are_not_prompts(content: Any) -> None:
    assert entries("user", content) == []


def test_the_text_and_the_calls_of_a_message_are_read_once() -> None:
    """The CLI writes the message again when its calls have ended."""
    thoughts = [{"subject": "Words", "description": "Two is zwei."}]
    first = entries("gemini", "I will.", thoughts=thoughts, model="gemini-3-pro")
    assert blocks(first) == [
        {"type": "thinking", "thinking": "Words\n\nTwo is zwei."},
        {"type": "text", "text": "I will."},
    ]
    shown = {"originalContent": "a\n", "newContent": "b\n"}
    again = entries("gemini", "I will.", thoughts=thoughts, toolCalls=[call(resultDisplay=shown)])
    assert [block["type"] for block in blocks(again)] == ["tool_use", "tool_result"]
    called, answered = again
    assert isinstance(called, Message)
    assert isinstance(answered, Message)
    assert [(one.id, one.name) for one in called.calls] == [("replace__1", "replace")]
    assert answered.results == (Result("replace__1", "ran"),)
    assert json.loads(answered.data)["tool_use_result"]["structuredPatch"][0]["lines"] == ["-a", "+b"]
    uuids = [one.uuid for one in (*first, *again) if isinstance(one, Message)]
    assert len(set(uuids)) == 4


@pytest.mark.parametrize(
    ("calls", "is_over"),
    [
        ([call()], False),
        ([call("error")], False),
        ([call("cancelled", "[Operation Cancelled] Reason: User denied execution.")], True),
        ([call(), call("cancelled", "[Operation Cancelled] Reason: User denied execution.")], False),
        ([call(), call("cancelled", "[Operation Cancelled] Reason: Operation cancelled by user")], True),
        ([], False),
    ],
)
def test_a_turn_ends_when_its_calls_are_canceled(calls: list[dict[str, Any]], is_over: bool) -> None:
    """If only some of the calls were rejected, the agent gets the results of the others and continues."""
    assert (OVER in entries("gemini", "", toolCalls=calls)) is is_over


@pytest.mark.parametrize(
    ("left", "found"),
    [
        ([], [OVER]),
        ([{"id": "u1", "type": "user", "content": [{"text": "<session_context>"}]}], [OVER]),
        ([{"id": "g1", "type": "gemini", "content": [{"text": "Done."}]}], [OVER]),
        ([{"id": "g1", "type": "gemini", "content": [{"text": "…"}, {"functionCall": {"name": "replace"}}]}], []),
    ],
)
def test_a_turn_ends_when_its_prompt_is_removed(left: list[Any], found: list[Entry]) -> None:
    """While a call has no result, the CLI has only shortened the conversation."""
    changed = json.dumps({"$set": {"messages": left, "lastUpdated": "2026-11-28T23:00:00.000Z"}}).encode()
    assert list(agent().entries(changed, SESSION)) == found


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_line_raises_an_error(anything: Any) -> None:
    found = [anything, {"$set": anything}, {"$set": {"messages": [anything]}}]
    found += [{"id": "m1", "type": type, "content": anything, "toolCalls": anything} for type in ("user", "gemini")]
    found += [{"id": "m1", "type": "gemini", "toolCalls": [call(args=anything, result=anything, status=anything)]}]
    found += [{"id": "m1", "type": "gemini", "model": anything, "tokens": anything, "thoughts": [anything]}]
    for data in map(json.dumps, found):
        agent().entries(data.encode(), SESSION)
        agent().reports(AgentState()).recorded(data.encode())


def test_reading_continues_after_the_line_with_a_given_id() -> None:
    lines = [
        line("user", [{"text": "Go"}], id="u1"),
        line("gemini", 'I will use "toolCalls":', id="g1"),
        line("gemini", "I will.", id="g1", toolCalls=[call()]),
        line("gemini", "Done.", id="g2"),
    ]
    data = b"".join(one + b"\n" for one in lines)

    def rest(uuid: str) -> bytes:
        end = agent().end_of(uuid, data)
        assert end is not None
        return data[end:].partition(b"\n")[0]

    read = [agent().entries(one, SESSION)[-1] for one in lines]
    uuids = [one.uuid for one in read if isinstance(one, Prompt | Message)]
    assert [rest(uuid) for uuid in uuids] == [*lines[1:], b""]
    assert agent().end_of("g3:0", data) is None


def test_the_first_prompt_is_the_title(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    assert agent().title(file) is None
    texts = ["<session_context>", "Translate\n the poem.", "Go on"]
    file.write_bytes(b"".join(line("user", [{"text": text}]) + b"\n" for text in texts))
    assert agent().title(file) == "Translate the poem."


def test_the_model_and_the_context_are_reported() -> None:
    reports = agent().reports(AgentState())
    reports.recorded(line("gemini", "", model="gemini-3-pro", tokens={"input": 100, "total": 110}))
    assert reports.state == AgentState("gemini-3-pro", context_tokens=110)
    reports.recorded(line("gemini", "", model=None, tokens=None))
    reports.recorded(line("user", "Go", model="another"))
    assert reports.state == AgentState("gemini-3-pro", context_tokens=110)


def test_only_the_sessions_own_file_is_accepted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_CLI_HOME", raising=False)
    name = f"session-2026-11-28T23-00-{SESSION[:8]}.jsonl"
    own = home / ".gemini" / "tmp" / "blog" / "chats" / name
    other = home / "other" / ".gemini" / "tmp" / "blog" / "chats" / name
    for place in (own, other):
        place.parent.mkdir(parents=True)
    assert agent().checked(str(own), SESSION, "") == str(own)
    assert agent().checked(str(other), SESSION, str(home / "other")) == str(other)
    linked = own.parents[2] / "linked"
    linked.symlink_to(other.parents[1])
    bad = [other, own.with_name("other.jsonl"), own.parents[1] / name, linked / "chats" / name]
    bad += [own.parent / ".." / "chats" / name]
    for path in (*map(str, bad), "", "/", name):
        with pytest.raises(NotItsFile):
            agent().checked(path, SESSION, "")
    with pytest.raises(NotItsFile):
        agent().checked(str(own), "../" + SESSION, "")
