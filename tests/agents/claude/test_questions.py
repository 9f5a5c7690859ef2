"""Questions from ``claude`` and commands to it, without a process."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from drawbridge.agents.base import Decision, Proposal, Question, QuestionCancelled, Replied
from drawbridge.agents.claude.suggestions import offered

from .stream import Stream


@pytest.mark.parametrize(
    "more",
    [
        {"type": "replaceRules", "behavior": "allow", "rules": []},
        {"type": "removeRules", "behavior": "deny", "rules": []},
        {"type": "removeDirectories", "directories": ["/"]},
        {"type": "setMode", "mode": ["bypassPermissions"]},
        {"type": "setmode", "mode": "bypassPermissions"},
        {"type": "addRules", "behavior": "replace", "rules": []},
        "setMode",
    ],
    ids=str,
)
def test_only_suggestions_that_add_a_permission_are_kept(more: object) -> None:
    rule = {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash"}]}
    given = Raw(json.dumps([more, rule]).encode())
    assert json.loads(bytes(offered("Bash", given))) == [rule]


def json_of(raw: Raw) -> Any:
    return json.loads(bytes(raw))


def test_a_question_keeps_the_agents_json_unchanged() -> None:
    stream = Stream()
    line = (
        b'{"request":{"tool_name":"Bash","input":{"n": 1.0,\r "z":"\\u00e4"},"subtype":"can_use_tool",'
        b'"permission_suggestions":[{"mode": "plan",\r "type": "setMode"}]},"request_id":"q1","type":"control_request"}'
    )

    (question,) = stream.raw(line)

    assert isinstance(question, Question)
    assert (question.question_id, question.tool_name, question.proposal) == ("q1", "Bash", None)
    assert bytes(question.input) == b'{"n": 1.0,\r "z":"\\u00e4"}'
    assert bytes(question.suggestions) == b'[{"mode": "plan",\r "type": "setMode"}]'


def test_a_question_about_a_file_shows_what_would_change() -> None:
    stream = Stream(files={"/p/a.txt": "one\ntwo\n"})
    stream.ask("Edit", input={"file_path": "/p/a.txt", "old_string": "two", "new_string": "2"})
    (question,) = stream.all(Question)
    assert question.proposal is not None
    assert (question.proposal.path, question.proposal.old_text, question.proposal.new_text) == (
        "/p/a.txt",
        "one\ntwo\n",
        "one\n2\n",
    )


def test_a_plan_is_approved_with_a_mode() -> None:
    """The CLI suggests nothing with ExitPlanMode, but accepts a mode in the answer. Without one, it would return to
    the mode before plan mode, in which it may edit without asking."""
    plan = {"plan": "# Plan"}
    asks, accepts = (
        [{"type": "setMode", "mode": mode, "destination": "session"}] for mode in ("default", "acceptEdits")
    )
    once = answered(Decision(allow=True), tool_name="ExitPlanMode", input=plan)
    always = answered(Decision(allow=True, remember=True), tool_name="ExitPlanMode", input=plan)
    denied = answered(Decision(allow=False, remember=True), tool_name="ExitPlanMode", input=plan)
    assert once["updatedPermissions"] == asks
    assert always["updatedPermissions"] == accepts
    assert "updatedPermissions" not in denied


@pytest.mark.parametrize("suggestions", [None, {}, "x", 5])
def test_suggestions_are_always_a_list(suggestions: Any) -> None:
    stream = Stream()
    stream.ask(permission_suggestions=suggestions)
    (question,) = stream.all(Question)
    assert json_of(question.suggestions) == []


def answered(decision: Decision, **request: Any) -> dict[str, Any]:
    stream = Stream()
    stream.ask(**request)
    stream.conversation.answer("q1", decision)
    (message,) = stream.written()
    assert message["type"] == "control_response"
    response = message["response"]
    assert (response["subtype"], response["request_id"]) == ("success", "q1")
    answer: dict[str, Any] = response["response"]
    return answer


def test_an_allowed_call_keeps_its_input() -> None:
    assert answered(Decision(allow=True)) == {"behavior": "allow", "updatedInput": {"command": "ls"}}


def test_a_call_can_be_allowed_with_a_changed_input() -> None:
    changed = {"command": "ls -l\r\n", "answers": {"Which?": "ä"}}
    assert answered(Decision(allow=True, updated_input=changed)) == {"behavior": "allow", "updatedInput": changed}


def test_a_denial_contains_the_users_message() -> None:
    assert answered(Decision(allow=False, message="Not now \ud800")) == {
        "behavior": "deny",
        "message": "Not now \ufffd",
    }
    assert "rejected this" in answered(Decision(allow=False))["message"]


RULES = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "ls *"}], "behavior": "allow"}
DIRECTORIES = {"type": "addDirectories", "directories": ["/p"], "destination": "session"}
MODE = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        ([RULES, DIRECTORIES, MODE], [RULES, DIRECTORIES]),
        ([RULES], [RULES]),
        ([MODE], [MODE]),
        ([], None),
        (["odd"], None),
    ],
)
def test_remembering_uses_the_narrowest_offered_rules(offered: list[Any], taken: Any) -> None:
    answer = answered(Decision(allow=True, remember=True), permission_suggestions=offered)
    assert answer.get("updatedPermissions") == taken
    assert "updatedPermissions" not in answered(Decision(allow=True), permission_suggestions=offered)
    assert "updatedPermissions" not in answered(Decision(allow=False, remember=True), permission_suggestions=offered)


def test_a_question_is_answered_once() -> None:
    stream = Stream()
    stream.ask()
    for decision in (Decision(allow=False), Decision(allow=True), Decision(allow=False)):
        stream.conversation.answer("q1", decision)
    stream.conversation.answer("unknown", Decision(allow=True))

    (message,) = stream.written()
    assert message["response"]["response"]["behavior"] == "deny"


def test_a_question_that_the_agent_withdraws_is_removed() -> None:
    stream = Stream()
    stream.prompt()
    stream.ask()
    stream.written()

    assert stream.receives(type="control_cancel_request", request_id="q1") == [
        QuestionCancelled("q1", "decided elsewhere or no longer needed")
    ]

    stream.conversation.answer("q1", Decision(allow=True))
    assert stream.written() == []
    assert stream.receives(type="control_cancel_request", request_id="q1") == []


def test_an_interrupt_is_the_reason_for_a_withdrawal() -> None:
    stream = Stream()
    stream.prompt()
    stream.ask()
    stream.conversation.interrupt()
    assert stream.receives(type="control_cancel_request", request_id="q1") == [
        QuestionCancelled("q1", "the run was interrupted")
    ]


def test_a_number_that_is_out_of_range_does_not_hide_a_proposal() -> None:
    """Such an input is not decoded for clients, and can't be edited."""
    stream = Stream(files={"/p/a.py": "old\n"})
    given = '{"file_path":"/p/a.py","content":"new\\n","n":1e999}'
    request = f'{{"subtype":"can_use_tool","tool_name":"Write","input":{given},"permission_suggestions":[]}}'
    stream.raw(f'{{"type":"control_request","request_id":"q1","request":{request}}}'.encode())
    [question] = stream.all(Question)
    assert (question.given, question.proposal) == (None, Proposal("/p/a.py", "old\n", "new\n"))


