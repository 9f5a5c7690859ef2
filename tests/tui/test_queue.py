"""The terminal client shows the queue as the server reports it, and changes it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.widgets import OptionList

from drawbridge.tui import queue_dialog
from drawbridge.tui.fields import PlainTextArea
from drawbridge.tui.queue_dialog import QueueDialog
from tests.server.processes import Server
from tests.server.wire_client import WireClient

from .rig import Person, attached

pytestmark = pytest.mark.thorough


@contextlib.asynccontextmanager
async def queued(server: Server, directory: Path, *prompts: str) -> AsyncIterator[tuple[Person, WireClient, str]]:
    """A person with an active run and these prompts in the queue, the owner's other client, and the project's id."""
    async with attached(server, directory) as person, server.client() as owner:
        project = person.app.client.projects.named(str(directory), "")[0]["id"]
        await owner.ask("project_join", project_id=project)
        await person.prompts("/slow 600")
        await person.sees("Working")
        for prompt in prompts:
            await person.prompts(prompt)
        await person.sees(f"{len(prompts)} queued (t: change)")
        yield person, owner, project
        await owner.ask("agent_interrupt", {"all": True}, project)
        await person.sees("Ready")


def listed(person: Person) -> list[str]:
    """The prompts that the dialog lists."""
    assert isinstance(person.app.screen, QueueDialog)
    options = person.app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(number).prompt) for number in range(options.option_count)]


async def opens(person: Person, count: int) -> None:
    await person.presses("escape", "t")
    await person.waits_for(
        lambda: isinstance(person.app.screen, QueueDialog) and len(listed(person)) == count, "the queue"
    )


@pytest.mark.slow
async def test_a_prompt_that_another_client_sends_is_in_the_queue(server: Server, directory: Path) -> None:
    async with queued(server, directory, "/quick") as (person, owner, project):
        await owner.ask("execute", {"prompt": "from the phone"}, project)
        await person.sees("2 queued", "from the phone")


async def test_prompts_are_moved_and_removed(server: Server, directory: Path) -> None:
    async with queued(server, directory, "one", "two", "three") as (person, _, _):
        await opens(person, 3)
        assert "one" in listed(person)[0]
        await person.presses("J")
        await person.waits_for(
            lambda: ["two" in listed(person)[0], "one" in listed(person)[1]] == [True, True], "the move"
        )
        await person.presses("K")
        await person.waits_for(lambda: "one" in listed(person)[0], "the move back")
        await person.presses("d")
        await person.waits_for(lambda: len(listed(person)) == 2, "the removal")
        assert "two" in listed(person)[0]
        await person.presses("escape")
        await person.reads("Removed from the queue by")


async def test_a_key_for_a_prompt_that_has_gone_removes_no_other(
    server: Server, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_dialog, "READING_SECONDS", 3600.0)
    async with queued(server, directory, "one", "two") as (person, owner, project):
        await opens(person, 2)
        conversation = person.app.client.conversation
        assert conversation is not None
        await owner.ask("queue_remove", {"run_id": conversation.queue[0]["run_id"]}, project)
        await person.waits_for(lambda: len(listed(person)) == 1, "the removal")
        await person.presses("d")
        await person.is_notified("The selected prompt is no longer in the queue. Press the key again")
        assert "two" in listed(person)[0]
        monkeypatch.setattr(queue_dialog, "READING_SECONDS", 0.0)
        await person.presses("d")
        await person.waits_for(lambda: not conversation.queue, "the second removal")


@pytest.mark.slow
async def test_a_waiting_prompt_is_edited(server: Server, directory: Path) -> None:
    async with queued(server, directory, "x" * 600) as (person, owner, _):
        await opens(person, 1)
        await person.presses("enter")
        area = person.app.screen.query_one(PlainTextArea)
        await person.waits_for(lambda: area.display and area.text == "x" * 600, "the whole prompt")
        area.load_text("shorter\nprompt")
        await person.presses("ctrl+s")
        await person.waits_for(lambda: "shorter" in listed(person)[0], "the new text")
        edited = await owner.receive("update", "prompt_edited")
        assert edited["data"]["data"]["prompt"] == "shorter\nprompt"
        await person.presses("escape")


async def test_the_dialog_closes_when_the_edited_prompt_has_gone(server: Server, directory: Path) -> None:
    """What the user typed stays until then."""
    async with queued(server, directory, "one") as (person, owner, project):
        await opens(person, 1)
        await person.presses("enter")
        area = person.app.screen.query_one(PlainTextArea)
        await person.waits_for(lambda: area.display and area.text == "one", "the prompt")
        conversation = person.app.client.conversation
        assert conversation is not None
        await owner.ask("queue_remove", {"run_id": conversation.queue[0]["run_id"]}, project)
        await person.sees("The prompt is no longer in the queue. Esc goes back.")
        assert area.text == "one"
        await person.presses("escape")
        await person.waits_for(lambda: not isinstance(person.app.screen, QueueDialog), "the end of the dialog")


@pytest.mark.slow
async def test_a_prompt_is_sent_now(server: Server, directory: Path) -> None:
    async with queued(server, directory, "/quick", "/slow 601") as (person, _, _):
        await opens(person, 2)
        await person.presses("down", "n")
        await person.waits_for(lambda: len(listed(person)) == 1, "the start of the second one")
        assert "/quick" in listed(person)[0]
        await person.presses("escape")
        await person.reads("Stopped")


@pytest.mark.slow
async def test_stop_all_removes_the_queued_prompts(server: Server, directory: Path) -> None:
    async with queued(server, directory, "/quick", "/quick") as (person, _, _):
        await person.presses("escape", "S")
        await person.reads("Stopped")
        await person.loses("queued")
        assert "Done." not in person.history


async def test_the_user_is_notified_of_a_removed_prompt(server: Server, directory: Path) -> None:
    async with queued(server, directory, "/quick") as (person, owner, project):
        run_id = person.app.client.conversation.queue[0]["run_id"]  # type: ignore[union-attr]
        await owner.ask("queue_remove", {"run_id": run_id}, project)
        await person.sees("removed your prompt from the queue")


@pytest.mark.slow
async def test_the_agents_state_is_shown_in_the_status_line(server: Server, directory: Path) -> None:
    retry = {"attempt": 3, "attempts": 10, "reason": "authentication_failed", "status": 401}
    async with queued(server, directory, "/quick") as (person, _, project):
        state = {"context_tokens": 50_000, "context_window": 200_000, "retry": retry}
        update = {"type": "update", "project_id": project, "data": {"update_type": "agent_state", "data": state}}
        await person.sees("I keep writing")  # the agent's first reports have arrived by then
        person.app.client._received(update)
        await person.sees("Retrying 3 of 10: 401 authentication", "25% context")


async def test_a_waiting_prompt_is_on_the_screen_once(server: Server, directory: Path) -> None:
    """The prompt is shown as queued until its run begins, and then in its place after the answers to earlier ones."""
    async with queued(server, directory, "/quick from here") as (person, owner, project):
        await owner.ask("execute", {"prompt": "/quick from the phone"}, project)
        for words in ("/quick from here", "/quick from the phone"):
            await person.reads_times(1, words)
            assert f"Queued  {words}" in person.history
        await person.presses("escape", "s")
        await person.loses("Queued")
        await person.reads_times(2, "Done.")
        history = person.history
        assert [history.count(words) for words in ("/quick from here", "/quick from the phone")] == [1, 1]
        assert history.index("Stopped") < history.index("/quick from here") < history.index("Done.")
        assert history.index("Done.") < history.index("/quick from the phone")
        assert history.count("/slow 600") == 1
