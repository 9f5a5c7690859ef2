"""``drawbridge review`` opens the review of a directory, on a running server or on one that the command starts."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drawbridge.tui.client import Client
from drawbridge.tui.command import NoReview, begin_review
from drawbridge.tui.server_address import Finder
from tests import programs
from tests.ide.processes import run
from tests.rigs.reviews import LINES, decides, make_repository, poem
from tests.rigs.tmux import Pane, Tmux, wait_until
from tests.server.processes import Server, serving
from tests.tui.conftest import make_project
from tests.tui.review.test_reviewing import hunks, runs
from tests.tui.test_coming_back import free_port


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of a user, with a repository in ``blog`` and with settings for a server."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DRAWBRIDGE_SERVE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DRAWBRIDGE_SERVE_PORT", str(free_port()))  # another user's server may use the default port
    (tmp_path / "blog").mkdir()
    make_repository(tmp_path / "blog")
    return tmp_path


@pytest.fixture
def blog(home: Path) -> Path:
    return home / "blog"


def text(blog: Path) -> str:
    return (blog / "poem.txt").read_text()


async def work(server: Server, blog: Path) -> str:
    """Executes a run that leaves something to review. Returns the project's id."""
    await make_project(server, blog)
    return await runs(server, blog, {"poem.txt": poem(line_5="LINE 5", line_30="LINE 30")})


def at_a_terminal(directory: Path, *arguments: str) -> Iterator[Pane]:
    with Tmux.server(columns=240, rows=30) as tmux:
        # What is printed just before a terminal closes may be lost, so the terminal outlives the command.
        command = ["sh", "-c", '"$@"; echo "exit code $?"; exec cat', "sh"]
        command += [sys.executable, "-m", "drawbridge", "review", *arguments]
        yield tmux.start("review", command, cwd=directory, environment=os.environ)


async def in_a_terminal(act: Callable[[Pane], None], directory: Path, *arguments: str) -> None:
    def go() -> None:
        for pane in at_a_terminal(directory, *arguments):
            act(pane)

    programs.tmux()
    await asyncio.to_thread(go)


def asks(pane: Pane) -> None:
    """Presses ``X`` until the question appears. The review ignores keys at first, and a key that is pressed too early
    may extend that time."""
    pressed: float | None = None

    def is_asked() -> bool | None:
        nonlocal pressed
        if "Undo 2 changes in 1 file?" in pane.screen:
            return True
        if pressed is None or time.monotonic() - pressed > 2:
            pressed = time.monotonic()
            pane.type("X")
        return None

    wait_until(is_asked)


@pytest.mark.thorough
async def test_without_a_server_the_review_command_starts_its_own(home: Path, blog: Path) -> None:
    """The server that the command starts ends with it."""
    async with serving(home / "data", "--no-tls") as server:
        await work(server, blog)

    def undoes_all(pane: Pane) -> None:
        pane.wait_for("Review of blog", "poem.txt", "LINE 5")
        asks(pane)
        pane.type("y")
        pane.wait_for("Nothing to review")
        assert (home / "data" / "server.json").exists(), "a phone could follow"
        pane.press("Escape")
        pane.wait_for("undid 2 changes")
        pane.type("/Fix the notes")
        pane.press("Enter")
        pane.wait_for("Working")
        pane.press("C-q")
        pane.wait_for(r"Quit and stop the run\?")
        pane.type("y")
        pane.wait_for(r"exit code 0\b")

    await in_a_terminal(undoes_all, blog)
    assert text(blog) == "".join(LINES)
    assert not (home / "data" / "server.json").exists(), "the server has ended with the command"

    def reads(pane: Pane) -> None:
        pane.wait_for(r"There is nothing to review in .*/blog\.")
        pane.wait_for(r"exit code 0\b")

    await in_a_terminal(reads, home, "blog")


@pytest.mark.slow
async def test_a_running_server_is_used(home: Path, blog: Path) -> None:
    (blog / "src").mkdir()
    async with serving(home / "data", "--no-tls") as server:
        await work(server, blog)

        def leaves(pane: Pane) -> None:
            pane.wait_for("Review of blog", "LINE 5")
            pane.press("Escape")
            pane.wait_for("blog +Connected")
            pane.press("C-q")
            pane.wait_for(r"exit code 0\b")

        await in_a_terminal(leaves, blog / "src")
        async with server.client() as client:
            assert (await client.ask("project_list"))["data"]["projects"], "it runs on"


