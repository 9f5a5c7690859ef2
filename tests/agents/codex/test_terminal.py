"""How Codex's hooks and transcript are read. The lines have the format of Codex 0.169.0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from drawbridge.agents.base import AgentState, AskedBy, Decision
from drawbridge.agents.codex.terminal import agent
from drawbridge.agents.results import NOT_LOGGED_IN, RATE_LIMITED
from drawbridge.agents.terminal import Context, Entry, Message, Mode, NotItsFile, Prompt, Result, TurnOver
from drawbridge.core.errors import BadArgument

SESSION = "01a2220d-1613-7c71-9044-9ef10e94f4a7"
TURN = "01a2220d-2f89-76f0-9637-06b9bc740417"
PATCH = """\
*** Begin Patch
*** Update File: a.py
*** Move to: b.py
@@
-1
+2
*** Add File: /c.py
+3
*** Add File: e.py
+5
*** Delete File: d.py
*** End Patch
"""


def payload(**fields: Any) -> Raw:
    usual = {"hook_event_name": "Stop", "session_id": SESSION, "cwd": "/src", "turn_id": TURN}
    return Raw(json.dumps(usual | fields).encode())


def line(kind: str, ordinal: int = 7, /, **fields: Any) -> bytes:
    return json.dumps(
        {"timestamp": "2026-11-28T12:07:01.969Z", "ordinal": ordinal, "type": kind, "payload": fields}
    ).encode()


def entry(kind: str, /, **fields: Any) -> Entry | None:
    found = agent().entries(line(kind, **fields), SESSION)
    assert len(found) < 2
    return next(iter(found), None)


def item(type: str, **fields: Any) -> Entry | None:
    return entry("event_msg", type="item_completed", turn_id=TURN, item={"type": type, "id": "i1", **fields})


def message(found: Entry | None) -> dict[str, Any]:
    assert isinstance(found, Message)
    data: dict[str, Any] = json.loads(found.data)
    assert (data["uuid"], data["session_id"]) == (f"{SESSION}:7", SESSION)
    return data


# Hooks.


def test_only_the_mode_without_questions_is_read_from_a_hook() -> None:
    """Hooks report "default" for most sandboxes, but the transcript contains the sandbox."""
    assert agent().event(payload(permission_mode="default")).permission_mode is None
    assert agent().event(payload(permission_mode="bypassPermissions")).permission_mode == "bypassPermissions"


def test_the_files_of_a_patch_are_listed() -> None:
    asked = agent().event(
        payload(hook_event_name="PermissionRequest", tool_name="apply_patch", tool_input={"command": PATCH})
    )
    assert json.loads(bytes(asked.tool_input)) == {
        "update": "/src/a.py",
        "move_to": "/src/b.py",
        "add": "/c.py\n/src/e.py",
        "delete": "/src/d.py",
        "patch": PATCH.strip("\n"),
    }


@pytest.mark.parametrize("tool_input", [{"command": 5}, {}, [], "patch"])
def test_a_patch_in_an_unknown_format_is_shown_unchanged(tool_input: Any) -> None:
    asked = agent().event(payload(tool_name="apply_patch", tool_input=tool_input))
    assert json.loads(bytes(asked.tool_input)) == tool_input


def test_a_session_may_have_no_transcript() -> None:
    assert agent().event(payload(transcript_path=None)).transcript == ""


def test_the_start_of_a_session_does_not_end_a_run() -> None:
    """It is reported together with the first prompt, which the transcript may already contain."""
    begun = agent().event(payload(hook_event_name="SessionStart", source="startup"))
    assert (begun.source, begun.is_new_process) == ("", False)


def test_a_session_keeps_its_directory_when_a_call_has_another() -> None:
    assert agent().event(payload()).cwd == "/src"
    called = agent().event(payload(hook_event_name="PreToolUse", tool_name="Bash", cwd="/elsewhere"))
    assert (called.cwd, called.directory) == ("", "/elsewhere")


@pytest.mark.parametrize(
    "given", [b"[]", b"{", b'{"hook_event_name": "Stop"}', payload(cwd="src"), payload(session_id=5)]
)
def test_an_invalid_payload_is_refused(given: bytes | Raw) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is msgspec's
        agent().event(Raw(given))


def test_an_answer_contains_only_the_keys_that_codex_accepts() -> None:
    def answer(decision: Decision) -> dict[str, Any]:
        return dict(agent().answer(decision, "Bash", Raw(b"{}"), Raw(b"[]")))

    assert answer(Decision(True)) == {"behavior": "allow"}
    message = "The user rejected this: Not \ufffd this"
    assert answer(Decision(False, message="Not \ud800 this")) == {"behavior": "deny", "message": message}
    assert set(answer(Decision(False))) == {"behavior", "message"}
    with pytest.raises(BadArgument):
        answer(Decision(True, updated_input={}))


def test_no_dialog_appears_while_the_hook_waits() -> None:
    assert agent().hides_dialog(None)
    assert agent().hides_dialog(AskedBy("a1", "reviewer"))


def test_calls_are_compared_without_their_descriptions() -> None:
    asked = {"command": "touch a", "description": "I need it"}
    assert agent().is_same_call("Bash", asked, {"command": "touch a"}, as_run=True)
    assert not agent().is_same_call("Bash", asked, {"command": "touch b", "description": "I need it"}, as_run=True)
    assert agent().is_same_call("apply_patch", {"update": ["/a"], "patch": "x"}, {"patch": "x\n"}, as_run=False)
    assert not agent().is_same_call("mcp__a__b", {"id": 1}, {"id": 2}, as_run=True)


# The transcript.


def test_prompts_and_answers_are_read() -> None:
    assert item("UserMessage", content=[{"type": "text", "text": "Do it"}, {"type": "image"}]) == Prompt(
        f"{SESSION}:7", TURN, "Do it"
    )
    reply = item("AgentMessage", content=[{"type": "Text", "text": "Done."}])
    assert message(reply)["message"]["content"] == [{"type": "text", "text": "Done."}]
    assert isinstance(reply, Message)
    assert reply.text == "Done."
    thought = item("Reasoning", summary_text=["Hm.", "Yes."], raw_content=[])
    assert message(thought)["message"]["content"] == [{"type": "thinking", "thinking": "Hm.\n\nYes."}]
    assert message(item("ContextCompaction"))["subtype"] == "compact_boundary"


def test_a_command_has_the_same_name_as_in_hooks() -> None:
    arguments = json.dumps({"cmd": "ls", "justification": "to see", "workdir": "/tmp", "yield_time_ms": 5})
    found = entry("response_item", type="function_call", name="exec_command", call_id="c1", arguments=arguments)
    given = {"command": "ls", "description": "to see"}
    assert message(found)["message"]["content"] == [{"type": "tool_use", "id": "c1", "name": "Bash", "input": given}]
    assert isinstance(found, Message)
    assert [(one.id, one.name, json.loads(bytes(one.input))) for one in found.calls] == [("c1", "Bash", given)]


def test_a_patch_in_the_transcript_matches_its_request() -> None:
    """The web UI can match the request with the call."""
    found = entry("response_item", type="custom_tool_call", name="apply_patch", call_id="c1", input=PATCH)
    assert isinstance(found, Message)
    asked = agent().event(payload(tool_name="apply_patch", tool_input={"command": PATCH.rstrip()}))
    assert json.loads(bytes(found.calls[0].input)) == {"patch": json.loads(bytes(asked.tool_input))["patch"]}
    assert agent().is_same_call(
        "apply_patch", json.loads(bytes(asked.tool_input)), json.loads(bytes(found.calls[0].input)), as_run=False
    )


def test_a_call_of_another_tool_has_the_same_name_as_in_hooks() -> None:
    called = {"type": "function_call", "name": "get_issue", "namespace": "mcp__github__", "call_id": "c1"}
    found = entry("response_item", **called, arguments='{"number": 5}')
    assert isinstance(found, Message)
    (call,) = found.calls
    assert (call.name, json.loads(bytes(call.input))) == ("mcp__github__get_issue", {"number": 5})


@pytest.mark.parametrize("arguments", ["", "[]", "{", "5"])
def test_arguments_in_an_unknown_format_are_shown_unchanged(arguments: str) -> None:
    found = entry("response_item", type="function_call", name="exec_command", call_id="c1", arguments=arguments)
    assert isinstance(found, Message)
    (call,) = found.calls
    assert (call.id, call.name, json.loads(bytes(call.input))) == ("c1", "exec_command", {"arguments": arguments})


@pytest.mark.parametrize(
    ("type", "output", "shown", "fate", "failed"),
    [
        ("function_call_output", "Chunk ID: a0\nProcess exited with code 0\nOutput:\nhi\n", "hi\n", "ran", False),
        ("function_call_output", "Chunk ID: a0\nProcess exited with code 2\nOutput:\nno\n", "no\n", "ran", True),
        ("custom_tool_call_output", "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess.\n", "Success.\n", "ran", False),
        ("custom_tool_call_output", "The user rejected this: not this patch", None, "denied", True),
        ("custom_tool_call_output", "apply_patch verification failed: No such file", None, "denied", True),
        ("custom_tool_call_output", "Command blocked by PreToolUse hook: It has unsaved changes.", None, "denied", True),
        ("custom_tool_call_output", "An answer of another tool", None, "ran", False),
        ("function_call_output", 'exec_command failed: CreateProcess { message: "Rejected(\\"No.\\")" }', None, "denied", True),
        ("function_call_output", "Wall time: 4.7 seconds\naborted by user", None, "denied", True),
        ("function_call_output", "aborted by user after 3.0s", None, "denied", True),
        ("function_call_output", "An answer of another tool", None, "ran", False),
        ("function_call_output", [{"type": "input_text", "text": "one"}, {"type": "input_image"}], "one", "ran", False),
        ("function_call_output", {"odd": True}, "", "ran", False),
    ],
)  # fmt: skip
def test_results_are_read(type: str, output: Any, shown: str | None, fate: Any, failed: bool) -> None:
    found = entry("response_item", type=type, call_id="c1", output=output)
    (result,) = message(found)["message"]["content"]
    assert (result["content"], result["is_error"]) == (output if shown is None else shown, failed)
    assert isinstance(found, Message)
    assert found.results == (Result("c1", fate),)


def test_text_that_hooks_passed_to_the_model_is_read() -> None:
    handed = item("HookPrompt", fragments=[{"text": "I have reviewed", "hookRunId": "stop:10"}])
    assert handed == Context(f"{SESSION}:7", "Stop", ("I have reviewed",))
    added = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "I have reviewed"}]}
    about = {"content_item_kinds": ["hooks.additional_context"]}
    with_hook = entry("response_item", **added, internal_chat_message_metadata_passthrough=about)
    assert with_hook == Context(f"{SESSION}:7", "UserPromptSubmit", ("I have reviewed",))
    assert entry("response_item", **added) is None


def test_the_end_of_a_turn_is_read() -> None:
    def ended(**fields: Any) -> Entry | None:
        return entry("event_msg", type="task_complete", turn_id=TURN, **fields)

    def failed(words: str) -> Entry | None:
        return ended(error={"message": words, "codex_error_info": "other"})

    assert ended(last_agent_message="Done.") == TurnOver(TURN, "completed")
    assert entry("event_msg", type="turn_aborted", turn_id=TURN, reason="interrupted") == TurnOver(TURN, "interrupted")
    assert failed("Asleep.") == TurnOver(TURN, "failed", "Asleep.")
    assert failed("You've hit your usage limit.") == TurnOver(
        TURN, "failed", "You've hit your usage limit.", RATE_LIMITED
    )
    full = "Codex ran out of room in the model's context window. Start a new thread."
    assert failed(full) == TurnOver(TURN, "failed", full, "CONTEXT_TOO_LONG")
    for said in ("Selected model is at capacity.", "exceeded retry limit, last status: 503 Service Unavailable"):
        assert failed(said) == TurnOver(TURN, "failed", said, "MODEL_UNAVAILABLE")
    unauthorized = failed("unexpected status 401 Unauthorized")
    assert isinstance(unauthorized, TurnOver)
    assert unauthorized.code == NOT_LOGGED_IN


ROOT = {"path": {"type": "special", "value": {"kind": "root"}}}
READS = {**ROOT, "access": "read"}
WRITES = {"path": {"type": "path", "path": "/src"}, "access": "write"}
WRITES_ALL = {**ROOT, "access": "write"}


def limited(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"type": "managed", "file_system": {"type": "restricted", "entries": entries}}


@pytest.mark.parametrize(
    ("policy", "profile", "mode"),
    [
        ("on-request", limited(READS), "default"),
        ("on-request", limited(READS, WRITES), "acceptEdits"),
        ("on-request", limited(WRITES_ALL), "bypassPermissions"),
        ("on-request", {"type": "managed", "file_system": {"type": "unrestricted"}}, "bypassPermissions"),
        ("on-request", {"type": "disabled"}, "bypassPermissions"),
        ("on-request", {}, "bypassPermissions"),
        ("never", limited(READS), "bypassPermissions"),
        ("on-request", limited({"path": {"type": "path", "path": "/"}, "access": "write"}), "bypassPermissions"),
        ("on-request", limited({"path": "/src", "access": None}), "bypassPermissions"),
    ],
)
def test_the_mode_follows_from_the_sandbox_settings(policy: str, profile: dict[str, Any], mode: str) -> None:
    assert entry("turn_context", approval_policy=policy, permission_profile=profile) == Mode(mode)


def test_the_mode_in_which_codex_reviews_requests_is_recognized() -> None:
    settings = {"approval_policy": "on-request", "permission_profile": limited(READS, WRITES)}
    assert entry("turn_context", **settings, approvals_reviewer="user") == Mode("acceptEdits")
    assert entry("turn_context", **settings, approvals_reviewer="auto_review") == Mode("auto")
    assert entry("turn_context", approval_policy="never", approvals_reviewer="auto_review") == Mode("bypassPermissions")
    assert not agent().asks_people("auto")
    assert agent().asks_people("default")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_no_line_raises_an_error(anything: Any) -> None:
    for data in (anything, {"ordinal": 1, "type": "event_msg", "payload": anything}):
        agent().entries(json.dumps(data).encode(), SESSION)
        agent().reports(AgentState()).recorded(json.dumps(data).encode())


def test_reading_continues_after_the_line_with_a_given_id() -> None:
    lines = [line("event_msg", number, type="token_count", other='"ordinal":1,') for number in (1, 11, 12)]
    data = b"".join(one + b"\n" for one in lines)
    assert agent().end_of(f"{SESSION}:11", data) is None  # json.dumps adds spaces, but Codex does not
    data = data.replace(b'": ', b'":').replace(b', "', b',"')
    end = agent().end_of(f"{SESSION}:11", data)
    assert end is not None
    assert data[end:].startswith(b'{"timestamp":"2026-11-28T12:07:01.969Z","ordinal":12,')
    assert agent().end_of(f"{SESSION}:2", data) is None


def test_the_model_and_the_context_are_reported() -> None:
    reports = agent().reports(AgentState())
    reports.recorded(line("turn_context", model="gpt-5.5", effort="high"))
    usage = {"last_token_usage": {"total_tokens": 1200}, "model_context_window": 258_400}
    reports.recorded(line("event_msg", type="token_count", info=usage))
    assert reports.state == AgentState("gpt-5.5", "high", 1200, 258_400)
    reports.recorded(line("event_msg", type="token_count", info=None))
    assert reports.state.context_tokens == 1200


def test_only_the_sessions_own_transcript_is_accepted(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CODEX_HOME", raising=False)
    name = f"rollout-2026-11-28T12-07-01-{SESSION}.jsonl"
    own = home / ".codex" / "sessions" / "2026" / "11" / "28" / name
    other = home / "other" / "sessions" / "2026" / "11" / "28" / name
    for place in (own, other):
        place.parent.mkdir(parents=True)
    assert agent().checked(str(own), SESSION, "") == str(own)
    assert agent().checked(str(other), SESSION, str(home / "other")) == str(other)
    monkeypatch.setenv("CODEX_HOME", str(home / "other"))
    assert agent().checked(str(other), SESSION, "") == str(other)
    monkeypatch.delenv("CODEX_HOME")
    linked = own.parents[1] / "29"
    linked.symlink_to(other.parent)
    bad = [other, own.with_name("other.jsonl"), own.parents[1] / name, linked / name, own.parent / ".." / "28" / name]
    for path in (*map(str, bad), "", "/", name):
        with pytest.raises(NotItsFile):
            agent().checked(path, SESSION, "")
    with pytest.raises(NotItsFile):
        agent().checked(str(own), "../" + SESSION, "")
