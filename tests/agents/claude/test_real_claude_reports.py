"""Reports of the real ``claude`` CLI about itself, messages during a turn, and edited commands."""

from __future__ import annotations

import json
from pathlib import Path

from drawbridge.agents.base import (
    AgentLine,
    AgentOffers,
    Decision,
    OffersReported,
    Question,
    StateReported,
    TurnEnded,
)
from drawbridge.agents.claude.driver import Claude
from tests import programs
from tests.agents.rig import Session, session
from tests.rigs import claude_rig
from tests.rigs.messages_stub import HOLD, MessagesStub, failure, text, tool_use, write
from tests.waiting import until

from .conftest import POEM


def offers(warm: Session) -> AgentOffers:
    return warm.received.all(OffersReported)[-1].offers


async def test_the_agent_reports_its_commands_models_and_context(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("Hello."))
    await warm.turn("Say hello")
    found = offers(warm)
    assert {"compact", "context"} <= {command.name for command in found.commands}
    assert all(len(command.text or "") <= 200 for command in found.commands)
    assert any(command.text for command in found.commands)
    assert {"low", "high"} <= {level for offer in found.models for level in offer.efforts}
    assert found.steer
    state = warm.received.all(StateReported)[-1].state
    assert (state.model or "").startswith("claude-")
    assert state.context_tokens == 101
    assert (state.context_window or 0) >= 100_000


async def test_a_new_effort_applies_to_the_next_request(warm: Session, model: MessagesStub) -> None:
    model.will_say(text("One."), text("Two."))
    await warm.turn("First")
    assert await warm.process.set_effort("low")
    await warm.turn("Second")
    assert model.requests[-1].body["output_config"]["effort"] == "low"
    assert warm.received.all(StateReported)[-1].state.effort == "low"


async def test_a_retry_is_reported_and_cleared_at_the_end(project: Path, model: MessagesStub) -> None:
    agent = Claude(str(programs.claude()), claude_rig.environment(model) | {"CLAUDE_CODE_MAX_RETRIES": "1"})
    model.will_say(failure(401, "authentication_error", "invalid x-api-key"))
    async with session(agent, project) as warm:
        done = await warm.turn("Say hello")
        assert (done.ok, done.code) == (False, "AGENT_NOT_LOGGED_IN")
        [retry] = {reported.state.retry for reported in warm.received.all(StateReported) if reported.state.retry}
        assert (retry.attempt, retry.attempts, retry.reason, retry.status) == (1, 1, "authentication_failed", 401)
        assert warm.received.all(StateReported)[-1].state.retry is None


async def test_a_message_reaches_the_model_with_the_next_tool_result(
    warm: Session, model: MessagesStub, project: Path
) -> None:
    model.will_say(write(project / "new.txt", "x\n"), text("Done, with tests."))
    warm.process.prompt("Write it")
    question = await warm.received.next(Question)
    warm.process.steer("And add tests", (), lambda: None)
    warm.process.answer(question.question_id, Decision(allow=True))
    done = await warm.ended()
    assert done.ok
    assert "And add tests" in json.dumps(model.requests[1].body["messages"])
    assert len(model.requests) == 2
    assert len(warm.received.all(TurnEnded)) == 1


async def test_a_late_message_is_answered_in_the_same_run(warm: Session, model: MessagesStub) -> None:
    model.will_say([text("Hello"), HOLD, text("there")], text("And tests."))
    warm.process.prompt("Say hello")
    await warm.received.next(AgentLine)
    await until(lambda: "Hello" in warm.received.words)
    warm.process.steer("And add tests", (), lambda: None)
    await warm.process.set_mode("default")  # once the CLI has replied, it has read the message before that, too
    model.go_on()
    assert (await warm.ended()).ok
    assert warm.received.words == "Hello\nthere\nAnd tests."
    assert len(warm.received.all(TurnEnded)) == 1
    model.will_say(text("Next."))
    assert (await warm.turn("Next")).ok


async def test_an_interrupt_discards_an_undelivered_message(warm: Session, model: MessagesStub) -> None:
    model.will_say([text("Hello"), HOLD, text("there")])
    warm.process.prompt("Say hello")
    await until(lambda: "Hello" in warm.received.words)
    warm.process.steer("And add tests", (), lambda: None)
    warm.process.interrupt()
    assert (await warm.ended()).interrupted
    model.go_on()
    model.will_say(text("Next."))
    assert (await warm.turn("Next")).ok
    assert "And add tests" not in json.dumps(model.requests[-1].body["messages"])


async def test_the_edited_command_is_run(warm: Session, model: MessagesStub, project: Path) -> None:
    model.will_say(tool_use("Bash", command="touch wrong.txt", description="Make a file"), text("Done."))
    warm.process.prompt("Make a file")
    question = await warm.received.next(Question)
    edited = json.loads(bytes(question.input)) | {"command": "touch right.txt"}
    warm.process.answer(question.question_id, Decision(allow=True, updated_input=edited))
    assert (await warm.ended()).ok
    assert sorted(path.name for path in project.iterdir()) == ["poem.txt", "right.txt"]
    assert (project / "poem.txt").read_text() == POEM
