"""A user pushes what was committed from a review, and creates a pull request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import programs
from tests.server.checkpoints.rig import git
from tests.server.processes import Server
from tests.server.reviews.remotes import ADDRESS, GITHUB, add_remote, calls_of, path_with, stand_in, tip

from .conftest import serving
from .rig import Browser
from .test_commenting import is_kept, opens_commit
from .test_frame import WIDER
from .test_reviewing import address_of, opens, repository

__all__ = ["repository"]  # a fixture

PUSH = ".review-bar button:has-text('Push…')"


@pytest.fixture
async def pushing(browser: Browser, tmp_path: Path, directory: Path) -> Any:
    """A server that allows commits and pushes. Tests can replace the ``gh`` that it finds."""
    stand_in(tmp_path, "gh", f"echo 'Creating pull request for work into main' >&2; echo {ADDRESS}")
    options = ("--no-tls", "--allow", directory.parent, "--allow-commit", "--allow-push")
    async with serving(tmp_path / "data", *options, PATH=path_with(tmp_path)) as server:
        yield server


@pytest.mark.thorough
async def test_kept_changes_become_a_commit_and_a_pull_request(
    browser: Browser, pushing: Server, repository: Path, tmp_path: Path
) -> None:
    """The user chooses the files, writes the commit message and edits the description of the pull request."""
    remote = tmp_path / "remote.git"
    add_remote(repository, remote, GITHUB)
    project = await is_kept(pushing, repository)
    with browser.person(address_of(pushing, project), width=1280, height=900) as person:
        opens_commit(person, project)
        assert person.reads("dialog .author") == ["Author: Ada <ada@example.org>"]
        assert person.reads("dialog legend .counts") == ["+3 −1"]
        assert person.reads("dialog li .counts") == ["+1 −1", "+2 −0"]
        person.clicks("dialog li:has-text('src/new.py') input")
        assert person.reads("dialog legend .counts") == ["+1 −1"]
        person.fills("dialog textarea", "Capitals\n\nOnly in line 5.")
        person.clicks("dialog button:has-text('Commit 1 file')")
        person.sees("dialog [role=status]", "Committed 1 file on")
        person.clicks("dialog button:has-text('Push…')")
        person.sees("dialog form p", "Push work to origin as a new branch.")
        assert tip(remote) == ""
        person.clicks("dialog label:has-text('Create a pull request with gh') input")
        assert person("value", css="dialog input[type=text]") == "Capitals"
        assert person("value", css="dialog textarea") == "Only in line 5."
        person.fills("dialog textarea", "Because.")
        person.clicks("dialog button:has-text('Push and create pull request')")
        person.sees("dialog [role=status]", "Pushed work to origin.")
        assert person.runs("document.querySelector('dialog .address a').href") == ADDRESS
        assert person.runs("document.activeElement.matches('dialog .address a')")
        person.sees("dialog .remark-lines", "Creating pull request")
        person.clicks("dialog footer button:has-text('Close')")
        person.loses("dialog")
        person.loses(PUSH)
        assert person.complaints() == []
    assert tip(remote) == git(repository, "rev-parse", "HEAD").strip()
    assert calls_of(tmp_path / "gh.calls") == [["pr", "create", "--title", "Capitals", "--body", "Because."]]


@pytest.mark.thorough
async def test_a_failed_push_shows_the_reason_and_can_be_repeated(
    browser: Browser, pushing: Server, repository: Path, tmp_path: Path
) -> None:
    remote = tmp_path / "remote.git"
    add_remote(repository, remote)
    project = await is_kept(pushing, repository)
    hook = repository / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'not on <b>Mondays</b>'\nexit 1\n")
    hook.chmod(0o755)
    stand_in(tmp_path, "gh", "echo 'gh: not logged in' >&2; exit 4")
    with browser.person(address_of(pushing, project), width=1280, height=900) as person:
        opens(person, project)
        person.clicks(PUSH)
        person.clicks("dialog label:has-text('Create a pull request with gh') input")
        person.fills("dialog input[type=text]", "My own title")
        person.clicks("dialog button:has-text('Push and create pull request')")
        person.sees("dialog .notice", "The push failed")
        person.sees("dialog .remark-lines", "not on <b>Mondays</b>")
        assert tip(remote) == ""
        hook.unlink()
        person.clicks("dialog button:has-text('Push and create pull request')")
        person.sees("dialog [role=status]", "Pushed work to origin.")
        person.sees("dialog .notice", "gh did not create a pull request.")
        person.sees("dialog .remark-lines", "gh: not logged in")
        person.sees("dialog button:has-text('Create pull request')")
        assert tip(remote)
        person.presses("Escape")
        person.loses("dialog")
        stand_in(tmp_path, "gh", f"echo {ADDRESS}")
        person.clicks(PUSH)
        person.sees("dialog form p", "There is nothing new to push from work to origin.")
        assert person("value", css="dialog input[type=text]") == "My own title"
        person.clicks("dialog button:has-text('Push and create pull request')")
        person.sees("dialog .address a", ADDRESS)


@pytest.mark.slow
async def test_pushes_are_offered_only_where_they_are_allowed(
    browser: Browser, own_server: Server, repository: Path, tmp_path: Path
) -> None:
    add_remote(repository, tmp_path / "remote.git")
    project = await is_kept(own_server, repository)
    async with own_server.client() as client:
        assert "review_push" not in (await client.ask("hello"))["data"]["features"]
    with browser.person(address_of(own_server, project), width=1280, height=900) as person:
        opens(person, project)
        assert not person("visible", css=PUSH)


@pytest.mark.slow
async def test_a_push_by_another_client_is_shown(
    browser: Browser, pushing: Server, repository: Path, tmp_path: Path
) -> None:
    add_remote(repository, tmp_path / "remote.git")
    project = await is_kept(pushing, repository)
    with browser.person(address_of(pushing, project), width=1280, height=900) as person:
        opens(person, project)
        person.sees(PUSH)
        async with pushing.client() as client:
            offer = (await client.ask("review_get", project_id=project))["data"]["push"]
            await client.ask("review_push", {"version": offer["version"]}, project)
        person.loses(PUSH)
        person.until("document.body.innerText.includes('pushed work to origin.')")


@pytest.mark.slow
async def test_a_commit_requires_a_git_identity(
    browser: Browser, tmp_path: Path, directory: Path, repository: Path
) -> None:
    options = ("--no-tls", "--allow", directory.parent, "--allow-commit")
    async with serving(tmp_path / "data", *options) as server:
        project = await is_kept(server, repository)
        git(repository, "config", "--unset", "user.email")
        git(repository, "config", "user.useConfigOnly", "true")
        with browser.person(address_of(server, project), width=1280, height=900) as person:
            opens_commit(person, project)
            person.sees("dialog .notice", "The changes can't be committed: git does not know your name and email.")
            assert person.runs("document.querySelector('dialog button[type=submit]').disabled")


@pytest.mark.slow_for("1440-900", "320-568", "768-1024", "844-390")
@pytest.mark.thorough
@pytest.mark.parametrize(("width", "height"), [(1440, 900), (768, 1024), (390, 844), (320, 568), (844, 390)])
async def test_the_push_dialog_fits_and_is_accessible(
    browser: Browser, pushing: Server, repository: Path, tmp_path: Path, width: int, height: int
) -> None:
    add_remote(repository, tmp_path / "remote.git", GITHUB)
    git(repository, "checkout", "-q", "-b", "a-long-name-of-a-branch/" + "that-says-everything-" * 4)
    stand_in(tmp_path, "gh", f"echo {ADDRESS}{'0' * 80}")
    project = await is_kept(pushing, repository)
    with browser.person(address_of(pushing, project), width=width, height=height) as person:
        opens(person, project)
        if not person("visible", css="button:has-text('Push…')"):
            person.clicks(".pager button:has-text('Files')")
        person.clicks("button:has-text('Commit…')")
        person.sees("dialog form .author")
        assert person("axe", file=str(programs.axe())) == []
        assert person.runs(WIDER) == []
        person.presses("Escape")
        person.loses("dialog")
        person.clicks("button:has-text('Push…')")
        person.clicks("dialog label:has-text('Create a pull request with gh') input")
        person.sees("dialog textarea")
        assert person("axe", file=str(programs.axe())) == []
        assert person.runs(WIDER) == []
        person.clicks("dialog button[type=submit]")
        person.sees("dialog .address a")
        assert person("axe", file=str(programs.axe())) == []
        assert person.runs(WIDER) == []