@pytest.mark.parametrize(
    "request_",
    [
        {"subtype": "tickle"},
        {"subtype": "can_use_tool", "input": {}},
        {"subtype": "can_use_tool", "tool_name": "Bash", "input": [1]},
        {"subtype": "can_use_tool", "tool_name": 5, "input": {}},
        {"subtype": "can_use_tool", "tool_name": "Bash"},
        "odd",
        None,
    ],
)
def test_unsupported_requests_are_answered_with_an_error(request_: Any) -> None:
    stream = Stream()

    assert stream.receives(type="control_request", request_id="q1", request=request_) == []

    (message,) = stream.written()
    assert (message["response"]["subtype"], message["response"]["request_id"]) == ("error", "q1")
    assert stream.receives(type="control_request", request_id=5, request=request_) == []
    assert stream.written() == []


# Commands.


def test_a_mode_or_a_model_is_set_or_refused() -> None:
    stream = Stream()
    first, second = stream.conversation.set_mode("plan"), stream.conversation.set_model("opus")
    assert [message["request"] for message in stream.written()] == [
        {"subtype": "set_permission_mode", "mode": "plan"},
        {"subtype": "set_model", "model": "opus"},
    ]

    refused = {"subtype": "error", "request_id": second, "error": "No such model"}
    assert stream.receives(type="control_response", response=refused) == [Replied(second, "No such model")]
    taken = {"subtype": "success", "request_id": first, "response": {}}
    assert stream.receives(type="control_response", response=taken) == [Replied(first)]
    assert stream.receives(type="control_response", response=taken) == []