@pytest.mark.thorough
async def test_only_a_review_with_changes_is_opened(home: Path, blog: Path) -> None:
    async with serving(home / "data", "--no-tls") as server:
        with pytest.raises(NoReview, match=r"^Nothing to review: the server has no session in .*/blog\.$") as nothing:
            await begin_review(Client(Finder().find, "Ada"), str(blog))
        assert not nothing.value.is_failure
        project = await work(server, blog)
        for inside in (blog, blog / "src" / "deep"):
            client = Client(Finder().find, "Ada")
            first = await begin_review(client, str(inside))
            await client.connection.close()
            assert (first.project, first.review) == (project, True)
        with pytest.raises(NoReview, match=r"^Nothing to review: the server has no session in "):
            await begin_review(Client(Finder().find, "Ada"), str(home))
        await decides(server, project, hunks=(await hunks(server, project))["poem.txt"], decision="keep")
        with pytest.raises(NoReview, match=r"^There is nothing to review in .*/blog/src\.$"):
            await begin_review(Client(Finder().find, "Ada"), str(blog / "src"))


@pytest.mark.slow
async def test_the_reason_why_no_review_is_shown_is_printed(home: Path, blog: Path) -> None:
    async with serving(home / "data", "--no-tls") as server:
        await work(server, blog)
    (home / "elsewhere").mkdir()

    def reads(pane: Pane) -> None:
        pane.wait_for(
            r"The review can't be shown: The session's directory is outside the directories that the owner allows"
        )
        pane.wait_for(r"exit code 1\b")

    async with serving(home / "data", "--no-tls", "--allow", home / "elsewhere"):
        await in_a_terminal(reads, blog)


EMPTY: dict[str, Any] = {"type": "review", "data": {"files": [], "more": 0}}
ELSEWHERE: dict[str, Any] = {"type": "review", "data": {**EMPTY["data"], "missing": "The agent worked in ../b."}}
ERROR: dict[str, Any] = {"type": "error", "data": {"code": "CHECKPOINT_NOT_FOUND", "message": "Too large to review."}}


@pytest.mark.parametrize(
    ("inside", "above", "words"),
    [
        (EMPTY, ERROR, "There is nothing to review in /home/ada/blog."),
        (ERROR, EMPTY, "The review can't be shown: Too large to review."),
        (ELSEWHERE, EMPTY, "There is nothing to review in /home/ada/blog. The agent worked in ../b."),
        (EMPTY, ELSEWHERE, "There is nothing to review in /home/ada/blog."),
    ],
)
async def test_the_reason_for_an_empty_review_is_the_nearest_one(
    inside: dict[str, Any], above: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = {"approvals": [], "last_active": "", "last_seq": 1}
    projects = [{**project, "id": "a", "path": "/home/ada"}, {**project, "id": "b", "path": "/home/ada/blog"}]

    async def first(type: str, project: str | None = None) -> dict[str, Any]:
        listed = {"type": "project_list", "data": {"projects": projects}}
        return listed if project is None else {"a": above, "b": inside}[project]

    async def nothing() -> None:
        pass

    client = Client(Finder().find, "Ada")
    for name, act in (("open", nothing), ("first", first), ("close", nothing)):
        monkeypatch.setattr(client.connection, name, act)
    with pytest.raises(NoReview) as reason:
        await begin_review(client, "/home/ada/blog")
    assert str(reason.value) == words
    assert reason.value.is_failure == (inside is ERROR)


async def test_a_server_that_does_not_start_reports_why(blog: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAWBRIDGE_SERVE_ALLOW", str(blog / "missing"))

    def reads(pane: Pane) -> None:
        pane.wait_for("drawbridge review: The review can't be shown: .*missing.* \\[BAD_SETTING\\]")
        pane.wait_for(r"exit code 2\b")

    await in_a_terminal(reads, blog)


async def test_a_path_that_is_not_a_directory_is_reported(home: Path, blog: Path) -> None:
    def reads(pane: Pane) -> None:
        pane.wait_for("drawbridge review: poem.txt is not a directory")
        pane.wait_for(r"exit code 2\b")

    await in_a_terminal(reads, blog, "poem.txt")


async def test_without_a_terminal_nothing_is_started(home: Path) -> None:
    code, output, errors = await run("review", "blog")
    assert (code, output) == (2, "")
    assert errors.startswith("drawbridge review: requires a terminal for its input and output.")
    assert not (home / "data").exists()
