"""Sessions with an agent that uses the Agent Client Protocol's official library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from drawbridge.agents.acp import driver as acp_agent
from drawbridge.agents.acp.driver import Acp
from drawbridge.agents.base import (
    AgentLine,
    AgentRefused,
    Attachment,
    Decision,
    Exited,
    Options,
    Proposal,
    Question,
    QuestionCancelled,
    SessionIdentified,
    TurnEnded,
)
from tests.agents.conftest import POEM
from tests.agents.rig import Session, session

from .peers import official, words


async def answers(warm: Session, prompt: str) -> list[str]:
    """Sends the prompt, checks that the turn succeeds, and returns the agent's messages."""
    before = len(words(warm.received))
    done = await warm.turn(prompt)
    assert done.ok, done.error
    return words(warm.received)[before:]


@pytest.mark.thorough
async def test_a_message_in_pieces_is_stored_once_and_complete(project: Path) -> None:
    async with session(official(), project, Options(partial_messages=True)) as warm:
        assert await answers(warm, "say Hello| there|.") == ["Hello there."]
        assert words(warm.received, durable=False) == ["Hello", " there", "."]


async def test_pieces_are_sent_only_if_they_are_requested(project: Path) -> None:
    async with session(official(), project) as warm:
        assert await answers(warm, "say Hello| there|.") == ["Hello there."]
        assert words(warm.received, durable=False) == []


@pytest.mark.thorough
async def test_calls_in_the_history_have_the_same_form_for_all_agents(project: Path) -> None:
    """The diff comes with the report of the call, and the agent never reports how the call ended."""
    poem = project / "poem.txt"
    async with session(official(), project) as warm:
        warm.process.prompt(f"report {poem}|new\n")
        question = await warm.received.next(Question)
        warm.process.answer(question.question_id, Decision(allow=True))
        await warm.ended()
        called = [json.loads(line.raw) for line in warm.received.all(AgentLine) if b"tool_use" in line.raw]
    assert [line["message"]["content"] for line in called] == [
        [{"type": "tool_use", "id": "call-2", "name": "Edit", "input": {"file_path": str(poem), "title": "Editing"}}]
    ]


@pytest.mark.thorough
async def test_the_history_has_the_modes_and_the_stop_reason(project: Path) -> None:
    async with session(official(), project) as warm:
        await answers(warm, "say Hello")
        first, *_, last = (json.loads(line.raw) for line in warm.received.all(AgentLine))
        assert [mode["id"] for mode in first["result"]["modes"]["availableModes"]] == [
            "ask",
            "auto-edit",
            "plan",
            "yolo",
        ]
        assert last["result"]["stopReason"] == "end_turn"


ANSWERS = [
    (Decision(allow=False), "no", POEM),
    (Decision(allow=False, remember=True), "no", POEM),
    (Decision(allow=True), "once", "new\n"),
    (Decision(allow=True, remember=True), "always", "new\n"),
]


async def test_a_decision_selects_the_matching_option(project: Path) -> None:
    poem = project / "poem.txt"
    async with session(official(), project) as warm:
        for decision, chosen, after in ANSWERS:
            poem.write_text(POEM)
            warm.process.prompt(f"edit {poem}|new\n")
            asked = await warm.asked()
            assert asked.proposal == Proposal(str(poem), POEM, "new\n")
            assert json.loads(bytes(asked.input))["title"] == f"Edit {poem}"
            assert asked.form == "acp"
            warm.process.answer(asked.question_id, decision)
            warm.process.answer(asked.question_id, Decision(allow=True))
            assert (await warm.ended()).ok
            assert words(warm.received)[-1] == f"I was told: {chosen}"
            assert poem.read_text() == after


@pytest.mark.thorough
async def test_a_question_about_a_part_of_a_file_shows_the_whole_file(project: Path) -> None:
    poem = project / "poem.txt"
    async with session(official(), project) as warm:
        for old, proposal in (("two", Proposal(str(poem), "one\ntwo\n", "one\nTWO\n")), ("o", None), ("three", None)):
            warm.process.prompt(f"part {poem}|{old}|{old.upper()}")
            asked = await warm.asked()
            assert asked.proposal == proposal
            warm.process.answer(asked.question_id, Decision(allow=False))
            assert (await warm.ended()).ok


