"""In the terminal client, a person sees which changes are new since the last visit, and can show only these."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drawbridge.tui.client import Client
from drawbridge.tui.dialogs import ConfirmDialog
from drawbridge.tui.screens import review as screen_review
from drawbridge.tui.server_address import Finder
from drawbridge.tui.visiting import Visiting
from tests.rigs.reviews import WORK, make_repository
from tests.server.processes import Server
from tests.tui.review.test_reviewing import about, is_at, is_told, opens, project_of, reviewing, runs, view
from tests.tui.rig import attached

LATER = {"src/later.py": "later = True\n"}


async def runs_later(server: Server, directory: Path) -> None:
    """Starts another run, which writes ``LATER``, and waits until it has ended."""
    project = await project_of(server, directory)
    async with server.client() as client:
        await client.ask("project_join", project_id=project)
        await client.ask("execute", {"prompt": f"/write {json.dumps(LATER)}"}, project)
        await client.receive("update", "review_changed")


@pytest.fixture(autouse=True)
def _quick_decider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen_review, "READING_SECONDS", 0.0)


@pytest.fixture
def repository(directory: Path) -> Path:
    return make_repository(directory)


@pytest.mark.thorough
async def test_only_the_changes_since_the_last_visit_are_shown(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, size=(120, 60)) as (person, _):
        await is_at(person, "old.txt: ")
        await person.presses("n")
        assert "since your last visit" not in person.screen, "on the first visit, nothing is new"
        await person.presses("escape")
        await runs_later(server, repository)
        await opens(person)
        await person.sees("later.py  Whole file  since your last visit", "5 changes", "· 1 since your last visit")
        await person.presses("n")
        await is_at(person, "src/later.py: later = True")
        await person.sees("1 of 5 changes · only since your last visit")
        await person.loses("LINE 5", "old.txt")
        await person.presses("K")
        await is_told(person, "To decide on all changes at once, show the others too.")
        await person.presses("A")
        await is_told(person, "To decide on all changes at once, show the others too.")
        await person.presses("n")
        await person.sees("LINE 5", "later.py")
        await person.presses("escape", "v", "n")
        assert "since your last visit" not in person.screen, "it was seen on the previous visit"
    assert (repository / "src" / "later.py").exists()


@pytest.mark.slow
async def test_once_the_new_changes_are_decided_the_others_are_shown(server: Server, repository: Path) -> None:
    async with reviewing(server, repository, size=(120, 60)) as (person, _):
        await is_at(person, "old.txt: ")
        await runs_later(server, repository)  # the end of a run begins a visit, too
        await person.sees("1 since your last visit")
        await person.presses("n")
        await is_at(person, "src/later.py: later = True")
        await person.presses("a")
        await person.sees("LINE 5", "4 changes")
        await person.presses("K")
        await person.waits_for(lambda: isinstance(person.app.screen, ConfirmDialog), "the question")
        await person.sees("Keep 4 changes in 3 files?")
        assert "You have not" not in person.screen, "what was hidden was seen before"


@pytest.mark.slow
async def test_seen_changes_are_remembered_after_quitting(server: Server, repository: Path) -> None:
    await runs(server, repository, WORK)
    async with attached(server, repository, size=(120, 60)) as person:
        await opens(person)
        await is_at(person, "old.txt: ")
        await person.sees("src/new.py")
    await runs_later(server, repository)
    async with attached(server, repository, size=(120, 60)) as person:
        await opens(person)
        await person.sees("1 since your last visit")
        await person.presses("n")
        await is_at(person, "src/later.py: later = True")
        assert about(person) == ""
        assert len(view(person).paths) == 1


def test_a_directory_on_another_machine_has_its_own_memory(home: Path) -> None:
    """It may have the path of a directory on this machine."""

    def visits(machine: str) -> Visiting:
        client = Client(Finder().find, "Ada")
        client.connection.machine = machine
        client.projects.all["desk_1"] = {"id": "desk_1", "path": "/home/ada/blog"}
        return Visiting(client, "desk_1")

    assert visits("").saw_notice()
    assert not visits("").saw_notice()
    assert visits("desk.example:8443").saw_notice()
    assert not visits("desk.example:8443").saw_notice()
