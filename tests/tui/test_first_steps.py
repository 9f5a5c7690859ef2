"""The screen shows which keys can be used, even without a project or in a terminal session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from drawbridge.tui.dialogs import HelpDialog, ModeDialog, ProjectDialog
from drawbridge.tui.history import History
from tests.server.processes import Server
from tests.server.wire_client import deleted

from .rig import Person, attached
from .test_deciding import device_token


async def test_an_empty_list_shows_its_keys(lasting: Server, directory: Path) -> None:
    async with attached(lasting, None) as person:
        await person.sees("No projects yet", "Press n to add one", "n new project", "? help", "q quit")
        await person.presses("question_mark")
        await person.sees("Keys (letters work outside text fields)")
        await person.presses("escape", "q")
        await person.waits_for(lambda: not person.app.is_running, "the end")


async def test_an_empty_list_shows_the_scope_that_the_device_lacks(lasting: Server, tmp_path: Path) -> None:
    """The empty list also shows the command that adds a project."""
    token = tmp_path / "token"
    token.write_text(await device_token(lasting, "run"))
    async with attached(lasting, None, token_file=str(token)) as person:
        await person.sees("No projects yet", "This device can't add one", "drawbridge attach .", "--scope admin")
        assert "Press n" not in person.screen


async def test_a_project_is_added_in_the_list(lasting: Server, directory: Path) -> None:
    async with attached(lasting, None) as person:
        await person.sees("Press n to add one")
        await person.presses("n")
        await person.waits_for(lambda: isinstance(person.app.screen, ProjectDialog), "the dialog")
        person.app.screen.query_one(Input).value = str(directory / "missing")
        await person.presses("enter")
        await person.sees("The directory was not", "Add a project")
        field = person.app.screen.query_one(Input)
        assert field.value == str(directory / "missing"), "what was typed is kept"
        field.value = str(directory)
        await person.presses("tab", "end", "enter")
        await person.waits_for(lambda: person.in_project, "the project")
        await person.sees(directory.name, "demo", "Ready")
    await forget(lasting)


@pytest.mark.thorough
async def test_projects_are_shown_with_the_title_of_their_session(server: Server, directory: Path) -> None:
    """The title tells two sessions in the same directory apart."""
    async with attached(server, directory) as person:
        await person.prompts("/quick the heron")
        await person.reads("Finished")
        await person.waits_for(lambda: "/quick the heron" in person.screen.splitlines()[0], "the title in the bar")
        await person.presses("escape", "p")
        await person.sees(f"{directory.name}  ● Ready  /quick the heron")


async def test_agents_that_are_not_installed_cannot_be_chosen(lasting: Server, directory: Path) -> None:
    listed = [
        {"name": "gemini", "title": "Gemini CLI", "installed": False, "hint": "Install Gemini CLI."},
        {"name": "pelican", "title": "Pelican", "installed": False},
        {"name": "codex", "title": "Codex", "installed": True, "asks": False, "version": "1.2.3"},
        {"name": "demo", "title": "The demo agent", "installed": True},
    ]

    async def agent_list() -> list[dict[str, Any]]:
        return listed

    async with attached(lasting, None) as person:
        await person.sees("Press n to add one")
        person.app.client.agent_list = agent_list  # type: ignore[method-assign]
        await person.presses("n")
        await person.sees(
            "Codex  Installed · 1.2.3 · doesn’t ask before it changes files",
            "The demo agent  Installed",
            "Gemini CLI  Install Gemini CLI.",
            "Pelican  Not installed on the server.",
        )
        assert person.screen.index("The demo agent") < person.screen.index("Gemini CLI")
        dialog = person.app.screen
        await person.presses("tab", "end", "enter")  # the last one that can be chosen
        await person.waits_for(lambda: person.app.screen is not dialog, "the end of the dialog")
        await person.waits_for(lambda: person.in_project or isinstance(person.app.screen, ProjectDialog), "the answer")
        listed[2]["installed"] = listed[3]["installed"] = False
        await person.presses("escape", "n")
        await person.sees("Codex  Not installed on the server.")
        await person.presses("enter")
        await person.is_notified("No project can be added: no agent is installed on the server.")
    await forget(lasting)


async def test_attach_offers_to_add_the_directory(lasting: Server, directory: Path) -> None:
    async with attached(lasting, directory) as person:
        await person.sees("The server has no project in this directory yet.", str(directory))
        await person.presses("escape")
        await person.sees("No projects yet")
        async with lasting.client() as client:
            assert (await client.ask("project_list"))["data"]["projects"] == []


async def test_only_modes_that_the_server_accepts_are_offered(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        await person.presses("escape", "m")
        await person.waits_for(lambda: isinstance(person.app.screen, ModeDialog), "the dialog")
        await person.sees("Ask first", "Plan")
        assert "Bypass permissions" not in person.screen


async def test_every_mode_that_is_allowed_is_offered(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        modes = person.app.client.modes
        assert modes is not None
        person.app.client.modes = modes | {"bypassPermissions"}
        await person.presses("escape", "m")
        await person.sees("Bypass permissions")


async def test_a_hidden_prompt_box_gets_no_keys(server: Server, directory: Path) -> None:
    """In a terminal session that does not accept prompts, the prompt box is hidden, and keys are commands."""
    async with attached(server, directory) as person:
        await in_a_terminal(person, directory)
        await person.loses("Tell the agent what to do")
        await person.sees("Send messages from the terminal.")
        assert isinstance(person.app.screen.focused, History)
        await person.sees("in terminal", "p projects", "? help", "q quit")
        await person.types("abc")
        assert person.prompt.text == ""
        await person.presses("question_mark")
        await person.waits_for(lambda: isinstance(person.app.screen, HelpDialog), "the keys")
        await person.presses("escape", "p")
        await person.waits_for(lambda: not person.in_project, "the list")
        await person.sees("The demo agent · in a terminal")


async def test_a_question_gets_the_keys_in_a_terminal_session(server: Server, directory: Path) -> None:
    async with server.client() as owner, attached(server, directory) as person:
        id = await in_a_terminal(person, directory)
        await person.loses("Tell the agent what to do")
        await owner.send("execute", {"prompt": "Something"}, id)
        await person.is_asked("wants to edit notes.md")
        await person.waits_for(lambda: person.card is not None and person.card.has_focus_within, "the focus")
        await person.presses("a")
        await person.reads("Accepted by you")
        assert not person.prompt.has_focus


async def test_the_status_line_has_the_same_words_as_the_list(server: Server, directory: Path) -> None:
    """A terminal session's status line has the same words as the list of projects."""
    async with attached(server, directory) as person:
        session: dict[str, Any] = {"state": "waiting", "in_terminal": True}
        await in_a_terminal(person, directory, session)
        await person.sees("● Waiting in terminal")
        for fields, words in (
            ({"state": "working"}, "● Working in terminal  "),
            ({"state": "working", "background_tasks": {"agent": 1}}, "● Working in the background · in a terminal"),
            ({"state": "ended", "continued_in": "desk_2"}, "● Continued in the background · in a terminal"),
            ({"state": "ended"}, "● Ended · in a terminal"),
        ):
            session.clear()
            session.update(fields)
            person.app.client.on_change()
            await person.sees(words)


async def test_the_status_line_shows_a_problem_of_the_project(server: Server, directory: Path) -> None:
    async with attached(server, directory) as person:
        (project,) = person.app.client.projects.named(str(directory), "")
        project["problem"] = "The session's directory does not exist."
        person.app.client.on_change()
        await person.sees("● The session's directory does not exist.")


async def in_a_terminal(person: Person, directory: Path, fields: dict[str, Any] | None = None) -> str:
    """Makes the client treat the project as a terminal session. ``fields`` are the session's fields. Returns the
    project's id."""
    projects = person.app.client.projects
    project = projects.named(str(directory), "")[0]
    session = {"state": "finished", "prompts": False, "permission_mode": "default"} if fields is None else fields
    apply = projects.apply

    def apply_as_desk(message: Any) -> None:
        apply(message)
        if project["id"] in projects.all:
            projects.all[project["id"]]["desk"] = session

    projects.apply = apply_as_desk  # type: ignore[method-assign]
    apply_as_desk({"type": "nothing", "data": {}})
    person.app.client.on_change()
    return str(project["id"])


async def forget(server: Server) -> None:
    async with server.client() as client:
        for project in (await client.ask("project_list"))["data"]["projects"]:
            await deleted(client, project["id"])