@pytest.mark.thorough
async def test_a_new_file_is_proposed_with_an_empty_old_text(project: Path) -> None:
    async with session(official(), project) as warm:
        warm.process.prompt(f"edit {project}/new.txt|text")
        assert (await warm.asked()).proposal == Proposal(f"{project}/new.txt", "", "text")


async def test_an_interrupted_turn_is_reported_and_the_next_one_works(project: Path) -> None:
    async with session(official(), project) as warm:
        await answers(warm, "say Hello")
        warm.process.prompt("wait")
        warm.process.interrupt()
        done = await warm.ended()
        assert (done.ok, done.interrupted) == (False, True)
        assert await answers(warm, "say again") == ["again"]


async def test_an_interrupt_cancels_the_open_question(project: Path, waits: list[bool]) -> None:
    async with session(official(), project) as warm:
        warm.process.prompt(f"edit {project}/poem.txt|new")
        asked = await warm.asked()
        warm.process.interrupt()
        done = await warm.ended()
        assert (done.ok, done.interrupted) == (False, True)
        warm.process.answer(asked.question_id, Decision(allow=True))
        assert words(warm.received) == ["I was told: cancelled"]
        assert not warm.process.busy
    assert (project / "poem.txt").read_text() == "one\ntwo\n"
    assert waits == [True, False]


@pytest.mark.thorough
async def test_an_interrupt_before_the_prompt_is_sent_ends_the_turn(project: Path) -> None:
    async with session(official(), project) as warm:
        warm.process.prompt("say Hello")
        warm.process.interrupt()
        assert (await warm.ended()).interrupted
        assert await answers(warm, "remember") == ["remember"], "the first prompt was never sent"


@pytest.mark.slow_for("resumed")
@pytest.mark.parametrize(
    "flags", [(), pytest.param(("--resumes",), marks=pytest.mark.thorough)], ids=["replayed", "resumed"]
)
async def test_a_conversation_continues_in_a_new_process(project: Path, flags: tuple[str, ...]) -> None:
    async with session(official(), project) as first:
        await answers(first, "say One")
        [known] = first.received.all(SessionIdentified)
    async with session(official(*flags), project, session_id=known.session_id, resume=True) as second:
        assert await answers(second, "remember") == ["say One / remember"]
        assert second.received.all(SessionIdentified) == [known]


async def test_an_unknown_conversation_is_reported(project: Path) -> None:
    async with session(official(), project, session_id="gone", resume=True) as warm:
        warm.process.prompt("say Hello")
        done = await warm.ended()
        assert (done.ok, done.code) == (False, "SESSION_NOT_FOUND")
        assert "start a new session" in (done.error or "")


async def test_a_missing_login_is_reported(project: Path) -> None:
    async with session(official("--locked"), project) as warm:
        warm.process.prompt("say Hello")
        done = await warm.ended()
        assert (done.ok, done.code) == (False, "AGENT_NOT_LOGGED_IN")
        assert "Who are you?" in (done.error or "")


@pytest.mark.thorough
async def test_a_mode_is_sent_under_the_agents_own_name(project: Path) -> None:
    async with session(official(), project, Options(permission_mode="acceptEdits")) as warm:
        assert await answers(warm, "mode_is") == ["auto-edit"]
        for mode, own in (("default", "ask"), ("plan", "plan"), ("bypassPermissions", "yolo")):
            await warm.process.set_mode(mode)
            assert await answers(warm, "mode_is") == [own]
        for mode in ("yolo", "dontAsk", "nonsense"):
            with pytest.raises(
                AgentRefused, match=f"does not offer the {mode} mode. Available: ask, auto-edit, plan, yolo."
            ):
                await warm.process.set_mode(mode)
        assert await answers(warm, "mode_is") == ["yolo"]


@pytest.mark.thorough
async def test_an_unknown_mode_ends_the_turn_and_the_process(project: Path) -> None:
    async with session(official(), project, Options(permission_mode="yolo")) as warm:
        done = await warm.turn("say Hello")
        assert (done.ok, done.code) == (False, "VALIDATION_FAILED")
        assert (done.error or "").startswith("options.permission_mode: The official agent does not offer the ")
        await warm.received.next(Exited)


