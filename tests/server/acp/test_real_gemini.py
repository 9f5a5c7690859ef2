"""The real Gemini CLI by the Agent Client Protocol, with a stand-in for its model."""

from __future__ import annotations

from pathlib import Path

from drawbridge.server.agents.port import Decision, Proposal, SessionKnown
from tests.e2e_gemini.gemini_stub import GeminiStub, replace, text
from tests.server.agents.rig import session

from . import gemini
from .conftest import POEM
from .peers import words


async def test_a_prompt_is_answered(project: Path, model: GeminiStub) -> None:
    model.will_say(text("Hello there."))
    async with session(gemini.agent(model), project) as warm:
        done = await warm.turn("Say hello")

        [known] = warm.heard.all(SessionKnown)
        assert (done.ok, done.error, done.session_id) == (True, None, known.session_id)
        assert words(warm.heard) == ["Hello there."]
        assert "Say hello" in model.requests[0].told


async def test_a_change_waits_for_a_yes(project: Path, model: GeminiStub) -> None:
    poem = project / "poem.txt"
    model.will_say(replace(poem, "two", "zwei"), text("Done."))
    async with session(gemini.agent(model), project) as warm:
        warm.process.prompt("Translate it")
        asked = await warm.asked()
        assert (asked.tool_name, asked.changeable) == ("edit", False)
        assert asked.proposal == Proposal(str(poem), POEM, "one\nzwei\n")
        assert poem.read_text() == POEM

        warm.process.answer(asked.question_id, Decision(allow=True))
        assert (await warm.ended()).ok

        assert poem.read_text() == "one\nzwei\n"
        assert words(warm.heard) == ["Done."]
