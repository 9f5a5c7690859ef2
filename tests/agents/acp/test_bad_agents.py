"""Agents break the Agent Client Protocol or exit mid-turn. Each turn ends exactly once, and nothing else fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drawbridge.agents.acp.driver import Acp
from drawbridge.agents.base import AgentUnusable, Decision, Exited, Launch, Question, QuestionCancelled, TurnEnded
from drawbridge.agents.gemini.driver import Gemini
from tests.agents.rig import eventually, session

from .peers import bad, words


async def test_lines_that_are_not_messages_are_ignored(project: Path) -> None:
    async with session(bad("junk"), project) as warm:
        assert (await warm.turn("Go")).ok
        assert words(warm.received) == ["Still here"]


async def test_unsupported_requests_are_refused(project: Path) -> None:
    async with session(bad("unknown_requests"), project) as warm:
        assert (await warm.turn("Go")).ok
        assert words(warm.received) == [str([-32601] * 4)]


async def test_requests_that_share_an_id_are_answered_separately(project: Path) -> None:
    """The agent also reports the end of its turn three times, but the turn ends only once."""
    async with session(bad("same_ids"), project) as warm:
        warm.process.prompt("Go")
        asked = [await warm.asked() for _ in range(3)]
        assert len({question.question_id for question in asked}) == 3
        for question, allow in zip(asked, (True, False, True), strict=True):
            warm.process.answer(question.question_id, Decision(allow=allow))
        assert (await warm.ended()).ok
        answers = json.loads(words(warm.received)[0])
        assert [answer[1] for answer in answers] == ["once", "no", "once"]
        assert len(warm.received.all(TurnEnded)) == 1


async def test_invalid_permission_requests_are_refused(project: Path) -> None:
    async with session(bad("bad_questions"), project) as warm:
        assert (await warm.turn("Go")).ok
        assert words(warm.received) == [str([-32602] * 4)]
        assert warm.received.all(Question) == []


async def test_an_unanswered_question_is_withdrawn_when_the_turn_ends(project: Path) -> None:
    async with session(bad("question_then_end"), project) as warm:
        assert (await warm.turn("Go")).ok
        assert [gone.reason for gone in warm.received.all(QuestionCancelled)] == ["the run ended without an answer"]


async def test_a_20_mb_line_is_reported_in_full(project: Path) -> None:
    async with session(bad("large_line"), project) as warm:
        assert (await warm.turn("Go")).ok
        assert [len(text) for text in words(warm.received)] == [20 * 1024 * 1024]


async def test_an_agent_that_sends_an_endless_line_is_ended(project: Path) -> None:
    async with session(bad("long_line"), project) as warm:
        done = await warm.turn("Go")
        assert (done.ok, done.code) == (False, "EXECUTION_FAILED")
        assert "a line longer than 32 MB" in (done.error or "")
        await warm.received.next(Exited)


@pytest.mark.parametrize("what", ["silence", "never_greets"])
async def test_an_agent_that_never_answers_can_be_killed(project: Path, what: str) -> None:
    async with session(bad(what), project) as warm:
        warm.process.times = type(warm.process.times)(interrupt=0.05, sigint=0.5)
        warm.process.prompt("Go")
        await warm.process.kill()
        assert [ended.interrupted for ended in warm.received.all(TurnEnded)] == [True]


async def test_the_error_includes_the_agents_last_output(project: Path) -> None:
    async with session(bad("exit_immediately"), project) as warm:
        done = await warm.turn("Go")
        assert (done.ok, done.code) == (False, "AGENT_EXITED")
        assert "I have had enough" in (done.error or "")


@pytest.mark.parametrize(
    ("what", "code", "remedy"),
    [
        ("of_the_future", "EXECUTION_FAILED", "Update Drawbridge."),
        ("no_such_flag", "AGENT_TOO_OLD", "Update the agent."),
    ],
)
async def test_an_incompatible_agent_is_reported(project: Path, what: str, code: str, remedy: str) -> None:
    async with session(bad(what), project) as warm:
        done = await warm.turn("Go")
        assert (done.ok, done.code) == (False, code)
        assert remedy in (done.error or "")
        await eventually(lambda: warm.received.all(Exited), "its end")


@pytest.mark.parametrize(
    ("agent", "remedy"),
    [
        (Acp("mine", ["no-such-program"]), "Install it there"),
        (Gemini("no-such-gemini"), "--agent-path gemini=PATH"),
        (Gemini("/no/gemini"), r"correct its path \(--agent-path\)"),
    ],
)
async def test_a_missing_program_is_reported_with_a_remedy(project: Path, agent: Acp, remedy: str) -> None:
    with pytest.raises(AgentUnusable, match=remedy) as refused:
        await agent.start(Launch(str(project), "x"), lambda event: None)
    assert refused.value.code == "AGENT_NOT_FOUND"
