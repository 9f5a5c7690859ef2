"""``drawbridge attach``: finds the server, reports what is wrong, and opens the screen."""

from __future__ import annotations

import asyncio
import os
import sys

from drawbridge.core.errors import BadSetting
from drawbridge.settings.attach import AttachSettings
from drawbridge.tui.app import AttachApp, StartView
from drawbridge.tui.client import Client
from drawbridge.tui.colours import Palette, of_terminal
from drawbridge.tui.server_address import Finder, is_here


def run(project: str | None, settings: AttachSettings) -> int:
    """Blocks until the person leaves; the exit code. ``project``: its name, path or id."""
    finder = Finder(settings.url, settings.token_file, settings.ca, settings.fingerprint)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadSetting("attach requires a terminal for its input and output.")
    directory = os.path.realpath(project) if project and os.path.isdir(project) else ""
    asyncio.run(attach(finder, project, directory, of_terminal()))
    return 0


async def attach(finder: Finder, project: str | None, directory: str, palette: Palette) -> None:
    """Raises an error that the person has to see before anything is drawn."""
    client = Client(finder.find)
    first = await begin(client, project, directory if is_here(finder.find().url) else "")
    await AttachApp(client, palette, first).run_async()


async def begin(client: Client, project: str | None, directory: str) -> StartView:
    """Connects and returns what to show first. Raises ``NoServer`` or ``BadSetting``.

    ``directory``: ``project`` as a path on the server's machine; empty if the server is on another machine.
    """
    await client.connection.open()
    if project is None:
        return StartView()
    client.projects.take(await client.connection.first("project_list"))
    found = client.projects.named(project, directory)
    if len(found) == 1:
        return StartView(project=str(found[0]["id"]))
    if not found and directory:
        return StartView(directory=directory)
    await client.connection.close()
    names = ", ".join(one["path"] for one in found or client.projects.sorted()[:10])
    if found:
        raise BadSetting(f"{project} is ambiguous: the server has {names}. Give a path.")
    there = f"Its projects are {names}" if names else "It has none yet"
    raise BadSetting(
        f"The server has no project {project}. {there}. To add one, run `drawbridge attach` and press n, or name its directory."
    )