async def test_the_client_does_not_read_files_for_the_agent(project: Path) -> None:
    async with session(official(), project) as warm:
        assert "not found" in " ".join(await answers(warm, "read /etc/passwd")).lower()


@pytest.mark.thorough
async def test_the_cost_of_a_turn_is_the_difference_between_totals(project: Path) -> None:
    async with session(official(), project) as warm:
        costs = [(await warm.turn(f"spend {total}")).cost_usd for total in (0.25, 0.75)]
        assert costs == [0.25, 0.5]
        assert (await warm.turn("say Hello")).cost_usd is None


async def test_a_failed_turn_reports_the_reason(project: Path) -> None:
    async with session(official(), project) as warm:
        for prompt, why in (("refuse", "The official agent refused to continue."), ("fail", "It does not work today.")):
            done = await warm.turn(prompt)
            assert (done.ok, done.interrupted, done.code, done.error) == (False, False, "EXECUTION_FAILED", why)
            assert await answers(warm, "say again") == ["again"]


async def test_an_image_is_sent_only_to_agents_that_accept_it(project: Path) -> None:
    async with session(official(), project) as warm:
        warm.process.prompt("say Hello", (Attachment("text/plain", b"a text", "a.txt"),))
        assert (await warm.ended()).ok
        warm.process.prompt("say Hello", (Attachment("image/png", b"\x89PNG", "a.png"),))
        done = await warm.ended()
        assert (done.ok, done.code) == (False, "VALIDATION_FAILED")
        assert "a.png" in (done.error or "")
        warm.process.prompt("say Hello", (Attachment("image/png", b"\x89PNG", "a.png", path="/files/a.png"),))
        assert (await warm.ended()).ok
        assert words(warm.received)[-1].endswith("Attached file: /files/a.png (1 kB)")


async def test_an_agent_that_is_killed_ends_its_turn_and_its_question(project: Path) -> None:
    async with session(official(), project) as warm:
        warm.process.prompt(f"edit {project}/poem.txt|new")
        asked = await warm.asked()
        await warm.process.kill()
        assert len(warm.received.all(TurnEnded)) == 1
        assert warm.received.all(QuestionCancelled) in (
            [],
            [QuestionCancelled(asked.question_id, "the run was interrupted")],
        )
    assert (project / "poem.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("flags", [(), ("--elsewhere",)])
async def test_a_diff_that_came_before_the_question_is_the_proposal(project: Path, flags: tuple[str, ...]) -> None:
    poem = project / "poem.txt"
    async with session(official(*flags), project) as warm:
        warm.process.prompt(f"report {poem}|all new\n")
        question = await warm.asked()
        assert question.tool_name == "edit"
        assert question.proposal == Proposal(str(poem), POEM, "all new\n")
        asked = json.loads(bytes(question.input))
        assert (asked["title"], asked["toolCallId"], asked["content"][0]["type"]) == ("Edit files", "call-2", "diff")
        warm.process.answer(question.question_id, Decision(allow=True))
        assert (await warm.ended()).ok
        assert poem.read_text() == "all new\n"


@pytest.mark.slow
async def test_the_conversations_that_the_agent_stores_are_listed(project: Path) -> None:
    agent = official("--lists")
    assert await agent.list_conversations(project, 10) == []
    for words_said in ("say One", "say  Two\nlines"):
        async with session(agent, project) as warm:
            assert (await warm.turn(words_said)).ok
    listed = await agent.list_conversations(project, 10)
    assert [one.title for one in listed] == ["say Two lines", "say One"]
    assert listed[0].last_active > listed[1].last_active
    assert [one.title for one in await agent.list_conversations(project, 1)] == ["say Two lines"]


@pytest.mark.thorough
async def test_an_agent_without_listing_has_no_conversations(project: Path) -> None:
    assert await official().list_conversations(project, 10) == []


async def test_an_agent_that_does_not_list_in_time_is_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_agent, "LISTING_SECONDS", 0.2)
    silent = Acp("silent", [sys.executable, "-c", "import sys; sys.stdin.read()"])
    assert await silent.list_conversations(project, 10) == []
    # tests/conftest.py checks that the agent's process has ended
