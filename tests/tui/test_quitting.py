"""A client that ends its server, as ``drawbridge review`` may, asks before it stops an agent's work."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drawbridge.tui.app import QuitDialog
from drawbridge.tui.dialogs import HelpDialog
from tests.rigs.reviews import make_repository, poem
from tests.server.processes import Server, serving
from tests.server.terminal_sessions.reported_rig import ReportedSession
from tests.tui.review.test_commenting import WORKING, adds, begins, is_open
from tests.tui.review.test_reviewing import is_at, is_told, opens, repository, reviewing

from .rig import Person, attached

__all__ = ["repository"]  # imported as a fixture


async def has_quit(person: Person) -> None:
    await person.waits_for(lambda: not person.app.is_running, "the end")


async def test_quitting_asks_before_it_stops_a_run(server: Server, repository: Path) -> None:
    async with (
        reviewing(server, repository, ends_server=True) as (person, project),
        server.client() as owner,
    ):
        await owner.ask("execute", {"prompt": f"/emit {json.dumps(WORKING)}"}, project)
        await person.waits_for(lambda: person.app.client.projects.all[project]["state"] == "EXECUTING", "the run")
        await person.presses("q")
        await person.sees("Quit and stop the run?", f"Still working: {repository.name}.", "y Quit · Esc Cancel")
        await person.presses("ctrl+q")
        assert person.app.is_running
        await person.presses("escape")
        await person.loses("Quit and stop the run?")
        await person.presses("q")
        await is_open(person, QuitDialog)
        await person.presses("y")
        await has_quit(person)
        await owner.ask("agent_interrupt", {}, project)


async def test_quitting_asks_nothing_if_the_server_runs_on(server: Server, repository: Path) -> None:
    async with reviewing(server, repository) as (person, project), server.client() as owner:
        await owner.ask("execute", {"prompt": f"/emit {json.dumps(WORKING)}"}, project)
        await person.waits_for(lambda: person.app.client.projects.all[project]["state"] == "EXECUTING", "the run")
        await person.presses("q")
        await has_quit(person)
        await owner.ask("agent_interrupt", {}, project)


async def test_quitting_asks_nothing_if_no_agent_is_working(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, ends_server=True) as (person, _):
        await person.presses("q")
        await has_quit(person)


@pytest.mark.parametrize("ends_server", [True, False])
async def test_the_keys_list_what_quitting_ends(server: Server, repository: Path, ends_server: bool) -> None:
    async with reviewing(server, repository, ends_server=ends_server) as (person, _):
        await person.presses("question_mark")
        await is_open(person, HelpDialog)
        await person.presses("k")  # to the last line
        words = "the server also stops" if ends_server else "agents keep working while the server"
        await person.sees(f"quit (also Ctrl-Q); {words}")


async def test_quitting_names_comments_that_wait_for_an_agent(home: Path) -> None:
    (home / "blog").mkdir()
    directory = make_repository(home / "blog")
    async with serving(home / "data", "--no-tls", "--allow", home) as server:
        session = ReportedSession(server, directory)
        await session.runs("t1", "Shout", poem(line_5="LINE 5"))
        async with attached(server, session.project, size=(120, 30), ends_server=True) as person:
            await opens(person)
            await is_at(person, "poem.txt: LINE 5")
            await begins(person)
            await adds(person, "Why capitals?")
            await person.presses("S")
            await person.sees("Send 1 comment?")
            await person.presses("y")
            await is_told(person, "Waiting: 1 comment.")
            await person.sees("▎ You  Waiting")
            await person.presses("q")
            await person.sees("Quit?", "for the agent in the terminal.")
            await person.presses("y")
            await has_quit(person)
