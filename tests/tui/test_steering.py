"""A person follows and steers an agent in the terminal client."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from drawbridge.tui.client import Unsent
from drawbridge.tui.connection import RequestError
from drawbridge.tui.screens import conversation as screen_conversation
from drawbridge.tui.screens.conversation import ConversationScreen
from tests.page.agent import TASK, wake_up
from tests.server.processes import Server
from tests.tui.review.test_commenting import WORKING
from tests.waiting import PATIENCE

from .conftest import make_project
from .rig import Person, attached


async def test_projects_that_need_the_user_come_first_in_the_list(server: Server, directory: Path) -> None:
    """A project is opened from the list, and a key returns to it."""
    (directory.parent / "garden").mkdir(exist_ok=True)
    await make_project(server, directory.parent / "garden")
    async with server.client() as owner, attached(server, None) as person:
        await person.sees(directory.name, "garden", "● Ready")
        blog = person.app.client.projects.named(str(directory), "")[0]
        await owner.send("execute", {"prompt": "Something"}, blog["id"])
        await person.sees(f"{directory.name}  ● Needs you", "1 waiting")
        assert person.screen.index(directory.name) < person.screen.index("garden")
        await person.presses("home", "enter")
        await person.waits_for(lambda: person.in_project, "the project")
        await person.is_asked("notes.md")
        await person.presses("p")
        await person.waits_for(lambda: not person.in_project, "the list again")
        await person.sees("garden")


@pytest.mark.thorough
async def test_partial_text_is_shown_and_the_run_can_be_stopped(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("/slow 600")
        await person.reads("I keep writing until")
        assert "Finished" not in person.history
        await person.sees("Working")
        await person.presses("escape", "s")
        await person.reads("Stopped")
        await person.sees("Ready")


@pytest.mark.thorough
async def test_the_automatic_resume_after_a_limit_can_be_canceled(server: Server, directory: Path) -> None:
    """The time at which the run resumes is shown until the user cancels it."""
    lifted = datetime.now() + timedelta(hours=2)
    async with attached(server, directory) as person:
        await person.prompts(f"/limit {lifted.timestamp()}")
        await person.reads("The limit resets at", f"{lifted:%H:%M}")
        await person.sees("Resumes at", f"{lifted:%H:%M}", "(s: cancel)")
        await person.presses("escape", "s")
        await person.sees("Last run failed")
        await person.loses("Resumes at")


def may_cancel(person: Person) -> bool:
    return isinstance(person.app.screen, ConversationScreen) and person.app.screen.may_cancel


@pytest.mark.thorough
async def test_a_scheduled_alarm_is_shown_and_can_be_canceled(server: Server, directory: Path) -> None:
    alarm = datetime.now() + timedelta(minutes=30)
    async with attached(server, directory) as person:
        await person.prompts(f"/emit {json.dumps(wake_up(alarm.timestamp()))}")
        await person.sees("Scheduled until", f"{alarm:%H:%M}", "(s: cancel)")  # a day may follow the time
        await person.waits_for(lambda: may_cancel(person), "that a key is not meant for the run")
        await person.presses("escape", "s")
        await person.sees("Ready")
        await person.loses("Scheduled until")


@pytest.mark.slow
async def test_the_cancel_key_shows_that_it_also_cancels_tasks(server: Server, directory: Path) -> None:
    alarm = datetime.now() + timedelta(minutes=30)
    async with attached(server, directory) as person:
        await person.prompts(f"/emit {json.dumps([*wake_up(alarm.timestamp()), TASK])}")
        await person.sees("Scheduled until", f"{alarm:%H:%M}", "(s: cancel schedule and tasks)")
        await person.waits_for(lambda: may_cancel(person), "that a key is not meant for the run")
        await person.presses("escape", "s")
        await person.sees("Ready")


async def test_stopping_as_the_run_ends_keeps_its_schedule(
    server: Server, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen_conversation, "READING_SECONDS", 60.0)
    alarm = datetime.now() + timedelta(minutes=30)
    async with attached(server, directory) as person:
        await person.prompts(f"/emit {json.dumps(wake_up(alarm.timestamp()))}")
        await person.sees("Scheduled until")
        await person.presses("escape", "s")
        await person.sees("The run has ended. Press s again to cancel")
        await person.sees("Scheduled until")


async def test_a_disk_warning_is_shown(server: Server, directory: Path) -> None:
    words = "The server's data uses 16,000 MB of 20,000 MB: new runs are refused at the limit."
    warning = {"scope": "data", "used_mb": 16_000, "limit_mb": 20_000, "message": words}
    async with attached(server, directory) as person:
        person.app.client._received({"type": "update", "data": {"update_type": "disk_warning", "data": warning}})
        await person.sees("The server's data uses 16,000 MB")


def _has_prompt(person: Person, text: str) -> bool:
    return person.prompt.text == text


async def test_a_refused_prompt_is_put_before_what_was_written_since(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        conversation = person.app.client.conversation
        assert conversation is not None
        for first, text in (("One", "One"), ("Zero", "Zero\n\nOne")):
            person.app.client.on_refused(
                Unsent("1", conversation.id, first), RequestError("QUEUE_FULL", "The queue is full.")
            )
            await person.waits_for(partial(_has_prompt, person, text), "the prompt")
        await person.sees("The queue is full.")


async def test_a_prompt_refused_after_its_project_was_left_is_kept(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        conversation = person.app.client.conversation
        assert conversation is not None
        await person.presses("escape", "p")
        await person.waits_for(lambda: not person.in_project, "the list")
        refused = RequestError("QUEUE_FULL", "The queue is full.")
        for prompt in ("Build a bridge", "Paint it"):
            person.app.client.on_refused(Unsent("1", conversation.id, prompt), refused)
        await person.is_notified(f"The queue is full. Your prompt for {directory.name} was not sent. To edit it")
        await person.presses("enter")
        await person.waits_for(lambda: person.in_project, "the conversation")
        await person.waits_for(partial(_has_prompt, person, "Build a bridge\n\nPaint it"), "both prompts")


async def test_a_prompt_of_a_removed_project_is_named(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        refused = RequestError("PROJECT_NOT_FOUND", "The project does not exist.")
        person.app.client.on_refused(Unsent("1", "removed", "Build a bridge"), refused)
        await person.is_notified("The project does not exist. Your prompt was not sent: Build a bridge")
        assert person.prompt.text == ""


async def test_a_queued_prompt_is_shown_and_runs_in_its_turn(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("/slow 600")
        await person.sees("Working")
        await person.prompts("/quick")
        await person.sees("Queued  /quick", "1 queued")
        await person.presses("escape", "s")
        await person.reads("Stopped", "Done.", "Finished")
        await person.loses("Queued")


@pytest.mark.thorough
async def test_the_permission_mode_can_be_chosen(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.sees("Ask first")
        await person.presses("escape", "m")
        await person.sees("Permission mode")
        await person.presses("down", "enter")
        await person.sees("● Ready  Auto-accept edits")
        await person.prompts("Something")
        await person.reads("Finished")
        assert "Something" in (directory / "notes.md").read_text()


@pytest.mark.thorough
async def test_the_prompt_box_has_several_lines_and_a_history(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.types("/quick one")
        await person.presses("enter")
        await person.reads("/quick one", "Finished")
        await person.types("a draft")
        await person.presses("ctrl+j")
        await person.types("of two lines")
        assert person.prompt.size.height == 2
        await person.presses("up", "up")
        assert person.prompt.text == "/quick one"
        await person.presses("down")
        assert person.prompt.text == "a draft\nof two lines"


@pytest.mark.thorough
async def test_tool_calls_are_folded_until_the_user_opens_them(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.prompts("Something")
        await person.is_asked("Something")
        await person.presses("a")
        await person.reads("▸ Edited notes.md  ✓", "Finished")
        assert "was written" not in person.history
        await person.presses("escape", "k", "k", "k", "k", "enter")
        await person.reads("▾ Edited notes.md  ✓", "+ > You said: Something", "was written")
        await person.presses("enter")
        await person.waits_for(lambda: "was written" not in person.history, "folded again")


@pytest.mark.slow
async def test_all_of_a_long_history_can_be_reached_in_parts(server: Server, directory: Path) -> None:
    """The client keeps only a part of the history in memory."""
    async with server.client() as owner:
        project = (await owner.ask("project_list"))["data"]["projects"][0]["id"]
        await owner.send("project_join", project_id=project)
        await owner.send("execute", {"prompt": "/lines 1500"}, project)
        await owner.receive("update", "run_finished")
    async with attached(server, directory) as person:
        await person.sees("Line 1500")
        assert "Line 1000\n" not in person.history
        await person.presses("escape")
        async with asyncio.timeout(PATIENCE):
            while "Line 1\n" not in person.screen:
                await person.presses("g")
                await person.pilot.pause(0.05)
        await person.sees("Line 1\n", "G: latest")
        assert "/lines 1500" in person.history
        items = person.app.client.conversation.items if person.app.client.conversation else []
        assert len(items) <= 700
        await person.presses("G")
        await person.sees("Line 1500")
        await person.loses("G: latest")


@pytest.mark.slow
async def test_the_scroll_position_stays_while_more_arrives(server: Server, directory: Path) -> None:
    async with attached(server, directory, size=(80, 24)) as person:
        await person.prompts("/lines 60")
        await person.sees("Line 60", "Ready")
        await person.presses("escape", "pageup", "pageup")
        before = person.screen
        top = next(line for line in before.splitlines() if "Line" in line)
        await person.app.client.execute("/lines 20")
        await person.reads_times(2, "Finished")
        assert top in person.screen
        assert "G: latest" in person.screen


async def test_a_removed_project_is_reported_and_the_list_is_shown(server: Server, directory: Path) -> None:
    async with server.client() as owner, attached(server, directory) as person:
        project = (await owner.ask("project_list"))["data"]["projects"][0]["id"]
        assert (await owner.ask("project_delete", project_id=project))["type"] == "project_deleted"
        await person.sees("This project no longer exists", "No projects yet")
        assert not person.in_project


def has_prompt(person: Person, text: str) -> bool:
    """Whether the server has recorded the prompt."""
    conversation = person.app.client.conversation
    return conversation is not None and any(
        item.kind == "prompt" and item.data["text"] == text for item in conversation.items
    )


async def test_a_prompt_is_added_to_the_current_run(server: Server, directory: Path) -> None:
    """The key has no effect, and is not listed, while no run accepts prompts."""
    async with attached(server, directory) as person, server.client() as owner:
        project = person.app.client.projects.named(str(directory), "")[0]["id"]
        person.prompt.focus()
        person.prompt.text = "Only odd ones"
        await person.presses("ctrl+r")
        assert person.prompt.text == "Only odd ones"
        assert "add to the run" not in person.screen
        run = (await owner.ask("execute", {"prompt": f"/emit {json.dumps(WORKING)}"}, project))["data"]["run_id"]
        await person.sees("add to the run")
        await person.presses("ctrl+r")
        await person.waits_for(lambda: has_prompt(person, "Only odd ones"), "the prompt in the history")
        assert person.prompt.text == ""
        found = await owner.ask("get_messages", {"after_seq": 0, "limit": 100}, project)
        sent = [one["message"] for one in found["data"]["messages"] if "Only odd ones" in json.dumps(one["message"])]
        assert [(one["run_id"], one["steer"]) for one in sent] == [(run, True)]
        await owner.ask("agent_interrupt", {}, project)
