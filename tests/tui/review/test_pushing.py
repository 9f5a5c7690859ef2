"""In the terminal client, a person pushes what was committed from a review, and creates a pull request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from textual.widgets import Input

from drawbridge.tui.review.push_dialog import PushDialog
from drawbridge.tui.screens.review import ReviewScreen
from tests.rigs.reviews import make_repository
from tests.server.checkpoints.rig import git
from tests.server.processes import Server, serving
from tests.server.reviews.remotes import ADDRESS, GITHUB, add_remote, calls_of, path_with, stand_in, tip
from tests.tui.conftest import make_directory, make_project
from tests.tui.review.test_commenting import is_kept, is_noted, is_open, message, opens_commit
from tests.tui.review.test_reviewing import opens
from tests.tui.rig import attached


@pytest.fixture
async def pushing(tmp_path: Path) -> AsyncIterator[tuple[Server, Path]]:
    """A server whose owner allows commits and pushes, and the directory of its project."""
    directory = make_directory(tmp_path / "work" / "blog")
    make_repository(directory)
    stand_in(tmp_path, "gh", f"echo {ADDRESS}")
    options = ("--no-tls", "--allow", directory.parent, "--allow-commit", "--allow-push")
    async with serving(tmp_path / "data", *options, PATH=path_with(tmp_path)) as server:
        await make_project(server, directory)
        yield server, directory


@pytest.mark.thorough
async def test_kept_changes_can_become_a_pull_request(pushing: tuple[Server, Path], tmp_path: Path) -> None:
    """The changes are committed and pushed first. The pull request's title and text are those of the commit message."""
    server, directory = pushing
    remote = tmp_path / "remote.git"
    add_remote(directory, remote, GITHUB)
    await is_kept(server, directory)
    async with attached(server, directory, size=(100, 36)) as person:
        await opens(person)
        await opens_commit(person)
        await person.sees("Author: Ada <ada@example.org>", "[×] poem.txt +1 −1", "[×] src/new.py +2 −0")
        message(person).text = "Capitals\n\nOnly in line 5."
        await person.presses("ctrl+s")
        await person.sees("Committed 2 files on work", "P push")
        await person.presses("P")
        await is_open(person, PushDialog)
        await person.sees("Push work to origin as a new branch.", "[ ] Create a pull request with gh")
        assert tip(remote) == ""
        await person.presses("space")
        await person.sees("[×] Create a pull request with gh", "Ctrl-S push and create pull request")
        assert person.app.screen.query_one(Input).value == "Capitals"
        assert message(person).text == "Only in line 5."
        await person.presses("ctrl+s")
        await person.sees("Pushed work to origin.", ADDRESS)
        await person.presses("escape")
        await is_open(person, ReviewScreen)
        await person.loses("P push")
    assert tip(remote) == git(directory, "rev-parse", "HEAD").strip()
    words = ["--title", "Capitals", "--body", "Only in line 5."]
    assert calls_of(tmp_path / "gh.calls") == [["pr", "create", *words]]


@pytest.mark.slow
async def test_a_failed_push_shows_the_reason_and_can_be_repeated(pushing: tuple[Server, Path], tmp_path: Path) -> None:
    server, directory = pushing
    remote = tmp_path / "remote.git"
    add_remote(directory, remote)
    await is_kept(server, directory)
    hook = directory / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nprintf '\\033[31mnot on\\033[0m [red]Mondays[/red]\\n'\nexit 1\n")
    hook.chmod(0o755)
    stand_in(tmp_path, "gh", "echo 'gh: not logged in' >&2; exit 4")
    async with attached(server, directory, size=(40, 20)) as person:
        await opens(person)
        await person.presses("P")
        await is_open(person, PushDialog)
        await person.presses("space", "tab")
        person.app.screen.query_one(Input).value = "My own title"
        await person.presses("ctrl+s")
        await is_noted(person, "The push failed")
        await person.waits_for(lambda: "not on [red]Mondays[/red]" in str(output(person)), "the output of the hook")
        assert tip(remote) == ""
        hook.unlink()
        await person.presses("ctrl+s")
        await is_noted(person, "Pushed work to origin. gh did not create a pull request.")
        assert tip(remote)
        stand_in(tmp_path, "gh", f"echo {ADDRESS}")
        await person.presses("escape")
        await is_open(person, ReviewScreen)
        await person.presses("P")
        await is_open(person, PushDialog)
        assert person.app.screen.query_one(Input).value == "My own title"
        await person.presses("ctrl+s")
        await is_noted(person, ADDRESS)


def output(person: object) -> object:
    return person.app.screen.query_one(".output").content  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_pushes_are_offered_only_where_they_are_allowed(tmp_path: Path, directory: Path) -> None:
    make_repository(directory)
    add_remote(directory, tmp_path / "remote.git")
    async with serving(tmp_path / "data", "--no-tls", "--allow", directory.parent, "--allow-commit") as server:
        await make_project(server, directory)
        await is_kept(server, directory)
        async with attached(server, directory) as person:
            await opens(person)
            assert "P push" not in person.screen
            await person.presses("P")
            assert isinstance(person.app.screen, ReviewScreen)
