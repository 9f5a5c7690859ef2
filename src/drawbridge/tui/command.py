"""``drawbridge attach`` and ``drawbridge review``: finds the server, reports what is wrong, and opens the screen."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from drawbridge.core.errors import BadSetting
from drawbridge.core.own_command import own_command
from drawbridge.core.terminal_text import Terminal
from drawbridge.settings.attach import AttachSettings
from drawbridge.text.review_words import no_session, numbers
from drawbridge.tui.app import AttachApp, StartView
from drawbridge.tui.client import Client
from drawbridge.tui.colors import Palette, of_terminal
from drawbridge.tui.server_address import Finder, is_here

LISTED: Final = 10
"""The maximum number of projects that an error lists."""


class NoReview(Exception):
    """Raised if no review can be shown. The text gives the user the reason. ``is_failure``: whether the server could
    not read the review."""

    def __init__(self, text: str, *, is_failure: bool = False) -> None:
        super().__init__(text)
        self.is_failure = is_failure


def run(project: str | None, settings: AttachSettings) -> int:
    """Runs ``drawbridge attach`` until the user quits, and returns the exit code. ``project``: the name, path or id of
    the project to show; None shows the list of projects. Raises ``NoServer`` or ``BadSetting``."""
    finder = _finder(settings, elsewhere=True)
    directory = os.path.realpath(project) if project and os.path.isdir(project) else ""
    asyncio.run(attach(finder, project, directory, of_terminal()))
    return 0


def review(given: str, settings: AttachSettings, *, ends_server: bool = False) -> int:
    """Like ``run``, but shows the review of a directory, or prints why nothing can be shown. In that case, the exit
    code is 1 if the server could not read the review, otherwise 0. ``ends_server``: whether the server ends with the
    command. Raises ``NoServer`` or ``BadSetting``."""
    finder = _finder(settings, elsewhere=False)
    directory = os.path.realpath(given)
    if is_here(finder.find().url) and not os.path.isdir(directory):
        what = "is not a directory" if os.path.exists(directory) else "can't be found"
        raise BadSetting(f"{given} {what}. Name a directory whose changes you want to review.")
    try:
        asyncio.run(decide(finder, directory, of_terminal(), ends_server=ends_server))
    except NoReview as reason:
        shown = Terminal(sys.stdout)
        shown.write(f"{shown.plain(str(reason))}\n")
        return int(reason.is_failure)
    return 0


def _finder(settings: AttachSettings, *, elsewhere: bool) -> Finder:
    finder = Finder(settings.url, settings.token_file, settings.ca, settings.fingerprint, elsewhere=elsewhere)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadSetting(
            "requires a terminal for its input and output. Run it without pipes and redirections. "
            "Over SSH, use `ssh -t`."
        )
    return finder


async def attach(finder: Finder, project: str | None, directory: str, palette: Palette) -> None:
    """Runs the client. Errors are raised before anything is drawn, so that the user sees them."""
    client = Client(finder.find)
    first = await begin(client, project, directory if is_here(finder.find().url) else "")
    with in_written_order():
        await AttachApp(client, palette, first).run_async()


async def decide(finder: Finder, directory: str, palette: Palette, *, ends_server: bool = False) -> None:
    """Like ``attach``, but shows a review first. ``ends_server``: as in ``review``. Also raises ``NoReview``."""
    client = Client(finder.find)
    first = await begin_review(client, directory)
    with in_written_order():
        await AttachApp(client, palette, first, ends_server=ends_server).run_async()


@contextlib.contextmanager
def in_written_order() -> Iterator[None]:
    """Keeps the terminal from reordering text (``Terminal.keep_order``), for the duration of the context."""
    assert sys.__stdout__ is not None, "the command has already checked for a terminal"
    terminal = Terminal(sys.__stdout__)
    terminal.keep_order(True)
    try:
        yield
    finally:
        terminal.keep_order(False)


async def begin_review(client: Client, directory: str) -> StartView:
    """Connects and returns the review to show first: the first one with changes to decide on. Searches the projects in
    ``directory``, then those in each directory above it.

    Raises ``NoReview``, with the connection closed, if no such review is found, and ``NoServer`` or ``BadSetting``.
    """
    is_known, problem, missing = False, "", ""
    await client.connection.open()
    client.projects.apply(await client.connection.first("project_list"))
    for path in (directory, *map(str, Path(directory).parents)):
        # All terminal sessions of a directory share one review.
        there = (one for one in reversed(client.projects.sorted()) if one["path"] == path)
        reviews = {bool(one.get("desk")): one["id"] for one in there}
        for project in reviews.values():
            found = await client.connection.first("review_get", project)
            if found["type"] != "review":
                # If a nearer review was read, an error above it does not concern this directory.
                problem = problem or ("" if is_known else str(found["data"]["message"]))
            elif numbers(found["data"]).files:
                return StartView(project=project, review=True)
            else:
                is_known = True
                if path == directory:
                    missing = missing or str(found["data"].get("missing") or "")
    await client.connection.close()
    if problem:
        raise NoReview(f"The review can't be shown: {problem}", is_failure=True)
    if is_known:
        raise NoReview(" ".join(filter(None, (f"There is nothing to review in {directory}.", missing))))
    raise NoReview(no_session(directory))


async def begin(client: Client, project: str | None, directory: str) -> StartView:
    """Connects and returns the view to show first. Raises ``NoServer`` or ``BadSetting``.

    ``directory``: ``project`` as a path on the server's machine; empty if it is not a directory, or if the server is on
    another machine.
    """
    await client.connection.open()
    if project is None:
        return StartView()
    client.projects.apply(await client.connection.first("project_list"))
    found = client.projects.named(project, directory)
    if len(found) == 1:
        return StartView(project=str(found[0]["id"]))
    if not found and directory:
        return StartView(directory=directory)
    await client.connection.close()
    if found:
        raise BadSetting(ambiguous_words(project, [(str(one["id"]), str(one["path"])) for one in found]))
    paths = list(dict.fromkeys(one["path"] for one in client.projects.sorted()))
    names = ", ".join(paths[:LISTED])
    which = "Its projects are" if len(paths) <= LISTED else "Some of its projects are"
    there = f"{which} {names}" if names else "It has no projects yet"
    raise BadSetting(
        f"The server has no project {project}. {there}. To add one, run `{own_command()} attach` and press n or, on the "
        "server's machine, run `drawbridge attach DIRECTORY`."
    )


def ambiguous_words(name: str, found: Sequence[tuple[str, str]]) -> str:
    """Lists the projects that ``name`` identifies, by path or, if several have the same path (such as the terminal
    sessions in a directory), by ID. ``found``: their ids and paths."""
    has_paths = len({path for _, path in found}) == len(found)
    listed = [path if has_paths else f"{id} ({path})" for id, path in found]
    names = ", ".join(listed[:LISTED]) + (f" and {len(found) - LISTED} more" if len(found) > LISTED else "")
    return f"{name} is ambiguous: the server has {names}. Choose one by its {'path' if has_paths else 'ID'}."
