"""How the web UI shows what the real ``claude`` reports about itself. Its model is a stub on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rigs.messages_stub import HOLD, failure, text, tool_use

from .rig import Browser
from .test_real_claude import working


@pytest.mark.thorough
async def test_claudes_commands_models_and_context_are_shown(browser: Browser, tmp_path: Path, directory: Path) -> None:
    async with working(browser, tmp_path / "data", directory, text("Hello."), text("A summary.")) as (person, model):
        person.prompts("Hello")
        person.sees(".finished")
        person.sees(".context", "% of")
        person.fills("#prompt", "/comp")
        person.sees(".suggestions [role=option]", "/compact")
        assert person.reads(".suggestions small")[0], "with what it does"
        person.fills("#prompt", "")
        person.clicks(".chip.model > button")
        assert len(person.reads(".chip.model .chip-menu button")) > 1
        person.clicks(".chip.model .chip-menu [data-value='haiku']")
        person.sees(".toast", "Model: ")
        model.will_say(text("A short one."))
        person.prompts("Hello again")
        person.until("document.querySelectorAll('.finished').length === 2")
        assert "haiku" in str(model.requests[-1].body["model"])


@pytest.mark.slow
async def test_a_conversation_is_compacted(browser: Browser, tmp_path: Path, directory: Path) -> None:
    async with working(browser, tmp_path / "data", directory, text("Hello.")) as (person, model):
        person.prompts("Hello")
        person.sees(".finished")
        model.will_say([text("<summary>We said hello.</summary>"), HOLD])
        person.fills("#prompt", "/compact")
        person.presses("Enter")
        person.sees(".run .state", "Compacting the conversation")
        model.go_on()
        person.until("document.querySelectorAll('.finished').length === 2")
        person.loses(".error-card")


@pytest.mark.thorough
async def test_a_wrong_api_key_is_reported_during_and_after_retries(
    browser: Browser, tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Retry button runs the prompt again."""
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "2")
    async with working(browser, tmp_path / "data", directory) as (person, model):
        model.will_say(failure(401, "authentication_error", "invalid x-api-key"))
        person.prompts("Hello")
        person.sees(".run .state", "Retrying")
        person.sees(".run .state", "401 authentication")
        person.sees(".error-card", "Claude isn’t logged in.")
        person.clicks("button:has-text('How to log in')")
        person.sees(".error-card", "Type /login there")
        count = person.runs(
            "document.querySelector('.scroller').innerText.toLowerCase().split('invalid x-api-key').length - 1"
        )
        assert count <= 1, "not said twice"
        model.will_say(text("Now it works."))
        person.clicks(".error-card button:has-text('Retry')")
        person.sees(".said", "Now it works.")
        person.loses(".error-card")


@pytest.mark.slow
async def test_a_background_command_is_listed_as_a_task(browser: Browser, tmp_path: Path, directory: Path) -> None:
    turns = [
        tool_use("Bash", command="sleep 30", description="Wait a while", run_in_background=True),
        text("It runs."),
    ]
    async with working(browser, tmp_path / "data", directory, *turns) as (person, _):
        person.prompts("Wait in the background")
        person.sees(".tasks summary", "1 task is running")
        person.sees(".tasks li", "Wait a while")
        person.sees(".tasks small", "Command · running in the background")


@pytest.mark.thorough
async def test_a_message_is_sent_into_the_running_turn(browser: Browser, tmp_path: Path, directory: Path) -> None:
    notes = directory / "notes.md"
    turns: list[Any] = [[tool_use("Read", file_path=str(notes)), HOLD], text("Both done.")]
    async with working(browser, tmp_path / "data", directory, *turns) as (person, model):
        person.prompts("Read the notes")
        person.sees(".steer")
        person.until("document.querySelector('.run .state').innerText.startsWith('Working')")
        person.fills("#prompt", "and be brief")
        person.presses("Control+Enter")
        person.sees(".prompt .words", "and be brief")
        model.go_on()
        person.sees(".said", "Both done.")
        person.sees(".finished", "Finished")
        assert len(person.reads(".finished")) == 1
    assert "and be brief" in str(model.requests[-1].body["messages"])


@pytest.mark.slow
async def test_an_effort_is_set_and_another_agent_chosen(browser: Browser, tmp_path: Path, directory: Path) -> None:
    """The next message uses the chosen effort. A message to another agent starts a new session."""
    async with working(browser, tmp_path / "data", directory, text("Hello.")) as (person, model):
        person.prompts("Hello")
        person.sees(".finished")
        person.clicks(".chip.effort > button")
        person.sees(".chip-menu [data-value=low] small", "Fast")
        person.clicks(".chip.effort .chip-menu [data-value=low]")
        person.sees(".toast", "Effort: low")
        person.sees(".chip.effort > button[data-value=low]")
        model.will_say(text("Quickly."))
        person.prompts("Hello again")
        person.sees(".said", "Quickly.")
        assert model.requests[-1].body["output_config"]["effort"] == "low"
        person.until("document.querySelectorAll('.finished').length === 2")
        person.picks("agent", "demo")
        person.until("document.querySelector('#prompt').placeholder === 'Message the demo agent…'")
        assert person.reads(".chip.model, .chip.effort") == [], "those of Claude"
        asked = len(model.requests)
        person.prompts("/quick")
        person.sees(".said", "Done.")
        person.sees(".finished", "Finished")
        person.loses(".said", "Quickly.")
        person.sees(".chip.agent > button[data-value=demo]")
        person.sees(".side .session", "Hello")
        assert len(model.requests) == asked
